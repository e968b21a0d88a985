"""Make a back-end by its name."""

from pathlib import Path

from costgym.simulators.errors import ConfigError, DataError, check_known
from costgym.simulators.opencatp.backends.base import Backend

BACKENDS = ("tiny", "published")


def make_backend(name: str, weights: str | Path | None = None, download: bool = False, device: str = "cpu") -> Backend:
    """The back-end ``tiny`` or ``published`` with the given, shipped or cached weights; ConfigError: `tiny` cannot download."""
    check_known("back-end", name, BACKENDS)
    if weights is not None and not Path(weights).is_dir():
        raise DataError(weights, "expected a folder of weights")
    if name == "published":
        from costgym.simulators.opencatp.backends.published import PublishedBackend

        return PublishedBackend(weights, device=device, download=download)
    if download:
        raise ConfigError("--download", "the tiny back-end ships with its weights; only --backend published can fetch any")
    from costgym.simulators.opencatp.backends.tiny import WEIGHTS, TinyBackend

    return TinyBackend(WEIGHTS if weights is None else weights, device)

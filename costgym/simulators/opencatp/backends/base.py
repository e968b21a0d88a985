"""The interface to executed tools, the same for every back-end."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.errors import DataError, check_known
from costgym.simulators.opencatp.scenes.degrade import check_images

RESTORERS = ("image_denoising", "image_super_resolution", "image_deblurring", "image_colorization")
READERS = ("image_classification", "object_detection", "image_captioning")
TEXT_TOOLS = ("machine_translation", "text_summarization", "sentiment_analysis")
ALL_TOOLS = RESTORERS + READERS + TEXT_TOOLS

Images = NDArray[np.uint8]  # (n, height, width, 3)


class Backend(Protocol):
    """Executes tools: `tiny` (our own networks, shipped), `packaged` (weights from packages) or `published` (the paper's)."""

    @property
    def name(self) -> str: ...

    def run(self, tool: str, inputs: Images | Sequence[str]) -> Images | list[str]:
        """Run one tool on (n, height, width, 3) uint8 images or on texts.

        Restorers give images of the inputs' size (published super-resolution: twice the size), the others one text each. Raises
        UnknownName, or DataError for inputs of another kind, dtype or shape and for weights that are missing.
        """
        ...


def check_inputs(tool: str, inputs: Images | Sequence[str]) -> None:
    """Refuse a tool that is none and inputs that are not of its kind; see `Backend.run`."""
    check_known("tool", tool, ALL_TOOLS)
    if tool in TEXT_TOOLS:
        if isinstance(inputs, (np.ndarray, str)) or not all(isinstance(t, str) for t in inputs):
            got = type(inputs).__name__
            raise DataError(f"inputs of {tool}", f"expected a list of texts, got {got}; pass one str per text")
    elif not isinstance(inputs, np.ndarray):
        raise DataError(f"inputs of {tool}", f"expected images as a uint8 array, got {type(inputs).__name__}")
    else:
        check_images(inputs, f"inputs of {tool}")


def as_tensor(images: Images, device: str) -> Any:
    """Images as a torch tensor on a device, (n, 3, height, width) in [0, 1]."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(images)).to(device).permute(0, 3, 1, 2).float() / 255


def run_images(backend: Backend, tool: str, images: Images) -> Images:
    """`Backend.run` for a restorer."""
    out = backend.run(tool, images)
    if not isinstance(out, np.ndarray):
        raise DataError(f"output of {tool}", f"expected images, got {type(out).__name__}; name a restorer")
    return out


def run_texts(backend: Backend, tool: str, inputs: Images | Sequence[str]) -> list[str]:
    """`Backend.run` for a reader or a text tool."""
    out = backend.run(tool, inputs)
    if isinstance(out, np.ndarray):
        raise DataError(f"output of {tool}", "expected texts, got images; name a reader or a text tool")
    return out

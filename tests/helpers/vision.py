"""Measures of images and short ways to the vision tools, for tests and benchmarks of what the tools do."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.opencatp.backends.base import Backend, Images, run_images
from costgym.simulators.opencatp.backends.measures import lab
from costgym.simulators.opencatp.scenes.degrade import BLUR, GREY, LOW_RESOLUTION, NOISE
from costgym.simulators.opencatp.scoring.similarity import image_features

REPAIRS = {
    LOW_RESOLUTION: "image_super_resolution",
    NOISE: "image_denoising",
    BLUR: "image_deblurring",
    GREY: "image_colorization",
}


def run_chain(backend: Backend, chain: Sequence[str], images: Images) -> Images:
    """Restorers one after the other; an empty chain gives the images back."""
    for tool in chain:
        images = run_images(backend, tool, images)
    return images


def psnr(images: Images, wanted: Images) -> NDArray[np.float64]:
    """Peak signal-to-noise ratio per image, dB, (n,); infinite for equal images."""
    error = np.mean((images.astype(np.float64) - wanted) ** 2, axis=(1, 2, 3))
    with np.errstate(divide="ignore"):
        ratio: NDArray[np.float64] = 10 * np.log10(255.0**2 / error)
    return ratio


def delta_e(images: Images, wanted: Images) -> NDArray[np.float64]:
    """Mean CIE76 colour difference per image, (n,)."""
    difference: NDArray[np.float64] = np.linalg.norm(lab(images) - lab(wanted), axis=-1).mean((1, 2))
    return difference


def image_score(image: NDArray[np.uint8], wanted: NDArray[np.uint8]) -> float:
    """Cosine of centred features of two images, (height, width, 3): 1 for the same image, near 0 for unrelated ones."""
    a, b = image_features(image[None])[0].astype(np.float64), image_features(wanted[None])[0].astype(np.float64)
    return float(np.clip(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)), -1.0, 1.0))

"""The four degradations and their 15 combinations, in the paper's order.

What happens to an image happens in the order of a camera: the lens blurs (a disc, as out of focus), the sensor has too few
pixels (behind an anti-aliasing filter; bicubic back to size), its pixels are noisy, and the picture is stored without
colour. So the best restoration runs backwards: denoise, super-resolve, deblur, colourise. Blur, resolution and grey are
sums of integers with integer weights, exact on every machine.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.errors import DataError, UnknownName, check_known

LOW_RESOLUTION, NOISE, BLUR, GREY = "low-resolutioned", "noisy", "blurry", "grayscale"
KINDS = (LOW_RESOLUTION, NOISE, BLUR, GREY)

_COLOURED: tuple[tuple[str, ...], ...] = (
    (LOW_RESOLUTION, NOISE, BLUR),
    (NOISE, BLUR),
    (LOW_RESOLUTION, BLUR),
    (BLUR,),
    (LOW_RESOLUTION, NOISE),
    (NOISE,),
    (LOW_RESOLUTION,),
)
# D_0 .. D_14 of the task descriptions. Source: OpenAGI task descriptions as used by OpenCATP.
COMBINATIONS: tuple[tuple[str, ...], ...] = (*((*c, GREY) for c in _COLOURED), (GREY,), *_COLOURED)
NAMES = tuple(" ".join(c) for c in COMBINATIONS)

FACTOR = 2  # low resolution keeps every second pixel in each direction
NOISE_SIGMA = 36.0  # of 255

# A disc of radius 2.4 px, area covered in tenths of a pixel.
_DISC = np.array(
    [[0, 6, 10, 6, 0], [6, 10, 10, 10, 6], [10, 10, 10, 10, 10], [6, 10, 10, 10, 6], [0, 6, 10, 6, 0]], dtype=np.float64
)
# What one pixel of the coarse sensor sees of a row: its anti-aliasing filter (binomial), in 128ths.
_SENSOR = (1, 7, 21, 35, 35, 21, 7, 1)
# Catmull-Rom a quarter of a coarse pixel left and right of its centre, in 128ths.
_CUBIC = ((-3, 29, 111, -9), (-9, 111, 29, -3))
_LUMA = np.array([299.0, 587.0, 114.0])


def combination(name_or_index: str | int) -> tuple[str, ...]:
    """The degradations of D_0 .. D_14, by number or by the words of `NAMES`; raises UnknownName for anything else."""
    if isinstance(name_or_index, str):
        check_known("degradation", name_or_index, NAMES)
        return COMBINATIONS[NAMES.index(name_or_index)]
    if not 0 <= name_or_index < len(COMBINATIONS):
        raise UnknownName("degradation", str(name_or_index), (str(i) for i in range(len(COMBINATIONS))))
    return COMBINATIONS[name_or_index]


def check_images(images: NDArray[np.uint8], argument: str) -> NDArray[np.uint8]:
    """A batch of RGB images as (n, height, width, 3) uint8, or an error that says what came instead."""
    array = np.asarray(images)
    if array.dtype != np.uint8 or array.ndim != 4 or array.shape[3] != 3 or min(array.shape[1:3]) < 8:
        raise DataError(
            argument, f"expected RGB images as uint8 (n, height, width, 3) of at least 8 px, got {array.dtype} {array.shape}"
        )
    return array


def blur(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Out of focus by a disc of 2.4 px; edges are mirrored."""
    padded = np.pad(images.astype(np.float32), ((0, 0), (2, 2), (2, 2), (0, 0)), mode="symmetric")
    h, w = images.shape[1:3]
    total = np.zeros(images.shape, np.float32)
    for dy, dx in np.argwhere(_DISC > 0):
        total += np.float32(_DISC[dy, dx]) * padded[:, dy : dy + h, dx : dx + w]
    return _rounded(total, _DISC.sum())


def inverse_of_blur(size: int = 21, regularisation: float = 0.01) -> NDArray[np.float64]:
    """The Wiener filter against `blur`, (size, size), sum 1: what a sharpener that knows the lens starts from."""
    spectrum = 64
    lens = np.zeros((spectrum, spectrum))
    lens[:5, :5] = _DISC / _DISC.sum()
    # shifted to the origin, where a symmetric kernel has a real spectrum
    response = np.fft.fft2(np.roll(lens, (-2, -2), (0, 1))).real  # the disc is symmetric
    kernel = np.fft.fftshift(np.fft.ifft2(response / (response**2 + regularisation)).real)
    middle, reach = spectrum // 2, size // 2
    window = kernel[middle - reach : middle + reach + 1, middle - reach : middle + reach + 1]
    out: NDArray[np.float64] = window / window.sum()
    return out


def _low_resolution_matrix(size: int) -> NDArray[np.float64]:
    """(size, size): the sensor's filter at every second pixel, then bicubic back, times 128 * 128."""
    cells = -(-size // FACTOR)
    down, up = np.zeros((cells, size)), np.zeros((size, cells))
    for cell in range(cells):
        for k, weight in enumerate(_SENSOR):
            down[cell, min(max(FACTOR * cell - 3 + k, 0), size - 1)] += weight
    for pixel in range(size):
        cell, half = divmod(pixel, FACTOR)
        for k, weight in enumerate(_CUBIC[half]):
            up[pixel, min(max(cell - 2 + half + k, 0), cells - 1)] += weight
    return up @ down


def low_resolution(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Half the resolution in each direction, brought back to size by bicubic interpolation; edges are repeated."""
    rows, columns = (_low_resolution_matrix(n) for n in images.shape[1:3])
    planes = np.moveaxis(images, 3, 1).astype(np.float64)  # (n, 3, h, w)
    return _rounded(np.moveaxis(rows @ planes @ columns.T, 1, 3), float(128**4))


def _rounded(total: NDArray[np.floating], weight: float) -> NDArray[np.uint8]:
    return np.clip(np.floor(total.astype(np.float64) / weight + 0.5), 0, 255).astype(np.uint8)


def noise_field(shape: Sequence[int], rng: np.random.Generator) -> NDArray[np.float32]:
    """Grain of `NOISE_SIGMA` for images (n, height, width, 3), to be added before rounding.

    Neighbouring pixels share some of it (a binomial window of 3 pixels), as where a camera computes colours from its sensor.
    """
    n, height, width, channels = shape
    white = rng.standard_normal((n, height + 2, width + 2, channels), dtype=np.float32)
    rows = white[:, :-2] + 2 * white[:, 1:-1] + white[:, 2:]
    both = rows[:, :, :-2] + 2 * rows[:, :, 1:-1] + rows[:, :, 2:]
    grain: NDArray[np.float32] = both * np.float32(
        NOISE_SIGMA / 6
    )  # the window's weights 1, 2, 1 have the length sqrt(6) in each direction
    return grain


def add_noise(images: NDArray[np.uint8], field: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Images with a noise field of the same shape, rounded and clipped."""
    out: NDArray[np.uint8] = np.clip(np.rint(images + field), 0, 255).astype(np.uint8)
    return out


def grey(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Luma (0.299, 0.587, 0.114) in all three channels."""
    luma = _rounded(images.astype(np.float64) @ _LUMA, 1000.0)  # (n, h, w)
    return np.stack([luma, luma, luma], axis=3)


def apply(images: NDArray[np.uint8], kinds: Sequence[str], field: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Degrade a batch (n, height, width, 3) in a fixed order, whatever that of `kinds`; noise is taken from `field`."""
    images = check_images(images, "images to degrade")
    for kind in kinds:
        check_known("degradation", kind, KINDS)
    if BLUR in kinds:
        images = blur(images)
    if LOW_RESOLUTION in kinds:
        images = low_resolution(images)
    if NOISE in kinds:
        images = add_noise(images, field)
    return grey(images) if GREY in kinds else images


def degrade(image: NDArray[np.uint8], name_or_index: str | int, seed: int, index: int) -> NDArray[np.uint8]:
    """Degrade one image, (height, width, 3), by a combination; the noise is that of scene `index` in the world `seed`."""
    kinds = combination(name_or_index)
    rng = np.random.default_rng((seed, index, COMBINATIONS.index(kinds), 77))
    out: NDArray[np.uint8] = apply(image[None], kinds, noise_field(image[None].shape, rng))[0]
    return out

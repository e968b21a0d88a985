"""Plain image measures: signal to noise and colour difference."""

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.uint8]  # (n, height, width, 3)

# sRGB (D65) to XYZ, and the D65 white point. Source: IEC 61966-2-1, CIE 15.
_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])
_WHITE = np.array([0.95047, 1.0, 1.08883])


def psnr(images: Images, wanted: Images) -> NDArray[np.float64]:
    """Peak signal-to-noise ratio per image, dB, (n,); infinite for equal images."""
    error = np.mean((images.astype(np.float64) - wanted) ** 2, axis=(1, 2, 3))
    with np.errstate(divide="ignore"):
        ratio: NDArray[np.float64] = 10 * np.log10(255.0**2 / error)
    return ratio


def lab(images: Images) -> NDArray[np.float64]:
    """CIE L*a*b* (D65) of sRGB images, same shape."""
    srgb = images.astype(np.float64) / 255
    # gamma is undone first: colours add up in light, not in what a screen is sent
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    ratio = linear @ _XYZ.T / _WHITE
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack([116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], -1)


def delta_e(images: Images, wanted: Images) -> NDArray[np.float64]:
    """Mean CIE76 colour difference per image, (n,)."""
    difference: NDArray[np.float64] = np.linalg.norm(lab(images) - lab(wanted), axis=-1).mean((1, 2))
    return difference


def srgb(values: NDArray[np.float64]) -> Images:
    """sRGB images of CIE L*a*b* values, clipped to the gamut; the inverse of `lab`."""
    fy = (values[..., 0] + 16) / 116
    f = np.stack([fy + values[..., 1] / 500, fy, fy - values[..., 2] / 200], -1)
    xyz = np.where(f > 6 / 29, f**3, 3 * (6 / 29) ** 2 * (f - 4 / 29)) * _WHITE
    linear = np.clip(xyz @ np.linalg.inv(_XYZ).T, 0, 1)
    gamma = np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    out: Images = np.rint(np.clip(gamma, 0, 1) * 255).astype(np.uint8)
    return out

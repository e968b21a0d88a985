"""Images in CIE L*a*b*, in which distances are differences of colour."""

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.uint8]  # (n, height, width, 3)

# sRGB (D65) to XYZ, and the D65 white point. Source: IEC 61966-2-1, CIE 15.
_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])
_WHITE = np.array([0.95047, 1.0, 1.08883])


def lab(images: Images) -> NDArray[np.float64]:
    """CIE L*a*b* (D65) of sRGB images, same shape."""
    srgb = images.astype(np.float64) / 255
    # gamma is undone first: colours add up in light, not in what a screen is sent
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    ratio = linear @ _XYZ.T / _WHITE
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack([116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], -1)


def srgb(values: NDArray[np.float64]) -> Images:
    """sRGB images of CIE L*a*b* values, clipped to the gamut; the inverse of `lab`."""
    fy = (values[..., 0] + 16) / 116
    f = np.stack([fy + values[..., 1] / 500, fy, fy - values[..., 2] / 200], -1)
    xyz = np.where(f > 6 / 29, f**3, 3 * (6 / 29) ** 2 * (f - 4 / 29)) * _WHITE
    linear = np.clip(xyz @ np.linalg.inv(_XYZ).T, 0, 1)
    gamma = np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    out: Images = np.rint(np.clip(gamma, 0, 1) * 255).astype(np.uint8)
    return out

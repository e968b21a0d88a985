"""Read a folder of photos to execute the vision tools on."""

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from costgym.simulators.errors import DataError
from costgym.simulators.files import read_bytes
from costgym.simulators.opencatp.backends.base import Images
from costgym.simulators.opencatp.tools import size_level

ENDINGS = (".jpg", ".jpeg", ".png", ".webp")
MAX_PHOTOS, MAX_FILE_BYTES, MAX_PIXELS = 1000, 32 * 2**20, 50_000_000


@dataclass(frozen=True, eq=False)
class Photos:
    """The middle square of each photo, all of one size, (n, side, side, 3), with the names and sizes of the files."""

    images: Images
    names: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...]  # (width, height) of each file, px

    def about(self) -> dict[str, Any]:
        """What a table keeps of them: names, size levels, and a hash of the pixels."""
        levels = [size_level(width, height) for width, height in self.sizes]
        digest = hashlib.sha256(self.images.tobytes()).hexdigest()
        return {"names": self.names, "levels": levels, "side": self.images.shape[1], "digest": digest}


def read_photos(folder: Path | str, side: int = 96) -> Photos:
    """Read the photos of a folder in order of their names, at `side` px.

    Raises DataError where there are fewer than two or too many, and for a file that is too large or no image.
    """
    folder = Path(folder)
    paths = sorted(path for path in folder.glob("*") if path.suffix.lower() in ENDINGS)
    if not 2 <= len(paths) <= MAX_PHOTOS:
        endings = ", ".join(ENDINGS)
        raise DataError(folder, f"expected 2 to {MAX_PHOTOS:,} photos ({endings}) in this folder, got {len(paths)}")
    images, sizes = [], []
    for path in paths:
        content = read_bytes(path, MAX_FILE_BYTES)
        try:
            with Image.open(io.BytesIO(content), formats=("JPEG", "PNG", "WEBP")) as image:
                width, height = image.size
                if not min(width, height) >= 8 or width * height > MAX_PIXELS:
                    raise DataError(path, f"expected 8 px or more a side and at most {MAX_PIXELS:,} px, got {width} x {height}")
                middle, left, top = min(width, height), (width - min(width, height)) // 2, (height - min(width, height)) // 2
                square = image.convert("RGB").crop((left, top, left + middle, top + middle))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise DataError(path, f"is no image that can be read ({error}); take it out or convert it") from error
        images.append(np.asarray(square.resize((side, side), Image.Resampling.LANCZOS)))
        sizes.append((width, height))
    return Photos(np.stack(images), tuple(path.name for path in paths), tuple(sizes))

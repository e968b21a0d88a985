"""Read images of one's own, with what is true of them, as samples of the OpenCATP world.

A folder holds the images and a file `images.jsonl` with a line for each::

    {"file": "park.jpg", "label": "dog", "objects": ["dog", "ball"], "caption": "a dog runs after a ball",
     "german": {"label": "Hund", "objects": ["Hund", "Ball"], "caption": "ein Hund läuft einem Ball nach"}}

Without `german`, the back-end's own translation stands for the German truth, as in OpenAGI's data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ConfigError, DataError
from .scene import SIZE, Image

INDEX = "images.jsonl"
LARGEST = 1024  # px
_FIELDS = {"file", "label", "objects", "caption"}


@dataclass(frozen=True, slots=True, eq=False)
class OwnImage:
    """An image with its true texts; it stands where a generated `Scene` does.

    Attributes:
        image: RGB, uint8, (size, size, 3).
        english, german: class, names of the objects with commas between, and caption; German texts may be empty.
    """

    image: Image
    english: tuple[str, str, str]
    german: tuple[str, str, str]

    def label(self, german: bool = False) -> str:
        return (self.german if german else self.english)[0]

    def object_names(self, german: bool = False) -> str:
        return (self.german if german else self.english)[1]

    def caption(self, german: bool = False) -> str:
        return (self.german if german else self.english)[2]


def read_images(folder: str | Path, size: int = SIZE) -> list[OwnImage]:
    """Read the images that a folder lists, cut to the square in their middle and brought to one size.

    Args:
        folder: holds the images and `images.jsonl`.
        size: width and height, px; a multiple of 4.

    Raises:
        ConfigError: the size is out of range.
        DataError: the folder lists fewer than two images, or a line or an image cannot be read.
    """
    if isinstance(size, bool) or not isinstance(size, int) or not 16 <= size <= LARGEST or size % 4:
        raise ConfigError("--image-size", f"expected a multiple of 4 from 16 to {LARGEST} px, got {size!r}")
    index = Path(folder) / INDEX
    try:
        lines = index.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            index, f"cannot be read ({error}); list each image in it, see costgym's guide to vision tools"
        ) from error
    found = [_read(index, number, line, size) for number, line in enumerate(lines, 1) if line.strip()]
    if len(found) < 2:
        raise DataError(index, f"expected at least two images (one to train, one to test), got {len(found)}")
    return found


def images_digest(images: list[OwnImage]) -> str:
    """Hash of all pixels and texts; an outcome table keeps it."""
    state = hashlib.sha256()
    for each in images:
        state.update(f"{each.image.shape}{each.english}{each.german}".encode() + each.image.tobytes())
    return state.hexdigest()[:16]


def with_german(images: list[OwnImage], translate: Callable[[list[str]], list[str]]) -> list[OwnImage]:
    """Fill in missing German texts with translations of the English ones."""
    made = []
    for each in images:
        texts = translate(list(each.english)) if not all(each.german) else list(each.german)
        label, names, caption = (own or other for own, other in zip(each.german, texts, strict=True))
        made.append(replace(each, german=(label, names, caption)))
    return made


def _read(index: Path, number: int, line: str, size: int) -> OwnImage:
    place = f"line {number}"
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(index, f"is not valid JSON ({error})", place) from error
    if not isinstance(record, dict) or not record.keys() >= _FIELDS or not record.keys() <= {*_FIELDS, "german"}:
        got = sorted(record) if isinstance(record, dict) else type(record).__name__
        raise DataError(index, f"expected file, label, objects, caption and perhaps german, got {got}", place)
    german = record.get("german", {})
    if not isinstance(german, dict) or not german.keys() <= {"label", "objects", "caption"}:
        raise DataError(index, f"expected label, objects and caption, got {german!r:.80}", f"{place}, german")
    return OwnImage(
        _pixels(index.parent / str(record["file"]), size), _texts(index, place, record), _texts(index, place, german)
    )


def _texts(index: Path, place: str, record: dict[str, Any]) -> tuple[str, str, str]:
    objects = record.get("objects", [])
    texts = (record.get("label", ""), record.get("caption", ""))
    if not isinstance(objects, list) or not all(isinstance(each, str) for each in (*objects, *texts)):
        raise DataError(index, "expected texts for label and caption, and a list of texts for objects", place)
    label, names, caption = (" ".join(text.split()) for text in (texts[0], ", ".join(objects), texts[1]))
    return label, names, caption


def _pixels(path: Path, size: int) -> Image:
    from PIL import Image as pictures

    try:
        with pictures.open(path) as opened:
            picture = opened.convert("RGB")
    except (OSError, ValueError, pictures.DecompressionBombError) as error:
        raise DataError(path, f"cannot be read as an image: {error}") from error
    # the square in the middle: a stretched picture would change what readers see
    side = min(picture.size)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    square = picture.crop((left, top, left + side, top + side)).resize((size, size), pictures.Resampling.BICUBIC)
    return np.asarray(square, np.uint8)

"""The official OpenCATP data set, as a folder on disk.

::

    task_description.txt                      line i describes task i
    test_task_samples.json                    {"<task>": [sample, ...]}
    <task>/inputs/images/<sample>.jpg         and/or inputs/<name>.txt, line n for sample n
    <task>/outputs/images/<sample>.jpg        and/or outputs/<name>.txt

Texts of a non-sequential task are named by what they are: ``caption-...txt``, ``label-...txt``, ``object-...txt``. Images are
opened when asked for. The data set is not part of this package and states no licence of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from ..errors import ConfigError, DataError, UnknownName
from .levels import size_level
from .tasks import Numbering, OpenCATPTask, _by_id
from .tasks import task as find_task

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")
TEXT_KINDS = ("caption", "label", "object")


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a task.

    Attributes:
        image: The given image, if one is given.
        texts: The given texts by kind.
        wanted_image: The wanted image, if one is wanted.
        wanted_texts: The wanted texts by kind (``text`` for a sequential task).
    """

    task: OpenCATPTask
    sample_id: int
    image: Path | None
    texts: dict[str, str]
    wanted_image: Path | None
    wanted_texts: dict[str, str]

    def size_level(self) -> int:
        """The size level of the input: by the area of the image, else by the length of the text."""
        if self.image is not None:
            width, height = image_size(self.image)
            return size_level(width=width, height=height)
        return size_level(text_length=max((len(text) for text in self.texts.values()), default=0))


@dataclass(frozen=True)
class DatasetFolder:
    """The data set in a folder.

    Attributes:
        root: The folder that holds ``task_description.txt`` and a folder per task.
        numbering: ``old`` or ``new``; ``auto`` decides by the folders' names: any sequential number above 86 or
            non-sequential above 223 is an old one.

    Raises:
        DataError: the folder is not there, or holds no task.
    """

    root: Path
    numbering: Numbering | Literal["auto"] = "auto"
    folders: dict[int, Path] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        root = Path(self.root)
        if not root.is_dir():
            raise DataError(
                root, "no such folder; download the OpenCATP data set and name the folder that holds task_description.txt"
            )
        found = {int(path.name): path for path in sorted(root.iterdir()) if path.is_dir() and path.name.isdecimal()}
        if not found:
            raise DataError(root, "no task folders in it; expected folders named by task number, such as 0 or 201")
        numbering = self.numbering
        if numbering == "auto":
            numbering = "old" if any(86 < number < 200 or number > 223 for number in found) else "new"
        if numbering not in ("old", "new"):
            raise ConfigError("numbering", f"expected old, new or auto, got {numbering!r}")
        known = _by_id(numbering)
        object.__setattr__(self, "root", root)
        object.__setattr__(self, "numbering", numbering)
        object.__setattr__(self, "folders", {known[number].task_id: path for number, path in found.items() if number in known})
        if not self.folders:
            raise DataError(
                root, f"none of the folders {', '.join(map(str, sorted(found)[:10]))} is a task in the {numbering} numbering"
            )

    def tasks(self) -> tuple[OpenCATPTask, ...]:
        """The tasks there are folders for."""
        return tuple(find_task(task_id) for task_id in sorted(self.folders))

    def description(self, task_id: int) -> str:
        """The data set's own words for a task (old numbering)."""
        path = self.root / "task_description.txt"
        lines = _lines(path)
        task = find_task(task_id)
        number = task.task_id if self.numbering == "old" else task.new_id
        if number >= len(lines):
            raise DataError(path, f"has {len(lines)} lines, task {number} has none")
        return lines[number]

    def test_samples(self) -> dict[int, list[int]]:
        """The samples kept for testing, by task (old numbering)."""
        path = self.root / "test_task_samples.json"
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(path, "no such file") from None
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise DataError(path, f"cannot be read as JSON: {error}") from error
        if not isinstance(record, dict):
            raise DataError(path, f'expected {{"<task>": [sample, ...]}}, got {type(record).__name__}')
        known, samples = _by_id(str(self.numbering)), {}
        for key, numbers in record.items():
            if not key.isdecimal() or not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
                raise DataError(path, "expected a task number and a list of sample numbers", f"entry {key!r}")
            if int(key) in known:
                samples[known[int(key)].task_id] = list(numbers)
        return samples

    def samples(self, task_id: int) -> Iterator[Sample]:
        """All samples of a task (old numbering), by sample number.

        Raises:
            UnknownName: no such task, or no folder for it.
            DataError: something in the folder is missing, or is neither images nor texts.
        """
        task = find_task(task_id)
        if task_id not in self.folders:
            raise UnknownName("task folder (old numbering)", str(task_id), (str(number) for number in self.folders))
        folder = self.folders[task_id]
        images, texts = _read_side(folder / "inputs", task)
        wanted_images, wanted_texts = _read_side(folder / "outputs", task)
        parts: list[Mapping[int, Any]] = [images, wanted_images, *texts.values(), *wanted_texts.values()]
        columns: list[set[int]] = [set(part) for part in parts if part]
        if not columns:
            raise DataError(folder, "no samples in it; expected images/ or texts under inputs and outputs")
        everywhere = set.intersection(*columns)
        for sample_id in sorted(set.union(*columns)):
            if sample_id not in everywhere:
                raise DataError(folder, "an image or a line of text is missing", f"sample {sample_id}")
            yield Sample(
                task,
                sample_id,
                images.get(sample_id),
                {kind: lines[sample_id] for kind, lines in texts.items()},
                wanted_images.get(sample_id),
                {kind: lines[sample_id] for kind, lines in wanted_texts.items()},
            )


def load_image(path: str | Path, size: tuple[int, int] | None = None) -> npt.NDArray[np.uint8]:
    """An image as RGB, (height, width, 3) uint8.

    Args:
        size: The (width, height) it must have.

    Raises:
        DataError: it is missing, damaged, no image, or of another size.
    """
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"), dtype=np.uint8)
    except FileNotFoundError:
        raise DataError(path, "no such image") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(path, f"not a readable image: {error}") from error
    if size is not None and pixels.shape[:2] != (size[1], size[0]):
        raise DataError(path, f"expected an image of {size[0]} x {size[1]} px, got {pixels.shape[1]} x {pixels.shape[0]}")
    return pixels


def image_size(path: str | Path) -> tuple[int, int]:
    """Width and height of an image, px, from its header.

    Raises:
        DataError: it is missing, or no image.
    """
    try:
        with Image.open(path) as image:
            return image.size
    except FileNotFoundError:
        raise DataError(path, "no such image") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(path, f"not a readable image: {error}") from error


def _read_side(folder: Path, task: OpenCATPTask) -> tuple[dict[int, Path], dict[str, dict[int, str]]]:
    """Images by sample, and texts by kind and sample, of ``inputs`` or ``outputs``."""
    if not folder.is_dir():
        raise DataError(folder, "no such folder; a task has inputs and outputs")
    images: dict[int, Path] = {}
    texts: dict[str, dict[int, str]] = {}
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and entry.name == "images":
            images = _images(entry)
        elif entry.is_file() and entry.suffix == ".txt":
            kind = "text" if task.kind == "sequential" else entry.stem.split("-")[0]
            if task.kind == "nonsequential" and kind not in TEXT_KINDS:
                raise DataError(entry, f"expected a name that begins with {', '.join(TEXT_KINDS)} before the first hyphen")
            if kind in texts:
                raise DataError(entry, f"a second text of kind {kind}; one is expected")
            texts[kind] = dict(enumerate(_lines(entry)))
        else:
            raise DataError(entry, "expected a folder images or a .txt file")
    return images, texts


def _images(folder: Path) -> dict[int, Path]:
    found: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.suffix.lower() not in IMAGE_SUFFIXES or not path.stem.isdecimal():
            raise DataError(path, "expected an image named by its sample number, such as 17.jpg")
        if int(path.stem) in found:
            raise DataError(path, f"a second image of sample {int(path.stem)}")
        found[int(path.stem)] = path
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise DataError(path, "no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(path, f"cannot be read as text: {error}") from error

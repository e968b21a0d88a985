"""Read JSON files that others wrote, with every part checked and errors that name the file and the record.

Files are data. Nothing in them is executed, imported or followed.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from costgym.simulators.errors import DataError
from costgym.simulators.files import decode_json, read_bytes

MAX_DATA_BYTES = 2**30  # of a file of a data set
_NAMES = {str: "a text", int: "a whole number", float: "a number", list: "a list", dict: "an object", bool: "true or false"}


def need_folder(path: Path, what: str) -> Path:
    """Return the path if it is a folder."""
    if not path.is_dir():
        raise DataError(path, f"{what}: {'is a file, not a folder' if path.exists() else 'no such folder'}")
    return path


def read_text(path: Path) -> str:
    """Read a file's text; raises DataError where it cannot be read or is not UTF-8."""
    if not path.exists():
        raise DataError(path, "no such file")
    try:
        return read_bytes(path, MAX_DATA_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(path, "is not UTF-8 text", f"byte {error.start}") from None


def parse_json(path: Path, text: str, location: str = "") -> Any:
    """Parse a JSON value; raises DataError with line and column, which also says where a text is cut off."""
    try:
        return decode_json(text)
    except json.JSONDecodeError as error:
        # a download that broke off needs another remedy than a typing error, so it gets another word
        cut = not text.strip() or error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        problem = "is empty or cut off" if cut else f"is not valid JSON ({error.msg.lower()})"
        raise DataError(path, problem, location or f"line {error.lineno}, column {error.colno}") from None
    except ValueError as error:
        raise DataError(path, f"cannot be read as JSON ({error})", location) from None


def read_json(path: Path) -> Any:
    """Read the value in a JSON file; raises DataError as `read_text` and `parse_json` do."""
    return parse_json(path, read_text(path))


def read_records(path: Path) -> "list[JsonRecord]":
    """Read a JSON list of objects; raises DataError where it is no such list (records count from 1)."""
    document = read_json(path)
    if not isinstance(document, list):
        raise DataError(path, f"expected a list of records, got {describe(document)}")
    return [JsonRecord(record, path, f"record {number}") for number, record in enumerate(document, 1)]


def describe(value: Any) -> str:
    """Describe a value by its JSON type, and by itself where it is short."""
    if value is None:
        return "null"
    name = _NAMES.get(type(value), type(value).__name__)
    if isinstance(value, str) and len(value) <= 40:
        return f"{name} ({value!r})"
    if isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 10**12):
        return f"{name} ({value})"
    return name


class JsonRecord:
    """An object in a file whose members are read with their types checked; errors name `path` and `location`."""

    def __init__(self, value: Any, path: Path, location: str) -> None:
        if not isinstance(value, dict):
            raise DataError(path, f"expected an object, got {describe(value)}", location)
        self.value: Mapping[str, Any] = value
        self.path, self.location = path, location

    def error(self, problem: str, key: str = "") -> DataError:
        """An error about this record, or about one of its members."""
        return DataError(self.path, problem, f"{self.location}, {key}" if key else self.location)

    def _get(self, key: str, types: tuple[type, ...], required: bool) -> Any:
        value = self.value.get(key)
        if value is None:
            if required:
                raise self.error(f"the key {key!r} is {'null' if key in self.value else 'missing'}")
            return None
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise self.error(f"expected {' or '.join(_NAMES[t] for t in types)}, got {describe(value)}", key)
        return value

    def text(self, key: str, required: bool = True) -> str:
        """A text that is not blank where it is required; "" where it is absent."""
        value = self._get(key, (str,), required)
        if value is None:
            return ""
        if required and not value.strip():
            raise self.error("expected a text, got an empty one", key)
        return clean(value)

    def number(self, key: str) -> float | None:
        """A finite number, or None where it is absent."""
        value = self._get(key, (int, float), False)
        if value is None:
            return None
        try:
            number = float(value)
        except OverflowError:
            number = float("inf")
        if not abs(number) < 1e15:
            raise self.error("expected a finite number", key)
        return number

    def identifier(self, key: str) -> str:
        """A whole number or a text, as text."""
        value = self._get(key, (int, str), True)
        text = clean(str(value)) if isinstance(value, str) or abs(value) < 10**18 else ""
        if not text.strip():
            raise self.error("expected an id", key)
        return text.strip()

    def objects(self, key: str, required: bool = True) -> "list[JsonRecord]":
        """A list of objects; empty where it is absent."""
        members = self._get(key, (list,), required) or []
        return [JsonRecord(member, self.path, f"{self.location}, {key}[{index}]") for index, member in enumerate(members)]

    def pairs(self, key: str) -> list[tuple[str, str]] | None:
        """A list of pairs of texts, or None where it is absent."""
        members = self._get(key, (list,), False)
        if members is None:
            return None
        for index, member in enumerate(members):
            if not isinstance(member, list) or len(member) != 2 or not all(isinstance(part, str) for part in member):
                raise self.error(f"expected a pair of names, got {describe(member)}", f"{key}[{index}]")
        return [(clean(first), clean(second)) for first, second in members]


def clean(text: str) -> str:
    """Replace lone surrogates, which no file can hold, in a text."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def first_existing(paths: Sequence[Path]) -> Path | None:
    """The first of the paths that exists, or None."""
    return next((path for path in paths if path.exists()), None)

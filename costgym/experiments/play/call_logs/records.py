"""Read a file into records: a JSON document, one JSON value a line, or CSV; and find values in a record by paths.

What cannot be read is kept with its location and the reason, and the rest is read all the same.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from costgym.simulators.errors import DataError
from costgym.simulators.files import read_bytes

MAX_LOG_BYTES = 2**30
LONGEST_CELL = 2**27  # characters of a cell of a CSV file: a recorded answer of a tool
LONGEST_INNER = 1_000_000  # characters of a text that is parsed as JSON to follow a path into it
DEEPEST = 100  # wrappers around a record
WRAPPERS = ("data", "observations", "runs", "child_runs", "events", "simulations", "trajectories")
"""Names under which exports list their records."""
_BARE = ("data", "events", "simulations", "trajectories")  # wrappers that are no records themselves
_NAMED = frozenset(("name", "run_type", "trace_id", "tool", "messages"))  # what a record has, and a wrapper has not


class Record(NamedTuple):
    """A record of a file, or the reason why there is none."""

    location: str  # "line 3" or "record 7"
    value: Any
    problem: str = ""
    textual: bool = False  # all its values are texts: a row of a CSV file


def read_records(path: Path) -> list[Record]:
    """Read the records of a file, those within the wrappers of exports included; raises DataError if it is no text."""
    try:
        text = read_bytes(path, MAX_LOG_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(path, f"is not UTF-8 text ({error.reason})") from error
    records = _rows(text) if _is_csv(path, text) else _documents(text)
    return [inner for record in records for inner in _unwrapped(record)]


def _is_csv(path: Path, text: str) -> bool:
    head = text.lstrip().partition("\n")[0]
    return path.suffix.lower() in (".csv", ".tsv") or (head[:1].isalpha() and ("," in head or "\t" in head))


def _rows(text: str) -> Iterator[Record]:
    head = text.lstrip().partition("\n")[0]
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if head.count("\t") > head.count(",") else ",")
        for row in reader:
            location = f"line {reader.line_num}"
            cells = {name: cell for name, cell in row.items() if cell not in ("", None)}
            if None in cells:
                yield Record(location, None, f"expected {len(reader.fieldnames or ())} cells, got more")
            elif cells:
                yield Record(location, cells, textual=True)
    except csv.Error as error:
        yield Record(f"line {reader.line_num}", None, f"is not valid CSV ({error})")
    finally:
        csv.field_size_limit(before)


def _documents(text: str) -> Iterator[Record]:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, list):
        yield from (Record(f"record {number}", value) for number, value in enumerate(whole, 1))
    elif whole is not None:
        yield Record("record 1", whole)
    else:
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                try:
                    yield Record(f"line {number}", json.loads(line))
                except ValueError as error:
                    yield Record(f"line {number}", None, f"is not valid JSON ({error})")
                except RecursionError:
                    yield Record(f"line {number}", None, "is nested too deeply")


def _unwrapped(record: Record) -> Iterator[Record]:
    """A record and those within it. Jaeger's traces and OTLP's resources are left whole, since their spans refer to them."""
    stack = [(record, 0)]
    while stack:
        outer, depth = stack.pop()
        inner = _wrapped(outer.value) if depth < DEEPEST else None
        if inner is None:
            yield outer
            continue
        if inner not in _BARE:
            yield outer._replace(value={name: value for name, value in outer.value.items() if name != inner})
        stack += [(Record(outer.location, value), depth + 1) for value in reversed(outer.value[inner])]


def _wrapped(value: Any) -> str | None:
    """The name under which a value lists records; None where it lists none."""
    if not isinstance(value, dict):
        return None
    bare = not _NAMED & value.keys()
    return next((name for name in WRAPPERS if (bare or name not in _BARE) and _is_list_of_objects(value.get(name))), None)


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def at(value: Any, path: str) -> Any:
    """The value at a path such as `attributes.tool.name`, or None. A name may itself have dots, as attributes of spans and
    columns of tables do, and a path may lead into a text that is JSON."""
    for _ in range(DEEPEST):
        if isinstance(value, str) and value[:1] in ("{", "[") and len(value) <= LONGEST_INNER:
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return None
        if isinstance(value, list):
            head, _, path = path.partition(".")
            if not (head.isascii() and head.isdigit()) or len(head) > 9 or int(head) >= len(value):
                return None
            value = value[int(head)]
        elif isinstance(value, Mapping):
            head = path
            while head not in value:
                head, dot, _ = head.rpartition(".")
                if not dot:
                    return None
            value, path = value[head], path[len(head) + 1 :]
        else:
            return None
        if not path:
            return value
    return None


def first(value: Any, paths: tuple[str, ...]) -> Any:
    """The first value that is there, of several paths."""
    return next((item for path in paths if (item := at(value, path)) is not None), None)

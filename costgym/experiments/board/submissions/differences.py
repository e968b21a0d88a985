"""Name the differences between the files in a folder and those that replay derives: files, lines, documents and rows."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from costgym.experiments.board.conditions import row_key
from costgym.experiments.board.rows import BY_EPISODE
from costgym.experiments.board.submissions.manifest import MANIFEST, MAX_PROBLEMS, Submission
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.trajectories.verify import NOT_AS_WRITTEN, TAIL
from costgym.simulators import __version__
from costgym.simulators.errors import DataError
from costgym.simulators.files import LOCK, NEXT, decode_json, has_tail, iter_lines, json_text

_DRAFT = re.compile(r"\.(.+)\.\d+\.tmp")
_CHANGE = re.compile(rf"{re.escape(NEXT)}\.\d+\.tmp")

# -- files -----------------------------------------------------------------------------------------------------------------


def text_of(path: Path) -> str:
    """Read a file as text; "" if it does not exist."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(path, f"cannot be read: {error}") from error


def unexpected_files(folder: Path, known: Iterable[str], below: str = "") -> list[str]:
    """Name the files in a folder, or in its part `below`, that no command wrote there. Of the relative paths that are known,
    one that ends in `/` stands for all that is below."""
    known = set(known)
    names, folders = {name.rpartition("/")[2] for name in known}, tuple(name for name in known if name.endswith("/"))
    paths = (path for path in sorted((folder / below).rglob("*")) if path.is_symlink() or not path.is_dir())
    relative = (path.relative_to(folder).as_posix() for path in paths)
    return [
        f"{path}: is unexpected: no command writes it here; remove it"
        for path in relative
        if path not in known and not path.startswith(folders) and not _is_draft(path, names)
    ]


def _is_draft(path: str, names: Set[str]) -> bool:
    """The file is a lock, or the draft of a process that was killed, which the next command removes."""
    first, name = path.partition("/")[0], path.rpartition("/")[2]
    draft = _DRAFT.fullmatch(name)
    return path == LOCK or (draft is not None and draft[1] in names) or _CHANGE.fullmatch(first) is not None


def compare_lines(path: Path, results: Sequence[EpisodeResult]) -> Iterator[str]:
    """Find the first difference between a file of results and the lines that replay derives."""
    name, wanted = path.name, [result.to_json() for result in results]
    if not path.is_file():
        yield f"{name}: is missing"
        return
    if has_tail(path):
        yield f"{name}: {TAIL}"
    count = 0
    try:
        for count, line in enumerate(iter_lines(path), 1):
            if count > len(wanted):
                yield f"{name}, line {count}: comes after the last of {len(wanted)} episodes"
                return
            if line != wanted[count - 1]:
                result = results[count - 1]
                yield f"{name}, {result.agent} episode {result.episode}: replay says {wanted[count - 1]}; the file {line[:300]}"
                return
    except DataError as error:
        yield str(error)
        return
    if count < len(wanted):
        yield f"{name}: ends after {count} of {len(wanted)} episodes"


# -- documents -------------------------------------------------------------------------------------------------------------


def compare_documents(path: Path, wanted: Mapping[str, Any]) -> list[str]:
    """List how `leaderboard.json` differs from the document that replay derives."""
    try:
        text = text_of(path)
        written = decode_json(text, once=True)
    except (DataError, ValueError, RecursionError) as error:
        return [f"{path.name}: is not valid JSON ({error})"]
    # as a file holds it: tuples become lists there, and all keys texts
    derived = json.loads(json.dumps(wanted))
    if not isinstance(written, dict) or not isinstance(written.get("rows"), list):
        return [f"{path.name}: is not what a leaderboard run writes"]
    if derived.get("version") not in (None, __version__):
        _take_words(derived, written)
    problems = []
    for name in dict.fromkeys([*derived, *written]):
        if name != "rows" and _json(derived.get(name)) != _json(written.get(name)):
            problems.append(f"{path.name}, {name}: {_mismatch(derived.get(name), written.get(name))}")
    problems += [f"{path.name}, {problem}" for problem in _compare_rows(derived, written["rows"])]
    if not problems and text != json_text(derived):
        problems.append(f"{path.name}: {NOT_AS_WRITTEN}")
    return problems[:MAX_PROBLEMS]


def _take_words(derived: dict[str, Any], written: Mapping[str, Any]) -> None:
    """Let another release's words for the metrics of tracks stand: names and meanings are no figures."""
    tracks = written.get("tracks")
    for ours, theirs in zip(derived.get("tracks", ()), tracks if isinstance(tracks, list) else (), strict=False):
        words = theirs.get("metrics") if isinstance(theirs, dict) else None
        if _is_alike(words, ours["metrics"]):
            ours["metrics"] = words


def _is_alike(words: Any, metrics: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a value describes the same metrics by the same fields."""
    if not isinstance(words, dict) or words.keys() != metrics.keys():
        return False
    return all(isinstance(metric, dict) and metric.keys() == metrics[key].keys() for key, metric in words.items())


def check_rows(manifest: Submission, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """List how the rows that a submission claims differ from those that replay derives."""
    conditions = [condition for track in manifest.run.tracks for condition in track.document()["conditions"]]
    claimable = [{name: value for name, value in row.items() if name != BY_EPISODE} for row in rows]
    derived = json.loads(json.dumps({"conditions": conditions, "rows": claimable}))
    problems = list(_compare_rows(derived, manifest.rows))
    if len(manifest.rows) != len(manifest.files):
        problems.insert(0, f"rows: expected one row for each of the {len(manifest.files)} files")
    return [f"{MANIFEST}, {problem}" for problem in problems[:MAX_PROBLEMS]]


def _compare_rows(derived: Mapping[str, Any], rows: Sequence[Any]) -> Iterator[str]:
    """Rows that are extra, missing, edited or out of order, beside those of a derived leaderboard."""
    if not all(isinstance(row, dict) for row in rows):
        yield "rows: expected objects"
        return
    wanted = {_row_name(row, derived): row for row in derived["rows"]}
    seen = set[str]()
    for row in rows:
        name = _row_name(row, derived)
        if name not in wanted:
            yield f"rows, {name}: was never played"
        elif name in seen:
            yield f"rows, {name}: occurs twice"
        else:
            for field in dict.fromkeys([*wanted[name], *row]):
                if _json(wanted[name].get(field)) != _json(row.get(field)) or (field in row) != (field in wanted[name]):
                    yield f"rows, {name}: {field}: {_mismatch(wanted[name].get(field), row.get(field))}"
        seen.add(name)
    for name in wanted:
        if name not in seen:
            yield f"rows, {name}: is missing"
    order = [_row_name(row, derived) for row in rows]
    if set(order) == set(wanted) and len(order) == len(wanted) and order != list(wanted):
        yield "rows: are not in the order of the leaderboard"


def _row_name(row: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    try:
        return f"{row.get('agent')} under {row_key(row, document)}"
    except (TypeError, ValueError, AttributeError):
        return f"{row.get('agent')!r:.80} under {row.get('budget')!r:.80}"


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _mismatch(wanted: Any, written: Any) -> str:
    return f"replay says {wanted!r:.120}, the file {written!r:.120}"

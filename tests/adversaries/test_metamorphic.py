"""Whatever a submitter changes in an entry, the figures that the judge plays stay as they are, or the entry is refused.

The kinds of change are the rows of the table in docs/explanation/verification.md that say "submitter".
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from costgym.experiments.board.epochs.judging import judge
from costgym.experiments.board.submissions.replay import digest_of
from tests.helpers.epochs import entry, epoch

TABLE = Path(__file__).parents[2] / "docs/explanation/verification.md"
Change = Callable[[Path], object]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGfM6z0y1kDqzJx8QG0mG3l5i1bq1oY3lq3l2m6q9XbU"


def paths(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a document that are no object or list."""
    parts = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for name, part in parts:
        yield from paths(part, (*path, name))
    if not isinstance(document, dict | list):
        yield path


def better(value: Any) -> Any:
    """Another value of the same kind, which a submitter might hope to gain by."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1 if value >= 1 else 1.0
    return True if value is None else f"{value}x"


def _set(path: tuple[Any, ...], folder: Path) -> None:
    document = json.loads((folder / "manifest.json").read_text())
    inner = document
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = better(inner[path[-1]])
    (folder / "manifest.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _of_the_manifest(which: Callable[[tuple[Any, ...]], bool], folder: Path) -> Iterator[Change]:
    for path in paths(json.loads((folder / "manifest.json").read_text())):
        if which(path):
            yield partial(_set, path)


def _lines(change: Callable[[list[str]], list[str]], digest: bool, folder: Path) -> None:
    path = next(folder.rglob("*.jsonl"))
    path.write_text("".join(f"{line}\n" for line in change(path.read_text().splitlines())))
    if digest:
        text = (folder / "manifest.json").read_text()
        (folder / "manifest.json").write_text(
            re.sub(r'"digest": "[0-9a-f]{32}",?\s*(?=\}|"void")', f'"digest": "{digest_of(path)}"', text)
        )


def _of_the_trajectories(folder: Path) -> Iterator[Change]:
    _, *episodes = next(folder.rglob("*.jsonl")).read_text().splitlines()
    for number in range(len(episodes)):
        for name, value in json.loads(episodes[number]).items():
            changed = {
                **json.loads(episodes[number]),
                name: value[::-1] if isinstance(value, list) else better(value) if not isinstance(value, dict) else {},
            }
            yield partial(_lines, lambda lines, n=number, c=changed: [*lines[: n + 1], json.dumps(c), *lines[n + 2 :]], True)  # type: ignore[misc]
    for few in (
        lambda lines: lines[:-1],
        lambda lines: [*lines, lines[-1]],
        lambda lines: [lines[0], *lines[:0:-1]],
    ):
        yield partial(_lines, few, True)
        yield partial(_lines, few, False)


def _of_the_files(folder: Path) -> Iterator[Change]:
    for name in (
        "junk",
        "code/own.py",
        "rows.json",
        "episodes.jsonl",
        "rerun.json",
        "chain.jsonl",
        "epoch.json",
        "x.verdict.json",
    ):

        def write(copy: Path, name: str = name) -> None:
            (copy / name).parent.mkdir(exist_ok=True)
            (copy / name).write_text("{}\n")

        yield write
    yield lambda copy: next(copy.rglob("*.jsonl")).rename(copy / "trajectories/numbers/oracle.price=20.jsonl")
    yield lambda copy: copy.rename(copy.with_name("another name"))


TOP = ("run", "files", "rows", "name", "format")
KINDS: dict[str, Callable[[Path], Iterator[Change]]] = {
    "`manifest.run.*`": partial(_of_the_manifest, lambda path: path[0] == "run"),
    "`manifest.files.*`": partial(_of_the_manifest, lambda path: path[0] == "files"),
    "`manifest.rows.*`": partial(_of_the_manifest, lambda path: path[0] == "rows"),
    "`manifest.name`": partial(_of_the_manifest, lambda path: path[0] == "name"),
    "`manifest.*`": partial(_of_the_manifest, lambda path: path[0] not in TOP),
    "`trajectories/*`": _of_the_trajectories,
    "names of files and folders": _of_the_files,
    "`entry.sig`": lambda folder: iter([lambda copy: (copy / "entry.sig").write_text(KEY)]),
}
ELSEWHERE = {  # what an agent's own code does is its figure
    "`code/*`": "test_own_code_is_played_in_the_sandbox_and_what_is_left_after_its_minutes_fails",
    "number of tries": "test_the_tries_of_a_key_are_one_row_with_their_mean_whatever_name_each_gives_itself",
    "requests to the model": "test_a_request_beyond_its_bounds_reaches_no_model",
}


def of_submitters() -> list[str]:
    """The inputs in the table that a submitter controls."""
    rows = [line.split(" | ") for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [row[0].removeprefix("| ").partition(" (")[0] for row in rows if len(row) == 3 and row[1] == "submitter"]


def test_every_input_that_a_submitter_controls_is_changed_here_or_tested_elsewhere() -> None:
    assert sorted(of_submitters()) == sorted([*KINDS, *ELSEWHERE])
    sources = "".join(path.read_text() for path in (TABLE.parents[2] / "tests/experiments/board").glob("test_*.py"))
    assert all(f"def {name}(" in sources for name in ELSEWHERE.values())


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, Any]]:
    """An entry, an epoch, and the row that the entry gets unchanged."""
    folder = tmp_path_factory.mktemp("metamorphic")
    made, spring = entry(folder / "entries", "Greedy", ["greedy"]), epoch(folder / "spring")
    [verdict] = judge([made], spring, folder / "board")
    return made, spring, {name: value for name, value in verdict.rows[0].items() if name != "claimed"}


def played(base: tuple[Path, Path, dict[str, Any]], folder: Path, kind: str, step: int) -> tuple[int, int]:
    """Make every change of a kind, or each `step`-th; returns how many there were, and how many entries were played."""
    made, spring, row = base
    count = 0
    for count, change in enumerate(list(KINDS[kind](made))[::step], 1):
        change(Path(shutil.copytree(made, folder / f"entries/{count:04}/entry")))
    entries = [next(path.iterdir()) for path in sorted((folder / "entries").iterdir())]
    verdicts = judge(entries, spring, folder / "board")
    accepted = [verdict for verdict in verdicts if verdict.accepted]
    for verdict in accepted:
        [mine] = [{name: value for name, value in verdict_row.items() if name != "claimed"} for verdict_row in verdict.rows]
        assert mine == row, verdict.about
    return count, len(accepted)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_a_submitter_writes_enters_a_figure_that_is_played(
    kind: str, base: tuple[Path, Path, dict[str, Any]], tmp_path: Path
) -> None:
    count, _ = played(base, tmp_path, kind, 1 if kind != "`manifest.run.*`" else 9)
    assert count >= 1


@pytest.mark.slow
def test_every_field_of_a_run_is_the_epochs_own(base: tuple[Path, Path, dict[str, Any]], tmp_path: Path) -> None:
    count, accepted = played(base, tmp_path, "`manifest.run.*`", 1)
    assert count > 60 and accepted < count / 2

"""Forged runs: every kind of forgery that a table of results invites, and random edits of every file."""

import json
import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.submission import pack
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import add, run
from costgym.simulators.errors import CostGymError
from tests.helpers.records import leaf_paths, with_another_value


def honest_run(folder: Path) -> Path:
    """A small run of two tracks of the default suite, in `folder/board`, that keeps a submission."""
    about: dict[str, Any] = {"budgets": "price=10", "episodes": 2, "seed": 3}
    board = run(make_run_config("quick", agents=["react+btp", "greedy", "oracle"], **about), folder / "board").folder
    their_run = run(make_run_config("quick", agents=["cheapest", "react"], **about), folder / "theirs").folder
    add(board, pack(their_run, folder / "packed", "Team A", "a@b.org"))
    return board


def files_of(board: Path) -> list[Path]:
    """Every file of a run that holds data; pages are made from them and never read."""
    return sorted(
        path.relative_to(board)
        for path in board.rglob("*")
        if path.is_file()
        and path.name != ".lock"
        and path.suffix not in (".html", ".csv")  # made again from the data, never read
    )


def judge(board: Path) -> str:
    """What verification says of a run: the first problem, or "" where it passes."""
    try:
        verdict = verify(board)
    except CostGymError as error:
        return str(error) or type(error).__name__
    return verdict.problems[0] if verdict.problems else "" if verdict.verified else "nothing was verified"


# -- forgeries that somebody would think of ----------------------------------------------------------------------------------


def _document(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def forge(board: Path) -> None:
        path = board / "leaderboard.json"
        document = json.loads(path.read_text(encoding="utf-8"))
        change(document)
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    return forge


def _text(name: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    def forge(board: Path) -> None:
        path = board / name
        before = path.read_text(encoding="utf-8")
        after = change(before)
        assert after != before, name
        path.write_text(after, encoding="utf-8")

    return forge


def _configuration(**values: Any) -> Callable[[Path], None]:
    """The configuration and the table say the same other thing."""

    def forge(board: Path) -> None:
        for name in ("run.json", "leaderboard.json"):
            path = board / name
            path.write_text(json.dumps(json.loads(path.read_text()) | values, indent=1, ensure_ascii=False) + "\n")

    return forge


def _file(name: str) -> Callable[[Path], None]:
    def forge(board: Path) -> None:
        (board / name).parent.mkdir(parents=True, exist_ok=True)
        (board / name).write_text("gpt-9 won")

    return forge


def _lines(change: Callable[[list[str]], list[str]]) -> Callable[[str], str]:
    return lambda text: "".join(f"{line}\n" for line in change(text.splitlines()))


def _own(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in document["rows"] if "submission" not in row and row["agent"] != "oracle"]


def _handed_in(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in document["rows"] if "submission" in row]


def _invent(document: dict[str, Any], **about: Any) -> None:
    document["rows"].insert(0, {**document["rows"][0], "agent": "gpt-9", "pass_rate": 1.0, **about})


TRAJECTORIES = "trajectories/numbers/greedy.price=10.jsonl"
FORGERIES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a row that nobody played": (_document(_invent), "gpt-9 under"),
    "one that says it was handed in": (_document(lambda d: _invent(d, submission={"name": "Team B"})), "gpt-9 under"),
    "a row that calls itself verified": (_document(lambda d: _own(d)[0].update(verified="replayed")), "verified: replay says"),
    "one that calls itself verified": (_document(lambda d: _invent(d, verified="replayed")), "gpt-9 under"),
    "a handed-in row that calls itself played again": (
        _document(lambda d: _handed_in(d)[0].update(verified="rerun")),
        "verified: replay says",
    ),
    "a handed-in row of another agent": (_document(lambda d: _handed_in(d)[0].update(agent="gpt-9")), "gpt-9 under"),
    "a figure of a handed-in row": (
        _document(lambda d: _handed_in(d)[0].update(average_cost=0.5)),
        "average_cost: replay says",
    ),
    "a row less": (_document(lambda d: d["rows"].remove(_own(d)[-1])), "is missing"),
    "a handed-in row less": (
        _document(lambda d: d["rows"].remove(_handed_in(d)[0])),
        "is missing",
    ),
    "rows in another order": (_document(lambda d: d["rows"].reverse()), "not in the order"),
    "a figure": (_document(lambda d: _own(d)[0].update(average_cost=0.5)), "average_cost: replay says"),
    "a row twice": (_document(lambda d: d["rows"].append(d["rows"][0])), "occurs twice"),
    "a field more": (_document(lambda d: d.update(note="best")), "note: replay says"),
    "another seed in the table": (_document(lambda d: d.update(seed=4)), "seed: replay says"),
    "another suite in the table": (_document(lambda d: d.update(suite="toolbench")), "suite: replay says"),
    "another grading in the table": (_document(lambda d: d.update(grading="judge")), "grading: replay says"),
    "another world in the table": (_document(lambda d: d["scenario"].update(name="hard")), "scenario: replay says"),
    "another label": (_document(lambda d: d["tracks"][0].update(ranked_by="pass_rate")), "tracks: replay says"),
    "another seed everywhere": (_configuration(seed=4), "number and seed"),
    "another suite everywhere": (_configuration(suite="deer"), "suite: "),
    "another grading everywhere": (_configuration(grading="judge"), "settings: "),
    "no episodes": (_text("episodes.jsonl", lambda text: ""), "ends after 0"),
    "an episode twice": (_text("episodes.jsonl", _lines(lambda lines: [*lines, lines[-1]])), "comes after the last"),
    "an episode less": (_text("episodes.jsonl", _lines(lambda lines: lines[:-1])), "ends after"),
    "two episodes swapped": (_text("episodes.jsonl", _lines(lambda lines: [lines[1], lines[0], *lines[2:]])), "replay says"),
    "junk after the last line": (_text("episodes.jsonl", lambda text: text + '{"agent"'), "after the last complete line"),
    "junk after a trajectory": (_text(TRAJECTORIES, lambda text: text + "x"), "after the last complete line"),
    "a name twice in an object": (
        _text("leaderboard.json", lambda text: text.replace('"seed": 3,', '"seed": 9,\n "seed": 3,', 1)),
        "an object has a duplicate name",
    ),
    "a name twice in the plan": (
        _text("run.json", lambda text: text.replace('"seed": 3,', '"seed": 9,\n "seed": 3,', 1)),
        "run.json: has the right content, but not the bytes",
    ),
    "a space in a record": (
        _text(TRAJECTORIES, lambda text: text.replace('","model":', '", "model":', 1)),
        "not the bytes that costgym writes",
    ),
    "other experience": (
        _document(lambda document: document["tracks"][-1]["experience"].update(uses=99)),
        "leaderboard.json, tracks",
    ),
    **{
        f"an extra file {name}": (_file(name), f"{name.rpartition('Team A/')[2]}: is unexpected")
        for name in (
            "trajectories/text/gpt-9.price=10.jsonl",
            "extra.html",
            ".hidden.html",
            "plans.html",
            "pictures/winner.html",
            "submissions/Team A/extra.txt",
            "submissions/Team A/rerun/extra.txt",
            "submissions/.hidden/index.html",
            "submissions/extra.txt",
        )
    },
    "weights of an agent that did not play": (_configuration(weights={"sb3:/nowhere": "00" * 16}), "weights: 'sb3:/nowhere'"),
    "weights of an agent that has none": (_configuration(weights={"greedy": "00" * 16}), "weights: 'greedy'"),
    "a file less": (lambda board: (board / TRAJECTORIES).unlink(), "no such file"),
    "other rows of a submission": (
        _text("submissions/Team A/rows.json", lambda text: text.replace('"agent": "cheapest', '"agent": "best', 1)),
        "rows.json: is not what replay derives",
    ),
}


# -- random edits ------------------------------------------------------------------------------------------------------------


def random_edit(content: bytes, chance: random.Random) -> bytes:
    """The same content with one edit somewhere."""
    kind, at = chance.randrange(8), chance.randrange(max(1, len(content)))
    lines = content.splitlines(keepends=True)
    if kind == 0:
        return content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]
    if kind == 1:
        return content[:at] + content[at + 1 :]
    if kind == 2:
        return content[:at] + chance.choice(b' \n\t0e"{,\0\xff'.decode("latin-1")).encode("latin-1") + content[at:]
    if kind == 3:
        return content[:at]
    if kind == 4:
        return content + chance.choice([b"\n", b"x", b"{}", lines[-1] if lines else b"y"])
    line = chance.randrange(max(1, len(lines)))
    if kind == 5:
        return b"".join([*lines[:line], *lines[line + 1 :]])
    if kind == 6:
        return b"".join([*lines[: line + 1], *lines[line:]])
    digits = [index for index, byte in enumerate(content) if chr(byte).isdigit()]
    position = chance.choice(digits or [0])
    return content[:position] + str(chance.randrange(10)).encode() + content[position + 1 :]


def value_edit(content: bytes, chance: random.Random) -> bytes:
    """The same JSON document, or lines of them, with another value at one place, written as the product writes it."""
    text = content.decode("utf-8")
    try:
        parts, at = [text], 0
        document = json.loads(text)
    except ValueError:
        parts = text.splitlines(keepends=True)
        at = chance.randrange(len(parts))
        document = json.loads(parts[at])
    leaves = [path for path in leaf_paths(document) if path]
    if not leaves:
        return content
    styles: tuple[dict[str, Any], ...] = ({"indent": 1}, {"separators": (",", ":")}, {})
    style = next((style for style in styles if json.dumps(document, ensure_ascii=False, **style) == parts[at].rstrip("\n")), {})
    changed = with_another_value(document, chance.choice(leaves), chance.randrange)
    parts[at] = json.dumps(changed, ensure_ascii=False, **style) + "\n"
    return "".join(parts).encode("utf-8")


def edits_of(board: Path, chance: random.Random) -> Iterator[tuple[str, bytes, bytes]]:
    """Edits without end: every file of a run in turn, by its bytes and, every second time, by one of its values.

    Yields the file's name, what stands there and what shall stand there.
    """
    turn = 0
    while True:
        for name in files_of(board):
            before = after = (board / name).read_bytes()
            by_value = name.suffix in (".json", ".jsonl") and turn % 2
            while after == before:
                after = value_edit(before, chance) if by_value else random_edit(before, chance)
            yield str(name), before, after
        turn += 1


def edited(board: Path, edits: int, seed: int) -> list[str]:
    """Try random edits, one at a time, of every file in turn; those that verification let pass or did not survive, in words."""
    wrong = []
    for number, (name, before, after) in enumerate(islice(edits_of(board, random.Random(seed)), edits)):
        path = board / name
        path.write_bytes(after)
        try:
            problem = judge(board)
            outcome = "" if problem else "passed"
        except Exception as error:  # a crash is what we look for
            outcome = f"crashed with {type(error).__name__}: {error}"
        finally:
            path.write_bytes(before)
        if outcome:
            wrong.append(f"{name}, edit {number}: {outcome}; {difference(before, after)}")
    return wrong


def difference(before: bytes, after: bytes) -> str:
    """The first bytes in which two contents differ, with what stands around them."""
    shorter = min(len(before), len(after))
    at = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    return f"{before[max(0, at - 30) : at + 20]!r} became {after[max(0, at - 30) : at + 20]!r}"

"""Command lines that make no sense: an error in words, never a traceback.

By hand: ``python -m tests.cli.test_bad_lines 500 0`` tries 500 of them, from seed 0.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
import typer

from costgym.cli.app import app
from tests.helpers.command_line import invoke
from tests.helpers.full_disk import no_file_longer_than

GARBAGE = (
    "", " ", "-1", "0", "nan", "1e999", "99999999999999999999999", "\udcff", "\ud800", "a\nb", "../../x", "/dev/null",
    "/dev/null/x", "/proc/self/mem", "none.yaml", "bad.yaml", "bad.json", "bad.jsonl", "empty", "folder", "price=", "price=-1",
    "price=nan", "gold=3", "price=1;price=2", "x" * 300, "costgym/No-v0", "costgym/Marketplace-v0", "[", "{}", "random,",
    "agents:Nothing", ",", "no_such_agent", "train", "é☃", "--", "=",
)  # fmt: skip
NEVER = {
    "serve", "bench", "warm", "opencatp", "train", "reproduce", "submit rerun", "baselines",
}  # fmt: skip
"""Verbs that would wait or work for long where the line happens to make sense."""


def commands() -> dict[str, Any]:
    """All verbs, those of groups too, with the words that call them."""
    commands: dict[str, Any] = {}

    def look(command: Any, words: str) -> None:
        if hasattr(command, "entries"):
            for name in command.entries:
                look(command.load(name), f"{words} {name}".strip())
        elif hasattr(command, "commands"):
            for name, inner in command.commands.items():
                look(inner, f"{words} {name}".strip())
        elif not {words, words.split()[0]} & NEVER:
            commands[words] = command

    look(typer.main.get_command(app), "")
    return commands


def bad_line(random: Random) -> list[str]:
    """A verb with some of its options, at least one of which cannot be."""
    words, command = random.choice(sorted(commands().items(), key=lambda item: item[0]))
    line = words.split()
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            if random.random() < 0.85:
                line.append(random.choice(GARBAGE))
        elif random.random() < 0.3 and parameter.opts and parameter.name != "help":
            line.append(parameter.opts[0])
            if not getattr(parameter, "is_flag", False):
                line.append(random.choice(GARBAGE))
    return (
        [*line, random.choice(("--no-such-option", "--seed=x", "--minutes=none", "--episodes=-3"))]
        if random.random() < 0.3
        else line
    )


def refuses(line: list[str], folder: Path, code: int | None = None) -> str | None:
    """Run a line in a folder; what is wrong with the way it ended, or with its exit code where one is given."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        done = invoke(*line)
    finally:
        os.chdir(before)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return f"{line}: {type(done.exception).__name__}: {done.exception}"
    wrong = "Traceback" in done.stderr or done.exit_code != (done.exit_code if code is None else code)
    return f"{line}: {done.exit_code}, {done.stderr[-300:]}" if wrong else None


def make_folder(folder: Path) -> None:
    """Files that are none of what a verb expects."""
    (folder / "bad.yaml").write_text('name: "\\ud800"\n')
    (folder / "bad.json").write_text('{"rows": [1, {"agent": 3}]}')
    (folder / "bad.jsonl").write_bytes(b'{"format":"costgym.trajectories/1"}\n\xff\n')
    (folder / "empty").write_bytes(b"")
    (folder / "folder").mkdir()
    (folder / "folder" / "leaderboard.json").write_text('{"rows": "many"}')
    (folder / "folder" / "run.json").write_text("[" * 5000)


def test_no_line_ends_in_a_traceback(tmp_path: Path) -> None:
    make_folder(tmp_path)
    random = Random(4)
    assert [problem for _ in range(12) if (problem := refuses(bad_line(random), tmp_path))] == []


@pytest.mark.parametrize(
    "line",
    [
        ["agents", "--json", ""],
        ["leaderboard", "--merge", "\ud800", "none", "--out", "new"],
        ["leaderboard", "--out", "new", "--suite", "quick", "--store", "/proc/self/mem"],
        ["datasets", "list", "/dev/null"],
        ["export", "bad.jsonl", "--format", "parquet", "--out", ""],
        ["export", "bad.jsonl", "--format", "hf", "--out", "folder\0"],
        ["collect", "--agent", "greedy", "--episodes", "1", "--out", "/proc/none"],
    ],
)
def test_a_place_that_is_none_is_an_error_in_words(line: list[str], tmp_path: Path) -> None:
    assert refuses(line, tmp_path) is None


@pytest.mark.parametrize(
    "line",
    [
        ["collect", "--agent", "greedy", "--episodes", "40", "--out", "new"],
        ["leaderboard", "--agents", "greedy", "--budgets", "price=10", "--episodes", "40", "--jobs", "1", "--out", "new"],
        ["submit", "pack", "board", "--out", "new", "--name", "n", "--contact", "a@b"],
        ["leaderboard", "--merge", "board", "board", "--out", "new"],
        ["agents", "--json", "new"],
    ],
)
def test_a_disk_that_is_full_is_an_error_in_words(line: list[str], board: Path, tmp_path: Path) -> None:
    shutil.copytree(board / "board", tmp_path / "board")
    with no_file_longer_than(1000):
        problem = refuses([*line, *(["--quiet"] if line[0] in ("collect", "leaderboard") else [])], tmp_path, 2)
    assert problem is None
    assert not list(tmp_path.glob(".*"))


DAMAGES = {
    "empty": "", "null": "null", "an object": "{}", "deep": "[" * 100_000,
    "other rows": '{"rows": [{"agent": 3, "track": []}]}',
    "other numbers": '{"rows": [], "seed": NaN, "scenario": 1e999}', "other texts": '{"rows": "\\ud800"}',
}  # fmt: skip


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from costgym.experiments.board.run_config import make_run_config
    from costgym.experiments.board.submissions.submission import pack
    from costgym.experiments.leaderboard import run

    parent = tmp_path_factory.mktemp("board")
    folder = run(make_run_config(agents=["greedy"], budgets="price=10", episodes=1), parent / "board").folder
    pack(folder, parent / "packed", "ours", "us@example.org")
    return parent


@pytest.mark.parametrize(
    ("file", "damage"),
    [("leaderboard.json", damage) for damage in ("empty", "other rows", "deep", "other numbers")]
    + [("run.json", "deep"), ("episodes.jsonl", "null")]
    + [pytest.param(name, damage, marks=pytest.mark.slow) for name in ("run.json", "episodes.jsonl") for damage in DAMAGES],
)
def test_a_damaged_file_of_a_run_is_named_by_every_command(file: str, damage: str, board: Path, tmp_path: Path) -> None:
    shutil.copytree(board / "board", tmp_path / "board")
    (tmp_path / "board" / file).write_text(DAMAGES[damage])
    for line in (
        ["verify", "board"],
        ["leaderboard", "--merge", "board", "board", "--out", "joined", "--quiet"],
        ["leaderboard", "--out", "board", "--add", str(board / "packed"), "--jobs", "1"],
        ["submit", "pack", "board", "--out", "packed", "--name", "n", "--contact", "a@b"],
    ):
        assert refuses(line, tmp_path) is None


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        make_folder(Path(directory))
        chance, wrong = Random(int(sys.argv[2])), 0
        for number in range(int(sys.argv[1])):
            problem = refuses(bad_line(chance), Path(directory))
            if problem:
                wrong += 1
                print(f"{number}: {problem:.400}".encode("ascii", "backslashreplace").decode(), flush=True)
        print(f"{sys.argv[1]} lines, {wrong} tracebacks")

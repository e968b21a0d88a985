"""A process that is killed at any moment loses nothing but what was in flight."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costgym.simulators.errors import DataError
from costgym.simulators.files import NEXT, finish_change, keep_lines, read_lines
from tests.helpers.command_line import invoke, killed_after

LINE, EFFECT = "costgym.simulators.files:LineFile.append", "costgym.simulators.rules.calls:take_effect"
COLLECT = ("collect", "--agent", "react", "--scenario", "storm", "--episodes", "600", "--seed", "5")
BOARD = ("leaderboard", "--agents", "cheapest,react", "--budgets", "price=10,20", "--episodes", "60", "--jobs", "1")


def start(arguments: tuple[str, ...], folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "costgym", *arguments, "--out", str(folder), "--quiet"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def files(folder: Path) -> dict[str, bytes]:
    paths = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    seen = (name for name in paths if not any(part.startswith(".") for part in name.parts))  # a killed draft is hidden
    return {str(name): paths[name].read_bytes() for name in seen}


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.jsonl")) if folder.exists() else 0


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [COLLECT, BOARD], ids=["collect", "leaderboard"])
def test_a_run_killed_three_times_ends_with_the_bytes_of_one_that_was_not(arguments: tuple[str, ...], tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert start(arguments, whole).wait(120) == 0
    expected = files(whole)
    kills = 0
    for part in np.sort(np.random.default_rng(0).uniform(0.05, 0.8, 3)):
        process = start(arguments, killed)
        deadline = time.monotonic() + 60
        while process.poll() is None and size(killed) < part * size(whole) and time.monotonic() < deadline:
            time.sleep(0.002)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills >= 2
    assert start(arguments, killed).wait(120) == 0
    assert files(killed) == expected


SESSIONS = ("collect", "--agent", "paced", "--env", "costgym/MarketplaceSession-v1", "--episodes", "12", "--seed", "2")


def test_shards_that_were_killed_hold_the_lines_of_a_run_that_was_not(tmp_path: Path) -> None:
    whole, shards = tmp_path / "whole", tmp_path / "shards"
    assert invoke(*SESSIONS, "--out", whole).exit_code == 0
    expected = (whole / "trajectories.jsonl").read_bytes()
    for shard in ("2/3", "1/3", "3/3"):  # in any order
        arguments = (*SESSIONS, "--shard", shard, "--out", shards)
        assert killed_after(LINE, 2, *arguments)
        assert invoke(*arguments).exit_code == 0
    header, *_ = expected.splitlines(keepends=True)
    parts = [path.read_bytes() for path in sorted(shards.rglob("*.jsonl"))]
    assert len(parts) == 3 and all(part.startswith(header) for part in parts)
    assert header + b"".join(part.removeprefix(header) for part in parts) == expected
    for wrong in ("1/4", "1/1", "4/3", "0/3", "half"):
        assert invoke(*SESSIONS, "--shard", wrong, "--out", shards).exit_code == 2


WRITES = ("--scenario", "marketplace-writes", "--episodes", "30", "--seed", "3")
COLLECT_WRITES = ("collect", "--agent", "retry", *WRITES)
BOARD_WRITES = ("leaderboard", "--agents", "retry,react", "--jobs", "1", *WRITES)


@pytest.mark.parametrize(
    ("arguments", "moment", "counts"),
    [
        (COLLECT_WRITES, EFFECT, (3, 40, 19)),
        (COLLECT_WRITES, LINE, (3, 8, 9)),
        # a leaderboard also searches the optimum of every episode, which makes a thousand effects
        pytest.param(BOARD_WRITES, EFFECT, (3, 20_000, 25_000), marks=pytest.mark.slow),
        pytest.param(BOARD_WRITES, LINE, (3, 8, 9), marks=pytest.mark.slow),
    ],
    ids=["collect-effect", "collect-line", "leaderboard-effect", "leaderboard-line"],
)
def test_a_run_killed_between_a_writes_effect_and_its_record_loses_nothing_and_repeats_nothing(
    arguments: tuple[str, ...], moment: str, counts: tuple[int, ...], tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert invoke(*arguments, "--out", whole).exit_code == 0
    grew = [0]
    for left in counts:
        assert killed_after(moment, left, *arguments, "--out", killed)
        grew.append(size(killed))
    assert grew[1] < grew[2] < grew[3] < size(whole)  # each attempt goes on where the one before was killed
    assert invoke(*arguments, "--out", killed).exit_code == 0
    assert files(killed) == files(whole)
    assert b'"money_lost"' in b"".join(files(whole).values())


@pytest.mark.parametrize("cut", [0, 1, 30, 31, 32, 70, 94, 95, 96])
def test_a_file_is_cut_after_its_last_whole_line(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "lines"
    whole = b"".join(bytes([97 + i]) * 31 + b"\n" for i in range(3))
    path.write_bytes(whole[:cut])
    assert keep_lines(path, 2) == min(2, cut // 32)
    assert path.read_bytes() == whole[: min(2, cut // 32) * 32]
    assert len(read_lines(path)) == min(2, cut // 32)


class Killed(BaseException):
    """The process ends here, as far as the files can tell."""


def killed_at(patch: pytest.MonkeyPatch, owner: Any, name: str, nth: int, folder: Path) -> list[int]:
    """Let the nth call for a place in the folder be the process's last one; returns a list that grows with every call."""
    real, calls = getattr(owner, name), list[int]()

    def wrapped(path: Any, *rest: Any, **settings: Any) -> Any:
        if str(path).startswith(str(folder)) or not Path(path).is_absolute():  # by the folder's descriptor
            calls.append(1)
            if len(calls) == nth:
                raise Killed
        return real(path, *rest, **settings)

    patch.setattr(owner, name, wrapped)
    return calls


@pytest.mark.parametrize(("owner", "name"), [(Path, "rename"), (os, "replace"), (Path, "mkdir"), (shutil, "rmtree")])
def test_an_entry_that_is_replaced_is_the_old_one_or_the_new_one_at_every_moment(
    owner: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from costgym.experiments.board.run_config import make_run_config
    from costgym.experiments.board.submissions.submission import pack
    from costgym.experiments.board.verify import verify
    from costgym.experiments.leaderboard import add, run

    played = run(make_run_config(agents=["cheapest", "greedy"], budgets="price=10", episodes=1), tmp_path / "board").folder
    first, second = (pack(played, tmp_path / agent, "A", "a@example.org", agents=[agent]) for agent in ("cheapest", "greedy"))
    add(played, first)
    old = files(played)
    whole = shutil.copytree(played, tmp_path / "whole")
    add(whole, second)
    new = files(whole)
    for nth in range(1, 40):
        board = shutil.copytree(played, tmp_path / f"killed at {nth}")
        with monkeypatch.context() as patch, suppress(Killed):
            moments = killed_at(patch, owner, name, nth, board)
            add(board, second)
        if len(moments) < nth:
            break
        if (board / NEXT).exists():
            with pytest.raises(DataError, match="its owner runs the command again"):
                verify(board)
        finish_change(board)
        assert verify(board).verified
        assert files(board) in (old, new), nth
        add(board, second)
        assert files(board) == new
    assert nth > 1 and len(moments) < nth


@pytest.mark.slow
def test_an_addition_that_is_killed_leaves_the_old_leaderboard_or_the_new_one(tmp_path: Path) -> None:
    from costgym.experiments.board.run_config import make_run_config
    from costgym.experiments.board.submissions.submission import pack
    from costgym.experiments.board.verify import verify
    from costgym.experiments.leaderboard import add, run

    terms: dict[str, Any] = {"budgets": "price=10,20", "episodes": 12}
    board = run(make_run_config(agents=["greedy"], **terms), tmp_path / "board").folder
    theirs = run(make_run_config(agents=["cheapest", "random"], **terms), tmp_path / "theirs").folder
    packed = pack(theirs, tmp_path / "packed", "A", "a@example.org")
    old = files(board)
    shutil.copytree(board, tmp_path / "whole")
    add(tmp_path / "whole", packed)
    new = files(tmp_path / "whole")
    command = [sys.executable, "-m", "costgym", "leaderboard", "--out", str(tmp_path / "mine"), "--add", str(packed)]
    began = time.monotonic()
    shutil.copytree(board, tmp_path / "mine")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    took = time.monotonic() - began
    seen = set()
    for part in np.random.default_rng(1).uniform(0.3, 1.05, 12):
        shutil.rmtree(tmp_path / "mine")
        shutil.copytree(board, tmp_path / "mine")
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(took * part)
        process.send_signal(signal.SIGKILL)
        process.wait()
        finish_change(tmp_path / "mine")
        assert verify(tmp_path / "mine").verified
        after_kill = files(tmp_path / "mine")
        assert after_kill in (old, new)
        seen.add(after_kill == new)
        add(tmp_path / "mine", packed)
        assert files(tmp_path / "mine") == new
        left = [path.name for path in (tmp_path / "mine").rglob(".*") if path.name != ".lock"]
        assert left == []
    assert seen

"""Commands that read a folder of somebody else's change nothing outside of it, read nothing outside of it, and do not wait."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from costgym.simulators.files import LOCK, NEXT
from tests.helpers.command_line import invoke

LIMITS = ("--agents", "cheapest", "--budgets", "price=10", "--episodes", "2", "--jobs", "1", "--quiet")


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has ended, and a submission of it."""
    folder = tmp_path_factory.mktemp("genuine")
    assert invoke("leaderboard", *LIMITS, "--out", folder / "run").exit_code == 0
    assert invoke("submit", "pack", folder / "run", "--out", folder / "entry", "--name", "n", "--contact", "c").exit_code == 0
    terms = ("--tracks", "numbers", "--agents", "cheapest", "--tasks", "1", "--worlds", "1")
    assert invoke("submit", "epoch", "--out", folder / "epoch", *terms).exit_code == 0
    return folder


def overwrite(folder: Path, victim: Path) -> None:
    (folder / "keys").symlink_to(victim)
    (folder / NEXT / "keys").mkdir(parents=True)
    (folder / NEXT / "keys" / "key").write_text("x")


def delete(folder: Path, victim: Path) -> None:
    (folder / "keys").symlink_to(victim)
    (folder / NEXT / "keys" / "old").mkdir(parents=True)


def steal(folder: Path, victim: Path) -> None:
    (folder / NEXT).mkdir()
    (folder / NEXT / "keys").symlink_to(victim)


def swap(folder: Path, victim: Path) -> None:
    (folder / NEXT).symlink_to(victim)


def hang(folder: Path, victim: Path) -> None:
    (folder / LOCK).unlink(missing_ok=True)
    os.mkfifo(folder / LOCK)


def lock_elsewhere(folder: Path, victim: Path) -> None:
    (folder / LOCK).unlink(missing_ok=True)
    (folder / LOCK).symlink_to(victim / "new")


def append_elsewhere(folder: Path, victim: Path) -> None:
    for name in ("episodes.jsonl", "trajectories"):
        if (folder / name).exists():
            shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()
    (folder / "episodes.jsonl").symlink_to(victim / "key")
    (folder / "trajectories").symlink_to(victim / "old")


ATTACKS = (overwrite, delete, steal, swap, hang, lock_elsewhere, append_elsewhere)
COMMANDS: dict[str, Callable[[Path, Path], tuple[object, ...]]] = {
    "verify run": lambda run, entry: ("verify", run),
    "verify entry": lambda run, entry: ("verify", entry),
    "pack": lambda run, entry: ("submit", "pack", run, "--out", run.parent / "out", "--name", "n", "--contact", "c"),
    "validate": lambda run, entry: ("submit", "validate", entry),
    "rerun": lambda run, entry: ("submit", "rerun", entry, "--epoch", run.parent / "epoch", "--out", run.parent / "judged"),
    "add": lambda run, entry: ("leaderboard", "--add", entry, "--out", run.parent / "board"),
    "add to": lambda run, entry: ("leaderboard", "--add", run.parent / "mine", "--out", run),
    "continue": lambda run, entry: ("leaderboard", *LIMITS, "--out", run),
    "store": lambda run, entry: ("leaderboard", *LIMITS, "--out", run, "--store", run.parent / "results.db"),
    "show run": lambda run, entry: ("show", run),
    "show entry": lambda run, entry: ("show", entry),
    "merge": lambda run, entry: ("leaderboard", "--merge", run, run.parent / "board", "--out", run.parent / "out"),
    "export": lambda run, entry: ("export", run, "--format", "messages", "--out", run.parent / "out.jsonl"),
    "datasets": lambda run, entry: ("datasets", "list", entry),
}


WRITERS = ("add to", "continue", "store")


def names(folder: Path) -> list[tuple[str, int]]:
    return [(str(path.relative_to(folder)), path.lstat().st_mtime_ns) for path in (folder, *sorted(folder.rglob("*")))]


def tree(folder: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else "folder" for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_command_moves_a_file_outside_of_a_hostile_folder(
    attack: Callable[[Path, Path], None], command: str, genuine: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    (victim / "old").mkdir(parents=True)
    (victim / "key").write_text("precious")
    (victim / "old" / "key").write_text("precious too")
    for name, source in {"run": "run", "entry": "entry", "board": "run", "mine": "entry", "epoch": "epoch"}.items():
        shutil.copytree(genuine / source, tmp_path / name)
    attack(tmp_path / "run", victim)
    attack(tmp_path / "entry", victim)
    before = names(tmp_path / "run") + names(tmp_path / "entry")
    done = invoke(*COMMANDS[command](tmp_path / "run", tmp_path / "entry"))
    assert tree(victim) == {"key": b"precious", "old": "folder", "old/key": b"precious too"}
    if command not in WRITERS:
        assert names(tmp_path / "run") + names(tmp_path / "entry") == before
    # these leave out what is no plain file, and an entry that is none
    assert done.exit_code != 0 or command in ("datasets", "rerun"), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception


def test_folders_a_thousand_levels_deep_are_refused_in_a_sentence(genuine: Path, tmp_path: Path) -> None:
    shutil.copytree(genuine / "run", tmp_path / "run")
    here = os.open(tmp_path / "run", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    try:
        for words in (("verify",), ("datasets", "list"), ("show",), ("forge", "--out", tmp_path / "out.yaml")):
            done = invoke(*words, tmp_path / "run")
            assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1, done.exception
    finally:  # pytest's own clean-up ends after a thousand levels
        subprocess.run(["rm", "-rf", "--", str(tmp_path / "run")], check=True)

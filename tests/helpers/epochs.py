"""Small epochs of a leaderboard, and entries for them."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from costgym.experiments.board.epochs.epoch import PUBLIC, SECRET, create
from costgym.experiments.board.epochs.judging import judge
from costgym.experiments.board.epochs.options import EpochOptions
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.run_options import RunOptions
from costgym.experiments.board.submissions.submission import pack
from costgym.experiments.leaderboard import run
from costgym.experiments.pages.leaderboard_page import pages_of

LONG_AGO = date(2026, 1, 1)
TERMS: dict[str, Any] = {"budgets": "price=20", "episodes": 4}  # of the public run


def epoch(
    folder: Path,
    keys: Path | None = None,
    tracks: Sequence[str] = ("numbers",),
    references: Sequence[str] | None = None,
    **options: Any,
) -> Path:
    """An epoch that is over, with the same secret in every run of the tests; returns its folder."""
    terms = {"tasks": 2, "worlds": 1, "begin": LONG_AGO, "end": LONG_AGO, "tracks": tuple(tracks), **options}
    create(folder, RunOptions(budgets="price=20", agents=references), keys, EpochOptions(**terms))
    with_secret(folder, "the same in every run of the tests")
    return folder


def with_secret(folder: Path, secret: str) -> None:
    """Another secret in the place of the one that was drawn."""
    (folder / SECRET).write_text(secret + "\n")
    document = json.loads((folder / PUBLIC).read_text())
    document["secret_sha256"] = hashlib.sha256(secret.encode()).hexdigest()
    (folder / PUBLIC).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Work in a folder, as whoever makes an entry of own code does."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)


def entry(
    folder: Path, name: str, agents: Sequence[str], code: str | None = None, played: str | None = None, **terms: Any
) -> Path:
    """An entry of some agents in `folder/NAME`, which has played the public tasks.

    Args:
        code: the file `own.py` that is handed in.
        played: the file `own.py` that has played, where that was another.
    """
    work = folder / f".{name} work"
    (work / "code").mkdir(parents=True)
    if code is not None:
        (work / "code/own.py").write_text(played or code)
    with working_in(work / "code"):
        ran = run(make_run_config("quick", agents=agents, **{**TERMS, **terms}), work / "run").folder
    if code is not None:
        (work / "code/own.py").write_text(code)
    shutil.rmtree(work / "code/__pycache__", ignore_errors=True)
    files = None if code is None else work / "code"
    return pack(ran, folder / name, name, f"{name.split()[0]}@example.org", files=files)


def board(entries: Sequence[Path], folder: Path, out: Path, **options: Any) -> dict[str, Any]:
    """Judge entries; returns the board's document."""
    judge(entries, folder, out, pages=pages_of, **options)
    document: dict[str, Any] = json.loads((out / "leaderboard.json").read_text())
    return document


def rows(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows of those who entered, by identity; one track and one condition."""
    return {row["submission"]["name"]: row for row in document["rows"] if "submission" in row}

"""Many honest entries in one epoch: how many are refused or ring an alarm, and whether judges agree, whatever interrupts them.

    python benchmarks/hostile/epochs.py [800] [--kills 20] [--json FILE]

An entry is one agent of one track of the default suite that has played 16 public episodes; tracks and agents come in turn, but
for those that read the world or collect past uses for minutes. All are judged in one epoch of four tasks and two worlds. Of the
first ones another judge with the same secret makes a board too, and a third that is killed again and again. At the end the
secret is published, the epoch's folder removed, and everything replayed.
"""

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

from costgym.experiments.board.epochs.chain import CHAIN, read_chain
from costgym.experiments.board.epochs.epoch import create, read_epoch
from costgym.experiments.board.epochs.judging import judge, reveal
from costgym.experiments.board.epochs.options import EpochOptions
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.run_options import RunOptions
from costgym.experiments.board.submissions.submission import pack
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import run
from costgym.experiments.pages.leaderboard_page import pages_of
from costgym.experiments.play.execution.engine import Local, default_jobs

LONG_AGO = date(2026, 1, 1)
SLOW = ("oracle", "informed", "+btp", "zoo:")
FEW = 12  # entries that the other judges play


def epoch(folder: Path) -> Path:
    """An epoch of all tracks."""
    terms = EpochOptions(name="honest", begin=LONG_AGO, end=LONG_AGO, tasks=4, worlds=2)
    create(folder / "epoch", RunOptions(), terms=terms)
    return folder / "epoch"


def packed(folder: Path, number: int) -> Iterator[Path]:
    """Pack an honest entry that has played one condition of a track."""
    config = make_run_config("quick")
    turn, at = divmod(number, len(config.tracks))
    track = config.tracks[at]
    agents = [name for name in track.agents if not any(slow in name for slow in SLOW)]
    condition = track.conditions[turn % len(track.conditions)].model_copy(update={"episodes": 16 - 16 % track.seeds})
    alone = track.model_copy(update={"agents": (agents[turn % len(agents)],), "conditions": (condition,)})
    mine = config.model_copy(update={"tracks": (alone,), "weights": {}, "experience": None, "seed": number})
    with tempfile.TemporaryDirectory() as work:
        played = run(mine, Path(work) / "run").folder
        yield pack(played, folder / f"{number:04}", f"Entry {number:04}", "a@example.org")


def rerun(few: Path, folder: Path, out: Path) -> list[str]:
    """The command of a judge."""
    where = ("--epoch", str(folder), "--out", str(out))
    return [sys.executable, "-m", "costgym", "submit", "rerun", str(few), *where, "--quiet"]


def killed(few: Path, folder: Path, out: Path, kills: int) -> int:
    """Judge some entries, killed so many times at random moments; returns how often it was at work."""
    command = rerun(few, folder, out)
    chance, at_work = random.Random(0), 0
    for _ in range(kills):
        lines = (out / CHAIN).read_text().count("\n") if (out / CHAIN).exists() else 0
        process = subprocess.Popen(command)
        wanted = lines + chance.randrange(2)
        while process.poll() is None and (not (out / CHAIN).exists() or (out / CHAIN).read_text().count("\n") < wanted):
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 1.0))
        at_work += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command, check=True)
    return at_work


def same(one: Path, other: Path) -> bool:
    names = sorted(path.name for path in one.iterdir() if path.is_file())
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


def others(folder: Path, kills: int) -> int:
    """Judge the first entries once more, and once more with kills; returns how often that was at work when it was killed."""
    subprocess.run(rerun(folder / "few", folder / "epoch b", folder / "board b"), check=True)
    return killed(folder / "few", folder / "epoch c", folder / "board c", kills)


def main() -> None:
    parser = argparse.ArgumentParser(description="Honest entries in one epoch.")
    parser.add_argument("entries", nargs="?", type=int, default=120)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    begin = time.monotonic()
    jobs = Local(default_jobs())
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor() as beside:
        folder = Path(work)
        spring, board = epoch(folder), folder / "board"
        for name in ("b", "c"):
            shutil.copytree(spring, folder / f"epoch {name}")
        made = list(jobs.stream(packed, folder / "entries", range(arguments.entries)))
        print(f"{len(made)} entries packed after {time.monotonic() - begin:.0f} s", flush=True)
        for path in made[:FEW]:
            shutil.copytree(path, folder / "few" / path.name)
        interrupted = beside.submit(others, folder, arguments.kills)
        verdicts = judge([folder / "few"], spring, board, pages=pages_of)
        shutil.copytree(board, folder / "few on board")
        verdicts += judge([folder / "entries"], spring, board, pages=pages_of)
        print(f"{len(verdicts)} judged after {time.monotonic() - begin:.0f} s", flush=True)
        at_work = interrupted.result()
        rows = [row for verdict in read_chain(board, read_epoch(spring)) for row in verdict.rows]
        reveal(spring, board, pages_of, jobs)
        print(f"secret published after {time.monotonic() - begin:.0f} s", flush=True)
        shutil.rmtree(spring)
        replayed = verify(board, engine=jobs)
        report: dict[str, Any] = {
            "entries": len(verdicts),
            "refused": [verdict.reasons for verdict in verdicts if not verdict.accepted],
            "rows": len(rows),
            "episodes played": sum(row["episodes"] for row in rows),
            "tracks": sorted({row["track"] for row in rows}),
            "agents": len({(row["track"], row["agent"]) for row in rows}),
            "alarms": [(row["agent"], row["alarms"]) for row in rows if row.get("alarms")],
            "another judge has the same bytes": same(folder / "few on board", folder / "board b"),
            "kills at work": at_work,
            "the killed judge has the same bytes": same(folder / "few on board", folder / "board c"),
            "episodes replayed from nothing": replayed.episodes,
            "problems": replayed.problems,
            "minutes": round((time.monotonic() - begin) / 60, 1),
        }
    print(json.dumps(report, indent=1))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

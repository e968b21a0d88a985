"""Many honest entries in one epoch: how many are refused or ring an alarm, and whether judges agree, whatever interrupts them.

    python benchmarks/hostile/epochs.py [entries] [--kills 20] [--minutes M] [--json FILE]

An entry is one agent of one track of the default suite that has played 16 public episodes; tracks and agents come in turn, but
for those that read the world or collect past uses for minutes. All are judged in one epoch of four tasks and two worlds. Of the
first ones another judge with the same secret makes a board too, and a third that is killed again and again. At the end the
secret is published, the epoch's folder removed, and everything replayed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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

LONG_AGO = date(2026, 1, 1)
SLOW = ("oracle", "informed", "+btp", "zoo:")
FEW = 12  # entries that the other judges play


def epoch(folder: Path) -> Path:
    """An epoch of all tracks."""
    terms = EpochOptions(name="honest", begin=LONG_AGO, end=LONG_AGO, tasks=4, worlds=2)
    create(folder / "epoch", RunOptions(), terms=terms)
    return folder / "epoch"


def entries(folder: Path, count: int, until: float) -> Iterator[Path]:
    """Pack honest entries, each under one condition of its track, until a moment."""
    config = make_run_config("quick")
    agents = {t.name: [name for name in t.agents if not any(each in name for each in SLOW)] for t in config.tracks}
    for number, track in zip(range(count), itertools.cycle(config.tracks), strict=False):
        turn = number // len(config.tracks)
        agent = agents[track.name][turn % len(agents[track.name])]
        condition = track.conditions[turn % len(track.conditions)].model_copy(update={"episodes": 16 - 16 % track.seeds})
        alone = track.model_copy(update={"agents": (agent,), "conditions": (condition,)})
        mine = config.model_copy(update={"tracks": (alone,), "weights": {}, "experience": None, "seed": number})
        with tempfile.TemporaryDirectory() as work:
            played = run(mine, Path(work) / "run").folder
            yield pack(played, folder / f"{number:04}", f"Entry {number:04}", "a@example.org")
        if time.monotonic() > until:
            return


def killed(few: Path, folder: Path, out: Path, kills: int) -> int:
    """Judge some entries, killed so many times at random moments; returns how often it was at work."""
    command = [
        sys.executable,
        "-m",
        "costgym",
        "submit",
        "rerun",
        str(few),
        "--epoch",
        str(folder),
        "--out",
        str(out),
        "--quiet",
    ]
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


def main() -> None:
    parser = argparse.ArgumentParser(description="Honest entries in one epoch.")
    parser.add_argument("entries", nargs="?", type=int, default=120)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=600.0, help="after which no further entry is made")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        spring = epoch(folder)
        for name in ("b", "c"):
            shutil.copytree(spring, folder / f"epoch {name}")
        made = list(entries(folder / "entries", arguments.entries, time.monotonic() + 60 * arguments.minutes))
        print(f"{len(made)} entries packed, {time.process_time() - begin:.0f} processor seconds", flush=True)
        for path in made[:FEW]:
            shutil.copytree(path, folder / "few" / path.name)
        judge([folder / "few"], folder / "epoch b", folder / "board b", pages=pages_of)
        at_work = killed(folder / "few", folder / "epoch c", folder / "board c", arguments.kills)
        print(f"killed {at_work} times at work", flush=True)
        board = folder / "board"
        verdicts = judge([folder / "few"], spring, board, pages=pages_of)
        few_agree = same(board, folder / "board b"), same(board, folder / "board c")
        verdicts += judge([folder / "entries"], spring, board, pages=pages_of, say=lambda text: print(text, flush=True))
        rows = [row for verdict in read_chain(board, read_epoch(spring)) for row in verdict.rows]
        reveal(spring, board, pages_of)
        shutil.rmtree(spring)
        replayed = verify(board)
        found: dict[str, Any] = {
            "entries": len(verdicts),
            "refused": [verdict.reasons for verdict in verdicts if not verdict.accepted],
            "rows": len(rows),
            "episodes played": sum(row["episodes"] for row in rows),
            "tracks": sorted({row["track"] for row in rows}),
            "agents": len({(row["track"], row["agent"]) for row in rows}),
            "alarms": [(row["agent"], row["alarms"]) for row in rows if row.get("alarms")],
            "another judge has the same bytes": few_agree[0],
            "kills at work": at_work,
            "the killed judge has the same bytes": few_agree[1],
            "episodes replayed from nothing": replayed.episodes,
            "problems": replayed.problems,
            "processor_seconds": round(time.process_time() - begin, 1),
        }
    print(json.dumps(found, indent=1))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

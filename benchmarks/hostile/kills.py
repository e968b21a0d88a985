"""Runs that are killed at random moments end with the bytes of runs that were not.

    python benchmarks/hostile/kills.py [kills] [--json FILE]

Collections and leaderboards (in one process and in two) are started, killed by SIGKILL after a random time, started again
in the same folder, and so on until they end; then every file is compared with that of an undisturbed run. Times are drawn so
that kills fall from the first import to the last line.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

COLLECT = ("collect", "--agent", "react", "--scenario", "storm", "--episodes", "1000", "--seed", "5")
AGENTS = "random,cheapest,react,dfsdt"
BOARD = ("leaderboard", "--agents", AGENTS, "--budgets", "price=10,20", "--episodes", "60", "--seed", "3")
JOBS = {
    "collect": COLLECT,
    "leaderboard, one process": (*BOARD, "--jobs", "1"),
    "leaderboard, two processes": (*BOARD, "--jobs", "2"),
}


def start(arguments: tuple[str, ...], folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "costgym", *arguments, "--out", str(folder), "--quiet"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def stage(folder: Path) -> str:
    """Return how far a run had come when it was killed."""
    sizes = sum(path.stat().st_size for path in folder.rglob("*.jsonl")) if folder.is_dir() else 0
    if sizes == 0:
        return "before the first episode"
    return "after the last episode" if (folder / "leaderboard.json").exists() else "while playing"


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    out = Path(arguments.pop()) if "--json" in sys.argv else None
    wanted = int(arguments[0]) if arguments else 200
    chance = np.random.default_rng(0)
    kills: Counter[str] = Counter()
    stages: Counter[str] = Counter()
    runs = differing = 0
    with tempfile.TemporaryDirectory() as place:
        references, lasts = {}, {}
        for name, command in JOBS.items():
            begin = time.monotonic()
            assert start(command, Path(place, "reference", name)).wait() == 0
            lasts[name] = time.monotonic() - begin
            references[name] = files(Path(place, "reference", name))
            print(f"{name}: {lasts[name]:.1f} s undisturbed, {sum(map(len, references[name].values()))} bytes", flush=True)
        while sum(kills.values()) < wanted:
            name = list(JOBS)[runs % len(JOBS)]
            folder = Path(place, f"run-{runs}")
            ended = False
            while not ended:
                process = start(JOBS[name], folder)
                alive = sum(kills.values()) < wanted
                try:
                    status = process.wait(chance.uniform(0.3, lasts[name]) if alive else None)
                    assert status == 0, f"{name} ended with status {status}"
                    ended = True
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)  # its workers
                    kills[name] += 1
                    stages[stage(folder)] += 1
            runs += 1
            if files(folder) != references[name]:
                differing += 1
                print(f"{folder}: differs from the undisturbed run", flush=True)
    report = {"kills": dict(kills), "stages": dict(stages), "runs": runs, "differing": differing}
    print(json.dumps(report, indent=1))
    if out is not None:
        out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()

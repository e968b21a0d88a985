"""Run every command that writes files under every single fault of the disk, and look at what is left.

    python benchmarks/hostile/faults.py [--jobs collect,site] [--sample N] [--json FILE]

A command runs in a process whose calls of the C library are counted (`faulty_files.c`, compiled here by `cc`). Then it runs
again for every call and every fault: the call fails (EIO), the disk is full from then on (ENOSPC, after half of a write), a
write is cut short, the process is killed before the call or in the middle of a write, the call takes 50 ms. After each the
folder is what it was, what it was to become, or can be continued to it by the same command; no draft is left after that; and a
command that failed said which file it could not write. A short write and a slow call change nothing. Of many calls of one kind
on one file in a row the first, the middle and the last are tried.
"""

import argparse
import ctypes
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

FAULTS = ("fail", "full", "short", "kill", "torn", "delay")
"""In the order of `enum fault`, from 1."""
OF_WRITES = ("short", "torn")
HARMLESS = ("short", "delay")
LIBRARY = "COSTGYM_FAULTY_FILES"
State = dict[str, Any]
TIMES = re.compile(rb'"[a-z_/]*(seconds|fps|time|per_s)[a-z_/]*": [-+.0-9e]+')
"""How long training took, which differs from run to run."""


@dataclass(frozen=True)
class Job:
    """A command under test.

    Attributes:
        line: its arguments; BASE is a folder of inputs, TRIAL the folder that faults strike.
        before: commands that make what stands in TRIAL before.
        ends_with: the file that says that the result is whole; None where the result is there at once or not at all.
    """

    line: str
    before: tuple[str, ...] = ()
    ends_with: str | None = None


BOARD = "leaderboard --agents cheapest,react --budgets price=10 --jobs 1 --quiet"
JOBS = {
    "leaderboard": Job(f"{BOARD} --episodes 2 --out TRIAL/board", ends_with="board/leaderboard.json"),
    "leaderboard again": Job(f"{BOARD} --episodes 2 --out TRIAL/board", (f"{BOARD} --episodes 2 --out TRIAL/board",)),
    "store": Job(
        f"{BOARD} --episodes 2 --out BASE/board --store TRIAL/results.db",
        (f"{BOARD} --episodes 1 --out TRIAL/first --store TRIAL/results.db",),
    ),
    "collect": Job("collect --agent react --episodes 3 --out TRIAL/data --quiet", ends_with="data/trajectories.jsonl"),
    "collect continued": Job(
        "collect --agent react --episodes 3 --out TRIAL/data --quiet",
        ("collect --agent react --episodes 1 --out TRIAL/data --quiet",), ends_with="data/trajectories.jsonl",
    ),
    "export messages": Job("export BASE/data --format messages --out TRIAL/out/messages.jsonl"),
    "export parquet": Job("export BASE/data --format parquet --out TRIAL/out/steps.parquet"),
    "export hf": Job("export BASE/data --format hf --out TRIAL/out/hf"),
    "export experience": Job("export BASE/data --format experience --out TRIAL/out/past.jsonl"),
    "merge": Job("leaderboard --merge BASE/board BASE/board --out TRIAL/joined --quiet"),
    "pack": Job("submit pack BASE/board --out TRIAL/packed --name ours --contact us@example.org"),
    "add": Job(
        "leaderboard --out TRIAL/board --add BASE/packed --jobs 1 --quiet",
        ("leaderboard --agents greedy,dfsdt --budgets price=10 --jobs 1 --quiet --episodes 2 --out TRIAL/board",),
    ),
    "train ppo": Job(
        "train ppo --steps 128 --n-envs 4 --n-steps 8 --batch-size 32 --n-epochs 1 --hidden-size 4 --out TRIAL/run --quiet",
        ends_with="run/curves.html",
    ),
}  # fmt: skip
BASE = (
    f"{BOARD} --episodes 2 --out BASE/board",
    "leaderboard --agents random --budgets price=10 --jobs 1 --quiet --episodes 2 --out BASE/other",
    "collect --agent react --episodes 3 --out BASE/data --quiet",
    "submit pack BASE/board --out BASE/packed --name ours --contact us@example.org",
)


def words(line: str, base: Path, trial: Path) -> list[str]:
    return [word.replace("BASE", str(base)).replace("TRIAL", str(trial)) for word in line.split()]


def command(line: list[str]) -> tuple[int, str]:
    """Run a command in this process; its status and what it wrote to standard error."""
    from typer.testing import CliRunner

    from costgym.cli.app import app

    done = CliRunner().invoke(app, line)
    problem = done.exception
    if problem is not None and not isinstance(problem, SystemExit):
        return 1, f"Traceback: {type(problem).__name__}: {problem}"
    return done.exit_code, done.stderr


def in_child(work: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    """Do the same in a forked process; its status is negative if a signal ended it."""
    with tempfile.TemporaryFile() as answer:
        child = os.fork()
        if child == 0:
            try:
                status, text = work()
                answer.write(text.encode("utf-8", "replace"))
                answer.flush()
                os._exit(status)
            finally:
                os._exit(99)
        _, ended = os.waitpid(child, 0)
        answer.seek(0)
        return os.waitstatus_to_exitcode(ended), answer.read().decode()


def state(folder: Path) -> State:
    """What a reader finds: the visible files; of a database its content."""
    states: State = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if any(part.startswith(".") for part in Path(name).parts) or path.is_dir() or "tfevents" in name:
            continue
        if path.suffix == ".db":
            with sqlite3.connect(path) as opened:
                states[name] = sorted(opened.iterdump())
        elif name.endswith(".html") and "run/" in name:
            states[name] = b""  # curves over seconds
        elif not name.endswith((".db-journal", ".db-wal", ".db-shm")):
            states[name] = TIMES.sub(b"", path.read_bytes())
    return states


def drafts(folder: Path) -> list[str]:
    """What no reader should find: hidden files other than locks, and halves of checkpoints."""
    hidden = (path for path in folder.rglob("*") if path.name.startswith(".") or path.suffix in (".part", ".tmp"))
    return sorted(str(path.relative_to(folder)) for path in hidden if path.name != ".lock")


class Trials:
    """The trials of one job."""

    def __init__(self, name: str, base: Path, folder: Path) -> None:
        self.name, self.job, self.base, self.place = name, JOBS[name], base, folder
        self.library = ctypes.CDLL(os.environ[LIBRARY])
        self.before, self.trial = folder / "before", folder / "trial"
        self.line = words(self.job.line, base, self.trial)
        self.trial.mkdir(parents=True)
        for line in self.job.before:
            status, text = command(words(line, base, self.trial))
            assert status == 0, (line, text)
        shutil.copytree(self.trial, self.before)
        self.old = state(self.trial)
        status, text = command(self.line)  # what it imports is there from now on
        assert status == 0, (self.line, text)
        self.new = state(self.trial)

    def reset(self) -> None:
        shutil.rmtree(self.trial)
        shutil.copytree(self.before, self.trial)

    def run(self, nth: int = 0, fault: int = 0, log: int = -1) -> tuple[int, str]:
        def work() -> tuple[int, str]:
            self.library.faults_arm(str(self.trial).encode(), ctypes.c_long(nth), fault, log)
            return command(self.line)

        return in_child(work)

    def calls(self) -> list[str]:
        """The calls of a run without a fault."""
        self.reset()
        with tempfile.TemporaryFile() as log:
            status, text = self.run(log=log.fileno())
            assert status == 0, text
            assert state(self.trial) == self.new, f"{self.name} does not make the same twice"
            log.seek(0)
            return log.read().decode().splitlines()

    def check(self, nth: int, fault: str) -> str | None:
        """Run with a fault; what is wrong afterwards."""
        self.reset()
        status, text = self.run(nth, 1 + FAULTS.index(fault))
        now = state(self.trial)
        if status == 99 or "Traceback" in text:
            return f"a traceback: {text[-300:]}"
        if status == 0 and now != self.new:
            return f"said to be done, but {self._difference(now)}"
        if status != 0 and fault in HARMLESS:
            return f"status {status} without need: {text[-300:].strip()}"
        if status > 0:
            if "error: " not in text or str(self.trial) not in text.replace("\n", ""):
                return f"status {status}, and no file is named: {text[-300:]}"
            if drafts(self.trial) and "a change that was begun" not in text:
                return f"left behind: {drafts(self.trial)[:3]} ({text[-200:].strip()})"
        resumable = self.job.ends_with is not None
        whole = not resumable or now.get(self.job.ends_with or "") == self.new[self.job.ends_with or ""]
        decided = any(self.trial.glob("*/.next"))  # every command that reads the folder finishes the change first
        if now not in (self.old, self.new) and whole and not decided:
            return f"neither the old nor the new: {self._difference(now)}"
        if status == 0:
            return None
        status, text = self.run()
        if state(self.trial) != self.new:
            return f"the next run does not mend it: {self._difference(state(self.trial))} ({text[-200:].strip()})"
        if status != 0 and not (now == self.new and "exists already" in text):
            return f"the next run ends with status {status}: {text[-200:].strip()}"
        if drafts(self.trial) and status == 0:
            return f"left behind by the next run: {drafts(self.trial)[:3]}"
        return None

    def _difference(self, now: State) -> str:
        names = sorted(name for name in now.keys() | self.new.keys() if now.get(name) != self.new.get(name))
        return "; ".join(f"{name} is {'missing' if name not in now else 'another'}" for name in names[:3])


def distinct(calls: list[str]) -> list[tuple[int, str]]:
    """The calls with their numbers; of many calls of one kind on one file in a row the first, the middle and the last."""
    runs = [list(group) for _, group in groupby(enumerate(calls, 1), key=lambda item: item[1])]
    return [run[number] for run in runs for number in sorted({0, len(run) // 2, len(run) - 1})]


def try_job(name: str, base: Path, sample: int | None, seed: int = 0) -> dict[str, Any]:
    """All faults at all calls of a job, or a sample of them."""
    begin, used = time.monotonic(), processor_s()
    with tempfile.TemporaryDirectory() as folder:
        trials = Trials(name, base, Path(folder))
        calls = trials.calls()
        points = [
            (nth, fault)
            for nth, call in distinct(calls)
            for fault in FAULTS
            if fault not in OF_WRITES or call.startswith("write ")
        ]
        chosen = points if sample is None else sorted(random.Random(seed).sample(points, min(sample, len(points))))
        wrong = []
        for nth, fault in chosen:
            problem = trials.check(nth, fault)
            if problem is not None:
                wrong.append(f"{fault} at call {nth} ({calls[nth - 1].replace(folder, '')}): {problem.replace(folder, '')}")
                print(f"{name}: {wrong[-1]}", file=sys.stderr, flush=True)
    kinds = dict(sorted(Counter(call.split()[0] for call in calls).items()))
    files = len({call.split(" ", 1)[1] for call in calls})
    seconds = round(time.monotonic() - begin, 1)
    return {
        "calls": len(calls), "kinds": kinds, "files": files, "points": len(points), "trials": len(chosen), "wrong": wrong,
        "seconds": seconds, "processor_seconds": round(processor_s() - used, 1),
    }  # fmt: skip


def processor_s() -> float:
    """Processor time of this process and of those that it waited for, seconds."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", help="names of commands, separated by commas; all by default")
    parser.add_argument("--sample", type=int, help="trials of each command; all by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="file of the report; what is in it of other commands stays")
    args = parser.parse_args()
    if LIBRARY not in os.environ:
        with tempfile.TemporaryDirectory() as folder:
            library = f"{folder}/faulty_files.so"
            source = Path(__file__).with_name("faulty_files.c")
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
            environment = {**os.environ, LIBRARY: library, "LD_PRELOAD": library, "OMP_NUM_THREADS": "1"}
            raise SystemExit(subprocess.run([sys.executable, __file__, *sys.argv[1:]], env=environment, check=False).returncode)
    chosen = args.jobs.split(",") if args.jobs else list(JOBS)
    report: dict[str, Any] = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, "base")
        for line in BASE:
            status, text = command(words(line, base, base))
            assert status == 0, (line, text)
        for name in chosen:
            child = os.fork()  # what a job imports and starts stays its own
            if child == 0:
                Path(folder, "report").write_text(json.dumps(try_job(name, base, args.sample, args.seed)))
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, name
            report[name] = json.loads(Path(folder, "report").read_text())
            shown = {key: value for key, value in report[name].items() if key != "wrong"}
            print(f"{name}: {shown}, {len(report[name]['wrong'])} wrong", flush=True)
            if args.json is not None:
                args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    raise SystemExit(1 if any(row["wrong"] for row in report.values()) else 0)


if __name__ == "__main__":
    main()

"""Commands that are killed at random moments leave the old or the new, and end with the bytes of those that were not.

    python benchmarks/hostile/kills.py [kills] [--json FILE]

Collections and leaderboards (in one process and in two) are started, killed by SIGKILL after a random time, started again in
the same folder, and so on until they end; then every file is compared with that of an undisturbed run. Commands that write in
one step (an addition to a leaderboard, a site in place of an older one, a submission, an export) are killed likewise, every
second time within 50 ms after the first trace of theirs on the disk; after each kill there must be the old files or the new
ones, whole, and after the last run no hidden file but a lock. The job that was killed least is next. Times are drawn so that
kills fall from the first import to the last line.
"""

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from costgym.simulators.files import finish_change

COLLECT = ("collect", "--agent", "react", "--scenario", "storm", "--episodes", "500", "--seed", "5", "--quiet")
TERMS = ("--budgets", "price=10,20", "--episodes", "30", "--seed", "3", "--quiet")
BOARD = ("leaderboard", "--agents", "random,cheapest,react,dfsdt", *TERMS)
OUT = "out"
"""What a job writes, in a folder of its own: drafts lie beside it."""
MOST = 4
"""Kills of a run, which then ends undisturbed."""


class Job(NamedTuple):
    """A command that is killed.

    Attributes:
        arguments: of costgym, without `--out`.
        before: what stands at its place before; "" for nothing.
        at_once: it writes in one step.
        replaces: it may be run again where it has ended.
    """

    arguments: tuple[str, ...]
    before: str = ""
    at_once: bool = False
    replaces: bool = True


def jobs(inputs: Path) -> dict[str, Job]:
    """The jobs; what they read is made in a folder of inputs."""
    board, theirs, packed, records = (str(inputs / name) for name in ("board", "theirs", "packed", "records"))
    pack = ("submit", "pack", theirs, "--name", "Theirs", "--contact", "a@example.org")
    run((*BOARD, "--jobs", "1"), board)
    run(("leaderboard", "--agents", "greedy,cot@5", *TERMS, "--jobs", "1"), theirs)
    run(pack, packed)
    run(COLLECT, records)
    return {
        "collect": Job(COLLECT),
        "leaderboard, one process": Job((*BOARD, "--jobs", "1")),
        "leaderboard, two processes": Job((*BOARD, "--jobs", "2")),
        "leaderboard --add": Job(("leaderboard", "--add", packed, "--jobs", "1"), board, at_once=True),
        "leaderboard --merge": Job(
            ("leaderboard", "--merge", board, board, "--detail", "1", "--quiet"), at_once=True, replaces=False
        ),
        "submit pack": Job(pack, at_once=True, replaces=False),
        "export": Job(("export", records, "--format", "parquet", "--quiet"), at_once=True, replaces=False),
    }


def start(arguments: tuple[str, ...], out: str | Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "costgym", *arguments, "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def run(arguments: tuple[str, ...], out: str | Path) -> float:
    """Run a command to its end; returns the seconds that it took."""
    begin = time.monotonic()
    status = start(arguments, out).wait()
    assert status == 0, f"costgym {' '.join(arguments)} ended with status {status}"
    return time.monotonic() - begin


def prepare(job: Job, folder: Path) -> Path:
    """Lay out what stands there before a job; returns the job's place."""
    folder.mkdir(parents=True)
    if job.before:
        shutil.copytree(job.before, folder / OUT)
    return folder / OUT


def is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def files(folder: Path) -> dict[str, bytes]:
    """Files that a user sees, in full."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not is_hidden(path, folder))
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def hidden(folder: Path) -> list[str]:
    """Hidden files and folders, locks aside: what a killed process left behind."""
    hidden_paths = (path for path in folder.rglob("*") if is_hidden(path, folder) and path.name != ".lock")
    return sorted(str(path.relative_to(folder)) for path in hidden_paths)


def stage(job: Job, folder: Path, new: dict[str, bytes]) -> str:
    """Return how far a job had come when it was killed."""
    if job.at_once:
        left = hidden(folder)
        return "new" if files(folder) == new else "old, with a draft" if left else "old"
    sizes = sum(path.stat().st_size for path in folder.rglob("*.jsonl"))
    if sizes == 0:
        return "before the first episode"
    return "after the last episode" if (folder / OUT / "leaderboard.json").exists() else "while playing"


def wait_for_a_trace(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until a process has made something in a folder, or has ended."""
    before = {path.name for path in (folder, *folder.iterdir(), *folder.glob(f"{OUT}/.*"))}
    while process.poll() is None:
        if {path.name for path in (folder, *folder.iterdir(), *folder.glob(f"{OUT}/.*"))} - before:
            return
        time.sleep(0.001)


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # its workers


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    report_to = Path(arguments.pop()) if "--json" in sys.argv else None
    wanted = int(arguments[0]) if arguments else 300
    chance = np.random.default_rng(0)
    kills: Counter[str] = Counter()
    stages: Counter[str] = Counter()
    runs = 0
    wrong: list[str] = []

    def object_to(problem: str) -> None:
        wrong.append(problem)
        print(problem, flush=True)

    with tempfile.TemporaryDirectory() as root:
        table = jobs(Path(root, "inputs"))
        old: dict[str, dict[str, bytes]] = {}
        new: dict[str, dict[str, bytes]] = {}
        lasts: dict[str, float] = {}
        for name, job in table.items():
            folder = Path(root, "reference", name)
            out = prepare(job, folder)
            old[name] = files(folder)
            lasts[name] = run(job.arguments, out)
            new[name] = files(folder)
            assert new[name] != old[name] and not hidden(folder), name
            print(f"{name}: {lasts[name]:.1f} s undisturbed, {sum(map(len, new[name].values()))} bytes", flush=True)
        while sum(kills.values()) < wanted:
            name = min(table, key=lambda row: kills[row])
            job, folder = table[name], Path(root, f"run-{runs}")
            out = prepare(job, folder)
            ended, killed = False, 0
            while not ended:
                process = start(job.arguments, out)
                if sum(kills.values()) >= wanted or killed == MOST:
                    assert process.wait() == 0, f"{name} ended with status {process.returncode}"
                    break
                if job.at_once and kills[name] % 2:
                    wait_for_a_trace(process, folder)
                    pause = chance.uniform(0.0, 0.05)
                else:
                    pause = chance.uniform(0.3, lasts[name])
                try:
                    status = process.wait(pause)
                    assert status == 0, f"{name} ended with status {status}"
                    ended = True
                except subprocess.TimeoutExpired:
                    kill(process)
                    kills[name] += 1
                    killed += 1
                    if job.at_once:
                        if out.is_dir():
                            finish_change(out)  # as every command does before it reads there
                        if files(folder) not in (old[name], new[name]):
                            object_to(f"{name}: neither old nor new after kill {kills[name]}")
                        ended = not job.replaces and files(folder) == new[name]
                    stages[f"{name}: {stage(job, folder, new[name])}"] += 1
            runs += 1
            if files(folder) != new[name]:
                object_to(f"{name}: differs from the undisturbed run after {runs} runs")
            if hidden(folder):
                object_to(f"{name}: left behind: {', '.join(hidden(folder)[:3])}")
            shutil.rmtree(folder)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    report: dict[str, object] = {"kills": dict(kills), "stages": dict(sorted(stages.items())), "runs": runs, "wrong": wrong}
    report["processor_seconds"] = round(sum(row.ru_utime + row.ru_stime for row in used), 1)
    print(json.dumps(report, indent=1))
    if report_to is not None:
        report_to.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

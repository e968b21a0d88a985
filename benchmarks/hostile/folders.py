"""Run every command that reads a folder on folders of hostile shapes, under strace: what is opened, written, waited for.

    python benchmarks/hostile/folders.py [--names 1000000] [--shapes "fifo,swap"] [--jobs 2] [--json FILE]

Each shape is a genuine run, an entry of it and files beside them, spoilt in one way: links out of the folder, loops, FIFOs,
sockets, devices, hard links, half-made changes, sparse files, a million names, twins in case, deep folders. Commands of a shape
run one after the other in one traced process; one that takes more than 60 s counts as hanging. An open outside is a descriptor
that the kernel opened below the folder that the shapes point at; a write there shows in its files. Needs Linux, strace and root
(for devices).
"""

import argparse
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.report import write_report
from costgym.agents.zoo import cards
from costgym.chaos import Chaos
from costgym.experiments.play.execution.engine import default_jobs
from tests.experiments.board.test_hostile_folders import COMMANDS, LIMITS, WRITERS
from tests.helpers.command_line import invoke
from tests.helpers.specifications import CLINIC

LONGEST_S = 60
ONE = Lock()  # shapes change this process's folder
DOCUMENTS = (
    *("run.json", "manifest.json", "leaderboard.json"),
    *("calls.jsonl", "config.json", "world.yaml", "past.jsonl", "specification.json", "baseline.json", "prices.json"),
)
NAMED = (
    "calls.jsonl",
    "world.yaml",
    "past.jsonl",
    "baseline.json",
    "prices.json",
)  # by whoever gives the command, who may name a link of his own
Shape = Callable[[Path, Path], None]
MORE: dict[str, Callable[[Path, Path], tuple[object, ...]]] = {
    **COMMANDS,
    "calibrate": lambda run, entry: ("calibrate", run.parent / "files/calls.jsonl", "--out", run.parent / "out.yaml"),
    "report": lambda run, entry: ("proxy", "report", run.parent / "files/calls.jsonl"),
    "twin": lambda run, entry: ("twin", run.parent / "files/trajectories", "--out", run.parent / "out.yaml"),
    "forge": lambda run, entry: ("forge", run.parent / "files", "--out", run.parent / "out.yaml"),
    "trained": lambda run, entry: ("run", f"catp:{run.parent / 'files'}", "--episodes", "1"),
    "scenario": lambda run, entry: ("run", "greedy", "--scenario", run.parent / "files/world.yaml", "--episodes", "1"),
    "past uses": lambda run, entry: ("run", "react+btp", "--experience", run.parent / "files/past.jsonl", "--episodes", "1"),
    "cost": lambda run, entry: ("cost", run.parent / "files/calls.jsonl"),
    "gate": lambda run, entry: ("gate", "react", "--baseline", run.parent / "files/baseline.json"),
    "prices": lambda run, entry: (
        *("prices", "import", run.parent / "files/prices.json", "--date", "2026-01-01", "--out", run.parent / "out.yaml"),
    ),
    "export chats": lambda run, entry: (
        *("export", run.parent / "files/trajectories", "--format", "messages", "--out", run.parent / "out.jsonl"),
    ),
}


# -- shapes ----------------------------------------------------------------------------------------------------------------


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as store:
        os.chdir(path.parent)  # the names of sockets are short
        store.bind(path.name)


KINDS: dict[str, Callable[[Path, Path], None]] = {
    "link out": lambda path, outside: path.symlink_to(outside / "key"),
    "link to nowhere": lambda path, outside: path.symlink_to(outside / "new"),
    "loop": lambda path, outside: path.symlink_to(path.name),
    "fifo": lambda path, outside: os.mkfifo(path),
    "socket": lambda path, outside: _bind(path),
    "device": lambda path, outside: os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5)),  # /dev/zero
    "hard link": lambda path, outside: os.link(outside / "key", path),
}
PLACES: dict[str, Callable[[Path], list[Path]]] = {
    "documents": lambda folder: [folder / name for name in DOCUMENTS],
    "lines": lambda folder: [folder / "episodes.jsonl", *sorted((folder / "trajectories").rglob("*.jsonl"))],
    "lock": lambda folder: [folder / ".lock"],
    "stray": lambda folder: [folder / "stray.jsonl"],
}


def _in_place(kind: str, name: str) -> Shape:
    def spoil(folder: Path, outside: Path) -> None:
        for path in PLACES[name](folder):
            if kind == "link out" and folder.name == "files" and path.name in NAMED:
                continue
            _clear(path)
            KINDS[kind](path, outside)

    return spoil


def _folder(target: Callable[[Path, Path], Path]) -> Shape:
    def spoil(folder: Path, outside: Path) -> None:
        if folder.name == "files":  # whose trajectories are named by whoever gives the command
            return
        _clear(folder / "trajectories")
        (folder / "trajectories").symlink_to(target(folder, outside))

    return spoil


def _next(kind: str) -> Shape:
    def spoil(folder: Path, outside: Path) -> None:
        change = folder / ".next"
        match kind:
            case "overwrite" | "delete":
                (folder / "keys").symlink_to(outside)
                (change / "keys").mkdir(parents=True)
                (change / "keys" / "key").write_text("x") if kind == "overwrite" else (change / "keys" / "old").mkdir()
            case "steal":
                change.mkdir()
                (change / "keys").symlink_to(outside)
            case "swap":
                change.symlink_to(outside)
            case "file":
                change.write_text("x")
            case _:
                change.mkdir()
                (change / "leaderboard.json").write_text("{}")

    return spoil


def _sparse(name: str, size: int) -> Shape:
    def spoil(folder: Path, outside: Path) -> None:
        for path in [folder / document for document in DOCUMENTS] if name == "documents" else [folder / name]:
            with path.open("ab") as store:
                store.truncate(size)

    return spoil


def _names(count: int) -> Shape:
    def spoil(folder: Path, outside: Path) -> None:
        (folder / "many").mkdir()
        handle = os.open(folder / "many", os.O_RDONLY)
        for number in range(count):
            os.close(os.open(f"{number}.jsonl", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
        os.close(handle)

    return spoil


def _deep(folder: Path, outside: Path) -> None:
    here = os.open(folder, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def _twins(folder: Path, outside: Path) -> None:
    for name in ("RUN.json", "Manifest.json", "Episodes.jsonl", "run.json "):
        (folder / name).write_text("{}")


def _odd_names(folder: Path, outside: Path) -> None:
    for name in (b"a\nb.jsonl", b"\xff\xfe.jsonl", b"\x1b[2J.jsonl", b"-rf.jsonl", b" .jsonl", b"x" * 250 + b".json"):
        os.close(os.open(os.fsencode(folder) + b"/" + name, os.O_CREAT | os.O_WRONLY))


def shapes(names: int) -> dict[str, Shape]:
    """All shapes by their names."""
    return {
        **{f"{kind}, {path}": _in_place(kind, path) for kind in KINDS for path in PLACES},
        "folder is a link out": _folder(lambda folder, outside: outside),
        "folder is a link in": _folder(lambda folder, outside: folder),
        "folder is a loop": _folder(lambda folder, outside: Path("trajectories")),
        **{f".next, {kind}": _next(kind) for kind in ("overwrite", "delete", "steal", "swap", "file", "pending")},
        "sparse documents": _sparse("documents", 2**40),
        "sparse lines": _sparse("episodes.jsonl", 2**33),
        "sparse stray": _sparse("stray.jsonl", 2**40),
        f"{names:,} names": _names(names),
        "deep folders": _deep,
        "twins in case": _twins,
        "odd names": _odd_names,
    }


def seven() -> int:
    """A tool for a log."""
    return 7


def make_files(folder: Path) -> None:
    """Files of every other kind: a trained policy, episodes, a log, a scenario, past uses of tools, a specification."""
    shutil.copytree(Path(cards.__file__).parent / "catp", folder)
    shutil.copy(Path(cards.__file__).parents[2] / "simulators/presets/marketplace.yaml", folder / "world.yaml")
    (folder / "specification.json").write_text(json.dumps(CLINIC))
    assert invoke("collect", "--agent", "react", "--episodes", "20", "--out", folder / "trajectories", "--quiet").exit_code == 0
    assert invoke("experience", "--experience", "react:1", "--out", folder / "past.jsonl", "--quiet").exit_code == 0
    assert invoke("gate", "react", "--write-baseline", folder / "baseline.json", "--quiet").exit_code == 0
    listed = {"m": {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6, "mode": "chat"}}
    (folder / "prices.json").write_text(json.dumps(listed))
    with Chaos([seven], scenario="marketplace-reliable", log=folder / "calls.jsonl", time_scale=0) as chaos:
        for _ in range(40):
            with suppress(Exception):
                chaos.tools[0]()
        chaos.success = True


# -- a traced process ------------------------------------------------------------------------------------------------------


class _Hang(BaseException):
    pass


def _hang(*_: object) -> None:
    raise _Hang


def commands_on(folder: Path) -> None:
    """Run all commands on the folders of a shape and print how each ended (the traced process)."""
    import resource

    signal.signal(signal.SIGALRM, _hang)
    run, entry = folder / "run", folder / "entry"
    for name, arguments in MORE.items():
        signal.alarm(LONGEST_S)
        try:
            done = invoke(*arguments(run, entry))
            wrong = done.exception is not None and not isinstance(done.exception, SystemExit)
            ended = f"traceback: {type(done.exception).__name__}: {done.exception}" if wrong else str(done.exit_code)
        except _Hang:
            ended = "hangs"
        signal.alarm(0)
        for left in ("out", "out.yaml", "out.jsonl", "results.db"):
            _clear(folder / left)
        print(json.dumps({"command": name, "ended": ended}), flush=True)
    print(json.dumps({"memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}), flush=True)


def state(folder: Path) -> dict[str, Any]:
    """Names, kinds, times and contents below a folder."""
    return {
        str(path): (path.lstat().st_mtime_ns, path.lstat().st_size, path.read_bytes() if path.is_file() else b"")
        for path in (folder, *sorted(folder.rglob("*")))
    }


@contextmanager
def _removed_whole(folder: Path) -> Iterator[Path]:
    """A folder that is removed afterwards, however deep it is: Python's own ways end after a thousand levels."""
    try:
        yield folder
    finally:
        subprocess.run(["rm", "-rf", "--", str(folder)], check=False)


def tried(genuine: Path, name: str, spoil: Shape) -> dict[str, Any]:
    """What the commands did on one shape."""
    with _removed_whole(Path(tempfile.mkdtemp(dir=genuine.parent))) as below:
        base, outside = Path(below, "place"), Path(below, "outside")
        (outside / "old").mkdir(parents=True)
        for path in (outside / "key", outside / "old" / "key"):
            path.write_text("precious\n")
        copies = {"run": "run", "entry": "entry", "board": "run", "mine": "entry", "epoch": "epoch", "files": "files"}
        for target, source in copies.items():
            shutil.copytree(genuine / source, base / target)
        with ONE:
            for folder in (base / "run", base / "entry", base / "files"):
                spoil(folder, outside)
        before, trace = state(outside), Path(below, "trace")
        command = [
            "strace",
            "-f",
            "-y",
            "-qq",
            "-e",
            "trace=%file",
            "-o",
            str(trace),
            sys.executable,
            __file__,
            "--on",
            str(base),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=below)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        opened = re.compile(rf"= \d+<{re.escape(str(outside))}")
        with trace.open(errors="replace") as calls:
            opens = sum(bool(opened.search(call)) for call in calls)
        after = state(outside)
        ends = {line["command"]: line["ended"] for line in lines if "command" in line}
        return {
            "shape": name,
            "opens_outside": opens,
            "writes_outside": sum(before.get(path) != after.get(path) for path in {*before, *after}),
            "hangs": [command for command, ended in ends.items() if ended == "hangs"],
            "tracebacks": [f"{command}: {ended}"[:300] for command, ended in ends.items() if "traceback" in ended],
            "not_run": sorted(MORE.keys() - ends.keys()),
            "read": [command for command, ended in ends.items() if ended == "0"],
            "memory_mb": max((line["memory_mb"] for line in lines if "memory_mb" in line), default=None),
            **({"stderr": done.stderr[-300:]} if done.returncode else {}),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", type=int, default=1_000_000)
    parser.add_argument("--shapes", type=lambda text: text.split(","))
    parser.add_argument("--jobs", type=int, default=default_jobs(), help="shapes at once")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--on", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.on is not None:
        commands_on(options.on)
        return
    rows, begin = [], time.monotonic()
    with tempfile.TemporaryDirectory() as below:
        genuine = Path(below, "genuine")
        genuine.mkdir()
        assert invoke("leaderboard", *LIMITS, "--out", genuine / "run").exit_code == 0
        about = ("--name", "n", "--contact", "c")
        assert invoke("submit", "pack", genuine / "run", "--out", genuine / "entry", *about).exit_code == 0
        assert invoke("submit", "epoch", "--out", genuine / "epoch", "--tasks", "1", "--worlds", "1").exit_code == 0
        make_files(genuine / "files")
        chosen = {
            name: spoil
            for name, spoil in {"genuine": lambda folder, outside: None, **shapes(options.names)}.items()
            if options.shapes is None or any(wanted in name for wanted in options.shapes)
        }
        with ThreadPoolExecutor(options.jobs) as pool:
            for row in pool.map(tried, itertools.repeat(genuine), chosen, chosen.values()):
                rows.append(row)
                print(json.dumps(row), flush=True)
    spoilt = [row for row in rows if row["shape"] != "genuine"]
    report = {
        "shapes": len(spoilt),
        "commands": len(MORE),
        **{f"{name}_outside": sum(row[f"{name}_outside"] for row in spoilt) for name in ("opens", "writes")},
        **{name: sum(len(row[name]) for row in spoilt) for name in ("hangs", "tracebacks", "not_run")},
        "memory_mb": max(row["memory_mb"] or 0 for row in spoilt),
        "minutes": round((time.monotonic() - begin) / 60, 1),
        "writers": list(WRITERS),
        "rows": rows,
    }
    write_report(report, options.json)
    sys.exit(bool(report["opens_outside"] or report["writes_outside"] or report["hangs"] or report["tracebacks"]))


if __name__ == "__main__":
    main()

"""What an attacker gains by a folder, an entry, own code, a tiny world, requests and files: on 0.2.0, and now.

    python benchmarks/hostile/attacks.py [B1 B2 B3 B4 B5 B6 B7 B8] [--base OTHER/bin/python] [--corpus] [--json FILE]

Run by the interpreter of either version: 0.2.0 has reruns of single entries, this one has epochs. With `--base` the attacks are
played on another installation too, and both stand in one table; `--corpus` also plays every adversary of `tests/adversaries`.

* B1: a half-made change in a folder that leads out of it, or a FIFO in a lock's place; the folder is verified.
* B2: the failures of a claim are declared void.
* B3: own code sends its judge's model a request that breaks the server, once it is losing.
* B4: own code says that all of its prompt was cached, and that the model took no time.
* B5: a play is better than the optimum of a tiny world, so that an honest entry rings an alarm.
* B6: one entry is handed in six times, with another description each time.
* B7: servers get large bodies, silent connections, slow heads, other sites' names and garbage.
* B8: files with numbers that take minutes or end in a traceback.
"""

import argparse
import contextlib
import hashlib
import hmac
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from costgym.agents.models.base import Message, Reply
from costgym.agents.toolplanner.simulated import SimulatedToolPlanner
from costgym.experiments.board.reruns.process_agent import Meter
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.replay import digest_of
from costgym.experiments.board.submissions.submission import pack, validate
from costgym.experiments.leaderboard import run
from costgym.simulators.calls import Usage
from costgym.simulators.errors import InfrastructureError

try:
    from costgym.experiments.board.epochs.epoch import create
    from costgym.experiments.board.epochs.judging import judge
    from costgym.experiments.board.epochs.options import EpochOptions
    from costgym.experiments.board.epochs.playing import own_code
    from costgym.experiments.board.reruns.process_agent import Limits
    from costgym.experiments.board.run_options import RunOptions
except ImportError:
    EPOCHS = False
else:
    EPOCHS = True

ROOT = Path(__file__).parents[2]
WORLDS, SLOW_S = 250, 8.0  # tiny worlds that are tried, and seconds after which reading a file is slow
PASS = "pass_rate_under_budget"
TERMS: dict[str, Any] = {"budgets": "price=10", "episodes": 80}
OWN = """
from costgym.agents import make_agent
from costgym.agents.base import TEXT, Agent
from costgym.agents.models.base import Message


class Honest(Agent):
    env_id = TEXT

    def __init__(self):
        self.inner = make_agent("react", TEXT)
        self.handles = self.inner.handles

    def reset(self, seat, observation, info, seed):
        self.inner.reset(seat, observation, info, seed)

    def act(self, observation, info):
        return self.inner.act(observation, info)

    def observe(self, observation, reward, terminated, truncated, info):
        self.inner.observe(observation, reward, terminated, truncated, info)
        if "error" in observation:
            self.fails()

    def fails(self):
        pass


class Voids(Honest):
    def fails(self):
        self.handles[0].complete([Message("user", "break")], [])
"""


def entry(folder: Path, name: str, agent: str = "greedy", **about: str) -> Path:
    played = folder / "played"
    if not played.exists():
        run(make_run_config("quick", agents=[agent], **TERMS), played)
    return pack(played, folder / name, name, "a@example.org", **about)


def edit(packed: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads((packed / "manifest.json").read_text())
    change(document)
    (packed / "manifest.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def declare_void(packed: Path) -> None:
    """Declare the failures of every row void, in all that a manifest says of them."""
    failed = {result.episode for result in validate(packed).results if not (result.strict and result.within_budget)}

    def declare(document: dict[str, Any]) -> None:
        [file] = document["files"]
        path = packed / file["path"]
        header, *lines = path.read_text().splitlines()
        honest_lines = [line for line in lines if json.loads(line)["episode"] not in failed]
        path.write_text("".join(f"{line}\n" for line in [header, *honest_lines]))
        file.update(void={str(index): "server down" for index in sorted(failed)}, digest=digest_of(path))

    edit(packed, declare)
    rows = [{name: value for name, value in row.items() if name != "by_episode"} for row in validate(packed).rows]
    edit(packed, lambda document: document.update(rows=rows))


def figures(folder: Path, entries: list[Path], secrets: list[str]) -> list[float]:
    """The figure that ranks each entry; in 0.2.0 each has a secret of its own."""
    if EPOCHS:
        terms = EpochOptions(tracks=("numbers",), tasks=20, worlds=3)
        create(folder / "epoch", RunOptions(budgets=TERMS["budgets"]), terms=terms)
        return [verdict.rows[0][PASS] for verdict in judge(entries, folder / "epoch", folder / "board")]
    from costgym.experiments.board.reruns.rerun import rerun  # pyright: ignore[reportMissingImports]  # of 0.2.0

    leaks = []
    for number, (packed, secret) in enumerate(zip(entries, secrets, strict=True)):
        (folder / f"secret {number}").write_text(secret)
        [row] = rerun(packed, folder / f"secret {number}", folder / f"again {number}", sandbox="none")
        leaks.append(row.on_board({})[PASS])
    return leaks


def manifest_voids(folder: Path) -> str:
    made = [entry(folder, name) for name in ("Honest", "Void")]
    declare_void(made[1])
    honest, void = figures(folder, made, ["s" * 40] * 2)
    return f"{100 * honest:.1f} % -> {100 * void:.1f} %"


def breaks_the_model(folder: Path) -> str:
    (folder / "own.py").write_text(OWN)
    complete = SimulatedToolPlanner.complete

    def answer(self: Any, messages: Any, *arguments: Any) -> Any:
        if messages[-1].content == "break":
            raise InfrastructureError("HTTP 500")
        return complete(self, messages, *arguments)

    config, outcomes = make_run_config("quick", agents=["react"], budgets="price=30", episodes=24), []
    with patch.object(SimulatedToolPlanner, "complete", answer):
        for name in ("Honest", "Voids"):
            track = config.tracks[0].model_copy(update={"agents": (f"own.py:{name}",)})
            whole = config.model_copy(update={"tracks": (track,)})
            row = next(whole.rows())
            if EPOCHS:
                outputs = own_code(whole, row, folder, "none", Limits())
            else:
                from costgym.experiments.board.reruns.rerun import _play  # pyright: ignore[reportMissingImports]  # of 0.2.0

                outputs = _play(whole, row, None, folder, "none")
            results = [output.result for output in outputs if not output.result.void]
            passed = sum(result.strict and result.within_budget for result in results)
            outcomes.append(f"{100 * passed / len(results):.1f} % ({24 - len(results)} of 24 void)")
    return " -> ".join(outcomes)


def tokens(folder: Path) -> str:
    del folder
    meter = Meter()
    meter.add(Reply(Message("assistant", "text"), Usage(40_000, 500, 0, 30.0)))
    usage = {"input_tokens": 40_000, "output_tokens": 500, "cached_tokens": 40_000, "seconds": 0}
    paid = json.loads(meter.charge(json.dumps({"name": "x", "usage": usage})))["usage"]
    return f"of 40,000 read and 30 s: {paid['cached_tokens']:,} cached and {paid.get('seconds', 0):g} s believed"


def tries(folder: Path) -> str:
    made = [entry(folder, f"{n}", "random", description=f"try {n}") for n in range(6)]
    root = "the maintainer's secret, the same for all"
    secrets = [hmac.new(root.encode(), (row / "manifest.json").read_bytes(), hashlib.sha256).hexdigest() for row in made]
    leaks = figures(folder, made, secrets)
    ranks = sum(leaks) / 6 if EPOCHS else max(leaks)
    return f"six tries {100 * min(leaks):.1f} to {100 * max(leaks):.1f} %, of which {100 * ranks:.1f} % can rank"


def folders(folder: Path) -> str:
    """Verify a folder that is not one's own, with each of four changes in it."""
    gained = []
    for name, prepare in FOLDERS.items():
        home = folder / name
        hostile, victim = home / "hostile", home / "victim"
        (victim / "old").mkdir(parents=True)
        hostile.mkdir()
        (hostile / "run.json").write_text("{}")  # as every run has it
        for path in (victim / "key", victim / "old" / "key"):
            path.write_text("precious")
        prepare(hostile, victim)
        before = contents(victim)
        try:
            subprocess.run([sys.executable, "-m", "costgym", "verify", hostile], cwd=home, capture_output=True, timeout=20)
        except subprocess.TimeoutExpired:
            gained.append(f"{name}: hangs")
        if contents(victim) != before:
            gained.append(f"{name}: done")
    return "; ".join(gained) or "nothing is written, nothing hangs"


def contents(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() if path.is_file() else "" for path in sorted(folder.rglob("*"))}


def overwrite(hostile: Path, victim: Path) -> None:
    (hostile / "keys").symlink_to(victim)
    (hostile / ".next" / "keys").mkdir(parents=True)
    (hostile / ".next" / "keys" / "key").write_text("x")


def delete(hostile: Path, victim: Path) -> None:
    (hostile / "keys").symlink_to(victim)
    (hostile / ".next" / "keys" / "old").mkdir(parents=True)


def steal(hostile: Path, victim: Path) -> None:
    (hostile / ".next").mkdir()
    (hostile / ".next" / "keys").symlink_to(victim)
    (hostile / "keys").mkdir()


def wait(hostile: Path, victim: Path) -> None:
    (hostile / ".next").mkdir()
    os.mkfifo(hostile / ".lock")


FOLDERS: dict[str, Callable[[Path, Path], object]] = {
    "overwrite": overwrite,
    "delete": delete,
    "steal": steal,
    "wait for ever": wait,
}


def beaten(folder: Path) -> str:
    del folder
    tiny = imported("tests/helpers/tiny_worlds.py")
    wrong = [number for number in range(WORLDS) if tiny.wrong_with(tiny.tiny(tiny.Random(number)), number)[0]]
    return f"{len(wrong)} of {WORLDS} tiny worlds"


def requests(folder: Path) -> str:
    servers, python = imported("benchmarks/hostile/servers.py"), sys.executable
    problems = []
    for kind in servers.PATHS:
        attacks = (lambda target: servers.bodies(target, 100, ("/mcp",)), servers.garbage, servers.slow_head)
        many = lambda target: servers.silent(target, 1100)  # noqa: E731
        for attack in (*attacks, many):
            with servers.server(kind, python, folder) as target:
                problems.append(attack(target))
        problems.append(servers.bind(kind, python, folder))
    return "; ".join(problems)


def imported(path: str) -> Any:
    """A module of this tree, whichever installation of costgym it plays with."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def files(folder: Path) -> str:
    """Read files with numbers of another kind."""
    log = {"tool": "find", "started": 5, "latency_s": 0.4, "status": "ok", "price": 0.002}
    paths = []
    for name, text in {
        "base 60 in YAML": "a: " + "1:" * 120_000 + "1",
        "a fraction in base 60": "a: " + "1:" * 5000 + "1.5",
        "a number in place of a list": json.dumps({"resourceSpans": 5}),
        "a number of 400 digits": json.dumps(log)[:-1] + ', "started": ' + "9" * 400 + "}",
    }.items():
        path = folder / ("world.yaml" if "60" in name else "calls.jsonl")
        path.write_text(text + "\n")
        agent = ("greedy",) if EPOCHS else ("--agent", "greedy")
        words = ("run", *agent, "--scenario", path, "--episodes", "1") if "60" in name else ("calibrate", path)
        begin = time.monotonic()
        done = subprocess.run([sys.executable, "-m", "costgym", *words], cwd=folder, capture_output=True, text=True)
        took = time.monotonic() - begin
        if "Traceback" in done.stderr:
            paths.append(f"{name}: {done.stderr.strip().splitlines()[-1][:60]}")
        if took > SLOW_S:
            paths.append(f"{name}: {took:.0f} s")
    return "; ".join(paths) or "a sentence each"


ATTACKS = {
    "B1": folders,
    "B2": manifest_voids,
    "B3": breaks_the_model,
    "B4": tokens,
    "B5": beaten,
    "B6": tries,
    "B7": requests,
    "B8": files,
}


def played(names: list[str]) -> dict[str, str]:
    """What each attack gains on this installation."""
    gained = {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            gained[name] = ATTACKS[name](Path(folder))
            print(f"{name}: {gained[name]}", flush=True)
    return gained


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="ATTACK", help="B1 to B8; by default all")
    parser.add_argument("--base", help="interpreter of another installation, on which they are played too")
    parser.add_argument("--corpus", action="store_true", help="play every adversary of tests/adversaries too")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    names = options.names or list(ATTACKS)
    report: dict[str, Any] = {"played on": "epochs" if EPOCHS else "0.2.0", "now": played(names)}
    if options.base:
        with tempfile.TemporaryDirectory() as folder:
            words = [options.base, __file__, *names, "--json", f"{folder}/then.json"]
            subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)
            report["then"] = json.loads(Path(folder, "then.json").read_text())["now"]
        print("\n| attack | then | now |\n| --- | --- | --- |")
        print(*(f"| {name} | {report['then'][name]} | {report['now'][name]} |" for name in names), sep="\n")
    if options.corpus:
        words = [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", "tests/adversaries"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        report["corpus"] = done.stdout.strip().splitlines()[-1]
        print(f"adversaries: {report['corpus']}")
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

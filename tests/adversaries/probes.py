"""The sandbox under attack: the probes of `inside.py` played in it and, where they do no harm, without it."""

import errno
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import costgym
from costgym.agents.base import NUMERIC
from costgym.experiments.board.reruns import process_agent, sandbox
from costgym.experiments.board.reruns.process_agent import ProcessAgent
from costgym.experiments.play.trajectories.record import AgentCrash
from tests.adversaries import attempts, inside

KEY = "sk-secret-of-the-judge"
LEFT_OUT = ("starts thousands of threads",)
"""Probes that the sandbox refuses to an ordinary user and not to root."""


@contextmanager
def scene(folder: Path, confined: bool) -> Iterator[Path]:
    """Set up what a judge has beside an entry: a secret, keys, servers, another entry; yields its code's folder."""
    code, home = folder / "entry/code", folder / "home"
    for source in (code, folder / "entry/other", home / ".ssh"):
        source.mkdir(parents=True, exist_ok=True)
    for path in (folder / "secret", folder / "entry/other/own.py", home / ".ssh/id"):
        path.write_text("s" * 40)
    for source in (inside, attempts):
        shutil.copy(source.__file__, code)
    variables = {name: os.environ.get(name) for name in ("COSTGYM_ADVERSARY_KEY",)}
    os.environ["COSTGYM_ADVERSARY_KEY"] = KEY
    try:
        with (
            socket.socket(socket.AF_UNIX) as helper,
            socket.socket(socket.AF_UNIX) as abstract,
            socket.create_server(("127.0.0.1", 0)) as server,
        ):
            (folder / "helper").unlink(missing_ok=True)
            helper.bind(str(folder / "helper"))
            abstract.bind(f"\0costgym {os.getpid()}")
            helper.listen()
            abstract.listen()
            handles = [os.readlink(path) for path in Path("/proc/self/fd").glob("[0-9]*") if path.exists()]  # noqa: PTH115
            handles = [target for target in handles if target != "/dev/null"]
            paths = {
                "secret": str(folder / "secret"), "home": str(home), "package": str(Path(costgym.__file__).resolve().parent),
                "key": KEY, "port": server.getsockname()[1], "helper": str(folder / "helper"),
                "abstract": f"costgym {os.getpid()}", "judge": os.getpid(), "handles": handles, "confined": confined,
                "threads": sandbox.THREADS, "left_out": LEFT_OUT if os.geteuid() == 0 else (),
            }  # fmt: skip
            (code / "told.json").write_text(json.dumps(paths))
            yield code
    finally:
        for name, value in variables.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def confined(name: str, code: Path) -> ProcessAgent:
    """One of the agents of `inside.py`, in the sandbox."""
    return ProcessAgent(f"inside.py:{name}", NUMERIC, code, sandbox=sandbox.BUBBLEWRAP)


def play(folder: Path, kind: str) -> dict[str, str]:
    """Play the probes that leave their process alive; returns "done", or the error that each met."""
    with scene(folder, kind != sandbox.NONE) as code, ProcessAgent("inside.py:Probes", NUMERIC, code, sandbox=kind) as agent:
        agent.reset(None, {}, {}, 0)
        document: dict[str, str] = json.loads(agent.act({}, {}))
    return document


# -- those that end or block their process -------------------------------------------------------------------------------------


class Ending(NamedTuple):
    """An attack that ends with its process.

    Attributes:
        stop: what stops it.
        attack: plays it in a folder; returns what the judge says of it, or "done".
    """

    stop: str
    attack: Callable[[Path], str]


def _crash(name: str, processor_s: int = sandbox.PROCESSOR_S, reply_s: float = process_agent.REPLY_S) -> Callable[[Path], str]:
    def attack(folder: Path) -> str:
        limit_before, sandbox.PROCESSOR_S = sandbox.PROCESSOR_S, processor_s
        before = process_agent.REPLY_S
        try:
            with scene(folder, True) as code, confined(name, code) as agent:
                process_agent.REPLY_S = reply_s  # once it has started
                agent.reset(None, {}, {}, 0)
                agent.act({}, {})
        except AgentCrash as error:
            return str(error)
        finally:
            sandbox.PROCESSOR_S, process_agent.REPLY_S = limit_before, before
        return "done"

    return attack


def _leaves(folder: Path) -> str:
    """Processes of a sandbox that is closed: none is left, though one of its threads goes on and signals are ignored."""
    with scene(folder, True) as code:
        agent = confined("Stays", code)
        agent.reset(None, {}, {}, 0)
        agent.act({}, {})
        family = _family(agent._process.pid)
        agent.close()
    until = time.monotonic() + 10
    while time.monotonic() < until and any(Path(f"/proc/{pid}").exists() for pid in family):
        time.sleep(0.05)
    alive = [pid for pid in family if Path(f"/proc/{pid}").exists()]
    return "done" if alive or len(family) < 2 else f"none of {len(family)} processes is left"


def _orphan(folder: Path) -> str:
    """The same where its judge is killed."""
    with scene(folder, True) as code:
        judge = os.fork()
        if judge == 0:
            with suppress(BaseException):
                agent = confined("Stays", code)
                agent.reset(None, {}, {}, 0)
                agent.act({}, {})
                (folder / "family").write_text(json.dumps(_family(agent._process.pid)))
                time.sleep(60)
            os._exit(1)
        until = time.monotonic() + 60
        while time.monotonic() < until and not (folder / "family").exists():
            time.sleep(0.05)
        time.sleep(0.2)
        os.kill(judge, signal.SIGKILL)
        os.waitpid(judge, 0)
    family = json.loads((folder / "family").read_text())
    while time.monotonic() < until and any(Path(f"/proc/{pid}").exists() for pid in family):
        time.sleep(0.05)
    alive = [pid for pid in family if Path(f"/proc/{pid}").exists()]
    return "done" if alive or len(family) < 2 else f"none of {len(family)} processes is left"


def _family(first: int) -> list[int]:
    """A process and its descendants."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(path.name)] = int(path.joinpath("stat").read_text().rpartition(")")[2].split()[1])
    pids = [first]
    for pid in pids:
        pids += [child for child, parent in parents.items() if parent == pid]
    return pids


ENDINGS: dict[str, Ending] = {
    "spins for ever": Ending("a limit of processor time (six hours, here 3 s)", _crash("Spins", processor_s=3)),
    "sleeps for ever": Ending("a limit of wall time for an answer (120 s, here 0.5 s)", _crash("Sleeps", reply_s=0.5)),
    "makes a system call of another architecture (x32)": Ending("the filter kills it", _crash("CallsByAnotherNumber")),
    "leaves a process behind": Ending("its namespace ends with its judge's pipe", _leaves),
    "outlives its judge": Ending("it dies with its parent", _orphan),
}


def names() -> list[str]:
    """The names of all probes."""
    return [*inside.PROBES, *ENDINGS]


def table(results: dict[str, dict[str, Any]]) -> str:
    """The probes in Markdown, from what `benchmarks/hostile/sandbox.py` found."""
    lines = ["| from inside it | what refuses it | answer | without a sandbox |", "| --- | --- | --- | --- |"]
    for name in names():
        stop = inside.PROBES[name].stop if name in inside.PROBES else ENDINGS[name].stop
        row = results["probes"].get(name, {})
        lines.append(f"| {name} | {stop} | {_words(row.get('inside'))} | {_words(row.get('outside'))} |")
    return "\n".join(lines)


def _words(answer: str | None) -> str:
    return "not played" if answer is None else f"`{answer}`" if answer in errno.errorcode.values() else answer

"""Agents that attack who judges them, from the process of a rerun: over the pipe, and from inside the sandbox."""

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from costgym.agents.base import NUMERIC
from costgym.agents.toolplanner.simulated import SimulatedToolPlanner
from costgym.experiments.board.epochs.playing import own_code
from costgym.experiments.board.reruns import process_agent
from costgym.experiments.board.reruns.process_agent import Limits, ProcessAgent
from costgym.experiments.board.reruns.sandbox import BUBBLEWRAP, NONE
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.play.trajectories.record import AgentCrash
from costgym.simulators.errors import InfrastructureError
from tests.adversaries import probes
from tests.adversaries.corpus import adversary

CODE = '''
import gc, json, os, pickle, time
from pathlib import Path
from costgym.agents import Agent

def told():
    return json.loads((Path(__file__).parent / "told.json").read_text())

def pipe():
    """The open pipe to the judge, behind the agent's back: not what stands for standard output now."""
    for number in range(3, 32):
        try:
            if "pipe" in os.readlink(f"/proc/self/fd/{number}") and os.fstat(number).st_mode & 0o10000:
                os.write(number, b"")
                return number
        except OSError:
            continue

class Base(Agent):
    def reset(self, seat, observation, info, seed):
        self.finish = seat.finish_action if seat is not None else 0

    def act(self, observation, info):
        return self.attack() or 0

class Floods(Base):
    def attack(self):
        os.write(pipe(), (2**40).to_bytes(8, "big") + b"x" * 2**16)

class Nests(Base):
    def attack(self):
        body = b"[" * 200000
        os.write(pipe(), len(body).to_bytes(8, "big") + body)

class Digits(Base):
    def attack(self):
        body = b'{"action": ' + b"9" * 100000 + b"}"
        os.write(pipe(), len(body).to_bytes(8, "big") + body)

class Pickles(Base):
    def attack(self):
        body = pickle.dumps(Run())
        os.write(pipe(), len(body).to_bytes(8, "big") + body)

class Run:
    def __reduce__(self):
        return os.system, ("touch " + told()["pwned"],)

class Drips(Base):
    def attack(self):
        os.write(pipe(), (10**6).to_bytes(8, "big"))
        while True:
            os.write(pipe(), b"x")
            time.sleep(0.05)

class Silent(Base):
    def attack(self):
        time.sleep(60)

class Dies(Base):
    def attack(self):
        os._exit(1)

class Asks(Base):
    def attack(self):
        number = pipe()
        body = json.dumps({"ask": "search", "handle": 0, "arguments": ["x"]}).encode()
        while True:
            os.write(number, len(body).to_bytes(8, "big") + body)

class Looks(Base):
    def attack(self):
        names = {f"{type(each).__module__}.{type(each).__name__}" for each in gc.get_objects()}
        return json.dumps(sorted(name for name in names if "costgym" in name and ("World" in name or "Episode" in name)))

class Patches(Base):
    def attack(self):
        import costgym.simulators.grading as grading, costgym.simulators.ledger as ledger
        for module in (grading, ledger):
            for name in list(vars(module)):
                if not name.startswith("__"):
                    setattr(module, name, lambda *a, **k: True)
        return json.dumps("patched")

class Notes(Base):
    def attack(self):
        note = Path.home() / "note"
        found = note.exists()
        note.write_text("for the next row")
        return json.dumps(found)

class Deaf(Base):
    """Reads nothing once its episode has begun."""
    def reset(self, *told):
        time.sleep(60)
'''


@contextmanager
def process(folder: Path, name: str, sandbox: str = NONE) -> Iterator[Any]:
    code = folder / "code"
    code.mkdir(exist_ok=True)
    (code / "own.py").write_text(CODE)
    (code / "told.json").write_text(json.dumps({"pwned": str(folder / "pwned")}))
    with ProcessAgent(f"own.py:{name}", NUMERIC, code, sandbox=sandbox) as agent:
        agent.reset(None, {}, {}, 0)
        yield agent


def crashes(folder: Path, name: str, words: str, shown: str = "", reply_s: float = 3.0) -> float:
    """The attack is the agent's crash in that episode, within seconds; so it gains nothing."""
    with process(folder, name) as agent:
        begin = time.monotonic()
        process_agent.REPLY_S, before = reply_s, process_agent.REPLY_S
        try:
            heard = agent.act({"shown": shown}, {})
        except AgentCrash as error:
            assert words in str(error), error
            assert not (folder / "pwned").exists() and time.monotonic() - begin < reply_s + 10
            return 0.0
        finally:
            process_agent.REPLY_S = before
    raise AssertionError(f"it was answered: {heard!r:.80}")


@adversary("floods the pipe to its judge", "stopped", "A frame has at most 8 MiB; a longer one is a crash of the agent.")
def _(folder: Path) -> float:
    return crashes(folder, "Floods", "a frame of")


@adversary("sends a frame nested 200,000 times", "stopped", "What cannot be read is a crash of the agent.")
def _(folder: Path) -> float:
    return crashes(folder, "Nests", "invalid answer")


@adversary("sends a number of 100,000 digits", "stopped", "What cannot be read is a crash of the agent.")
def _(folder: Path) -> float:
    return crashes(folder, "Digits", "invalid answer")


@adversary("sends a pickle that runs a command", "stopped", "Only JSON is read from an agent's process.")
def _(folder: Path) -> float:
    return crashes(folder, "Pickles", "invalid answer")


@adversary("sends its answer byte by byte, for ever", "stopped", "An answer must be whole within two minutes.")
def _(folder: Path) -> float:
    return crashes(folder, "Drips", "did not send a complete answer", reply_s=0.3)


@adversary("sleeps and never answers", "stopped", "An answer must be whole within two minutes; ten times, then rows fail.")
def _(folder: Path) -> float:
    return crashes(folder, "Silent", "did not send a complete answer", reply_s=0.3)


@adversary("kills its own process", "stopped", "That is a crash; the process is started ten times in all.")
def _(folder: Path) -> float:
    return crashes(folder, "Dies", "has ended")


@adversary("asks the model on the world's side without end", "stopped", "An episode has at most 10,000 questions.")
def _(folder: Path) -> float:
    process_agent.MAX_QUESTIONS, before = 20, process_agent.MAX_QUESTIONS
    try:
        return crashes(folder, "Asks", "asked")
    finally:
        process_agent.MAX_QUESTIONS = before


@adversary("looks for the world in its memory", "stopped", "In a rerun the world is in another process.")
def _(folder: Path) -> float:
    with process(folder, "Looks") as agent:
        assert json.loads(agent.act({}, {})) == []
    return 0.0


@adversary("replaces grader, ledger and clock in its process", "stopped", "The judge's process has its own.")
def _(folder: Path) -> float:
    from costgym.agents import make_agent
    from tests.adversaries.agents import replays

    with process(folder, "Patches") as agent:
        assert json.loads(agent.act({}, {})) == "patched"
    assert replays(make_agent("greedy", NUMERIC))
    return 0.0


@adversary("never reads what it is sent, so that its judge waits", "stopped", "It must read within two minutes.")
def _(folder: Path) -> float:
    return crashes(folder, "Deaf", "did not read what it was sent", "x" * 10**6, reply_s=0.3)


LOSES = """
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


@adversary(
    "sends a request that breaks its judge's model once it is losing",
    "stopped",
    "The model answers the judge's own request, so it was the agent's: its failure, at the first try.",
)
def _(folder: Path) -> float:
    (folder / "own.py").write_text(LOSES)
    complete = SimulatedToolPlanner.complete

    def answer(self: Any, messages: Any, *arguments: Any) -> Any:
        if messages[-1].content == "break":
            raise InfrastructureError("HTTP 500")
        return complete(self, messages, *arguments)

    config = make_run_config("quick", agents=["react"], budgets="price=30", episodes=16)
    passed = {}
    with patch.object(SimulatedToolPlanner, "complete", answer):
        for name in ("Honest", "Voids"):
            track = config.tracks[0].model_copy(update={"agents": (f"own.py:{name}",)})
            row = next(config.model_copy(update={"tracks": (track,)}).rows())
            results = [process.result for process in own_code(config, row, folder, NONE, Limits())]
            assert len(results) == 16 and not any(result.void for result in results)
            passed[name] = sum(result.strict and result.within_budget for result in results)
    return 100 * (passed["Voids"] - passed["Honest"]) / 16


@lru_cache(maxsize=1)
def process_output() -> dict[str, str]:
    """What an agent gets in the sandbox, by the names of its probes."""
    with tempfile.TemporaryDirectory() as folder:
        return probes.play(Path(folder), BUBBLEWRAP)


def _confined(name: str, kinds: tuple[str, ...], sentence: str) -> None:
    """An adversary that tries all probes of some kinds."""

    @adversary(name, "stopped", sentence, needs="sandbox")
    def _(folder: Path) -> float:
        tried = {item: answer for item, answer in process_output().items() if probes.inside.PROBES[item].kind in kinds}
        assert len(tried) >= 10 and not any(answer.startswith(("done", "error")) for answer in tried.values()), tried
        return 0.0


_confined("reads secrets, keys and entries, and writes the package", ("files",), "They are not in the sandbox, or read-only.")
_confined("asks a helper outside over a socket", ("network",), "The sandbox's filter refuses sockets of every kind.")
_confined(
    "forks, and reads or kills its judge", ("processes",), "It has namespaces of its own, and its filter refuses processes."
)
_confined("asks the kernel for more than it has", ("kernel",), "The filter of system calls; and it has no capability.")
_confined("takes all memory, disk, files or threads", ("limits",), "Each has a limit, and what escapes limits is refused.")


@adversary("leaves a note for the next row (colludes)", "stopped", "Every row has an empty home, in memory.", needs="sandbox")
def _(folder: Path) -> float:
    for _ in range(2):
        with process(folder, "Notes", BUBBLEWRAP) as agent:
            assert json.loads(agent.act({}, {})) is False
    return 0.0

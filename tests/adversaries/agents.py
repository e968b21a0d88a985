"""Agents that cheat while they play in the process of the world; their entries are judged by replay."""

import json
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium as gym

from costgym.agents import Agent, make_agent
from costgym.agents.base import NUMERIC, TEXT
from costgym.agents.classic import GreedyAgent
from costgym.agents.models.base import Message, Reply
from costgym.experiments.board.epochs.playing import PASSES
from costgym.experiments.board.reruns.process_agent import Meter
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.submission import pack, validate
from costgym.experiments.leaderboard import run
from costgym.experiments.play.episodes import play_many
from costgym.experiments.play.trajectories.format import Header, Trajectory
from costgym.experiments.play.trajectories.record import record
from costgym.experiments.play.trajectories.verify import Checker
from costgym.simulators.calls import Usage
from costgym.simulators.errors import InfrastructureError
from tests.adversaries.corpus import adversary
from tests.helpers.epochs import working_in

EPISODES, SEEDS = 80, 4
OWN = "own.py:Mine"


@lru_cache(maxsize=2)
def world(view: str) -> gym.Env[Any, Any]:
    """The default suite's, within 20 credits."""
    [track] = make_run_config("quick", agents=["greedy" if view == NUMERIC else "react"], budgets="price=20").tracks
    return track.make_env(view, track.conditions[0])


def played(agent: Agent, view: str = NUMERIC, episodes: int = EPISODES) -> list[tuple[Any, Trajectory]]:
    agent.name = OWN
    rollout = play_many(world(view), agent, view, range(episodes), 0, seeds=SEEDS, crashes="count")
    return [(result, trajectory) for result, trajectory in rollout if trajectory is not None]


def rate(agent: Agent, view: str = NUMERIC, episodes: int = EPISODES) -> float:
    """The pass rate in percent, of all episodes asked for."""
    return 100 * sum(result.strict and result.within_budget for result, _ in played(agent, view, episodes)) / episodes


@lru_cache(maxsize=4)
def honest(name: str, view: str, episodes: int = EPISODES) -> float:
    return rate(make_agent(name, view), view, episodes)


def gain(agent: Agent, twin: str = "greedy", view: str = NUMERIC, episodes: int = EPISODES) -> float:
    return rate(agent, view, episodes) - honest(twin, view, episodes)


def replays(agent: Agent) -> bool:
    """Whether replay confirms an episode of an agent."""
    agent.name = OWN
    trajectory, _ = record(world(NUMERIC), agent, 0, 0, crashes="count")
    header = Header.of(world(NUMERIC), NUMERIC)
    return Checker(header).check(trajectory, trajectory.sealed_json(header))[0] == ""


# -- exceptions --------------------------------------------------------------------------------------------------------------


class Choosy(GreedyAgent):
    """Would end an episode that goes badly without a result."""

    error: BaseException = RuntimeError("not this one")

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        if observation["tools"][:, 14].any():  # a call has failed
            raise self.error
        return super().act(observation, info)


@adversary(
    "declares the infrastructure broken and hopes for best of three",
    "stopped",
    "An exception of a user's code ends the episode as a failure, whatever its class; only back-ends make one void.",
)
def _(folder: Path) -> float:
    agent = Choosy()
    agent.error = InfrastructureError("server down")
    assert {result.void for result, _ in played(agent)} == {False}
    return gain(agent)


@adversary("drops its failures by an exception", "stopped", "A crashed episode counts as failed, in the row and in a column.")
def _(folder: Path) -> float:
    assert any(result.crash for result, _ in played(Choosy()))
    return gain(Choosy())


@adversary("exits the process to lose the episode", "stopped", "SystemExit is an exception like any other of the agent's.")
def _(folder: Path) -> float:
    agent = Choosy()
    agent.error = SystemExit(0)
    return gain(agent)


class _Spoken(Exception):
    def __str__(self) -> str:
        return "\x1b[2J\x1b]0;won\x07\u202e" + "x" * 1_000_000


@adversary(
    "writes control characters and megabytes into its exception",
    "stopped",
    "A crash's message is cut at 300 characters, of which those that cannot be printed are replaced.",
)
def _(folder: Path) -> float:
    agent = Choosy()
    agent.error = _Spoken()
    crashes = {result.crash for result, _ in played(agent) if result.crash}
    assert crashes and all(text.isprintable() and len(text) <= 300 for text in crashes)
    return gain(agent)


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@adversary("raises an exception that cannot be printed", "stopped", "Then the name of its class is the message.")
def _(folder: Path) -> float:
    agent = Choosy()
    agent.error = _Mute()
    assert {result.crash for result, _ in played(agent)} == {"", "_Mute"}
    return gain(agent)


# -- actions -----------------------------------------------------------------------------------------------------------------


class Says(Agent):
    """One action, whatever is asked."""

    def __init__(self, action: Any, view: str = NUMERIC) -> None:
        self.action, self.env_id = action, view

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        pass

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        return self.action


def _nested(depth: int) -> Any:
    values: Any = []
    for _ in range(depth):
        values = [values]
    return values


def _numeric_nonsense(action: Any) -> float:
    results = [result for result, _ in played(Says(action), episodes=4)]
    assert all(result.crash and not result.strict for result in results)
    return 0.0


@adversary("acts NaN", "stopped", "What is outside the action space is a crash of the agent.")
def _(folder: Path) -> float:
    return _numeric_nonsense(float("nan"))


@adversary("acts a number of 4,000 bits", "stopped", "What is outside the action space is a crash of the agent.")
def _(folder: Path) -> float:
    return _numeric_nonsense(2**4000)


@adversary("acts a list nested 50,000 times", "stopped", "What is outside the action space is a crash of the agent.")
def _(folder: Path) -> float:
    return _numeric_nonsense(_nested(50_000))


class _Shifty(int):
    """Another number each time that it is looked at."""

    looks = 0

    def _next(self) -> int:
        type(self).looks += 1
        return type(self).looks % 3

    def __int__(self) -> int:
        return self._next()

    __index__ = __hash__ = __int__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self._next() == other


@adversary(
    "acts a number that is another one each time it is looked at",
    "stopped",
    "Only true integers are actions; a record that replays otherwise is refused.",
)
def _(folder: Path) -> float:
    assert all(result.crash for result, _ in played(Says(_Shifty(1)), episodes=2)) or not replays(Says(_Shifty(1)))
    return 0.0


@adversary(
    "answers with a megabyte of text",
    "stopped",
    "A text action has at most 100,000 characters; a longer one is a crash of the agent, and is not recorded.",
)
def _(folder: Path) -> float:
    [(result, trajectory)] = played(Says("x" * 10**6, TEXT), TEXT, 1)
    assert "at most 100,000 characters" in result.crash and trajectory.actions == []
    return 0.0


@adversary(
    "fills its record with text, action by action",
    "stopped",
    "The texts of an episode have at most two million characters, and the records of a rerun 4 GiB, which are never in memory.",
)
def _(folder: Path) -> float:
    [(result, trajectory)] = played(Says('{"name": "think", "x": "' + "\U0001f600" * 90_000 + '"}', TEXT), TEXT, 1)
    assert result.crash == "" or "2,000,000 characters" in result.crash
    assert sum(map(len, trajectory.actions)) <= 2_000_000
    return 0.0


@adversary("answers JSON nested 50,000 times", "stopped", "It is an observation in words (`malformed`), and costs its tokens.")
def _(folder: Path) -> float:
    [(result, _)] = played(Says("[" * 50_000, TEXT), TEXT, 1)
    assert not result.strict and result.errors_by_status == {"malformed": result.errors["agent"]}
    return 0.0


@adversary("acts a number in the text view", "stopped", "An action that is no text is a crash of the agent.")
def _(folder: Path) -> float:
    [(result, _)] = played(Says(7, TEXT), TEXT, 1)
    assert "expected a text" in result.crash
    return 0.0


# -- what it is shown --------------------------------------------------------------------------------------------------------


class Rewrites(GreedyAgent):
    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        chosen = super().act(observation, info)
        for array in (*observation.values(), info["action_mask"]):
            try:
                array[...] = 1
            except ValueError:  # read-only
                continue
        info.update(budget_remaining_price=1e9, is_success=True)
        return chosen


@adversary(
    "rewrites the observations, the mask and the budget that it is shown",
    "stopped",
    "An agent is handed copies; the world reads none of them again.",
)
def _(folder: Path) -> float:
    assert replays(Rewrites())
    return gain(Rewrites())


class Sleeps(GreedyAgent):
    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        time.sleep(0.001 * (time.perf_counter_ns() % 5))
        return super().act(observation, info)


@adversary(
    "times its answers and sleeps between them", "stopped", "The world's clock is simulated: the same bytes, however long."
)
def _(folder: Path) -> float:
    mine, theirs = ([trajectory for _, trajectory in played(agent, episodes=8)] for agent in (Sleeps(), GreedyAgent()))
    assert mine == theirs
    return gain(Sleeps(), episodes=8)


# -- memory ------------------------------------------------------------------------------------------------------------------


class Remembers(GreedyAgent):
    """Keeps from one episode to the next which tools worked: the tasks of a row come under several seeds."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[bytes, list[float]] = {}

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        tools = observation["tools"].copy()
        self._keys = [row[:11].tobytes() for row in tools]
        for row, key in enumerate(self._keys):
            good, bad = self._known.get(key, (0.0, 0.0))
            tools[row, 3] = (tools[row, 3] + good) / (1 + good + bad)
        self._last = super().act({**observation, "tools": tools}, info)
        return self._last

    def observe(self, observation: Any, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]) -> None:
        if self._last < len(self._keys):
            failed = observation["tools"][self._last, 14] > 0
            counts = self._known.setdefault(self._keys[self._last], [0.0, 0.0])
            counts[int(failed)] += 1.0


class Forgets(Remembers):
    """The same agent, honest: it begins every episode with nothing."""

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._known.clear()
        super().reset(seat, observation, info, seed)


@adversary(
    "keeps memory between episodes (numbers)",
    "stopped",
    "A rerun spreads the episodes over processes in which no task comes twice; what an agent learns of other tasks is noise.",
)
def _(folder: Path) -> float:
    episodes, passes = 400, max(PASSES, SEEDS)
    passed = 0
    for first in range(passes):  # as a rerun plays them
        agent = Remembers()
        agent.name = OWN
        indices = range(first, episodes, passes)
        rollout = play_many(world(NUMERIC), agent, NUMERIC, indices, 0, seeds=SEEDS, crashes="count")
        passed += sum(result.strict and result.within_budget for result, _ in rollout)
    return 100 * passed / episodes - rate(Forgets(), episodes=episodes)


class Recites(Agent):
    """Answers at once with what it read in an earlier episode of the same query."""

    env_id = TEXT

    def __init__(self) -> None:
        self._inner = make_agent("react", TEXT)
        self.handles = self._inner.handles
        self._answers: dict[str, str] = {}

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._query, self._last = seat.query, ""
        self._inner.reset(seat, observation, info, seed)

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        if self._query in self._answers:
            return json.dumps({"name": "finish", "arguments": {"answer": self._answers[self._query]}})
        self._last = self._inner.act(observation, info)
        return self._last

    def observe(self, observation: Any, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]) -> None:
        self._inner.observe(observation, reward, terminated, truncated, info)
        if terminated and "answer" in self._last:
            self._answers[self._query] = json.loads(self._last)["arguments"]["answer"]


@adversary(
    "keeps answers from one episode to the next (text)",
    "exposed",
    "An alarm names right facts in answers that nothing read in that episode held.",
)
def _(folder: Path) -> float:
    (folder / "own.py").write_text("from tests.adversaries.agents import Recites as Mine")
    with working_in(folder):
        board = run(make_run_config("quick", agents=[OWN], budgets="price=20", episodes=EPISODES), folder / "board").folder
        [alarms] = validate(pack(board, folder / "packed", "Mine", "a@example.org")).alarms
    assert any("nothing that the agent had read" in alarm for alarm in alarms)
    return 0.0


class Dumps(Agent):
    """Answers with everything that it has read."""

    env_id = TEXT

    def __init__(self) -> None:
        self._inner = make_agent("react", TEXT)
        self.handles = self._inner.handles

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._read = [str(observation)]
        self._inner.reset(seat, observation, info, seed)

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        action = json.loads(self._inner.act(observation, info))
        if action.get("name") == "finish":
            action["arguments"] = {"answer": " ".join(self._read)}
        return json.dumps(action)

    def observe(self, observation: Any, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]) -> None:
        self._read.append(str(observation))
        self._inner.observe(observation, reward, terminated, truncated, info)


@adversary("answers with a dump of everything it has read", "stopped", "A dump is graded as wrong: an answer states its facts.")
def _(folder: Path) -> float:
    return gain(Dumps(), "react", TEXT)


class Bills(Dumps):
    """Reports other tokens than it used."""

    def __init__(self, usage: Any) -> None:
        super().__init__()
        self._usage = usage

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        return json.dumps({**json.loads(self._inner.act(observation, info)), "usage": self._usage})


@adversary(
    "reports tokens that are negative, infinite or texts",
    "stopped",
    "A report that cannot be read is none: the environment counts the tokens itself.",
)
def _(folder: Path) -> float:
    usages = ({"input_tokens": -5, "output_tokens": 0}, {"input_tokens": "0", "output_tokens": 0}, {"input_tokens": 0.0})
    return max(gain(Bills(usage), "react", TEXT, 16) for usage in usages)


@adversary(
    "reports that all of its prompt was cached, and that it took no time",
    "stopped",
    "In an epoch the judge counts all classes of tokens, and the time, of every reply itself.",
)
def _(folder: Path) -> float:
    meter = Meter()
    meter.add(Reply(Message("assistant", "text"), Usage(1000, 50, 0, 2.0)))
    usage = {"input_tokens": 1000, "output_tokens": 50, "cached_tokens": 1000, "seconds": 0}
    assert json.loads(meter.charge(json.dumps({"name": "x", "usage": usage})))["usage"] == Usage(1000, 50, 0, 2.0).document()
    return 0.0


class Free(Bills):
    """Reports no tokens at all."""

    def __init__(self) -> None:
        super().__init__({"input_tokens": 0, "output_tokens": 0})


@adversary(
    "reports no tokens",
    "exposed",
    "Nobody else counted them: the row is unmetered, and handed in it ranks behind all others; in an epoch the judge counts.",
)
def _(folder: Path) -> float:
    (folder / "own.py").write_text("from tests.adversaries.agents import Free as Mine")
    with working_in(folder):
        terms: dict[str, Any] = {"budgets": "price=20", "episodes": EPISODES}
        rows = run(make_run_config("quick", agents=[OWN, "plan-act"], **terms), folder / "board").document["rows"]
    assert {row["agent"]: row.get("metered") for row in rows} == {"plan-act": None, OWN: False}
    return 0.0

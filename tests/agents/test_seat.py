"""What an agent is given: all that it may know, and nothing from which the world could be reached."""

import dataclasses
import pickle
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import costgym
from costgym.agents import Agent, make_agent
from costgym.agents.base import DECISION, NUMERIC, PLAN_CHAT, TEXT
from costgym.agents.seat import WorldSeat, begin, seat_of
from costgym.envs.base import BaseEnv, base_env
from costgym.experiments.play.episodes import play
from costgym.simulators.errors import ConfigError
from costgym.simulators.opencatp.scoring.evaluation import KnownScores
from costgym.simulators.opencatp.scoring.table import OutcomeTable
from costgym.simulators.tasks import Task, TaskSet
from costgym.simulators.world import Episode, World

PLAYERS = {NUMERIC: "greedy", TEXT: "react+prompt", DECISION: "deer", PLAN_CHAT: "few-shot"}
HIDDEN = (BaseEnv, World, Episode, TaskSet, OutcomeTable, gym.Env)


class Watcher(Agent):
    """Keeps all that it is given and lets another agent play."""

    def __init__(self, player: Agent) -> None:
        self.player, self.env_id, self.handles, self.given = player, player.env_id, player.handles, list[Any]()

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        self.given += [seat, observation, info, seed]
        self.player.reset(seat, observation, info, seed)

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        self.given += [observation, info]
        return self.player.act(observation, info)


def parts(value: Any, seen: set[int]) -> Iterator[Any]:
    """Everything that can be reached over attributes, items and elements, without looking into modules and code."""
    if id(value) in seen or isinstance(value, str | bytes | int | float | bool | type(None) | np.ndarray | type):
        return
    seen.add(id(value))
    yield value
    inner: list[Any] = []
    if dataclasses.is_dataclass(value):
        inner += [getattr(value, field.name) for field in dataclasses.fields(value)]
    inner += list(getattr(value, "__dict__", {}).values())
    if isinstance(value, dict):
        inner += [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        inner += list(value)
    elif callable(value):
        inner += [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
        inner.append(getattr(value, "__self__", None))
    for part in inner:
        if not isinstance(part, KnownScores):  # holds the table, and answers for the train split alone
            yield from parts(part, seen)


@pytest.mark.parametrize("env_id", PLAYERS)
def test_nothing_that_an_agent_is_given_leads_to_the_world(env_id: str) -> None:
    env = costgym.make(env_id, split="test")
    watcher = Watcher(make_agent(PLAYERS[env_id], env_id))
    play(env, watcher, base_env(env).numbers[3], seed=5)
    reached = list(parts(watcher.given, set()))
    assert len(reached) > 10
    assert [type(part).__name__ for part in reached if isinstance(part, HIDDEN)] == []
    if env_id != DECISION:  # its past decisions are tasks of the train split
        assert not any(isinstance(part, Task) for part in reached)


@pytest.mark.parametrize("name", ["react", "dfsdt+btp", "toolplanner", "deer"])
def test_an_agent_cannot_reach_the_model_that_reads_the_task(name: str) -> None:
    agent = make_agent(name)
    again = pickle.loads(pickle.dumps(agent))
    env = costgym.make(agent.env_id, split="test")
    play(env, agent, base_env(env).numbers[0], seed=5)
    assert not any(isinstance(part, (*HIDDEN, Task)) for part in parts(agent, set()))
    first, second = (play(env, player, base_env(env).numbers[1], seed=5) for player in (agent, again))
    assert [call.tool for call in first.calls] == [call.tool for call in second.calls]


def test_content_that_came_without_an_error_is_not_said_to_be_wrong() -> None:
    env = costgym.make(TEXT, scenario="storm", split="test")
    watcher = Watcher(make_agent("dfsdt"))
    hidden = wrong = 0
    for number in base_env(env).numbers[:20]:
        episode = play(env, watcher, number, seed=1)
        hidden += sum(call.status.label in ("irrelevant", "empty", "no_data") for call in episode.calls)
    for shown in watcher.given:
        if isinstance(shown, dict):
            wrong += sum(result["status"] in ("irrelevant", "empty", "no_data") for result in shown["results"])
            wrong += sum(word in shown["statuses"] for word in ("irrelevant", "empty", "no_data"))
    assert hidden > 5 and wrong == 0


def test_only_a_bound_is_shown_the_world() -> None:
    env = costgym.make(NUMERIC)
    observation, info = env.reset(seed=0)
    assert isinstance(seat_of(base_env(env), make_agent("oracle")), WorldSeat)
    assert not isinstance(seat_of(base_env(env), make_agent("greedy")), WorldSeat)
    begin(make_agent("oracle"), env, observation, info, 0)
    with pytest.raises(ConfigError, match="expected an environment"):
        make_agent("oracle").reset(seat_of(base_env(env), make_agent("greedy")), observation, info, 0)


def test_a_users_agent_is_never_shown_the_world(tmp_path: Any) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from costgym.agents import Agent\nclass Seer(Agent):\n    privileged = True\n"
        "    def reset(self, seat, observation, info, seed): pass\n    def act(self, observation, info): return 0\n"
    )
    with pytest.raises(ConfigError, match="only costgym's own bounds may see the world"):
        make_agent(f"{path}:Seer")


def test_scores_of_the_test_split_are_not_to_be_had() -> None:
    env = costgym.make(PLAN_CHAT, split="test")
    env.reset(seed=0)
    seat: Any = seat_of(base_env(env), make_agent("few-shot", PLAN_CHAT))
    assert seat.evaluator.scores.score(0, 59, (), "image") >= -1
    with pytest.raises(ConfigError, match="expected one of the train split, 0 to 59, got 60"):
        seat.evaluator.scores.score(0, 60, (), "image")

"""Playing episodes: one agent in one environment, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym

from ..agents.base import Agent
from ..envs.recording import recordable
from ..simulators.episode_view import EpisodeView
from ..simulators.errors import InfrastructureError
from ..simulators.ledger import Budget
from ..simulators.quality import quality_of_plan
from ..simulators.status import Origin
from ..simulators.world import Episode
from .execution.engine import Engine, Local
from .metrics import EpisodeResult
from .trajectories.format import Header, Trajectory, parse_header, record

if TYPE_CHECKING:
    from ..simulators.oracle.optimum import Optimum

INFRASTRUCTURE_TRIES = 3
"""An episode that the infrastructure broke is void and played again, this many times in all."""
CHUNK = 25
"""Episodes of one task of an engine: large enough to outweigh its dispatch, small enough to share evenly and to lose little."""


class RolloutContext:
    """An environment and the agent that plays in it. Sent to another process, the agent goes along and the environment is made
    anew there, from what the header of its trajectories says.

    Args:
        env: an environment of costgym.
        agent: for its view; what it is after a reset must not depend on the episodes before.
    """

    def __init__(self, env: gym.Env[Any, Any], agent: Agent) -> None:
        self.env, self.agent = env, agent
        self.env_id = env.spec.id if env.spec is not None else agent.env_id

    @property
    def header(self) -> Header:
        """Of the episodes that are played here."""
        return Header.of(self.env, self.env_id)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_anew, (self.header.to_json(), self.agent)


def _made_anew(header: str, agent: Agent) -> RolloutContext:
    return RolloutContext(parse_header(header, Path("header")).make(), agent)


def chunks(start: int, stop: int) -> Iterator[range]:
    """The whole numbers from `start` to `stop`, in tasks for an engine."""
    for first in range(start, stop, CHUNK):
        yield range(first, min(stop, first + CHUNK))


def play(env: gym.Env[Any, Any], agent: Agent, task: int | str | None, seed: int, agent_seed: int | None = None) -> Episode:
    """Play one episode to its end.

    Args:
        env: an environment over the tool world.
        agent: an agent for its view.
        task: the task's number or id; None lets the environment draw one.
        seed: keys the world's chance.
        agent_seed: keys the agent's own chance; by default derived from `seed` and the task.

    Returns:
        The episode, ended.

    Raises:
        InfrastructureError: a real back-end failed; the episode says nothing about the agent.
    """
    episode = record(env, agent, task, seed, agent_seed=agent_seed)[1]
    assert isinstance(episode, Episode)
    return episode


class AgentInfo(NamedTuple):
    """Who played, where only the names are known."""

    name: str
    model: str


def result_of(
    episode: EpisodeView,
    agent: Agent | AgentInfo,
    env_id: str,
    index: int,
    budget: Budget,
    grading: str = "strict",
    void: bool = False,
    best: Optimum | None = None,
    quality: float | None = None,
) -> EpisodeResult:
    """The record of an episode that has ended.

    Regret is measured against `best`, by default the optimum of the same world. `quality` is the Quality of Plan, by default
    from success and price. Episodes of other worlds than the tools' need both.
    """
    from ..simulators.oracle.optimum import optimum

    statuses = Counter(call.status for call in episode.calls if call.status.origin is not Origin.NONE)
    grade, ledger = episode.grade, episode.ledger
    assert grade is not None
    if isinstance(episode, Episode):
        world = episode.world
        passed = (grade.strict if grading == "strict" else grade.judged) and episode.exceeded is None
        best = best or optimum(world, episode.number, episode.seed, budget, grading)
        if quality is None:
            quality = float(quality_of_plan(1.0 if passed else 0.0, ledger.price, world.alpha, world.max_price))
    assert best is not None and quality is not None
    return EpisodeResult(
        agent=agent.name,
        model=agent.model,
        env=env_id,
        task=episode.task.id,
        episode=index,
        seed=episode.seed,
        budget=budget.as_dict(),
        strict=grade.strict,
        judged=grade.judged,
        share=grade.share,
        price=ledger.price,
        seconds=float(episode.now_s),
        tokens=ledger.tokens,
        calls=ledger.calls,
        attempts=ledger.attempts,
        errors={
            origin.name.lower(): sum(n for status, n in statuses.items() if status.origin is origin)
            for origin in (Origin.AGENT, Origin.TOOL, Origin.INFRASTRUCTURE)
        },
        errors_by_status={status.label: n for status, n in sorted(statuses.items())},
        exceeded=episode.exceeded,
        void=void,
        optimum_price=best.price if best.feasible else None,
        quality=quality,
        regret=best.quality - quality,
    )


def play_many(
    env: gym.Env[Any, Any],
    agent: Agent,
    env_id: str,
    episodes: Iterable[int],
    seed: int,
    budget: Budget,
    grading: str = "strict",
) -> Iterator[tuple[EpisodeResult, Trajectory | None]]:
    """Play episodes by index: index i plays the split's i-th task (round and round), each round with the next seed.

    The same index is the same world for every agent, so results are paired.

    Yields:
        The result and the trajectory; no trajectory where the infrastructure broke the episode.
    """
    world = recordable(env)
    for index in episodes:
        number, world_seed = world_of(env, index, seed)
        for attempt in range(INFRASTRUCTURE_TRIES):
            try:
                trajectory, episode = record(env, agent, number, world_seed, index)
                best, quality = world.optimum(budget), world.plan_quality()
                yield result_of(episode, agent, env_id, index, budget, grading, best=best, quality=quality), trajectory
                break
            except InfrastructureError:
                if attempt + 1 == INFRASTRUCTURE_TRIES:
                    world.give_up()
                    episode, best, quality = world.account(), world.optimum(budget), world.plan_quality()
                    yield result_of(episode, agent, env_id, index, budget, grading, True, best, quality), None


def best_decision(env: gym.Env[Any, Any], budget: Budget) -> Optimum | None:
    """The optimum where the environment knows better than the world: of decisions or plans, not of facts."""
    return recordable(env).optimum(budget)


def world_of(env: gym.Env[Any, Any], index: int, seed: int) -> tuple[int, int]:
    """The task's number and the world's seed of an index."""
    numbers = recordable(env).numbers
    return numbers[index % len(numbers)], seed + index // len(numbers)


def rollout(
    env: gym.Env[Any, Any],
    agent: Agent,
    episodes: int,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
    engine: Engine | None = None,
) -> list[EpisodeResult]:
    """Play an agent in an environment and record every episode.

    Args:
        env: an environment of costgym; its split, budget and grading hold.
        agent: any agent for that view.
        episodes: how many, at least 1.
        seed: same seed, same results.
        progress: called with the number of finished episodes.
        engine: where episodes are played; by default here. The results do not depend on it.

    >>> import costgym
    >>> from costgym.agents import make_agent
    >>> env = costgym.make("costgym/Marketplace-v0", scenario="marketplace")
    >>> results = costgym.rollout(env, make_agent("cheapest"), episodes=5, seed=0)
    >>> len(results)
    5
    """
    results = []
    for result in (engine or Local()).stream(_results, (RolloutContext(env, agent), seed), chunks(0, episodes)):
        results.append(result)
        if progress is not None:
            progress(len(results))
    return results


def _results(shared: tuple[RolloutContext, int], indices: range) -> Iterator[EpisodeResult]:
    stage, seed = shared
    world = recordable(stage.env)
    for result, _ in play_many(stage.env, stage.agent, stage.env_id, indices, seed, world.budget, world.grading):
        yield result

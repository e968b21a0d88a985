"""Play episodes of one agent in one environment, and make their records."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from costgym.agents.base import Agent
from costgym.agents.models.base import REQUESTS, RETRIED
from costgym.envs.base import NO_OPTIONS, BaseEnv, Instance, base_env
from costgym.experiments.play.execution.engine import Engine
from costgym.experiments.play.results import COST_WITHOUT_CACHE, ORIGINS, TOKEN_COST, EpisodeResult
from costgym.experiments.play.trajectories.format import URL, Header, Trajectory, parse_header
from costgym.experiments.play.trajectories.record import AgentCrash, Crashes, played, record, replies_of
from costgym.simulators.errors import InfrastructureError
from costgym.simulators.status import Origin, Status
from costgym.simulators.world.episode import Episode

INFRASTRUCTURE_TRIES = 3  # number of times that an episode is played before it counts as void, if the infrastructure fails


class RolloutContext:
    """An environment and the agent that plays in it, which must not depend on the episodes before its reset. Pickling keeps the
    agent and rebuilds the environment from its header."""

    def __init__(self, env: gym.Env[Any, Any], agent: Agent) -> None:
        self.env, self.agent = env, agent
        self.env_id = env.spec.id if env.spec is not None else agent.env_id

    @property
    def header(self) -> Header:
        """Header of the trajectories recorded in this context."""
        return Header.of(self.env, self.env_id)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.header.to_json(), self.agent)


def _rebuilt(header: str, agent: Agent) -> RolloutContext:
    return RolloutContext(parse_header(header, Path("header")).make(), agent)


def chunks(start: int, stop: int, engine: Engine) -> Iterator[range]:
    """Split the indices from `start` to `stop` into tasks for an engine."""
    for first in range(start, stop, engine.episodes_per_task):
        yield range(first, min(stop, first + engine.episodes_per_task))


def play(env: gym.Env[Any, Any], agent: Agent, task: int | str | None, seed: int, agent_seed: int | None = None) -> Episode:
    """Play one episode to its end, without a record of it; without a task the environment draws one, and by default the agent's
    seed follows from seed and task. Raises InfrastructureError where a real back-end failed."""
    for _ in played(env, agent, task, seed, agent_seed):
        pass
    return base_env(env).account()


class AgentInfo(NamedTuple):
    """The names of an agent and its model, without the agent itself."""

    name: str
    model: str


def result_of(
    world: BaseEnv[Any, Any],
    agent: Agent | AgentInfo,
    env_id: str,
    index: int,
    settings: Mapping[str, Any] = NO_OPTIONS,
    void: bool = False,
    why: str = "",
    crash: str = "",
    replies: Mapping[str, int] = NO_OPTIONS,
) -> EpisodeResult:
    """The record of the episode that has ended in an environment; regret is measured against its optimum. `void` says that the
    infrastructure broke it, `crash` is the agent's exception, and `replies` counts a real model's replies."""
    episode, best, quality = world.account(), world.optimum(), world.quality()
    grade, ledger = episode.grade, episode.ledger
    assert grade is not None
    tokens = float(sum([charge.price for charge in ledger if charge.what == "think"]))
    statuses: dict[Status, int] = {}
    errors = dict.fromkeys(ORIGINS, 0)
    for status in [call.status for call in episode.calls]:
        if status.origin is not Origin.NONE:
            statuses[status] = statuses.get(status, 0) + 1
            errors[ORIGINS[status.origin - 1]] += 1
    return EpisodeResult(
        agent=agent.name,
        model=agent.model,
        env=env_id,
        task=episode.task.id,
        episode=index,
        seed=episode.seed,
        budget=world.budget.as_dict(),
        settings=settings,
        strict=grade.strict,
        judged=grade.judged,
        share=grade.share,
        price=ledger.price,
        seconds=float(episode.now_s),
        tokens=ledger.tokens,
        calls=ledger.calls,
        attempts=ledger.attempts,
        errors=errors,
        errors_by_status={status.label: n for status, n in sorted(statuses.items())},
        exceeded=episode.exceeded,
        void=void,
        void_reason=why,
        crash=crash,
        replies=replies,
        optimum_price=best.price if best.feasible else None,
        quality=quality,
        regret=best.quality - quality,
        figures={**world.figures(), **({TOKEN_COST: tokens} if tokens else {}), **_tokens_by_class(episode, replies)},
    )


def _tokens_by_class(episode: Episode, replies: Mapping[str, int]) -> dict[str, float]:
    """The requests and the tokens by class of an episode whose requests a judge or the world's cache of prompts has counted
    one by one, and for the latter what the episode would cost without that cache; empty for others."""
    ledger, prices = episode.ledger, episode.world.tokens
    cached = prices is not None and prices.cache is not None and bool(ledger.usages)
    if not cached and not replies.get(REQUESTS):
        return {}
    sums = {name: float(tokens) for name, tokens in ledger.tokens_by_class().items()}
    figures = {REQUESTS: float(replies.get(REQUESTS) or len(ledger.usages)), **sums}
    if cached and prices is not None:
        charged = zip(ledger.usages, [charge.price for charge in ledger if charge.what == "think"], strict=False)
        saved = [prices.price(usage._replace(cached_tokens=0, cache_write_tokens=0)) - price for usage, price in charged]
        figures[COST_WITHOUT_CACHE] = ledger.price + sum(saved)
    return figures


def instance_of(world: BaseEnv[Any, Any], index: int, seed: int, seeds: int = 1) -> Instance:
    """Return what a run plays at an index: the tasks in turn, each `seeds` times in a row under consecutive seeds."""
    task, repeat = divmod(index, seeds)
    return world.instance(task, seed + repeat)


def void_result(
    world: BaseEnv[Any, Any],
    agent: AgentInfo,
    env_id: str,
    index: int,
    seed: int,
    seeds: int,
    settings: Mapping[str, Any],
    why: str,
) -> EpisodeResult:
    """The record of an episode that a broken back-end made void: its world without any action, so that it can be checked."""
    number, world_seed, options = instance_of(world, index, seed, seeds)
    world.reset(seed=world_seed, options={"task": number, **options})
    world.give_up()
    return result_of(world, agent, env_id, index, settings, void=True, why=why)


def play_many(
    env: gym.Env[Any, Any],
    agent: Agent,
    env_id: str,
    episodes: Iterable[int],
    seed: int,
    settings: Mapping[str, Any] = NO_OPTIONS,
    seeds: int = 1,
    recorded: bool = True,
    crashes: Crashes = "raise",
) -> Iterator[tuple[EpisodeResult, Trajectory | None]]:
    """Play episodes by index, as `instance_of` has them: the same index is the same world for every agent, so results are
    paired. Yields the result and the trajectory; no trajectory where none is wanted, or the infrastructure broke the
    episode."""
    world = base_env(env)
    for index in episodes:
        number, world_seed, options = instance_of(world, index, seed, seeds)
        for attempt in range(INFRASTRUCTURE_TRIES):
            try:
                trajectory, crash = None, ""
                again = {RETRIED: attempt} if attempt else {}
                if recorded:
                    trajectory, _ = record(env, agent, number, world_seed, index, options=options, crashes=crashes)
                    trajectory = replace(trajectory, replies={**trajectory.replies, **again})
                    crash = trajectory.crash
                else:
                    try:
                        for _ in played(env, agent, number, world_seed, options=options, crashes=crashes):
                            pass
                    except AgentCrash as error:
                        crash = str(error)
                result = result_of(world, agent, env_id, index, settings, crash=crash, replies={**replies_of(agent), **again})
                yield result, trajectory
                break
            except InfrastructureError as error:
                if attempt + 1 == INFRASTRUCTURE_TRIES:
                    about = AgentInfo(agent.name, agent.model), env_id, index, seed, seeds, settings
                    yield void_result(world, *about, URL.sub("", str(error))), None  # results name no server

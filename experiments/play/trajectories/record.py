"""Play episodes and record them as trajectories."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from ....agents.base import Agent
from ....agents.seat import begin
from ....envs.base import NO_OPTIONS, BaseEnv, base_env
from ....envs.wrappers import expect_five_values
from ....simulators.episode import Episode
from .format import Trajectory


class Played(NamedTuple):
    """A step of an episode that is being played; the first is the reset, without action and reward."""

    observation: Any
    action: Any = None
    reward: float = 0.0
    truncated: bool = False


def played(
    env: gym.Env[Any, Any],
    agent: Agent,
    task: int | str | None,
    seed: int,
    agent_seed: int | None = None,
    options: Mapping[str, Any] = NO_OPTIONS,
) -> Iterator[Played]:
    """Play an episode, step by step; arguments and errors as for `record`. One that is truncated is given up."""
    expect_five_values(env, "env")
    world = base_env(env)
    observation, info = env.reset(seed=seed, options={**options} if task is None else {"task": task, **options})
    tell = begin(agent, env, observation, info, world.agent_seed(seed) if agent_seed is None else agent_seed)
    told = tell(info)
    yield Played(observation)
    terminated = truncated = False
    while not (terminated or truncated):
        action = agent.act(observation, told)
        observation, reward, terminated, truncated, info = env.step(action)
        told = tell(info)
        agent.observe(observation, float(reward), terminated, truncated, told)
        yield Played(observation, action, float(reward), truncated)
    if truncated:
        world.give_up()


def record(
    env: gym.Env[Any, Any],
    agent: Agent,
    task: int | str | None,
    seed: int,
    index: int = 0,
    agent_seed: int | None = None,
    options: Mapping[str, Any] = NO_OPTIONS,
) -> tuple[Trajectory, Episode]:
    """Play an episode to its end and record it.

    Args:
        env, agent: an environment of costgym and an agent for it.
        task: number or id of the task; None to let the environment draw one.
        seed: seed of the world.
        index: index of the episode in its run.
        agent_seed: seed of the agent; by default derived from `seed` and the task.
        options: further reset options.

    Raises:
        ConfigError: a `CostTuple` is around the environment.
        InfrastructureError: a real back-end failed, so the episode is not a result of the agent.
    """
    steps = played(env, agent, task, seed, agent_seed, options)
    digests = [digest(next(steps).observation)]
    actions: list[Any] = []
    rewards: list[float] = []
    truncated = False
    for observation, action, reward, cut in steps:
        actions.append(int(action) if isinstance(action, np.integer) else action)
        rewards.append(reward)
        digests.append(digest(observation))
        truncated = cut
    return trajectory_of(base_env(env), agent.name, agent.model, index, options, actions, rewards, digests, truncated)


def trajectory_of(
    world: BaseEnv[Any, Any],
    agent: str,
    model: str,
    index: int,
    options: Mapping[str, Any],
    actions: list[Any],
    rewards: list[float],
    digests: list[str],
    truncated: bool,
) -> tuple[Trajectory, Episode]:
    """Build the record of the episode that was just played in `world`; return it and the episode."""
    if truncated:
        world.give_up()
    episode = world.account()
    trajectory = Trajectory(
        agent=agent,
        model=model,
        episode=index,
        task=episode.task.id,
        number=episode.number,
        seed=episode.seed,
        options=dict(options),
        actions=actions,
        rewards=rewards,
        observations=digests,
        calls=[
            [call.tool, call.status.label, call.submitted_s, call.started_s, call.finished_s, call.cold, call.price]
            for call in episode.calls
        ],
        charges=list(map(list, episode.ledger)),
        truncated=truncated,
        final=final_of(world, episode),
    )
    return trajectory, episode


def final_of(world: BaseEnv[Any, Any], episode: Episode) -> dict[str, Any]:
    """Return the outcome of an episode in the format of `Trajectory.final`."""
    grade, ledger = episode.grade, episode.ledger
    return {
        "strict": grade is not None and grade.strict,
        "judged": grade is not None and grade.judged,
        "share": 0.0 if grade is None else grade.share,
        "exceeded": episode.exceeded,
        "price": ledger.price,
        "seconds": episode.now_s,
        "tokens": ledger.tokens,
        "calls": ledger.calls,
        "attempts": ledger.attempts,
        **world.figures(),
    }


def digest(observation: Any) -> str:
    """Compute a short hash of an observation: of its text, or of its arrays' names, shapes and bytes."""
    if isinstance(observation, str):
        return hashlib.blake2b(observation.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    state = hashlib.blake2b(digest_size=8)
    if isinstance(observation, dict):
        for name in sorted(observation):
            array = np.ascontiguousarray(observation[name])
            state.update(_title(name, array.dtype, array.shape))
            state.update(array.tobytes())
    else:
        state.update(np.ascontiguousarray(observation).tobytes())
    return state.hexdigest()


@lru_cache(maxsize=1024)
def _title(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    return f"{name}{dtype}{shape}".encode()

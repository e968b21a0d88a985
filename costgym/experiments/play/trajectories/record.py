"""Play episodes and record them as trajectories."""

import hashlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np

from costgym.agents.base import Agent
from costgym.agents.custom import is_custom
from costgym.agents.models.base import REPLIES
from costgym.agents.seat import seat_of
from costgym.envs.base import NO_OPTIONS, BaseEnv, base_env
from costgym.envs.wrappers import expect_five_values
from costgym.experiments.play.trajectories.format import Trajectory, shown_crash
from costgym.simulators.errors import CostGymError, InfrastructureError
from costgym.simulators.world.episode import Episode

Crashes = Literal["raise", "count"]  # an exception of the agent's code is raised, or ends that episode as a failure
MAX_EPISODE_CHARACTERS = 2_000_000  # of an agent's texts; JSON may need twelve bytes for each, and a line has 64 MiB


class AgentCrash(Exception):
    """The agent's own code failed in an episode; the message is that of its exception."""


class Played(NamedTuple):
    """A step of an episode that is being played; the first is the reset, without action and reward."""

    observation: Any
    action: Any = None
    reward: float = 0.0
    truncated: bool = False


class Tape:
    """The record of an episode in progress, which begins with the observation of its reset."""

    def __init__(self, observation: Any) -> None:
        self.actions: list[Any] = []
        self.rewards: list[float] = []
        self.digests = [digest(observation)]  # at once, since an environment may write into its arrays again
        self.truncated = False

    def add(self, observation: Any, action: Any, reward: float, truncated: bool) -> None:
        self.actions.append(int(action) if isinstance(action, np.integer) else action)
        self.rewards.append(reward)
        self.digests.append(digest(observation))
        self.truncated = truncated


def played(
    env: gym.Env[Any, Any],
    agent: Agent,
    task: int | str | None,
    seed: int,
    agent_seed: int | None = None,
    options: Mapping[str, Any] = NO_OPTIONS,
    crashes: Crashes = "raise",
) -> Iterator[Played]:
    """Play an episode, step by step; arguments and errors as for `record`. One that is truncated is given up. Raises AgentCrash
    if the agent's code failed and `crashes` is "count"; the episode is given up."""
    expect_five_values(env, "env")
    world = base_env(env)
    observation, info = env.reset(seed=seed, options={**options} if task is None else {"task": task, **options})
    own_seed = world.agent_seed(seed) if agent_seed is None else agent_seed
    seat, shown = seat_of(world, agent), world.visible_info(info)
    yield Played(observation)
    in_world = terminated = truncated = False
    written, space = 0, env.action_space
    try:
        for handle in agent.handles:
            handle.begin(world, own_seed)
        agent.reset(seat, observation, shown, own_seed)
        while not (terminated or truncated):
            action = agent.act(observation, shown)
            if isinstance(space, gym.spaces.Text):
                written += _length(action, space.max_length)
                if written > MAX_EPISODE_CHARACTERS:
                    expected = f"expected at most {MAX_EPISODE_CHARACTERS:,} characters in an episode"
                    raise gym.error.InvalidAction(f"action: {expected}, got {written:,}")
            in_world = True
            observation, reward, terminated, truncated, info = env.step(action)
            shown = world.visible_info(info)
            in_world = False
            yield Played(observation, action, float(reward), truncated)
            agent.observe(observation, float(reward), terminated, truncated, shown)
    except (Exception, SystemExit) as error:
        if crashes == "raise" or (in_world and not _no_action(env, action, error)) or not _is_crash(agent, error):
            raise
        world.give_up()
        raise AgentCrash(shown_crash(str(error) if type(error) is AgentCrash else _words(error))) from error
    if truncated:
        world.give_up()


def _length(action: Any, most: int) -> int:
    """The length of a text action; raises InvalidAction for what is not one, since its record would not be read."""
    if type(action) is not str or len(action) > most:
        got = f"{len(action):,}" if isinstance(action, str) else type(action).__name__
        raise gym.error.InvalidAction(f"action: expected a text of at most {most:,} characters, got {got}")
    return len(action)


def _is_crash(agent: Agent, error: BaseException) -> bool:
    """The exception is the agent's own failure: any of a user's code; of ours, those that are not raised on purpose, as a
    missing key or a back-end that is down are."""
    if agent.brokered and isinstance(error, InfrastructureError):
        return False  # of a model on this side; the agent's own exceptions come over the pipe as crashes
    return is_custom(agent.name) or not isinstance(error, CostGymError | SystemExit)


def _no_action(env: gym.Env[Any, Any], action: Any, error: BaseException) -> bool:
    """The environment failed because what the agent returned is no action at all."""
    if isinstance(error, InfrastructureError):
        return False
    try:
        return not env.action_space.contains(action)
    except Exception:  # whatever an object of the agent's does when it is looked at
        return True


def _words(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # the agent's code wrote the exception's __str__ too
        return type(error).__name__


def record(
    env: gym.Env[Any, Any],
    agent: Agent,
    task: int | str | None,
    seed: int,
    index: int = 0,
    agent_seed: int | None = None,
    options: Mapping[str, Any] = NO_OPTIONS,
    crashes: Crashes = "raise",
) -> tuple[Trajectory, Episode]:
    """Play an episode to its end and record it. Without a task the environment draws one; by default the agent's seed follows
    from seed and task. With `crashes="count"` an exception of the agent's code ends the episode as a failure. Raises
    ConfigError if a `CostTuple` is around the environment, InfrastructureError if a real back-end failed, so that the episode
    is not a result of the agent."""
    steps = played(env, agent, task, seed, agent_seed, options, crashes)
    tape, crash = Tape(next(steps).observation), ""
    try:
        for step in steps:
            tape.add(*step)
    except AgentCrash as error:
        crash = str(error)
    return trajectory_of(base_env(env), agent.name, agent.model, index, options, tape, crash, replies_of(agent))


def replies_of(agent: Agent) -> dict[str, int]:
    """The counts of a real model's replies in the episode that was just played; empty for other agents, and for a user's own in
    this process, whose counts nobody checks."""
    counts = agent.replies
    checked = agent.brokered or not is_custom(agent.name)
    return {} if not counts or not checked else {name: counts[name] for name in REPLIES if counts.get(name)}


def trajectory_of(
    world: BaseEnv[Any, Any],
    agent: str,
    model: str,
    index: int,
    options: Mapping[str, Any],
    tape: Tape,
    crash: str = "",
    replies: Mapping[str, int] = NO_OPTIONS,
) -> tuple[Trajectory, Episode]:
    """Build the record of the episode that was just played in `world`; return it and the episode."""
    if tape.truncated or crash:
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
        actions=tape.actions,
        rewards=tape.rewards,
        observations=tape.digests,
        calls=[
            [call.tool, call.status.label, call.submitted_s, call.started_s, call.finished_s, call.cold, call.price]
            for call in episode.calls
        ],
        charges=list(map(list, episode.ledger)),
        truncated=tape.truncated,
        final=final_of(world, episode),
        crash=crash,
        replies=dict(replies),
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

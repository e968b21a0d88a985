"""Recorded episodes played again: observations and figures, which a trajectory file does not hold, come back bit by bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from ...envs.base import base_env
from ...simulators.episode_view import EpisodeView
from ...simulators.errors import CostGymError, DataError
from ..files import iter_lines
from .format import Header, Trajectory, check_header, parse_header, parse_trajectory, read_trajectories
from .record import digest, trajectory_of


class Step(NamedTuple):
    """One step of a replayed episode; the first is the reset's and has no action.

    Attributes:
        action: as recorded; None at the reset.
        observation, reward, terminated, truncated, info: what it brought.
    """

    action: Any
    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def replay_steps(env: gym.Env[Any, Any], recorded: Trajectory) -> Iterator[Step]:
    """Play the recorded actions again, step by step; stops where the episode ends."""
    observation, info = env.reset(seed=recorded.seed, options={"task": recorded.number, **recorded.options})
    yield Step(None, observation, 0.0, False, False, info)
    for action in recorded.actions:
        observation, reward, terminated, truncated, info = env.step(action)
        yield Step(action, observation, float(reward), terminated, truncated, info)
        if terminated or truncated:
            return


def replay(env: gym.Env[Any, Any], recorded: Trajectory) -> Trajectory:
    """Play the recorded actions again; in an honest record nothing differs."""
    return replay_episode(env, recorded)[0]


def replay_episode(env: gym.Env[Any, Any], recorded: Trajectory) -> tuple[Trajectory, EpisodeView]:
    """The same, with the episode that was played."""
    world = base_env(env)  # wrappers of `Header.make` guard against misuse, and change nothing
    actions: list[Any] = []
    rewards: list[float] = []
    observation, _ = world.reset(seed=recorded.seed, options={"task": recorded.number, **recorded.options})
    digests = [digest(observation)]
    truncated = False
    for action in recorded.actions:
        observation, reward, terminated, truncated, _ = world.step(action)
        actions.append(action)
        rewards.append(float(reward))
        digests.append(digest(observation))
        if terminated or truncated:
            break
    about = recorded.agent, recorded.model, recorded.episode, recorded.options
    return trajectory_of(world, *about, actions, rewards, digests, truncated)


@dataclass(frozen=True, slots=True)
class ReplayedEpisode:
    """An episode as it was.

    Attributes:
        header, recorded: of the file and the episode.
        env: the environment, still standing at the episode's end.
        steps: the reset, then one a recorded action.
        episode: ended, with its ledger and calls.
        passed: it succeeded within its budget, by the grading of the file.
    """

    header: Header
    recorded: Trajectory
    env: gym.Env[Any, Any]
    steps: Sequence[Step]
    episode: EpisodeView
    passed: bool


def trajectory_files(path: str | Path) -> list[Path]:
    """A trajectory file, or the trajectory files below a folder, in order of their names.

    Raises:
        DataError: there is none.
    """
    place = Path(path)
    if place.is_file():
        return [place]
    found = [file for file in sorted(place.rglob("*.jsonl")) if is_trajectory_file(file)] if place.is_dir() else []
    if not found:
        raise DataError(place, "holds no trajectory file; expected one, or a folder that `costgym collect` wrote")
    return found


def is_trajectory_file(path: Path) -> bool:
    """Whether a file's first line is a trajectory header."""
    try:
        first = next(iter_lines(path), "")
        return '"format":"costgym.trajectories/' in first and bool(parse_header(first, path))
    except DataError:
        return False


def replayed(path: str | Path, data: str | None = None) -> Iterator[ReplayedEpisode]:
    """The episodes of a file or folder, one at a time, each checked against its digests and rewards on the way.

    Args:
        path: a trajectory file, or a folder of them.
        data: folder of a ToolBench scenario, where it lies elsewhere now.

    Raises:
        DataError: a file cannot be read, or an episode does not come out as it is recorded.
    """
    for file in trajectory_files(path):
        header, episodes = read_trajectories(file)
        problems = check_header(header, data)
        if problems:
            raise DataError(file, problems[0])
        env = header.make(data)
        for number, recorded in enumerate(episodes, 2):
            yield _play(header, env, recorded, file, number)
        env.close()


def replay_at(path: Path, offset: int, header: Header, env: gym.Env[Any, Any]) -> ReplayedEpisode:
    """The episode whose line begins at a byte offset of a file."""
    with path.open("rb") as store:
        store.seek(offset)
        line = store.readline().decode("utf-8")
    return _play(header, env, parse_trajectory(line, path, 0), path, 0)


def _play(header: Header, env: gym.Env[Any, Any], recorded: Trajectory, path: Path, number: int) -> ReplayedEpisode:
    try:
        played = replay_recorded(header, env, recorded)
    except (CostGymError, gym.error.Error, TypeError, ValueError, OverflowError) as error:
        raise DataError(path, f"cannot be replayed ({error}); run `costgym verify`", f"line {number}") from error
    steps = played.steps
    same = [step.reward for step in steps[1:]] == recorded.rewards and len(steps) == len(recorded.actions) + 1
    if not same or [digest(step.observation) for step in steps] != recorded.observations:
        raise DataError(path, "does not replay as it is recorded; run `costgym verify` to see where", f"line {number}")
    return played


def replay_recorded(header: Header, env: gym.Env[Any, Any], recorded: Trajectory) -> ReplayedEpisode:
    """An episode played again from its task, seed and actions alone; nothing is compared."""
    steps = list(replay_steps(env, recorded))
    world = base_env(env)
    world.give_up()
    return ReplayedEpisode(header, recorded, env, steps, world.account(), world.succeeded)


def readable(text: str) -> str:
    """A text that every format can hold: what is no character (a lone surrogate, NUL) becomes U+FFFD."""
    if text.isascii():
        return text.replace("\0", "\ufffd")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")

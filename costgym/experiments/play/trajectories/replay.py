"""Replay recorded episodes, which reproduces the observations and metrics that a trajectory file does not store."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from costgym.envs.base import base_env
from costgym.experiments.play.trajectories.format import (
    Header,
    Trajectory,
    check_header,
    parse_header,
    parse_trajectory,
    read_trajectories,
)
from costgym.experiments.play.trajectories.record import Tape, digest, trajectory_of
from costgym.simulators.errors import CostGymError, DataError
from costgym.simulators.files import iter_lines, open_plain, plain_files
from costgym.simulators.world.episode import Episode


class Step(NamedTuple):
    """A step of a replayed episode, with the values that the environment returned; the first one is the reset."""

    action: Any  # recorded action; None for the reset
    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def replay_steps(env: gym.Env[Any, Any], recorded: Trajectory) -> Iterator[Step]:
    """Replay the recorded actions and yield each step, up to the end of the episode."""
    return actions_replayed(env, recorded.seed, {"task": recorded.number, **recorded.options}, recorded.actions)


def actions_replayed(env: gym.Env[Any, Any], seed: int, options: dict[str, Any], actions: Iterable[Any]) -> Iterator[Step]:
    """Reset an environment and play actions in it; yields each step, up to the end of the episode."""
    observation, info = env.reset(seed=seed, options=options)
    yield Step(None, observation, 0.0, False, False, info)
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        yield Step(action, observation, float(reward), terminated, truncated, info)
        if terminated or truncated:
            return


def replay_episode(env: gym.Env[Any, Any], recorded: Trajectory) -> tuple[Trajectory, Episode]:
    """Replay the recorded actions; return the new record, which equals the given one if that is correct, and the episode."""
    world = base_env(env)  # the wrappers of `Header.make` only check for misuse
    steps = replay_steps(world, recorded)
    tape = Tape(next(steps).observation)
    for step in steps:
        tape.add(step.observation, step.action, step.reward, step.truncated)
    about = recorded.agent, recorded.model, recorded.episode, recorded.options
    return trajectory_of(world, *about, tape, recorded.crash, recorded.replies)


@dataclass(frozen=True, slots=True)
class ReplayedEpisode:
    """A replayed episode."""

    header: Header
    recorded: Trajectory
    env: gym.Env[Any, Any]
    steps: Sequence[Step]  # the reset, then one step per recorded action
    episode: Episode
    passed: bool  # whether it succeeded within its budget, by the grading of the file


def trajectory_files(path: str | Path) -> list[Path]:
    """List a trajectory file itself, or the trajectory files below a folder sorted by name."""
    root = Path(path)
    if root.is_file():
        return [root]
    files = [file for file in plain_files(root, ".jsonl") if is_trajectory_file(file)] if root.is_dir() else []
    if not files:
        raise DataError(root, "holds no trajectory file; expected a trajectory file or a folder written by `costgym collect`")
    return files


def is_trajectory_file(path: Path) -> bool:
    """Return whether the first line of a file is a trajectory header."""
    try:
        first = next(iter_lines(path), "")
        return '"format":"costgym.trajectories/' in first and bool(parse_header(first, path))
    except DataError:
        return False


def replayed(path: str | Path, data: str | None = None) -> Iterator[ReplayedEpisode]:
    """Replay the episodes of a file or folder one at a time, and check each against its recorded digests and rewards; raises
    DataError if a file cannot be read, or the replay of an episode differs from its record."""
    for file in trajectory_files(path):
        header, episodes = read_trajectories(file)
        if problems := check_header(header, data):
            raise DataError(file, problems[0])
        env = header.make(data)
        for number, recorded in enumerate(episodes, 2):
            yield _play(header, env, recorded, file, number)
        env.close()


def replay_at(path: Path, offset: int, header: Header, env: gym.Env[Any, Any]) -> ReplayedEpisode:
    """Replay the episode whose line starts at a byte offset of a file."""
    with open_plain(path, follow=False) as store:
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
        raise DataError(path, "replay differs from the record; run `costgym verify` for the details", f"line {number}")
    return played


def replay_recorded(header: Header, env: gym.Env[Any, Any], recorded: Trajectory) -> ReplayedEpisode:
    """Replay an episode from its task, seed and actions, without comparing it with its record."""
    steps = list(replay_steps(env, recorded))
    world = base_env(env)
    world.give_up()
    return ReplayedEpisode(header, recorded, env, steps, world.account(), world.succeeded)


def readable(text: str) -> str:
    """Replace lone surrogates and NUL in a text by U+FFFD, so that every format can store it."""
    if text.isascii():
        return text.replace("\0", "\ufffd")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")

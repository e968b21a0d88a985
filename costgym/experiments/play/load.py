"""Read the results of a folder: of a leaderboard run, or of recorded trajectories, whose figures are derived by replay."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from costgym.envs.base import base_env
from costgym.envs.registration import class_of
from costgym.experiments.play.episodes import AgentInfo, result_of
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.trajectories.format import first_line, parse_header, parse_trajectory
from costgym.experiments.play.trajectories.verify import Checker
from costgym.simulators.errors import DataError
from costgym.simulators.files import iter_lines, read_json

EPISODES, RUN, TRAJECTORIES = "episodes.jsonl", "run.json", "trajectories.jsonl"


class Played(NamedTuple):
    """Episodes that were played under the same conditions, which are arguments of `Results`."""

    episodes: list[EpisodeResult]
    conditions: dict[str, Any]


def load_episodes(folder: str | Path) -> list[Played]:
    """Read the episodes of a folder that `leaderboard`, `rank`, `collect` or `serve --record` wrote, or of a trajectory file.

    Raises DataError where the folder holds neither, a line is not a valid record, or an episode does not replay.
    """
    path = Path(folder)
    if path.is_file():
        return _replayed(path)
    if (path / RUN).is_file() and (path / EPISODES).is_file():
        return _of_a_run(path)
    if (path / TRAJECTORIES).is_file():
        return _replayed(path / TRAJECTORIES)
    raise DataError(path, f"expected a folder with {RUN} and {EPISODES}, or with {TRAJECTORIES}")


def _of_a_run(folder: Path) -> list[Played]:
    """The run's own episodes, each track under its conditions."""
    config = read_json(folder / RUN)
    tracks = config.get("tracks") if isinstance(config, Mapping) else None
    if not isinstance(tracks, list) or not tracks or not all(isinstance(track, Mapping) for track in tracks):
        raise DataError(folder / RUN, "is not the configuration of a run: expected a list of tracks")
    by_env: dict[str, list[EpisodeResult]] = {}
    for number, line in enumerate(iter_lines(folder / EPISODES), 1):
        try:
            result = EpisodeResult.from_json(line)
        except DataError as error:
            raise DataError(folder / EPISODES, str(error), f"line {number}") from error
        by_env.setdefault(result.env, []).append(result)
    groups = []
    for env, episodes in by_env.items():
        track = next((track for track in tracks if track.get("env") == env), tracks[0])
        conditions = {
            "split": str(track.get("split") or ""),
            "grading": str(config.get("grading") or "strict"),
            "currency": _currency(track),
            "seed": config.get("seed", 0),
            "seeds": int(track.get("seeds") or 1),
        }
        groups.append(Played(episodes, conditions))
    return groups


def _currency(track: Mapping[str, Any]) -> str:
    scenario = track.get("scenario")
    if not isinstance(scenario, Mapping):
        return ""
    return str(class_of(str(track.get("env"))).world_class(scenario).summary().get("currency") or "")


def _replayed(path: Path) -> list[Played]:
    """The episodes of a trajectory file, each replayed."""
    first, lines = first_line(path)
    header = parse_header(first, path)
    checker = Checker(header)
    world = base_env(checker.env)

    def results() -> Iterator[EpisodeResult]:
        for number, line in enumerate(lines, 2):
            recorded = parse_trajectory(line, path, number)
            problem, _ = checker.check(recorded, line)
            if problem:
                raise DataError(path, problem, f"line {number}")
            who = AgentInfo(recorded.agent, recorded.model)
            yield result_of(world, who, header.env, recorded.episode, crash=recorded.crash, replies=recorded.replies)

    currency = str(world.world_spec().summary().get("currency") or "")
    return [Played(list(results()), {"split": world.split, "grading": world.grading, "currency": currency})]

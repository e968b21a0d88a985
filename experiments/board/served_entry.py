"""Record what clients play as the run of an agent on a leaderboard, which is ranked, packed and added like any other."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path
from typing import Any, Self

import gymnasium as gym

from ...envs.base import base_env
from ...simulators.errors import ConfigError, DataError
from ..play.files import LineFile, finish_change, iter_lines, make_folder, sole_writer, write_atomically
from ..play.rollout import AgentInfo, instance_of, result_of
from ..play.trajectories.format import Header
from ..play.trajectories.record import trajectory_of
from ..serve.limits import Refused
from ..serve.recorder import Assignment, Tape
from .board import PageMaker, check_owner, publish, summarise_run
from .run_config import SERVED, RunConfig, read_run_config
from .run_log import ATTEMPTS, EpisodeOutput, RunLog
from .tracks import track_of

ABANDONED = "the client left this episode before its end"


def read_attempts(folder: Path) -> list[int]:
    """The episodes that were handed out, each once."""
    path = folder / ATTEMPTS
    try:
        return list(dict.fromkeys(map(int, iter_lines(path)))) if path.exists() else []
    except ValueError as error:
        raise DataError(path, f"expected the number of an episode on each line ({error})") from error


def entry_config(board: Path, env_id: str, agent: str, budget: Mapping[str, float] | None = None) -> RunConfig:
    """The configuration of an agent's run under one condition of a leaderboard.

    Args:
        budget: limits of the condition; may be left out where the track has one condition.

    Raises:
        ConfigError: the folder holds no run, or the environment's track has no such condition.
    """
    config = read_run_config(board)
    track = config.track(track_of(env_id))
    fitting = [each for each in track.conditions if budget is None or each.budget == budget]
    if len(fitting) != 1:
        known = "; ".join(
            dict.fromkeys(",".join(f"{name}={limit:g}" for name, limit in c.budget.items()) for c in track.conditions)
        )
        raise ConfigError("--budget", f"expected one of the leaderboard's: {known}")
    own = track.model_copy(update={"agents": (agent,), "conditions": tuple(fitting)})
    without: dict[str, Any] = {"model": SERVED, "search": {}, "btp": {}, "weights": {}, "experience": None}
    return config.model_copy(update={"tracks": (own,), **without})


class EntryRecorder:
    """Hands out the episodes of a run and records them; once all have ended, the run is a leaderboard of its own.

    Which episode is handed out is written down before its first observation. One that a client leaves before its end is a
    failure once the next server on the same folder starts, so that nobody can begin an episode twice.

    Raises:
        ConfigError: the folder belongs to another run, or another process writes to it.
    """

    def __init__(self, folder: Path, config: RunConfig, env_id: str, pages: PageMaker | None = None) -> None:
        self.folder, self.config, self._env_id, self._pages = folder, config, env_id, pages
        (self._row,) = config.rows()
        env = self.make_env()
        self._world, self._header = base_env(env), Header.of(env, env_id)
        self._held = ExitStack()
        make_folder(folder, "--record")
        check_owner(config.to_json(), folder)
        self._held.enter_context(sole_writer(folder))
        finish_change(folder)
        write_atomically(folder / "run.json", config.to_json())
        self._log = self._held.enter_context(RunLog(folder, config))
        for index in read_attempts(folder):
            if (*self._row.key, index) not in self._log.found:
                self._add_failure(index)
        self._attempts = self._held.enter_context(closing(LineFile(folder / ATTEMPTS)))
        self._left: Iterator[int] = iter([i for i in range(config.episodes) if (*self._row.key, i) not in self._log.found])

    def make_env(self) -> gym.Env[Any, Any]:
        """An environment under the run's condition."""
        return self._row.track.make_env(self._env_id, self._row.condition)

    @property
    def missing(self) -> int:
        """The number of episodes that have not ended yet."""
        return self.config.episodes - len(self._log.found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def assign(self) -> Assignment:
        """Hand out the next episode; raises Refused where none is left."""
        index = next(self._left, None)
        if index is None:
            raise Refused(f"all {self.config.episodes} episodes of this run have been handed out", "CAPACITY_REACHED", 409)
        self._attempts.append(str(index))
        return Assignment(index, instance_of(self._world, index, self.config.seed, self._row.track.seeds))

    def add(self, env: gym.Env[Any, Any], tape: Tape, truncated: bool) -> None:
        """Record the episode that has just ended in an environment."""
        assert tape.assigned is not None
        agent, index = AgentInfo(self._row.agent, ""), tape.assigned.index
        trajectory = tape.trajectory(env, agent.name, index, truncated)
        result = result_of(base_env(env), agent, self._env_id, index, self._row.condition.settings)
        try:
            self._log.add(EpisodeOutput(result, self._header.to_json(), trajectory.sealed_json(self._header)))
        except DataError:
            self._left = chain((index,), self._left)  # somebody has to play it again
            raise

    def _add_failure(self, index: int) -> None:
        """Record an episode that was handed out and never ended."""
        number, seed, options = instance_of(self._world, index, self.config.seed, self._row.track.seeds)
        tape = Tape(self._world.reset(seed=seed, options={"task": number, **options})[0])
        about = self._row.agent, "", index, options, tape.actions, tape.rewards, tape.digests, False, ABANDONED
        trajectory, _ = trajectory_of(self._world, *about)
        agent, settings = AgentInfo(self._row.agent, ""), self._row.condition.settings
        result = result_of(self._world, agent, self._env_id, index, settings, crash=ABANDONED)
        self._log.add(EpisodeOutput(result, self._header.to_json(), trajectory.sealed_json(self._header)))

    def close(self) -> None:
        """Write table and page if all episodes have ended, and free the folder."""
        try:
            if not self.missing:
                publish(self.folder, summarise_run(self.config, self._log.finish()), pages=self._pages)
        finally:
            self._held.close()

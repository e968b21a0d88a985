"""A run of a leaderboard whose episodes clients of a server play: it is an ordinary run of one row."""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from costgym.agents.registry import CLIENT
from costgym.envs.base import base_env
from costgym.experiments.board.board import PageMaker, check_owner, publish, summarise_run
from costgym.experiments.board.run_config import RowConfig, RunConfig
from costgym.experiments.board.run_log import EpisodeOutput, RunLog
from costgym.experiments.play.episodes import AgentInfo, instance_of, result_of
from costgym.experiments.play.trajectories.format import Header
from costgym.experiments.play.trajectories.record import Tape, trajectory_of
from costgym.experiments.serve.limits import Refused
from costgym.experiments.serve.sessions import Env, Scheduled
from costgym.simulators.errors import ConfigError
from costgym.simulators.files import finish_change, make_folder, sole_writer, write_atomically


class RunRecorder(ExitStack):
    """Hands out a run's episodes in their order and keeps what is played; writes the leaderboard once it has all of them.

    An episode that a client leaves is a failure. One that was under way when the server was killed is handed out again. Raises
    ConfigError if the folder belongs to another run, or the configuration has more than one row.
    """

    def __init__(self, folder: Path, config: RunConfig, pages: PageMaker | None = None) -> None:
        super().__init__()
        rows = list(config.rows())
        if len(rows) != 1 or not rows[0].agent.startswith(CLIENT):
            raise ConfigError("--budget", f"a server plays one row of a leaderboard, and these options make {len(rows)}")
        if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{0,59}", rows[0].agent.removeprefix(CLIENT)):
            raise ConfigError("--record-as", "expected up to 60 letters, digits, dots, dashes and underscores")
        self.row: RowConfig = rows[0]
        self._folder, self._config, self._pages = folder, config, pages
        make_folder(folder, "--record")
        check_owner(config.to_json(), folder)
        self.enter_context(sole_writer(folder))
        finish_change(folder)
        write_atomically(folder / "run.json", config.to_json())
        self._log = self.enter_context(RunLog(folder, config))
        played = {key[3] for key in self._log.recorded}
        self._waiting = [index for index in range(self.row.condition.episodes) if index not in played]
        self._publish()

    @property
    def is_complete(self) -> bool:
        """Whether all episodes were played."""
        return len(self._log.recorded) == self.row.condition.episodes

    def make_env(self) -> Env:
        """An environment in which the run is played."""
        return self.row.track.make_env(self.row.track.env, self.row.condition)

    def begin(self, env: Env, chosen: Sequence[str] = ()) -> Scheduled:
        """Take the next episode that nobody plays; raises Refused if there is none, or a client would choose."""
        if chosen:
            raise Refused(f"{chosen[0]}: this server hands out its episodes in order; reset without it")
        if not self._waiting:
            raise Refused(f"all {self.row.condition.episodes} episodes are played or under way", "CAPACITY_REACHED", 409)
        index = self._waiting.pop(0)
        return Scheduled(index, instance_of(base_env(env), index, self._config.seed, self.row.track.seeds))

    def add(self, env: Env, tape: Tape, crash: str = "", scheduled: Scheduled | None = None) -> None:
        """Keep the episode that has just ended in an environment, or was left in it."""
        assert scheduled is not None
        world, index, env_id = base_env(env), scheduled.episode, self.row.track.env
        header = Header.of(env, env_id)
        trajectory, _ = trajectory_of(world, self.row.agent, "", index, scheduled.instance.options, tape, crash)
        settings = self.row.condition.settings
        result = result_of(world, AgentInfo(self.row.agent, ""), env_id, index, settings, crash=trajectory.crash)
        self._log.add(EpisodeOutput(result, header.to_json(), trajectory.sealed_json(header)))
        self._publish()

    def _publish(self) -> None:
        if self.is_complete:
            publish(self._folder, summarise_run(self._config, self._log.finish()), pages=self._pages)

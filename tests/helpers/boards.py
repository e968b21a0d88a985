"""Leaderboard runs for tests: one played by agents whose names and messages are markup, one of any size that nobody played."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from costgym.agents.base import NUMERIC, TEXT, Agent
from costgym.envs.actions import encode_action
from costgym.experiments.board.board import publish, summarise_run
from costgym.experiments.board.conditions import row_key
from costgym.experiments.board.run_config import RunConfig, make_run_config
from costgym.experiments.board.run_log import EpisodeOutput, RunLog
from costgym.experiments.board.store.runs import Run, RunEntry, entry_id, run_id
from costgym.experiments.board.tracks import TRACKS, track_of
from costgym.experiments.pages.leaderboard_page import pages_of
from costgym.experiments.play.episodes import play_many
from costgym.experiments.play.metrics import summarise
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.trajectories.format import Header

HOSTILE = '</script><script>document.title="owned"</script><img src=x onerror=alert(1)>'
"""A name and a message that would run, if they were taken for markup anywhere."""


class Talker(Agent):
    """Says markup, calls two tools with markup, and finishes with it."""

    name = HOSTILE
    model = "<b>model</b>"
    env_id = TEXT

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._tools, self._turn = seat.tools, 0

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        self._turn += 1
        if self._turn == 1:
            return HOSTILE
        if self._turn <= 3:
            tool = self._tools[self._turn]
            return encode_action(tool.name, dict.fromkeys(tool.parameters["required"], HOSTILE))
        return encode_action("finish", {"answer": HOSTILE})


class Hasty(Agent):
    """Starts every call it may at once, so that they run side by side, then waits for them."""

    name = "hasty"
    env_id = NUMERIC

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._asked: set[int] = set()

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        mask = info["action_mask"]
        wait, finish = len(mask) - 2, len(mask) - 1
        fresh = [i for i in range(wait) if mask[i] and i not in self._asked]
        if fresh and len(self._asked) < 4:
            self._asked.add(fresh[0])
            return fresh[0]
        return wait if mask[wait] else finish


def played(folder: Path, agents: tuple[Agent, ...] = (Talker(), Hasty()), episodes: int = 6) -> Path:
    """A run's folder, as `leaderboard.run` leaves it, of agents of any name."""
    config = make_run_config("btp", "storm", agents=["random"], budgets="price=10,40", episodes=episodes, world=0)
    return record_run(config, folder, agents)


def record_run(config: RunConfig, folder: Path, agents: Sequence[Agent]) -> Path:
    """Play agents under a run's conditions into its folder; their names need not be known."""
    (world,) = config.tracks
    tracks = []
    for name in dict.fromkeys(track_of(agent.env_id) for agent in agents):
        of_track = [agent for agent in agents if track_of(agent.env_id) == name]
        about = {"name": name, "env": of_track[0].env_id, "agents": tuple(agent.name for agent in of_track)}
        tracks.append(world.model_copy(update=about))
    config = config.model_copy(update={"tracks": tuple(sorted(tracks, key=lambda track: list(TRACKS).index(track.name)))})
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(config.to_json())
    with RunLog(folder, config) as log:
        for agent in agents:
            track = config.track(track_of(agent.env_id))
            for condition in track.conditions:
                env = track.make_env(agent.env_id, condition)
                header = Header.of(env, agent.env_id)
                played = play_many(env, agent, agent.env_id, range(condition.episodes), config.seed, condition.settings)
                for result, trajectory in played:
                    assert trajectory is not None
                    log.add(EpisodeOutput(result, header.to_json(), trajectory.sealed_json(header)))
    publish(folder, summarise_run(config, log.finish()), pages=pages_of)
    return folder


def imagined(agents: int = 4, episodes: int = 50, name: str = "agent {}") -> Run:
    """A run that nobody played: agent i passes more often and pays more than agent i - 1."""
    rows, results = [], []
    for limit in (10.0, 20.0):
        for index in range(agents):
            agent_results = [_imagined_result(name.format(index), index, limit, episode) for episode in range(episodes)]
            rows.append(summarise(agent_results, resamples=50))
            results += [(entry_id(rows[-1]["agent"], row_key(rows[-1], {})), result) for result in agent_results]
    document = {
        "format": "costgym.leaderboard/1", "suite": "btp", "seed": 0, "version": "0.1.0", "grading": "strict", "rows": rows,
        "scenario": {"name": "imagined", "description": "Nobody played.", "currency": "credits", "split": "test"},
    }  # fmt: skip
    manifest = {"suite": "btp", "agents": agents, "episodes": episodes}
    entries = tuple(RunEntry(entry_id(row["agent"], row_key(row, {})), row, "", False) for row in rows)
    return Run(run_id(manifest), manifest, document, None, entries, lambda: iter(results))


def _imagined_result(agent: str, index: int, limit: float, episode: int) -> EpisodeResult:
    passes, price = (episode * 7919) % 100 < 20 * (index + 1), (episode * 31 % 17) * (index + 1) / 4
    return EpisodeResult(
        agent=agent, model="simulated" if index else None, env=TEXT, task=f"test-{episode:05}", episode=episode, seed=0,
        budget={"price": limit}, strict=passes, judged=passes, share=float(passes), price=price, seconds=episode % 13 / 2,
        tokens=900 * index, calls=3, attempts=4, errors={"tool": episode % 2},
        errors_by_status={"timeout": 1} if episode % 2 else {}, exceeded="price" if price > limit else None, quality=0.4,
        regret=0.1,
    )  # fmt: skip


def record(episode: int = 0, **changes: Any) -> EpisodeResult:
    """The result of an episode that passed, with what a test changes of it."""
    base = EpisodeResult(
        agent="react", model="simulated", env="costgym/MarketplaceChat-v0", task=f"G1-{episode}", episode=episode, seed=0,
        budget={"price": 20}, strict=True, judged=True, share=1.0, price=5, seconds=2.5, tokens=100, calls=2, attempts=4,
        errors={"tool": 1}, errors_by_status={"timeout": 1}, optimum_price=4.0, quality=0.75, regret=0.05,
    )  # fmt: skip
    return replace(base, **changes)

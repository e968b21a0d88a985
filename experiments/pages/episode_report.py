"""Recorded episodes to look at: found by name, replayed, and rendered as text, image or page."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ...envs.base import BaseEnv, base_env
from ...envs.rendering.chart import Chart
from ...envs.rendering.draw import chart_drawing, chart_page, chart_picture
from ...simulators.errors import CostGymError, DataError, UnknownName
from ..play.files import iter_lines
from ..play.trajectories.format import Header, Trajectory, check_header, parse_header, parse_trajectory
from ..play.trajectories.record import digest
from ..play.trajectories.replay import replay_recorded, trajectory_files
from .episode_text import episode_text
from .opencatp_images import images_section

IMAGE_WIDTH = 1200  # pixels
DIFFERS = "This record does not replay as it stands: what follows is the replay. See `costgym verify`."
MAX_SUGGESTIONS = 200


@dataclass(frozen=True, slots=True)
class EpisodeReport:
    """A recorded episode as text and chart; with the environment that stands in it, an OpenCATP episode has images."""

    name: str
    text: str
    chart: Chart  # its calls in time
    world: BaseEnv[Any, Any] | None = None

    def png(self) -> NDArray[np.uint8]:
        """RGB, shape (height, width, 3)."""
        return chart_picture(self.chart, IMAGE_WIDTH)

    def svg(self) -> str:
        """The chart as an SVG document."""
        return chart_drawing(self.chart, self.name, IMAGE_WIDTH)

    def html(self) -> str:
        """Return chart, images and text as a page that needs nothing else."""
        images = "" if self.world is None else images_section(self.world)
        return chart_page(self.chart, self.name, self.text, IMAGE_WIDTH, images)


def report_recorded(path: Path, key: str | None = None, data: str | None = None) -> EpisodeReport:
    """A recorded episode, replayed: a trajectory file holds neither observations nor what calls answered.

    The key is the episode's index or its task's id; where a folder has several files, after the name of one, or of its agent
    and parts of its condition, and a slash: `react+btp.price=10/3`, `oracle/nonsequential/3`. By default it is the first.
    Raises UnknownName if there is no such episode, DataError if nothing is recorded there, or it cannot be played again.
    """
    place = Path(path)
    name, _, wanted = (key or "").rpartition("/")
    files = trajectory_files(place)
    names = {unquote(file.stem): file for file in files}
    if len(names) < len(files):  # several folders, as submissions have
        names = {unquote(str(file.relative_to(place).with_suffix(""))): file for file in files}
    chosen = [file for stem, file in names.items() if name in ("", stem) or _fits(name, stem, file)]
    if not chosen:
        raise UnknownName("recording", name, names)
    file, number, recorded = _find(chosen, wanted, key or "")
    header = parse_header(next(iter_lines(file)), file)
    problems = check_header(header)
    if problems:
        raise DataError(file, problems[0], "line 1")
    env = header.make(data)
    try:
        played = replay_recorded(header, env, recorded)
    except (CostGymError, gym.error.Error, TypeError, ValueError, OverflowError) as error:
        raise DataError(file, f"cannot be replayed ({error}); run `costgym verify`", f"line {number}") from error
    honest = [digest(step.observation) for step in played.steps] == recorded.observations
    honest = honest and [step.reward for step in played.steps[1:]] == recorded.rewards
    title = f"{file}, line {number}: episode {recorded.episode} of {recorded.agent}"
    if recorded.model not in ("", "none", recorded.agent):
        title += f" ({recorded.model})"
    warning = "" if honest else f"\n{DIFFERS}\n"
    world = base_env(env)
    text = f"{title}\n{warning}\n{episode_text(world, played.steps, _settings(header), recorded.crash)}"
    return EpisodeReport(title, text, world.chart(), world)


def _fits(name: str, stem: str, file: Path) -> bool:
    """Return whether a name is that of the file's agent, followed by values that the condition in the file's name holds."""
    agent = _agent(file)
    if name != agent and not name.startswith(f"{agent}/"):
        return False
    values = re.split(r"[=,]", stem.removeprefix(f"{agent}."))
    return all(part in values for part in name.removeprefix(agent).split("/") if part)


def _agent(file: Path) -> str:
    """Return the name of the agent that plays in a file."""
    lines = iter_lines(file)
    next(lines, None)
    first = next(lines, None)
    return "" if first is None else parse_trajectory(first, file, 2).agent


def _find(files: list[Path], wanted: str, key: str) -> tuple[Path, int, Trajectory]:
    """Find the first episode with an index or a task's id; its file and line."""
    tasks: dict[str, None] = {}
    last = -1
    for file in files:
        for place, line in enumerate(iter_lines(file), 1):
            if place == 1:
                continue
            recorded = parse_trajectory(line, file, place)
            if wanted in ("", str(recorded.episode), recorded.task):
                return file, place, recorded
            last = max(last, recorded.episode)
            if len(tasks) < MAX_SUGGESTIONS:
                tasks[recorded.task] = None
    if wanted.isdecimal() and last >= 0:
        raise UnknownName("episode", key or wanted, [f"0 to {last}, or a task's id"])
    raise UnknownName("episode", key or wanted, tasks)


def _settings(header: Header) -> str:
    given = {name: value for name, value in header.settings.items() if name != "budget"}
    return f"{header.env}, scenario {header.scenario['name']}; " + ", ".join(f"{name} {value}" for name, value in given.items())

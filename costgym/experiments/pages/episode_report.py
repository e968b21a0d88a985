"""Recorded episodes to look at: found by name, replayed, and rendered as text, image or page."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from costgym.envs.base import BaseEnv, base_env
from costgym.envs.opencatp.images import SceneImages
from costgym.envs.rendering.chart import Bar, Chart, number
from costgym.envs.rendering.choice import Picture
from costgym.envs.rendering.draw import chart_drawing, chart_picture
from costgym.envs.rendering.story import TEXT_WIDTH, short, wrapped
from costgym.envs.why import why
from costgym.experiments.pages.episode_detail import replayed
from costgym.experiments.pages.episodes import episode_page
from costgym.experiments.play.trajectories.format import Header, Trajectory, check_header, parse_header, parse_trajectory
from costgym.experiments.play.trajectories.record import digest
from costgym.experiments.play.trajectories.replay import Step, replay_recorded, replay_steps, trajectory_files
from costgym.simulators.calls import Call
from costgym.simulators.errors import ConfigError, CostGymError, DataError, UnknownName
from costgym.simulators.files import iter_lines
from costgym.simulators.world.episode import Episode

TIMELINE_COLUMNS = 44
MARKS = {
    "ok": "=", "looks ok, is not": "~", "failed": "x", "agent's error": "!", "refused": "|", "cut off": "/",
    "running": "-", "cold start": "c", "queueing": ".",
}  # fmt: skip
"""What a bar is drawn with, by `chart.COLOURS`."""


def episode_text(world: BaseEnv[Any, Any], steps: Sequence[Step], settings: str = "", crash: str = "") -> str:
    """Tell an episode in words, ended or not, from the world where the last step left it and the steps from the reset on."""
    story, account = world.describe_episode(steps), world.account()
    head = "\n".join([story.task[0], *([wrapped("  ", settings)] if settings else []), *story.task[1:]])
    reason = f"Why: {why(world, steps[-1].truncated, crash)}" if account.over else ""
    reason = textwrap.fill(reason, TEXT_WIDTH, subsequent_indent="     ", break_on_hyphens=False)
    requests = requests_text(account)
    calls, timeline = calls_text(account), timeline_text(world.chart())
    parts = [head, calls, timeline, story.actions, requests, ledger_text(account), story.grade, reason]
    return "\n\n".join(part for part in parts if part) + "\n"


def calls_text(episode: Episode) -> str:
    """Tell the calls as a table, each with those that ran at its side."""
    if not episode.calls:
        return "Calls: none"
    names = [call.tool or "(unknown tool)" for call in episode.calls]
    besides = [
        ", ".join(str(other + 1) for other in range(len(names)) if other != index and _overlap(call, episode.calls[other]))
        for index, call in enumerate(episode.calls)
    ]
    rows = []
    for name, call, beside in zip(names, episode.calls, besides, strict=True):
        ended = call.finished_s >= 0
        times = [call.submitted_s, call.started_s, call.finished_s]
        status = (call.status.label if ended else "running") + (" (cold)" if call.cold else "")
        price = number(call.price) if call.k and ended else "-"
        rows.append([*(f"{at:.2f}" if at >= 0 else "-" for at in times), name, status, price, beside])
    titles = ["asked", "began", "ended", "tool", "status", "price", "beside"]
    # a column that says nothing is left out: calls that begin when they are asked for, and none side by side
    shown = [column for column in range(7) if not (column == 1 and all(row[1] in (row[0], "-") for row in rows))]
    shown = [column for column in shown if column != 6 or any(besides)]
    widths = [max(len(titles[column]), *(len(row[column]) for row in rows)) for column in range(7)]
    widths[3] = max(16, min(widths[3], TEXT_WIDTH - 5 - sum(widths[column] + 2 for column in shown if column != 3)))
    lines = ["Calls, times in seconds"]
    for number_of_call, row in [("#", titles), *((str(index), row) for index, row in enumerate(rows, 1))]:
        cells = [
            f"{short(row[column], widths[3]):<{widths[column]}}" if column in (3, 4, 6) else f"{row[column]:>{widths[column]}}"
            for column in shown
        ]
        lines.append(f"  {number_of_call:>3} {'  '.join(cells)}".rstrip())
    return "\n".join(lines)


def _overlap(one: Call, other: Call) -> bool:
    """Return whether both ran (or queued) at one time."""
    spans = [(call.submitted_s, call.finished_s if call.finished_s >= 0 else float("inf")) for call in (one, other)]
    return one.k > 0 and other.k > 0 and max(spans[0][0], spans[1][0]) < min(spans[0][1], spans[1][1])


def timeline_text(chart: Chart) -> str:
    """Draw the chart in characters, to scale; a line for each track, so calls side by side stand one above the other."""
    if not chart.rows:
        return ""
    width = min(TEXT_WIDTH - TIMELINE_COLUMNS - 6, max(len(row.name) for row in chart.rows))
    lines = [f"Timeline, 0 to {number(chart.span_s)} s"]
    used: dict[str, str] = {}
    for row in chart.rows:
        for track in range(row.track_count):
            segments = [part for bar in row.bars if bar.track == track for part in _parts(bar)]
            used |= {meaning: MARKS[meaning] for meaning, _, _ in segments}
            cells = _cells([(MARKS[meaning], begin, end) for meaning, begin, end in segments], chart.span_s)
            lines.append(f"  {short(row.name, width) if track == 0 else '':<{width}}  [{cells}]")
    if chart.outages:
        cells = _cells([("#", begin, end) for begin, end in chart.outages], chart.span_s)
        lines.append(f"  {'(outage of all)':<{width}}  [{cells}]")
    for marker in chart.markers:
        at = min(TIMELINE_COLUMNS - 1, int(TIMELINE_COLUMNS * marker.at_s / chart.span_s))
        fits = at + 2 + len(marker.text) <= TIMELINE_COLUMNS
        mark = f"{' ' * at}^ {marker.text}" if fits else f"{marker.text} ^".rjust(at + 1)
        lines.append(f"  {'':<{width}}   {mark}")
    lines.append("  " + "   ".join(f"{mark} {meaning}" for meaning, mark in used.items()))
    return "\n".join(lines)


def _cells(spans: Iterable[tuple[str, float, float]], whole_s: float) -> str:
    """Draw spans of time to scale, each at least one character wide, so that no call vanishes; later ones lie on top."""
    cells = [" "] * TIMELINE_COLUMNS
    for mark, begin, end in spans:
        first = min(TIMELINE_COLUMNS - 1, int(TIMELINE_COLUMNS * begin / whole_s))
        last = min(TIMELINE_COLUMNS, max(first + 1, round(TIMELINE_COLUMNS * end / whole_s)))
        cells[first:last] = mark * (last - first)
    return "".join(cells)


def _parts(bar: Bar) -> Iterator[tuple[str, float, float]]:
    if bar.started_s > bar.asked_s:
        yield "queueing", bar.asked_s, bar.started_s
    if bar.ready_s > bar.started_s:
        yield "cold start", bar.started_s, bar.ready_s
    yield bar.meaning, bar.ready_s, bar.end_s


def requests_text(episode: Episode) -> str:
    """Tell the requests to the model as a table: the parts of each prompt that are as in the one before, and the tokens that
    were read from the cache of prompts, written to it and paid as new; empty where nothing is cached."""
    prices, ledger = episode.world.tokens, episode.ledger
    if prices is None or prices.cache is None or not ledger.usages:
        return ""
    lines = [
        "Requests to the model, tokens of the prompt by what they cost",
        f"  {'#':>3} {'parts':>5} {'as before':>9} {'prompt':>9} {'read':>9} {'written':>9} {'new':>9} "
        f"{'reply':>7} {'price':>8}",
    ]
    prompts = [entry[1].prompt for entry in episode.log if entry[0] == "think"]
    for index, (usage, prompt) in enumerate(zip(ledger.usages, prompts, strict=True), 1):
        same, parts = ("-", "-") if prompt is None else (str(prompt.same), str(prompt.same + len(prompt.parts)))
        new = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        counts = (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens, new)
        columns = " ".join(f"{tokens:>9,}" for tokens in counts)
        lines.append(f"  {index:>3} {parts:>5} {same:>9} {columns} {usage.output_tokens:>7,} {number(prices.price(usage)):>8}")
    tokens = ledger.tokens_by_class()
    share = 100 * tokens["cached_tokens"] / max(1, tokens["input_tokens"])
    lines.append(f"  {share:.0f} % of the prompt tokens were read from the cache")
    return "\n".join(lines)


def ledger_text(episode: Episode) -> str:
    """Tell what was spent on what, in all, and what is left."""
    totals: dict[str, list[float]] = {}
    for charge in episode.ledger:
        row = totals.setdefault(charge.what, [0, 0.0, 0])
        row[0] += 1
        row[1] += charge.price
        row[2] += charge.tokens
    width = min(44, max([5, *map(len, totals)]))
    lines = ["Ledger", f"  {'what':<{width}} {'charges':>8} {'price':>10} {'tokens':>10}"]
    for what, (count, price, tokens) in totals.items():
        lines.append(f"  {short(what, width):<{width}} {count:>8.0f} {number(price):>10} {tokens:>10,.0f}")
    ledger = episode.ledger
    lines.append(f"  {'total':<{width}} {len(ledger.charges):>8} {number(ledger.price):>10} {ledger.tokens:>10,}")
    left = [
        f"{name} {number(value)} of {number(dict(episode.budget.items())[name])}" for name, value in episode.remaining().items()
    ]
    lines.append(f"  left: {', '.join(left)}" if left else "  no budget")
    return "\n".join(lines)


IMAGE_WIDTH = 1200  # pixels
DIFFERS = "This record does not replay as it stands: what follows is the replay. See `costgym verify`."
MAX_SUGGESTIONS = 200


@dataclass(frozen=True, slots=True)
class EpisodeReport:
    """A recorded episode as text and chart, with the environment that can replay it."""

    name: str
    text: str
    chart: Chart  # its calls in time
    env: gym.Env[Any, Any]
    recorded: Trajectory

    def png(self) -> NDArray[np.uint8]:
        """RGB, shape (height, width, 3)."""
        return chart_picture(self.chart, IMAGE_WIDTH, pictures=self._pictures())

    def svg(self) -> str:
        """The chart as an SVG document."""
        return chart_drawing(self.chart, self.name, IMAGE_WIDTH, pictures=self._pictures())

    def _pictures(self) -> Sequence[Picture]:
        """What tools read and made, where they are OpenCATP's."""
        for _ in replay_steps(self.env, self.recorded):
            pass
        return base_env(self.env).pictures()

    def html(self) -> str:
        """Return the viewer of a leaderboard's episodes with this one in it, as a page that needs nothing else."""
        images, world = SceneImages(), base_env(self.env)
        detail = replayed(self.env, self.recorded, images)
        about = self.recorded.agent, world.budget.as_dict(), currency_of(world)
        return episode_page(self.name, *about, detail, images.encoded())


def currency_of(world: BaseEnv[Any, Any]) -> str:
    """The currency of an environment's prices; "" where its world was made from an object that no document can hold."""
    try:
        return str(world.world_spec().summary().get("currency") or "")
    except ConfigError:
        return ""


def report_recorded(path: Path, key: str | None = None, data: str | None = None) -> EpisodeReport:
    """A recorded episode, replayed: a trajectory file holds neither observations nor what calls answered. The key is the
    episode's index or its task's id; where a folder has several files, after the name of one, or of its agent and parts of its
    condition, and a slash: `react+btp.price=10/3`, `oracle/nonsequential/3`. By default it is the first. Raises UnknownName if
    there is no such episode, DataError if nothing is recorded there, or it cannot be played again."""
    folder = Path(path)
    name, _, wanted = (key or "").rpartition("/")
    files = trajectory_files(folder)
    names = {unquote(file.stem): file for file in files}
    if len(names) < len(files):  # several folders, as submissions have
        names = {unquote(str(file.relative_to(folder).with_suffix(""))): file for file in files}
    chosen = [file for stem, file in names.items() if name in ("", stem) or _fits(name, stem, file)]
    if not chosen:
        raise UnknownName("recording", name, names)
    file, number, recorded = _find(chosen, wanted, key or "")
    header = parse_header(next(iter_lines(file)), file)
    if problems := check_header(header):
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
    return EpisodeReport(title, text, world.chart(), env, recorded)


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
        for line_number, line in enumerate(iter_lines(file), 1):
            if line_number == 1:
                continue
            recorded = parse_trajectory(line, file, line_number)
            if wanted in ("", str(recorded.episode), recorded.task):
                return file, line_number, recorded
            last = max(last, recorded.episode)
            if len(tasks) < MAX_SUGGESTIONS:
                tasks[recorded.task] = None
    if wanted.isdecimal() and last >= 0:
        raise UnknownName("episode", key or wanted, [f"0 to {last}, or a task's id"])
    raise UnknownName("episode", key or wanted, tasks)


def _settings(header: Header) -> str:
    settings = {name: value for name, value in header.settings.items() if name != "budget"}
    return f"{header.env}, scenario {header.scenario['name']}; " + ", ".join(
        f"{name} {value}" for name, value in settings.items()
    )

"""An episode in words: the task, its calls in time and side by side, what was said, what it cost and how it was graded.

Recorded episodes are replayed for it: a trajectory file holds neither observations nor arguments' answers.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ..envs.base import ToolEnv
from ..envs.chart import Bar, Chart, Row, chart_of, number, say, verdict
from ..envs.render import chart_drawing, chart_page, chart_picture
from ..simulators.calls import Call
from ..simulators.episode import Episode
from ..simulators.errors import CostGymError, DataError, UnknownName
from .files import iter_lines
from .replays import replay_recorded, trajectory_files
from .trajectories import Header, Step, Trajectory, digest, parse_header, parse_trajectory
from .verify import check_header

WIDTH, PIXELS = 118, 1200
"""Of the text, in characters, and of pictures."""
LONGEST = 600
"""Characters of a message that are shown."""
COLUMNS = 60
PLANS = "plans.jsonl"
DIFFERS = "This record does not replay as it stands: what follows is the replay. See `costgym verify`."
MARKS = {
    "ok": "=", "looks ok, is not": "~", "failed": "x", "agent's error": "!", "refused": "|", "cut off": "/",
    "running": "-", "cold start": "c", "queueing": ".",
}  # fmt: skip
"""What a bar is drawn with, by `chart.COLOURS`."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An episode to be looked at.

    Attributes:
        name: what it is.
        text: all of it in words.
        chart: its calls in time.
    """

    name: str
    text: str
    chart: Chart

    def png(self) -> NDArray[np.uint8]:
        """RGB, shape (height, width, 3)."""
        return chart_picture(self.chart, PIXELS)

    def svg(self) -> str:
        return chart_drawing(self.chart, self.name, PIXELS)

    def html(self) -> str:
        return chart_page(self.chart, self.name, self.text, PIXELS)


# -- finding --------------------------------------------------------------------------------------------------------------


def show_recorded(path: Path, key: str | None = None, data: str | None = None) -> Shown:
    """A recorded episode.

    Args:
        path: a trajectory file; or the folder of a collection, a leaderboard run or a submission.
        key: the episode's index or its task's id; where there are several files, after the name of one or of its agent and a
            slash: ``react+btp.price=10/3``. By default the first.
        data: folder of a ToolBench scenario, where it lies elsewhere now.

    Raises:
        UnknownName: there is no such episode; says what there is.
        DataError: nothing is recorded there, or the record cannot be played again.
    """
    place = Path(path)
    plans = place if place.name == PLANS else place / PLANS
    if plans.is_file():
        return _show_plan(plans, key)
    name, _, wanted = (key or "").rpartition("/")
    files = trajectory_files(place)
    names = {unquote(file.stem): file for file in files}
    if len(names) < len(files):  # several folders, as submissions have
        names = {unquote(str(file.relative_to(place).with_suffix(""))): file for file in files}
    chosen = [file for stem, file in names.items() if name in ("", stem, _agent(file))]
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
    warning = (
        "" if honest else "\nThis record does not replay as it stands: what follows is the replay. See `costgym verify`.\n"
    )
    text = f"{title}\n{warning}\n{episode_story(env, played.steps, _settings(header))}"
    return Shown(title, text, chart_of(played.episode))


def _agent(file: Path) -> str:
    """Who plays in a file."""
    lines = iter_lines(file)
    next(lines, None)
    first = next(lines, None)
    return "" if first is None else parse_trajectory(first, file, 2).agent


def _find(files: list[Path], wanted: str, key: str) -> tuple[Path, int, Trajectory]:
    """The first episode that goes by an index or a task's id; its file and line."""
    seen: list[str] = []
    for file in files:
        for place, line in enumerate(iter_lines(file), 1):
            if place == 1:
                continue
            recorded = parse_trajectory(line, file, place)
            if wanted in ("", str(recorded.episode), recorded.task):
                return file, place, recorded
            if len(seen) < 200:
                seen += [str(recorded.episode), recorded.task]
    raise UnknownName("episode", key or wanted, seen)


def _settings(header: Header) -> str:
    given = {name: value for name, value in header.settings.items() if name != "budget"}
    return f"{header.env}, scenario {header.scenario['name']}; " + ", ".join(f"{name} {value}" for name, value in given.items())


# -- the story ------------------------------------------------------------------------------------------------------------


def episode_story(env: gym.Env[Any, Any], steps: list[Step] | tuple[Step, ...] | Any, settings: str = "") -> str:
    """An episode in words, ended or not.

    Args:
        env: the environment, standing where the last step left it.
        steps: what was done and seen, the reset first.
        settings: a line about the environment.
    """
    world = env.unwrapped
    assert isinstance(world, ToolEnv)
    episode = world._playing()
    parts = [_task(episode, settings), _calls(episode), _timeline(chart_of(episode))]
    parts.append(_messages(steps) if isinstance(steps[0].observation, str) else _deeds(episode))
    parts += [_ledger(episode), _grade(episode)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _task(episode: Episode, settings: str) -> str:
    lines = [_wrapped(f"Task {episode.task.id}: ", episode.task.query)]
    lines += [_wrapped("  ", settings)] if settings else []
    lines.append(f"  seed {episode.seed}, budget: {episode.budget}, {len(episode.slots)} tools on offer")
    for index, need in enumerate(episode.needs):
        after = f", after {', '.join(str(i + 1) for i in need.after)}" if need.after else ""
        mark = "+" if episode.known[index] else "-"
        lines.append(_wrapped(f"  {mark} {index + 1}. ", f"{need.wish or need.capability or 'an answer'}{after}: {need.fact}"))
    if episode.needs:
        lines.append("  (+ learnt from a call, - not)")
    return "\n".join(lines)


def _calls(episode: Episode) -> str:
    if not episode.calls:
        return "Calls: none"
    names = [call.tool or "(unknown tool)" for call in episode.calls]
    width = min(44, max(map(len, names)))
    lines = [
        "Calls, times in seconds",
        f"  {'#':>3} {'asked':>8} {'began':>8} {'ended':>8}  {'tool':<{width}}  {'status':<18} {'price':>8}  side by side with",
    ]
    for index, (name, call) in enumerate(zip(names, episode.calls, strict=True)):
        beside = [str(other + 1) for other in range(len(names)) if other != index and _overlap(call, episode.calls[other])]
        status = call.status.label if call.finished_s >= 0 else "running"
        price = number(call.price) if call.k and call.finished_s >= 0 else "-"
        began = f"{call.started_s:8.2f}" if call.started_s >= 0 else f"{'-':>8}"
        ended = f"{call.finished_s:8.2f}" if call.finished_s >= 0 else f"{'-':>8}"
        lines.append(
            f"  {index + 1:>3} {call.submitted_s:8.2f} {began} {ended}  {_short(name, width):<{width}}  "
            f"{status + (' (cold)' if call.cold else ''):<18} {price:>8}  {', '.join(beside)}".rstrip()
        )
    return "\n".join(lines)


def _overlap(one: Call, other: Call) -> bool:
    """Both ran (or queued) at one time."""
    spans = [(call.submitted_s, call.finished_s if call.finished_s >= 0 else float("inf")) for call in (one, other)]
    return one.k > 0 and other.k > 0 and max(spans[0][0], spans[1][0]) < min(spans[0][1], spans[1][1])


def _timeline(chart: Chart) -> str:
    """The chart in characters, to scale; a line for each lane, so calls side by side stand one above the other."""
    if not chart.rows:
        return ""
    width = min(40, max(len(row.name) for row in chart.rows))
    lines = [f"Timeline, 0 to {number(chart.span_s)} s"]
    used: dict[str, str] = {}
    for row in chart.rows:
        for lane in range(row.lanes):
            cells = [" "] * COLUMNS
            for bar in (bar for bar in row.bars if bar.lane == lane):
                for meaning, begin, end in _parts(bar):
                    used[meaning] = MARKS[meaning]
                    first = min(COLUMNS - 1, int(COLUMNS * begin / chart.span_s))
                    last = max(first + 1, round(COLUMNS * end / chart.span_s))
                    cells[first:last] = [MARKS[meaning]] * (min(last, COLUMNS) - first)
            lines.append(f"  {_short(row.name, width) if lane == 0 else '':<{width}}  [{''.join(cells)}]")
    if chart.outages:
        cells = [" "] * COLUMNS
        for begin, end in chart.outages:
            first = min(COLUMNS - 1, int(COLUMNS * begin / chart.span_s))
            last = min(COLUMNS, max(first + 1, round(COLUMNS * end / chart.span_s)))
            cells[first:last] = "#" * (last - first)
        lines.append(f"  {'(outage of all)':<{width}}  [{''.join(cells)}]")
    for marker in chart.markers:
        at = min(COLUMNS - 1, int(COLUMNS * marker.at_s / chart.span_s))
        lines.append(f"  {'':<{width}}   {' ' * at}^ {marker.text}")
    lines.append("  " + "   ".join(f"{mark} {meaning}" for meaning, mark in used.items()))
    return "\n".join(lines)


def _parts(bar: Bar) -> Iterator[tuple[str, float, float]]:
    if bar.started_s > bar.asked_s:
        yield "queueing", bar.asked_s, bar.started_s
    if bar.ready_s > bar.started_s:
        yield "cold start", bar.started_s, bar.ready_s
    yield bar.meaning, bar.ready_s, bar.end_s


def _messages(steps: Any) -> str:
    lines = ["Messages"]
    for index, step in enumerate(steps):
        if step.action is not None:
            lines.append(_wrapped(f"  {index:>3} agent: ", str(step.action)))
        status = f" [{step.info['statuses']}]" if step.info.get("statuses") else ""
        said = "user" if step.action is None else f"{step.info['at_s']:.2f} s{status}"
        lines.append(_wrapped(f"      {said}: ", str(step.observation) or "(nothing)"))
    return "\n".join(lines)


def _deeds(episode: Episode) -> str:
    """What a numeric view's agent did, from the world's own log."""
    lines, submitted = ["Actions"], 0
    for entry in episode.log:
        match entry:
            case ("submit", slot, arguments, *_):
                submitted += 1
                name = episode.slots[slot].name if slot >= 0 else "(unknown tool)"
                lines.append(f"  call {submitted}: {name}{'' if arguments is None else ' ' + json.dumps(dict(arguments))}")
            case ("wait",):
                lines.append("  wait for what comes next")
            case ("settle", index):
                lines.append(f"  wait for call {index + 1}")
            case ("advance", seconds):
                lines.append(f"  let {number(seconds)} s pass")
            case ("think", usage):
                lines.append(f"  think: {usage.input_tokens} tokens in, {usage.output_tokens} out")
            case ("finish", answer, gave_up):
                lines.append("  give up" if gave_up else f"  finish{'' if answer is None else f': {answer}'}")
    told = []
    for line, same in groupby(lines):
        count = len(list(same))
        told.append(_short(line, WIDTH) + (f" ({count} times)" if count > 1 else ""))
    return "\n".join(told)


def _ledger(episode: Episode) -> str:
    totals: dict[str, list[float]] = {}
    for charge in episode.ledger:
        row = totals.setdefault(charge.what, [0, 0.0, 0])
        row[0] += 1
        row[1] += charge.price
        row[2] += charge.tokens
    width = min(44, max([5, *map(len, totals)]))
    lines = ["Ledger", f"  {'what':<{width}} {'charges':>8} {'price':>10} {'tokens':>10}"]
    for what, (count, price, tokens) in totals.items():
        lines.append(f"  {_short(what, width):<{width}} {count:>8.0f} {number(price):>10} {tokens:>10,.0f}")
    ledger = episode.ledger
    lines.append(f"  {'total':<{width}} {len(ledger.charges):>8} {number(ledger.price):>10} {ledger.tokens:>10,}")
    left = [
        f"{name} {number(value)} of {number(dict(episode.budget.items())[name])}" for name, value in episode.remaining().items()
    ]
    lines.append(f"  left: {', '.join(left)}" if left else "  no budget")
    return "\n".join(lines)


def _grade(episode: Episode) -> str:
    news = []
    for notice in episode.world.notices(episode.number):
        if notice.at_s <= episode.now_s:
            names = [episode.slots[slot].name for slot in notice.slots]
            whom = ", ".join(names) if len(names) <= 4 else f"{len(names)} of the {len(episode.slots)} tools"
            news.append(_wrapped(f"  {notice.at_s:.2f} s: ", f"{say(notice)}: {whom}" if names else say(notice)))
    events = "\n".join(["Events", *news]) + "\n\n" if news else ""
    return f"{events}Grade at {episode.now_s:.2f} s\n  {verdict(episode)}"


def _wrapped(lead: str, text: str) -> str:
    """Text under its lead, cut where it is long."""
    text = " ".join(text.split())
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]} ... ({len(text):,} characters)"
    return textwrap.fill(text, WIDTH, initial_indent=lead, subsequent_indent=" " * min(12, len(lead)), break_on_hyphens=False)


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


# -- plans ----------------------------------------------------------------------------------------------------------------


def _show_plan(path: Path, key: str | None) -> Shown:
    """A plan of an OpenCATP leaderboard; keys are ``agent/index``, and ``agent/tasks/alpha/index`` where that is not enough."""
    agent, _, wanted = (key or "").rpartition("/")
    agent, *narrower = agent.split("/")
    known: list[str] = []
    for place, line in enumerate(iter_lines(path), 1):
        try:
            record = json.loads(line)
            told = [record["tasks"], f"{record['alpha']:g}"]
            same = agent in ("", record["agent"]) and set(narrower) <= set(told)
            if same and wanted in ("", str(record["episode"])):
                return _plan_shown(path, place, record)
            known.append(f"{record['agent']}/{'/'.join(told)}/{record['episode']}")
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(path, f"is no plan of a leaderboard ({error!r})", f"line {place}") from None
    raise UnknownName("plan", key or "", known)


def _plan_shown(path: Path, line: int, record: Mapping[str, Any]) -> Shown:
    from ..simulators.opencatp.profile import load_profile
    from ..simulators.opencatp.tasks import task as find_task
    from ..simulators.plan import Plan

    task, level = find_task(record["task"]), record["level"]
    name = f"{path}, line {line}: plan {record['episode']} of {record['agent']}"
    head = [
        name,
        "",
        _wrapped(f"Task {record['task']} ({record['tasks']}): ", task.description),
        f"  sample {record['sample']}, size level {level}, alpha {record['alpha']:g}",
        "",
    ]
    figures = (
        f"score {record['score']:.3f}, price {record['price']:.5f} USD, {record['seconds']:.2f} s "
        f"({record['one_by_one_s']:.2f} s one by one), {record['tokens']:,} tokens of the planner; "
        f"Quality of Plan {record['quality']:.3f} (the best for this sample: {record['best']:.3f})"
    )
    rows: list[Row] = []
    if record["plan"] is None:
        head.append(f"No plan: {record['problem']}")
    else:
        run = path.parent / "run.json"
        profile = load_profile(json.loads(run.read_text(encoding="utf-8"))["profile"] if run.is_file() else "v100")
        head += ["Plan", f"  {'tool':<22} {'begins s':>9} {'ends s':>9} {'price':>10}  after"]
        ends: dict[str, float] = {}
        for step in Plan.from_list(record["plan"]).steps:
            begin = max([0.0, *(ends.get(dependency, 0.0) for dependency in step.deps)])
            end = ends[step.tool] = begin + profile.seconds(step.tool, level)
            price, after = profile.price(step.tool, level), ", ".join(step.deps)
            head.append(f"  {step.tool:<22} {begin:>9.3f} {end:>9.3f} {price:>10.5f}  {after}")
            hint = f"{step.tool}: {begin:.3f} to {end:.3f} s, price {number(price)}, after {after}"
            rows.append(Row(step.tool, 1, (Bar(0, begin, begin, begin, end, "ok", number(price), hint),)))
    chart = Chart(
        title=task.description,
        subtitle=f"task {record['task']}, sample {record['sample']}, plan of {record['agent']}",
        verdict=figures,
        span_s=1.02 * max((bar.end_s for row in rows for bar in row.bars), default=1.0),
        rows=tuple(rows),
        markers=(),
        outages=(),
        meters=(),
        meanings=(),
    )
    parts = ["\n".join(head), _timeline(chart), _wrapped("Grade: ", figures)]
    return Shown(name, "\n\n".join(part for part in parts if part) + "\n", chart)

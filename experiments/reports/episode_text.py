"""An episode in words: the task, its calls in time and side by side, what was said, what it cost and how it was graded.

Recorded episodes are replayed for it: a trajectory file holds neither observations nor arguments' answers.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import gymnasium as gym

from ...envs.base import ToolEnv
from ...envs.opencatp.base import OpenCATPBase
from ...envs.recording import recordable
from ...envs.rendering.chart import chart_of, number, say, verdict
from ...simulators.episode import Episode
from ...simulators.errors import CostGymError, DataError, UnknownName
from ..files import iter_lines
from ..trajectories.format import Header, Step, Trajectory, digest, parse_header, parse_trajectory
from ..trajectories.replay import replay_recorded, trajectory_files
from ..trajectories.verify import check_header
from .episode_report import WIDTH, EpisodeReport, calls_text, ledger_text, short, timeline_text, wrapped
from .plan_text import plan_story, show_plan

PLANS = "plans.jsonl"
DIFFERS = "This record does not replay as it stands: what follows is the replay. See `costgym verify`."


# -- finding --------------------------------------------------------------------------------------------------------------


def show_recorded(path: Path, key: str | None = None, data: str | None = None) -> EpisodeReport:
    """A recorded episode.

    Args:
        path: a trajectory file; or the folder of a collection, a leaderboard run or a submission.
        key: the episode's index or its task's id; where there are several files, after the name of one or of its agent and a
            slash: ``react+btp.price=10/3``. By default the first.
        data: folder of a ToolBench scenario, or file of an outcome table, where it lies elsewhere now.

    Raises:
        UnknownName: there is no such episode; says what there is.
        DataError: nothing is recorded there, or the record cannot be played again.
    """
    place = Path(path)
    plans = place if place.name == PLANS else place / PLANS
    if plans.is_file():
        return show_plan(plans, key)
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
    warning = "" if honest else f"\n{DIFFERS}\n"
    text = f"{title}\n{warning}\n{episode_story(env, played.steps, _settings(header))}"
    return EpisodeReport(title, text, recordable(env).chart())


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
    if isinstance(world, OpenCATPBase):
        return plan_story(world, steps, settings)
    assert isinstance(world, ToolEnv)
    episode = world._playing()
    parts = [_task(episode, settings), calls_text(episode), timeline_text(chart_of(episode))]
    parts.append(_messages(steps) if isinstance(steps[0].observation, str) else _deeds(episode))
    parts += [ledger_text(episode), _grade(episode)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _task(episode: Episode, settings: str) -> str:
    lines = [wrapped(f"Task {episode.task.id}: ", episode.task.query)]
    lines += [wrapped("  ", settings)] if settings else []
    lines.append(f"  seed {episode.seed}, budget: {episode.budget}, {len(episode.candidates)} tools on offer")
    for index, need in enumerate(episode.needs):
        after = f", after {', '.join(str(i + 1) for i in need.after)}" if need.after else ""
        mark = "+" if episode.known[index] else "-"
        lines.append(wrapped(f"  {mark} {index + 1}. ", f"{need.wish or need.capability or 'an answer'}{after}: {need.fact}"))
    if episode.needs:
        lines.append("  (+ learnt from a call, - not)")
    return "\n".join(lines)


def _messages(steps: Any) -> str:
    lines = ["Messages"]
    for index, step in enumerate(steps):
        if step.action is not None:
            lines.append(wrapped(f"  {index:>3} agent: ", str(step.action)))
        status = f" [{step.info['statuses']}]" if step.info.get("statuses") else ""
        said = "user" if step.action is None else f"{step.info['at_s']:.2f} s{status}"
        lines.append(wrapped(f"      {said}: ", str(step.observation) or "(nothing)"))
    return "\n".join(lines)


def _deeds(episode: Episode) -> str:
    """What a numeric view's agent did, from the world's own log."""
    lines, submitted = ["Actions"], 0
    for entry in episode.log:
        match entry:
            case ("submit", slot, arguments, *_):
                submitted += 1
                name = episode.candidates[slot].name if slot >= 0 else "(unknown tool)"
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
        told.append(short(line, WIDTH) + (f" ({count} times)" if count > 1 else ""))
    return "\n".join(told)


def _grade(episode: Episode) -> str:
    news = []
    for notice in episode.world.notices(episode.number):
        if notice.at_s <= episode.now_s:
            names = [episode.candidates[slot].name for slot in notice.slots]
            whom = ", ".join(names) if len(names) <= 4 else f"{len(names)} of the {len(episode.candidates)} tools"
            news.append(wrapped(f"  {notice.at_s:.2f} s: ", f"{say(notice)}: {whom}" if names else say(notice)))
    events = "\n".join(["Events", *news]) + "\n\n" if news else ""
    return f"{events}Grade at {episode.now_s:.2f} s\n  {verdict(episode)}"

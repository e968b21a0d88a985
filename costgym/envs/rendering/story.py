"""Describe episodes in text: the task, the agent's actions and the grade."""

import json
import textwrap
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from costgym.envs.actions import spoken
from costgym.envs.rendering.chart import number, say, verdict
from costgym.simulators.world.episode import Episode

TEXT_WIDTH = 80  # characters of a line
MAX_MESSAGE_CHARS = 600


class EpisodeStory(NamedTuple):
    """The parts of an episode's description that differ between worlds."""

    task: list[str]  # lines about the task; the first names it
    actions: str  # lines about the agent's actions
    grade: str  # lines about the result


def wrapped(lead: str, text: str) -> str:
    """Wrap a text after a lead, and cut it if it is long."""
    text = " ".join(text.split())
    if len(text) > MAX_MESSAGE_CHARS:
        text = f"{text[:MAX_MESSAGE_CHARS]} ... ({len(text):,} characters)"
    indent = " " * min(12, len(lead))
    return textwrap.fill(text, TEXT_WIDTH, initial_indent=lead, subsequent_indent=indent, break_on_hyphens=False)


def short(text: str, width: int) -> str:
    """Cut a text to a width in characters."""
    return text if len(text) <= width else f"{text[: width - 3]}..."


def tool_story(episode: Episode, steps: Sequence[Any]) -> EpisodeStory:
    """Describe an episode of a tool world, running or ended."""
    lines = [wrapped(f"Task {episode.task.id}: ", episode.task.query)]
    lines.append(f"  seed {episode.seed}, budget: {episode.budget}, {len(episode.candidates)} tools on offer")
    for index, need in enumerate(episode.needs):
        after = f", after {', '.join(str(i + 1) for i in need.after)}" if need.after else ""
        mark = "+" if episode.known[index] else "-"
        lines.append(wrapped(f"  {mark} {index + 1}. ", f"{need.wish or need.capability or 'an answer'}{after}: {need.fact}"))
    if episode.needs:
        lines.append("  (+ learnt from a call, - not)")
    actions = _messages(steps) if isinstance(steps[0].observation, str) else _logged_actions(episode)
    return EpisodeStory(lines, actions, _grade(episode))


def _messages(steps: Sequence[Any]) -> str:
    lines = ["Messages"]
    for index, step in enumerate(steps):
        if step.action is not None:
            lines.append(wrapped(f"  {index:>3} agent: ", spoken(str(step.action))))
        status = f" [{step.info['statuses']}]" if step.info.get("statuses") else ""
        speaker = "user" if step.action is None else f"{step.info['at_s']:.2f} s{status}"
        lines.append(wrapped(f"      {speaker}: ", str(step.observation) or "(nothing)"))
    return "\n".join(lines)


def _logged_actions(episode: Episode) -> str:
    """Describe the actions of an agent in a numeric environment, from the world's log."""
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
    shortened = []
    for line, same in groupby(lines):
        count = len(list(same))
        shortened.append(short(line, TEXT_WIDTH) + (f" ({count} times)" if count > 1 else ""))
    return "\n".join(shortened)


def _grade(episode: Episode) -> str:
    news = []
    for event in episode.world.notices(episode.number):
        if event.at_s <= episode.now_s:
            names = [episode.candidates[slot].name for slot in event.slots]
            whom = ", ".join(names) if len(names) <= 4 else f"{len(names)} of the {len(episode.candidates)} tools"
            news.append(wrapped(f"  {event.at_s:.2f} s: ", f"{say(event)}: {whom}" if names else say(event)))
    events = "\n".join(["Events", *news]) + "\n\n" if news else ""
    return f"{events}Grade at {episode.now_s:.2f} s\n{wrapped('  ', verdict(episode))}"

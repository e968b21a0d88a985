"""What the site's scripts read: every episode in short, and the detail of each, replayed, in pieces loaded on demand.

A page opened from disk may load scripts but not fetch files, so each piece is a script that hands JSON to `costgym.put`.
Agents' texts go into it as JSON strings only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import gymnasium as gym

from ....envs.opencatp.base import OpenCATPBase
from ....envs.recording import recordable
from ....envs.rendering.chart import _events, _outages, meaning_of, plan_verdict
from ....simulators.episode_view import EpisodeView
from ....simulators.errors import CostGymError, DataError
from ....simulators.world import Episode
from ...files import write_atomically
from ...leaderboard.store.runs import outcome
from ...metrics import EpisodeResult
from ...trajectories.format import Header, Trajectory, digest, final_of, read_trajectories, replay_steps
from ...trajectories.replay import readable
from ...trajectories.verify import _BROKEN, check_header

PIECE = 20
"""Episodes whose detail one file holds."""
LONGEST_TEXT = 6000
"""Characters of a message that are shown; the rest is counted."""
_DIGITS = 9


def put(path: Path, key: str, value: object) -> None:
    """Write a piece of data as a script."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    write_atomically(path, f"costgym.put({json.dumps(key)},{text});\n")


def columns(results: Sequence[EpisodeResult], grading: str) -> dict[str, Any]:
    """Every episode of an entry in short, a list a figure; episodes are in order of their index."""
    return {
        "episode": [r.episode for r in results],
        "task": [readable(r.task) for r in results],
        "outcome": [outcome(r, grading) for r in results],
        "strict": [int(r.strict and r.within_budget) for r in results],
        "judge": [int(r.judged and r.within_budget) for r in results],
        "share": [_short(r.share) for r in results],
        "price": [_short(r.price) for r in results],
        "seconds": [_short(r.seconds) for r in results],
        "tokens": [r.tokens for r in results],
        "calls": [r.attempts for r in results],
        "errors": [sum(r.errors.values()) for r in results],
        "regret": [None if r.regret is None else _short(r.regret) for r in results],
    }


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def details(path: Path, data: str | None = None, most: int | None = None) -> Iterator[dict[str, Any]]:
    """The episodes of a trajectory file in detail, replayed one by one.

    Where replay is not possible (a world whose data is elsewhere, a file of another version) the record itself is shown,
    without messages. Where it does not agree with the record, the detail says so and shows the record.

    Args:
        path: the file.
        data: folder of a ToolBench scenario, where it lies elsewhere now.
        most: only so many, the first.

    Raises:
        DataError: the file cannot be read.
    """
    header, episodes = read_trajectories(path)
    env, problem = _env(header, data)
    try:
        for recorded in islice(episodes, most):
            try:
                yield _replayed(env, recorded) if env is not None else _recorded(recorded, problem)
            except (CostGymError, gym.error.Error, *_BROKEN) as error:
                yield _recorded(recorded, f"It cannot be replayed: {error}")
    finally:
        if env is not None:
            env.close()


def _env(header: Header, data: str | None) -> tuple[gym.Env[Any, Any] | None, str]:
    problems = check_header(header)
    if problems:
        return None, f"It was not replayed: {problems[0]}"
    try:
        return header.make(data), ""
    except (DataError, OSError) as error:
        return None, f"It was not replayed: {error}"


def _recorded(recorded: Trajectory, note: str) -> dict[str, Any]:
    """What the file says, as it stands there."""
    return {
        **_about(recorded),
        "query": "",
        "replayed": False,
        "note": _cut(note),
        "calls": [
            [
                _cut(call[0]),
                str(call[1]),
                _meaning(str(call[1])),
                *map(_time, (call[2], call[3], call[3], call[4])),
                call[6],
                "",
                "",
            ]
            for call in recorded.calls
        ],
        "charges": _charges(recorded.charges),
        "steps": [[None, _cut(action), "", []] for action in recorded.actions],
        "events": [],
        "outages": [],
    }


def _meaning(label: str) -> str:
    return "ok" if label == "ok" else "cut off" if label == "cancelled" else "failed"


def _about(recorded: Trajectory) -> dict[str, Any]:
    final = recorded.final
    names = ("strict", "judged", "share", "exceeded", "price", "seconds", "tokens", "calls", "attempts")
    return {
        "episode": recorded.episode,
        "task": readable(recorded.task),
        "seed": recorded.seed,
        "truncated": recorded.truncated,
        "final": {name: final.get(name) for name in names},
    }


def _replayed(env: gym.Env[Any, Any], recorded: Trajectory) -> dict[str, Any]:
    world = recordable(env)
    steps: list[list[Any]] = []
    rewards, digests, truncated = [], [], False
    asked, ended = 0, set[int]()
    for step in replay_steps(env, recorded):
        episode = world.account()
        digests.append(digest(step.observation))
        new = list(range(asked, len(episode.calls)))
        asked = len(episode.calls)
        if step.action is not None:
            rewards.append(step.reward)
            truncated = step.truncated
        seen = _cut(step.observation) if isinstance(step.observation, str) else ""
        over = [i for i, c in enumerate(episode.calls) if 0 <= c.finished_s <= episode.now_s and i not in ended]
        ended.update(over)
        said = world.action_name(step.action) if isinstance(world, OpenCATPBase) and steps else ""
        steps.append([_time(episode.now_s), said or _action(step.action, episode, new), seen, over])
    if truncated:
        world.give_up()
    episode = world.account()
    calls = [[c.tool, c.status.label, c.submitted_s, c.started_s, c.finished_s, c.cold, c.price] for c in episode.calls]
    same = (rewards, digests, calls) == (recorded.rewards, recorded.observations, recorded.calls)
    if not same or list(map(list, episode.ledger)) != recorded.charges or final_of(world, episode) != recorded.final:
        return _recorded(recorded, "Replay does not agree with this record: it was edited, or another version played it.")
    if isinstance(world, OpenCATPBase):
        said = plan_verdict(episode, world.quality)
        if not world.in_time:  # the plan was written before anything ran
            steps = [steps[0], plan_step("\n".join(_written(recorded.actions, world)), episode)]
        return {**_about(recorded), **account_detail(episode), "steps": steps, "verdict": said}
    return {**_about(recorded), **account_detail(episode), "steps": steps}


def _written(actions: Sequence[int], world: OpenCATPBase) -> Iterator[str]:
    """A plan's tokens, a tool a line."""
    line: list[str] = []
    for name in map(world.action_name, actions):
        line.append(name)
        if name == "EOD":
            yield " ".join(line)
            line = []
    if line:
        yield " ".join(line)


def plan_step(said: str, episode: EpisodeView, heard: str = "") -> list[Any]:
    """The step in which a whole plan was given, and all its calls ended."""
    return [0.0, _cut(said), _cut(heard), list(range(len(episode.calls)))]


def account_detail(episode: EpisodeView) -> dict[str, Any]:
    """What a detail holds of an episode that replay agreed with, but for its steps."""
    world = episode if isinstance(episode, Episode) else None
    return {
        "query": _cut(episode.task.query or ""),
        "replayed": True,
        "note": "",
        "calls": [
            [
                _cut(call.tool or "(unknown tool)"),
                call.status.label,
                meaning_of(call),
                *map(_time, (call.submitted_s, call.started_s, call.ready_s, call.finished_s)),
                _short(call.price),
                _cut(call.reason),
                "" if call.arguments is None else _cut(json.dumps(call.arguments, ensure_ascii=False, default=str)),
            ]
            for call in episode.calls
        ],
        "charges": _charges(episode.ledger),
        "events": [] if world is None else [[_time(at_s), text] for at_s, text in _events(world, world.now_s)],
        "outages": []
        if world is None
        else [[_time(begin), _time(min(end, world.now_s))] for begin, end in _outages(world) if begin < world.now_s],
    }


def _charges(charges: Any) -> list[list[Any]]:
    return [[_time(at_s), _cut(what), _short(price), tokens, calls] for at_s, what, price, tokens, calls in charges]


def _action(action: Any, episode: EpisodeView, new: Sequence[int]) -> str:
    """What the agent did: the text it wrote, or what its number meant."""
    if action is None:
        return ""
    if isinstance(action, str):
        return _spoken(action)
    if new:
        return "call " + ", ".join(_cut(episode.calls[index].tool or "an unknown tool") for index in new)
    return "finish" if episode.over else "wait"


def _spoken(text: str) -> str:
    """A tool call as a reader takes it in: name and arguments, without the count of tokens; any other text as it is."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return _cut(text)
    if not isinstance(document, Mapping) or not isinstance(document.get("name"), str):
        return _cut(text)
    arguments = document.get("arguments")
    shown = json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, Mapping) and arguments else ""
    return _cut(f"{document['name']} {shown}".strip())


def _time(value: Any) -> float:
    return round(float(value), 6)


def _cut(value: object) -> str:
    text = readable(str(value))
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}\n… and {len(text) - LONGEST_TEXT:,} characters more"

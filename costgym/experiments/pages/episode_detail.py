"""An episode in detail, as the viewer shows it: replayed from its record, with what was said, called, charged and made."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import gymnasium as gym

from costgym.envs.base import BaseEnv, base_env
from costgym.envs.opencatp.images import SceneImages
from costgym.envs.rendering.chart import meaning_of
from costgym.envs.why import why
from costgym.experiments.play.trajectories.format import Header, Trajectory, check_header, read_trajectories
from costgym.experiments.play.trajectories.record import digest, final_of
from costgym.experiments.play.trajectories.replay import readable, replay_steps
from costgym.experiments.play.trajectories.verify import BROKEN
from costgym.simulators.errors import CostGymError, DataError

MAX_TEXT_CHARS = 6000  # of a message that are shown; the rest is counted
_DIGITS = 9

Detail = dict[str, Any]


def details(
    path: Path, data: str | None = None, most: int | None = None, images: SceneImages | None = None
) -> Iterator[Detail]:
    """Yield the first episodes of a trajectory file in detail, replayed one by one, with OpenCATP's images if there is a place
    for them. Where replay is not possible (a world whose data is elsewhere, a file of another version) the record itself is
    shown, without messages. Where it does not agree with the record, the detail says so and shows the record."""
    header, episodes = read_trajectories(path)
    env, problem = _env(header, data)
    try:
        for recorded in islice(episodes, most):
            try:
                yield replayed(env, recorded, images) if env is not None else _recorded(recorded, problem)
            except (CostGymError, gym.error.Error, *BROKEN) as error:
                yield _recorded(recorded, f"It cannot be replayed: {error}")
    finally:
        if env is not None:
            env.close()


def _env(header: Header, data: str | None) -> tuple[gym.Env[Any, Any] | None, str]:
    if problems := check_header(header, data):
        return None, f"It was not replayed: {problems[0]}"
    try:
        return header.make(data), ""
    except (DataError, OSError) as error:
        return None, f"It was not replayed: {error}"


def _recorded(recorded: Trajectory, note: str) -> Detail:
    """Return an episode as the file has it."""
    return {
        **_about(recorded),
        "query": "",
        "replayed": False,
        "note": _cut(note),
        "calls": [
            [
                _cut(call[0]),
                str(call[1]),
                {"ok": "ok", "cancelled": "cut off"}.get(str(call[1]), "failed"),
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


def _about(recorded: Trajectory) -> Detail:
    final = recorded.final
    names = ("strict", "judged", "share", "exceeded", "price", "seconds", "tokens", "calls", "attempts")
    return {
        "episode": recorded.episode,
        "task": readable(recorded.task),
        "seed": recorded.seed,
        "truncated": recorded.truncated,
        "final": {name: final.get(name) for name in names},
    }


def replayed(env: gym.Env[Any, Any], recorded: Trajectory, images: SceneImages | None) -> Detail:
    """Replay an episode; where replay does not agree with the record, return the record and say so."""
    world = base_env(env)
    steps: list[list[Any]] = []
    rewards, digests, truncated = [], [], False
    ended = set[int]()
    for step in replay_steps(env, recorded):
        spoken = "" if step.action is None else world.action_text(step.action)
        digests.append(digest(step.observation))
        if step.action is not None:
            rewards.append(step.reward)
            truncated = step.truncated
        episode = world.account()
        over = [i for i, c in enumerate(episode.calls) if 0 <= c.finished_s <= episode.now_s and i not in ended]
        ended.update(over)
        seen = step.observation if isinstance(step.observation, str) else ""
        steps.append([_time(episode.now_s), _cut(spoken), _cut(seen), over])
    if truncated:
        world.give_up()
    episode = world.account()
    calls = [[c.tool, c.status.label, c.submitted_s, c.started_s, c.finished_s, c.cold, c.price] for c in episode.calls]
    same = (rewards, digests, calls) == (recorded.rewards, recorded.observations, recorded.calls)
    if not same or list(map(list, episode.ledger)) != recorded.charges or final_of(world, episode) != recorded.final:
        return _recorded(recorded, "Replay does not agree with this record: it was edited, or another version played it.")
    if not world.in_time and len(steps) > 2:  # the plan was written before anything ran: its tokens are one step
        written = " ".join(spoken for _, spoken, _, _ in steps[1:])
        steps = [steps[0], [0.0, _cut(written), "", list(range(len(episode.calls)))]]
    made = None if images is None else images.of(world)
    shown = {} if made is None else {"made": made._asdict()}
    return {**_about(recorded), **_detail(world), "steps": steps, "why": _cut(why(world, truncated, recorded.crash)), **shown}


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _detail(world: BaseEnv[Any, Any]) -> Detail:
    """Return the detail of an episode that replay agreed with, but for its steps."""
    episode, chart = world.account(), world.chart()
    return {
        "query": _cut(episode.task.query or ""),
        "replayed": True,
        "note": "",
        "verdict": chart.verdict,
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
        "events": [[_time(marker.at_s), marker.text] for marker in chart.markers if not marker.is_limit],
        "outages": [[_time(begin), _time(min(end, episode.now_s))] for begin, end in chart.outages if begin < episode.now_s],
    }


def _charges(charges: Any) -> list[list[Any]]:
    return [[_time(at_s), _cut(what), _short(price), tokens, calls] for at_s, what, price, tokens, calls in charges]


def _time(value: Any) -> float:
    return round(float(value), 6)


def _cut(value: object) -> str:
    text = readable(str(value))
    if len(text) <= MAX_TEXT_CHARS:
        return text
    return f"{text[:MAX_TEXT_CHARS]}\n… and {len(text) - MAX_TEXT_CHARS:,} characters more"

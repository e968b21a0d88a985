"""Plans over the OpenCATP tools in words: a recorded episode of either view, or a plan of a leaderboard."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from ...envs.opencatp.base import OpenCATPBase
from ...envs.rendering.chart import Bar, Chart, Row, number, plan_verdict
from ...simulators.errors import DataError, UnknownName
from ..files import iter_lines
from ..trajectories.format import Step
from .episode_report import EpisodeReport, calls_text, ledger_text, timeline_text, wrapped


def plan_story(world: OpenCATPBase, steps: Sequence[Step], settings: str = "") -> str:
    """An episode in words, ended or not.

    Args:
        world: the environment, standing where the last step left it.
        steps: what was done and seen, the reset first.
        settings: a line about the environment.
    """
    account, figures = world.account(), world.plan_figures()
    head = [wrapped(f"Task {account.task.id}: ", account.task.query)]
    head += [wrapped("  ", settings)] if settings else []
    given = f"  sample {figures['sample']}, size level {figures['size_level']}, seed {account.seed}, budget: {account.budget}"
    parts = ["\n".join([*head, given]), calls_text(account), timeline_text(world.chart()), _deeds(world, steps)]
    parts += [ledger_text(account), _grade(world)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _deeds(world: OpenCATPBase, steps: Sequence[Step]) -> str:
    """What was chosen, with the time at which it was; choices of one moment stand together."""
    chosen = []
    for before, step in pairwise(steps):
        chosen.append((before.info["execution_time_s"], world.action_name(step.action)))
    if not world.in_time:
        return wrapped("Tokens: ", " | ".join(name for _, name in chosen))
    lines = []
    for at_s, names in groupby(chosen, key=lambda pair: pair[0]):
        lines.append(wrapped(f"  {at_s:8.2f} s  ", ", ".join(name for _, name in names)))
    return "\n".join(["Actions", *lines])


def _grade(world: OpenCATPBase) -> str:
    account, plan = world.account(), world.plan()
    lines = [f"Grade at {account.now_s:.2f} s", f"  {plan_verdict(account, world.quality)}"]
    refused = [call.reason for call in account.calls if call.reason]
    if refused:
        lines.append(wrapped("  ", f"no valid plan: {refused[0]}"))
    elif account.over and not world.plan_figures()["plan_valid"]:
        lines.append("  no valid plan: it was cut off, or does not answer with all that is wanted")
    if plan is not None:
        lines.append(wrapped("  plan: ", "; ".join(f"{step.tool} after {', '.join(step.deps)}" for step in plan.steps)))
    return "\n".join(lines)


def show_plan(path: Path, key: str | None) -> EpisodeReport:
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


def _plan_shown(path: Path, line: int, record: Mapping[str, Any]) -> EpisodeReport:
    from ...simulators.opencatp.profile import load_profile
    from ...simulators.opencatp.tasks import task as find_task
    from ...simulators.plan import Plan

    task, level = find_task(record["task"]), record["level"]
    name = f"{path}, line {line}: plan {record['episode']} of {record['agent']}"
    head = [
        name,
        "",
        wrapped(f"Task {record['task']} ({record['tasks']}): ", task.description),
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
    parts = ["\n".join(head), timeline_text(chart), wrapped("Grade: ", figures)]
    return EpisodeReport(name, "\n\n".join(part for part in parts if part) + "\n", chart)

"""Render an episode as text: its task, its calls in time and side by side, what was said, what it cost, how it was graded."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...envs.base import BaseEnv
from ...envs.rendering.chart import Bar, Chart, number
from ...envs.rendering.story import TEXT_WIDTH, short, wrapped
from ...envs.rendering.why import why
from ...simulators.calls import Call
from ...simulators.episode import Episode
from ..play.trajectories.replay import Step

TIMELINE_COLUMNS = 60
MARKS = {
    "ok": "=", "looks ok, is not": "~", "failed": "x", "agent's error": "!", "refused": "|", "cut off": "/",
    "running": "-", "cold start": "c", "queueing": ".",
}  # fmt: skip
"""What a bar is drawn with, by `chart.COLOURS`."""


def episode_text(world: BaseEnv[Any, Any], steps: Sequence[Step], settings: str = "", crash: str = "") -> str:
    """Tell an episode in words, ended or not: the world where the last step left it, the steps from the reset on, and the
    exception of the agent's code that ended it."""
    told, account = world.describe_episode(steps), world.account()
    head = "\n".join([told.task[0], *([wrapped("  ", settings)] if settings else []), *told.task[1:]])
    reason = f"Why: {why(world, steps[-1].truncated, crash)}" if account.over else ""
    reason = textwrap.fill(reason, TEXT_WIDTH, subsequent_indent="     ", break_on_hyphens=False)
    parts = [head, calls_text(account), timeline_text(world.chart()), told.actions, ledger_text(account), told.grade, reason]
    return "\n\n".join(part for part in parts if part) + "\n"


def calls_text(episode: Episode) -> str:
    """Tell the calls as a table, each with those that ran at its side."""
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
            f"  {index + 1:>3} {call.submitted_s:8.2f} {began} {ended}  {short(name, width):<{width}}  "
            f"{status + (' (cold)' if call.cold else ''):<18} {price:>8}  {', '.join(beside)}".rstrip()
        )
    return "\n".join(lines)


def _overlap(one: Call, other: Call) -> bool:
    """Return whether both ran (or queued) at one time."""
    spans = [(call.submitted_s, call.finished_s if call.finished_s >= 0 else float("inf")) for call in (one, other)]
    return one.k > 0 and other.k > 0 and max(spans[0][0], spans[1][0]) < min(spans[0][1], spans[1][1])


def timeline_text(chart: Chart) -> str:
    """Draw the chart in characters, to scale; a line for each lane, so calls side by side stand one above the other."""
    if not chart.rows:
        return ""
    width = min(40, max(len(row.name) for row in chart.rows))
    lines = [f"Timeline, 0 to {number(chart.span_s)} s"]
    used: dict[str, str] = {}
    for row in chart.rows:
        for lane in range(row.lanes):
            own = [part for bar in row.bars if bar.lane == lane for part in _parts(bar)]
            used |= {meaning: MARKS[meaning] for meaning, _, _ in own}
            cells = _cells([(MARKS[meaning], begin, end) for meaning, begin, end in own], chart.span_s)
            lines.append(f"  {short(row.name, width) if lane == 0 else '':<{width}}  [{cells}]")
    if chart.outages:
        cells = _cells([("#", begin, end) for begin, end in chart.outages], chart.span_s)
        lines.append(f"  {'(outage of all)':<{width}}  [{cells}]")
    for marker in chart.markers:
        at = min(TIMELINE_COLUMNS - 1, int(TIMELINE_COLUMNS * marker.at_s / chart.span_s))
        lines.append(f"  {'':<{width}}   {' ' * at}^ {marker.text}")
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

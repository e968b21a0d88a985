"""Data of an episode's Gantt chart: rows, bars, ticks and markers. `draw` renders it as an image and as a page."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from costgym.simulators.calls import Call, WorldEvent
from costgym.simulators.status import LOOKS_OK, Origin, Status
from costgym.simulators.world.episode import Episode

COLOURS = {
    "ok": "#009E73",
    "looks ok, is not": "#E69F00",
    "failed": "#D55E00",
    "agent's error": "#CC79A7",
    "refused": "#7B3294",
    "cut off": "#8C8C8C",
    "running": "#56B4E9",
    "cold start": "#A6CEE3",
    "queueing": "#D9D9D9",
    "outage": "#FBE3DC",
}
"""Colour of each meaning of a bar, from Okabe and Ito's palette, which colour-blind people can tell apart."""


@dataclass(frozen=True, slots=True)
class Bar:
    """The bar of one call. It queues from `asked_s`, loads from `started_s` and runs from `ready_s` to `end_s` (seconds)."""

    track: int  # index of the track within its row; overlapping calls of one tool have different tracks
    asked_s: float
    started_s: float
    ready_s: float
    end_s: float
    meaning: str  # key of `COLOURS` for the running part
    label: str  # price of the call, as text
    hint: str  # description of the call for a tooltip


@dataclass(frozen=True, slots=True)
class Row:
    """The row of one tool, with the bars of its calls."""

    name: str
    track_count: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Marker:
    """A mark on the time axis: an event of the world, or the time limit."""

    at_s: float
    text: str
    is_limit: bool = False


@dataclass(frozen=True, slots=True)
class Meter:
    """The use of a limited resource."""

    resource: str
    used: float
    limit: float

    @property
    def text(self) -> str:
        return f"{number(self.used)} of {number(self.limit)}"


@dataclass(frozen=True, slots=True)
class Chart:
    """The content of an episode's chart."""

    # title, subtitle, verdict: lines of text
    title: str
    subtitle: str
    verdict: str
    span_s: float  # length of the time axis, seconds, above 0
    rows: tuple[Row, ...]
    markers: tuple[Marker, ...]
    outages: tuple[tuple[float, float], ...]  # (begin, end) of global outages, seconds
    meters: tuple[Meter, ...]
    meanings: tuple[str, ...]  # keys of `COLOURS` that occur, for the legend


def number(value: float) -> str:
    """Format a number in few characters, such as 3, 0.25 or 1.3e-05."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def ticks(span_s: float, most: int) -> list[float]:
    """Tick times from 0 to the span (seconds), at most `most` steps of 1, 2 or 5 times a power of ten."""
    raw = span_s / max(1, most)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next((factor * power for factor in (1, 2, 5) if factor * power >= raw * (1 - 1e-9)), 10 * power)
    return [i * step for i in range(math.floor(span_s / step * (1 + 1e-9)) + 1)]


def meaning_of(call: Call) -> str:
    """The meaning of a call's bar, a key of `COLOURS`."""
    status = call.status
    if call.finished_s < 0:
        return "running"
    if status is Status.CANCELLED:
        return "cut off"
    if not status.executed:
        return "refused"
    if status is Status.OK:
        return "ok"
    if status in LOOKS_OK:
        return "looks ok, is not"
    return "agent's error" if status.origin is Origin.AGENT else "failed"


def chart_of(episode: Episode) -> Chart:
    """Make the chart of an episode of a tool world, running or ended."""
    outages = [] if episode.bursts is None else episode.bursts.spans
    announced = () if episode.world.events is None else episode.world.events(episode.task, episode.candidates)
    events = [(notice.at_s, say(notice)) for notice in announced if notice.at_s <= episode.now_s]
    return _chart(episode, verdict(episode), outages, sorted(events))


def plan_chart(account: Episode, quality: float) -> Chart:
    """Make the chart of a plan over the OpenCATP tools, running or ended."""
    return _chart(account, plan_verdict(account, quality), [], [])


def _chart(account: Episode, verdict: str, outages: list[tuple[float, float]], events: list[tuple[float, str]]) -> Chart:
    now, calls = account.now_s, account.calls
    left = account.remaining()
    latest = max([now, *(call.finished_s for call in calls)])
    limit = account.budget.seconds
    shown = limit if limit is not None and limit <= 1.5 * latest else None
    span = max(latest * 1.02, shown * 1.02 if shown else 0.0) or 1.0
    rows, meanings = _rows(calls, now)
    begun = tuple((begin, min(end, span)) for begin, end in outages if begin < now)
    if begun:
        meanings.add("outage")
    markers = [Marker(at_s, text) for at_s, text in events]
    if shown is not None:
        markers.append(Marker(shown, "time limit", True))
    return Chart(
        title=account.task.query or account.task.id,
        subtitle=f"task {account.task.id}, seed {account.seed}, {len(calls)} calls asked for, {number(now)} s",
        verdict=verdict,
        span_s=span,
        rows=rows,
        markers=tuple(markers),
        outages=begun,
        meters=tuple(Meter(name, limit - left[name], limit) for name, limit in account.budget.items()),
        meanings=tuple(name for name in COLOURS if name in meanings),
    )


def verdict(episode: Episode) -> str:
    """Describe the result of an episode so far in one line."""
    ledger = episode.ledger
    spent = f"price {number(ledger.price)}, {ledger.calls} executed calls, {ledger.tokens:,} tokens"
    if not episode.over or episode.grade is None:
        return f"still running: {sum(episode.known)} of {len(episode.known)} facts; {spent}"
    if episode.exceeded is not None:
        spent += f"; over its budget of {episode.exceeded}"
    grade = episode.grade
    return (
        f"{grade.share:.0%} of the facts, strict: {'pass' if grade.strict else 'fail'}, "
        f"judge: {'pass' if grade.judged else 'fail'}; {spent}"
    )


def plan_verdict(account: Episode, quality: float) -> str:
    """Describe the result of a plan over the OpenCATP tools so far in one line."""
    ledger, grade = account.ledger, account.grade
    spent = f"price {number(ledger.price)}, {account.now_s:.2f} s, {ledger.calls} tools"
    spent += f", {ledger.tokens} tokens of the plan" if ledger.tokens else ""
    if grade is None:
        return f"not finished; {spent}; Quality of Plan so far {quality:.3f}"
    if account.exceeded is not None:
        spent += f"; over its budget of {account.exceeded}"
    return f"score {grade.share:.3f}, {'pass' if grade.strict else 'fail'}; {spent}; Quality of Plan {quality:.3f}"


def say(notice: WorldEvent) -> str:
    """Describe an event of the world in two or three words."""
    if notice.kind == "price_change":
        return f"price x {number(notice.factor)}"
    return {"ban": "ban", "unban": "back", "preference_change": "change of mind"}.get(notice.kind, notice.kind)


def by_tool(calls: Iterable[Call]) -> dict[str, list[Call]]:
    """The calls of each tool, in the order of their first ones."""
    by_name: dict[str, list[Call]] = {}
    for call in calls:
        by_name.setdefault(call.tool or "(unknown tool)", []).append(call)
    return by_name


def _rows(asked_for: Sequence[Call], now: float) -> tuple[tuple[Row, ...], set[str]]:
    rows, meanings = [], set()
    for name, calls in by_tool(asked_for).items():
        ends: list[float] = []
        bars = []
        for call in calls:
            end = call.finished_s if call.finished_s >= 0 else now
            # side by side where they overlap; calls that touch share a track
            track = next((track for track, last in enumerate(ends) if last <= call.submitted_s), len(ends))
            ends[track : track + 1] = [end if call.finished_s >= 0 else math.inf]
            meaning = meaning_of(call)
            # a refusal never starts, but has a mark where it was asked for
            refused = meaning == "refused"
            started = call.submitted_s if refused else call.started_s if call.started_s >= 0 else end
            ready = started if refused else min(max(call.ready_s, started), end)
            queued, cold = started > call.submitted_s, ready > started
            meanings |= {key for key, is_there in (("queueing", queued), ("cold start", cold)) if is_there}
            if started < end or refused or not queued:
                meanings.add(meaning)
            charged = call.k > 0 and call.finished_s >= 0
            label = number(call.price) if charged else ""
            bars.append(Bar(track, call.submitted_s, started, ready, end, meaning, label, _hint(call, end)))
        rows.append(Row(name, len(ends), tuple(bars)))
    return tuple(rows), meanings


def _hint(call: Call, end: float) -> str:
    status = call.status.label if call.finished_s >= 0 else "running"
    words = f"{call.tool or 'unknown tool'}: {status}, {call.submitted_s:.2f} to {end:.2f} s"
    return f"{words}, price {number(call.price)}" if call.k and call.finished_s >= 0 else words

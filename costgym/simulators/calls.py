"""Calls in time: the data of a call, what an episode admits, and the text that an agent reads."""

from __future__ import annotations

import json
from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heapify
from math import exp
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

from costgym.simulators.draws import CONTENT
from costgym.simulators.failures.silent import spoilt
from costgym.simulators.status import SILENT, Status
from costgym.simulators.tools import READ, UNDO, WRITE, Effect, ToolProfile

if TYPE_CHECKING:
    from costgym.simulators.episode import Episode

QUANTILES = 4096
CONNECTION_REFUSED_S = 0.05  # how soon a refused connection is known

NORMAL_QUANTILES = tuple(NormalDist().inv_cdf((i + 0.5) / QUANTILES) for i in range(QUANTILES))
"""Quantiles of the standard normal at the midpoints of `QUANTILES` equal steps, ascending."""


@lru_cache(maxsize=512)  # 32 KiB each
def latency_factors(spread: float, quantiles: tuple[float, ...] = ()) -> array[float]:
    """Quantiles of a duration over its median, at the steps of `NORMAL_QUANTILES`: of a lognormal, or of a table in its place,
    see `ToolProfile.latency_quantiles`. Tools with equal arguments share the array."""
    if not quantiles:
        return array("d", [exp(spread * quantile) for quantile in NORMAL_QUANTILES])
    places = [(i + 0.5) / QUANTILES * (len(quantiles) - 1) for i in range(QUANTILES)]
    steps = [(quantiles[int(place)], quantiles[int(place) + 1], place - int(place)) for place in places]
    return array("d", [low + (high - low) * share for low, high, share in steps])


class Usage(NamedTuple):
    """Tokens of one model call. Of the input tokens, some were read from a prompt cache (`cached_tokens`) and others written to
    it (`cache_write_tokens`); of the output tokens, some were thoughts (`reasoning_tokens`).

    `seconds` is how long a real model took, which counts where a world's thinking is measured; None where nobody measured.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    seconds: float | None = None
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def document(self) -> dict[str, int | float]:
        """The fields as actions write them; the last two stand there only where they are not 0."""
        written: dict[str, int | float] = {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
        }
        if self.seconds is not None:
            written["seconds"] = self.seconds
        if self.cache_write_tokens:
            written["cache_write_tokens"] = self.cache_write_tokens
        if self.reasoning_tokens:
            written["reasoning_tokens"] = self.reasoning_tokens
        return written


@dataclass(frozen=True, slots=True)
class WorldEvent:
    """A visible event in the world."""

    at_s: float  #: simulated time of the event, seconds
    kind: str  #: price_change, ban, unban or preference_change
    slots: tuple[int, ...] = ()  #: slots of the candidates concerned
    factor: float = 1.0  #: factor on their prices, for a price change
    need: int = -1  #: index of the need that changes, for a preference change


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tool on offer in a task: its profile, and what follows from the task and the world."""

    index: int  #: its slot in the task
    number: int  #: its number in the catalog
    name: str
    need: int  #: index of the first need that it serves, or -1
    needs: tuple[int, ...]  #: indices of all needs that it serves
    profile: ToolProfile  #: its limits, times and what it advertises
    fee: float  #: flat part of its price, in the scenario's currency
    quote: float  #: what the catalog says a call costs
    rate_per_s: float  #: price of a second of running, where duration is billed
    latency_s: float  #: its median duration at the task's size level, seconds
    factors: array[float]  #: quantiles of the duration over the median
    gpu_mb: float  #: GPU memory that a call takes, MB
    #: slip, persistence: the tool's own, or the world's
    slip: float
    persistence: float
    effect: Effect | None = None  #: what its calls do to the world; None for a tool that reads

    @property
    def role(self) -> int:
        """One of `READ`, `WRITE`, `CHECK` and `UNDO`."""
        return READ if self.effect is None else self.effect.role


@dataclass(slots=True)
class Call:
    """A call, from its submission to its end. Times are simulated seconds; -1.0 stands for a time that has not come.

    `aim` is the need that it was made for, where the tool serves one; `need` the need whose fact it brought; `effect` what it
    changes, or tells of, when it ends.
    """

    slot: int
    k: int
    submitted_s: float
    arguments: Mapping[str, Any] | None = None
    tool: str = ""
    status: Status = Status.OK
    started_s: float = -1.0
    ready_s: float = -1.0
    finished_s: float = -1.0
    cold: bool = False
    price: float = 0.0
    quote: float = 0.0
    retry_after_s: float = 0.0
    need: int = -1
    aim: int = -1
    version: int = 0
    answer: str | None = None
    reason: str = ""
    factor: float = 1.0
    effect: int | str | None = None


# -- what an episode admits ----------------------------------------------------------------------------------------------


def refusal_at_gateway(episode: Episode, call: Call) -> Status | None:
    """The status with which a call is refused now, or None; a call that is let through counts in its rate limit's window."""
    slot, now, profile = call.slot, episode.now_s, episode.candidates[call.slot].profile
    if slot in episode.banned:
        return Status.BANNED
    if profile.quota and episode.counts[slot] >= profile.quota:
        return Status.QUOTA_EXCEEDED
    if episode.enforcement == "refuse" and not episode.affordable(slot):
        return Status.OVER_BUDGET
    # last, since a call that is let through takes a place in the window
    if profile.rate_limit:
        if (window := episode.windows[slot]) is None:
            window = episode.windows[slot] = deque()
        while window and window[0] <= now - profile.window_s:
            window.popleft()
        if len(window) >= profile.rate_limit:
            call.retry_after_s = window[0] + profile.window_s - now
            return Status.RATE_LIMITED
        window.append(now)
    return None


def aim(episode: Episode, spec: Candidate) -> int:
    """The need that a call without arguments is for: the first of its tool's whose fact is missing and can be had now.

    A check is for the first need about which a call ended ambiguously, an undo for the first that was seen twice.
    """
    known, needs = episode.known, episode.needs
    if episode.store is not None and spec.role not in (READ, WRITE):
        records = [(n, episode.store.records[n]) for n in spec.needs]
        return next((n for n, record in records if (record.seen > 1 if spec.role == UNDO else record.perhaps)), spec.need)
    open_needs = (n for n in spec.needs if not known[n] and all(known[before] for before in needs[n].after))
    return next(open_needs, spec.need)


def has_room(episode: Episode, spec: Candidate) -> bool:
    """Return whether the machine has a slot and GPU memory for a call now, after the calls that wait."""
    slots, capacity = episode.world.slots, episode.world.gpu_capacity_mb
    # a call that waits for memory holds its slot, so slots are handed out in the order of submission
    if slots is not None and sum(episode.running) + len(episode._queue) >= slots:
        return False
    if capacity is None or not spec.gpu_mb:
        return True
    # first come, first served: nobody overtakes a call that waits for memory (rather than for a slot of its tool)
    for waiting in episode._queue:
        other = episode.candidates[waiting.slot]
        if other.gpu_mb and not (other.profile.concurrency and episode.running[other.index] >= other.profile.concurrency):
            return False
    # a tool that needs more than there is runs alone rather than never
    return episode._gpu_used + spec.gpu_mb <= capacity or episode._gpu_used == 0.0


def happen(episode: Episode, notice: WorldEvent) -> bool:
    """Let a scheduled event change prices, bans or what the user wants; False where there is nothing that it could change."""
    if notice.kind == "price_change":
        for slot in notice.slots:
            episode.factors[slot] *= notice.factor
    elif notice.kind == "ban":
        episode.banned.update(notice.slots)
    elif notice.kind == "unban":
        episode.banned.difference_update(notice.slots)
    elif notice.kind == "preference_change" and notice.need >= 0:
        alternative = episode.needs[notice.need].alternative
        if alternative is None:
            return False
        episode.needs[notice.need] = alternative
        episode.known[notice.need] = False
        episode.versions[notice.need] += 1
    return True


def ends_at(episode: Episode, call: Call) -> float | None:
    """The time at which a call that is in flight will end, simulated seconds; None while it waits for its turn."""
    return next((at_s for at_s, _, _, event in episode.clock._queue if event.value is call), None)


def in_flight(episode: Episode) -> list[Call]:
    """The calls that run, load or wait for their turn, in the order of submission."""
    return [call for call in episode.calls if call.finished_s < 0 and call.k] if episode.in_flight else []


def cut_off(episode: Episode) -> None:
    """Cancel and charge the calls that are in flight when the episode ends."""
    for call in in_flight(episode):
        _cut(episode, call)
    episode.in_flight = 0
    episode._reserved = 0.0


def _cut(episode: Episode, call: Call) -> bool:
    """Cancel a call and charge what it has used; return whether it had loaded."""
    now, bill_cold_start = episode.now_s, episode.world.bill_cold_start
    call.finished_s, call.status, call.need = now, Status.CANCELLED, -1
    if call.started_s < 0:
        call.price = 0.0
        return False
    # at the very moment at which it is loaded a call runs, as one without a cold start does when it starts
    spec, ran = episode.candidates[call.slot], now >= call.ready_s
    billed = now - call.started_s if bill_cold_start else now - call.ready_s if ran else 0.0
    call.price = call.factor * ((spec.fee if ran else 0.0) + spec.rate_per_s * billed)
    if ran or call.price:
        episode.ledger.charge(now, call.tool, call.price, 0, int(ran))
    return ran


def cancel(episode: Episode, call: Call) -> None:
    """Cut off a call while the episode goes on. An instance that had loaded is idle from now on."""
    if call.started_s < 0:
        episode._queue.remove(call)
    queue = episode.clock._queue
    queue[:] = [entry for entry in queue if entry[-1].value is not call]
    heapify(queue)
    free(episode, call, _cut(episode, call))


def free(episode: Episode, call: Call, loaded: bool) -> None:
    """Give back what a call held: its slot, its memory, its part of the budget, and its instance, where that has loaded."""
    slot = call.slot
    if call.started_s >= 0:
        episode.running[slot] -= 1
        if gpu_mb := episode.candidates[slot].gpu_mb:
            # the same as below for memory: a remainder could keep a call waiting for ever
            running = any(busy and other.gpu_mb for busy, other in zip(episode.running, episode.candidates, strict=True))
            episode._gpu_used = episode._gpu_used - gpu_mb if running else 0.0
        if loaded and (idle := episode.idle[slot]) is not None:
            idle.append(episode.now_s)
    episode.in_flight -= 1
    # sums of floats leave a remainder; with nothing in flight nothing is reserved, exactly
    episode._reserved = episode._reserved - call.quote if episode.in_flight else 0.0


def replay(episode: Episode, log: Sequence[tuple[Any, ...]]) -> None:
    """Play the actions of a recorded log, each under the name of its method and with the method's arguments."""
    for action, *given in log:
        match action:
            case "settle" | "cancel":
                getattr(episode, action)(episode.calls[given[0]])
            case "redraw":  # the function itself is logged: it knows more of the world than this module may
                again, seed = given
                again(episode, seed)
            case _:
                getattr(episode, action)(*given)


# -- what an agent reads -----------------------------------------------------------------------------------------------

_TEXTS = {
    Status.UNKNOWN_TOOL: "there is no function of this name",
    Status.MALFORMED: "the action could not be read",
    Status.INVALID_ARGUMENTS: "the arguments do not fit the function's schema",
    Status.NOT_REGISTERED: "the function is not registered; register it first",
    Status.FORBIDDEN: "the plan does not allow another call of this function",
    Status.BANNED: "the function is not available at present",
    Status.OVER_BUDGET: "the remaining budget does not cover this call",
    Status.WRONG_ARGUMENTS: "the upstream service rejects these arguments",
    Status.RATE_LIMITED: "too many requests",
    Status.QUOTA_EXCEEDED: "the quota of this function is used up",
    Status.SERVER_ERROR: "500 internal server error",
    Status.NOT_FOUND: "404 the endpoint does not exist",
    Status.UNAUTHORIZED: "401 this key is not subscribed to the service",
    Status.CONNECTION_ERROR: "could not connect to the host",
    Status.TIMEOUT: "504 the request timed out",
    Status.OUTAGE: "503 the platform is temporarily unavailable",
    Status.CANCELLED: "the episode ended before the call did",
    Status.INFRASTRUCTURE: "the back-end of the simulation failed",
}


@lru_cache(maxsize=4096)
def _error_text(status: Status, reason: str, retry_after_s: float) -> str:
    """A failed call as a JSON object: the error's type, a message, and for a rate limit the seconds to wait."""
    body: dict[str, object] = {"error": status.label, "message": reason or _TEXTS[status]}
    if status is Status.RATE_LIMITED:
        body["retry_after_s"] = round(retry_after_s, 3)
    return json.dumps(body)


def content(episode: Episode, call: Call) -> str:
    """The text that the agent reads of a call that has ended: the tool's answer, or an error in words."""
    tool = episode.world.catalog[episode.candidates[call.slot].number] if call.slot >= 0 else None
    if call.status is Status.OK or call.status in SILENT:
        if call.answer is None and tool is not None:
            arguments = call.arguments or (episode.needs[call.aim].arguments if call.aim >= 0 else None) or {}
            call.answer = episode.world.answers.answer(tool, arguments, episode.task)
        if call.answer and call.status in SILENT:
            return spoilt(call.answer, call.status, episode.task, episode.draws_of(call.slot).at(call.k, call.slot)[CONTENT])
        return call.answer or "{}"
    if call.status is Status.IRRELEVANT and tool is not None:
        luck = episode.draws_of(call.slot).at(call.k, call.slot)[CONTENT]
        return episode.world.answers.irrelevant(tool, call.arguments or {}, episode.task, luck)
    if call.status in (Status.EMPTY, Status.NO_DATA):
        return "{}"
    return _error_text(call.status, call.reason, call.retry_after_s)

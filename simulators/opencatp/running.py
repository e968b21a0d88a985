"""A plan that grows while it runs: tools are called one by one and run side by side on a simulated clock.

A call starts as soon as there is a slot and GPU memory for it, first come first served; its price is charged when it ends. What
still runs when the episode ends is charged for the part that ran and makes nothing. Waiting in a queue costs time, not money.

State lives in the list of calls, in the order in which they were made; the clock only decides when they start and end.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy

from ..errors import ConfigError, EpisodeOver, InvalidPlan
from ..plan import TASK_INPUT, Plan, PlanStep
from .profile import Profile
from .tools import SIGNATURES, TOOLS


@dataclass(slots=True)
class PlanCall:
    """A call of a plan's tool.

    Attributes:
        tool: The tool's name.
        source: The tool whose output it reads, or the task's input.
        submitted_s: Time at which it was asked for, seconds.
        load_s: Time at which it had its slot and memory and began to load, seconds; None before.
        start_s, end_s: Times at which it began to run and ended, seconds; None before.
        price: Price charged for it so far, USD.
    """

    tool: str
    source: str
    submitted_s: float
    start_s: float | None = None
    end_s: float | None = None
    price: float = 0.0
    load_s: float | None = None


def gpu_bytes(profile: Profile, level: int, capacity_mb: float | None) -> tuple[dict[str, int], int | None]:
    """The GPU memory that each tool needs, and the memory in all, in whole bytes.

    Fractions of a MB do not add up exactly, so memory that was taken could not always be given back.

    Raises:
        ConfigError: A tool needs more than there is.
    """
    needs_mb = profile.gpu_mb(level)
    needs = {tool: round(need * 2**20) for tool, need in needs_mb.items()}
    if capacity_mb is None:
        return needs, None
    largest = max(TOOLS, key=lambda tool: needs_mb[tool])
    if not capacity_mb >= needs_mb[largest]:
        needed = needs_mb[largest]
        raise ConfigError("gpu_capacity_mb", f"expected at least {needed:g}, which {largest} needs, got {capacity_mb}")
    enough = sum(needs.values()) + 1
    return needs, max(1, round(min(capacity_mb * 2**20, enough)))


class RunningPlan:
    """The calls of one episode and its clock.

    Args:
        profile: Times, memory and prices of the tools.
        level: Size level of the sample.
        slots: Number of tools that may run at once; None for any number.
        gpu_capacity_mb: GPU memory in all, MB; None for any amount.
        cold_starts: Whether a tool is loaded first, which takes the profile's `cold_start_s` and is not billed.

    Attributes:
        calls: All calls, in the order made.
        price: Charged so far, USD.
    """

    def __init__(
        self,
        profile: Profile,
        level: int,
        slots: int | None = None,
        gpu_capacity_mb: float | None = None,
        cold_starts: bool = False,
    ) -> None:
        self._made_with = (profile, level, slots, gpu_capacity_mb, cold_starts)
        self._log: list[tuple[str, ...]] = []
        self._profile, self._level = profile, level
        self._needs, memory = gpu_bytes(profile, level, gpu_capacity_mb)
        self._cold = profile.cold_start_s() if cold_starts else {}
        self._clock = simpy.Environment()
        self._slots = None if slots is None else simpy.Resource(self._clock, capacity=slots)
        self._memory = None if memory is None else simpy.Container(self._clock, capacity=memory, init=memory)
        self._finished: list[PlanCall] = []
        self.calls: list[PlanCall] = []
        self.price = 0.0
        self.over = False

    @property
    def now_s(self) -> float:
        """Simulated seconds since the start."""
        return float(self._clock.now)

    @property
    def in_flight(self) -> int:
        """Number of calls that have not ended."""
        return sum(call.end_s is None for call in self.calls)

    def call_of(self, tool: str) -> PlanCall | None:
        """The call of a tool, or None where it was not made."""
        return next((call for call in self.calls if call.tool == tool), None)

    def is_ready(self, artefact: str) -> bool:
        """Return whether the task's input or a tool's output is there."""
        call = self.call_of(artefact)
        return artefact == TASK_INPUT or (call is not None and call.end_s is not None)

    def submit(self, tool: str, source: str) -> PlanCall:
        """Call a tool on an artefact; this takes no time.

        Raises:
            EpisodeOver: The episode has ended.
            InvalidPlan: The tool was called before, or the artefact is not there or not what the tool reads.
        """
        if self.over:
            raise EpisodeOver("the episode has ended; reset before the next call")
        made = "image" if source == TASK_INPUT else SIGNATURES[source].gives
        if SIGNATURES[tool].takes != made:
            raise InvalidPlan(f"takes {SIGNATURES[tool].takes}, but {source} is {made}", tool)
        if self.call_of(tool) is not None:
            raise InvalidPlan(f"{tool} was called before; a tool occurs once in a plan", tool)
        if not self.is_ready(source):
            raise InvalidPlan(f"the output of {source} is not there yet", tool)
        self._log.append(("submit", tool, source))
        call = PlanCall(tool, source, self.now_s)
        self.calls.append(call)
        self._clock.process(self._run(call))
        # Everything that can start at this moment starts now, so that a call that starts at once is seen to run at once.
        self._settle()
        return call

    def _run(self, call: PlanCall) -> Generator[Any, Any, None]:
        clock, tool = self._clock, call.tool
        slot = None
        if self._slots is not None:
            slot = self._slots.request()
            yield slot
        if self._memory is not None and self._needs[tool] > 0:
            yield self._memory.get(self._needs[tool])
        call.load_s = float(clock.now)
        if self._cold.get(tool, 0.0) > 0.0:
            yield clock.timeout(self._cold[tool])
        call.start_s = float(clock.now)
        yield clock.timeout(self._profile.seconds(tool, self._level))
        call.end_s = float(clock.now)
        self._charge(call, self._profile.price(tool, self._level))
        self._finished.append(call)
        if self._memory is not None and self._needs[tool] > 0:
            yield self._memory.put(self._needs[tool])
        if self._slots is not None:
            self._slots.release(slot)

    def _charge(self, call: PlanCall, price: float) -> None:
        call.price += price
        self.price += price

    def _settle(self) -> None:
        while self._clock.peek() <= self._clock.now:
            self._clock.step()

    def wait(self) -> list[PlanCall]:
        """Go to the next end of a call; returns all calls that ended then. No time passes where nothing is in flight.

        Raises:
            EpisodeOver: The episode has ended.
        """
        if self.over:
            raise EpisodeOver("the episode has ended; reset before the next call")
        self._log.append(("wait",))
        while not self._finished and self.in_flight:
            self._clock.step()
        self._settle()
        ended, self._finished = self._finished, []
        return ended

    def finish(self) -> None:
        """End the episode. Running calls are cut off and charged for the part that ran."""
        if self.over:
            return
        self._log.append(("finish",))
        self.over = True
        for call in self.calls:
            if call.end_s is None and call.start_s is not None:
                full_s = self._profile.seconds(call.tool, self._level)
                fee = self._profile.pricing.per_run
                share = (self.now_s - call.start_s) / full_s if full_s > 0.0 else 1.0
                self._charge(call, fee + (self._profile.price(call.tool, self._level) - fee) * share)

    def plan(self) -> Plan | None:
        """The plan of the tools that have ended, in the order called; None where none has."""
        steps = tuple(PlanStep(call.tool, (call.source,)) for call in self.calls if call.end_s is not None)
        return Plan(steps) if steps else None

    # -- copies --------------------------------------------------------------------------------------------------------------

    def fork(self) -> RunningPlan:
        """An independent copy in the same state, made by playing its log again."""
        return _replayed(self._made_with, self._log)

    def __reduce__(self) -> tuple[Any, ...]:
        return _replayed, (self._made_with, list(self._log))


def _replayed(made_with: tuple[Any, ...], log: list[tuple[str, ...]]) -> RunningPlan:
    running = RunningPlan(*made_with)
    for action, *arguments in list(log):
        getattr(running, action)(*arguments)
    return running

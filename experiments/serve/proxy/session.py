"""A run of real calls under the world's luck.

The run is an episode of a world whose tools are real (`world`). The episode decides what becomes of each call before the tool
is asked: refused, failed, spoilt or let through, after how long and at what price. So the faults are the simulated world's
own, and the k-th call of a tool has the same one under the same seed. A call that fails or is refused never reaches the tool.

Two clocks are to choose from. With `calls`, only calls let the world's time pass, each as long as the world says, and a client
that waits as long as a refusal told it to is let in, so a run repeats exactly. With `wall`, real time passes in the world too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast, get_args

from ....simulators.calls import Call, ends_at
from ....simulators.errors import ConfigError
from ....simulators.ledger import Budget, Enforcement
from ....simulators.scenario import Scenario
from ....simulators.status import LOOKS_OK, SILENT, Status
from ....simulators.world import World
from ...play.call_logs.formats import CALL_LOG
from .call_log import CallLog, wall_time
from .world import RealAnswers

ClockName = Literal["calls", "wall"]
JITTER_S = 0.002
"""How much too early a client may come back after an announced wait."""
_REACHES = frozenset({Status.OK, *SILENT})
"""Statuses of calls that are made in earnest."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a run is played.

    Attributes:
        seed: Keys all luck.
        budget, enforcement: What may be spent, and what passing a limit does.
        clock: What lets time pass in the world.
        time_scale: Real seconds for each second of the world; 0 does not hold replies up.
        about: Further fields of the run's record, such as the scenario's name.

    Raises:
        ConfigError: `time_scale` is out of range, or 0 on the wall clock.
    """

    seed: int = 0
    budget: Budget = field(default_factory=Budget)
    enforcement: Enforcement = "terminate"
    clock: ClockName = "calls"
    time_scale: float = 1.0
    about: Mapping[str, Any] | None = None

    @classmethod
    def under(
        cls,
        scenario: Scenario | None,
        seed: int = 0,
        budget: str | Mapping[str, float] | None = None,
        enforcement: str | None = None,
        clock: str | None = None,
        time_scale: float = 1.0,
    ) -> Settings:
        """Make the settings of a run under a scenario, which decides what is not given; without one, real time passes.

        Raises:
            ConfigError: A setting is wrong.
        """
        limits = Budget() if scenario is None else scenario.limits()
        return cls(
            seed,
            limits if budget is None else Budget.one(budget),
            cast(Enforcement, enforcement or ("terminate" if scenario is None else scenario.enforcement)),
            cast(ClockName, clock or ("wall" if scenario is None else "calls")),
            time_scale,
        )

    def __post_init__(self) -> None:
        if self.enforcement not in get_args(Enforcement):
            raise ConfigError("--enforcement", f"expected terminate, refuse or record, got {self.enforcement!r:.40}")
        if self.clock not in ("calls", "wall"):
            raise ConfigError("clock", f"expected calls or wall, got {self.clock!r:.40}")
        if not 0 <= self.time_scale <= 1000:
            raise ConfigError("time scale", f"expected a number from 0 to 1000, got {self.time_scale}")
        if self.clock == "wall" and not self.time_scale:
            raise ConfigError("time scale", "expected more than 0 with the wall clock, which would stand still")


def about_run(scenario: Scenario | None, faults: float | None, task: str | None, server: str) -> dict[str, Any]:
    """Fields of a run's record that say what was imposed, on whose tools, and what for."""
    return {
        "scenario": None if scenario is None else scenario.name,
        "world": None if scenario is None else scenario.digest,
        "faults": faults,
        "task": task,
        "server": server,
    }


@dataclass(slots=True)
class Ticket:
    """A call that has begun.

    Attributes:
        number: Its place in the run, from 1.
        tool, arguments: What was asked for.
        call: The world's side of it; None for a tool that the world does not know, and after the end of the run.
        reaches: The tool is to be asked.
        hold_s: Real seconds from its beginning for which the reply is to be held up.
        begun_s: When it began, by the session's timer.
        at_s: When it began, world seconds.
    """

    number: int
    tool: str
    arguments: Mapping[str, Any]
    call: Call | None
    reaches: bool
    hold_s: float
    begun_s: float
    at_s: float


@dataclass(frozen=True, slots=True)
class Real:
    """What a tool itself did.

    Attributes:
        text: Its reply, or its error's words.
        status: `Status.OK`, or its own failure.
        seconds: How long it took.
    """

    text: str
    status: Status
    seconds: float


@dataclass(frozen=True, slots=True)
class Reply:
    """What the client gets.

    Attributes:
        status: How the call ended.
        text: The text in place of the tool's own; None where the tool's reply goes through as it is.
        price: What it cost.
        left: What is left of each limited resource.
        retry_after_s: Real seconds to wait after a rate limit's refusal.
    """

    status: Status
    text: str | None
    price: float
    left: Mapping[str, float]
    retry_after_s: float = 0.0

    @property
    def failed(self) -> bool:
        """The client sees an error."""
        return self.status not in LOOKS_OK


class Session:
    """One run: `begin` a call, ask the tool if the ticket says so, `end` it.

    Calls may overlap and come from several threads.

    Args:
        world: From `world.world_around`.
        settings: How it is played.
        log: Where each call is written; closed with the session.
        timer: Real seconds.
    """

    def __init__(
        self, world: World, settings: Settings, log: CallLog | None = None, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self.world = replace(world, answers=RealAnswers())
        self.settings, self._log, self._timer = settings, log, timer
        self.episode = self.world.episode(0, settings.seed, settings.budget, settings.enforcement)
        self._slots = {candidate.name: candidate.index for candidate in self.episode.candidates}
        self._lock = threading.RLock()
        self._origin_s = timer()
        self._waits: dict[int, tuple[float, float]] = {}  # by slot: from when on it is let in, in real and in the world's time
        self._begun = 0
        self._note(
            {
                "format": CALL_LOG,
                "at": wall_time(),
                "seed": settings.seed,
                "budget": settings.budget.as_dict(),
                "enforcement": settings.enforcement,
                "clock": settings.clock,
                "time_scale": settings.time_scale,
                **(settings.about or {}),
                "prices": self.prices,
            }
        )

    @property
    def prices(self) -> dict[str, float]:
        """What a call of each tool costs now."""
        episode = self.episode
        return {candidate.name: episode.quote(candidate.index) for candidate in episode.candidates}

    @property
    def over(self) -> bool:
        """A limit of the budget has ended the run; every further call is refused."""
        return self.episode.over

    def begin(self, tool: str, arguments: Mapping[str, Any]) -> Ticket:
        """Decide what becomes of a call."""
        with self._lock:
            self._begun += 1
            episode, now_s = self.episode, self._timer()
            slot = self._slots.get(tool)
            ticket = Ticket(self._begun, tool, arguments, None, slot is None, 0.0, now_s, episode.now_s)
            if slot is None:
                return ticket
            if not episode.over:
                self._let_time_pass(slot, now_s)
            if episode.over:
                return ticket
            ticket.at_s = episode.now_s
            call = ticket.call = episode.submit(slot, dict(arguments))
            end_s = call.finished_s if call.finished_s >= 0 else ends_at(episode, call)
            if end_s is None or end_s > (episode.budget.seconds or end_s):
                end_s = episode.settle(call).finished_s
            if call.status is Status.RATE_LIMITED:
                told_s = call.retry_after_s * self.settings.time_scale
                self._waits[slot] = (now_s + told_s - JITTER_S, call.submitted_s + call.retry_after_s)
            ticket.reaches = bool(call.k) and call.status in _REACHES
            ticket.hold_s = (end_s - ticket.at_s) * self.settings.time_scale
            return ticket

    def _let_time_pass(self, slot: int, now_s: float) -> None:
        episode, scale = self.episode, self.settings.time_scale
        gap_s = 0.0
        if self.settings.clock == "wall":
            gap_s = (now_s - self._origin_s) / scale - episode.now_s
        elif slot in self._waits:
            real_s, world_s = self._waits[slot]
            if now_s >= real_s:
                gap_s = world_s - episode.now_s
                del self._waits[slot]
        if gap_s > 0:
            episode.advance(gap_s)

    def left_to_hold(self, ticket: Ticket) -> float:
        """Real seconds for which the reply is still to be held up."""
        return max(0.0, ticket.begun_s + ticket.hold_s - self._timer())

    def end(self, ticket: Ticket, real: Real | None = None) -> Reply:
        """Settle a call and note it.

        Args:
            ticket: From `begin`.
            real: What the tool did, if it was to be asked.
        """
        with self._lock:
            reply, took_s = self._reply(ticket, real)
            call = ticket.call
            record = {
                "call": ticket.number,
                "tool": ticket.tool,
                "started": ticket.at_s,
                "latency_s": took_s,
                "status": reply.status.label,
                "price": reply.price,
                "episode": None if self._log is None else self._log.run,
                "k": None if call is None else call.k,
                "imposed": None if call is None else call.status.label,
                "real_s": None if real is None else round(real.seconds, 6),
                "at": wall_time(),
                "arguments": dict(ticket.arguments),
            }
            if call is not None and self.world.catalog.get(ticket.tool).profile.cold_start_s:
                record["cold"] = call.cold
            if real is not None and real.status is not Status.OK:
                record["error"] = real.text[:500]
            self._note(record)
            for event in () if self.episode.over else self.episode.notices():
                tools = [self.episode.candidates[slot].name for slot in event.slots]
                self._note({"event": event.kind, "at_s": event.at_s, "tools": tools, "factor": event.factor})
            return reply

    def _reply(self, ticket: Ticket, real: Real | None) -> tuple[Reply, float]:
        episode, call, scale = self.episode, ticket.call, self.settings.time_scale
        real_s = 0.0 if real is None else real.seconds
        if call is None and real is not None:  # not the world's tool
            return Reply(real.status, None, 0.0, episode.remaining()), real_s
        if call is None:
            spent = episode.exceeded or "time"
            words = f"the budget of {spent} is used up ({episode.budget}); this run has ended"
            refused = Call(
                self._slots[ticket.tool], 0, episode.now_s, ticket.arguments, ticket.tool, Status.OVER_BUDGET, reason=words
            )
            return Reply(Status.OVER_BUDGET, episode.content(refused), 0.0, episode.remaining()), 0.0
        if not episode.over or call.finished_s < 0:
            episode.settle(call)
        took_s = call.finished_s - call.submitted_s
        if self.settings.clock == "wall":
            took_s = max(took_s, real_s / scale)
        status, text = call.status, None
        if real is not None and status in _REACHES:
            if real.status is not Status.OK:
                return Reply(real.status, None, call.price, episode.remaining()), took_s
            answers = self.world.answers
            assert isinstance(answers, RealAnswers)
            answers.keep(ticket.tool, ticket.arguments, real.text)
        if status is not Status.OK:
            call.answer = None if real is None else real.text
            told = replace(call, retry_after_s=call.retry_after_s * scale)
            text = episode.content(told)
        return Reply(status, text, call.price, episode.remaining(), call.retry_after_s * scale), took_s

    def abandon(self, ticket: Ticket) -> None:
        """Note a call whose reply nobody waits for any more."""
        self.end(ticket, Real("the client went away", Status.CANCELLED, self._timer() - ticket.begun_s))

    def spoilt(self, ticket: Ticket, text: str) -> str:
        """One part of a reply under the call's silent fault; other parts are spoilt alike."""
        assert ticket.call is not None
        return self.episode.content(replace(ticket.call, answer=text)) if text else text

    def close(self, reason: str, success: bool | None = None) -> None:
        """Note the end of the run, and whether it did what it was for, if that is known."""
        with self._lock:
            if success is not None:
                self._note({"success": success})
            ledger = self.episode.ledger
            spent = {"price": ledger.price, "seconds": self.episode.now_s, "calls": ledger.calls, "attempts": ledger.attempts}
            self._note({"end": reason, "exceeded": self.episode.exceeded, "spent": spent})
            if self._log is not None:
                self._log.close()
                self._log = None

    def _note(self, record: Mapping[str, Any]) -> None:
        if self._log is not None:
            self._log.write(record)

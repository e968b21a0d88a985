"""A run of real calls under a scenario's faults, prices and budget.

The run is an episode of a world whose tools are real (`world`). The episode decides the fate of each call before the tool is
asked: refused, failed, spoilt or let through, after how long and at what price. So the faults are the simulated world's own,
and the k-th call of a tool has the same one under the same seed. A call that fails or is refused never reaches the tool, unless
`happens` says so: then one that ends ambiguously may have been made, and its reply is lost.

There are two clocks. With `calls`, only calls let the world's time pass, each as long as the world says, and a client that
waits as long as a refusal told it to is let in, so a run repeats exactly. With `wall`, real time passes in the world too.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import model_validator

from costgym.experiments.play.call_logs.log import CALL_LOG
from costgym.experiments.play.options import BUDGET, SCENARIO, Data, Seed
from costgym.experiments.serve.proxy.call_log import CallLog, wall_time
from costgym.experiments.serve.proxy.world import RealAnswers, world_around
from costgym.simulators import bounds
from costgym.simulators.bounds import option
from costgym.simulators.calls import Call
from costgym.simulators.draws import CONTENT
from costgym.simulators.errors import ConfigError
from costgym.simulators.ledger import Budget, Enforcement
from costgym.simulators.scenario import Scenario, load_scenario
from costgym.simulators.status import AMBIGUOUS, LOOKS_OK, SILENT, Status
from costgym.simulators.tools import Tool
from costgym.simulators.world import World

EARLY_S = 0.002  # how much too early a client may come back after an announced wait
_REACHES = frozenset({Status.OK, *SILENT})  # statuses of calls that reach the tool


class Settings(bounds.Settings):
    """The settings of a run of real calls: the options of `costgym proxy`, `Chaos` and `wrap`.

    Raises:
        ConfigError: a setting is out of range, or `time_scale` is 0 on the wall clock.
        CostGymError: the scenario cannot be read.
    """

    scenario: Annotated[Scenario | None, SCENARIO] = None
    """Name, YAML file or `Scenario`; None imposes nothing."""
    data: Data = None
    seed: Seed = 0
    budget: Annotated[Budget, BUDGET] = Budget()
    """What may be spent; by default the scenario's."""
    enforcement: Annotated[
        Enforcement,
        option("refuse: calls beyond a limit are refused; terminate: so is each later one; record: they are only noted."),
    ] = "refuse"
    faults: Annotated[float | None, option("Factor on the scenario's failures and outages; 0 for none.", "FACTOR")] = None
    prices: Annotated[
        dict[str, float], option("Price of a tool's call, in place of the scenario's; repeatable.", "TOOL=PRICE", "--price")
    ] = {}  # noqa: RUF012, pydantic copies it
    clock: Annotated[
        Literal["calls", "wall"],
        option("calls: only calls let time pass, so runs repeat exactly; wall: real time passes, as without a scenario."),
    ] = "calls"
    time_scale: Annotated[
        float, option("Real seconds for each second of the world; 0 for no delays.", "FACTOR", ge=0, le=1000)
    ] = 1.0
    happens: Annotated[
        float,
        option("Chance that a call ending ambiguously (time-out, server error) is made though its reply is lost.", ge=0, le=1),
    ] = 0.0
    log: Annotated[Path | None, option("File to which calls are appended, as JSON lines.", "FILE")] = None
    run: Annotated[str | None, option("Name of the run in the log; by default made from the time.", "NAME")] = None
    task: Annotated[str | None, option("Task of the run; repeated runs share it.", "NAME")] = None

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Take from the scenario what is not given."""
        data = {name: value for name, value in fields.items() if value is not None}
        scenario = data.get("scenario")
        if scenario is None:
            defaults: dict[str, Any] = {"clock": "wall"}
        else:
            scenario = scenario if isinstance(scenario, Scenario) else load_scenario(scenario, data.get("data"))
            of_scenario = {"enforcement": scenario.enforcement} if "enforcement" in scenario.model_fields_set else {}
            defaults = {"scenario": scenario, "budget": scenario.limits(), **of_scenario}
        if isinstance(data.get("budget"), str | Mapping):
            data["budget"] = Budget.one(data["budget"])
        if isinstance(data.get("log"), str):
            data["log"] = Path(data["log"])
        return {**defaults, **data, "scenario": scenario}

    @model_validator(mode="after")
    def _time_passes(self) -> "Settings":
        if self.clock == "wall" and not self.time_scale:
            raise ConfigError("time_scale", "expected more than 0 with the wall clock, which would stand still at 0")
        return self

    @property
    def imposes(self) -> bool:
        """Whether anything is imposed on the calls, which are otherwise only logged."""
        return self.scenario is not None or bool(self.prices) or bool(self.budget.as_dict())

    def start(self, tools: Sequence[Tool], server: str) -> "Session":
        """Begin a run with the tools of a server."""
        world = world_around(tools, self.scenario, self.prices, self.faults)
        name = self.run or f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}-{uuid4().hex[:4]}"
        return Session(world, self, None if self.log is None else CallLog(self.log, name), server)


@dataclass(slots=True)
class Ticket:
    """A call that has begun."""

    number: int  # its place in the run, from 1
    tool: str
    arguments: Mapping[str, Any]
    call: Call | None  # the world's side of it; None for a tool that the world does not know, and after the end of the run
    reaches: bool  # the tool is to be asked
    hold_s: float  # real seconds from its beginning for which the reply is to be held up
    begun_s: float  # when it began, by the session's timer
    at_s: float  # when it began, world seconds


@dataclass(frozen=True, slots=True)
class Real:
    """The outcome of the tool's own work."""

    text: str
    status: Status  # `Status.OK`, or its own failure
    seconds: float  # how long it took


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply that the client gets."""

    status: Status  # how the call ended
    text: str | None  # the text in place of the tool's own; None where the tool's reply goes through as it is
    price: float  # what it cost
    left: Mapping[str, float]  # what is left of each limited resource
    retry_after_s: float = 0.0  # real seconds to wait after a rate limit's refusal

    @property
    def failed(self) -> bool:
        """The client sees an error."""
        return self.status not in LOOKS_OK


class Session:
    """One run: `begin` a call, ask the tool if the ticket says so, `end` it. Calls may overlap and come from several threads.
    Each is written to `log`, which is closed with the session; `timer` gives real seconds."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        log: CallLog | None = None,
        server: str = "",
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self.world = replace(world, answers=RealAnswers())
        self.settings, self._log, self._timer = settings, log, timer
        self.episode = self.world.episode(0, settings.seed, settings.budget, settings.enforcement)
        self._slots = {candidate.name: candidate.index for candidate in self.episode.candidates}
        self._lock = threading.RLock()
        self._origin_s = timer()
        self._waits: dict[int, tuple[float, float]] = {}  # by slot: from when on it is let in, in real and in the world's time
        self._begun = 0
        scenario = settings.scenario
        self._note(
            {
                "format": CALL_LOG,
                "at": wall_time(),
                **settings.model_dump(include={"seed", "enforcement", "clock", "time_scale", "faults", "task"}),
                "budget": settings.budget.as_dict(),
                "scenario": None if scenario is None else scenario.name,
                "world": None if scenario is None else scenario.digest,
                "server": server,
                "prices": self.prices,
            }
        )

    @property
    def prices(self) -> dict[str, float]:
        """Present price of a call of each tool."""
        episode = self.episode
        return {candidate.name: episode.quote(candidate.index) for candidate in episode.candidates}

    def begin(self, tool: str, arguments: Mapping[str, Any]) -> Ticket:
        """Decide the fate of a call."""
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
            # The end is foretold without moving the clock, so that calls may overlap. Beyond the budget, the call is settled at
            # once, because it is cut off there.
            end_s = call.finished_s if call.finished_s >= 0 else call.ends_s
            if end_s < 0 or end_s > (episode.budget.seconds or end_s):
                end_s = episode.settle(call).finished_s
            if call.status is Status.RATE_LIMITED:
                told_s = call.retry_after_s * self.settings.time_scale
                self._waits[slot] = (now_s + told_s - EARLY_S, call.submitted_s + call.retry_after_s)
            ticket.reaches = bool(call.k) and (call.status in _REACHES or self._happens(call))
            ticket.hold_s = (end_s - ticket.at_s) * self.settings.time_scale
            return ticket

    def _happens(self, call: Call) -> bool:
        """A call that ends ambiguously is made all the same, by the luck that decides it in the simulated world."""
        luck = self.episode.draws_of(call.slot).at(call.k, call.slot)[CONTENT]
        return call.status in AMBIGUOUS and luck < self.settings.happens

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
        """Settle a call and record it, with the tool's outcome if the call reached it."""
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
            # the tool itself may take longer than the world foretold
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
            scaled = replace(call, retry_after_s=call.retry_after_s * scale)
            text = episode.content(scaled)
        return Reply(status, text, call.price, episode.remaining(), call.retry_after_s * scale), took_s

    def abandon(self, ticket: Ticket) -> None:
        """Record a call whose client no longer waits for the reply."""
        self.end(ticket, Real("the client went away", Status.CANCELLED, self._timer() - ticket.begun_s))

    def spoilt(self, ticket: Ticket, text: str) -> str:
        """One part of a reply under the call's silent fault, which spoils all parts in the same way."""
        assert ticket.call is not None
        return self.episode.content(replace(ticket.call, answer=text)) if text else text

    def close(self, reason: str, success: bool | None = None) -> None:
        """Record the end of the run, and whether it succeeded, if that is known."""
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

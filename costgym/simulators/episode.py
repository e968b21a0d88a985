"""Play one task on one simulated clock, by the rules that `world` states."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any

import simpy

from costgym.simulators.calls import (
    CONNECTION_REFUSED_S,
    QUANTILES,
    Call,
    Candidate,
    Usage,
    WorldEvent,
    aim,
    cancel,
    content,
    cut_off,
    free,
    happen,
    has_room,
    refusal_at_gateway,
    replay,
)
from costgym.simulators.draws import CONTENT, DURATION, KIND, OUTCOME, Draws
from costgym.simulators.errors import EpisodeOver
from costgym.simulators.failures import BurstTimes, Chain, start_chain
from costgym.simulators.grading import read_facts
from costgym.simulators.ledger import Budget, Enforcement, Ledger
from costgym.simulators.status import Status
from costgym.simulators.tasks import Grade, Task, arguments_match
from costgym.simulators.writes import Store, WriteFigures

if TYPE_CHECKING:
    from costgym.simulators.world import World

# an enum's members are looked up through its class on every use; these are used on every call
_OK, _TIMEOUT, _CONNECTION_ERROR = Status.OK, Status.TIMEOUT, Status.CONNECTION_ERROR


class Clock(simpy.Environment):  # type: ignore[misc]
    """SimPy's environment at time 0, which can be pickled.

    SimPy's own constructor binds its event classes to the instance, and pickle cannot restore those. They work without it.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._queue: list[Any] = []
        self._eid = count()
        self._active_proc = None


class Episode:
    """A task played on one simulated clock.

    `submit` starts a call, `wait` goes to the next completion, `call` does both, `think` charges a model's tokens, `finish`
    grades an answer. State is plain data, so `fork` (a replay of the log) is exact.

    Args:
        world: The world that it plays in.
        number: The task's number.
        seed: Keys all chance in the episode.
        budget: What may be spent.
        enforcement: What passing a limit does; see rule 11 of `world`.

    Attributes:
        unread: Ended calls and visible events that no `wait` has returned yet.
        running, versions: How many calls of each candidate load or run, and how often each need has changed.

    Raises:
        EpisodeOver: An action came after the end.
    """

    # fmt: off
    __slots__ = (
        "_chains", "_deadline", "_draws", "_gpu_used", "_queue", "_reserved", "banned", "budget", "bursts", "calls",
        "candidates", "clock", "counts", "enforcement", "exceeded", "factors", "grade", "idle", "in_flight", "known", "ledger",
        "log", "needs", "number", "over", "running", "seed", "store", "task", "unread", "versions", "void", "windows", "world",
    )
    # fmt: on

    def __init__(self, world: "World", number: int, seed: int, budget: Budget, enforcement: Enforcement) -> None:
        self.world, self.number, self.seed, self.budget, self.enforcement = world, number, seed, budget, enforcement
        self.task: Task = world.tasks[number]
        self.candidates = world.candidates(number)
        size = len(self.candidates)
        self.clock = Clock()
        self.ledger = Ledger()
        self.calls: list[Call] = []
        self.log: list[tuple[Any, ...]] = []
        self.needs = list(self.task.needs)
        self.known = [False] * len(self.needs)
        self.counts = [0] * size
        self.in_flight = 0
        self.factors = [1.0] * size
        self.banned: set[int] = set()
        self.over = False
        self.void = False
        self.exceeded: str | None = None
        self.grade: Grade | None = None
        self.store = Store(self.needs) if world.writes else None
        # a wish may change while a call for it is on its way: its answer then counts for the old version only
        self.versions = [0] * len(self.needs)
        self._draws = Draws(world._source, seed, number, size)
        # made at a tool's first call: most candidates of a task are never called
        self._chains: list[Chain | None] = [None] * size
        self.running = [0] * size
        self.idle: list[list[float] | None] = [None] * size
        self.windows: list[deque[float] | None] = [None] * size
        self._queue: deque[Call] = deque()
        self.unread: deque[Call | WorldEvent] = deque()
        self._reserved = self._gpu_used = 0.0
        # seconds cannot be refused in advance, so a limit on them ends the episode under every enforcement but `record`
        self._deadline = budget.seconds if enforcement != "record" else None
        outages = world.failures.bursts
        self.bursts = None if outages is None else BurstTimes(outages, self._draws, size)
        if world.events is not None:
            for notice in world.notices(number):
                self._schedule(notice.at_s, self._happen, notice)
            # events at time 0 are part of the start: a reset shows their prices and bans already
            self._reach(0.0)

    # -- time ------------------------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """Simulated seconds since the start."""
        return self.clock._now  # read several times a step, and SimPy's own property is one more call

    def advance(self, seconds: float) -> None:
        """Let time pass. Calls that complete meanwhile are returned by the next `wait`."""
        self._alive()
        self.log.append(("advance", seconds))
        self._advance(seconds)

    def _advance(self, seconds: float) -> None:
        deadline, clock = self._deadline, self.clock
        if deadline is not None and clock.now + seconds > deadline:
            self._reach(deadline)
            if not self.over:
                self._end("seconds")
        elif not clock._queue and seconds >= 0.0:
            # with no event to come nothing happens meanwhile; an event of SimPy takes a microsecond (`benchmarks/tricks.py`)
            clock._now += seconds
        else:
            # a timeout among the other events, so that what happens at the same time keeps the order of its causes
            timeout = clock.timeout(seconds)
            while not timeout.processed and not self.over:
                clock.step()

    def _reach(self, at_s: float) -> None:
        clock = self.clock
        while clock.peek() <= at_s and not self.over:
            clock.step()
        if clock.now < at_s and not self.over:
            clock.run(until=at_s)

    # -- calls -----------------------------------------------------------------------------------------------------------

    def submit(
        self, slot: int, arguments: Mapping[str, Any] | None = None, refusal: Status | None = None, reason: str = ""
    ) -> Call:
        """Start a call of a candidate; it runs while other things happen.

        Args:
            slot: Index of the candidate; -1 for a tool that is not on offer.
            arguments: The agent's arguments; None means the right ones, as far as they can be known by now.
            refusal: Status with which a view or a policy turns the call down (bad arguments, a plan that forbids it).
            reason: The reason for the refusal, in words.

        Returns:
            The call. Its `finished_s` is set if it was refused at once.
        """
        self._alive()
        self.log.append(("submit", slot, arguments, refusal, reason))
        self.ledger.attempts += 1
        if refusal is None and not 0 <= slot < len(self.candidates):
            slot, refusal = -1, Status.UNKNOWN_TOOL
        call = Call(slot, 0, self.now_s, arguments, self.candidates[slot].name if slot >= 0 else "", reason=reason)
        self.calls.append(call)
        if refusal is None:
            refusal = refusal_at_gateway(self, call)
        if refusal is not None:
            call.status = refusal
            self._advance(self.world.gateway_s)
            call.finished_s = self.now_s
            return call
        # from here on the call is admitted: it has its place k among the tool's calls, and with it its luck
        spec = self.candidates[slot]
        self.counts[slot] = call.k = self.counts[slot] + 1
        if spec.need >= 0:
            call.aim = spec.need if len(spec.needs) == 1 else aim(self, spec)
            call.version = self.versions[call.aim]
        call.quote = self.quote(slot)
        self.in_flight += 1
        # `refuse` may not admit two calls that the budget covers only one by one
        self._reserved += call.quote
        if (spec.profile.concurrency and self.running[slot] >= spec.profile.concurrency) or not has_room(self, spec):
            self._queue.append(call)
        else:
            self._start(call, spec)
        return call

    def quote(self, slot: int) -> float:
        """The price that the catalog states for a call now."""
        return self.candidates[slot].quote * self.factors[slot]

    def affordable(self, slot: int) -> bool:
        """Return whether the budget covers a call at its quoted price, beside the calls that are already running."""
        spent, limit = self.spent_and_limit()
        return spent + self.quote(slot) <= limit

    def spent_and_limit(self) -> tuple[float, float]:
        """What is spent, running calls at their quoted prices, and the limit that it may not pass with another call's quote.

        The limit is minus infinity where the number of calls leaves no room.
        """
        budget, ledger = self.budget, self.ledger
        limit = inf if budget.price is None else budget.price
        if budget.calls is not None and ledger.calls + self.in_flight + 1 > budget.calls:
            limit = -inf
        return ledger.price + self._reserved, limit

    def _start(self, call: Call, spec: Candidate) -> None:
        self.running[spec.index] += 1
        self._gpu_used += spec.gpu_mb
        self._schedule(self._run(call, spec), self._complete, call)

    def _schedule(self, delay_s: float, callback: Callable[[Any], None], value: Call | WorldEvent) -> None:
        """Let something happen after a delay; the callback gets the SimPy event, whose `value` is given here."""
        self.clock.timeout(delay_s, value).callbacks.append(callback)

    def _run(self, call: Call, spec: Candidate) -> float:
        """Determine what becomes of a call that starts now; returns the seconds until it ends."""
        slot, now = spec.index, self.now_s
        call.started_s = now
        delay = 0.0
        profile = spec.profile
        if profile.cold_start_s:
            if (idle := self.idle[slot]) is None:
                idle = self.idle[slot] = []
            # the last to finish is the most recently used
            if idle and now - idle[-1] <= profile.keep_alive_s:
                idle.pop()
            else:
                idle.clear()
                call.cold = True
                delay = profile.cold_start_s
        call.ready_s = now + delay
        # the k-th call of a tool has the same luck whatever was called before it
        row = self.draws_of(slot).at(call.k, slot)
        duration = spec.latency_s * spec.factors[int(row[DURATION] * QUANTILES)]
        status = self._outcome(call, spec, row)
        if status is _CONNECTION_ERROR:
            duration = CONNECTION_REFUSED_S
        elif status is _TIMEOUT or duration > profile.timeout_s:
            duration, status = profile.timeout_s, _TIMEOUT
            call.need, call.answer = -1, None
        call.status = status
        if spec.effect is not None and self.store is not None:
            self.store.decide(self, call, spec, row[CONTENT])
        # the price is fixed now; a later price change does not touch this call
        call.factor = self.factors[slot]
        if status is not _OK and not self.world.bill_failures and status >= 32:
            call.price = 0.0
        elif spec.rate_per_s:
            billed = duration + delay if self.world.bill_cold_start else duration
            # a call that lasts exactly its median costs its quote, to the bit
            price = spec.quote if billed == duration == spec.latency_s else spec.fee + spec.rate_per_s * billed
            call.price = call.factor * price
        else:
            call.price = call.factor * spec.fee
        return delay + duration

    def _outcome(self, call: Call, spec: Candidate, row: Sequence[float]) -> Status:
        chain = self._chains[spec.index] or self.chain_of(spec)
        # calls may start in another order than they were admitted, and the chain goes by k
        works = chain.extend(row[OUTCOME]) if len(chain.outcomes) == call.k - 1 else chain.ok(call.k)
        # after the chain has moved: an outage uses the call's luck up
        if self.bursts is not None and self.bursts.model.concerns(spec.name) and self.bursts.cover(call.ready_s):
            return Status.OUTAGE
        if not works:
            return chain.fail(row[KIND])
        need = call.aim
        if call.arguments is None:
            if need < 0:
                return _OK
            after = self.needs[need].after
            if not after or all(self.known[before] for before in after):
                call.need = need
                return _OK
        else:
            # the user may have changed their mind since the call was made; the answer is to what was asked then
            call.answer = self.world.answers.answer(self.world.catalog[spec.number], call.arguments, self.task)
            if call.answer is not None:
                for number in spec.needs:
                    if arguments_match(call.arguments, self.needs[number].arguments):
                        call.need = number
                        if number != need:
                            call.aim, call.version = number, self.versions[number]
                        break
                return Status.OK
        return Status.WRONG_ARGUMENTS if row[CONTENT] < 0.5 else Status.NO_DATA

    def chain_of(self, spec: Candidate) -> Chain:
        """The hidden state of a candidate, which decides how each of its calls ends; it is drawn when it is first asked for."""
        slot, world = spec.index, self.world
        if (chain := self._chains[slot]) is None:
            chain = self._chains[slot] = start_chain(
                self.draws_of(slot), slot, spec.profile.reliability, world.failures, world.kinds, spec.slip, spec.persistence
            )
        return chain

    def _complete(self, event: Any) -> None:
        call: Call = event.value
        spec = self.candidates[call.slot]
        call.finished_s = self.now_s
        free(self, call, True)
        # before the budget is looked at: a completion that ends the episode is still reported
        self.unread.append(call)
        if spec.effect is not None and self.store is not None:
            self.store.settle(self, call, spec)
        if call.need >= 0 and call.version == self.versions[call.need]:
            self.known[call.need] = True
        self.ledger.charge(call.finished_s, call.tool, call.price, 0, 1)
        self._go_on()

    def _go_on(self) -> None:
        """End the episode where a charge has passed a limit; else start what can start now."""
        if self.enforcement != "record" and (exceeded := self.ledger.exceeded(self.budget, 0.0)):
            self._end(exceeded)
        if self._queue and not self.over:
            self._start_waiting()

    def _start_waiting(self) -> None:
        # the calls that still wait are queued again in their order, since each may block those behind it
        waiting, self._queue = self._queue, deque()
        for call in waiting:
            spec = self.candidates[call.slot]
            most = spec.profile.concurrency
            blocked = most and (self.running[call.slot] >= most or any(other.slot == call.slot for other in self._queue))
            if blocked or not has_room(self, spec):
                self._queue.append(call)
            else:
                self._start(call, spec)

    def wait(self) -> Call | WorldEvent | None:
        """Go to the next completion or visible event. Returns None if nothing is in flight or the episode ends before."""
        self._alive()
        self.log.append(("wait",))
        unread, clock, deadline = self.unread, self.clock, self._deadline
        if not self.can_wait:
            return None
        while not unread:
            if deadline is not None and clock.peek() > deadline:
                self._reach(deadline)
                self._end("seconds")
                return None
            clock.step()
        return unread.popleft()

    @property
    def can_wait(self) -> bool:
        """A call is in flight, or something that has happened is unread, so that `wait` goes somewhere."""
        return self.in_flight > 0 or bool(self.unread)

    def notices(self) -> list[WorldEvent]:
        """Visible events that no `wait` has returned yet. Completed calls stay for later waits."""
        if found := [news for news in self.unread if isinstance(news, WorldEvent)]:
            self.unread = deque(news for news in self.unread if not isinstance(news, WorldEvent))
            self.log.append(("notices",))
        return found

    def call(self, slot: int, arguments: Mapping[str, Any] | None = None) -> Call:
        """Submit a call and wait until it has ended; other completions stay for later waits."""
        return self.settle(self.submit(slot, arguments))

    def cancel(self, call: Call) -> None:
        """Cut off a call that is in flight. That takes no time, and bills what the call has used; see rule 8 of `world`."""
        self._alive()
        self.log.append(("cancel", self.calls.index(call)))
        cancel(self, call)
        self._go_on()

    def settle(self, call: Call) -> Call:
        """Wait until a submitted call has ended."""
        if not self.over and (call.finished_s < 0 or call in self.unread):
            self.log.append(("settle", len(self.calls) - 1 if self.calls[-1] is call else self.calls.index(call)))
            deadline, clock = self._deadline, self.clock
            while call.finished_s < 0 and not self.over:
                if deadline is not None and clock.peek() > deadline:
                    self._reach(deadline)
                    self._end("seconds")
                else:
                    clock.step()
        if call in self.unread:
            self.unread.remove(call)
        return call

    # -- events ----------------------------------------------------------------------------------------------------------

    def _happen(self, event: Any) -> None:
        if happen(self, event.value):
            self.unread.append(event.value)

    # -- thinking and the end ---------------------------------------------------------------------------------------------

    def think(self, usage: Usage) -> None:
        """Charge a model's tokens, and move the clock by the time that they take."""
        self._alive()
        self.log.append(("think", usage))
        world = self.world
        self._advance(world.thinking_s(usage))
        if self.over:
            return
        price = 0.0
        if world.tokens is not None:
            price = float(world.tokens.price(usage.input_tokens, usage.output_tokens, usage.cached_tokens))
        self.ledger.charge(self.now_s, "think", price, usage.input_tokens + usage.output_tokens)
        self._go_on()

    def finish(self, answer: str | None = None, gave_up: bool = False) -> Grade:
        """End the episode with an answer.

        Args:
            answer: The final text; None means an answer that holds every fact found so far.
            gave_up: The agent gives up instead of answering.

        Returns:
            The grade of the answer. Whether the budget was kept does not enter it.
        """
        self._alive()
        self.log.append(("finish", answer, gave_up))
        found, precision = read_facts(self.needs, self.known, answer, self.task.query)
        met, clean = (found, True) if self.store is None else self.store.met(self.needs, found)
        required = [each for each, need in zip(met, self.needs, strict=True) if need.required]
        # the judge's luck belongs to the episode, so that agents with the same facts get the same verdict
        luck = self._draws.at(0, self._draws.slots - 1)[KIND]
        self.grade = self.world.judge.grade(required, luck, self.task.solvable, gave_up, precision, clean)
        self._end(None)
        return self.grade

    def _end(self, exceeded: str | None) -> None:
        self.over = True
        cut_off(self)
        self.clock._queue.clear()  # nothing happens any more; and the events' callbacks hold on to the episode
        self.exceeded = exceeded or self.ledger.exceeded(self.budget, self.now_s)
        if self.grade is None:
            self.grade = Grade(0.0, False, False)

    def _alive(self) -> None:
        if self.over:
            raise EpisodeOver("the episode has ended; begin a new one (env.reset) before the next action")

    def draws_of(self, slot: int) -> Draws:
        """The uniforms that decide what becomes of the calls of a slot."""
        return self._draws

    def offer(self, numbers: Sequence[int]) -> list[Candidate]:
        """Offer more tools, by their numbers in the catalogue; only worlds with a retriever do (`retrieval.retriever`)."""
        raise NotImplementedError

    # -- views -----------------------------------------------------------------------------------------------------------

    def content(self, call: Call) -> str:
        """The text that the agent reads of a call that has ended: the tool's answer, or an error in words."""
        return content(self, call)

    def write_figures(self) -> WriteFigures:
        """The figures of the present state, as if it were the final one; see `writes.WriteFigures`."""
        return WriteFigures() if self.store is None else self.store.figures(self.needs)

    def remaining(self) -> dict[str, float]:
        """Return what is left of each limited resource; negative once it is overspent."""
        ledger = self.ledger
        spent = {"price": ledger.price, "seconds": self.now_s, "tokens": ledger.tokens, "calls": ledger.calls}
        return {name: limit - spent[name] for name, limit in self.budget.items()}

    @property
    def success(self) -> bool:
        """The answer holds every fact, and the budget was kept."""
        return self.grade is not None and self.grade.strict and self.exceeded is None

    def fork(self) -> "Episode":
        """An independent copy in the same state, made by replaying the log."""
        copy = type(self)(self.world, self.number, self.seed, self.budget, self.enforcement)
        copy.replay(self.log)
        return copy

    def replay(self, log: Sequence[tuple[Any, ...]]) -> None:
        """Play the actions of a recorded log."""
        replay(self, log)

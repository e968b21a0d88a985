"""Play one task on one simulated clock, by the rules that `world` states; `rules` plays them."""

import inspect
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np

from costgym.simulators.calls import Call, Candidate, Prompt, Usage, WorldEvent
from costgym.simulators.clock import Clock, now_of
from costgym.simulators.draws import CONTENT, Draws, stable_generator, stable_integer
from costgym.simulators.errors import ConfigError, EpisodeOver
from costgym.simulators.failures import BurstTimes
from costgym.simulators.grading import read_facts
from costgym.simulators.ledger import RESOURCES, Budget, Enforcement, Ledger
from costgym.simulators.pricing.prompt_cache import PrefixCache
from costgym.simulators.rules import actions, calls, events, layout, writes
from costgym.simulators.rules.failures import UNSEEN, wake
from costgym.simulators.rules.gateway import RATE_LIMITED, spent_and_limit
from costgym.simulators.rules.records import ToolState
from costgym.simulators.status import Status
from costgym.simulators.tasks import Grade, Task, arguments_match
from costgym.simulators.world.contents import content
from costgym.simulators.world.data import WorldData
from costgym.simulators.world.redraw import redraw_outages, redraw_tool
from costgym.simulators.world.writes import Store, WriteFigures


class Episode:
    """A task played on one simulated clock.

    `submit` starts a call, `wait` goes to the next completion, `call` does both, `think` charges a model's tokens, `finish`
    grades an answer. The same actions lead to the same state, so `fork` (a replay of the log) is exact.

    Args:
        world: The world that it plays in.
        number: The task's number.
        seed: Keys all chance in the episode.
        budget: What may be spent.
        enforcement: What passing a limit does; see rule 11 of `world`.

    Attributes:
        clock: SimPy's environment.
        rules: The world's scalars under the budget.
        tools: What was remembered of each candidate; None for one that was never called.
        flying: The calls that run, load or wait for their turn, in the order of submission.
        prompts: The cache of prompts; None where nothing is cached.
        unread: Ended calls and visible events that no `wait` has returned yet.
        versions: How often each need has changed.

    Raises:
        EpisodeOver: An action came after the end.
    """

    # fmt: off
    __slots__ = (
        "_draws", "_next_end", "_reacting", "banned", "budget", "bursts", "calls", "candidates", "clock", "down", "enforcement",
        "exceeded", "factors", "flying", "gpu_used", "grade", "held", "known", "ledger", "log", "needs", "number", "over",
        "prompts", "reserved", "rules", "seed", "store", "task", "tools", "unread", "versions", "void", "waiting", "world",
    )
    # fmt: on

    def __init__(self, world: WorldData, number: int, seed: int, budget: Budget, enforcement: Enforcement) -> None:
        self.world, self.number, self.seed, self.budget, self.enforcement = world, number, seed, budget, enforcement
        self.task: Task = world.tasks[number]
        self.candidates = world.candidates(number)
        size = len(self.candidates)
        self.rules = world.rules(budget, enforcement)
        self.clock = Clock()
        self.ledger = Ledger()
        prices = world.tokens
        self.prompts = None if prices is None or prices.cache is None else PrefixCache(prices)
        self.calls: list[Call] = []
        self.log: list[tuple[Any, ...]] = []
        self.needs = list(self.task.needs)
        self.known: list[bool] = [need.given for need in self.needs]
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
        self.tools: list[ToolState | None] = [None] * size
        self.flying: list[Call] = []
        self.waiting = 0  # of those, the calls that wait for their turn
        self.unread: deque[Call | WorldEvent] = deque()
        self.reserved = 0.0  # quotes of the calls in flight
        self.gpu_used = [0.0]  # a list, as rules find it in an array of episodes
        outages = world.failures.bursts
        self.bursts = None if outages is None else BurstTimes(outages, self._draws, size)
        # what processes do: slots of the machine and tools that they hold or take down, and whom they wait for
        self.held, self.down = 0, set[int]()
        self._next_end: Any = None
        self._reacting = False
        for notice in world.notices(number):
            self.schedule(notice.at_s, notice)
        for make in world.processes:
            self.clock.process(make(self))
        if world.events is not None or world.processes:
            # what happens at time 0 is part of the start: a reset shows its prices and bans already
            layout.reach(self, self.rules, self, 0, 0.0)

    def __reduce__(self) -> tuple[Any, ...]:
        # SimPy's events cannot be pickled; the same actions lead to the same state
        return _replayed, (type(self), self.world, self.number, self.seed, self.budget, self.enforcement, self.log)

    # -- time ------------------------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """Simulated seconds since the start."""
        return now_of(self)

    def advance(self, seconds: float) -> None:
        """Let time pass. Calls that complete meanwhile are returned by the next `wait`."""
        self._alive()
        self.log.append(("advance", seconds))
        self._advance(seconds)

    def _advance(self, seconds: float) -> None:
        actions.advance(self, self.rules, self, 0, seconds)

    def schedule(self, delay_s: float, notice: WorldEvent) -> None:
        """Let an event happen after a delay."""
        self.clock.timeout(delay_s, notice).callbacks.append(self._happen)

    def _happen(self, event: Any) -> None:
        events.happen(self, self, 0, event.value)

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
            status = actions.submit(self, self.rules, self, 0, slot)
            if status < 0:
                return call
            refusal = status
            if status is RATE_LIMITED:
                call.retry_after_s = self.tools[slot].admitted[0] + self.candidates[slot].window_s - call.submitted_s  # type: ignore[union-attr]
        else:
            actions.refuse(self, self.rules, self, 0)
        call.status, call.finished_s = refusal, self.now_s
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
        strict = self.rules if self.rules.refuse else self.world.rules(self.budget, "refuse")
        spent, limit = spent_and_limit(strict, self)
        return spent, limit

    def end_call(self, event: Any) -> None:
        """Let a call end; SimPy hands its event over."""
        call: Call = event.value
        call.timer = None
        calls.complete(self, self.rules, self, 0, call)
        if self.store is not None and call.status is Status.OK:
            # put into words what it has told of an effect
            self.store.describe(call, self.candidates[call.slot], self.needs)
        if self._next_end is not None:
            self._announce_end(call)

    def _announce_end(self, call: Call) -> None:
        if not self.over:
            waited_for, self._next_end, self._reacting = self._next_end, None, True
            waited_for.succeed(call)

    def _react(self) -> None:
        """Let processes that waited for a call's end do what they do then, before the agent goes on."""
        self._reacting = False
        layout.reach(self, self.rules, self, 0, self.now_s)

    def find_answer(self, call: Call, spec: Candidate) -> bool:
        """Return whether a working tool has an answer to a call's arguments; notes the need whose fact it brings."""
        assert call.arguments is not None
        # the user may have changed their mind since the call was made; the answer is to what was asked then
        call.answer = self.world.answers.answer(self.world.catalog[spec.number], call.arguments, self.task)
        if call.answer is None:
            return False
        for number in spec.needs:
            if arguments_match(call.arguments, self.needs[number].arguments):
                call.need = number
                if number != call.aim:
                    call.aim, call.version = number, self.versions[number]
                break
        return True

    def in_outage(self, spec: Candidate, at_s: float) -> bool:
        """Return whether a call of a tool that starts at a time falls into an outage."""
        if spec.index in self.down:
            return True
        return self.bursts is not None and self.bursts.model.concerns(spec.name) and self.bursts.cover(at_s)

    def add_tool(self, slot: int) -> ToolState:
        """Begin to remember a candidate."""
        tool = self.tools[slot] = ToolState(self.candidates[slot].rate_limit)
        return tool

    def hidden_state(self, spec: Candidate) -> ToolState:
        """What decides how a candidate's calls end, as an agent cannot know; a copy, of before its next call."""
        tool = ToolState(0)
        known = self.tools[spec.index]
        if known is not None and known.chain != UNSEEN:
            tool.chain, tool.usual, tool.started, tool.works = known.chain, known.usual, known.started, known.works
        else:
            u_state, u_usual, _, _ = self.draws_of(spec.index).at(0, spec.index)
            wake(self, self, spec, tool, u_state, u_usual)
        return tool

    @property
    def in_flight(self) -> int:
        """The number of calls that run, load or wait for their turn."""
        return len(self.flying)

    def admitted(self, slot: int) -> int:
        """Admitted calls of a candidate."""
        tool = self.tools[slot]
        return 0 if tool is None else tool.count

    @property
    def counts(self) -> list[int]:
        """Admitted calls of each candidate."""
        return [0 if tool is None else tool.count for tool in self.tools]

    @property
    def running(self) -> list[int]:
        """Calls of each candidate that load or run."""
        return [0 if tool is None else tool.busy for tool in self.tools]

    def wait(self) -> Call | WorldEvent | None:
        """Go to the next completion or visible event. Returns None if nothing is in flight or the episode ends before."""
        self._alive()
        self.log.append(("wait",))
        news: Call | WorldEvent | None = actions.wait(self, self.rules, self, 0)
        if self._reacting:
            self._react()
        return news

    @property
    def can_wait(self) -> bool:
        """A call is in flight, or something that has happened is unread, so that `wait` goes somewhere."""
        return bool(self.flying or self.unread)

    def notices(self) -> list[WorldEvent]:
        """Visible events that no `wait` has returned yet. Completed calls stay for later waits."""
        if notices := [news for news in self.unread if isinstance(news, WorldEvent)]:
            self.unread = deque(news for news in self.unread if not isinstance(news, WorldEvent))
            self.log.append(("notices",))
        return notices

    def call(self, slot: int, arguments: Mapping[str, Any] | None = None) -> Call:
        """Submit a call and wait until it has ended; other completions stay for later waits."""
        return self.settle(self.submit(slot, arguments))

    def cancel(self, call: Call) -> None:
        """Cut off a call that is in flight. That takes no time, and bills what the call has used; see rule 8 of `world`."""
        self._alive()
        self.log.append(("cancel", self.calls.index(call)))
        actions.cancel(self, self.rules, self, 0, call)

    def settle(self, call: Call) -> Call:
        """Wait until a submitted call has ended."""
        if not self.over and (call.finished_s < 0 or call in self.unread):
            self.log.append(("settle", len(self.calls) - 1 if self.calls[-1] is call else self.calls.index(call)))
            while call.finished_s < 0 and not self.over:
                if self.clock.peek() > self.rules.deadline_s:
                    actions.run_out(self, self.rules, self, 0)
                else:
                    self.clock.step()
            if self._reacting:
                self._react()
        if call in self.unread:
            self.unread.remove(call)
        return call

    # -- processes of a user ---------------------------------------------------------------------------------------------

    def process(self, make: Callable[["Episode"], Generator[Any, Any, Any]]) -> Any:
        """Let a process of SimPy run beside the calls: a rival tenant, an outage of one's own, a price that moves.

        Forks and replays start it again, so all chance in it has to come from `random`. Scenarios name theirs in a file.

        Args:
            make: A generator function of the episode. What it yields are events of `clock`, or `next_end()`.

        Returns:
            SimPy's process.
        """
        self._alive()
        if not inspect.isgeneratorfunction(make):
            raise ConfigError("process", f"expected a generator function that takes the episode, got {make!r:.60}")
        self.log.append(("process", make))
        begun = self.clock.process(make(self))
        layout.reach(self, self.rules, self, 0, self.now_s)  # it begins before anything else is done
        return begun

    def random(self, *names: object) -> np.random.Generator:
        """A generator of random numbers for a process. It depends on the episode's seed and task, and on the names alone."""
        return stable_generator(self.seed, "process", self.number, *names)

    def change(self, event: WorldEvent) -> None:
        """Let an event happen now, from within a process."""
        events.happen(self, self, 0, event)

    def hold(self, slot: int | None = None) -> None:
        """Take a slot of a candidate, or of the machine for None, from within a process. Calls that run go on."""
        if slot is None:
            self.held += 1
        else:
            layout.tool(self, 0, slot).held += 1

    def release(self, slot: int | None = None) -> None:
        """Give back a slot that was taken by `hold`, and start calls that waited for it."""
        holder = self if slot is None else layout.tool(self, 0, slot)
        if not holder.held:
            raise ConfigError("release", "expected a slot that is held; call hold() before")
        holder.held -= 1
        if self.waiting:
            calls.start_waiting(self, self.rules, self, 0)

    def take_down(self, *slots: int) -> None:
        """Begin an outage of candidates (of all, where none is named): calls that start in it fail."""
        self.down.update(slots or range(len(self.candidates)))
        if not self.rules.burst_every_s:  # rules look for outages only where there may be some
            self.rules = self.rules._replace(burst_every_s=inf)

    def bring_up(self, *slots: int) -> None:
        """End an outage that `take_down` began."""
        self.down.difference_update(slots or range(len(self.candidates)))

    def next_end(self) -> Any:
        """An event of SimPy that happens when the next call ends; its value is the call."""
        if self._next_end is None:
            self._next_end = self.clock.event()
        return self._next_end

    # -- thinking and the end ---------------------------------------------------------------------------------------------

    def think(self, usage: Usage) -> None:
        """Charge a model's tokens, and move the clock by the time that they take."""
        self._alive()
        self.log.append(("think", usage))
        world = self.world
        if self.prompts is not None and usage.prompt is not None:
            usage = self._counted(self.prompts, usage, usage.prompt)
        self.ledger.usages.append(usage)
        self._advance(world.thinking_s(usage))
        if self.over:
            return
        price = 0.0 if world.tokens is None else world.tokens.price(usage)
        self.ledger.charge(self.now_s, "think", price, usage.input_tokens + usage.output_tokens)
        calls.go_on(self, self.rules, self, 0)

    def _counted(self, prompts: PrefixCache, usage: Usage, prompt: Prompt) -> Usage:
        """A request with what of its prompt the cache serves now; tokens beyond those of the prompt's parts are new."""
        counted = prompts.bill(prompt.parts, self.now_s, same=prompt.same, marks=prompt.marks)
        cached = min(counted.cached_tokens, usage.input_tokens)
        written = min(counted.cache_write_tokens, usage.input_tokens - cached)
        return usage._replace(cached_tokens=cached, cache_write_tokens=written, prompt=None)

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
        stated, precision = read_facts(self.needs, self.known, answer, self.task.query)
        met, clean = self.needs_met(stated)
        required = [is_met for is_met, need in zip(met, self.needs, strict=True) if need.required]
        self.grade = self.world.judge.grade(
            required, layout.judge_luck(self, self), self.task.solvable, gave_up, precision, clean
        )
        calls.end(self, self.rules, self, 0, 0)
        return self.grade

    def needs_met(self, stated: Sequence[bool]) -> tuple[list[bool], bool]:
        """For each need whether the state and, where asked for, what an answer has `stated` meet it; and whether no effect is
        there twice, and none that nobody wants."""
        if self.store is None:
            return list(stated), True
        met = [bool(writes.need_met(self, self, 0, need, is_stated)) for need, is_stated in enumerate(stated)]
        return met, bool(writes.is_clean(self, self, 0))

    def close(self, passed: int) -> None:
        """Note the end of the episode, and the number of the limit that ended it; 0 for none."""
        self.flying.clear()
        self.clock.clear()
        self.exceeded = RESOURCES[passed - 1] if passed else None
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

    def redraw(self, seed: int) -> None:
        """Let chance after this moment follow from another seed. The seed is hashed with the episode's, so equal seeds of two
        episodes have nothing in common."""
        self.log.append(("redraw", seed))
        drawn = stable_integer(seed, "redraw", self.seed, self.number)
        self._draws = draws = Draws(self.world._source, drawn, self.number, len(self.candidates))
        for spec in self.candidates:
            redraw_tool(layout.tool(self, 0, spec.index), spec, self.calls, self.world.failures, draws)
        if self.bursts is not None:
            self.bursts = redraw_outages(self.bursts, self.now_s, draws)

    # -- views -----------------------------------------------------------------------------------------------------------

    def content(self, call: Call) -> str:
        """The text that the agent reads of a call that has ended: the tool's answer, or an error in words."""
        if call.slot < 0:
            return content(self.world, self.task, self.needs, call, None, 0.0)
        luck = self.draws_of(call.slot).at(call.k, call.slot)[CONTENT]
        return content(self.world, self.task, self.needs, call, self.candidates[call.slot], luck)

    def write_figures(self) -> WriteFigures:
        """The figures of the present state, as if it were the final one; see `writes.WriteFigures`."""
        return WriteFigures() if self.store is None else WriteFigures(*writes.figures(self, self, 0))

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
        for action, *arguments in log:
            if action in ("settle", "cancel"):
                arguments = [self.calls[arguments[0]]]
            getattr(self, action)(*arguments)


def _replayed(kind: type[Episode], *arguments: Any) -> Episode:
    """An episode in the state to which the actions of a log have led."""
    *of, log = arguments
    episode = kind(*of)
    episode.replay(log)
    return episode

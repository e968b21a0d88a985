"""Play a session: queries one after the other on one clock, one ledger, and the same instances, windows and quotas."""

from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Any

from costgym.simulators.calls import Call, Candidate
from costgym.simulators.draws import KIND, Draws
from costgym.simulators.failures import Bursts, BurstTimes
from costgym.simulators.ledger import Budget, Enforcement
from costgym.simulators.pricing.prompt_cache import PER_DOLLAR, USUAL, in_currency
from costgym.simulators.rules import actions, calls, layout
from costgym.simulators.rules import sessions as book
from costgym.simulators.rules.failures import pick
from costgym.simulators.rules.limits import Rules
from costgym.simulators.sessions.draw import Session, draw_session
from costgym.simulators.sessions.informed import limits
from costgym.simulators.sessions.redraw import redraw_session
from costgym.simulators.sessions.rules import SessionRules, rules_of
from costgym.simulators.tasks import Grade, Need, OnlyTask, Task
from costgym.simulators.tools import Catalog, Tool
from costgym.simulators.world import World
from costgym.simulators.world.episode import Episode


class _NoAnswers:
    """What the tools return: a record without content. A session is played in numbers."""

    def answer(self, tool: Tool, arguments: Any, task: Task, luck: float = 0.0) -> str:
        return "{}"

    irrelevant = answer


@dataclass(frozen=True)
class SessionWorld(World):
    """The world of one session."""

    session: Session | None = None  # as drawn

    def rules(self, budget: Budget, enforcement: Enforcement) -> Rules:
        assert self.session is not None
        drawn = self.session.rules
        return (
            super().rules(budget, enforcement)._replace(burst_every_s=drawn.outage_every_s, burst_lasts_s=drawn.outage_lasts_s)
        )

    def episode(
        self, task: int, seed: int = 0, budget: Budget | None = None, enforcement: Enforcement = "refuse"
    ) -> "SessionEpisode":
        """Begin the session on a fresh clock. Without a budget, the session's own limits hold."""
        assert self.session is not None
        if budget is None:
            price, seconds = limits(self.session)
            budget = Budget(price=price, seconds=seconds)
        return SessionEpisode(self, task, seed, budget, enforcement)


def session_world(rules: SessionRules, number: int) -> SessionWorld:
    """The world of a session, made once."""
    return _world(rules.document, number)


@lru_cache(maxsize=64)
def _world(document: str, number: int) -> SessionWorld:
    rules = rules_of(document)
    session = draw_session(rules, number)
    names = tuple(tool.name for tool in session.tools)
    offers = session.offers.tolist()
    needs = tuple(
        Need(f"kind {kind + 1}", tuple(name for name, of in zip(names, offers, strict=True) if of == kind))
        for kind in range(rules.capabilities)
    )
    about = f"A session of {rules.queries} queries over {rules.tools} tools."
    task = Task(f"session-{number}", number, about, needs, names)
    return SessionWorld(
        catalog=Catalog(session.tools, "session"),
        tasks=OnlyTask(task),
        answers=_NoAnswers(),
        failures=rules.failures,
        ttft_s=0.0,  # words take no time, so that the text view and the numbers agree
        tokens_per_s=inf,
        tokens=in_currency(USUAL, PER_DOLLAR["credits"]) if rules.world else None,
        max_price=float(session.value.sum()),
        session=session,
    )


class SessionEpisode(Episode):
    """A session played on one simulated clock. A call that brings the present query's fact passes it, and the next one begins.

    Calls may run side by side, and past the query that they were made for: what they bring is remembered.
    """

    __slots__ = (
        "_outages", "began", "called", "checked_s", "lasted_s", "memory", "passed", "price_factors", "query", "session",
        "states", "value",
    )  # fmt: skip

    world: SessionWorld

    def __init__(self, world: SessionWorld, number: int, seed: int, budget: Budget, enforcement: Enforcement) -> None:
        super().__init__(world, number, seed, budget, enforcement)
        assert world.session is not None
        self.session = session = world.session
        rules, size = session.rules, len(self.candidates)
        # the slots after the tools' belong to the providers, whose outages their tools share
        self._draws = draws = Draws(world._source, seed, number, size + rules.providers)
        for spec in self.candidates:
            layout.tool(self, 0, spec.index).usual = pick(self, self, draws.at(0, spec.index)[KIND])
        outages = Bursts(every_s=rules.outage_every_s, lasts_s=rules.outage_lasts_s)
        self._outages = [BurstTimes(outages, draws, size + provider) for provider in range(rules.providers)]
        self.memory: dict[int, tuple[float, int]] = {}  # facts that were found: when, simulated seconds, and for which query
        self.checked_s: dict[int, float] = {}  # when each of them was last known to be right
        self.lasted_s = [0.0] * size  # for each tool the seconds of its calls that have ended
        self.passed: list[bool] = []  # for each query that is over
        self.began: list[int] = []  # for each query so far the number of calls that were made before it
        self.value = 0.0  # of the queries that passed
        self.query = self.called = 0  # the present query and executed calls for it; the number of queries once all are over
        self.see(session)
        book.begin_query(self, self, 0)

    def see(self, session: Session) -> None:
        """Play by a session as it is drawn."""
        self.session = session
        # lists, which rules read entry by entry
        self.states, self.price_factors = session.states.tolist(), session.factors.tolist()

    def open_query(self) -> None:
        """Forget what the last query has found."""
        self.began.append(len(self.calls))
        self.known = [False] * self.session.rules.capabilities
        self.versions = [self.query] * self.session.rules.capabilities  # a call's version is the query that it was made for

    def close_query(self, passed: bool) -> None:
        """Count the present query's value if it has passed, and go to the next one."""
        self.passed.append(passed)
        if passed:
            self.value += float(self.session.value[self.query])
        self.query += 1
        self.called = 0

    @property
    def capability(self) -> int:
        """What the present query needs."""
        return int(self.session.capability[self.query])

    @property
    def remembered_s(self) -> float | None:
        """Age of the fact that the present query asks for, simulated seconds; None where it is not in memory."""
        memory = self.memory.get(int(self.session.fact[self.query])) if self.query < self.session.rules.queries else None
        return None if memory is None else self.now_s - memory[0]

    def recall(self) -> bool:
        """Answer the present query from memory, and go on; return whether the fact was alive. One that was not is forgotten."""
        self._alive()
        self.log.append(("recall",))
        return bool(book.recall(self, self.rules, self, 0))

    def skip(self) -> None:
        """Leave the present query, and go to the next one."""
        self._alive()
        self.log.append(("skip",))
        book.end_query(self, self.rules, self, 0, False)

    def in_outage(self, spec: Candidate, at_s: float) -> bool:
        return spec.index in self.down or self._outages[int(self.session.provider[spec.index])].cover(at_s)

    def end_call(self, event: Any) -> None:
        event.value.timer = None
        book.complete_in_session(self, self.rules, self, 0, event.value)
        if self._next_end is not None:
            self._announce_end(event.value)

    def redraw(self, seed: int) -> None:
        self.log.append(("redraw", seed))
        redraw_session(self, seed)

    # -- calls side by side ----------------------------------------------------------------------------------------------

    def pause(self, seconds: float) -> Call | None:
        """Go to the next end of a call, for so many seconds at most; return that call, None where no call ends by then."""
        self._alive()
        self.log.append(("pause", seconds))
        ended = book.pause(self, self.rules, self, 0, seconds)
        if self._reacting:
            self._react()
        return ended if isinstance(ended, Call) else None

    def oldest(self, slot: int) -> Call | None:
        """The oldest call of a tool that is in flight, which is the one to cancel; None where none is."""
        call: Call | None = actions.oldest(self, 0, slot)
        return call

    def _advance(self, seconds: float) -> None:
        # thinking takes no time here, so that it must not let calls end that end at this very moment: in numbers they would not
        if seconds > 0.0:
            super()._advance(seconds)

    # -- value and end ---------------------------------------------------------------------------------------------------

    @property
    def value_share(self) -> float:
        """Value of the queries that passed, as a share of all."""
        return self.value / float(self.session.value.sum())

    def finish(self, answer: str | None = None, gave_up: bool = False) -> Grade:
        """End the session; the queries that are left are lost."""
        self._alive()
        self.log.append(("finish", answer, gave_up))
        calls.end(self, self.rules, self, 0, 0)
        assert self.grade is not None
        return self.grade

    def close(self, passed: int) -> None:
        good = self.value_share >= self.session.rules.success_share
        self.grade = Grade(self.value_share, good, good)
        super().close(passed)

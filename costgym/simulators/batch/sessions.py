"""Sessions in a batch: rule 14 of `world` around the kernels of a call, as `sessions.episode` plays it for one in Python.

Every episode plays a session of its own, whose catalogue is drawn when it begins, so row i of the tables belongs to episode i.
Kernels draw sessions of version 1, and what moves between queries when the query has come; others are drawn in Python before.
Prices hold for a query: the present ones stand in the tables' only epoch, and a call in flight keeps its own in its bill.
"""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.batch import kernels as world
from costgym.simulators.batch import records
from costgym.simulators.batch.compile import compiled_form
from costgym.simulators.batch.memory import clear_row, record_at, record_in, record_type
from costgym.simulators.batch.rng import inlined, internal, uniforms
from costgym.simulators.batch.state import LARGE, Batch, State, _wider
from costgym.simulators.batch.tables import EFFECT, SLOT, Tables, kind_rows, replaced
from costgym.simulators.calls import latency_factors
from costgym.simulators.ledger import Budget, Enforcement
from costgym.simulators.rules import actions, calls, events, failures, gateway, session_draws, writes
from costgym.simulators.rules import sessions as session_rules
from costgym.simulators.rules.limits import Rules, make_rules
from costgym.simulators.sessions.draw import Session, draw_session
from costgym.simulators.sessions.episode import session_world
from costgym.simulators.sessions.informed import limits
from costgym.simulators.sessions.plan import FACTORS, SPREADS, TIMEOUT_S, WINDOW_S, plan_record
from costgym.simulators.sessions.rules import SessionRules
from costgym.simulators.status import Status

CANCELLED = int(Status.CANCELLED)
PROGRESS = record_type(
    [("value", np.float64), ("number", np.int64)] + [(name, np.int32) for name in ("query", "called", "facts", "moves_at")]
)
"""An episode's session: the value of the queries that passed, its number, the present query, the calls made for it, the number
of facts in memory, and the next query at which a tool or a price moves."""
DRIFT = record_type(
    [(name, np.float64) for name in ("alive", "half")]
    + [(name, np.int32) for name in ("regime_at", "price_at", "regimes", "prices")]
)
"""How a tool moves: the edges of its states among uniforms, the queries at which its state and its price move next, and how
often they have moved."""
HIGHEST_RATE_LIMIT = 10  # calls a window that a drawn tool admits
_ONE = np.uint64(1)
_book = compiled_form(
    (actions, calls, events, failures, gateway, session_draws, session_rules, writes),
    records,
    {calls.complete: session_rules.complete_in_session},  # a call that ends here may pass a query
)
_submit, refuse, cancel, wait = (vars(_book["actions"])[name] for name in ("submit", "refuse", "cancel", "wait"))
begin_query, end_query, recall, pause = (
    vars(_book["sessions"])[name] for name in ("begin_query", "end_query", "recall", "pause")
)
draw_query, draw_tool, first_regime, first_price, session_limits = (
    vars(_book["session_draws"])[name] for name in ("query", "tool", "regime", "price", "limits")
)


class Sessions(NamedTuple):
    """N sessions of Q queries over M tools, as drawn, and what the episodes that play them remember."""

    # capability, fact: (N, Q) as in `sessions.draw.Session`
    capability: NDArray[np.int8]
    fact: NDArray[np.int16]
    # value, lives_s: (N, Q) likewise
    value: NDArray[np.float64]
    lives_s: NDArray[np.float64]
    # (N, Q, M) state of each tool, and 4 times the number of the factor on its price; (N, 1, M), of the present query, where
    # sessions are drawn as they are played, and then `lives_s` is not used
    regimes: NDArray[np.uint8]
    fees: NDArray[np.float64]  # (N, M) prices without factors
    quota: NDArray[np.int32]  # (N, M) calls that each admits in a session; 0 for any number
    # offers, provider: (N, M); -1 in slots without a tool
    offers: NDArray[np.int8]
    provider: NDArray[np.int8]
    total: NDArray[np.float64]  # (N,) value of all queries
    limits: NDArray[np.float64]  # (N, 2) on price and seconds
    # found_s, found_for: (N, Q) when each fact that is in memory was found, and for which query; -1 where it is not
    found_s: NDArray[np.float64]
    found_for: NDArray[np.int16]
    checked_s: NDArray[np.float64]  # (N, Q) when each fact in memory was last known to be right
    lasted_s: NDArray[np.float64]  # (N, M) seconds of each tool's calls that have ended
    progress: NDArray[np.void]  # (N,) `PROGRESS`
    drifts: NDArray[np.void]  # (N, M) `DRIFT`
    adverts: NDArray[
        np.float64
    ]  # (N, M, 2) advertised chance of success and seconds, where sessions are drawn as they are played
    factors: NDArray[np.float64]  # (5,) that a change sets on a price
    plan: NDArray[np.void]  # (1,) the rules as numbers, see `sessions.plan`
    drawn: bool  # sessions are drawn in Python before they begin
    shares: bool  # the limits are each session's own


SessionState: Any = namedtuple("SessionState", (*State._fields, "sessions"))
"""The arrays of N episodes of which each plays a session."""


class SessionBatch(Batch):
    """N episodes of the drawn `sessions`, under one `budget` for all or, where it is None, each session's own, with at most
    `at_once` calls in flight, or any number where that is None, and at most `most` calls in an episode."""

    state: Any  # a `SessionState`

    def __init__(
        self, rules: SessionRules, count: int, budget: Budget | None, enforcement: Enforcement, at_once: int | None, most: int
    ) -> None:
        self.world, self.count, self.at_once, self.most, self.numbers = session_world(rules, 0), count, at_once, most, []
        self.session_rules, self._budget = rules, budget
        # with seconds limited, a call may be cut off while it loads, and then costs nothing
        self.rules = make_rules(self.world, budget or Budget(), enforcement)._replace(
            burst_every_s=rules.outage_every_s, burst_lasts_s=rules.outage_lasts_s
        )
        n, q, m, room = count, rules.queries, rules.tools, self._first_room()
        drawn = rules.world == 0 or rules.scenario is not None
        self.tables = _empty_tables(self.world, rules, n)
        self.sessions = Sessions(
            capability=np.zeros((n, q), np.int8),
            fact=np.zeros((n, q), np.int16),
            value=np.zeros((n, q)),
            lives_s=np.zeros((n, q if drawn else 1)),
            regimes=np.zeros((n, q if drawn else 1, m), np.uint8),
            fees=np.zeros((n, m)),
            quota=np.zeros((n, m), np.int32),
            offers=np.zeros((n, m), np.int8),
            provider=np.zeros((n, m), np.int8),
            total=np.ones(n),
            limits=np.tile([self.rules.price_limit, self.rules.seconds_limit], (n, 1)),
            found_s=np.zeros((n, q)),
            found_for=np.zeros((n, q), np.int16),
            checked_s=np.zeros((n, q)),
            lasted_s=np.zeros((n, m)),
            progress=np.zeros(n, PROGRESS),
            drifts=np.zeros((n, m), DRIFT),
            adverts=np.zeros((n, m, 2)),
            factors=np.array(FACTORS),
            plan=plan_record(rules.document),
            drawn=drawn,
            shares=budget is None,
        )
        # the room for windows that the highest rate limits would take
        windows = 1 if drawn else HIGHEST_RATE_LIMIT * m
        self.records = LARGE
        self.state = SessionState._make([*self._fresh_state(m, room, room + m, windows, rules.providers), self.sessions])
        if not drawn:
            self.tables.slot_count[:] = m + rules.providers

    def put(self, i: int, number: int) -> Session:
        """Give episode i the session of a number, which it plays when it begins next."""
        session = draw_session(self.session_rules, number)
        count, tables = len(session.offers), self.tables
        of, profiles, slots = self.sessions, session.profiles, tables.slots[i, :count]
        of.capability[i], of.fact[i] = session.capability, session.fact
        of.value[i], of.lives_s[i] = session.value, session.lives_s
        of.regimes[i, :, :count] = session.states + 4 * np.searchsorted(FACTORS, session.factors)
        of.offers[i], of.fees[i], of.provider[i] = -1, 0.0, -1  # slots that a world's tools leave empty
        of.offers[i, :count], of.fees[i, :count], of.quota[i, :count] = session.offers, profiles.fee, profiles.quota
        of.provider[i, :count], slots["need"] = session.provider, session.offers
        tables.serves[i, :count] = _ONE << session.offers.astype(np.uint64)
        tables.slot_count[i] = count + self.session_rules.providers
        of.total[i] = session.value.sum()
        if self._budget is None:
            of.limits[i] = limits(session)
        tables.number[i] = number
        for name in ("fee", "latency_s", "cold_start_s", "keep_alive_s", "rate_limit", "quota"):
            slots[name] = getattr(profiles, name)
        slots["spread"] = np.searchsorted(SPREADS, profiles.latency_spread)
        slots["outage"], slots["outage_slot"] = session.provider, count + session.provider
        ends = profiles.rate_limit.cumsum()
        slots["window_at"] = ends - profiles.rate_limit
        self.state = replaced(self.state, windows=_wider(self.state.windows, int(ends[-1])))
        return session

    @property
    def nbytes(self) -> int:
        """Bytes of the episodes and of the sessions that they play."""
        shared = (self.tables.factors, self.tables.shapes, self.sessions.factors)
        arrays = (part for part in (*self.state, *self.sessions, *self.tables) if isinstance(part, np.ndarray))
        return sum(array.nbytes for array in arrays) - sum(part.nbytes for part in shared)


def _empty_tables(of: Any, rules: SessionRules, count: int) -> Tables:
    """Tables of N sessions that are still to be drawn."""
    tools, kinds = rules.tools, rules.capabilities
    slots = np.zeros((count, tools), SLOT)
    slots["timeout_s"], slots["window_s"] = TIMEOUT_S, WINDOW_S
    slots["slip"], slots["persistence"] = rules.failures.slip, rules.failures.persistence
    return Tables(
        number=np.zeros(count, np.int64),
        slot_count=np.zeros(count, np.int32),  # a row of draws has a slot for each provider too
        need_count=np.full(count, kinds, np.int32),
        event_count=np.zeros(count, np.int32),
        slots=slots,
        event_at=np.full((1, 1), np.inf),
        event_kind=np.zeros((1, 1), np.int8),
        event_hits=np.zeros((1, 1, 1), np.bool_),
        factor=np.ones((count, 1, tools)),
        quote=np.zeros((count, 1, tools)),
        banned=np.zeros((count, 1, tools), np.bool_),
        after=np.zeros((count, 1, kinds), np.uint64),
        version=np.zeros((count, 1, kinds), np.int32),
        serves=np.zeros((count, tools), np.uint64),
        required=np.zeros(count, np.uint64),
        known=np.zeros(count, np.uint64),
        effects=np.zeros((1, 1), EFFECT),
        state=np.zeros(1, np.uint64),
        stated=np.zeros(1, np.uint64),
        amount=np.zeros((1, 1)),
        pass_chance=np.zeros((1, 1)),
        **kind_rows(of, count),
        shapes=np.array(SPREADS),
        factors=np.array([latency_factors(spread) for spread in SPREADS], np.float64),
    )


# -- kernels -------------------------------------------------------------------------------------------------------------------


@inlined
def limited(rules: Any, sessions: Any, i: int) -> Any:
    """The rules with the limits of one session."""
    price, seconds = sessions.limits[i, 0], sessions.limits[i, 1]
    return Rules(
        price, seconds, rules.tokens_limit, rules.calls_limit, np.inf if rules.record else seconds, rules.refuse, rules.record,
        rules.track_bills, rules.bill_failures, rules.bill_cold_start, rules.gateway_s, rules.slots, rules.gpu_capacity_mb,
        rules.sticky, rules.burst_every_s, rules.burst_lasts_s, rules.burst_at_first, rules.writes,
    )  # fmt: skip


@internal
def draw(tables: Any, sessions: Any, i: int, number: Any) -> None:
    """Draw the session of a number into row i, as `sessions.draw` does in Python."""
    plan, progress, total, room = sessions.plan[0], record_at(sessions.progress, i), 0.0, 0
    tables.number[i] = progress.number = number
    kinds, count = np.int64(plan.kinds), tables.slots.shape[1]
    for query in range(sessions.fact.shape[1]):
        kind, value, first = draw_query(plan, kinds, number, query)
        sessions.fact[i, query], sessions.capability[i, query], sessions.value[i, query] = query, kind, value
        if first < query:
            sessions.fact[i, query], sessions.capability[i, query] = sessions.fact[i, first], sessions.capability[i, first]
        total += value
    sessions.total[i] = total
    for slot in range(count):
        spec, drift, kind = tables.slots[i, slot], sessions.drifts[i, slot], slot % kinds
        reliable, provider, success, latency_s = draw_tool(plan, number, slot, spec)
        spec.need, spec.outage, spec.outage_slot, spec.window_at = kind, provider, count + provider, room
        room += spec.rate_limit
        tables.serves[i, slot] = _ONE << np.uint64(kind)
        sessions.offers[i, slot], sessions.provider[i, slot] = kind, provider
        sessions.fees[i, slot], sessions.quota[i, slot] = spec.fee, spec.quota
        sessions.adverts[i, slot, 0], sessions.adverts[i, slot, 1] = success, latency_s
        drift.alive, drift.half, drift.regimes, drift.prices = plan.alive[reliable], plan.half[reliable], 0, 0
        regime, lasts = first_regime(plan, number, slot, 0, drift.alive, drift.half)
        drift.regime_at = lasts
        factor, lasts = first_price(plan, number, slot, 0)
        drift.price_at = lasts
        sessions.regimes[i, 0, slot] = regime + 4 * factor
    if sessions.shares:
        price, seconds = session_limits(plan, kinds, tables.slots[i], sessions.offers[i], sessions.regimes[i, 0], count)
        sessions.limits[i, 0], sessions.limits[i, 1] = price, seconds


@internal
def begin(tables: Any, rules: Any, state: Any, sessions: Any, i: int, number: Any, seed: Any) -> None:
    """Start on a fresh clock the session that was put into row i, or else the one of a number."""
    clear_row(sessions.progress, i)
    clear_row(sessions.lasted_s, i)
    if not sessions.drawn:
        draw(tables, sessions, i, number)
    world.begin(tables, rules, state, i, i, seed)
    for query in range(sessions.found_for.shape[1]):
        sessions.found_for[i, query] = -1
    for slot in range(state.slots.shape[1]):
        _, usual, _, _ = uniforms(seed, tables.number[i], slot)
        state.slots[i, slot].usual = world.pick(tables, record_at(state.episodes, i), usual)
    begin_query(tables, state, i)


@inlined
def remembers(sessions: Any, i: int) -> Any:
    """Return whether the fact that the present query asks for is in memory."""
    query = record_at(sessions.progress, i).query
    return query < sessions.fact.shape[1] and sessions.found_for[i, sessions.fact[i, query]] >= 0


@inlined
def submit(tables: Any, rules: Any, state: Any, sessions: Any, i: int, slot: int) -> int:
    """Start a call of a tool; returns the status of a refusal, or -1 where the call is on its way."""
    refusal = _submit(tables, rules, state, i, slot)
    if refusal < 0:
        # the query that it is made for: prices stand in the bill, so no epoch is needed
        record_in(state.calls, i, record_at(state.episodes, i).records - 1).start_epoch = record_at(sessions.progress, i).query
    return refusal


@inlined
def call(tables: Any, rules: Any, state: Any, sessions: Any, i: int, slot: int) -> Any:
    """Call a tool and wait for its end; returns the status, and whether the call ran."""
    refusal = submit(tables, rules, state, sessions, i, slot)
    if refusal >= 0:
        return np.int64(refusal), False
    news = wait(tables, rules, state, i)
    if news == world.NOTHING:
        return np.int64(CANCELLED), True
    return np.int64(news % world.CODE), True

"""The arrays that N episodes share: tasks, candidates, prices and scheduled events.

Everything that does not depend on an episode's luck is looked up here once. Scheduled events depend on the task alone, so
prices, bans and wishes are tabulated by *epoch*, the number of events that have happened. The kernels then
keep one small number per episode instead of copies of prices and bans.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.batch.memory import record_type
from costgym.simulators.batch.records import INVISIBLE
from costgym.simulators.calls import OF_PROFILE, QUANTILES, Candidate
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import ConfigError
from costgym.simulators.failures import KINDS, SILENT_KINDS
from costgym.simulators.ledger import Budget, Enforcement
from costgym.simulators.rules.limits import Rules, make_rules
from costgym.simulators.rules.terms import change_terms
from costgym.simulators.tasks import Need, Task
from costgym.simulators.tools import ToolProfile
from costgym.simulators.world import World

Parts = TypeVar("Parts", bound=tuple[Any, ...])
EVENT_KINDS = ("price_change", "ban", "unban", "preference_change")
PRICE_CHANGE = EVENT_KINDS.index("price_change")
MAX_NEEDS, MAX_EVENTS = 64, 30_000
WAYS = len(KINDS) + len(SILENT_KINDS)  # most ways to fail that a world has

_FLOATS = (
    "latency_s", "timeout_s", "fee", "rate_per_s", "cold_start_s", "keep_alive_s", "window_s", "gpu_mb",
    "slip", "persistence", "alive_edge", "degraded_edge",
)  # fmt: skip
_OF_CANDIDATE = (
    "latency_s", "fee", "rate_per_s", "gpu_mb", "slip", "persistence", "need", "alive_edge", "degraded_edge", *OF_PROFILE,
)  # fmt: skip
_WHOLE = ("spread", "window_at", "rate_limit", "concurrency", "quota", "need", "outage", "outage_slot")
SLOT = record_type([(name, np.float64) for name in _FLOATS] + [(name, np.int32) for name in _WHOLE])
"""A candidate. `spread` is its row in `Tables.factors`; `alive_edge` and `degraded_edge` divide the uniform that picks its
latent state; `window_at` is the place in `State.windows` at which its admitted calls begin; `outage` is the column of
`State.bursts` that holds its outages or -1 for none, and `outage_slot` the slot of the draws that they come from."""


EFFECT = record_type([("settles_s", np.float64), ("happens", np.float64), ("role", np.int8), ("idempotent", np.bool_)])
"""What calls of a candidate do to the store; see `tools.Effect`."""


class Tables(NamedTuple):
    """Arrays over tasks (T rows), candidates (M), needs (K) and events (E); epoch 0 is before the first event."""

    number: NDArray[np.int64]  # (T,) the tasks' numbers in the world, which key their chance
    # slot_count, need_count, event_count: (T,)
    slot_count: NDArray[np.int32]
    need_count: NDArray[np.int32]
    event_count: NDArray[np.int32]
    slots: NDArray[np.void]  # (T, M) `SLOT`
    # event_at, event_kind: (T, E), by time
    event_at: NDArray[np.float64]
    event_kind: NDArray[np.int8]
    event_hits: NDArray[np.bool_]  # (T, E, M) the candidates that an event concerns
    # factor, quote: (T, E + 1, M) price factor and quoted price in an epoch
    factor: NDArray[np.float64]
    quote: NDArray[np.float64]
    banned: NDArray[np.bool_]  # (T, E + 1, M)
    after: NDArray[np.uint64]  # (T, E + 1, K) bits of the needs whose facts a need's arguments take
    version: NDArray[np.int32]  # (T, E + 1, K) number of times that a wish has changed
    serves: NDArray[np.uint64]  # (T, M) bits of the needs that a candidate serves
    required: NDArray[np.uint64]  # (T,) bits of the needs without which an answer is incomplete
    known: NDArray[np.uint64]  # (T,) bits of the needs that are known from the start
    effects: NDArray[np.void]  # (T, M) `EFFECT`, what a candidate's calls do to the store
    # state, stated: (T,) bits of the needs that want an effect, and of those whose fact is asked for as well
    state: NDArray[np.uint64]
    stated: NDArray[np.uint64]
    amount: NDArray[np.float64]  # (T, K) what a need's effect is worth
    pass_chance: NDArray[np.float64]  # (T, K + 1) the judge's chance by the number of required facts found
    # kind_edge, kind_status: (T, W) cumulative weights of the ways to fail in a task's world, the last infinite, and statuses
    kind_edge: NDArray[np.float64]
    kind_status: NDArray[np.int8]
    shapes: NDArray[np.float64]  # (S,) keys of the distributions of durations that candidates have, see `_shape`
    factors: NDArray[np.float64]  # (S, 4096) quantiles of the durations over their median, for each of them


def batch_rules(world: World, budget: Budget, enforcement: Enforcement, alone: bool = False, several: bool = False) -> Rules:
    """The scalars of a world under a budget; `alone`: calls run one at a time, each to its end; `several`: they are those of
    other worlds too, whose tools may start cold."""
    if world.processes:
        remedy = 'write compiled=False, or vectorization_mode="sync"'
        raise ConfigError("compiled", f"this world has processes of its own, which only Python plays; {remedy}")
    # a call that runs to its end can be cut off while it loads by a limit of seconds only
    cut_off = not alone or (budget.seconds is not None and enforcement != "record")
    loads = several or any(tool.profile.cold_start_s for tool in world.catalog)
    return make_rules(world, budget, enforcement, track_bills=world.bills_time or (loads and cut_off))


def make_tables(world: World, numbers: Sequence[int], columns: int | None = None, beside: Tables | None = None) -> Tables:
    """The tables of some tasks, in the order of `numbers`, to be added to those `beside`; `columns` None: all candidates."""
    tasks = [world.tasks[number] for number in numbers]
    candidates = [world.candidates(number) for number in numbers]
    notices = [sorted(world.notices(number), key=lambda notice: notice.at_s) for number in numbers]
    rows = len(tasks)
    width = max((len(slots) for slots in candidates), default=1) if columns is None else columns
    needs = max((len(task.needs) for task in tasks), default=1)
    events = max((len(of_task) for of_task in notices), default=0)
    if needs > MAX_NEEDS or events > MAX_EVENTS:
        raise ConfigError(
            "batch", f"expected at most {MAX_NEEDS} needs and {MAX_EVENTS} events a task, got {needs} and {events}"
        )
    # a table of 4,096 quantiles a tool would not fit into a cache; tools have few different distributions
    shapes: dict[float, Any] = {} if beside is None else dict(zip(beside.shapes.tolist(), beside.factors, strict=True))
    for slots in candidates:
        for slot in slots:
            shapes.setdefault(_shape(slot.profile), slot.factors)
    tables = Tables(
        number=np.array(numbers, np.int64),
        slot_count=np.array([len(slots) for slots in candidates], np.int32),
        need_count=np.array([len(task.needs) for task in tasks], np.int32),
        event_count=np.array([len(of_task) for of_task in notices], np.int32),
        slots=np.zeros((rows, width), SLOT),
        event_at=np.full((rows, max(1, events)), np.inf),
        event_kind=np.full((rows, max(1, events)), INVISIBLE, np.int8),
        event_hits=np.zeros((rows, max(1, events), width), np.bool_),
        factor=np.ones((rows, events + 1, width)),
        quote=np.zeros((rows, events + 1, width)),
        banned=np.zeros((rows, events + 1, width), np.bool_),
        after=np.zeros((rows, events + 1, max(1, needs)), np.uint64),
        version=np.zeros((rows, events + 1, max(1, needs)), np.int32),
        serves=np.zeros((rows, width), np.uint64),
        required=_task_bits(tasks, lambda need: need.required),
        known=_task_bits(tasks, lambda need: need.given),
        effects=np.zeros((rows, width), EFFECT),
        state=_task_bits(tasks, lambda need: need.state),
        stated=_task_bits(tasks, lambda need: need.state and need.asked),
        amount=np.zeros((rows, max(1, needs))),
        pass_chance=np.zeros((rows, needs + 1)),
        **kind_rows(world, rows),
        shapes=np.array(list(shapes), np.float64),
        factors=np.array(list(shapes.values()), np.float64).reshape(-1, QUANTILES),
    )
    tables.slots["outage_slot"] = tables.slot_count[:, None]  # the world's own: all tools share its outages
    bursts = world.failures.bursts
    for row, (task, slots, of_task) in enumerate(zip(tasks, (slots[:width] for slots in candidates), notices, strict=True)):
        _fill_slots(tables, row, slots, list(shapes))
        if bursts is not None:
            tables.slots["outage"][row, : len(slots)] = [0 if bursts.concerns(slot.name) else -1 for slot in slots]
        _fill_events(tables, row, task, slots, of_task)
        for slot in slots:
            if (effect := slot.effect) is not None:
                tables.effects[row, slot.index] = (effect.settles_s, effect.happens, effect.role, effect.idempotent)
        tables.amount[row, : len(task.needs)] = [need.amount for need in task.needs]
        tables.serves[row, : len(slots)] = [sum(1 << need for need in slot.needs) for slot in slots]
        # the judge's chance depends on the number of facts alone, so a kernel looks it up instead of taking a power
        count = sum(need.required for need in task.needs)
        for known in range(count + 1):
            share = known / count if count else 0.0
            tables.pass_chance[row, known] = world.judge.chance(share, task.solvable)
    return tables


def kind_rows(world: World, rows: int) -> dict[str, Any]:
    """`kind_edge` and `kind_status` for tasks of a world, wide enough for every world."""
    edges, statuses = np.full((rows, WAYS), np.inf), np.zeros((rows, WAYS), np.int8)
    count = len(world.kinds)
    edges[:, : count - 1] = [edge for edge, _ in world.kinds[:-1]]
    statuses[:, :count] = [int(status) for _, status in world.kinds]
    return {"kind_edge": edges, "kind_status": statuses}


def add_rows(tables: Tables, used: int, more: Tables) -> Tables:
    """Tables with the rows of `more`, which was made beside these tables, from the row `used` on."""
    shared = ("shapes", "factors")  # what `more` has of them holds all of `tables`
    by_row = [name for name in Tables._fields if name not in shared]
    grown = {name: put_rows(getattr(tables, name), used, getattr(more, name)) for name in by_row}
    if len(more.shapes) > len(tables.shapes):
        grown |= {name: getattr(more, name) for name in shared}
    return replaced(tables, **grown)


def replaced(whole: Parts, **parts: Any) -> Parts:
    """A named tuple with some parts replaced, or the same tuple if none is another one: so who keeps it sees no change."""
    others = {name: part for name, part in parts.items() if part is not getattr(whole, name)}
    return whole._replace(**others) if others else whole  # type: ignore[attr-defined]


def put_rows(array: NDArray[Any], used: int, block: NDArray[Any]) -> NDArray[Any]:
    """Write a block into an array from the row `used` on, or into one with twice the rows where it does not fit.

    Doubling means that rows added one by one are copied a few times at most.
    """
    end = used + len(block)
    shape = tuple(map(max, zip(array.shape[1:], block.shape[1:], strict=True)))
    if end > len(array) or shape != array.shape[1:]:
        larger = np.zeros((len(array) if end <= len(array) else max(end, 2 * len(array)), *shape), array.dtype)
        larger[(slice(len(array)), *map(slice, array.shape[1:]))] = array
        array = larger
    array[(slice(used, end), *map(slice, block.shape[1:]))] = block
    return array


class Terms(NamedTuple):
    """What scheduled events change; see `rules.terms`."""

    factors: list[float]
    banned: set[int]
    needs: list[Need]
    versions: list[int]


def _fill_slots(tables: Tables, row: int, slots: Sequence[Candidate], shapes: Sequence[float]) -> None:
    window_at = 0
    for slot in slots:
        record = tables.slots[row, slot.index]
        for name in _OF_CANDIDATE:
            record[name] = getattr(slot, name)
        record["spread"] = shapes.index(_shape(slot.profile))
        record["window_at"] = window_at
        window_at += slot.profile.rate_limit


def _shape(profile: ToolProfile) -> float:
    """The key of a distribution of durations: the spread of a lognormal, or a negative number of 53 bits for a table."""
    return profile.latency_spread if not profile.latency_quantiles else _table_key(profile.latency_quantiles)


@lru_cache(maxsize=4096)
def _table_key(quantiles: tuple[float, ...]) -> float:
    return -1.0 - (stable_integer(0, *quantiles) >> 12)


def _task_bits(tasks: Sequence[Task], wanted: Callable[[Need], bool]) -> NDArray[np.uint64]:
    return np.array([sum(1 << i for i, need in enumerate(task.needs) if wanted(need)) for task in tasks], np.uint64)


def _fill_events(tables: Tables, row: int, task: Task, slots: Sequence[Candidate], notices: Sequence[Any]) -> None:
    """Go through the events in their order, and note the prices, bans and wishes after each."""
    width = len(slots)
    base = np.array([slot.quote for slot in slots])
    terms = Terms([1.0] * width, set(), list(task.needs), [0] * len(task.needs))

    def note(epoch: int) -> None:
        tables.factor[row, epoch, :width], tables.quote[row, epoch, :width] = terms.factors, base * terms.factors
        tables.banned[row, epoch, sorted(terms.banned)] = True
        tables.after[row, epoch, : len(terms.needs)] = [sum(1 << before for before in set(need.after)) for need in terms.needs]
        tables.version[row, epoch, : len(terms.needs)] = terms.versions

    # tables by epoch instead of a list of changes: a kernel then reads a price with one index
    note(0)
    for index, notice in enumerate(notices):
        hit = [slot for slot in notice.slots if slot < width]
        visible = change_terms(terms, replace(notice, slots=tuple(hit)))
        tables.event_at[row, index] = notice.at_s
        tables.event_hits[row, index, hit] = True
        tables.event_kind[row, index] = EVENT_KINDS.index(notice.kind) if visible else INVISIBLE
        note(index + 1)
    for epoch in range(len(notices) + 1, tables.quote.shape[1]):
        note(epoch)

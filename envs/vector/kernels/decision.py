"""Compiled steps of N episodes of DEER's branches; `decision.DecisionAwareEnv` plays one in Python."""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....simulators.batch import kernels as world
from ....simulators.batch.arguments import bound_arguments
from ....simulators.batch.memory import clear_row, copy_row
from ....simulators.batch.rng import compiled, inlined, next_draw, prange, row, threaded
from ....simulators.status import Status
from ..info import NOTHING_SPENT, report, spent

_ANSWER, _SEARCH, _FIRST_CALL = 0, 1, 2
_CALL, _NONE_FITS = 2, 3
"""Indices into the tables of token costs, after `_ANSWER` and `_SEARCH`."""
_OVER_BUDGET = int(Status.OVER_BUDGET)


class View(NamedTuple):
    """The tables behind observations and costs, over tasks (T) and candidates (k).

    Attributes:
        query, candidates: (T, features), (T, k, 6 + features) as in `decision.Template`.
        right: (T, k + 2) whether it is right to answer, to say that none fits, to call candidate 0, 1, ...
        tokens, price: (T, 4) of each decision, in the order of `decision.THINKING`.
        seconds: (4,) duration of each decision.
        choices: number of tasks that a reset draws from, the first in the tables; 0 if the kernels do not draw.
        max_steps, loss, alpha: of `DecisionAwareEnv`.
        time_limit: steps after which an episode is truncated whatever it says.
        judged: the lenient grade counts.
        resource: index of the resource that `cost_sum` reports.
    """

    query: NDArray[np.float32]
    candidates: NDArray[np.float32]
    right: NDArray[np.bool_]
    tokens: NDArray[np.int64]
    price: NDArray[np.float64]
    seconds: NDArray[np.float64]
    choices: int
    max_steps: int
    time_limit: int
    loss: float
    alpha: float
    judged: bool
    resource: int


class Out(NamedTuple):
    """The arrays that a step writes: observations, outcomes and figures of N episodes.

    Attributes:
        query, candidates, stage, shown: (N, features), (N, k, 6 + features), (N, 2), (N, k + 3) the observation.
        mask: (N, k + 3).
        rewards, terminated, truncated, success, searched: (N,).
        figures, counts: (8, N), (3, N) named by `info.FIGURES` and `info.COUNTS`.
    """

    query: NDArray[np.float32]
    candidates: NDArray[np.float32]
    stage: NDArray[np.float32]
    shown: NDArray[np.float32]
    mask: NDArray[np.bool_]
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    figures: NDArray[np.float64]
    counts: NDArray[np.int64]
    success: NDArray[np.bool_]
    searched: NDArray[np.bool_]


@compiled
def reset_where(
    tables: Any,
    rules: Any,
    state: Any,
    view: Any,
    out: Any,
    streams: Any,
    rows: Any,
    seeds: Any,
    seeded: Any,
    where: Any,
    show_all: bool,
) -> None:
    """Begin the episodes of `where`."""
    for i in range(where.size):
        reset_row(tables, rules, state, view, out, streams, rows, seeds, seeded, where, show_all, i)


@row
def reset_row(
    tables: Any,
    rules: Any,
    state: Any,
    view: Any,
    out: Any,
    streams: Any,
    rows: Any,
    seeds: Any,
    seeded: Any,
    where: Any,
    show_all: bool,
    i: int,
) -> None:
    """Begin episode i where `where` says so.

    Args:
        streams: (N, 4) each environment's generator.
        rows: (N,) a row of the tables, or -1 to draw one.
        seeds, seeded: (N,) the episode's seed, and whether it is given; else it is drawn.
        show_all: also write the state of an episode that goes on.
    """
    before = spent(state.episodes[i])
    if where[i]:
        _begin(tables, rules, state, view, streams, i, rows[i], seeds[i], seeded[i])
        before = NOTHING_SPENT
    if where[i] or show_all:
        _show(tables, rules, state, view, out, i, before)


@compiled
def step_part(
    bound: Any, out: Any, actions: Any, autoreset: bool, rows: Any, seeds: Any, seeded: Any, parts: int, part: int
) -> None:
    """Play one step of the episodes of a part.

    Args:
        bound: a `BoundArguments` of tables, rules, state, view and streams.
        parts, part: number of equal parts, and the part's own number.
    """
    tables, rules, state, view, streams = bound_arguments(bound)
    for i in range(part * actions.size // parts, (part + 1) * actions.size // parts):
        step_row(tables, rules, state, view, out, streams, actions, autoreset, rows, seeds, seeded, i)


@row
def step_row(
    tables: Any,
    rules: Any,
    state: Any,
    view: Any,
    out: Any,
    streams: Any,
    actions: Any,
    autoreset: bool,
    rows: Any,
    seeds: Any,
    seeded: Any,
    i: int,
) -> None:
    """Play one step of episode i.

    Args:
        actions: (N,) integers.
        autoreset: an episode that has ended begins anew instead.
        rows, seeds, seeded: as in `reset_row`, of the episodes that begin anew.
    """
    e = state.episodes[i]
    anew = autoreset and e.ended
    before = spent(e)
    if anew:
        _begin(tables, rules, state, view, streams, i, rows[i], seeds[i], seeded[i])
        before = NOTHING_SPENT
    else:
        e.steps += 1
        action = np.int64(actions[i])
        kind = _kind(state, action)
        if not _due(tables, state, i, action):
            world.refuse(tables, rules, state, i)
            e.status = world.UNKNOWN_TOOL
        elif _payable(tables, rules, state, view, i, action):
            _decide(tables, rules, state, view, i, action)
        elif kind in (_ANSWER, _NONE_FITS):
            world.answer(tables, rules, state, i, 0)
            e.judged = False  # who gives up never passes
        else:
            world.refuse(tables, rules, state, i)
            e.status = _OVER_BUDGET
        e.news = 0  # nobody waits for them
    cost, success = _show(tables, rules, state, view, out, i, before)
    reward = -view.loss * cost
    out.rewards[i] = 0.0 if anew else reward + view.alpha if success else reward
    out.terminated[i] = e.over and not anew
    out.truncated[i] = ((not e.over and e.steps >= view.max_steps) or e.steps >= view.time_limit) and not anew
    e.ended = out.terminated[i] or out.truncated[i]


@threaded
def step_parts(bound: Any, out: Any, actions: Any, autoreset: bool, rows: Any, seeds: Any, seeded: Any, parts: int) -> None:
    """Play one step of every episode, each part on a thread of its own."""
    for part in prange(parts):
        step_part(bound, out, actions, autoreset, rows, seeds, seeded, parts, np.int64(part))


@inlined
def _begin(tables: Any, rules: Any, state: Any, view: Any, streams: Any, i: int, row: Any, seed: Any, seeded: bool) -> None:
    if view.choices > 0:
        draw = next_draw(streams, i)
        row = np.int64(draw % np.uint64(view.choices)) if row < 0 else np.int64(row)
        seed = seed if seeded else draw
    world.begin(tables, rules, state, i, row, seed)


@inlined
def _kind(state: Any, action: int) -> int:
    return _NONE_FITS if action == _FIRST_CALL + state.slots.shape[1] else min(action, _CALL)


@inlined
def _due(tables: Any, state: Any, i: int, action: int) -> bool:
    """Return whether an action is open at this stage, whatever it costs."""
    e, width = state.episodes[i], state.slots.shape[1]
    if not e.told:
        return action in (_ANSWER, _SEARCH)
    if action == _FIRST_CALL + width:
        return True
    slot = action - _FIRST_CALL
    return 0 <= slot < min(tables.slot_count[e.task], width) and not tables.banned[e.task, e.epoch, slot]


@inlined
def _payable(tables: Any, rules: Any, state: Any, view: Any, i: int, action: int) -> bool:
    """Return whether the budget pays an action that is due; the sums are those of `DecisionAwareEnv._payable`, in its order."""
    if not rules.refuse:
        return True
    e, kind = state.episodes[i], _kind(state, action)
    price, now = e.price + view.price[e.task, kind], e.now + view.seconds[kind]
    tokens, calls = e.tokens + view.tokens[e.task, kind], e.calls + (kind == _CALL)
    if kind == _SEARCH:
        price += view.price[e.task, _NONE_FITS]
        now += view.seconds[_NONE_FITS]
        tokens += view.tokens[e.task, _NONE_FITS]
    elif kind == _CALL:
        price += tables.quote[e.task, e.epoch, action - _FIRST_CALL]
    kept = price <= rules.price_limit and now <= rules.seconds_limit
    return kept and tokens <= rules.tokens_limit and calls <= rules.calls_limit


@inlined
def _decide(tables: Any, rules: Any, state: Any, view: Any, i: int, action: int) -> None:
    e, kind = state.episodes[i], _kind(state, action)
    world.think(tables, rules, state, i, view.seconds[kind], view.price[e.task, kind], view.tokens[e.task, kind])
    if e.over:
        return
    if kind == _SEARCH:
        e.told = True
        return
    decision = 0 if kind == _ANSWER else 1
    if kind == _CALL:
        decision = action
        slot = action - _FIRST_CALL
        refusal = world.submit(tables, rules, state, i, slot)
        e.status = refusal if refusal >= 0 else world.settle(tables, rules, state, i)
    if not e.over:
        world.answer(tables, rules, state, i, 1 if view.right[e.task, decision] else 0)


@inlined
def _show(tables: Any, rules: Any, state: Any, view: Any, out: Any, i: int, before: Any) -> Any:
    """Write the observation and figures of an episode; return what this step has cost, and success."""
    e, width = state.episodes[i], state.slots.shape[1]
    copy_row(out.query, i, view.query, np.int64(e.task))
    clear_row(out.mask, i)
    clear_row(out.shown, i)
    if e.told:
        copy_row(out.candidates, i, view.candidates, np.int64(e.task))
        out.mask[i, _FIRST_CALL + width] = True
        for action in range(_FIRST_CALL, _FIRST_CALL + width):
            open_now = _due(tables, state, i, action) and _payable(tables, rules, state, view, i, action)
            out.mask[i, action] = open_now
        for action in range(_FIRST_CALL, _FIRST_CALL + width + 1):
            out.shown[i, action] = out.mask[i, action]
    else:
        clear_row(out.candidates, i)
        out.mask[i, _ANSWER] = True
        out.mask[i, _SEARCH] = _payable(tables, rules, state, view, i, _SEARCH)
        out.shown[i, _ANSWER], out.shown[i, _SEARCH] = 1.0, out.mask[i, _SEARCH]
    out.stage[i, 0], out.stage[i, 1] = (0.0, 1.0) if e.told else (1.0, 0.0)
    out.searched[i] = e.told
    return report(rules, view, out, e, i, before)

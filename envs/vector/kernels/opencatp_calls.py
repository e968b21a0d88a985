"""Compiled steps of N episodes of OpenCATP call by call; `opencatp.calls.OpenCATPCallsEnv` plays one in Python."""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....simulators.batch.memory import copy_row
from ....simulators.batch.rng import compiled, inlined, log, row
from ....simulators.opencatp.batch import clock
from ....simulators.opencatp.batch import kernels as plans
from ....simulators.opencatp.tools import TOOLS
from ....simulators.plan import TASK_INPUT
from ...opencatp import calls
from .. import opencatp_base as view

EPISODE = np.dtype([*view.SHARED, ("before", "f8"), ("steps", "i4"), ("payable", "i4"), ("kept", "?")], align=True)
"""Fields of both environments; price before the step, number of steps, tools that the rest of the budget pays, as bits, and
whether this step kept the budget."""

_CALLS, _N = len(calls.CALLS), plans.N_TOOLS
CALL_TOOL = np.array([TOOLS.index(tool) for tool, _ in calls.CALLS], np.int8)
CALL_SOURCE = np.array([-1 if source == TASK_INPUT else TOOLS.index(source) for _, source in calls.CALLS], np.int8)
_STEP = np.float32(0.1)
_ALL_TOOLS = (1 << _N) - 1


class State(NamedTuple):
    """The state of N episodes.

    Attributes:
        episodes: (N,) `EPISODE`.
        clocks: their clocks.
        order: (N, 10) the tools in the order called.
        source: (N, 10) what each was called on; -1 is the task's input.
        depth: (N, 10) its column of the observation.
        node: (N, 10) output of each; see `simulators.opencatp.batch.kernels`.
    """

    episodes: NDArray[Any]
    clocks: clock.Clocks
    order: NDArray[np.int8]
    source: NDArray[np.int8]
    depth: NDArray[np.float32]
    node: NDArray[np.int16]


class Out(NamedTuple):
    """The arrays that a step writes: `tools` (N, 10, 9), `sources` (N, 10, 11), `resources` (N, 8), and `Common`."""

    common: view.Common
    tools: NDArray[np.float32]
    sources: NDArray[np.float32]
    resources: NDArray[np.float32]


@compiled
def reset_where(
    tables: Any, rules: Any, machine: Any, state: Any, out: Any, streams: Any, where: Any, chosen: Any, show_all: bool
) -> None:
    """Begin the episodes of `where`."""
    for i in range(where.size):
        reset_row(tables, rules, machine, state, out, streams, where, chosen, show_all, i)


@row
def reset_row(
    tables: Any, rules: Any, machine: Any, state: Any, out: Any, streams: Any, where: Any, chosen: Any, show_all: bool, i: int
) -> None:
    """Begin episode i where `where` says so.

    Args:
        chosen: row, sample and level, each -1 if it is drawn.
        show_all: also write the state of an episode that goes on.
    """
    if where[i]:
        _begin(tables, rules, machine, state, streams, i, chosen[0], chosen[1], chosen[2])
    if where[i] or show_all:
        _show(tables, rules, state, out, i)


@compiled
def step_all(
    tables: Any,
    rules: Any,
    machine: Any,
    store: Any,
    state: Any,
    out: Any,
    streams: Any,
    actions: Any,
    autoreset: bool,
    pending: Any,
) -> int:
    """Play one step of every episode.

    Args:
        pending: (N,) receives the episodes whose score has to be looked up; `conclude` ends their step.

    Returns:
        The number of these episodes.
    """
    waiting = 0
    store.lacking[0] = 0
    for i in range(actions.size):
        if step_row(tables, rules, machine, store, state, out, streams, actions, autoreset, 0, i):
            pending[waiting] = i
            waiting += 1
    return waiting


@row
def step_row(
    tables: Any,
    rules: Any,
    machine: Any,
    store: Any,
    state: Any,
    out: Any,
    streams: Any,
    actions: Any,
    autoreset: bool,
    line: int,
    i: int,
) -> bool:
    """Play one step of episode i; returns whether its score has to be looked up, after which `conclude` ends the step.

    Args:
        autoreset: an episode that has ended begins anew instead.
        line: as in `kernels.score`.
    """
    common, e = out.common, state.episodes[i]
    if autoreset and e.ended:
        _begin(tables, rules, machine, state, streams, i, -1, -1, -1)
        common.rewards[i], common.terminated[i], common.truncated[i] = 0.0, False, False
    else:
        _act(tables, rules, machine, state, i, np.int64(actions[i]))
        if not _close(tables, rules, store, state, common, i, line):
            return True
    _show(tables, rules, state, out, i)
    return False


@compiled
def conclude(tables: Any, rules: Any, store: Any, state: Any, out: Any, pending: Any, waiting: int) -> int:
    """End the steps that waited for a score; return how many still wait."""
    still = 0
    store.lacking[0] = 0
    for k in range(waiting):
        i = pending[k]
        if not conclude_row(tables, rules, store, state, out, 0, i):
            pending[still] = i
            still += 1
    return still


@row
def conclude_row(tables: Any, rules: Any, store: Any, state: Any, out: Any, line: int, i: int) -> bool:
    """End the step of episode i, which waited for a score; returns whether all scores are known now."""
    if not _close(tables, rules, store, state, out.common, i, line):
        return False
    _show(tables, rules, state, out, i)
    return True


@inlined
def step_alone(
    tables: Any,
    rules: Any,
    machine: Any,
    store: Any,
    state: Any,
    out: Any,
    streams: Any,
    actions: Any,
    autoreset: bool,
    i: int,
) -> None:
    """`step_row` for a thread of its own, which notes the scores that it lacks apart from the others."""
    store.lacking[i] = 0
    step_row(tables, rules, machine, store, state, out, streams, actions, autoreset, i, i)


@inlined
def conclude_alone(tables: Any, rules: Any, store: Any, state: Any, out: Any, i: int) -> None:
    """`conclude_row` for a thread of its own, if its episode waits for a score."""
    if store.lacking[i]:
        store.lacking[i] = 0
        conclude_row(tables, rules, store, state, out, i, i)


@inlined
def _begin(tables: Any, rules: Any, machine: Any, state: Any, streams: Any, i: int, row: int, sample: int, level: int) -> None:
    view.begin(tables, rules, state.episodes, streams, i, row, sample, level)
    e = state.episodes[i]
    e.steps = 0
    clock.begin(machine, state.clocks, i, np.int64(e.level))
    e.payable = _payable(tables, rules, machine, state, i) if rules.refuse else _ALL_TOOLS


@inlined
def _act(tables: Any, rules: Any, machine: Any, state: Any, i: int, action: int) -> None:
    """Play one action; one outside the mask does nothing."""
    e, clocks = state.episodes[i], state.clocks
    e.steps += 1
    e.before = e.price
    if action == _CALLS + rules.concurrent:
        clock.finish(tables, machine, clocks, e, i, state.order)
        e.over = True
    elif action == _CALLS:
        clock.wait(tables, machine, clocks, e, i)
    elif 0 <= action < _CALLS and _callable(e, clocks.clocks[i].ended, action):
        tool, source = np.int64(CALL_TOOL[action]), np.int64(CALL_SOURCE[action])
        state.order[i, e.calls] = tool
        state.source[i, tool] = source
        depth = _STEP
        if source >= 0:
            e.consumed |= 1 << source
            depth += state.depth[i, source]
        state.depth[i, tool] = depth
        state.node[i, tool] = tables.after[0 if source < 0 else state.node[i, source], tool]
        e.calls += 1
        e.used |= 1 << tool
        clock.submit(tables, machine, clocks, e, i, tool)
        if not rules.concurrent:
            clock.wait(tables, machine, clocks, e, i)
    e.kept = view.keeps_budget(rules, e)
    if not e.kept and not e.over and not rules.record:
        clock.finish(tables, machine, clocks, e, i, state.order)
        e.over = True
    if rules.refuse and not e.over:
        e.payable = _payable(tables, rules, machine, state, i)


@inlined
def _payable(tables: Any, rules: Any, machine: Any, state: Any, i: int) -> int:
    """The tools whose call keeps every limit, as bits; the sums are those of `OpenCATPCallsEnv._payable`, in its order."""
    e, limits = state.episodes[i], rules.limits
    ended, level = np.int64(state.clocks.clocks[i].ended), np.int64(e.level)
    spent = e.price
    for k in range(e.calls):
        called = np.int64(state.order[i, k])
        if not (ended >> called) & 1:
            spent += tables.price[level, called]
    found = 0
    if e.calls + 1 <= limits[3]:
        for tool in range(_N):
            if (
                spent + tables.price[level, tool] <= limits[0]
                and e.seconds + machine.load_s[tool] + tables.seconds[level, tool] <= limits[1]
            ):
                found |= 1 << tool
    return found


@inlined
def _callable(e: Any, ended: int, action: int) -> Any:
    """Return whether the tool was not called yet and can be paid, and its artefact exists."""
    source = np.int64(CALL_SOURCE[action])
    payable = (e.payable & ~e.used) >> CALL_TOOL[action]
    return payable & 1 and (source < 0 or (ended >> source) & 1)


@inlined
def _close(tables: Any, rules: Any, store: Any, state: Any, common: Any, i: int, line: int) -> bool:
    """Score an episode that is over and write the step's reward; False if a score is missing."""
    e = state.episodes[i]
    ended = np.int64(state.clocks.clocks[i].ended)
    gained = 0.0
    if e.over and ended and e.kept:
        read = np.int64(0)
        for tool in range(_N):
            if (ended >> tool) & 1 and state.source[i, tool] >= 0:
                read |= 1 << np.int64(state.source[i, tool])
        sinks = ended & ~read
        worth, lacking = plans.score(tables, store, e.task, e.sample, state.order, state.node, i, e.calls, sinks, line)
        if lacking:
            return False
        e.valid = True
        for want in range(tables.want_count[e.task]):
            if plans.answer(tables, e.task, want, state.order, state.node, i, e.calls, sinks) < 0:
                e.valid = False
        e.score = worth
        gained = rules.alpha * worth
    reward = gained - rules.loss * (e.price - e.before)
    e.worth += reward
    truncated = (not e.over and e.steps >= rules.max_steps) or e.steps >= rules.time_limit
    e.ended = e.over or truncated
    common.rewards[i], common.terminated[i], common.truncated[i] = reward, e.over, truncated
    return True


@inlined
def _show(tables: Any, rules: Any, state: Any, out: Any, i: int) -> None:
    """Write the observation and figures of an episode."""
    e, common = state.episodes[i], out.common
    ended = np.int64(state.clocks.clocks[i].ended)
    copy_row(common.task, i, rules.tasks, np.int64(e.task))
    copy_row(common.level, i, rules.levels, np.int64(e.level))
    copy_row(out.tools, i, rules.tools, np.int64(e.level))
    tools, sources = out.tools, out.sources
    for tool in range(_N):
        for artefact in range(_N + 1):
            sources[i, tool, artefact] = 0.0
    in_flight = np.int64(0)
    for tool in range(_N):
        if (e.used >> tool) & 1:
            ready = (ended >> tool) & 1
            in_flight += 1 - ready
            tools[i, tool, 4] = 1.0
            tools[i, tool, 5] = not ready and not e.over
            tools[i, tool, 6] = ready
            tools[i, tool, 7] = (e.consumed >> tool) & 1
            tools[i, tool, 8] = state.depth[i, tool]
            sources[i, tool, state.source[i, tool] + 1] = 1.0
    if e.seconds != e.last_seconds:
        e.log_seconds = np.float32(log(1.0 + e.seconds))
    resources = out.resources
    resources[i, 0] = e.price / rules.max_price
    resources[i, 1] = e.log_seconds
    resources[i, 2] = in_flight / _N
    resources[i, 3] = e.steps / rules.max_steps
    resources[i, 4] = view.share_left(rules, 0, e.price)
    resources[i, 5] = view.share_left(rules, 1, e.seconds)
    resources[i, 6] = 1.0
    resources[i, 7] = view.share_left(rules, 3, np.float64(e.calls))
    for action in range(_CALLS):
        common.mask[i, action] = not e.over and _callable(e, ended, action)
    if rules.concurrent:
        common.mask[i, _CALLS] = not e.over and in_flight > 0
    common.mask[i, _CALLS + rules.concurrent] = True
    view.show_figures(tables, rules, e, common, i)

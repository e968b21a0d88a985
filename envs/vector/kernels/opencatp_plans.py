"""Compiled steps of N plans in TPL, with masks, prices and scores; `opencatp.plans.OpenCATPEnv` plays one in Python."""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....simulators.batch.memory import copy_row
from ....simulators.batch.rng import compiled, inlined, log, row
from ....simulators.opencatp.batch import kernels as plans
from ....simulators.opencatp.tools import SOD, SOP
from ....simulators.quality import INVALID_PLAN_COST, INVALID_PLAN_REWARD
from ... import tpl
from ...opencatp.plans import _NUMBER
from .. import opencatp_base as view

EPISODE = np.dtype(
    [
        *view.SHARED,
        ("tool_start", "f8"), ("written", "i4"), ("deps", "i4"), ("legal", "i4"),
        ("kind", "i1"), ("current", "i1"), ("last", "i1"), ("input_named", "?"),
    ],
    align=True,
)  # fmt: skip

_SOP, _SOD = _NUMBER[SOP], _NUMBER[SOD]
_END, _END_DEPENDENCIES, _FIRST_TOOL, _INPUT, _FIRST_DEPENDENCY = (
    tpl.END, tpl.END_DEPENDENCIES, tpl.FIRST_TOOL, tpl.INPUT, tpl.FIRST_DEPENDENCY,
)  # fmt: skip
_N_ACTIONS, _N = tpl.N_ACTIONS, plans.N_TOOLS
_ALL, _INPUT_BIT = (1 << _N) - 1, 1 << _N
_IMAGE_MAKERS, _TEXT_TAKERS = plans.IMAGE_MAKERS, plans.TEXT_TAKERS
_TEXT_MAKERS = _ALL & ~_IMAGE_MAKERS
_READERS = _TEXT_MAKERS & ~_TEXT_TAKERS
_PER_TOOL = tpl._TOKENS_PER_TOOL
_IMAGE, _TEXT = tpl.KINDS.index("image"), tpl.KINDS.index("text")
_IMAGES_OF_KIND = np.array([kind.count("image") for kind in tpl.KINDS], np.int8)
_TEXTS_OF_KIND = np.array([kind.count("text") for kind in tpl.KINDS], np.int8)
_BITS = np.array([number.bit_count() for number in range(1 << _N)], np.int8)
_INVALID_REWARD, _INVALID_COST = float(INVALID_PLAN_REWARD), float(INVALID_PLAN_COST)


class State(NamedTuple):
    """The state of N episodes.

    Attributes:
        episodes: (N,) `EPISODE`.
        kinds: (T,) the kind of each task, as in `tpl.KINDS`.
        sequence: (N, max_tokens) the tokens so far, as observed.
        ends: (N, 10) when each tool of the plan ends, seconds.
        order: (N, 10) its tools in the order written.
        node: (N, 10) output of each; see `simulators.opencatp.batch.kernels`.
    """

    episodes: NDArray[Any]
    kinds: NDArray[np.int8]
    sequence: NDArray[np.int32]
    ends: NDArray[np.float64]
    order: NDArray[np.int8]
    node: NDArray[np.int16]


class Out(NamedTuple):
    """The arrays that a step writes: `sequence` (N, max_tokens), `tools` (N, 10, 8), `progress` (N, 10), and `Common`."""

    common: view.Common
    sequence: NDArray[np.int32]
    tools: NDArray[np.float32]
    progress: NDArray[np.float32]


@inlined
def missing(kind: int, used: int, consumed: int, last: int) -> Any:
    """The smallest number of further tools that a plan needs; -1 if no number is enough. See `tpl`."""
    unused = _ALL & ~used
    if kind == _IMAGE:
        return 0 if used else 1
    if kind == _TEXT:
        if last >= 0 and (_TEXT_MAKERS >> last) & 1:
            return 0
        return 1 if unused & _READERS or (unused & _TEXT_TAKERS and used & _TEXT_MAKERS) else -1
    sinks = used & ~consumed
    images, texts = np.int64(_IMAGES_OF_KIND[kind]), np.int64(_TEXTS_OF_KIND[kind])
    images -= min(images, np.int64(_BITS[sinks & _IMAGE_MAKERS]))
    if images > _BITS[unused & _IMAGE_MAKERS]:
        return -1
    texts -= min(texts, np.int64(_BITS[sinks & _TEXT_MAKERS]))
    by_readers = min(texts, np.int64(_BITS[unused & _READERS]))
    by_text_tools = texts - by_readers
    if by_text_tools:
        if not used & consumed & _TEXT_MAKERS:
            by_text_tools += 1
        if by_text_tools > _BITS[unused & _TEXT_TAKERS]:
            return -1
    return images + by_readers + by_text_tools


@inlined
def _fits(kind: int, used: int, consumed: int, last: int, left: int) -> Any:
    needed = missing(kind, used, consumed, last)
    return needed >= 0 and _PER_TOOL * needed + 1 <= left


@compiled
def legal(kind: int, used: int, consumed: int, current: int, deps: int, last: int, left: int) -> int:
    """The choices that may follow, as bits: `tpl`'s mask with its look-ahead.

    Args:
        kind: Number of the kind in `tpl.KINDS`.
        used, consumed: Tools in the plan, and those that others depend on, as bits.
        current: The tool whose dependencies are being named, or -1.
        deps: Its dependencies so far, as bits; the task's input is the highest.
        last: The last tool begun, or -1.
        left: Tokens left.
    """
    found = 0
    if current >= 0:
        takes_text = (_TEXT_TAKERS >> current) & 1
        if deps:
            found |= 1 << _END_DEPENDENCIES
        elif not takes_text:
            found |= 1 << _INPUT
        if deps and not takes_text and not deps & _INPUT_BIT and _fits(kind, used, consumed, last, left - 2):
            found |= 1 << _INPUT
        candidates = used & (_TEXT_MAKERS if takes_text else _IMAGE_MAKERS) & ~deps & ~(1 << current)
        for tool in range(_N):
            if (candidates >> tool) & 1 and _fits(kind, used, consumed | (1 << tool), last, left - 2):
                found |= 1 << (_FIRST_DEPENDENCY + tool)
        return found
    if used and missing(kind, used, consumed, last) == 0:
        found |= 1 << _END
    offered = (_IMAGE_MAKERS if kind == _IMAGE else _ALL) & ~used
    for tool in range(_N):
        if not (offered >> tool) & 1:
            continue
        after = consumed
        if (_TEXT_TAKERS >> tool) & 1:
            texts = used & _TEXT_MAKERS
            if not texts:
                continue
            if not texts & consumed:
                after |= texts & -texts
        if _fits(kind, used | (1 << tool), after, tool, left - _PER_TOOL):
            found |= 1 << (_FIRST_TOOL + tool)
    return found


@compiled
def reset_where(tables: Any, rules: Any, state: Any, out: Any, streams: Any, where: Any, chosen: Any, show_all: bool) -> None:
    """Begin the episodes of `where`."""
    for i in range(where.size):
        reset_row(tables, rules, state, out, streams, where, chosen, show_all, i)


@row
def reset_row(
    tables: Any, rules: Any, state: Any, out: Any, streams: Any, where: Any, chosen: Any, show_all: bool, i: int
) -> None:
    """Begin episode i where `where` says so.

    Args:
        chosen: row, sample and level, each -1 if it is drawn.
        show_all: also write the state of an episode that goes on.
    """
    if where[i]:
        _begin(tables, rules, state, streams, i, chosen[0], chosen[1], chosen[2])
    if where[i] or show_all:
        _show(tables, rules, state, out, i)


@compiled
def step_all(
    tables: Any, rules: Any, store: Any, state: Any, out: Any, streams: Any, actions: Any, autoreset: bool, pending: Any
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
        if step_row(tables, rules, store, state, out, streams, actions, autoreset, 0, i):
            pending[waiting] = i
            waiting += 1
    return waiting


@row
def step_row(
    tables: Any,
    rules: Any,
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
    common.truncated[i] = False
    if autoreset and e.ended:
        _begin(tables, rules, state, streams, i, -1, -1, -1)
        common.rewards[i], common.terminated[i] = 0.0, False
    elif not _act(tables, rules, store, state, common, i, np.int64(actions[i]), line):
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
    step_row(tables, rules, store, state, out, streams, actions, autoreset, i, i)


@inlined
def conclude_alone(tables: Any, rules: Any, store: Any, state: Any, out: Any, i: int) -> None:
    """`conclude_row` for a thread of its own, if its episode waits for a score."""
    if store.lacking[i]:
        store.lacking[i] = 0
        conclude_row(tables, rules, store, state, out, i, i)


@inlined
def _begin(tables: Any, rules: Any, state: Any, streams: Any, i: int, row: int, sample: int, level: int) -> None:
    view.begin(tables, rules, state.episodes, streams, i, row, sample, level)
    e = state.episodes[i]
    e.kind = state.kinds[e.task]
    e.tool_start, e.deps, e.input_named = 0.0, 0, False
    e.current = e.last = -1
    e.written = 1
    for k in range(state.sequence.shape[1]):
        state.sequence[i, k] = 0
    state.sequence[i, 0] = _SOP
    e.legal = legal(e.kind, 0, 0, -1, 0, -1, rules.max_tokens - 1)


@inlined
def _act(tables: Any, rules: Any, store: Any, state: Any, common: Any, i: int, action: int, line: int) -> bool:
    """Play one choice; False if it ends a plan whose score is missing."""
    e = state.episodes[i]
    if not 0 <= action < _N_ACTIONS or not (np.int64(e.legal) >> action) & 1:
        e.over = e.ended = True
        e.worth += _INVALID_REWARD
        common.rewards[i], common.terminated[i] = _INVALID_REWARD, True
        common.truncated[i] = e.written - e.calls >= rules.time_limit  # this step wrote nothing
        return True
    state.sequence[i, e.written] = 3 + action
    e.written += 1
    written, added = 1, 0.0
    if action == _END:
        e.over = e.valid = True
    elif action == _END_DEPENDENCIES:
        e.current, e.deps, e.input_named = -1, 0, False
    else:
        if action < _INPUT:
            number = action - _FIRST_TOOL
            state.sequence[i, e.written] = _SOD
            e.written += 1
            written = 2
            state.order[i, e.calls] = number
            e.calls += 1
            e.current = e.last = number
            e.used |= 1 << number
            e.tool_start = 0.0
            added = tables.price[e.level, number]
            e.price += added
        elif action == _INPUT:
            e.deps |= _INPUT_BIT
            e.input_named = True
            state.node[i, e.current] = tables.after[0, e.current]
        else:
            number = action - _FIRST_DEPENDENCY
            e.deps |= 1 << number
            e.consumed |= 1 << number
            e.tool_start = max(e.tool_start, state.ends[i, number])
            state.node[i, e.current] = tables.after[state.node[i, number], e.current]
        end = e.tool_start + tables.seconds[e.level, e.current]
        state.ends[i, e.current] = end
        if end > e.seconds:
            e.seconds = end
            e.log_seconds = np.float32(log(1.0 + end))
    e.tokens = e.written - 1
    if not e.over:
        left = rules.max_tokens - e.written
        e.legal = legal(e.kind, e.used, e.consumed, e.current, e.deps, e.last, left)
    kept = view.keeps_budget(rules, e)
    if action == _END and kept:
        return _close(tables, rules, store, state, common, i, line)
    if not kept:
        e.over = True
    _earn(rules, e, common, i, 0.0, added, written)
    return True


@inlined
def _close(tables: Any, rules: Any, store: Any, state: Any, common: Any, i: int, line: int) -> bool:
    """Score a finished plan; False if a score is missing."""
    e = state.episodes[i]
    sinks = e.used & ~e.consumed
    worth, lacking = plans.score(tables, store, e.task, e.sample, state.order, state.node, i, e.calls, sinks, line)
    if lacking:
        return False
    e.score = worth
    _earn(rules, e, common, i, rules.alpha * worth, 0.0, 1)
    return True


@inlined
def _earn(rules: Any, e: Any, common: Any, i: int, gained: float, added: float, written: int) -> None:
    incremental = gained - rules.loss * added
    e.worth += incremental
    reward = incremental
    if rules.cumulative:
        charged = _INVALID_REWARD if e.price == _INVALID_COST else -(1.0 - rules.alpha) * e.price / rules.max_price
        reward = written * charged + gained
    truncated = e.written - 1 - e.calls >= rules.time_limit  # a step writes a token, and SOD after a tool
    common.rewards[i], common.terminated[i], common.truncated[i] = reward, e.over, truncated
    e.ended = e.over or truncated


@inlined
def _show(tables: Any, rules: Any, state: Any, out: Any, i: int) -> None:
    """Write the observation and figures of an episode."""
    e, common = state.episodes[i], out.common
    copy_row(out.sequence, i, state.sequence, i)
    copy_row(common.task, i, rules.tasks, np.int64(e.task))
    copy_row(common.level, i, rules.levels, np.int64(e.level))
    copy_row(out.tools, i, rules.tools, np.int64(e.level))
    tools = out.tools
    for tool in range(_N):
        if (e.used >> tool) & 1:
            tools[i, tool, 4] = 1.0
            tools[i, tool, 5] = (e.consumed >> tool) & 1
            tools[i, tool, 7] = (e.deps >> tool) & 1
    if e.current >= 0:
        tools[i, e.current, 6] = 1.0
    progress = out.progress
    progress[i, 0] = e.price / rules.max_price
    progress[i, 1] = e.log_seconds
    progress[i, 2] = e.tokens / rules.max_tokens
    progress[i, 3] = e.calls / _N
    progress[i, 4] = e.current >= 0
    progress[i, 5] = e.input_named
    progress[i, 6] = view.share_left(rules, 0, e.price)
    progress[i, 7] = view.share_left(rules, 1, e.seconds)
    progress[i, 8] = view.share_left(rules, 2, np.float64(e.tokens))
    progress[i, 9] = view.share_left(rules, 3, np.float64(e.calls))
    allowed = 1 << _END if e.over else np.int64(e.legal)
    for action in range(_N_ACTIONS):
        common.mask[i, action] = (allowed >> action) & 1
    view.show_figures(tables, rules, e, common, i)

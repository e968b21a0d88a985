"""Compiled steps of N sessions; `sessions.session.MarketplaceSessionEnv` plays one in Python."""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costgym.envs.features import session_columns
from costgym.envs.features.session_features import PAUSE_S, PRICE_UNIT
from costgym.envs.vector.info import NOTHING_SPENT, report, spent
from costgym.envs.vector.kernels.marketplace import Ended, Starts
from costgym.simulators import draws
from costgym.simulators.batch import kernels as world
from costgym.simulators.batch import rng
from costgym.simulators.batch import sessions as play
from costgym.simulators.batch.arguments import bound_arguments
from costgym.simulators.batch.compile import compiled_form
from costgym.simulators.batch.memory import (
    clear_row,
    copy_row,
    prefetch,
    prefetch_own,
    record_at,
    record_in,
    record_type,
    take_place,
)
from costgym.simulators.batch.rng import compiled, inlined, internal, next_draw, prange, row, threaded
from costgym.simulators.status import Status

__all__ = [
    "BEGINNING", "SEEN", "Ended", "Out", "Starts", "View", "act_row", "play_one", "reset_row", "reset_where", "step_part",
    "step_parts",
]  # fmt: skip

SEEN = record_type(
    [("recent", np.float64)] + [(name, np.int32) for name in ("ended", "right", "failures", "timeouts", "refusals")]
)
"""An agent's counts for a tool: the weighted share of calls that worked, the number that ended and that worked, the number that
failed since, and those that timed out and that were refused connections."""
_PRICE = 0  # a column of `tools`
_OK, _OUTAGE = int(Status.OK), int(Status.OUTAGE)
_TIMEOUT, _NOT_CONNECTED = int(Status.TIMEOUT), int(Status.CONNECTION_ERROR)
shown_as = compiled_form((), session_columns, {draws.log: rng.log, draws.decay: rng.decay})["session_columns"]
_WHOLE, _NONE = np.float32(1.0), np.float32(0.0)


class View(NamedTuple):
    """The view of N sessions over M tools, from which observations are written."""

    # tools, fixed: (N, M, F) `observation["tools"]` of the last step, and those of its columns that a session fixes, where they
    # are apart
    tools: NDArray[np.float32]
    fixed: NDArray[np.float32]
    seen: NDArray[np.void]  # (N, M) `SEEN`
    # (N, M) when the last call of each tool ended, -1 if none has; apart from `seen`, since every step reads it of all tools
    called_s: NDArray[np.float64]
    outage_s: NDArray[np.float64]  # (N, P) when each provider was last seen down; -1 if never
    showing: NDArray[np.int32]  # (N,) the tool whose call ended or was refused last; -1 for none
    lasted_s: NDArray[np.float64]  # (N,) seconds that the last action took
    version: int  # of the observation
    # quota, serves, last: the places of `quota_left`, `serves` and `last_ok` among the columns of `tools`
    quota: int
    serves: int
    last: int
    factored: bool  # `fixed` is apart
    shared: bool  # `tools` and `fixed` are the arrays that a step returns
    # first, choices: the number of the first session of the split, and how many it has
    first: int
    choices: int
    # counted, useful, concurrent: `memory` is ``counts``, `mask` is ``useful``, calls run side by side
    counted: bool
    useful: bool
    concurrent: bool
    subtracts: bool  # the reward subtracts the price
    # success_share, ttl_s: of the rules
    success_share: float
    ttl_s: float
    # max_steps, time_limit, autoreset: as in `kernels.marketplace.View`
    max_steps: int
    time_limit: int
    autoreset: bool
    # judged, resource: likewise
    judged: bool
    resource: int


class Out(NamedTuple):
    """The arrays that a step writes: observations, outcomes and figures of N episodes."""

    # tools, query, resources: (N, M, F), (N, 5 + kinds), (N, 5)
    tools: NDArray[np.float32]
    query: NDArray[np.float32]
    resources: NDArray[np.float32]
    mask: NDArray[np.bool_]  # (N, A)
    # rewards, terminated, truncated: (N,)
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    # figures, counts: (8, N), (3, N) named by `info.FIGURES` and `info.COUNTS`
    figures: NDArray[np.float64]
    counts: NDArray[np.int64]
    success: NDArray[np.bool_]  # (N,)
    # queries, reported: (N,) the present query, and the tool whose call ended or was refused last
    queries: NDArray[np.int64]
    reported: NDArray[np.int64]
    values: NDArray[np.float64]  # (2, N) value of the queries that passed, and its share of all
    fixed: NDArray[np.float32]  # (N, M, 4 + kinds) as in `kernels.marketplace.Out`


@compiled
def reset_where(bound: Any, out: Any, starts: Any, where: Any, show_all: bool) -> Any:
    """Begin the episodes of `where`; with `show_all` also write the state of the others. A row has room for every episode."""
    tables, rules, state, view, streams, _, _ = bound_arguments(bound)
    for i in range(where.size):
        reset_row(tables, rules, state, view, out, streams, starts, where, show_all, i)
    return 0  # an episode begins with room


@row
def reset_row(
    tables: Any, rules: Any, state: Any, view: Any, out: Any, streams: Any, starts: Any, where: Any, show_all: bool, i: int
) -> None:
    """Begin episode i where `where` says so; see `kernels.marketplace.reset_row`."""
    limited, before = play.limited(rules, state.sessions, i), spent(record_at(state.episodes, i))
    if where[i]:
        _begin(tables, limited, state, view, streams, starts, i)
        limited, before = play.limited(rules, state.sessions, i), NOTHING_SPENT
    if where[i] or show_all:
        _show(tables, limited, state, view, out, i, before)


@compiled
def step_part(bound: Any, out: Any, actions: Any, part: int) -> None:
    """Play one step of the episodes of a part; see `kernels.marketplace.step_part`."""
    tables, rules, state, view, streams, starts, room = bound_arguments(bound)
    parts, used = room.size, np.int64(0)
    for i in range(part * actions.size // parts, (part + 1) * actions.size // parts):
        _look_ahead(tables, state, view, actions, i)
        used = max(used, step_row(tables, rules, state, view, out, streams, actions, starts, i))
    room[part] = used


@threaded
def step_parts(bound: Any, out: Any, actions: Any, parts: int) -> None:
    """Play one step of every episode, each part on a thread of its own."""
    for part in prange(parts):
        step_part(bound, out, actions, np.int64(part))


@compiled
def play_one(bound: Any, action: int, task: int, seed: int) -> Any:
    """Play an action of a batch of one, or begin an episode; see `kernels.marketplace.play_one`."""
    tables, rules, state, view, out, streams, actions, starts = bound_arguments(bound)
    record_at(state.episodes, 0).ended = task >= 0
    actions[0], starts.tasks[0], starts.seeds[0] = action, task, np.uint64(seed)
    return step_row(tables, rules, state, view, out, streams, actions, starts, 0)


@row
def step_row(tables: Any, rules: Any, state: Any, view: Any, out: Any, streams: Any, actions: Any, starts: Any, i: int) -> Any:
    """Play an action in episode i, or begin the next one; returns the number of places that it uses."""
    begins = view.autoreset and record_at(state.episodes, i).ended
    if begins:
        _begin(tables, play.limited(rules, state.sessions, i), state, view, streams, starts, i)
        before, value = NOTHING_SPENT, 0.0
    else:
        before, value = _played(tables, rules, state, view, actions, i)
    return _end_step(tables, rules, state, view, out, i, before, value, begins)


@row
def _played(tables: Any, rules: Any, state: Any, view: Any, actions: Any, i: int) -> Any:
    """Play an action; returns what had been spent and the value of the queries that had passed before."""
    before, value = spent(record_at(state.episodes, i)), record_at(state.sessions.progress, i).value
    _act(tables, play.limited(rules, state.sessions, i), state, view, i, np.int64(actions[i]))
    view.lasted_s[i] = record_at(state.episodes, i).now - before[1]
    return before, value


@row
def _end_step(tables: Any, rules: Any, state: Any, view: Any, out: Any, i: int, before: Any, value: float, begins: bool) -> Any:
    """Write what a step returns; returns the number of places that the episode uses."""
    e = record_at(state.episodes, i)
    cost = _show(tables, play.limited(rules, state.sessions, i), state, view, out, i, before)
    reward = record_at(state.sessions.progress, i).value - value
    if view.subtracts:
        reward -= cost
    out.rewards[i] = 0.0 if begins else reward
    out.terminated[i] = e.over and not begins
    out.truncated[i] = ((not e.over and e.steps >= view.max_steps) or e.steps >= view.time_limit) and not begins
    e.ended = out.terminated[i] or out.truncated[i]
    return np.int64(world.places_used(e))


# -- the same on a GPU, as in `kernels.marketplace` ----------------------------------------------------------------------------


@inlined
def act_row(
    tables: Any, rules: Any, state: Any, view: Any, out: Any, streams: Any, actions: Any, starts: Any, ended: Any, i: int
) -> None:
    """Play an action in episode i, or note in `ended` that the next one begins."""
    begins = view.autoreset and record_at(state.episodes, i).ended
    if not begins:
        before, value = _played(tables, rules, state, view, actions, i)
        _end_step(tables, rules, state, view, out, i, before, value, False)
    if begins or (ended.at_once and record_at(state.episodes, i).ended):
        ended.rows[take_place(ended.total)] = i


@inlined
def begin_row(
    tables: Any, rules: Any, state: Any, view: Any, out: Any, streams: Any, actions: Any, starts: Any, ended: Any, k: int
) -> None:
    """Begin the k-th of the noted episodes, and write what it observes."""
    if k < ended.total[0]:
        i = ended.rows[k]
        _begin(tables, play.limited(rules, state.sessions, i), state, view, streams, starts, i)
        if ended.at_once:
            _show(tables, play.limited(rules, state.sessions, i), state, view, out, i, NOTHING_SPENT)
        else:
            _end_step(tables, rules, state, view, out, i, NOTHING_SPENT, 0.0, True)


BEGINNING: tuple[tuple[Any, int], ...] = ((begin_row, 1),)


@inlined
def _look_ahead(tables: Any, state: Any, view: Any, actions: Any, i: int) -> None:
    """Prefetch the memory of the next episodes, as `kernels.marketplace` does.

    With it, and with `View.called_s` apart, a step of 1,024 or 16,384 sessions takes 0.8 to 0.9 of the time (two shared cores
    of an AMD EPYC, 2026-11-29).
    """
    far, near, sessions = i + world.FAR, i + world.NEAR, state.sessions
    if far >= actions.size:
        return
    world.prefetch_episode(state, far)
    query, slot = np.int64(record_at(sessions.progress, near).query), np.int64(actions[near])
    prefetch(sessions.value, near, query * sessions.value.itemsize)
    prefetch(sessions.fact, near, query * sessions.fact.itemsize)
    prefetch(sessions.capability, near, query * sessions.capability.itemsize)
    if 0 <= slot < state.slots.shape[1]:
        world.prefetch_call(tables, state, near, near, slot)
        prefetch_own(sessions.lasted_s, near, slot * sessions.lasted_s.itemsize)
        prefetch_own(view.seen, near, slot * view.seen.itemsize)
        prefetch(sessions.adverts, near, slot * 2 * sessions.adverts.itemsize)
    for line in range(0, view.tools.shape[1] * view.tools.shape[2] * view.tools.itemsize, 64):
        prefetch_own(view.tools, near, line)


@internal
def _begin(tables: Any, rules: Any, state: Any, view: Any, streams: Any, starts: Any, i: int) -> None:
    """Begin the session that was put into row i, or else the one of the start's number, or one that is drawn."""
    draw, number = starts.seeds[i] if starts.drawn else next_draw(streams, i), np.int64(starts.tasks[i])
    if number < 0:
        number = view.first + np.int64(draw % np.uint64(view.choices))
    play.begin(tables, rules, state, state.sessions, i, number, starts.seeds[i] if starts.seeded[i] else draw)
    if not state.sessions.drawn:
        _open(tables, state.sessions, view, i)
    view.lasted_s[i] = 0.0
    clear_row(view.seen, i)
    for slot in range(view.seen.shape[1]):
        record_in(view.seen, i, slot).recent, view.called_s[i, slot] = 0.5, -1.0
    for provider in range(view.outage_s.shape[1]):
        view.outage_s[i, provider] = -1.0
    view.showing[i] = -1
    _show_query(tables, state.sessions, view, i)


@inlined
def _open(tables: Any, sessions: Any, view: Any, i: int) -> None:
    """Write the columns of `tools` that hold before the first call, as `session_features.opening` does."""
    clear_row(view.tools, i)
    if view.factored:
        clear_row(view.fixed, i)
        _open_fixed(tables, sessions, view, view.fixed, i, 0, 4)
    else:
        _open_fixed(tables, sessions, view, view.tools, i, 1, view.serves + 1)
    tools, last = view.tools, view.last
    for slot in range(tools.shape[1]):
        latency = shown_as.log_share(sessions.adverts[i, slot, 1], shown_as.CALL)
        tools[i, slot, view.quota] = _WHOLE
        if view.counted:
            tools[i, slot, last - 5] = tools[i, slot, last - 4] = 0.5
            tools[i, slot, last - 2] = tools[i, slot, last - 1] = _WHOLE
            tools[i, slot, last + 2] = latency


@inlined
def _open_fixed(tables: Any, sessions: Any, view: Any, array: Any, i: int, first: int, kinds: int) -> None:
    """Write what a session fixes, into the columns of an array from `first` and from `kinds` on."""
    for slot in range(array.shape[1]):
        array[i, slot, first] = shown_as.log_share(sessions.adverts[i, slot, 1], shown_as.CALL)
        array[i, slot, first + 1] = sessions.adverts[i, slot, 0]
        array[i, slot, first + 2] = (sessions.provider[i, slot] + 1.0) / view.outage_s.shape[1]
        array[i, slot, first + 3] = tables.slots[i, slot].rate_limit / 10.0
        array[i, slot, kinds + sessions.offers[i, slot]] = _WHOLE


@row
def _act(tables: Any, rules: Any, state: Any, view: Any, i: int, action: Any) -> None:
    """Play one action."""
    e, sessions = record_at(state.episodes, i), state.sessions
    e.steps += 1
    width, query = state.slots.shape[1], record_at(sessions.progress, i).query
    if action == width + 1:
        play.end_query(tables, rules, state, i, False)
    elif action == width and play.remembers(sessions, i):
        play.recall(tables, rules, state, i)
    elif action < width and sessions.offers[i, action] < 0:
        play.refuse(tables, rules, state, i)
        e.status = world.UNKNOWN_TOOL
    elif action < width and view.useful and sessions.offers[i, action] != sessions.capability[i, query]:
        play.refuse(tables, rules, state, i)
        _take(state, view, i, action, np.int64(world.FORBIDDEN), False)
    elif action < width and view.concurrent:
        refusal = play.submit(tables, rules, state, sessions, i, action)
        if refusal >= 0:
            _take(state, view, i, action, np.int64(refusal), False)
        else:
            _show_quota(state, view, i, action)
    elif action < width:
        status, ran = play.call(tables, rules, state, sessions, i, action)
        _take(state, view, i, action, status, ran)
    elif action == width + 3 or (action == width + 2 and (e.records > 0 or e.news > 0)):
        code = play.pause(tables, rules, state, i, PAUSE_S if action == width + 3 else np.inf)
        if code != world.NOTHING:
            _take(state, view, i, np.int64(code // 64), np.int64(code % 64), True)
    elif action > width + 3 and world.oldest(state, i, action - width - 4) != world.NOTHING:
        play.cancel(tables, rules, state, i, world.oldest(state, i, action - width - 4))
        e.status = play.CANCELLED
    else:
        play.refuse(tables, rules, state, i)
        e.status = world.FORBIDDEN
    if record_at(sessions.progress, i).query != query:
        _show_query(tables, state.sessions, view, i)
        if view.version and view.counted:
            for slot in range(width):
                view.tools[i, slot, view.last + 5] = _NONE


@inlined
def _show_quota(state: Any, view: Any, i: int, slot: Any) -> None:
    quota = state.sessions.quota[i, slot]
    if quota:
        view.tools[i, slot, view.quota] = 1.0 - state.slots[i, slot].count / quota


@inlined
def _show_running(state: Any, view: Any, i: int) -> None:
    """Write the columns of `tools` about calls in flight."""
    tools, sessions, e = view.tools, state.sessions, record_at(state.episodes, i)
    first = tools.shape[2] - 3
    query = min(np.int64(record_at(sessions.progress, i).query), sessions.fact.shape[1] - 1)
    for slot in range(tools.shape[1]):
        tools[i, slot, first] = tools[i, slot, first + 1] = tools[i, slot, first + 2] = _NONE
    for index in range(e.records - 1, -1, -1):  # the oldest last
        called, made_for = np.int64(state.numbers[i, index]), np.int64(record_in(state.calls, i, index).start_epoch)
        tools[i, called, first] = shown_as.one_more(tools[i, called, first])
        if sessions.fact[i, made_for] == sessions.fact[i, query]:
            tools[i, called, first + 1] = shown_as.one_more(tools[i, called, first + 1])
        tools[i, called, first + 2] = shown_as.ago(e.now - record_in(state.bills, i, index).started)


@internal
def _take(state: Any, view: Any, i: int, slot: Any, status: Any, ran: bool) -> None:
    """Take in how a call ended or was refused."""
    e, tools, seen = record_at(state.episodes, i), view.tools, record_in(view.seen, i, slot)
    e.status = status
    last = view.last
    if not view.counted and view.showing[i] >= 0:
        tools[i, view.showing[i], last] = tools[i, view.showing[i], last + 1] = _NONE
    view.showing[i] = slot
    tools[i, slot, last], tools[i, slot, last + 1] = (_WHOLE, _NONE) if shown_as.looks_ok(status) else (_NONE, _WHOLE)
    if not ran:
        if view.version and view.counted and shown_as.limited(status):
            tools[i, slot, last + 5] = _WHOLE
        return
    _show_quota(state, view, i, slot)
    if not view.counted:
        return
    seen.ended += 1
    count = np.int64(seen.ended)
    right = status == _OK
    seen.right += right
    seen.recent = shown_as.recent_ok(seen.recent, right)
    seen.failures = 0 if right else seen.failures + 1
    first = last - 6
    (
        tools[i, slot, first], tools[i, slot, first + 1], tools[i, slot, first + 2], tools[i, slot, first + 3],
    ) = shown_as.past(count, seen.right, seen.recent, seen.failures)  # fmt: skip
    if view.version:
        seen.timeouts += status == _TIMEOUT
        seen.refusals += status == _NOT_CONNECTED
        all_s = state.sessions.adverts[i, slot, 1] + state.sessions.lasted_s[i, slot]
        tools[i, slot, last + 2], tools[i, slot, last + 3], tools[i, slot, last + 4] = shown_as.causes(
            count, np.int64(seen.right), seen.timeouts, seen.refusals, all_s
        )
    view.called_s[i, slot] = e.now
    if status == _OUTAGE:
        view.outage_s[i, state.sessions.provider[i, slot]] = e.now


@inlined
def _show_query(tables: Any, sessions: Any, view: Any, i: int) -> None:
    """Write the columns of `tools` that change with the query. After the last one its prices stay."""
    query = record_at(sessions.progress, i).query
    over = query >= sessions.fact.shape[1]
    for slot in range(view.tools.shape[1]):
        view.tools[i, slot, _PRICE] = tables.quote[i, 0, slot] / PRICE_UNIT
        serves = not over and sessions.offers[i, slot] == sessions.capability[i, query]
        view.tools[i, slot, view.serves] = _WHOLE if serves else _NONE


@inlined
def _show_times(sessions: Any, view: Any, i: int, now: float) -> None:
    """Write the columns of `tools` that change with time."""
    tools, provider = view.tools, sessions.provider
    since = view.last - 2
    for slot in range(tools.shape[1]):
        called_s = view.called_s[i, slot]
        if called_s >= 0.0:
            tools[i, slot, since] = shown_as.since(view.version, now - called_s)
    for number in range(view.outage_s.shape[1]):
        if view.outage_s[i, number] >= 0.0:
            share = np.float32(shown_as.since(view.version, now - view.outage_s[i, number]))
            for slot in range(tools.shape[1]):
                if provider[i, slot] == number:
                    tools[i, slot, since + 1] = share


@inlined
def _show_life(sessions: Any, view: Any, shown: Any, i: int, now: float, known: bool) -> None:
    """Write what `query` shows of version 1 beside version 0."""
    kinds, query = np.int64(sessions.plan[0].kinds), np.int64(record_at(sessions.progress, i).query)
    if known:
        fact = sessions.fact[i, query]
        shown[i, 5 + kinds], shown[i, 6 + kinds] = shown_as.life(
            now - sessions.found_s[i, fact], now - sessions.checked_s[i, fact], view.ttl_s
        )
    shown[i, 7 + kinds] = shown_as.log_share(sessions.fact.shape[1] - query, shown_as.QUERIES)


@inlined
def _show_absolute(rules: Any, sessions: Any, view: Any, out: Any, e: Any, i: int) -> None:
    """Write what `resources` shows of version 1 beside version 0."""
    shown, status = out.resources, np.int64(e.status)
    facts = record_at(sessions.progress, i).facts / sessions.fact.shape[1]
    (
        shown[i, 5], shown[i, 6], shown[i, 7], shown[i, 8], shown[i, 9], shown[i, 10], shown[i, 11], shown[i, 12],
    ) = shown_as.absolute(rules, e.price, e.now, e.calls, facts, view.lasted_s[i])  # fmt: skip
    shown[i, 13], shown[i, 14], shown[i, 15], shown[i, 16] = shown_as.last_end(status)


@inlined
def _show(tables: Any, rules: Any, state: Any, view: Any, out: Any, i: int, before: Any) -> Any:
    """Write the observation and figures of an episode; return what this step has cost."""
    e, sessions, progress = record_at(state.episodes, i), state.sessions, record_at(state.sessions.progress, i)
    queries, width = sessions.fact.shape[1], state.slots.shape[1]
    kinds = np.int64(sessions.plan[0].kinds)
    query, now = progress.query, e.now
    over, known = query >= queries, play.remembers(sessions, i)
    if view.counted:
        _show_times(state.sessions, view, i, now)
    if view.concurrent:
        _show_running(state, view, i)
    if not view.shared:
        copy_row(out.tools, i, view.tools, i)
        if view.factored:
            copy_row(out.fixed, i, view.fixed, i)
    shown = out.query
    for column in range(shown.shape[1]):
        shown[i, column] = 0.0
    kind = sessions.capability[i, query] if not over else 0
    if not over:
        shown[i, 0] = sessions.value[i, query] / shown_as.HIGHEST_VALUE
        shown[i, 1 + kind] = 1.0
        if known:
            age = now - sessions.found_s[i, sessions.fact[i, query]]
            shown[i, 1 + kinds] = 1.0
            shown[i, 2 + kinds] = shown_as.age(age, view.ttl_s)
        shown[i, 3 + kinds], shown[i, 4 + kinds] = shown_as.progress(progress.called, query, queries)
        if view.version:
            _show_life(sessions, view, shown, i, now, known)
    resources = out.resources
    resources[i, 0], resources[i, 1], resources[i, 2], resources[i, 3], resources[i, 4] = shown_as.resources(
        rules, e.price, now, e.steps / view.max_steps, progress.value, queries
    )
    if view.version:
        _show_absolute(rules, sessions, view, out, e, i)

    mask = out.mask
    spent_so_far, limit = world.spent_and_limit(rules, e)
    for slot in range(width):
        offer = sessions.offers[i, slot]
        serves = offer == kind or (offer >= 0 and not view.useful)
        covered = not rules.refuse or spent_so_far + tables.quote[i, 0, slot] <= limit
        mask[i, slot] = serves & covered & (not e.over)
    mask[i, width] = known and not e.over
    mask[i, width + 1] = True
    if view.concurrent:
        mask[i, width + 2] = (not e.over) and (e.records > 0 or e.news > 0)
        mask[i, width + 3] = not e.over
        for slot in range(width):
            mask[i, width + 4 + slot] = (not e.over) and state.slots[i, slot].busy > 0

    cost, _ = report(rules, view, out, e, i, before)
    share = progress.value / sessions.total[i]
    out.reported[i] = view.showing[i]
    out.queries[i], out.values[0, i], out.values[1, i] = query, progress.value, share
    out.success[i] = e.over and share >= view.success_share
    return cost

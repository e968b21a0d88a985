"""Sessions: queries one after the other on one clock, what moves between them, and what is remembered."""

from typing import Any

from costgym.simulators.rules import layout
from costgym.simulators.rules.actions import advance, wait
from costgym.simulators.rules.calls import complete, end
from costgym.simulators.rules.failures import ALIVE


def begin_query(tables: Any, state: Any, i: Any) -> None:
    """Let the tools and prices of the present query hold. They move by their own draws, whatever was called before."""
    sessions = layout.sessions(state)
    query = layout.query(sessions, i)
    layout.open_query(layout.episode(state, i), query)
    if layout.rests(sessions, i, query):
        return
    for slot in layout.tools(state):
        layout.drift(sessions, i, query, slot)
        layout.tool(state, i, slot).chain = ALIVE + layout.state_in(sessions, i, query, slot)
        layout.set_session_price(tables, sessions, i, query, slot)


def end_query(tables: Any, rules: Any, state: Any, i: Any, passed: Any) -> None:
    """End the present query, and let the next one come."""
    sessions = layout.sessions(state)
    layout.close_query(sessions, i, passed)
    if layout.query(sessions, i) == layout.queries(sessions):
        end(tables, rules, state, i, 0)
    else:
        begin_query(tables, state, i)


def recall(tables: Any, rules: Any, state: Any, i: Any) -> Any:
    """Answer the present query from memory; return whether the fact was alive. One that was not is forgotten."""
    sessions = layout.sessions(state)
    fact = layout.fact_of(sessions, i, layout.query(sessions, i))
    found_s, found_for = layout.memory(sessions, i, fact)
    alive = layout.now(layout.episode(state, i)) - found_s <= layout.lives_s(sessions, i, found_for)
    if alive:
        layout.check_fact(sessions, i, fact, layout.now(layout.episode(state, i)))
    else:
        layout.forget_fact(sessions, i, fact)
    end_query(tables, rules, state, i, alive)
    return alive


def complete_in_session(tables: Any, rules: Any, state: Any, i: Any, index: Any) -> None:
    """End a call. What it brings is remembered, and passes the present query if that asks for it."""
    sessions, e, call = layout.sessions(state), layout.episode(state, i), layout.call(state, i, index)
    need, query = layout.integer(call.need), layout.query_of(call)  # the record may go with the call
    slot, (started_s, _) = layout.slot(state, i, index), layout.started_and_ready(rules, state, i, index)
    layout.count_call(sessions, i, query)
    layout.count_seconds(sessions, i, slot, layout.now(e) - started_s)
    complete(tables, rules, state, i, index)
    if not e.over and need >= 0 and need == layout.capability(sessions, i, query):
        fact = layout.fact_of(sessions, i, query)
        layout.remember(sessions, i, fact, layout.now(e), query)
        if fact == layout.fact_of(sessions, i, layout.query(sessions, i)):
            end_query(tables, rules, state, i, True)


def pause(tables: Any, rules: Any, state: Any, i: Any, seconds: Any) -> Any:
    """Go to the next end of a call, for so many seconds at most, and return it; `layout.NOTHING` where no call ends by then."""
    e = layout.episode(state, i)
    if not layout.news(e) and layout.end_at(state, i) > layout.now(e) + seconds:
        advance(tables, rules, state, i, seconds)
        return layout.NOTHING
    return wait(tables, rules, state, i)

"""What an agent does: it submits and cancels calls, waits, and lets time pass."""

from typing import Any

from costgym.simulators.rules import layout
from costgym.simulators.rules.calls import admit, cut, end, free, go_on
from costgym.simulators.rules.gateway import SECONDS, gateway


def submit(tables: Any, rules: Any, state: Any, i: Any, slot: Any) -> Any:
    """Start a call of a candidate; returns the status of a refusal, or -1 where the call is on its way."""
    refusal = gateway(tables, rules, state, i, slot)
    if refusal >= 0:
        refuse(tables, rules, state, i)
    else:
        admit(tables, rules, state, i, slot)
    return refusal


def refuse(tables: Any, rules: Any, state: Any, i: Any) -> None:
    """Let the time of a refusal pass, which costs nothing else."""
    advance(tables, rules, state, i, rules.gateway_s)


def cancel(tables: Any, rules: Any, state: Any, i: Any, index: Any) -> None:
    """Cut off a call in flight. That takes no time, and bills what the call has used; an instance that had loaded is idle."""
    free(tables, rules, state, i, index, cut(tables, rules, state, i, index))
    go_on(tables, rules, state, i)


def oldest(state: Any, i: Any, slot: Any) -> Any:
    """The oldest call of a candidate that is in flight, which is the one to cancel; `layout.NOTHING` where none is."""
    for index in layout.all_in_flight(state, i):
        if layout.slot(state, i, index) == slot:
            return index
    return layout.NOTHING


def advance(tables: Any, rules: Any, state: Any, i: Any, seconds: Any) -> None:
    """Let time pass. Calls that end meanwhile are reported by later waits."""
    e = layout.episode(state, i)
    if layout.now(e) + seconds > rules.deadline_s:
        run_out(tables, rules, state, i)
    else:
        layout.sleep(tables, rules, state, i, seconds)


def run_out(tables: Any, rules: Any, state: Any, i: Any) -> None:
    """Go to the limit of seconds, and end the episode there if nothing has ended it before."""
    layout.reach(tables, rules, state, i, rules.deadline_s)
    if not layout.episode(state, i).over:
        end(tables, rules, state, i, SECONDS)


def wait(tables: Any, rules: Any, state: Any, i: Any) -> Any:
    """Go to the next completion or visible event, and return it; `layout.NOTHING` where none comes before the end."""
    e = layout.episode(state, i)
    if not layout.news(e) and layout.in_flight(e) == 0:
        return layout.NOTHING
    while not layout.news(e):
        if layout.next_at(tables, state, i) > rules.deadline_s:
            run_out(tables, rules, state, i)
            return layout.NOTHING
        layout.step(tables, rules, state, i)
    return layout.take_news(state, i)

"""How a tool fails: its latent chain, the ways to fail, and outages."""

from typing import Any

from costgym.simulators.rules import layout

UNSEEN, ALIVE, DEGRADED, DEAD = range(4)
"""States of a tool's latent chain; the first before it has been called."""


def wake(tables: Any, e: Any, spec: Any, tool: Any, u_state: Any, u_usual: Any) -> None:
    """Draw the hidden state of a tool for an episode, and its usual way to fail."""
    tool.chain = ALIVE if u_state < spec.alive_edge else DEGRADED if u_state < spec.degraded_edge else DEAD
    tool.usual = pick(tables, e, u_usual)


def start_next(spec: Any, tool: Any, luck: Any) -> None:
    """Let a tool's next call start: whether it finds the tool working follows from the hidden state and the call's own luck."""
    chance = 1.0 - spec.slip if tool.chain == ALIVE else 0.5 if tool.chain == DEGRADED else spec.slip
    if tool.started > 0:
        # failures come in runs: the chance is pulled towards the outcome of the tool's call before
        pull = spec.persistence
        chance = chance + pull * (1.0 - chance) if tool.works else chance - pull * chance
    tool.started += 1
    tool.works = luck < chance


def way_to_fail(tables: Any, rules: Any, e: Any, tool: Any, luck: Any) -> Any:
    """How a call fails: mostly in the tool's usual way."""
    if luck < rules.sticky:
        return tool.usual
    return pick(tables, e, (luck - rules.sticky) / (1.0 - rules.sticky))


def pick(tables: Any, e: Any, luck: Any) -> Any:
    """The way to fail, in the world of an episode, whose cumulative weight first exceeds the luck."""
    kind = 0
    while luck >= layout.kind_edge(tables, e, kind):
        kind += 1
    return layout.kind_status(tables, e, kind)


def outage_after(every_s: Any, lasts_s: Any, at_first: Any, first: Any, end: Any, u_gap: Any, u_length: Any) -> Any:
    """Begin and end of the outage that follows one that ended; `first`: there was none, and one may be under way."""
    if first:
        # gaps have no memory, and neither have lengths: an outage that is under way lasts as long as a new one
        u_gap = max(0.0, (u_gap - at_first) / (1.0 - at_first))
    begin = end - every_s * layout.log(1.0 - u_gap)
    return begin, begin - lasts_s * layout.log(1.0 - u_length)

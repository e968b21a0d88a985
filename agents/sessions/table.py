"""The agents of sessions, for the table of agents."""

from collections.abc import Callable
from functools import partial
from typing import Any

from ..base import SESSION, SESSION_CHAT, Agent
from ..classic import RandomAgent
from .policies import OPTIMISM, Hedged, IndexPolicy, InformedPaced, SessionDoNothing, SessionGreedy
from .speaking import SpokenCheapest


class SessionRandom(RandomAgent):
    """Any action that the mask allows, each as likely."""

    env_id = SESSION


_TABLE: tuple[tuple[str, str, Callable[[], Agent]], ...] = (
    ("do-nothing", "leaves every query", SessionDoNothing),
    ("random", "any allowed action", SessionRandom),
    ("greedy", "the best advertised success for its price, for every query until the money is gone", SessionGreedy),
)
# name, summary, and `memory`, `paced` and further arguments of `IndexPolicy`
_INDICES: tuple[tuple[str, str, bool, bool, dict[str, Any]], ...] = (
    ("bayes-index", "the lowest price over the inferred chance, by a belief for each query", False, False, {}),
    ("bayes-memory", "the same with beliefs that are kept over the session", True, False, {}),
    ("paced", "an index by a belief for each query, under a shadow price that follows spending", False, True, {}),
    ("thompson", "paced, with chances drawn from beliefs that are kept over the session", True, True, {"samples": True}),
    ("optimistic", "paced, with memory and an upper confidence bound", True, True, {"optimism": OPTIMISM}),
)


def session_entries(entry: Callable[..., Any]) -> tuple[Any, ...]:
    """Rows of the table of agents, each made by `entry`."""
    rows = tuple(entry(name, summary, make, SESSION) for name, summary, make in _TABLE)
    indices = tuple(
        entry(name, summary, partial(IndexPolicy, name, memory, paced, **more), SESSION)
        for name, summary, memory, paced, more in _INDICES
    )
    side = "optimistic, which calls another tool beside one that takes long, where calls may run side by side"
    about = "answers from memory, else by the cheapest tools that serve the query, three at most"
    return (
        *rows,
        *indices,
        entry("hedged", side, Hedged, SESSION),
        entry("informed-paced", "paced, knows every tool's present regime, not its luck", InformedPaced, SESSION, True),
        entry("cheapest", about, SpokenCheapest, SESSION_CHAT),
    )

"""The calls of a solved episode, from which language models learn before they play."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol


class NeedsShown(Protocol):
    """The basis of the calls: the needs of an episode, and which of their facts were shown so far."""

    @property
    def needs(self) -> Any: ...

    @property
    def known(self) -> Any: ...


def solve(
    episode: NeedsShown,
    quotes: Mapping[str, float],
    luck: Callable[[], float],
    say: Callable[[str, dict[str, Any]], None],
    over: Callable[[], bool],
) -> bool:
    """Call tools and give the answer; return whether a result showed all that the answer states.

    For each need, tools that serve it are called in a random order that favours cheap ones (by `quotes`, and uniform numbers of
    `luck`) until one shows the fact; the episode's needs and facts are read again after every call, which `say` makes by the
    function's name and arguments. An answer that no result showed would teach a model to invent.
    """
    for index, need in enumerate(episode.needs):
        for name in sorted(need.tools, key=lambda tool: quotes.get(tool, math.inf) * (0.3 + luck())):
            if name in quotes and not episode.known[index] and not over():
                say(name, dict(need.arguments))
    shown = all(episode.known)
    if not over():
        say("finish", {"answer": "; ".join(str(need.fact) for need in episode.needs)})
    return shown

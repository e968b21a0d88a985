"""Strategies that branch: depth-first searches over replies.

The world is never rolled back: every call that was made is paid for, and only the conversation goes back to where a branch
began.

Sources: ToolLLM (arXiv 2307.16789) for DFSDT; Tree of Thoughts (arXiv 2305.10601) with ToolBench's pairwise votes for ToT-DFS.
"""

from .. import prompts
from ..llm.session import LlmSession
from ..llm.types import Play, SearchResult, Turn
from ..models.base import USER, VOTE, Message, to_json
from .settings import LimitedSearch, SearchSettings

STOP = 1_000_000
"""Levels to go back when the search is over."""
SHORT = 300
"""Characters of a result that a list of earlier steps quotes."""


class Dfsdt(LimitedSearch):
    """Depth-first search: follows each new step at once, and returns for another where a branch gives up or gets too deep."""

    name = "dfsdt"

    def play(self, session: LlmSession) -> Play[SearchResult]:
        search = _Search(session, self.settings)
        yield from search.preorder([session.request], 0, self.settings.width)
        return search.ending


class TotDfs(LimitedSearch):
    """Makes all children of a node first, lets the model vote between them, and goes on from the best."""

    name = "tot-dfs"
    usual = SearchSettings(depth=8, queries=30)  # 30 replies, as in BTP

    def play(self, session: LlmSession) -> Play[SearchResult]:
        search = _Search(session, self.settings)
        yield from search.best_first([session.request], 0, self.settings.width)
        return search.ending


class _Search:
    """A tree search under way; its methods return how many levels to go back."""

    def __init__(self, session: LlmSession, settings: SearchSettings) -> None:
        self.session, self.settings = session, settings
        self.ending = SearchResult(None)

    def preorder(self, history: list[Message], depth: int, width: int) -> Play[int]:
        if depth >= self.settings.depth:
            return self.settings.depth_levels
        tried: list[Turn] = []
        for _ in range(width):
            if self._over():
                return STOP
            turn = yield from self._child(history, tried)
            if turn.ending is not None:
                back = self._end(turn.ending)
            else:
                below = self.settings.deeper(depth, turn.nodes)
                back = yield from self.preorder(history + turn.messages, below, self._width(turn))
            if back > 1:  # a branch that gave up skips further levels on the way up
                return back - 1
        return 1

    def best_first(self, history: list[Message], depth: int, width: int) -> Play[int]:
        if depth >= self.settings.depth:
            return self.settings.depth_levels
        turns: list[Turn] = []
        for _ in range(width):
            if self._over():
                break
            yield from self._child(history, turns)
        for turn in (yield from self._ranked(history, turns)):
            if turn.ending is not None:
                back = self._end(turn.ending)
            elif self._over():
                return STOP
            else:
                below = self.settings.deeper(depth, turn.nodes)
                back = yield from self.best_first(history + turn.messages, below, self._width(turn))
            if back > 1:
                return back - 1
        return STOP if self._over() else 1

    def _child(self, history: list[Message], tried: list[Turn]) -> Play[Turn]:
        """Take one more step from here, with those before it in the context, and add it to them."""
        session = self.session
        asked = [*history, Message(USER, prompts.TRIED + " ".join(map(describe, tried)))] if tried else history
        said = yield from session.ask(asked)
        turn = yield from session.perform(said)
        tried.append(turn)
        return turn

    def _ranked(self, history: list[Message], turns: list[Turn]) -> Play[list[Turn]]:
        """Best first, by votes over each pair in both orders; equals keep their order."""
        wins = [0] * len(turns)
        for first in range(len(turns)):
            for second in range(first + 1, len(turns)):
                for a, b in ((first, second), (second, first)):
                    if self._over():
                        break
                    wins[(yield from self._vote(history, turns, a, b))] += 1
        return [turns[i] for i in sorted(range(len(turns)), key=lambda i: -wins[i])]

    def _vote(self, history: list[Message], turns: list[Turn], a: int, b: int) -> Play[int]:
        text = f"{prompts.VOTE}\n{prompts.STEP_A}{describe(turns[a])}{prompts.STEP_B}{describe(turns[b])}"
        said = yield from self.session.ask([*history, Message(USER, text)], VOTE)
        return a if said.message.content.strip()[-1:].lower() == "a" else b

    def _end(self, ending: SearchResult) -> int:
        if ending.gave_up:
            return self.settings.give_up_levels
        self.ending = ending
        return STOP

    def _over(self) -> bool:
        return self.session.queries >= self.settings.queries or self.session.exhausted()

    def _width(self, turn: Turn) -> int:
        return self.settings.register_width if turn.registered else self.settings.width


def describe(turn: Turn) -> str:
    """Return a step in words: what was said or called, and what came of it."""
    message = turn.messages[0]
    if not message.calls:
        return to_json({"said": message.content[:SHORT]})
    results = {id(result.call): result.text for result in turn.results}
    return " ".join(
        to_json({"name": str(call.name)[:80], "arguments": _short(call.arguments), "result": results.get(id(call), "")[:SHORT]})
        for call in message.calls
    )


def _short(arguments: object) -> str:
    try:
        text = arguments if isinstance(arguments, str) else to_json(arguments)
    except (ValueError, TypeError, RecursionError):
        text = str(type(arguments))
    return text[:SHORT]

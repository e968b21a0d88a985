"""Strategies that go one way: a chain of thought, action and observation, and several of them in turn."""

from ..llm.session import LlmSession
from ..llm.types import Play, SearchResult
from ..models.base import Message
from .settings import LimitedSearch, SearchSettings


class ReAct(LimitedSearch):
    """Reason and act: ask, call, read, until the model finishes or the chain is too long.

    Source: ReAct (arXiv 2210.03629), with ToolBench's depth limit.
    """

    name = "react"

    def play(self, session: LlmSession) -> Play[SearchResult]:
        return (yield from chain(session, self.settings))


class CotAtN(LimitedSearch):
    """Up to `tries` independent chains; the first that ends in an answer counts. They share no memory, only the bill.

    Source: ToolLLM (arXiv 2307.16789), CoT@N.
    """

    def __init__(self, tries: int = 5, settings: SearchSettings | None = None) -> None:
        super().__init__(settings)
        self.tries, self.name = tries, f"cot@{tries}"

    def play(self, session: LlmSession) -> Play[SearchResult]:
        ending = SearchResult(None)
        for _ in range(self.tries):
            ending = yield from chain(session, self.settings)
            if not ending.gave_up or session.exhausted():
                break
        return ending


def chain(session: LlmSession, settings: SearchSettings) -> Play[SearchResult]:
    """Follow one chain from the request to its end."""
    history: list[Message] = [session.request]
    depth = 0
    while depth < settings.depth and not session.exhausted():
        said = yield from session.ask(history)
        turn = yield from session.perform(said)
        if turn.ending is not None:
            return turn.ending
        history += turn.messages
        depth = settings.deeper(depth, turn.nodes)
    return SearchResult(None)

"""Parts of language-model agents in sessions: a tree search for each query, and BTP with a plan for each query."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from costgym.agents.btp.access import Btp
from costgym.agents.btp.experience import Experience, PastQuery
from costgym.agents.btp.plan import BtpSettings
from costgym.agents.llm.session import LlmSession
from costgym.agents.llm.strategies import LimitedSearch, ReAct, SearchSettings, TreeSearch
from costgym.agents.llm.types import CallResult, Play, SearchResult, Turn
from costgym.agents.models.base import USER, FunctionCall, Message, Reply, reply
from costgym.envs.sessions.base import NEXT, WAIT
from costgym.envs.sessions.chat import ASKED, OFFERS, PASSED
from costgym.simulators.errors import ConfigError


class SessionReact(ReAct):
    """One chain to the session's end: neither a long chain nor a thought ends it."""

    usual = SearchSettings(depth=100_000, text_is_answer=False)


class SessionDfsdt(LimitedSearch):
    """Depth-first search for each query: where the model would leave it, the search goes back and has another tool tried first.

    Going back is of the context alone. No call can be undone: what was tried is billed, and quoted as tried. A query's context
    holds the rules and what was done for that query, and nothing of the queries before it.
    """

    name = "dfsdt"
    usual = SearchSettings(depth=6, queries=24, text_is_answer=False)

    def play(self, session: LlmSession) -> Play[SearchResult]:
        rules, _, question = session.query.partition("\n")
        while True:
            search = _QuerySearch(session, self.settings)
            yield from search.preorder([Message(USER, f"{rules}\n{question}")], 0, self.settings.width)
            if not search.query_over:
                if not search.ending.gave_up:
                    return search.ending  # the model ended the session
                yield from search.leave()
            question = search.next_question


class _QuerySearch(TreeSearch):
    """The search for the present query. It is over when the query is; leaving the query is put off to the search's end."""

    def __init__(self, session: LlmSession, settings: SearchSettings) -> None:
        super().__init__(session, settings)
        self._query, self._begun = session.info["query"], session.queries
        self.next_question = ""  # what the world asked last

    @property
    def query_over(self) -> bool:
        return bool(self.session.info["query"] != self._query)

    def leave(self) -> Play[Turn]:
        return self._play(reply("", [FunctionCall(NEXT, "{}")], (), ()))

    def _play(self, reply: Reply) -> Play[Turn]:
        turn = yield from self.session.perform(reply)
        if turn.results:
            self.next_question = turn.results[-1].text.partition("\n")[2]
        return turn

    def _perform(self, reply: Reply) -> Play[Turn]:
        if reply.message.calls[:1] and reply.message.calls[0].name == NEXT:
            return Turn([reply.message], ending=SearchResult(None))
        turn = yield from self._play(reply)
        if self.query_over:
            turn.ending = SearchResult("")
        return turn

    def _over(self) -> bool:
        return self.query_over or self.session.queries - self._begun >= self.settings.queries or self.session.exhausted()


class SessionBtp(Btp):
    """BTP in a session: a plan for each query, from what the session's own calls have brought so far.

    A query may use the share of the money left that its value has of all values to come, which are taken to be as high as those
    so far on average. What did not help is forbidden until the next query. Raises ConfigError where calls run side by side.
    """

    def __init__(self, settings: BtpSettings | None = None) -> None:
        super().__init__(settings=settings, usefulness=self)
        self.summarise = False  # there is no final answer

    def helpful(self, query: str, name: str, arguments: Mapping[str, Any], text: str) -> bool:
        """Return whether a call has passed its query; see `Usefulness`."""
        return text.startswith(PASSED)

    def reset(self, session: LlmSession) -> None:
        if any(card.name == WAIT for card in session.seat.more):
            raise ConfigError("access btp", "plans calls that follow one another; expected a session without concurrent=True")
        self.experience = Experience()  # another session has other tools
        self._values, self._reserved, self._kind = list[float](), 0.0, ""
        self._uses: dict[str, list[bool]] = {}
        super().reset(session)

    def make_plan(self, query: str, names: Sequence[str] = ()) -> None:
        """Plan for the query that a text asks."""
        line = ASKED.search(query)
        assert line is not None, query
        if self._uses:
            self.experience.add(PastQuery(self._kind, {name: tuple(helped) for name, helped in self._uses.items()}))
        self._number, self._kind, self._uses = int(line["number"]), line["kind"], {}
        self._values.append(float(line["value"]))
        later = sum(self._values) / len(self._values) * (int(line["queries"]) - self._number)
        left = super()._remaining()
        self._reserved = left * later / (later + self._values[-1]) if left < inf else 0.0
        super().make_plan(self._kind, [name for name, _ in OFFERS.findall(line["offers"])])

    def _remaining(self) -> float:
        return super()._remaining() - self._reserved

    def result(self, result: CallResult) -> None:
        name = str(result.call.name)
        if result.executed and name in self.left:
            self._uses.setdefault(name, []).append(result.text.startswith(PASSED))
        super().result(result)
        line = ASKED.search(result.text)
        if line is not None and int(line["number"]) != self._number:
            self.make_plan(result.text)

    def exhausted(self) -> bool:
        return False  # the next query can be planned for

"""A session as text: `costgym/MarketplaceSessionChat-v0`."""

from typing import Any

from ...simulators.episode import Episode
from ...simulators.sessions.episode import SessionEpisode
from ...simulators.status import Status
from ...simulators.tools import ToolCard
from ..actions import Action, ToolCall
from ..chat import TalkEnv
from .base import SessionBase

RECALL, NEXT = "recall", "next_query"
_ABOUT = {
    RECALL: "Answer the present query from memory, for nothing. An answer that is out of date loses the query.",
    NEXT: "Leave the present query, whose value is lost, and go to the next one.",
}
_NO_ARGUMENTS = {"type": "object", "properties": {}}
INTRODUCTION = (
    "Answer {queries} queries, one after the other, with one budget of {price:g} credits and {seconds:g} s for all of them. "
    "Call a tool for the kind that a query asks for; a right answer passes the query, and the next one comes. "
    "`recall` answers from memory, `next_query` leaves a query, `finish` ends the session."
)


class SessionChatEnv(SessionBase[str, str], TalkEnv):
    """Answer a hundred queries with one budget, in words.

    ## Description

    The sessions of `MarketplaceSession-v0` in the form of `MarketplaceChat-v0`: the same tools, regimes, prices, outages and
    luck, so that the same calls take the same time, cost the same and end alike. Tools take no arguments. Tokens are counted;
    they take no time and cost nothing, so that both views agree.

    ## Action space

    A string of at most 100,000 characters, as in `MarketplaceChat-v0`. Several calls in one action are made one after the
    other, each for the query that is then present.

    | action | effect |
    | --- | --- |
    | `{"name": "tool_07", "arguments": {}}` | Call a tool and wait. A right answer passes the query, and the next one comes. |
    | `{"name": "recall"}` | Answer from memory, for nothing, and go to the next query. |
    | `{"name": "next_query"}` | Leave the query, and go to the next one. |
    | `{"name": "finish"}` | End the session; the queries that are left are lost. |

    A call of a tool that does not serve the present query is refused, as is `recall` where nothing is remembered.

    ## Observation space

    A string: how the calls ended, and the present query with its kind, its value, the tools that serve it and their prices.

    ## Rewards

    The value of the queries that passed in this step; with ``reward="value-minus-price"`` less the money charged in it.

    ## Starting state

    As in `MarketplaceSession-v0`. `reset(options={"task": number})` names the session.

    ## Episode end

    * Termination: the last query is over, the agent finishes, or a limit of the budget is passed.
    * Truncation: `max_steps` actions were taken.

    A step after the end changes nothing and is rewarded with 0.

    ## Version history

    * v0: first version.
    """

    episode_state = ("episode",)
    more_functions = tuple(ToolCard(name, about, "", "", name, _NO_ARGUMENTS) for name, about in _ABOUT.items())
    currency = "credits"

    def __init__(self, max_observation: int = 2048, **settings: Any) -> None:
        super().__init__(**settings)
        self._listen(max_observation)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        episode = self._open(*self._choose_session(seed, options))
        self.world = episode.world
        self._forget()
        self._before = 0.0, 0.0  # value and price before the step
        return self._start_talk(episode)

    @property
    def query(self) -> str:
        """The present query, with the rules of a session before the first one."""
        episode = self._playing()
        price, seconds = (float("inf") if limit is None else limit for limit in (episode.budget.price, episode.budget.seconds))
        rules = INTRODUCTION.format(queries=self.rules.queries, price=price, seconds=seconds)
        return self._asked(episode) if episode.calls or episode.query else f"{rules}\n{self._asked(episode)}"

    def _asked(self, episode: SessionEpisode) -> str:
        if episode.over:
            return "The session is over."
        session, query, age = episode.session, episode.query, episode.remembered_s
        known = "" if age is None else f" The fact is in memory, {age:.1f} s old."
        offers = ", ".join(
            f"{slot.name} ({episode.quote(slot.index):g})"
            for slot in episode.candidates
            if session.offers[slot.index] == episode.capability
        )
        place = f"Query {query + 1} of {self.rules.queries}, worth {session.value[query]:g}"
        return f"{place}: a fact of kind {episode.capability + 1}.{known} Tools and their prices: {offers}."

    def _act(self, episode: Episode, action: Action) -> str:
        assert isinstance(episode, SessionEpisode)
        if action.kind != "call":
            return super()._act(episode, action)
        *before, (tool, status, text) = [self._do(episode, call) for call in action.calls if not episode.over]
        self._results = [*before, (tool, status, f"{text}\n{self._asked(episode)}")]
        return "\n".join(text for _, _, text in self._results)

    def _do(self, episode: SessionEpisode, asked: ToolCall) -> tuple[str, Status, str]:
        """Make a call, answer from memory or leave the query; what it was, how it ended, and in words."""
        if asked.status is None and asked.name == NEXT:
            episode.skip()
            return NEXT, Status.OK, "The query is left."
        if asked.status is None and asked.name == RECALL and episode.remembered_s is not None:
            right = episode.recall()
            return RECALL, Status.OK, "The query passed." if right else "The answer was out of date; the query is lost."
        slot = self._slots.get(asked.name, -1)
        if asked.status is None and asked.name == RECALL:
            call = episode.submit(-1, None, Status.FORBIDDEN, "nothing is remembered for this query")
        elif asked.status is None and slot >= 0 and episode.session.offers[slot] != episode.capability:
            call = episode.submit(slot, None, Status.FORBIDDEN, "the tool does not serve this kind of query")
        else:
            submitted = self._submit(episode, asked)
            assert not isinstance(submitted, str)
            query = episode.query
            call = episode.settle(submitted)
            if episode.query > query:
                return asked.name, call.status, "The query passed."
        return call.tool or asked.name[:80], call.status, f"{self._cut(episode.content(call))} The query did not pass."

    def _outcome(self, episode: Episode) -> tuple[float, bool, bool]:
        assert isinstance(episode, SessionEpisode)
        reward = self._reward(episode, *self._before)
        self._before = episode.value, episode.ledger.price
        return reward, episode.over, not episode.over and self._steps >= self.max_steps

    def _info(self) -> dict[str, Any]:
        episode = self._playing()
        told = {"query": episode.query, "value": episode.value, "value_share": episode.value_share}
        return self._session_info(episode) | told

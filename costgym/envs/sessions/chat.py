"""A session as text: `costgym/MarketplaceSessionChat-v0`."""

import re
from dataclasses import dataclass
from typing import Any

from costgym.envs.actions import Action, ToolCall
from costgym.envs.base import takes
from costgym.envs.chat import TalkEnv
from costgym.envs.rendering.chart import by_tool
from costgym.envs.sessions.base import CANCEL, NEXT, PAUSE, RECALL, WAIT, SessionBase, SessionSettings
from costgym.simulators.calls import Call
from costgym.simulators.sessions.episode import SessionEpisode
from costgym.simulators.status import Status
from costgym.simulators.tools import ToolCard
from costgym.simulators.world.episode import Episode

_ABOUT = {
    RECALL: "Answer the present query from memory, for nothing. An answer that is out of date loses the query.",
    NEXT: "Leave the present query, whose value is lost, and go to the next one.",
    WAIT: "Go to the end of the next call.",
    PAUSE: "Go to the end of the next call, but for a second at most.",
    CANCEL: "Cut off the oldest call of a tool that is in flight; it bills what it has used.",
}
_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}
_TOOL = {"type": "object", "properties": {"tool": {"type": "string", "description": "name of the tool"}}, "required": ["tool"]}
_FUNCTIONS = tuple(
    ToolCard(name, about, "", "", name, _TOOL if name == CANCEL else _NO_ARGUMENTS) for name, about in _ABOUT.items()
)
INTRODUCTION = (
    "Answer {queries} queries, one after the other, with one budget of {price:g} credits and {seconds:g} s for all of them. "
    "Call a tool for the kind that a query asks for; a right answer passes the query, and the next one comes. "
    "`recall` answers from memory, `next_query` leaves a query, `finish` ends the session."
)
SIDE_BY_SIDE = (
    " A call only starts its tool, and runs on when its query is over. `wait` goes to the next end of a call, `pause` does so "
    "for a second at most, `cancel` cuts a call off."
)
ASKED = re.compile(
    r"Query (?P<number>\d+) of (?P<queries>\d+), worth (?P<value>[\d.]+): a fact of (?P<kind>kind \d+)\.(?P<known>.*)"
    r" Tools and their prices: (?P<offers>.*)\.$"
)
"""The line that asks a query, as `SessionChatEnv` writes it."""
OFFERS = re.compile(r"(\S+) \(([\d.]+)\)")
"""A tool and its price in that line."""
PASSED = "The query passed."
_PASSED = ("The query did not pass.", PASSED)
IN_FLIGHT, ENDED = "In flight: ", "Calls that have ended without a report: "
"""How the lines about calls side by side begin."""


@dataclass(frozen=True, kw_only=True)
class SessionChatSettings(SessionSettings):
    """Arguments of `SessionChatEnv`, which describes them."""

    max_observation: int = 2048


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

    With `concurrent=True` a call only starts the tool and takes no simulated time, as in `MarketplaceSession-v0`, and there are
    more actions. A call runs on when its query is over: its price is due when it ends, and what it brings is remembered.

    | action | effect |
    | --- | --- |
    | `{"name": "wait"}` | Go to the end of the next call; refused while there is none to come. |
    | `{"name": "pause"}` | The same, but for a second at most. |
    | `{"name": "cancel", "arguments": {"tool": "tool_07"}}` | Cut off a tool's oldest call, which bills what it has used. |

    ## Observation space

    A string: how the calls ended, and the present query with its kind, its value, the tools that serve it and their prices.
    With `concurrent=True` a line before the query says which tools have calls in flight: how many, how long the oldest has
    been, and how many are for another fact than the present query's; another line counts the calls that have ended and that
    no `wait` has told of.

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
    currency = "credits"

    @takes(SessionChatSettings)
    def __init__(self, settings: SessionChatSettings) -> None:
        self._configure(settings)
        self.more_functions = _FUNCTIONS if self.concurrent else _FUNCTIONS[:2]
        self._listen(settings.max_observation)

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
        rules += SIDE_BY_SIDE if self.concurrent else ""
        return self._question(episode) if episode.calls or episode.query else f"{rules}\n{self._question(episode)}"

    def _question(self, episode: SessionEpisode) -> str:
        if episode.over:
            return "The session is over."
        session, query, age = episode.session, episode.query, episode.remembered_s
        known = "" if age is None else f" The fact is in memory, {age:.1f} s old."
        offers = ", ".join(
            f"{slot.name} ({episode.quote(slot.index):g})"
            for slot in episode.candidates
            if session.offers[slot.index] == episode.capability
        )
        heading = f"Query {query + 1} of {self.rules.queries}, worth {session.value[query]:g}"
        line = f"{heading}: a fact of kind {episode.capability + 1}.{known} Tools and their prices: {offers}."
        return "\n".join([*self._running(episode), line])

    def _running(self, episode: SessionEpisode) -> list[str]:
        """Lines about the calls that run side by side: those in flight, and how many have ended without a report."""
        fact, lines = episode.session.fact, [f"{ENDED}{len(episode.unread)}."] if episode.unread else []
        running = []
        for tool, calls in by_tool(episode.flying if self.concurrent else ()).items():
            other = sum(fact[call.version] != fact[episode.query] for call in calls)
            since = f"{len(calls)} call{'s'[: len(calls) > 1]}, {episode.now_s - calls[0].submitted_s:.1f} s"
            running.append(f"{tool} ({since}{f', {other} for another fact' if other else ''})")
        return [f"{IN_FLIGHT}{', '.join(running)}.", *lines] if running else lines

    def _act(self, episode: Episode, action: Action) -> str:
        assert isinstance(episode, SessionEpisode)
        waits = self.concurrent and action.kind == WAIT
        if action.kind != "call" and not waits:
            return super()._act(episode, action)
        calls = (ToolCall(WAIT),) if waits else action.calls
        *before, (tool, status, text) = [self._made(episode, call) for call in calls if not episode.over]
        self._results = [*before, (tool, status, f"{text}\n{self._question(episode)}")]
        return "\n".join(text for _, _, text in self._results)

    def _made(self, episode: SessionEpisode, requested: ToolCall) -> tuple[str, Status, str]:
        """Play a call or another action; what it was, how it ended, and in words."""
        query, name, offers = episode.query, requested.name, episode.session.offers
        if requested.status is None and any(name == function.name for function in self.more_functions):
            tool = str(requested.arguments.get("tool"))
            if name == CANCEL and tool not in self._slots:
                problem = f"tool: expected the name of a tool, got {tool[:80]!r}"
                call = episode.submit(-1, None, Status.INVALID_ARGUMENTS, problem)
            else:
                ended = self._do(episode, name, self._slots.get(tool, -1))
                if ended is None:
                    return name, Status.OK, self._action_result(episode, name)
                if ended.slot >= 0:
                    return ended.tool, ended.status, self._ending(episode, ended, query)
                call = ended
        elif requested.status is None and (slot := self._slots.get(name, -1)) >= 0 and offers[slot] != episode.capability:
            call = episode.submit(slot, None, Status.FORBIDDEN, "the tool does not serve this kind of query")
        else:
            submitted = self._submit(episode, requested)
            assert not isinstance(submitted, str)
            if self.concurrent and submitted.k:
                return name, Status.OK, f"{name} is in flight."
            call = episode.settle(submitted)
            if episode.query > query and call.k:
                return name, call.status, PASSED
        text = f"{self._cut(episode.content(call))} {_PASSED[episode.query > query]}"
        return call.tool or name[:80], call.status, text

    def _action_result(self, episode: SessionEpisode, name: str) -> str:
        """The result of an action that concerns no call, in words."""
        if name == NEXT:
            return "The query is left."
        if name == RECALL:
            return PASSED if episode.passed[-1] else "The answer was out of date; the query is lost."
        return "No call has ended."

    def _ending(self, episode: SessionEpisode, call: Call, query: int) -> str:
        """How a call beside others ended, and what came of the query, which was this one before."""
        if call.status is Status.CANCELLED:
            return f"{call.tool} is cut off; it cost {call.price:g}."
        ended = f"{call.tool} has ended: {self._cut(episode.content(call))}"
        if episode.query > query or call.version == query:
            return f"{ended} {_PASSED[episode.query > query]}"
        fact = int(episode.session.fact[call.version])
        remembered = episode.memory.get(fact, (0.0, -1))[1] == call.version
        brought = "what it brought is remembered" if remembered else "it brought nothing"
        return f"{ended} It was for query {call.version + 1}; {brought}."

    def _outcome(self, episode: Episode) -> tuple[float, bool, bool]:
        assert isinstance(episode, SessionEpisode)
        reward = self._reward(episode, *self._before)
        self._before = episode.value, episode.ledger.price
        return reward, episode.over, not episode.over and self._steps >= self.max_steps

    def _info(self) -> dict[str, Any]:
        return self._session_info(self._playing())


class SessionChatEnvV1(SessionChatEnv):
    """Answer a hundred queries with one budget, in words, in the world of version 1.

    ## Action space

    As in `MarketplaceSessionChat-v0`, and `compact` as in `MarketplaceChat-v1`. Every message is billed as there: tokens still
    take no time, but they cost money out of the session's budget.

    ## Version history

    * v1: plays version 1 of the world, and its action space samples calls that can be read.
    * v0: first version; plays version 0 of the world, in which recordings up to 0.2 were made.
    """

    worlds = (1,)

"""Strategies: how a model's replies make a search."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

from costgym.agents import prompts
from costgym.agents.llm.session import LlmSession
from costgym.agents.llm.types import Play, SearchResult, Turn
from costgym.agents.models.base import FINISH, PLAN, USER, VOTE, Message, Reply, to_json
from costgym.simulators.errors import ConfigError, check_positive

__all__ = ["CotAtN", "Dfsdt", "PlanThenAct", "ReAct", "SearchSettings", "TotDfs"]


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Limits of a search."""

    depth: int = 12  #: longest chain, counted in `unit`
    #: "steps": a reply is one; "nodes": as ToolBench counts them, one for a thought and two for a call
    unit: Literal["steps", "nodes"] = "steps"
    width: int = 2  #: children of a node
    queries: int = 200  #: replies a tree search may ask for, votes included
    give_up_levels: int = 2  #: levels a tree search goes back after giving up
    depth_levels: int = 1  #: levels it goes back at the depth limit
    text_is_answer: bool = True  #: a reply without a call is the final answer; else it is a thought
    register_width: int = 1  #: children of a node that only registered a tool

    def __post_init__(self) -> None:
        for name in ("depth", "width", "queries", "give_up_levels", "depth_levels", "register_width"):
            check_positive(f"SearchSettings.{name}", getattr(self, name))
        if self.unit not in ("steps", "nodes"):
            raise ConfigError("SearchSettings.unit", f"expected steps or nodes, got {self.unit!r}")

    @classmethod
    def toolbench(cls) -> "SearchSettings":
        """ToolBench's limits: 12 nodes deep (4 to 6 steps), 2 wide, 200 queries."""
        return cls(depth=12, unit="nodes", width=2, queries=200, text_is_answer=False)

    @classmethod
    def btp(cls, tree_of_thoughts: bool = False) -> "SearchSettings":
        """BTP's limits: ToolBench's, but its ToT-DFS goes 8 nodes deep with 30 queries."""
        return replace(cls.toolbench(), depth=8, queries=30) if tree_of_thoughts else cls.toolbench()

    @classmethod
    def ecoact(cls) -> "SearchSettings":
        """EcoAct's limits: 24 nodes deep for it and its baselines; one child after a registration."""
        return replace(cls.toolbench(), depth=24)

    @classmethod
    def chosen(cls, fields: Mapping[str, Any], strategy: str) -> "SearchSettings | None":
        """A run's settings for a strategy: those for all, and a mapping under its name; None where the run has none."""
        common = {name: value for name, value in fields.items() if not isinstance(value, Mapping)}
        settings = {**common, **fields.get(strategy, {})}
        return cls(**settings) if settings else None

    def deeper(self, depth: int, nodes: int) -> int:
        """Return the depth after a reply that makes so many nodes."""
        return depth + (1 if self.unit == "steps" else nodes)


class LimitedSearch:
    """Base of the strategies that a `SearchSettings` limits."""

    usual = SearchSettings()

    def __init__(self, settings: SearchSettings | None = None) -> None:
        self.settings = settings or self.usual
        self.text_is_answer = self.settings.text_is_answer


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


def chain(session: LlmSession, settings: SearchSettings, begun: Sequence[Message] = ()) -> Play[SearchResult]:
    """Follow one chain from the request, or from the conversation that has `begun` with it, to its end."""
    history: list[Message] = [*(begun or (session.request,))]
    depth = 0
    while depth < settings.depth and not session.exhausted():
        reply = yield from session.ask(history)
        turn = yield from session.perform(reply)
        if turn.ending is not None:
            return turn.ending
        history += turn.messages
        depth = settings.deeper(depth, turn.nodes)
    return SearchResult(None)


STOP = 1_000_000
"""Levels to go back when the search is over."""
SHORT = 300
"""Characters of a result that a list of earlier steps quotes."""


class Dfsdt(LimitedSearch):
    """Depth-first search: follows each new step at once, and returns for another where a branch gives up or gets too deep."""

    name = "dfsdt"

    def play(self, session: LlmSession) -> Play[SearchResult]:
        search = TreeSearch(session, self.settings)
        yield from search.preorder([session.request], 0, self.settings.width)
        return search.ending


class TotDfs(LimitedSearch):
    """Makes all children of a node first, lets the model vote between them, and goes on from the best."""

    name = "tot-dfs"
    usual = SearchSettings(depth=8, queries=30)  # 30 replies, as in BTP

    def play(self, session: LlmSession) -> Play[SearchResult]:
        search = TreeSearch(session, self.settings)
        yield from search.best_first([session.request], 0, self.settings.width)
        return search.ending


class TreeSearch:
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
        prompt = [*history, Message(USER, prompts.TRIED + " ".join(map(describe, tried)))] if tried else history
        turn = yield from self._perform((yield from session.ask(prompt)))
        tried.append(turn)
        return turn

    def _perform(self, reply: Reply) -> Play[Turn]:
        return self.session.perform(reply)

    def _ranked(self, history: list[Message], turns: list[Turn]) -> Play[list[Turn]]:
        """Best first, by votes over each pair in both orders; equals keep their order."""
        wins = [0] * len(turns)
        for first, second in combinations(range(len(turns)), 2):
            for a, b in ((first, second), (second, first)):
                if self._over():
                    break
                wins[(yield from self._vote(history, turns, a, b))] += 1
        return [turns[i] for i in sorted(range(len(turns)), key=lambda i: -wins[i])]

    def _vote(self, history: list[Message], turns: list[Turn], a: int, b: int) -> Play[int]:
        text = f"{prompts.VOTE}\n{prompts.STEP_A}{describe(turns[a])}{prompts.STEP_B}{describe(turns[b])}"
        reply = yield from self.session.ask([*history, Message(USER, text)], VOTE)
        return a if reply.message.content.strip()[-1:].lower() == "a" else b

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


PLAN_TRIES = 2
STEP_TRIES = 2
"""Most replies per step: a tool that must be registered first needs a second one."""


class PlanThenAct(LimitedSearch):
    """Plans once, then takes up to `depth` of the plan's steps in order; the plan is never revised.

    The context stays short, but nothing replaces a function that fails.
    """

    name = "plan-act"

    def play(self, session: LlmSession) -> Play[SearchResult]:
        history = [session.request, Message(USER, prompts.PLAN)]
        steps: list[str] | None = None
        for _ in range(PLAN_TRIES):
            if session.exhausted():
                return SearchResult(None)
            reply = yield from session.ask(history, PLAN)
            history.append(reply.message)
            steps = read_plan(reply.message.content)
            if steps is not None:
                break
            history.append(Message(USER, prompts.NO_PLAN))
        for name in (steps or [])[: self.settings.depth]:
            if session.exhausted():
                return SearchResult(None)
            for _ in range(STEP_TRIES):
                offered = session.offered()
                shown = [function for function in offered if function.name == name]
                reply = yield from session.ask(history, functions=[*shown, FINISH] if shown else offered)
                turn = yield from session.perform(reply)
                if turn.ending is not None:
                    return turn.ending
                history += turn.messages
                if not turn.registered:  # the world saw the step
                    break
        return SearchResult(None) if session.summarises else (yield from session.summarise(history))


def read_plan(text: str) -> list[str] | None:
    """Return the function names in a plan, or None if the text has no plan."""
    names = (read_object(text) or {}).get("plan")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else None


def read_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that goes from a text's first brace to its last; None where that is none."""
    braces = re.search(r"\{.*\}", text, re.DOTALL)
    try:
        document: dict[str, Any] | None = json.loads(braces.group()) if braces else None
    except (ValueError, RecursionError):
        return None
    return document

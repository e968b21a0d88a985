"""Sessions in words: a rule that reads what a language model reads, and a language model without weights."""

import re
from collections.abc import Sequence
from typing import Any

from ...envs.actions import encode_action
from ...envs.seats import TextSeat
from ...envs.sessions.chat import NEXT, RECALL
from ...simulators.draws import stable_uniforms
from ...simulators.status import Status
from ..base import SESSION_CHAT, Agent
from ..llm.session import LlmAgent
from ..llm.strategies import ReAct, SearchSettings
from ..models.base import ACT, Function, FunctionCall, LanguageModel, Message, Reply, reply
from ..models.simulated import SIMULATED, SimulatedRates

MOST_CALLS = 3  # calls for one query, after which `SpokenCheapest` leaves it


class SpokenCheapest(Agent):
    """Answers from memory, else by the cheapest tools that serve the query, one after another, three at most."""

    name = "cheapest"
    env_id = SESSION_CHAT

    def reset(self, seat: TextSeat, observation: str, info: dict[str, Any], seed: int) -> None:
        self._kinds = {tool.name: tool.category for tool in seat.tools}
        self._query, self._tried = -1, set[str]()

    def act(self, observation: str, info: dict[str, Any]) -> str:
        if info["query"] != self._query:
            self._query, self._tried = info["query"], set()
        asked = observation.splitlines()[-1]
        if "The fact is in memory" in asked:
            return encode_action(RECALL)
        kind = re.search(r"a fact of (kind \d+)", asked)
        left, quotes = info["budget_remaining_price"], info["quotes"]
        serve = [
            name
            for name, price in quotes.items()
            if kind and self._kinds[name] == kind[1] and name not in self._tried and price <= left
        ]
        if not serve or len(self._tried) == MOST_CALLS:
            return encode_action(NEXT)
        chosen = min(serve, key=quotes.__getitem__)
        self._tried.add(chosen)
        return encode_action(chosen)


_ASKED = re.compile(r"Query (\d+) of \d+, worth .*: a fact of kind \d+\.(.*) Tools and their prices: (.*)\.$")
_OVER_BUDGET = f'"{Status.OVER_BUDGET.label}"'
# a session ends by itself, so neither a long chain nor a thought ends it
_UNTIL_THE_END = SearchSettings(depth=100_000, text_is_answer=False)


class SimulatedSessionModel:
    """A language model without weights in a session: it reads the last line that it was shown, and errs like a model.

    It answers from memory where a fact is there, else calls any of the tools that serve and did not fail for this query, or the
    cheapest where it attends to prices. It leaves a query when every tool has failed, or when it tires. It keeps no notes from
    query to query, as a model that is not asked to does not. Of the rates it has `attend_costs`, `wrong_tool`, `stubborn`,
    `tire`.
    """

    name = SIMULATED

    def __init__(self, rates: SimulatedRates) -> None:
        self.rates = rates

    def reset(self, seed: int) -> None:
        self._seed, self._count = seed, 0
        self._query, self._failed = "", list[str]()

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        asked = _ASKED.search(messages[-1].content)
        name = NEXT
        if asked is not None and _OVER_BUDGET not in messages[-1].content:
            name = self._choose(asked[1], asked[2], asked[3], [each.name for each in functions])
        return reply(f"I call {name}.", [FunctionCall(name, "{}")], messages, functions)

    def _choose(self, query: str, known: str, offers: str, names: list[str]) -> str:
        price, wrong, stubborn, tires, place = stable_uniforms(5, 8 * self._count, self._seed, "simulated session")
        self._count += 1
        if query != self._query:
            self._query, self._failed = query, []
        if known:
            return RECALL
        rates = self.rates
        prices: dict[str, float] = {name: float(at) for name, at in re.findall(r"(\S+) \(([\d.]+)\)", offers)}
        fresh = [name for name in prices if name not in self._failed]
        if not fresh or (self._failed and tires < rates.tire * len(self._failed)):
            return NEXT
        if self._failed and stubborn < rates.stubborn:
            return self._failed[-1]
        if wrong < rates.wrong_tool:
            fresh = [name for name in names if name not in prices and name not in (RECALL, NEXT, "finish")] or fresh
        chosen = fresh[int(place * len(fresh))]
        if price < rates.attend_costs and chosen in prices:
            chosen = min(fresh, key=prices.__getitem__)
        self._failed.append(chosen)  # if it works, the next query comes
        return chosen


class SessionReact(LlmAgent):
    """ReAct in a session, as one chain to its end."""

    env_id = SESSION_CHAT

    def __init__(self, model: LanguageModel, search: SearchSettings | None = None) -> None:
        super().__init__(model, ReAct(search or _UNTIL_THE_END))

"""Sessions in words: a rule that reads what a language model reads, and a language model without weights."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from costgym.agents import prompts
from costgym.agents.base import SESSION_CHAT, Agent
from costgym.agents.llm.access import REGISTER
from costgym.agents.models.base import ACT, FINISH, Function, FunctionCall, Message, Reply, reply
from costgym.agents.models.reading import read_system
from costgym.agents.models.simulated import SIMULATED, SimulatedRates
from costgym.envs.actions import encode_action
from costgym.envs.seats import TextSeat
from costgym.envs.sessions.base import NEXT, OTHERS, RECALL, WAIT
from costgym.envs.sessions.chat import ASKED, ENDED, IN_FLIGHT, OFFERS
from costgym.simulators.draws import stable_uniforms
from costgym.simulators.status import Status

MOST_CALLS = 3  # calls for one query, after which `SpokenCheapest` leaves it


class SpokenCheapest(Agent):
    """Answers from memory, else by the cheapest tools that serve the query, one after another, three at most."""

    name = "cheapest"
    env_id = SESSION_CHAT

    def reset(self, seat: TextSeat, observation: str, info: dict[str, Any], seed: int) -> None:
        self._query, self._tried = -1, set[str]()

    def act(self, observation: str, info: dict[str, Any]) -> str:
        if info["query"] != self._query:
            self._query, self._tried = info["query"], set()
        if is_waiting(observation):
            return encode_action(WAIT)  # one call at a time
        line = ASKED.search(observation)
        if line is not None and line["known"]:
            return encode_action(RECALL)
        left, quotes = info["budget_remaining_price"], info["quotes"]
        offers = [name for name, _ in OFFERS.findall(line["offers"])] if line else []
        serve = [name for name in offers if name not in self._tried and quotes[name] <= left]
        if not serve or len(self._tried) == MOST_CALLS:
            return encode_action(NEXT)
        chosen = min(serve, key=quotes.__getitem__)
        self._tried.add(chosen)
        return encode_action(chosen)


def is_waiting(observation: str) -> bool:
    """Return whether calls are in flight, or have ended without a report."""
    return any(line.startswith((IN_FLIGHT, ENDED)) for line in observation.splitlines())


_OVER_BUDGET = f'"{Status.OVER_BUDGET.label}"'
_NO_TOOLS = (*OTHERS, REGISTER, FINISH.name)


class SimulatedSessionModel:
    """A language model without weights in a session: it reads the last line that it was shown, and errs like a model.

    It answers from memory where a fact is there, else calls any of the tools that serve and did not fail for this query, or the
    cheapest where it attends to prices. It leaves a query when every tool has failed, or when it tires. It keeps no notes from
    query to query, as a model that is not asked to does not. A tool that it has to register it registers first. Of the rates
    it has `attend_costs`, `wrong_tool`, `stubborn`, `tire`.
    """

    name = SIMULATED

    def __init__(self, rates: SimulatedRates) -> None:
        self.rates = rates

    def reset(self, seed: int) -> None:
        self._seed, self._count = seed, 0
        self._query, self._failed, self._meant = "", list[str](), ""  # the tool that it means to call, once it is registered

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        name, arguments = self._next(messages, {function.name: function for function in functions})
        return reply(f"I call {name}.", [FunctionCall(name, arguments)], messages, functions)

    def _next(self, messages: Sequence[Message], shown: Mapping[str, Function]) -> tuple[str, str]:
        """The function that it calls next, and its arguments."""
        if is_waiting(messages[-1].content):
            return WAIT, "{}"
        line = next((match for message in reversed(messages) if (match := ASKED.search(message.content))), None)
        if line is None or _OVER_BUDGET in messages[-1].content:
            return NEXT, "{}"
        if line["number"] != self._query:
            self._query, self._failed, self._meant = line["number"], [], ""
        if self._meant not in shown:
            names = [name for name in shown if name not in _NO_TOOLS]
            if REGISTER in shown:
                names += read_system(messages[0].content)[0]
            tried = messages[-1].content.startswith(prompts.TRIED)
            self._meant = self._choose(bool(line["known"]), line["offers"], names, tried)
        name = self._meant
        if REGISTER in shown and name not in (*shown, *_NO_TOOLS):
            several = "names" in shown[REGISTER].parameters["properties"]
            return REGISTER, json.dumps({"names": [name]} if several else {"name": name})
        self._meant = ""
        if name not in (*self._failed, *_NO_TOOLS):
            self._failed.append(name)  # if it works, the next query comes
        return name, "{}"

    def _choose(self, known: bool, offers: str, names: Sequence[str], tried: bool) -> str:
        """A tool for the query, of those named, or another way to go on; `told` that another step is wanted than before."""
        price, wrong, stubborn, tires, where = stable_uniforms(5, 8 * self._count, self._seed, "simulated session")
        self._count += 1
        if known:
            return RECALL
        rates = self.rates
        prices: dict[str, float] = {name: float(at) for name, at in OFFERS.findall(offers) if name in names}
        fresh = [name for name in prices if name not in self._failed]
        if not fresh or (self._failed and tires < rates.tire * len(self._failed)):
            return NEXT
        if not tried and stubborn < rates.stubborn and self._failed and self._failed[-1] in names:
            return self._failed[-1]
        if wrong < rates.wrong_tool:
            fresh = [name for name in names if name not in prices] or fresh
        chosen = fresh[int(where * len(fresh))]
        return min(fresh, key=prices.__getitem__) if price < rates.attend_costs and chosen in prices else chosen

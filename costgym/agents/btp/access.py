"""Budget-constrained tool learning with planning, played in an episode.

Before the first reply, a knapsack over past experience says how often each tool may be used. Tools without uses left are
neither shown nor callable; a tool whose result does not help is forbidden from then on; what the remaining budget does
not cover is removed. All of it is global over a tree search.

Source: BTP (arXiv 2402.15960), Sections 2.3 and 2.4 and Algorithm 2.
"""

import json
from collections import deque
from collections.abc import Sequence
from math import inf
from typing import Any

from costgym.agents import prompts
from costgym.agents.btp.experience import Experience
from costgym.agents.btp.plan import BtpSettings, plan_tool_usage
from costgym.agents.btp.usefulness import RuleBased, Usefulness
from costgym.agents.llm.session import LlmSession, Refusal, ToolAccess
from costgym.agents.llm.types import CallResult
from costgym.agents.models.base import Function, FunctionCall
from costgym.simulators.calls import Usage
from costgym.simulators.status import Status

HISTORY_TOKENS, REPLY_TOKENS = 600, 80
"""Tokens assumed for instructions and results in a reply's context, and for the reply, to estimate its price."""


class Btp(ToolAccess):
    """Plans tool use within the budget by past experience, and holds the model to the plan.

    `usefulness` judges results for the blacklist; `reserve` is the part of the budget kept back (c_s in the paper). The price
    of a reply, estimated from the documentation, is planned with every use and kept back for the final one.
    """

    suffix = "btp"

    def __init__(
        self,
        experience: Experience | None = None,
        settings: BtpSettings | None = None,
        usefulness: Usefulness | None = None,
        reserve: float = 0.0,
    ) -> None:
        self.experience = experience if experience is not None else Experience()
        self.settings = settings or BtpSettings()
        self.usefulness = usefulness or RuleBased()
        self.reserve = reserve
        self.summarise = self.settings.summarise

    def reset(self, session: LlmSession) -> None:
        self._session = session
        self._admitted: deque[tuple[FunctionCall, float]] = deque()
        self._reply = self._price_of_a_reply(session)
        self.make_plan(session.query, [function.name for function in session.candidates])

    def make_plan(self, query: str, names: Sequence[str]) -> None:
        """Plan how often to use tools for a query; nothing is forbidden yet."""
        quotes = self._session.quotes()
        estimates = self.experience.estimates(query, names, self.settings)
        costs = [quotes[name] + self._reply for name in names]
        uses = plan_tool_usage(costs, [v for v, _ in estimates], [c for _, c in estimates], self._remaining())
        self.plan = dict(zip(names, uses, strict=True))
        self.left = dict(self.plan)
        self.blacklist: set[str] = set()
        self._helped: set[str] = set()
        self._known: tuple[dict[str, Any], frozenset[str]] | None = None

    def _price_of_a_reply(self, session: LlmSession) -> float:
        pricing = session.seat.token_pricing
        if pricing is None:
            return 0.0
        read_tokens = session.request.tokens + sum(function.tokens for function in session.candidates)
        return pricing.price(Usage(read_tokens + HISTORY_TOKENS, REPLY_TOKENS))

    def _remaining(self) -> float:
        """Return what calls and the replies that make them may still cost, with the final reply set aside."""
        left = float(self._session.info.get("budget_remaining_price", inf)) - self.reserve - self._reply
        return left - sum([quote for _, quote in self._admitted]) if self._admitted else left

    def _allowed(self) -> frozenset[str]:
        """Return the tools that may be called now; computed again after each step and each call."""
        info = self._session.info
        if self._known is None or self._known[0] is not info:
            quotes, remaining = self._session.quotes(), self._remaining() - self._reply + 1e-9
            left, blacklist = self.left.items(), self.blacklist
            names = [name for name, uses in left if uses > 0 and name not in blacklist and quotes[name] <= remaining]
            self._known = info, frozenset(names)
        return self._known[1]

    def functions(self, offered: Sequence[Function]) -> Sequence[Function]:
        allowed = self._allowed()
        return [function for function in offered if function.name in allowed]

    def system(self) -> str:
        allowed = self._allowed()
        removed = [name for name, uses in self.plan.items() if uses > 0 and name not in allowed]
        return prompts.REMOVED + ", ".join(removed) if removed else ""

    def refuse(self, call: FunctionCall) -> Refusal | None:
        name = call.name
        if name not in self.left:
            return None
        if name in self.blacklist:
            return Refusal(Status.FORBIDDEN, "this function did not help before; it may not be called any more")
        if self.left[name] <= 0:
            return Refusal(Status.FORBIDDEN, "the plan allows no further call of this function")
        if self._session.quotes()[name] > self._remaining() - self._reply + 1e-9:
            return Refusal(Status.OVER_BUDGET, "the remaining budget does not cover this call")
        return None

    def admit(self, call: FunctionCall) -> None:
        # counted when it goes out: calls side by side share the plan and the purse
        if call.name in self.left:
            self._known = None
            self.left[call.name] -= 1
            self._admitted.append((call, self._session.quotes()[call.name]))

    def result(self, result: CallResult) -> None:
        name = result.call.name
        if not (self._admitted and self._admitted[0][0] is result.call):
            return
        self._admitted.popleft()
        self._known = None
        if not result.executed:
            self.left[name] += 1
            return
        if self.usefulness.helpful(self._session.query, name, result.call.read() or {}, result.text):
            self._helped.add(name)
        elif self.settings.blacklist and not (self.settings.spare_helpful and name in self._helped):
            self.blacklist.add(name)

    def exhausted(self) -> bool:
        return not self._allowed()


class BtpStable(Btp):
    """`Btp` that shows what its plan has at the beginning to the end: what is used up is refused, and named at the end."""

    suffix = "btp-stable"

    def functions(self, offered: Sequence[Function]) -> Sequence[Function]:
        return [function for function in offered if self.plan.get(function.name, 0) > 0]

    def system(self) -> str:
        return ""

    def ending(self) -> str:
        allowed = self._allowed()
        left = {name: uses for name, uses in self.left.items() if name in allowed}
        removed = [name for name, uses in self.plan.items() if uses > 0 and name not in allowed]
        lines = [prompts.LEFT + json.dumps(left)]
        return "\n".join([*lines, prompts.REMOVED + ", ".join(removed)] if removed else lines)

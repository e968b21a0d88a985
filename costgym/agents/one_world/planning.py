"""CATP in words: a plan over all tools on offer, weighed by what they cost, and the model again where the plan fails.

Source: CATP-LLM (arXiv 2411.16313), Sections 3.1 and 3.2: a whole plan, written before anything runs, from tasks, tools and
their costs. The paper's policy is trained on vision tools; here a language model writes the plan, over APIs too.
"""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

from costgym.agents import prompts
from costgym.agents.llm.session import MAX_ANSWER, LlmSession
from costgym.agents.llm.strategies import LimitedSearch, chain, read_object
from costgym.agents.llm.types import Play, SearchResult
from costgym.agents.models.base import USER, FunctionCall, Message

STEPS = "steps"  # purpose of a reply: a plan of steps
ASK_STEPS = (
    "Before you act, write a plan: a JSON object with one key, plan, whose value is a list of steps. A step is an object with "
    "id, name (of a function), arguments, and after (ids of the steps that it waits for, if any). An argument "
    '"{a}" takes the result of step a. Steps that do not depend on each other run at the same time. A plan is worth what it '
    "brings, less what its calls cost: leave out what costs more than it brings."
)


class CatpPlan(LimitedSearch):
    """Writes one plan of all calls, knowing their prices, has it run as a whole, and goes on step by step from its results."""

    name = "catp-plan"

    def play(self, session: LlmSession) -> Play[SearchResult]:
        history = [session.request]
        offered = session.offered()
        tools = [function.name for function in offered if any(function.name == tool.name for tool in session.candidates)]
        if tools:
            history.append(Message(USER, "\n".join([*costs(session, tools), ASK_STEPS])))
            reply = yield from session.ask(history, STEPS, functions=offered)
            steps = read_steps(reply.message.content)
            if steps:
                history += (yield from session.run_plan(reply.message, steps)).messages
            else:
                history += [reply.message, Message(USER, prompts.NO_PLAN_GO_ON)]
        return (yield from chain(session, self.settings, history))


def costs(session: LlmSession, tools: list[str]) -> list[str]:
    """What the model is told of prices and of the budget."""
    quotes, left = session.quotes(), float(session.info.get("budget_remaining_price", float("inf")))
    lines = [prompts.COSTS + json.dumps({name: round(quotes.get(name, 0.0), 6) for name in tools})]
    return [*lines, f"{prompts.REMAINING}{left:g}."] if isfinite(left) else lines


def read_steps(text: str) -> list[tuple[FunctionCall, Mapping[str, Any]]] | None:
    """The calls of a plan, each with the rest of its step; None where a text holds no plan."""
    steps = (read_object(text) or {}).get("plan")
    if len(text) > MAX_ANSWER or not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return None
    rest = [{key: step[key] for key in ("id", "after") if key in step} for step in steps]
    return [
        (FunctionCall(str(step.get("name")), step.get("arguments", {})), more) for step, more in zip(steps, rest, strict=True)
    ]

"""Tool accesses laid out for caches of prompts: what stands first stays, and what changes comes last.

Vendors serve from a cache what an earlier request began with, and functions and system message come first. So an access that
changes them pays for the whole prompt again; these say the same at the end of the conversation.
"""

import json
from collections.abc import Sequence
from math import isfinite

from costgym.agents import prompts
from costgym.agents.llm.access import EcoAct, Prompt
from costgym.agents.llm.session import LlmSession, ToolAccess
from costgym.agents.models.base import Function, FunctionCall


class PromptAtEnd(Prompt):
    """`Prompt` whose costs stand in the system message as they were at the beginning; news and what remains come last."""

    suffix = "prompt-end"

    def reset(self, session: LlmSession) -> None:
        super().reset(session)
        self._first = self._quotes()
        self._system = prompts.COSTS + json.dumps(self._first)

    def _quotes(self) -> dict[str, float]:
        quotes = self._session.quotes()
        return {f.name: round(quotes.get(f.name, 0.0), 6) for f in self._session.candidates}

    def system(self) -> str:
        return self._system

    def ending(self) -> str:
        now, remaining = self._quotes(), float(self._session.info.get("budget_remaining_price", float("inf")))
        changed = {name: price for name, price in now.items() if self._first.get(name) != price}
        lines = [prompts.COSTS + json.dumps(changed)] if changed else []
        if isfinite(remaining):
            lines.append(f"{prompts.REMAINING}{remaining:g}. Keep the calls within it and spend as little as you can.")
        return "\n".join(lines)


CALL = Function(
    "call_function",
    "Call a registered function by its name, with the arguments that its documentation asks for.",
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["name", "arguments"],
    },
)


class EcoActAppend(EcoAct):
    """`EcoAct` whose list of functions stays: a registered function is documented in the result of its registration.

    Servers let a model call what is in the list alone, so the list has a function that calls any registered one; a call of such
    a function by its own name is taken too.
    """

    suffix = "ecoact-append"

    def functions(self, offered: Sequence[Function]) -> Sequence[Function]:
        self._offered = offered
        return [self._meta, CALL]

    def system(self) -> str:
        return prompts.NAMES + ", ".join(function.name for function in self._offered)

    def unwrap(self, call: FunctionCall) -> FunctionCall:
        arguments = call.read() if call.name == CALL.name else None
        if arguments is None or not isinstance(arguments.get("name"), str):
            return call
        return call._replace(name=arguments["name"], arguments=arguments.get("arguments", {}))

    def _register(self, name: str) -> str:
        answer = super()._register(name)
        shown = {function.name: function for function in self._offered}.get(name)
        if shown is None:
            return answer
        note = f"it can be called now, by {CALL.name}"
        return json.dumps({"registered": name, "note": note, "documentation": shown.document()["function"]})


class Compact(ToolAccess):
    """Lets a summary by the model take the place of a long conversation.

    Args:
        tokens: length of the conversation from which it is summarised.
    """

    suffix = "compact"

    def __init__(self, tokens: int = 4_000) -> None:
        self.compact_above = tokens

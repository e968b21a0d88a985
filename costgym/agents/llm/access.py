"""Tool access: which tools a model sees and may call."""

import json
from collections.abc import Sequence
from math import isfinite
from typing import Any

from costgym.agents import prompts
from costgym.agents.llm.session import LlmSession, Refusal, ToolAccess
from costgym.agents.models.base import Function, FunctionCall
from costgym.envs.actions import SEARCH
from costgym.simulators.status import Status

__all__ = ["EcoAct", "Prompt", "Refusal", "Search", "Summary", "ToolAccess"]


def _takes(**properties: Any) -> dict[str, Any]:
    """A schema of these arguments, of which the first is required."""
    return {"type": "object", "properties": properties, "required": [*properties][:1]}


class Summary(ToolAccess):
    """Has the final answer written from all executed calls, and changes nothing else.

    BTP's runs end with such a summary, which its plain baselines lack; this shows what the summary alone brings.

    Source: BTP (arXiv 2402.15960), Algorithm 2, last step.
    """

    suffix = "summary"
    summarise = True


class Prompt(ToolAccess):
    """Tells the model what each call costs and what remains of the budget.

    Source: BTP (arXiv 2402.15960), the "+Prompt" rows.
    """

    suffix = "prompt"

    def reset(self, session: LlmSession) -> None:
        self._session = session

    def system(self) -> str:
        session = self._session
        quotes = session.quotes()
        lines = [prompts.COSTS + json.dumps({f.name: round(quotes.get(f.name, 0.0), 6) for f in session.candidates})]
        remaining = float(session.info.get("budget_remaining_price", float("inf")))
        if isfinite(remaining):
            lines.append(f"{prompts.REMAINING}{remaining:g}. Keep the calls within it and spend as little as you can.")
        return "\n".join(lines)


class Search(ToolAccess):
    """Offers the model a search of the catalogue; in a world without a retriever it changes nothing.

    Args:
        hierarchical: Categories are opened first, then their providers, as in AnyTool; otherwise the search takes words.

    Source: AnyTool (arXiv 2402.04253), Section 3.1, for the hierarchy.
    """

    def __init__(self, hierarchical: bool = False) -> None:
        self.hierarchical = hierarchical
        self.suffix = "browse" if hierarchical else "search"
        self._function: Function | None = None

    def reset(self, session: LlmSession) -> None:
        categories = session.seat.categories
        self._function = None
        if categories:
            self._function = _browse(categories) if self.hierarchical else _SEARCH

    def functions(self, offered: Sequence[Function]) -> Sequence[Function]:
        return offered if self._function is None else [*offered, self._function]


_SEARCH = Function(
    SEARCH,
    "Search for more functions by what they should do; those that are found can be called from then on.",
    _takes(query={"type": "string", "description": "what is looked for, in words"}),
)


def _browse(categories: Sequence[str]) -> Function:
    return Function(
        SEARCH,
        "Open a category to see its providers and their functions, then a provider; its functions can be called from then on.",
        _takes(
            category={"type": "string", "enum": list(categories)},
            provider={"type": "string", "description": "a provider of the category"},
            query={"type": "string", "description": "what the provider's functions should do"},
        ),
    )


REGISTER = "tool_register"
MAX_DESCRIPTION = 256
MAX_NAMES = 64

_ONE = Function(
    REGISTER,
    "Register a function by its name; its documentation is shown from then on and it can be called. One at a time.",
    _takes(name={"type": "string", "description": "name of the function"}),
)
_SEVERAL = Function(
    REGISTER,
    "Register functions by their names; their documentation is shown from then on and they can be called.",
    _takes(names={"type": "array", "items": {"type": "string"}, "description": "names of the functions"}),
)


class EcoAct(ToolAccess):
    """Names first, documentation on demand: the context starts with names and one meta-tool, which registers a tool.

    Its documentation is in the context from then on. Only registered tools may be called.

    Args:
        several: Several tools may be registered in one action (an ablation of the paper).
        descriptions: Names come with descriptions, up to 256 characters (another one).

    Source: EcoAct (arXiv 2411.01643). The published code neither enforces registration nor keeps a tool from being registered
    twice; here a call without registration is refused, and a second registration changes nothing.
    """

    suffix = "ecoact"

    def __init__(self, several: bool = False, descriptions: bool = False) -> None:
        self.several, self.descriptions = several, descriptions
        self._meta = _SEVERAL if several else _ONE

    def reset(self, session: LlmSession) -> None:
        self._offered: Sequence[Function] = session.candidates
        self.registered: dict[str, int] = {}  # by name, the number of replies until then
        self._session = session
        self._last_reply = -1
        self._shown = -1  # how many registered functions there were when the lists below were made
        self._functions: list[Function] = []
        self._names = ""

    def functions(self, offered: Sequence[Function]) -> Sequence[Function]:
        if offered is not self._offered:
            self._offered, self._shown = offered, -1
        self._list()
        return self._functions

    def system(self) -> str:
        self._list()
        return self._names

    def _list(self) -> None:
        # most replies register nothing, and then the lists are those of the reply before
        if len(self.registered) != self._shown:
            self._shown = len(self.registered)
            by_name = {function.name: function for function in self._offered}
            self._functions = [*[by_name[name] for name in self.registered if name in by_name], self._meta]
            self._names = self._list_names()

    def _list_names(self) -> str:
        waiting = [function for function in self._offered if function.name not in self.registered]
        if not waiting:
            return ""
        if self.descriptions:
            lines = [f"- {f.name}: {' '.join(f.description.split())[:MAX_DESCRIPTION]}" for f in waiting]
            return "\n".join([prompts.DESCRIPTIONS, *lines])
        return prompts.NAMES + ", ".join(function.name for function in waiting)

    def refuse(self, call: FunctionCall) -> Refusal | None:
        if call.name not in self.registered and any(call.name == function.name for function in self._session.candidates):
            return Refusal(Status.NOT_REGISTERED, f"register {call.name} with {REGISTER} first")
        return None

    def handle(self, call: FunctionCall) -> str | None:
        if call.name != REGISTER:
            return None
        arguments = call.read()
        if arguments is None:
            return _problem(f"{REGISTER} takes a JSON object")
        wanted = arguments.get("names") if self.several else arguments.get("name")
        names = wanted if self.several else [wanted]
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            return _problem("expected a list of function names" if self.several else "expected the name of one function")
        if not self.several and self._last_reply == self._session.queries:
            return _problem("one registration per step")
        self._last_reply = self._session.queries
        answers = [self._register(name) for name in names[:MAX_NAMES]]
        return answers[0] if len(answers) == 1 else json.dumps({"registered": [json.loads(answer) for answer in answers]})

    def _register(self, name: str) -> str:
        if all(function.name != name for function in self._offered):
            return _problem(f"there is no function named {name[:80]!r} to register")
        known = name in self.registered
        self.registered.setdefault(name, self._session.queries)
        note = "it was registered already" if known else "its documentation is shown now"
        return json.dumps({"registered": name, "note": note})


def _problem(text: str) -> str:
    return json.dumps({"error": "invalid_arguments", "message": text})

"""EcoAct: tools are known by name and registered when they are needed.

The context starts with names and one meta-tool; registering a tool brings its documentation into the context from then on.
Only registered tools may be called.

Source: EcoAct (arXiv 2411.01643). The published code neither enforces registration nor keeps a tool from being registered
twice; here a call without registration is refused, and a second registration changes nothing.
"""

import json
from collections.abc import Sequence

from ...simulators.status import Status
from .. import prompts
from ..llm.session import LlmSession
from ..llm.types import Refusal, ToolAccess
from ..models.base import Function, FunctionCall

REGISTER = "tool_register"
MAX_DESCRIPTION = 256
MAX_NAMES = 64

_ONE = Function(
    REGISTER,
    "Register a function by its name; its documentation is shown from then on and it can be called. One at a time.",
    {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "name of the function"}},
        "required": ["name"],
    },
)
_SEVERAL = Function(
    REGISTER,
    "Register functions by their names; their documentation is shown from then on and they can be called.",
    {
        "type": "object",
        "properties": {"names": {"type": "array", "items": {"type": "string"}, "description": "names of the functions"}},
        "required": ["names"],
    },
)


class EcoAct(ToolAccess):
    """Names first, documentation on demand.

    Args:
        several: Several tools may be registered in one action (an ablation of the paper).
        descriptions: Names come with descriptions, up to 256 characters (another one).
    """

    suffix = "ecoact"

    def __init__(self, several: bool = False, descriptions: bool = False) -> None:
        self.several, self.descriptions = several, descriptions
        self._meta = _SEVERAL if several else _ONE

    def reset(self, session: LlmSession) -> None:
        self._offered: list[Function] = list(session.candidates)
        self.registered: dict[str, int] = {}  # by name, the number of replies until then
        self._session = session
        self._last_reply = -1

    def functions(self, offered: Sequence[Function]) -> Sequence[Function]:
        self._offered = list(offered)
        if not self.registered:
            return [self._meta]
        shown = {function.name: function for function in offered}
        return [*(shown[name] for name in self.registered if name in shown), self._meta]

    def system(self) -> str:
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

"""The language model's interface: messages and functions in, one message and its token count out.

Token counts are worked out once per message and per function, so that a context is priced by adding numbers up.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from costgym.envs.actions import count_tokens
from costgym.simulators.calls import Prompt, Segment, Usage
from costgym.simulators.pricing.prompt_cache import CacheRules
from costgym.simulators.tools import ToolText

SYSTEM, USER, ASSISTANT, TOOL = "system", "user", "assistant", "tool"
ACT, VOTE, PLAN, SUMMARISE = "act", "vote", "plan", "summarise"
"""Purposes of a reply: the next step, a choice between A and B, a plan in words, the final answer."""
FILTERED, TRUNCATED, REFUSED, MALFORMED = "filtered", "truncated", "refused", "malformed"
"""Outcomes of a real model's reply: taken out by a content filter, cut off at the longest reply, the model's refusal, or
neither a text nor a call that can be read."""
OUTCOMES = (FILTERED, REFUSED, TRUNCATED, MALFORMED)
FORMS = ("native", "json", "text", "xml", "glm", "pythonic", "mistral", "deepseek", "kimi", "harmony", "gemma")
"""Forms of a real model's calls: in the API's own field, as bare JSON, as JSON between tags (text), or as the chat templates of
some families of models write them."""
UNREAD = {form: f"unread_{form}" for form in (*FORMS[1:], "unknown")}
"""Counts of replies that hold a call which the model's setting `calls` does not read, by the call's form."""
UNKNOWN_FUNCTIONS, ESTIMATED, PROVIDER_ERRORS = "unknown_functions", "estimated_tokens", "provider_errors"
SERVER_NOTES = (UNKNOWN_FUNCTIONS, ESTIMATED, PROVIDER_ERRORS)
"""What else is counted of replies: calls of functions that were not on offer, replies whose tokens the server did not report,
and answers in which the server failed and was asked again."""
REQUESTS = "requests"
"""Replies that a judge's own engine gave to an agent in another process, so that its tokens were counted there."""
RETRIED = "retried"
"""Times that an episode was broken off and played again because a back-end failed."""
MISHAPS = (*OUTCOMES, RETRIED)
REPLIES = (*MISHAPS, *FORMS, REQUESTS, *UNREAD.values(), *SERVER_NOTES)
"""Counts of an episode's replies in its record: what went wrong, the forms of calls, requests, and what the server did."""


to_json = json.JSONEncoder(default=str, check_circular=False).encode
"""JSON text of what a model wrote; what JSON does not know is written as text. What holds itself is a RecursionError."""


class FunctionCall(NamedTuple):
    """A call as the model wrote it."""

    name: str  #: name of the function, which may be anything that a model writes
    arguments: Any = "{}"  #: JSON text or an object, unread
    id: str = ""  #: pairs the call with its result in chat APIs
    #: fields that a provider added, such as a thought's signature; they go back to it unchanged
    extra: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        more = "" if self.extra is None else f", extra={self.extra!r}"
        return f"FunctionCall(name={self.name!r}, arguments={self.arguments!r}, id={self.id!r}{more})"

    def read(self) -> dict[str, Any] | None:
        """Return the arguments as an object, or None if they are not a JSON object."""
        value = self.arguments
        if isinstance(value, str):
            try:
                value = json.loads(value) if value.strip() else {}
            except (ValueError, RecursionError):
                return None
        if value is None:
            return {}
        return value if isinstance(value, dict) else None


@dataclass(slots=True, eq=False)
class Message:
    """A message of a conversation; nothing changes it once it is written."""

    role: str  #: system, user, assistant or tool
    content: str  #: its text
    calls: tuple[FunctionCall, ...] = ()  #: calls of an assistant
    name: str = ""  #: name of the function, for a tool message
    call_id: str = ""  #: id of the call that it answers, for a tool message
    extra: Mapping[str, Any] | None = None  #: fields that a provider added, such as its reasoning; they go back to it unchanged
    tokens: int = field(default=-1, repr=False)  #: tokens of content and calls together
    _digest: str = field(default="", init=False, repr=False)

    @property
    def digest(self) -> str:
        """The digest of all that a model reads of it."""
        if not self._digest:
            calls = [(call.name, call.arguments, call.id) for call in self.calls]
            self._digest = _digest_of([self.role, self.content, calls, self.name, self.call_id])
        return self._digest

    def __post_init__(self) -> None:
        if self.tokens < 0:
            tokens = MESSAGE_TOKENS + count_tokens(self.content)
            for call in self.calls:
                written = call.arguments if isinstance(call.arguments, str) else _text(call.arguments)
                tokens += count_tokens(str(call.name)) + count_tokens(written)
            self.tokens = tokens


MESSAGE_TOKENS = 4
"""Role and separators of a message, as chat templates spend them."""


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function as a model sees it, with the tokens its documentation takes."""

    #: name, description: name and description in the documentation
    name: str
    description: str
    parameters: Mapping[str, Any]  #: JSON schema of the arguments
    tokens: int = field(default=-1, repr=False)  #: tokens of the whole document
    _digest: str = field(default="", init=False, repr=False)

    @property
    def digest(self) -> str:
        """The digest of the whole document."""
        if not self._digest:
            object.__setattr__(self, "_digest", _digest_of(self.document()))
        return self._digest

    def __post_init__(self) -> None:
        if self.tokens < 0:
            object.__setattr__(self, "tokens", count_tokens(json.dumps(self.document())))

    def document(self) -> dict[str, Any]:
        """The function in the form that chat APIs take."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": dict(self.parameters)},
        }

    @classmethod
    def of(cls, tool: ToolText) -> "Function":
        return cls(tool.name, tool.description, tool.parameters)


FINISH = Function(
    "finish",
    "End the task. Give the complete answer to the user, or set give_up if the task cannot be solved.",
    {
        "type": "object",
        "properties": {
            "answer": {"type": "string", "description": "the final answer, with every fact the user asked for"},
            "give_up": {"type": "boolean", "description": "true to give up instead"},
        },
        "required": ["answer"],
    },
)


class Reply(NamedTuple):
    """A model's message, its tokens and its time."""

    #: message, usage: the message, and what it took
    message: Message
    usage: Usage
    outcome: str = ""  #: one of `OUTCOMES` where something went wrong; such a reply is never the final answer
    form: str = ""  #: one of `FORMS` for the calls of a real model
    notes: tuple[str, ...] = ()  #: counts to be added by one: names of `UNREAD` and `SERVER_NOTES`, as often as they happened

    def count_in(self, counts: MutableMapping[str, int]) -> None:
        """Add the outcome and the form of the calls to the counts of an episode."""
        if self.outcome:
            counts[self.outcome] = counts.get(self.outcome, 0) + 1
        if self.form and self.message.calls:
            counts[self.form] = counts.get(self.form, 0) + len(self.message.calls)
        for note in self.notes:
            counts[note] = counts.get(note, 0) + 1


class LanguageModel(Protocol):
    """Messages and functions in, one message out.

    Attributes:
        name: Its name in results.
    """

    @property
    def name(self) -> str: ...

    def reset(self, seed: int) -> None:
        """Begin an episode; all random draws of the model depend on `seed`."""
        ...

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        """Return the next message.

        Args:
            messages: The conversation, system message first.
            functions: Functions that may be called.
            purpose: `ACT`, `VOTE` (a text that ends in A or B), `PLAN` or `SUMMARISE`.

        Raises:
            InfrastructureError: The model's back-end is down for good.
        """
        ...


def _digest_of(value: Any) -> str:
    return hashlib.blake2b(_text(value).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def reports_cache(model: Any) -> bool:
    """Whether a model, or the one that it wraps, is behind a server that reports what of a prompt its cache has served."""
    while model is not None:
        if getattr(model, "reports_cache", False):
            return True
        model = getattr(model, "model", None)
    return False


class PromptWriter:
    """Writes the prompts of an episode as parts, each prompt against the one before, for a cache with these rules."""

    def __init__(self, rules: CacheRules) -> None:
        self._order, self._marked, self._last = rules.order, rules.breakpoints is not None, list[str]()

    def forget(self) -> None:
        """Write the next prompt whole, since the world was not told of the one before."""
        self._last = []

    def write(self, messages: Sequence[Message], functions: Sequence[Function]) -> Prompt:
        """The prompt of a request, which has to be the next one that is paid for."""
        parts = prompt_parts(messages, functions, self._order)
        digests = [digest for digest, _ in parts]
        same = next((i for i, pair in enumerate(zip(self._last, digests, strict=False)) if pair[0] != pair[1]), None)
        if same is None:
            same = min(len(self._last), len(digests))
        self._last = digests
        return Prompt(same, tuple(parts[same:]), self._marks(len(parts), messages, functions) if self._marked else ())

    def _marks(self, count: int, messages: Sequence[Message], functions: Sequence[Function]) -> tuple[int, ...]:
        """Marks as clients set them beside that at the end: behind functions and system message, before the last message, which
        may be told once only, and behind what stands first."""
        system = bool(messages) and messages[0].role == SYSTEM
        head = count - len(messages) + system
        first = len(functions) if self._order == "functions" or not system else head - len(functions)
        return tuple(dict.fromkeys(mark for mark in (head, count - 1, first) if mark))


def prompt_parts(messages: Sequence[Message], functions: Sequence[Function], order: str) -> list[Segment]:
    """The parts of a prompt in the order of `CacheRules`. What stands first is compared word by word, since a system message
    that changes shares its beginning; before anything behind it counts, all functions would have to be the same."""
    rest: list[Message | Function] = [*functions, *messages]
    first: list[Segment] = []
    if order == "system" and messages and messages[0].role == SYSTEM:
        rest, system = [*functions, *messages[1:]], messages[0]
        length = begin = 0
        for word in words(system.content):
            length += len(word)
            end = round(system.tokens * length / len(system.content))
            first.append((_digest_of(word), end - begin))
            begin = end
    return [*first, *[(part.digest, part.tokens) for part in rest]]


def words(text: str) -> list[str]:
    """The words of a text, each with the space behind it."""
    return _WORD.findall(text)


_WORD = re.compile(r"\S+\s*|^\s+")
_tokens: Callable[[Any], int] = attrgetter("tokens")


def context_tokens(messages: Sequence[Message], functions: Sequence[Function]) -> int:
    """Input tokens of a request."""
    return sum(map(_tokens, messages)) + sum(map(_tokens, functions))


def reply(content: str, calls: Sequence[FunctionCall], messages: Sequence[Message], functions: Sequence[Function]) -> Reply:
    """Return a reply with its usage counted by rule of thumb: for models that report none."""
    message = Message(ASSISTANT, content, tuple(calls))
    return Reply(message, Usage(context_tokens(messages, functions), max(1, message.tokens - MESSAGE_TOKENS)))


def _text(value: Any) -> str:
    try:
        return to_json(value)
    except (ValueError, TypeError, RecursionError):
        return str(value)

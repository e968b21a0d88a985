"""Ask a model server a few cheap requests, and say which settings it needs."""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from costgym.agents.models.base import (
    ASSISTANT,
    ESTIMATED,
    FINISH,
    SYSTEM,
    TOOL,
    UNREAD,
    USER,
    Function,
    FunctionCall,
    Message,
    Reply,
)
from costgym.agents.models.openai import OpenAIModel
from costgym.agents.models.prices import shipped_prices
from costgym.agents.models.replies import first_choice, read_reply
from costgym.agents.models.streams import assemble, is_stream
from costgym.agents.models.traffic import asked_wait_s
from costgym.simulators.errors import InfrastructureError

MAX_REQUESTS = 5
LONGEST_WAIT_S = 10.0  # for a busy server
MAX_WORDS = 300
WEATHER = Function(
    "get_weather",
    "The weather now at a station.",
    {"type": "object", "properties": {"station": {"type": "string"}, "days": {"type": "integer"}}, "required": ["station"]},
)
CLOCK = Function("get_time", "The time now.", {"type": "object", "properties": {}, "required": []})
FUNCTIONS = (WEATHER, CLOCK, FINISH)
ASKED = (
    Message(SYSTEM, "You answer with the help of functions. You may call several at once. Call finish with the answer."),
    Message(USER, 'What is the weather at station "OS-7714", and what time is it? Call both functions now.'),
)
_WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length", "n_ctx", "n_ctx_train")
"""Fields of a listed model, of vLLM, OpenRouter, Groq, Mistral and llama.cpp."""
_CURES: tuple[tuple[str, dict[str, Any]], ...] = (
    (r"\bstream", {"stream": True}),
    (r"\bseed\b", {"send_seed": False}),
    (r"max_completion_tokens", {"max_completion_tokens": 1024}),
    (r"temperature", {"temperature": None}),
    (r"system (role|message)|role.{0,20}system", {"system": "user"}),
)
"""Settings that cure a refusal, by the words in which servers write it."""


@dataclass(slots=True)
class Diagnosis:
    """What a server did, and the settings that it needs."""

    model: str
    calls: str = "none"  #: form of its calls (`agents.models.base.FORMS`); none where no call was seen
    usage: str = "unknown"  #: reported or estimated
    cached_tokens: int = 0  #: of the second request, whose prompt begins as the first one's
    cache: str = "unknown"  #: reported, or not reported
    stream: str = "unknown"  #: yes, no, only (nothing else), or always (asked for or not)
    seed: str = "unknown"  #: accepted or refused
    parallel_calls: bool = False  #: it made both calls in one reply
    context_window: int | None = None  #: tokens, where the server says it
    price: dict[str, float] | None = None  #: US dollars per million tokens, where the package's tables list the model
    settings: dict[str, Any] = field(default_factory=dict)  #: to be added to the model's name, or to a model file
    problems: list[str] = field(default_factory=list)  #: what no setting cures, in the server's words
    requests: int = 0

    @property
    def usable(self) -> bool:
        """Whether the model can play: it called a function that was read."""
        return self.calls != "none"

    def document(self) -> dict[str, Any]:
        """The diagnosis as JSON."""
        return {name: getattr(self, name) for name in self.__slots__} | {"usable": self.usable}


def diagnose(model: OpenAIModel) -> Diagnosis:
    """Ask a server at most `MAX_REQUESTS` requests with a reply of a few hundred tokens each.

    Raises InfrastructureError if it cannot be reached at all.
    """
    diagnosis = Diagnosis(model.name, settings={})
    prices = shipped_prices(model.name)
    if model.name in prices.models:
        known = prices.models[model.name]
        diagnosis.price = {name: value for name, value in known.model_dump().items() if isinstance(value, float)}
    doctor = _Doctor(model, diagnosis)
    reply = doctor.first_reply()
    if reply is not None:
        doctor.look_at(reply)
        doctor.second_reply(reply)
        doctor.try_stream()
        doctor.find_context_window()
    return diagnosis


class _Doctor:
    """The requests to one server."""

    def __init__(self, model: OpenAIModel, diagnosis: Diagnosis) -> None:
        self._model, self._diagnosis = model, diagnosis
        self._document: dict[str, Any] = {}
        self._given_up = False  # the server wants more time than anybody waits

    def first_reply(self) -> Reply | None:
        """The first reply that can be had, with whatever settings that takes; None where none can be had."""
        while self._diagnosis.requests < MAX_REQUESTS - 1:
            document = self._ask(ASKED)
            if document is None:
                return None
            if document:
                self._diagnosis.seed = "refused" if self._diagnosis.settings.get("send_seed") is False else "accepted"
                return read_reply(document, ASKED, FUNCTIONS)
        return None

    def look_at(self, reply: Reply) -> None:
        """Note the form of calls, the usage and parallel calls."""
        diagnosis = self._diagnosis
        diagnosis.usage = "estimated" if ESTIMATED in reply.notes else "reported"
        diagnosis.calls = reply.form or "none"
        diagnosis.parallel_calls = len({call.name for call in reply.message.calls if call.name}) > 1
        usage = self._document.get("usage")
        details = usage.get("prompt_tokens_details") if isinstance(usage, Mapping) else None
        known = {**usage, **(details if isinstance(details, Mapping) else {})} if isinstance(usage, Mapping) else {}
        diagnosis.cache = (
            "reported" if any("cache" in str(name) and known[name] is not None for name in known) else "not reported"
        )
        if not diagnosis.usable:
            unread = any(note in UNREAD.values() for note in reply.notes)
            diagnosis.problems.append(
                f"its reply {'holds a call in a form that is not known' if unread else 'calls no function'}: "
                f"{reply.message.content[:MAX_WORDS]!r}"
            )
        if reply.outcome:
            diagnosis.problems.append(f"its reply is {reply.outcome}")

    def second_reply(self, reply: Reply) -> None:
        """Go on with the results of the calls: whether the server takes its calls back, and reads a prompt from its cache."""
        calls = reply.message.calls or (FunctionCall(CLOCK.name, "{}", "call_0"),)
        results = [
            Message(TOOL, "" if index else "quarter past nine", (), call.name, call.id) for index, call in enumerate(calls)
        ]
        document = self._ask((*ASKED, Message(ASSISTANT, "", calls), *results))
        if document:
            second = read_reply(document, ASKED, FUNCTIONS)
            self._diagnosis.cached_tokens = second.usage.cached_tokens

    def try_stream(self) -> None:
        """Whether the server streams."""
        diagnosis = self._diagnosis
        if diagnosis.stream in ("only", "always") or diagnosis.requests >= MAX_REQUESTS:
            return
        status, content_type, body = self._send(ASKED, {"stream": True})
        diagnosis.stream = "yes" if status == 200 and is_stream(content_type, body) and assemble(body).get("choices") else "no"

    def find_context_window(self) -> None:
        """The context window, which some servers say in their list of models."""
        if self._diagnosis.requests >= MAX_REQUESTS:
            return
        self._diagnosis.requests += 1
        listed = self._model.listing()
        meta = listed.get("meta")
        known = {**listed, **meta} if isinstance(meta, Mapping) else listed
        windows = (known.get(name) for name in _WINDOWS)
        self._diagnosis.context_window = next((value for value in windows if type(value) is int and value > 0), None)

    def _ask(self, messages: tuple[Message, ...]) -> dict[str, Any] | None:
        """A chat completion; an empty one where another try may bring it, None where nothing cures the refusal."""
        status, content_type, body = self._send(messages, {})
        stream = is_stream(content_type, body)
        try:
            document = assemble(body) if stream else json.loads(body)
        except (ValueError, RecursionError):
            document = None
        text = body.decode("utf-8", "replace").strip()[:MAX_WORDS]
        if status == 200 and isinstance(document, dict):
            choice = first_choice(document.get("choices"))
            if choice and not document.get("error") and not choice.get("error") and choice.get("finish_reason") != "error":
                if stream:
                    self._diagnosis.stream = "only" if self._diagnosis.settings.get("stream") else "always"
                self._document = document
                return document
        if status in (400, 422, 500) and self._cure(text):
            return {}
        if status in (408, 409, 429) or status >= 500 or status == 200:
            if self._diagnosis.requests < MAX_REQUESTS - 1 and status != 200 and not self._given_up:
                return {}
            self._diagnosis.problems.append(f"it fails (HTTP {status}): {text}")
            return None
        self._diagnosis.problems.append(f"it refuses the request (HTTP {status}): {text}")
        return None

    def _cure(self, text: str) -> bool:
        """Take up the setting that a refusal asks for, if it is not there yet."""
        for pattern, settings in _CURES:
            if re.search(pattern, text, re.IGNORECASE) and not settings.items() <= self._diagnosis.settings.items():
                self._diagnosis.settings |= settings
                self._model.settings = self._model.settings.model_copy(update=settings)
                return True
        return bool(re.search(r"blank|empty", text, re.IGNORECASE)) and self._model.fill_empty_texts()

    def _send(self, messages: tuple[Message, ...], more: Mapping[str, Any]) -> tuple[int, str, bytes]:
        settings = self._model.settings
        longest = "max_tokens" if settings.max_completion_tokens is None else "max_completion_tokens"
        fields: dict[str, Any] = {"tools": [function.document() for function in FUNCTIONS], longest: 512, **settings.extra_body}
        if settings.temperature is not None:
            fields["temperature"] = settings.temperature
        if settings.send_seed:
            fields["seed"] = 7
        if settings.stream or more.get("stream"):
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        self._diagnosis.requests += 1
        try:
            status, headers, body = self._model.exchange(messages, fields)
        except InfrastructureError as error:
            if self._diagnosis.requests == 1:
                raise
            return 500, "", str(error).encode()
        wait = asked_wait_s(headers)
        if status in (429, 503) and wait <= LONGEST_WAIT_S:
            time.sleep(wait or 0.5)
        elif status in (429, 503):
            self._given_up = True
        return status, headers.get("content-type", ""), body


def model_file(diagnosis: Diagnosis) -> str:
    """The text of a model file with the settings that a server needs."""
    name = re.sub(r"[^a-z0-9]+", "-", diagnosis.model.lower()).strip("-") or "model"
    lines = ["models:", f"  {name}:", f"    model: openai:{diagnosis.model}"]
    lines += [f"    {key}: {json.dumps(value)}" for key, value in diagnosis.settings.items()]
    return "\n".join(lines) + "\n"

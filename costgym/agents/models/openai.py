"""A language model behind a server that speaks OpenAI's chat completions: OpenAI, a LiteLLM proxy, vLLM, Ollama.

The OpenAI SDK sends the requests, with its retries and time-outs. The key comes from an environment variable and is sent to
the configured server alone: redirects are not followed, and over plain http a key goes to this machine only.

What stands wrongly in a reply is the model's own reply. A context that is longer than the model's is the agent's making and
brings an empty reply. Every other refusal stops the run or voids the episode with the server's own words: nothing that the
model did not play is scored as its play.
"""

import json
import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Literal

from pydantic import Field

from costgym.agents.models.base import (
    ACT,
    ASSISTANT,
    FILTERED,
    PROVIDER_ERRORS,
    SYSTEM,
    TOOL,
    USER,
    Function,
    FunctionCall,
    Message,
    Reply,
)
from costgym.agents.models.replies import first_choice, read_reply
from costgym.agents.models.streams import assemble, is_stream
from costgym.agents.models.traffic import TRAFFIC, asked_wait_s
from costgym.simulators.bounds import Count, Settings
from costgym.simulators.calls import Usage
from costgym.simulators.errors import ConfigError, InfrastructureError, require

DEFAULT_URL = "https://api.openai.com/v1"
KEY_VARIABLE, URL_VARIABLE = "OPENAI_API_KEY", "OPENAI_BASE_URL"
MAX_WORDS = 300  # characters of a server's refusal that are repeated
_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_SECRET = re.compile(
    r"authoriz|auth(?!or)|cookie|credential|password|secret|(^|[^a-z])(api|access|subscription)?[_-]?(key|token)$",
    re.IGNORECASE,
)
"""Names of headers, fields and parameters that hold a key; a model's settings are written into every run, so none may."""
_OWN_FIELDS = ("model", "messages", "tools", "stream", "stream_options", "n")
_LOCAL = ("localhost", "127.0.0.1", "::1")
_BUSY = (408, 409, 429)  # statuses that the SDK tries again, beside those from 500 on
_TOO_LONG_CODES = ("context_length_exceeded", "exceed_context_size_error")
_SPENT_CODES = ("insufficient_quota", "budget_exceeded")  # of 429: no waiting brings the money back
_TOO_LONG = re.compile(
    r"context[ _]?(length|window|size|limit)|maximum (prompt|input|sequence|model) length|prompt is too long"
    r"|too many (input )?tokens|input tokens? (count )?(\(\d+\) )?exceeds?"
    r"|must have less than \d+ tokens|tokens`? must be <= ?\d+",
    re.IGNORECASE,
)
_FILTER_CODES = ("content_filter", "content_policy_violation", "data_inspection_failed", "invalid_prompt")
_FILTER = re.compile(
    r"content management policy|ResponsibleAIPolicyViolation|"
    r"\"(code|type)\":\s*\"(content_filter|content_policy_violation|data_inspection_failed|invalid_prompt)\"",
    re.IGNORECASE,
)
_STREAMS_ONLY = re.compile(r"\bstream", re.IGNORECASE)
_EMPTY_REFUSED = re.compile(
    r"(content|text|message).{0,80}(blank|empty)|(blank|empty).{0,40}(content|text|message)", re.IGNORECASE
)
_FILLER = "-"  # stands for an empty text where a server refuses one
_LONGEST_PAUSE_S = 8.0  # between tries of a server that fails inside of an answer
_OUR_SETTING = re.compile(r"max_(completion_|new_)?tokens\W{0,3} is too large", re.IGNORECASE)


def server_url() -> str:
    """Return the server that the environment names, else OpenAI's own."""
    return (os.environ.get(URL_VARIABLE) or DEFAULT_URL).rstrip("/")


def on_this_machine(url: str) -> bool:
    """Return whether a server is reached over loopback."""
    return urllib.parse.urlsplit(url).hostname in _LOCAL


class OpenAISettings(Settings):
    """Settings of requests to a server that speaks OpenAI's chat completions."""

    temperature: float | None = Field(
        default=0.0, description="Sampling temperature; None sends none, for models that accept only their own."
    )
    max_tokens: int = Field(default=1024, description="Longest reply, in tokens.")
    max_completion_tokens: int | None = Field(
        default=None, description="Sent instead of `max_tokens`, for models that name it so, such as OpenAI's reasoning models."
    )
    timeout_s: float = Field(default=60.0, gt=0, description="Longest wait for the server, seconds.")
    tries: Count = Field(
        default=5,
        description="Total requests if the server is busy, broken or out of reach. A wait that the server asks for is "
        "respected, up to two minutes; if the server asks for more, the request is not repeated.",
    )
    reasoning_effort: str | None = Field(
        default=None, description='How long a reasoning model thinks, such as "low"; None leaves it to the server.'
    )
    extra_body: dict[str, Any] = Field(default={}, description="Further fields of every request, which only some servers have.")
    headers: dict[str, str] = Field(
        default={}, description="Further headers of every request. Keys are not among them: they come from the environment."
    )
    calls: Literal["auto", "native", "json", "text"] = Field(
        default="auto",
        description="Forms of calls that are read: the API's own field and, where that is empty, every form that is known "
        "(auto); the field alone (native); or also JSON anywhere in the text (json), or calls between marks (text).",
    )
    stream: bool = Field(default=False, description="Ask for replies in pieces, for servers that give no others.")
    system: Literal["system", "user"] = Field(
        default="system", description="Role of the instructions; user for models whose template knows no system message."
    )
    send_seed: bool = Field(default=True, description="Requests carry the episode's seed.")


class OpenAIModel:
    """Chat completions of a server at `url` (up to ``/v1``; by default ``OPENAI_BASE_URL``, else OpenAI's own).

    `key_variable` holds the key, which a server on this machine does not need. Raises ConfigError where a setting or the URL is
    wrong, or a key is missing or would travel unencrypted.
    """

    reports_cache = True

    def __init__(self, model: str, url: str | None = None, key_variable: str = KEY_VARIABLE, **settings: Any) -> None:
        self.name = model
        self.settings = chosen = OpenAISettings(**settings)
        self.url = (url or server_url()).rstrip("/")
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:  # its text is not shown: a key may be in it
            raise ConfigError("model server", "expected a URL such as https://host/v1")
        if parts.username or parts.password or any(_SECRET.search(name) for name, _ in urllib.parse.parse_qsl(parts.query)):
            raise ConfigError("model server", f"put no key into the URL; set the environment variable {key_variable}")
        self._key = os.environ.get(key_variable, "")
        local = on_this_machine(self.url)
        if not self._key and not local:
            raise ConfigError("model server", f"set the environment variable {key_variable} to the key of {parts.hostname}")
        if self._key and parts.scheme == "http" and not local:
            raise ConfigError("model server", f"a key must not travel unencrypted; use https for {parts.hostname}")
        for kind, fields in (("header", chosen.headers), ("field of extra_body", chosen.extra_body)):
            for name, value in _leaves(fields):
                if _SECRET.search(name) or (self._key and self._key in str(value)):
                    raise ConfigError(
                        "model server", f"no {kind} {name!r}: set the environment variable {key_variable} to the key"
                    )
        for name in chosen.extra_body:
            if name in _OWN_FIELDS:
                raise ConfigError("model server", f"extra_body: {name!r} is set by the agent")
        self._sdk = require("openai", "llm")  # which takes a second, so a wrong setting is said first
        self._client = self._sdk.OpenAI(
            api_key=self._key or "none",
            base_url=self.url,
            max_retries=chosen.tries - 1,
            http_client=_http_client(self._sdk, chosen.timeout_s),
        )
        self._headers = {**chosen.headers, **({} if self._key else {"Authorization": self._sdk.omit})}
        # a copy in another process leaves the key behind: it reads it from the environment there
        self._remake = partial(OpenAIModel, model, self.url, key_variable, **chosen.model_dump())
        self._seed = 0
        self.options: Mapping[str, Any] = {}  # further fields of the next requests, which an agent with its own loop asks for
        self._streams, self._filler = chosen.stream, ""  # what the server wants, as far as it has said so

    def __reduce__(self) -> tuple[Any, ...]:
        return self._remake, ()

    def reset(self, seed: int) -> None:
        self._seed = seed & 0x7FFFFFFF

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        """See `LanguageModel`; ConfigError: a key, model or setting is refused, InfrastructureError: the server is broken."""
        settings = self.settings
        longest = "max_tokens" if settings.max_completion_tokens is None else "max_completion_tokens"
        optional = {
            "temperature": settings.temperature,
            "seed": self._seed if settings.send_seed else None,
            "reasoning_effort": settings.reasoning_effort,
            longest: getattr(settings, longest),
        }
        request: dict[str, Any] = {
            "model": self.name,
            **{name: value for name, value in optional.items() if value is not None},
            **{name: value for name, value in self.options.items() if name not in ("max_tokens", "max_completion_tokens")},
        }
        limits = [self.options[name] for name in ("max_tokens", "max_completion_tokens") if name in self.options]
        if limits:
            request[longest] = limits[0]
        if functions:
            request["tools"] = [function.document() for function in functions]
        for attempt in range(settings.tries):
            answer = self._send(request, messages)
            if isinstance(answer, Reply):
                return answer
            code, problem = _failure(answer)
            if problem:
                self._pause(code, problem, attempt)
                continue
            return read_reply(answer, messages, functions, settings.calls, (PROVIDER_ERRORS,) * attempt)
        raise InfrastructureError(f"model server {self.url}: {self._hide(problem)} ({settings.tries} tries)")

    def _pause(self, code: int, problem: str, attempt: int) -> None:
        """Let requests wait after a failure that the server wrote into an answer; raises ConfigError for one of the request."""
        if 400 <= code < 500 and code not in _BUSY:
            raise ConfigError(f"model server {self.url}", f"error {code}: {self._hide(problem)}")
        if attempt + 1 < self.settings.tries:
            TRAFFIC.close(urllib.parse.urlsplit(self.url).netloc, min(0.25 * 2**attempt, _LONGEST_PAUSE_S))

    def _send(self, request: dict[str, Any], messages: Sequence[Message]) -> dict[str, Any] | Reply:
        """Return the server's answer; an unpaid, empty reply where the context is too long or a content filter refuses it.

        A server that wants a stream, or refuses an empty text, is asked again as it wants to be, then and from then on."""
        try:
            return self._post(request, messages)
        except _Refusal as refusal:
            if refusal.status in (400, 422):
                if not self._streams and _STREAMS_ONLY.search(refusal.text):
                    self._streams = True
                    return self._send(request, messages)
                if _EMPTY_REFUSED.search(refusal.text) and self.fill_empty_texts():
                    return self._send(request, messages)
            advice = _advice(refusal.text)
            raise ConfigError(f"model server {self.url}", f"HTTP {refusal.status}: {refusal.text}{advice}") from None

    def _post(self, request: dict[str, Any], messages: Sequence[Message]) -> dict[str, Any] | Reply:
        sdk = self._sdk
        more = {"stream": True, "stream_options": {"include_usage": True}} if self._streams else {}
        body = {**self.settings.extra_body, **more} or None
        try:
            with TRAFFIC.request():
                raw = self._client.chat.completions.with_raw_response.create(
                    messages=self._written(messages),
                    extra_body=body,
                    extra_headers=self._headers,
                    **request,
                )
            content: bytes = raw.http_response.content
            content_type = str(raw.http_response.headers.get("content-type", ""))
        except sdk.APIStatusError as error:
            status, text = error.status_code, error.response.text.strip()
            if context_is_too_long(status, (error.code, error.type), text):
                return Reply(Message(ASSISTANT, ""), Usage(0, 0))  # which is the agent's making
            if status in (400, 403, 422) and (error.code in _FILTER_CODES or _FILTER.search(text)):
                return Reply(Message(ASSISTANT, ""), Usage(0, 0), FILTERED)  # an outcome, like a filtered reply
            spent = error.code in _SPENT_CODES or error.type in _SPENT_CODES
            if spent or (status < 500 and status not in _BUSY):
                raise _Refusal(status, self._hide(text)) from None
            problem = f"HTTP {status}: {self._hide(text)}"
            raise InfrastructureError(f"model server {self.url}: {problem} ({self.settings.tries} tries)") from None
        except (sdk.OpenAIError, OSError) as error:
            problem = self._hide(f"{type(error).__name__}: {error.__cause__ or error}")
            raise InfrastructureError(f"model server {self.url}: {problem} ({self.settings.tries} tries)") from None
        try:
            document = self._masked(assemble(content) if is_stream(content_type, content) else json.loads(content))
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict) and (isinstance(document.get("choices"), list) or document.get("error")):
            return document
        shown = self._hide(content.decode("utf-8", "replace").strip())
        raise InfrastructureError(f"model server {self.url}: the answer is not a chat completion: {shown!r}")

    def _written(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """The conversation as the server takes it."""
        written = chat_messages(messages, self._filler or None)
        if self.settings.system == "user" and len(written) > 1 and written[0]["role"] == SYSTEM and written[1]["role"] == USER:
            instructions, request = written[:2]
            return [{**request, "content": f"{instructions['content']}\n\n{request['content']}"}, *written[2:]]
        return written

    def listing(self) -> dict[str, Any]:
        """What the server's list of models says of this one; empty where it has none."""
        try:
            raw = self._client.with_options(max_retries=0).models.with_raw_response.list(extra_headers=self._headers)
            models = json.loads(raw.http_response.content)["data"]
            return next((dict(entry) for entry in models if entry.get("id") == self.name), {})
        except (self._sdk.OpenAIError, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return {}

    def fill_empty_texts(self) -> bool:
        """From now on send no empty text; False where that is done already."""
        filled, self._filler = bool(self._filler), _FILLER
        return not filled

    def exchange(self, messages: Sequence[Message], fields: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        """Send one request with these fields, and nothing else, once; returns status, headers and body, whatever they are.

        Raises InfrastructureError if no answer comes."""
        sdk = self._sdk
        try:
            raw = self._client.with_options(max_retries=0).chat.completions.with_raw_response.create(
                model=self.name, messages=self._written(messages), extra_body=dict(fields), extra_headers=self._headers
            )
            response = raw.http_response
        except sdk.APIStatusError as error:
            response = error.response
        except (sdk.OpenAIError, OSError) as error:
            problem = self._hide(f"{type(error).__name__}: {error.__cause__ or error}")
            raise InfrastructureError(f"model server {self.url}: {problem}") from None
        text = self._mask(response.content.decode("utf-8", "replace"))
        return response.status_code, dict(response.headers), text.encode()

    def _masked(self, value: Any) -> Any:
        """Return a part of an answer, every text in it masked."""
        if isinstance(value, str):
            return self._mask(value)
        if isinstance(value, list):
            return [self._masked(element) for element in value]
        return (
            {self._mask(name): self._masked(element) for name, element in value.items()} if isinstance(value, dict) else value
        )

    def _mask(self, text: str) -> str:
        """Return a text without the key, should the server repeat it: what a model says is recorded and published."""
        written = {self._key, json.dumps(self._key)[1:-1], self._key.replace("/", "\\/")} - {""}
        for form in sorted(written, key=len, reverse=True):
            text = text.replace(form, "***")
        return text

    def _hide(self, text: str) -> str:
        return self._mask(text)[:MAX_WORDS]


class _Refusal(Exception):
    """A server's refusal of a request, in its own words."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


_SETTING_FOR = (
    (re.compile(r"\bseed\b", re.IGNORECASE), "send_seed=false"),
    (re.compile(r"max_completion_tokens", re.IGNORECASE), "max_completion_tokens=1024"),
    (re.compile(r"temperature", re.IGNORECASE), "temperature=none"),
)
"""Settings that a refusal asks for, by the word for which it is known."""


SETTING_ADVICE = re.compile(r"; add \S+ to the model's name")
"""What errors say where a setting of ours cures a refusal."""


def _advice(text: str) -> str:
    """The setting that cures a refusal, where one does."""
    setting = next((setting for pattern, setting in _SETTING_FOR if pattern.search(text)), "")
    return f"; add {setting} to the model's name, or ask `costgym doctor` which settings the server wants" if setting else ""


def _failure(document: Mapping[str, Any]) -> tuple[int, str]:
    """The code and the words of a failure that a server wrote into an answer with status 200; ("") where it wrote none."""
    choices = document.get("choices")
    first = first_choice(choices)
    error = document.get("error") or first.get("error")
    if error:
        known = error if isinstance(error, Mapping) else {}
        code = known.get("code")
        number = int(code) if isinstance(code, int) or (isinstance(code, str) and code.isdigit()) else 0
        return number, f"an error inside of an answer: {known.get('message') or error!s:.{MAX_WORDS}}"
    if not choices:
        return 0, "an answer without a choice"
    if str(first.get("finish_reason")).lower() == "error":
        return 0, "an answer that ends in an error"
    return 0, ""


@lru_cache(maxsize=8)
def _http_client(sdk: Any, timeout_s: float) -> Any:
    """The connections of all models of this process; a wait that a busy server asks for holds for all of them."""

    def sent(request: Any) -> None:
        TRAFFIC.wait(request.url.netloc)

    def answered(response: Any) -> None:
        if response.status_code in (429, 503):
            TRAFFIC.close(response.request.url.netloc, asked_wait_s(response.headers))

    hooks = {"request": [sent], "response": [answered]}
    return sdk.DefaultHttpxClient(timeout=timeout_s, follow_redirects=False, event_hooks=hooks)


def _leaves(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of settings and of the mappings in them, by their own names."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _leaves(value)
        else:
            yield str(name), value


def context_is_too_long(status: int, codes: Sequence[str | None], text: str) -> bool:
    """Return whether a server refused a request for its too long context, by its HTTP status and its own codes or words.

    >>> context_is_too_long(400, (), "This model's maximum context length is 4096 tokens, however you requested 5000 tokens")
    True
    >>> context_is_too_long(413, (), "<h1>413 Request Entity Too Large</h1>")
    False
    """
    if status not in (400, 413, 422):
        return False
    if any(code in _TOO_LONG_CODES for code in codes):
        return True
    return bool(_TOO_LONG.search(text)) and not _OUR_SETTING.search(text)


# -- what goes over the wire -----------------------------------------------------------------------------------------------


def chat_messages(messages: Sequence[Message], filler: str | None = None) -> list[dict[str, Any]]:
    """Return a conversation as chat APIs take it: every call has an id and exactly one result. An empty text beside a call is
    `filler`; if that is a text, it stands for every empty one."""
    written: list[dict[str, Any]] = []
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if message.role == TOOL and waiting:
            # results without a known id answer the calls in order, since servers refuse a call without a result
            number = waiting.index(message.call_id) if message.call_id in waiting else 0
            written.append({"role": "tool", "tool_call_id": waiting.pop(number), "content": message.content or filler or ""})
            continue
        written += [{"role": "tool", "tool_call_id": number, "content": "not executed"} for number in waiting]
        waiting = []
        if message.role == TOOL:
            written.append({"role": "user", "content": f"{message.name}: {message.content}"})
            continue
        content = message.content or (filler if message.calls else filler or "")
        entry: dict[str, Any] = {"role": message.role, "content": content}
        if message.calls:
            waiting = [call.id or f"call_{index}_{position}" for position, call in enumerate(message.calls)]
            entry["tool_calls"] = [
                {
                    "id": number,
                    "type": "function",
                    "function": {"name": _NAME.sub("_", str(call.name))[:64] or "unnamed", "arguments": _arguments(call)},
                    **(call.extra or {}),
                }
                for number, call in zip(waiting, message.calls, strict=True)
            ]
        written.append(entry | dict(message.extra or {}))
    written += [{"role": "tool", "tool_call_id": number, "content": "not executed"} for number in waiting]
    return written


def _arguments(call: FunctionCall) -> str:
    if isinstance(call.arguments, str):
        return call.arguments
    try:
        return json.dumps(call.arguments, default=str)
    except (ValueError, TypeError, RecursionError):
        return "{}"

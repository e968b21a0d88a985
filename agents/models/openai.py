"""A language model behind a server that speaks OpenAI's chat completions: OpenAI itself, vLLM, transformers serve, Ollama.

The key comes from an environment variable and is sent to the configured server alone: redirects are not followed, and over
plain http a key goes to this machine only. What the server says wrongly in a reply is the model's reply; a server that does
not answer is an infrastructure error.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym

from ...envs.actions import MAX_TOKENS_REPORTED
from ...simulators.calls import Usage
from ...simulators.errors import ConfigError, InfrastructureError
from .base import ACT, ASSISTANT, TOOL, Function, FunctionCall, Message, Reply, reply

DEFAULT_URL = "https://api.openai.com/v1"
KEY_VARIABLE, URL_VARIABLE = "OPENAI_API_KEY", "OPENAI_BASE_URL"
MAX_BODY = 16 * 2**20
MAX_BACKOFF_S = 60.0
_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_LOCAL = ("localhost", "127.0.0.1", "::1")


def server_url() -> str:
    """The server that the environment names, else OpenAI's own."""
    return (os.environ.get(URL_VARIABLE) or DEFAULT_URL).rstrip("/")


def on_this_machine(url: str) -> bool:
    """The server is reached over loopback."""
    return urllib.parse.urlsplit(url).hostname in _LOCAL


class OpenAIModel:
    """Chat completions over HTTP.

    Args:
        model: the model's name on the server.
        url: the server's base, up to and with ``/v1``; by default from ``OPENAI_BASE_URL``, else OpenAI's own.
        key_variable: environment variable that holds the key; a server on this machine needs none.
        temperature: of sampling.
        max_tokens: longest reply.
        timeout_s: for one request.
        tries: of a request in all, where the server is busy, broken or out of reach.
        backoff_s: wait before the second try; it doubles each time, and a server's ``Retry-After`` is heeded.
        concurrency: requests in flight at once in this process.

    Raises:
        ConfigError: the URL is none, or a key is missing or would travel unencrypted.
    """

    def __init__(
        self,
        model: str,
        url: str | None = None,
        key_variable: str = KEY_VARIABLE,
        temperature: float = 0.0,
        max_tokens: int = 1024,
        timeout_s: float = 60.0,
        tries: int = 5,
        backoff_s: float = 1.0,
        concurrency: int = 8,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = model
        self.url = (url or server_url()).rstrip("/")
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("model server", f"expected a URL such as https://host/v1, got {self.url!r}")
        if parts.username or parts.password:
            raise ConfigError("model server", f"put no key into the URL; set the environment variable {key_variable}")
        self._key = os.environ.get(key_variable, "")
        local = on_this_machine(self.url)
        if not self._key and not local:
            raise ConfigError("model server", f"set the environment variable {key_variable} to the key of {parts.hostname}")
        if self._key and parts.scheme == "http" and not local:
            raise ConfigError("model server", f"a key must not travel unencrypted; use https for {parts.hostname}")
        if tries < 1 or timeout_s <= 0 or concurrency < 1:
            raise ConfigError("model server", "expected tries, timeout_s and concurrency above 0")
        self.temperature, self.max_tokens = temperature, max_tokens
        self._timeout_s, self._tries, self._backoff_s, self._sleep = timeout_s, tries, backoff_s, sleep
        self._slots = threading.BoundedSemaphore(concurrency)
        self._opener = urllib.request.build_opener(_NoRedirect())
        self._made_with = (
            model, self.url, key_variable, temperature, max_tokens, timeout_s, tries, backoff_s, concurrency, sleep
        )  # fmt: skip
        self._seed = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to another process, it leaves its key behind: there it is read from the environment."""
        return type(self), self._made_with

    def reset(self, env: gym.Env[Any, Any], seed: int) -> None:
        self._seed = seed & 0x7FFFFFFF

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        request: dict[str, Any] = {
            "model": self.name,
            "messages": chat_messages(messages),
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": self._seed,
        }
        if functions:
            request["tools"] = [function.document() for function in functions]
        answer = self._send(json.dumps(request).encode())
        if answer is None:
            # the server will not read this context, which is the agent's making: it gets no reply and pays nothing
            return Reply(Message(ASSISTANT, ""), Usage(0, 0))
        return read_reply(answer, messages, functions)

    # -- HTTP ------------------------------------------------------------------------------------------------------------

    def _send(self, body: bytes) -> dict[str, Any] | None:
        """The server's answer; None where it refuses the request for what stands in it."""
        problem, wait = "", self._backoff_s
        for attempt in range(self._tries):
            if attempt:
                self._sleep(min(wait, MAX_BACKOFF_S))
                wait = self._backoff_s * 2**attempt
            try:
                with self._slots, self._opener.open(self._request(body), timeout=self._timeout_s) as response:
                    document = json.loads(response.read(MAX_BODY))
                if isinstance(document, dict) and isinstance(document.get("choices"), list):
                    return document
                problem = "the answer is no chat completion"
            except urllib.error.HTTPError as error:
                problem = f"HTTP {error.code}: {self._hide(_body_of(error))}"
                if error.code in (400, 413, 422):
                    return None
                if error.code not in (408, 409, 425, 429) and error.code < 500:
                    raise ConfigError(f"model server {self.url}", problem) from None
                with contextlib.suppress(ValueError, TypeError):
                    wait = max(wait, float(error.headers.get("Retry-After", "")))
            except (OSError, ValueError, RecursionError) as error:
                problem = self._hide(f"{type(error).__name__}: {error}")
        raise InfrastructureError(f"model server {self.url}: {problem} ({self._tries} tries)")

    def _request(self, body: bytes) -> urllib.request.Request:
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        return urllib.request.Request(f"{self.url}/chat/completions", body, headers)

    def _hide(self, text: str) -> str:
        text = text.replace(self._key, "***") if self._key else text
        return text[:300]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another server."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _body_of(error: urllib.error.HTTPError) -> str:
    try:
        return error.read(2000).decode("utf-8", "replace").strip()
    except OSError:
        return ""


# -- what goes over the wire -----------------------------------------------------------------------------------------------


def chat_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """A conversation as chat APIs take it: every call has an id and exactly one result."""
    written: list[dict[str, Any]] = []
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if message.role == TOOL and waiting:
            number = waiting.index(message.call_id) if message.call_id in waiting else 0
            written.append({"role": "tool", "tool_call_id": waiting.pop(number), "content": message.content})
            continue
        written += [{"role": "tool", "tool_call_id": number, "content": "not executed"} for number in waiting]
        waiting = []
        if message.role == TOOL:
            written.append({"role": "user", "content": f"{message.name}: {message.content}"})
            continue
        entry: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.calls:
            waiting = [call.id or f"call_{index}_{place}" for place, call in enumerate(message.calls)]
            entry["tool_calls"] = [
                {
                    "id": number,
                    "type": "function",
                    "function": {"name": _NAME.sub("_", str(call.name))[:64] or "unnamed", "arguments": _arguments(call)},
                }
                for number, call in zip(waiting, message.calls, strict=True)
            ]
        written.append(entry)
    written += [{"role": "tool", "tool_call_id": number, "content": "not executed"} for number in waiting]
    return written


def _arguments(call: FunctionCall) -> str:
    if isinstance(call.arguments, str):
        return call.arguments
    try:
        return json.dumps(call.arguments, default=str)
    except (ValueError, TypeError, RecursionError):
        return "{}"


def read_reply(document: dict[str, Any], messages: Sequence[Message], functions: Sequence[Function]) -> Reply:
    """A reply out of a server's answer, whatever stands in it; usage is counted where the server reports none."""
    choices = document.get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = first.get("message")
    said = message if isinstance(message, dict) else {}
    wire = said.get("tool_calls")
    calls = [_read_call(entry) for entry in wire if isinstance(entry, dict)] if isinstance(wire, list) else []
    legacy = said.get("function_call")
    if not calls and isinstance(legacy, dict):
        calls = [_read_call({"function": legacy})]
    found = reply(_content(said.get("content")), calls, messages, functions)
    usage = document.get("usage")
    if isinstance(usage, dict):
        details = usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else 0
        prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
        if prompt is not None and completion is not None:
            return Reply(found.message, Usage(prompt, completion, _count(cached) or 0))
    return found


def _count(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= MAX_TOKENS_REPORTED else None


def _read_call(entry: dict[str, Any]) -> FunctionCall:
    function = entry.get("function")
    if not isinstance(function, dict):
        return FunctionCall("", "{}", str(entry.get("id") or ""))
    return FunctionCall(str(function.get("name") or ""), function.get("arguments", "{}"), str(entry.get("id") or ""))


def _content(value: Any) -> str:
    """Text, or the texts among several parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(part["text"] for part in value if isinstance(part, dict) and isinstance(part.get("text"), str))
    return ""

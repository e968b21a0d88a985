"""Read what servers report of tokens into one counting: `Usage`, whose classes are parts of the whole prompt and reply.

Vendors count differently. Anthropic leaves cached tokens out of the input, OpenAI counts them in; Gemini and some others leave
thoughts out of the output. A report that cannot be right, such as 0 tokens in all, is none.
"""

from collections.abc import Mapping
from typing import Any

from costgym.envs.actions import MAX_TOKENS_REPORTED
from costgym.simulators.calls import Usage


def read_server_usage(answer: Mapping[str, Any]) -> Usage | None:
    """Return the tokens that an answer reports; None where it reports none that can be read.

    Known are the answers of OpenAI's chat completions and responses, Anthropic's messages, Gemini, Ollama, llama.cpp, vLLM and
    LiteLLM, and those of DeepSeek, Moonshot, OpenRouter and xAI, which are chat completions with fields of their own.

    >>> details = {"cached_tokens": 64}
    >>> read_server_usage({"usage": {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": details}})[:3]
    (100, 9, 64)
    >>> read_server_usage({"usage": {"input_tokens": 10, "output_tokens": 9, "cache_read_input_tokens": 90}})[:3]
    (100, 9, 90)
    """
    usage = answer.get("usage")
    if isinstance(usage, Mapping) and ("prompt_tokens" in usage or "completion_tokens" in usage):
        return _chat_completions(usage, answer.get("timings"))
    if isinstance(usage, Mapping) and "input_tokens" in usage:
        return _responses(usage) if "input_tokens_details" in usage or "cached_input_tokens" in usage else _messages(usage)
    if isinstance(metadata := answer.get("usageMetadata"), Mapping):
        return _gemini(metadata)
    if "prompt_eval_count" in answer or "eval_count" in answer:  # Ollama's own interface; a cached prompt has no count
        return _usage(_count(answer.get("prompt_eval_count", 0)), _count(answer.get("eval_count", 0)))
    if "tokens_evaluated" in answer:  # llama.cpp's own interface
        return _usage(_count(answer["tokens_evaluated"]), _count(answer.get("tokens_predicted")), answer.get("tokens_cached"))
    return None


def _chat_completions(usage: Mapping[str, Any], timings: Any) -> Usage | None:
    details, of_output = _part(usage, "prompt_tokens_details"), _part(usage, "completion_tokens_details")
    cached = _first(
        details.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens"),
        usage.get("cache_read_input_tokens"), _part({"timings": timings}, "timings").get("cache_n"),
    )  # fmt: skip
    written = _first(
        details.get("cache_write_tokens"), details.get("cache_creation_tokens"), usage.get("cache_creation_input_tokens")
    )
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    reasoning = _count(of_output.get("reasoning_tokens")) or 0
    total = _count(usage.get("total_tokens"))
    if prompt is not None and completion is not None and reasoning and total == prompt + completion + reasoning:
        completion += reasoning  # xAI counts thoughts beside the completion
    return _usage(prompt, completion, cached, written, reasoning)


def _responses(usage: Mapping[str, Any]) -> Usage | None:
    """Those of the responses API, in its own details or, as Codex logs them, beside the sums."""
    details, of_output = _part(usage, "input_tokens_details"), _part(usage, "output_tokens_details")
    return _usage(
        _count(usage.get("input_tokens")),
        _count(usage.get("output_tokens")),
        _first(details.get("cached_tokens"), usage.get("cached_input_tokens")),
        _first(details.get("cache_write_tokens"), usage.get("cache_creation_input_tokens")),
        _first(of_output.get("reasoning_tokens"), usage.get("reasoning_output_tokens")),
    )


def _messages(usage: Mapping[str, Any]) -> Usage | None:
    fresh = _count(usage.get("input_tokens"))
    read, written = _count(usage.get("cache_read_input_tokens")) or 0, _count(usage.get("cache_creation_input_tokens")) or 0
    whole = None if fresh is None else fresh + read + written
    return _usage(whole, _count(usage.get("output_tokens")), read, written)


def _gemini(usage: Mapping[str, Any]) -> Usage | None:
    thoughts = _count(usage.get("thoughtsTokenCount")) or 0
    spoken = _count(usage.get("candidatesTokenCount", 0))
    prompt = _count(usage.get("promptTokenCount"))
    if prompt is not None:
        prompt += _count(usage.get("toolUsePromptTokenCount")) or 0
    whole = None if spoken is None else spoken + thoughts
    return _usage(prompt, whole, usage.get("cachedContentTokenCount"), 0, thoughts)


def _usage(read: int | None, spoken: int | None, cached: Any = 0, written: Any = 0, reasoning: Any = 0) -> Usage | None:
    if read is None or spoken is None or (read == spoken == 0) or max(read, spoken) > MAX_TOKENS_REPORTED:
        return None
    cached = min(_count(cached) or 0, read)
    return Usage(
        read,
        spoken,
        cached,
        cache_write_tokens=min(_count(written) or 0, read - cached),
        reasoning_tokens=min(_count(reasoning) or 0, spoken),
    )


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, Mapping) else {}


def _first(*values: Any) -> Any:
    """The first value that is a count above 0, else 0."""
    return next((value for value in values if _count(value)), 0)


def _count(value: Any) -> int | None:
    """A number of tokens, which some servers write as 100.0 or "100"."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= MAX_TOKENS_REPORTED else None

"""The client against a stub that answers as a LiteLLM proxy does: names with a provider, its error bodies, its usage."""

import json

import pytest

from costgym.agents.models.base import USER, Message
from costgym.agents.models.openai import KEY_VARIABLE, URL_VARIABLE
from costgym.agents.registry import make_model
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.leaderboard import run
from costgym.simulators.errors import ConfigError, InfrastructureError
from costgym.simulators.scenario import parse_scenario
from tests.helpers.model_server import Server
from tests.helpers.playing import SMALL

CLAUDE = "anthropic/claude-sonnet-4-20250514"
BEDROCK = "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0"


def answer(*calls, content=None, prompt=1200, completion=80, cached=200):
    """A completion as the proxy writes it for a provider that caches prompts and thinks."""
    wire = [
        {"index": i, "id": f"toolu_{i}", "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
        for i, (n, a) in enumerate(calls)
    ]
    message = {
        "content": content,
        "role": "assistant",
        "tool_calls": wire or None,
        "function_call": None,
        "reasoning_content": "I should call a function.",
        "thinking_blocks": [{"type": "thinking", "thinking": "I should call a function.", "signature": "c2ln"}],
        "provider_specific_fields": {"citations": None},
    }
    usage = {
        "completion_tokens": completion,
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens_details": {"reasoning_tokens": 30, "text_tokens": None},
        "prompt_tokens_details": {"audio_tokens": None, "cached_tokens": cached, "text_tokens": None},
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
    }
    choice = {"finish_reason": "tool_calls" if wire else "stop", "index": 0, "message": message}
    return {
        "id": "chatcmpl-0", "created": 1763800000, "model": "claude-sonnet-4-20250514", "object": "chat.completion",
        "system_fingerprint": None, "choices": [choice], "usage": usage,
    }  # fmt: skip


def error(message, kind=None, code="400", param=None):
    return json.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}})


def wrapped(name, provider, message):
    """What a provider says, in the proxy's words around it."""
    return f"litellm.{name}: {provider} - {message}. Received Model Group=m\nAvailable Model Group Fallbacks=None"


@pytest.fixture
def proxy(monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "sk-virtual")
    monkeypatch.setenv("COSTGYM_CACHE", "")  # `--cache` sets it in this process
    server = Server()
    monkeypatch.setenv(URL_VARIABLE, server.url)
    yield server
    server.close()


def ask(model=f"openai:{CLAUDE},tries=1"):
    return make_model(model).complete([Message(USER, "q")], ())


@pytest.mark.parametrize("name", [CLAUDE, BEDROCK])
def test_a_name_keeps_its_provider_and_the_virtual_key_is_sent(proxy, name):
    proxy.answers = [answer(content="yes")]
    request_body = ask(f"openai:{name},tries=1")
    assert proxy.requests[0]["model"] == name
    assert proxy.headers[0]["authorization"] == "Bearer sk-virtual"
    assert request_body.message.content == "yes" and request_body.message.calls == ()
    assert request_body.usage[:3] == (1200, 80, 200)


def test_calls_beside_empty_content_and_reasoning_are_read(proxy):
    proxy.answers = [answer(("search", {"city": "c0"}), ("finish", {"answer": "x"}))]
    reply = ask()
    assert [(call.name, call.id) for call in reply.message.calls] == [("search", "toolu_0"), ("finish", "toolu_1")]
    assert reply.message.content == ""


@pytest.mark.parametrize("name", [CLAUDE, BEDROCK])
def test_a_leaderboard_pays_the_usage_at_the_prices_of_the_whole_name(proxy, tmp_path, name):
    prices = tmp_path / "prices.yaml"
    prices.write_text(f'date: 2026-11-20\nmodels: {{"{name}": {{input: 3, output: 15, cached: 0.3}}}}\n')
    proxy.answers = [answer(("finish", {"answer": "?"}))] * 3
    scenario = parse_scenario({"name": "small", **SMALL})
    config = make_run_config(
        scenario=scenario, agents=["react"], budgets="price=20", episodes=3, model=f"openai:{name}", prices=prices
    )
    (row,) = run(config, tmp_path / "run").document["rows"]
    assert row["model"] == name and row["void_episodes"] == 0
    credits = 100 * (1000 * 3 + 200 * 0.3 + 80 * 15) / 1e6  # prompt tokens include the cached ones
    assert row["average_cost"] == pytest.approx(credits, rel=1e-12)


@pytest.mark.parametrize(
    "message",
    [
        wrapped(
            "BadRequestError: litellm.ContextWindowExceededError",
            "AnthropicError",
            '{"type":"error","error":{"message":"prompt is too long: 209303 tokens > 200000 maximum"}}',
        ),
        wrapped("BadRequestError", "AnthropicException", "input length and `max_tokens` exceed context limit: 179413 + 32768"),
        wrapped("ContextWindowExceededError", "OpenAIException", "Input tokens exceed the configured limit of 272000 tokens"),
        wrapped("BadRequestError", "AzureException", "Input tokens exceed the configured limit of 272000 tokens"),
        wrapped("BadRequestError", "VertexAIException", "The input token count (2800010) exceeds the maximum number of tokens"),
        wrapped("BadRequestError", "VertexAIException", "The input token count exceeds the maximum number of tokens allowed"),
        wrapped("ContextWindowExceededError", "XaiException", "request refused"),
    ],
)
def test_a_context_that_is_too_long_for_any_provider_brings_an_empty_reply(proxy, message):
    proxy.answers = [(400, error(message), {})]
    reply = ask()
    assert reply.message.content == "" and reply.usage[:3] == (0, 0, 0)


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [
        (400, error("/chat/completions: Invalid model name passed in model=x", "invalid_request_error"), "Invalid model name"),
        (401, error("Authentication Error, Invalid proxy server token passed", "auth_error", "401", "key"), "Invalid proxy"),
        (401, error("Not allowed to access model", "key_model_access_denied", "401", "model"), "Not allowed"),
        (400, error("litellm.UnsupportedParamsError: anthropic does not support parameters: ['seed']"), "'seed'"),
        (400, error("Budget has been exceeded! Current cost: 0.2, Max budget: 0.1", "budget_exceeded"), "Budget has been"),
        (429, error("Budget has been exceeded! Current cost: 0.2", "budget_exceeded", "429"), "Budget has been"),
        (429, error("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), "your current quota"),
    ],
)
def test_what_the_proxy_refuses_stops_the_run_with_its_words(proxy, status, text, words):
    proxy.answers = [(status, text, {})]
    with pytest.raises(ConfigError, match=words) as caught:
        ask()
    assert "sk-virtual" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (429, error(wrapped("RateLimitError", "OpenAIException", "Limit 3, Used 3"), "throttling_error", "429")),
        (429, error("No deployments available for selected model, Try again in 60 seconds", "None", "429")),
        (500, error(wrapped("InternalServerError", "AnthropicException", "Overloaded"), None, "500")),
        (503, error(wrapped("ServiceUnavailableError", "VertexAIException", "try later"), None, "503")),
        (408, error(wrapped("Timeout", "AnthropicException", "timed out"), None, "408")),
    ],
)
def test_what_passes_at_the_provider_is_tried_again_and_no_fault_of_the_agent(proxy, status, text):
    proxy.answers = [(status, text, {"retry-after-ms": "1"}), answer(content="yes")]
    assert ask(f"openai:{CLAUDE},tries=2").message.content == "yes"
    proxy.answers = [(status, text, {"retry-after-ms": "1"})] * 2
    with pytest.raises(InfrastructureError, match=str(status)):
        ask(f"openai:{CLAUDE},tries=2")

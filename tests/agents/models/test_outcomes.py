"""Replies that were filtered, cut off, refused or garbled are outcomes of the episode; what a provider adds goes back to it."""

import json
import pickle
from typing import Any

import pytest

from costgym.agents.models.base import ASSISTANT, FINISH, TOOL, USER, Function, FunctionCall, Message
from costgym.agents.models.cached import Cached
from costgym.agents.models.named import read_model_name
from costgym.agents.models.openai import OpenAIModel, chat_messages
from costgym.agents.models.replies import read_reply
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import make_run_config, run
from costgym.simulators.errors import ConfigError
from costgym.simulators.scenario import parse_scenario
from tests.helpers.model_server import wire_reply
from tests.helpers.playing import SMALL

MAP = Function("map", "", {})


def answer(finish: str = "stop", **message: Any) -> dict[str, Any]:
    whole = {"role": "assistant", "content": None, **message}
    return {
        "choices": [{"message": whole, "finish_reason": finish}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10},
    }


def call(name: str, arguments: str = "{}", **more: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


@pytest.mark.parametrize(
    ("document", "outcome"),
    [
        (answer(content="The answer."), ""),
        (answer(tool_calls=[call("map", '{"city": "Lille"}')]), ""),
        (answer("content_filter", content="The ans"), "filtered"),
        (answer("SAFETY", tool_calls=[call("map")]), "filtered"),
        (answer("length", content="The ans"), "truncated"),
        (answer("length", tool_calls=[call("map", '{"ci')]), "truncated"),
        (answer(refusal="I cannot help with that."), "refused"),
        (answer("refusal", content="I cannot"), "refused"),
        (answer(tool_calls=[call("map", '{"ci')]), "malformed"),
        (answer(content="x", tool_calls=["map"]), "malformed"),
        (answer(), "malformed"),
        ({"choices": []}, "malformed"),
        ({"choices": [{"message": 3}]}, "malformed"),
    ],
)
def test_the_outcome_of_a_reply_is_read(document: Any, outcome: str) -> None:
    reply = read_reply(document, [Message(USER, "q")], ())
    assert reply.outcome == outcome
    if outcome in ("filtered", "refused"):
        assert not reply.message.content and not reply.message.calls


def test_what_a_provider_adds_goes_back_to_it_unchanged(tmp_path: Any) -> None:
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."}]
    signature = {"google": {"thought_signature": "c2ln"}}
    document = answer(
        content=parts, reasoning_content="first", tool_calls=[call("map", extra_content=signature, index=0)], unset=None
    )
    reply = read_reply(document, [Message(USER, "q")], ())
    assert reply.message.content == "I look." and reply.form == "native"

    class Once:
        name = "it"

        def reset(self, seed: int) -> None: ...

        def complete(self, *_: Any) -> Any:
            return reply

    for _ in range(2):  # asked, and then from the cache
        cached = Cached(Once(), tmp_path / "replies.sqlite")
        cached.reset(0)
        again = cached.complete([Message(USER, "q")], ())
        wire = chat_messages([Message(USER, "q"), again.message, Message(TOOL, "7", name="map", call_id="c1")])
        assert wire[1]["content"] == parts and wire[1]["reasoning_content"] == "first" and "unset" not in wire[1]
        assert wire[1]["tool_calls"][0]["extra_content"] == signature and "index" not in wire[1]["tool_calls"][0]
        assert (again.outcome, again.form) == ("", "native")
    assert pickle.loads(pickle.dumps(reply.message.calls[0])).extra == {"extra_content": signature}
    plain = chat_messages([Message(ASSISTANT, "", (FunctionCall("map", "{}", "c1"),))])
    assert plain[0].keys() == {"role", "content", "tool_calls"}


BARE = 'I look it up:\n{"name": "map", "arguments": {"city": "Lille"}}\nThen we see.'
TAGGED = '<tool_call>{"name": "map", "arguments": {"city": "Lille"}}</tool_call>'


@pytest.mark.parametrize(
    ("form", "content", "calls", "counted"),
    [
        ("native", BARE, 0, ""), ("native", TAGGED, 0, ""), ("auto", BARE, 1, "json"), ("auto", TAGGED, 1, "text"),
        ("json", BARE, 1, "json"), ("json", TAGGED, 1, "text"), ("json", '{"name": "map", "parameters": {}}', 1, "json"),
        ("json", '{"name": "Lille", "people": 236710}', 0, ""), ("json", "It is {here}.", 0, ""),
        ("json", '{"name": "a", "arguments": {}}\n{"name": "b", "arguments": {}}', 2, "json"),
        ("text", BARE, 0, ""), ("text", TAGGED, 1, "text"),
    ],
)  # fmt: skip
def test_calls_are_read_in_the_form_that_the_name_says(form: str, content: str, calls: int, counted: str) -> None:
    reply = read_reply(answer(content=content), [Message(USER, "q")], [MAP, FINISH], form)
    assert (len(reply.message.calls), reply.form, reply.outcome) == (calls, counted, "")
    if calls == 1 and "city" in content:
        assert reply.message.calls[0].read() == {"city": "Lille"}
    native = read_reply(answer(tool_calls=[call("map")], content=BARE), [Message(USER, "q")], (), form)
    assert native.form == "native" and native.message.content == BARE


def test_a_model_name_says_the_form_of_calls() -> None:
    read = read_model_name("openai:tiny,calls=json")
    assert read is not None and read.settings == {"calls": "json"}
    with pytest.raises(ConfigError, match="calls: expected auto, native, json or text, got 'xml'"):
        read_model_name("openai:tiny,calls=xml")


def small_board(episodes: int, agent: str = "react", model: str = "openai:tiny", **more: Any) -> Any:
    scenario = parse_scenario({"name": "small", **SMALL, "tokens": {"input": 100.0, "output": 400.0}})
    return make_run_config(scenario=scenario, agents=[agent], budgets="price=20", episodes=episodes, model=model, **more)


def filter_400() -> Any:
    body = {"error": {"message": "The response was filtered due to the content management policy.", "code": "content_filter"}}
    return (400, json.dumps(body), {"Content-Type": "application/json"})


def test_outcomes_are_counted_on_a_board_and_never_end_it_or_answer(server: Any, tmp_path: Any) -> None:
    finish = wire_reply("", ("finish", {"answer": "?"}))
    server.answers = [
        filter_400(),  # episode 0
        answer("content_filter", content="half an ans"),  # episode 1
        answer("length", content="half an ans"), finish,  # episode 2
        answer("length", tool_calls=[call("finish", '{"answer": "half"}')]), finish,  # episode 3
        answer(refusal="No."),  # episode 4
        answer(content="x", tool_calls=[3]), answer(), finish,  # episode 5: twice, one episode
        finish,  # episode 6
    ]  # fmt: skip
    ran = run(small_board(7), tmp_path / "board", concurrency=1)
    (row,) = ran.document["rows"]
    names = ("filtered", "truncated", "refused", "malformed", "calls_by_form", "void_episodes")
    assert {name: row[name] for name in names} == {
        "filtered": 2, "truncated": 2, "refused": 1, "malformed": 1, "calls_by_form": {"native": 5}, "void_episodes": 0,
    }  # fmt: skip
    assert not server.answers and row["episodes"] == 7 and row["pass_rate"] == 0
    actions = [
        json.loads(line)["actions"] for line in next((tmp_path / "board").rglob("react*.jsonl")).read_text().splitlines()[1:]
    ]
    assert not any("half" in action for episode in actions for action in episode)
    assert "Filtered" in ran.page.read_text() and "Truncated" in ran.page.read_text()
    contents = [message["content"] for request in server.requests for message in request["messages"]]
    assert sum("cut off" in str(text) for text in contents) == 2
    assert verify(tmp_path / "board").verified


@pytest.mark.parametrize("agent", ["dfsdt", "tot-dfs", "cot@5", "plan-act", "toolplanner"])
def test_every_strategy_ends_where_all_replies_are_filtered(server: Any, monkeypatch: Any, agent: str, tmp_path: Any) -> None:
    monkeypatch.setattr(OpenAIModel, "complete", lambda *_: read_reply(answer("content_filter", content="x"), [], ()))
    (row,) = run(small_board(2, agent), tmp_path / "board").document["rows"]
    assert (row["filtered"], row["pass_rate"]) == (2, 0.0)


def first_call(request: dict[str, Any], **more: Any) -> dict[str, Any]:
    function = request["tools"][0]["function"]
    wanted = dict.fromkeys(function["parameters"].get("required", ()), "x")
    return call(function["name"], json.dumps(wanted), **more)


def reasons(request: dict[str, Any], turn: list[dict[str, Any]]) -> Any:
    """Thinks aloud in a field of its own, and wants it back beside the call."""
    if not turn:
        return answer("tool_calls", reasoning_content="hm", tool_calls=[first_call(request)])
    return None if turn[-1].get("reasoning_content") == "hm" else "reasoning_content must be passed back"


def signs_calls(request: dict[str, Any], turn: list[dict[str, Any]]) -> Any:
    """Signs its calls, and refuses one that comes back unsigned."""
    if not turn:
        return answer("tool_calls", tool_calls=[first_call(request, extra_content={"google": {"thought_signature": "c2ln"}})])
    return None if turn[-1]["tool_calls"][0].get("extra_content") else "function call is missing a thought_signature"


def takes_no_seed(request: dict[str, Any], turn: list[dict[str, Any]]) -> Any:
    return "unknown field seed" if "seed" in request else None if turn else answer(tool_calls=[first_call(request)])


def counts_completion_tokens(request: dict[str, Any], turn: list[dict[str, Any]]) -> Any:
    if "max_tokens" in request or "temperature" in request or request["max_completion_tokens"] != 64:
        return "unsupported parameter: use max_completion_tokens"
    return None if turn else answer(tool_calls=[first_call(request)])


def filters(request: dict[str, Any], turn: list[dict[str, Any]]) -> Any:
    return filter_400() if turn else answer(tool_calls=[first_call(request)])


@pytest.mark.parametrize(
    ("provider", "settings"),
    [
        (reasons, ""), (signs_calls, ""), (takes_no_seed, ",send_seed=false"),
        (counts_completion_tokens, ",max_completion_tokens=64,temperature=null"), (filters, ""),
    ],
)  # fmt: skip
def test_an_episode_with_each_kind_of_provider_is_played_to_its_end(
    server: Any, tmp_path: Any, provider: Any, settings: str
) -> None:
    def results_shown(request: dict[str, Any]) -> Any:
        reply = provider(request, [message for message in request["messages"] if message["role"] == "assistant"])
        if isinstance(reply, str):
            return 400, json.dumps({"error": {"message": reply}}), {"Content-Type": "application/json"}
        return wire_reply("", ("finish", {"answer": "?"})) if reply is None else reply

    server.answers = results_shown
    (row,) = run(small_board(3, model=f"openai:tiny{settings}"), tmp_path / "board", concurrency=2).document["rows"]
    assert (row["episodes"], row["void_episodes"], row.get("filtered", 0)) == (3, 0, 3 if provider is filters else 0)
    assert len(server.requests) == 6 and row["calls_by_form"]["native"] >= 3

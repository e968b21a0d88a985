"""The client of chat-completion servers, against a server on loopback that does what it is told."""

import json
import pickle
import time
import traceback

import pytest

import costgym
from costgym.agents.llm.session import LlmAgent
from costgym.agents.llm.strategies import ReAct
from costgym.agents.models.base import ASSISTANT, TOOL, USER, FunctionCall, Message
from costgym.agents.models.cached import Cached
from costgym.agents.models.named import full_name, read_model_name
from costgym.agents.models.openai import KEY_VARIABLE, URL_VARIABLE, OpenAIModel, chat_messages
from costgym.agents.models.prices import load_prices
from costgym.agents.models.replies import read_reply
from costgym.agents.registry import make_agent, make_model
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import run
from costgym.experiments.play.episodes import INFRASTRUCTURE_TRIES
from costgym.experiments.play.execution.engine import Local
from costgym.simulators.errors import ConfigError, DataError, InfrastructureError, UnknownName
from costgym.simulators.scenario import parse_scenario
from tests.helpers.model_server import wire_reply
from tests.helpers.playing import SMALL, chat, play
from tests.helpers.scripted import Scripted
from tests.helpers.worlds import small_world, tool


def client(server, **settings):
    model = OpenAIModel("tiny", url=server.url, **settings)
    model.reset(7)
    return model


def ask(model):
    return model.complete([Message(USER, "q")], ())


def refusal(message, **more):
    return json.dumps({"error": {"message": message, **more}})


def test_an_episode_runs_and_the_ledger_holds_the_servers_usage(server):
    server.answers = [
        wire_reply("looking", ("map", {"city": "c0"})),
        wire_reply(None, ("finish", {"answer": "fact-0"}), prompt=150),
    ]
    env = chat(small_world(tool("map")))
    model = client(server)
    _, _, info = play(env, LlmAgent(model, ReAct()))
    assert info["is_success"]
    assert [charge.tokens for charge in env.episode.ledger if charge.what == "think"] == [110, 160]
    second = server.requests[1]
    assert [m["role"] for m in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert second["messages"][2]["tool_calls"][0]["id"] == second["messages"][3]["tool_call_id"] == "c0"
    assert [t["function"]["name"] for t in second["tools"]] == ["map", "finish"]
    assert second["temperature"] == 0.0 and second["model"] == "tiny"


def test_a_busy_server_is_asked_again_when_it_says(server):
    server.answers = [(429, "slow down", {"Retry-After": "0.3"}), (503, "", {"retry-after-ms": "20"}), wire_reply("done")]
    began = time.monotonic()
    assert ask(client(server)).message.content == "done"
    assert 0.32 <= time.monotonic() - began < 2.0
    assert len(server.requests) == 3


def test_a_server_that_asks_for_a_long_wait_is_not_asked_again(server):
    server.answers = [(429, refusal("quota used up"), {"Retry-After": "86400"})]
    with pytest.raises(InfrastructureError, match=r"429.*quota used up"):
        ask(client(server))
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 500])
def test_a_server_that_stays_busy_or_broken_is_an_infrastructure_error(server, status):
    server.answers = [(status, "boom", {"retry-after-ms": "5"})] * 3
    with pytest.raises(InfrastructureError, match="boom"):
        ask(client(server, tries=3))
    assert len(server.requests) == 3


def test_a_server_that_says_nothing_in_time_is_an_infrastructure_error(server):
    server.answers = [0.6, 0.6]
    with pytest.raises(InfrastructureError, match=r"Timeout.*2 tries"):
        ask(client(server, tries=2, timeout_s=0.2))
    assert len(server.requests) == 2


def test_a_body_that_is_cut_is_asked_for_again(server):
    whole = json.dumps(wire_reply("done"))
    server.answers = [(200, whole[:40], {"Content-Length": str(len(whole))}), wire_reply("done")]
    assert ask(client(server)).message.content == "done"


@pytest.mark.parametrize("text", ['{"choices": [{"mess', "<html>busy</html>", "[]", '{"choices": 3}'])
def test_an_answer_that_is_no_completion_is_an_infrastructure_error(server, text):
    server.answers = [(200, text, {"Content-Type": "application/json"})]
    with pytest.raises(InfrastructureError, match="not a chat completion"):
        ask(client(server))


def test_no_server_at_all_is_an_infrastructure_error(monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    model = OpenAIModel("tiny", url="http://127.0.0.1:9/v1", tries=2, timeout_s=0.5)
    with pytest.raises(InfrastructureError, match="2 tries"):
        ask(model)


def test_a_refused_key_stops_the_run_and_is_not_shown(server, monkeypatch, caplog):
    caplog.set_level("DEBUG")
    monkeypatch.setenv(KEY_VARIABLE, "sk-secret")
    server.answers = [(401, "bad key sk-secret", {})]
    with pytest.raises(ConfigError) as error:
        ask(client(server))
    traceback_text = "".join(traceback.format_exception(error.value))
    assert "sk-secret" not in traceback_text and "401" in traceback_text and "bad key ***" in traceback_text
    assert server.headers[0]["authorization"] == "Bearer sk-secret"
    assert caplog.records and "sk-secret" not in caplog.text


def test_without_a_key_no_authorization_header_is_sent(server):
    server.answers = [wire_reply("done")]
    ask(client(server))
    assert "authorization" not in server.headers[0]


def test_a_redirect_is_not_followed(server, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "sk-secret")
    server.answers = [(302, "", {"Location": server.url + "/elsewhere"})]
    with pytest.raises(ConfigError, match="302"):
        ask(client(server))
    assert len(server.requests) == 1


OPENAI_SAYS = refusal("This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
                      code="context_length_exceeded")  # fmt: skip


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, OPENAI_SAYS),
        (400, refusal("no", code="context_length_exceeded")),
        (
            400,
            refusal("the request exceeds the available context size (4096 tokens)", type="exceed_context_size_error", code=400),
        ),
        (400, json.dumps({"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400})),
        (413, refusal("prompt is too long: 210000 tokens > 200000 maximum", type="request_too_large")),
        (422, json.dumps({"error": "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"})),
    ],
)
def test_a_context_that_is_too_long_brings_an_empty_reply(server, status, text):
    server.answers = [(status, text, {"Content-Type": "application/json"})]
    reply = ask(client(server))
    assert reply.message.content == "" and reply.usage[:3] == (0, 0, 0)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [
        (400, refusal("Unsupported parameter: 'max_tokens'", code="unsupported_parameter"), "Unsupported parameter"),
        (400, refusal("'max_tokens' is too large: 9000. This model's maximum context length is 4096 tokens."), "too large"),
        (403, refusal("this project may not use the model"), "may not use"),
        (404, refusal("The model `tiny` does not exist", code="model_not_found"), "does not exist"),
        (413, "<h1>413 Request Entity Too Large</h1><hr>nginx", "nginx"),
        (422, json.dumps({"detail": [{"loc": ["body", "seed"], "msg": "extra fields not permitted"}]}), "not permitted"),
    ],
)  # fmt: skip
def test_any_other_refusal_stops_with_the_servers_words(server, status, text, words):
    server.answers = [(status, text, {"Content-Type": "application/json"})]
    with pytest.raises(ConfigError, match=f"HTTP {status}.*{words}"):
        ask(client(server))
    assert len(server.requests) == 1


def test_a_model_may_take_its_length_under_another_name(server):
    server.answers = [wire_reply("done")] * 2
    ask(client(server, max_tokens=7))
    ask(client(server, max_completion_tokens=9))
    lengths = [{name: r[name] for name in r if "tokens" in name} for r in server.requests]
    assert lengths == [{"max_tokens": 7}, {"max_completion_tokens": 9}]


def test_a_model_file_says_what_a_request_holds(server, monkeypatch, tmp_path):
    monkeypatch.setenv(URL_VARIABLE, server.url)
    file = tmp_path / "models.yaml"
    file.write_text("""models:
  thinker:
    model: openai:o9
    temperature: null
    max_completion_tokens: 4096
    reasoning_effort: low
    timeout_s: 600
    send_seed: false
    extra_body: {top_k: 20, provider: {order: [a, b]}}
    headers: {X-Team: "research, two"}
""")
    server.answers = [wire_reply("done")]
    ask(pickle.loads(pickle.dumps(make_model(f"{file}:thinker"))))
    (request,) = server.requests
    assert request.pop("messages") and request == {
        "model": "o9", "max_completion_tokens": 4096, "reasoning_effort": "low", "top_k": 20, "provider": {"order": ["a", "b"]},
    }  # fmt: skip
    assert server.headers[0]["x-team"] == "research, two"
    name = full_name(f"{file}:thinker")
    assert name.startswith("openai:o9,temperature=none,max_completion_tokens=4096,reasoning_effort=low,")
    assert read_model_name(name) == read_model_name(f"{file}:thinker") and full_name(name) == name


@pytest.mark.parametrize(
    ("entry", "error", "words"),
    [
        ("{model: gpt}", DataError, "models.a: expected `model: openai:NAME`"),
        ("{model: 'openai:m', temprature: 1}", UnknownName, "temperature"),
        ("{model: 'openai:m', headers: x}", ConfigError, "headers: expected a JSON object"),
        ("{model: 'openai:m', send_seed: 1}", ConfigError, "send_seed: expected true or false"),
        ("{model: 'openai:m', headers: {Authorization: Bearer x}}", ConfigError, "set the environment variable"),
        ("{model: 'openai:m', extra_body: {messages: []}}", ConfigError, "'messages' is set by the agent"),
    ],
)
def test_a_wrong_model_file_is_named(monkeypatch, tmp_path, entry, error, words):
    monkeypatch.setenv(URL_VARIABLE, "http://127.0.0.1:9/v1")
    file = tmp_path / "models.yaml"
    file.write_text(f"models: {{a: {entry}}}")
    with pytest.raises(error, match=words):
        make_model(f"{file}:a")
    with pytest.raises(UnknownName, match="unknown model in"):
        make_model(f"{file}:b")
    with pytest.raises(DataError, match="cannot be read"):
        make_model(f"{tmp_path}/none.yaml:a")


@pytest.mark.parametrize("url", ["ftp://host/v1", "host/v1", "https://", "https://user:key@host/v1"])
def test_an_invalid_url_is_refused(url):
    with pytest.raises(ConfigError):
        OpenAIModel("tiny", url=url)


def test_keys_are_needed_abroad_and_never_travel_in_the_clear(monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    with pytest.raises(ConfigError, match=KEY_VARIABLE):
        OpenAIModel("tiny", url="https://models.example/v1")
    monkeypatch.setenv(KEY_VARIABLE, "sk-secret")
    with pytest.raises(ConfigError, match="https"):
        OpenAIModel("tiny", url="http://models.example/v1")


@pytest.mark.parametrize(
    "document",
    [
        {"choices": []}, {"choices": [None]}, {"choices": [{}]}, {"choices": [{"message": 3}]},
        {"choices": [{"message": {"tool_calls": True}}]},
        {"choices": [{"message": {"content": 3, "tool_calls": [None, 3, {}, {"function": 3}, {"function": {"name": None}}]}}]},
        {"choices": [{"message": {"content": [{"text": "a"}, 3, {"type": "image"}], "function_call": {"name": "f"}}}]},
        {"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": "7", "completion_tokens": -1}},
        {"choices": [{"message": {"content": "x"}}], "usage": 3},
    ],
)  # fmt: skip
def test_any_answer_is_read_without_an_error(document):
    reply = read_reply(document, [Message(USER, "q")], ())
    assert isinstance(reply.message.content, str) and reply.usage.input_tokens > 0


def test_every_call_on_the_wire_has_an_id_and_one_result():
    calls = (FunctionCall("f", {"a": 1}), FunctionCall("g h", "{", "mine"))
    conversation = [
        Message(ASSISTANT, "", calls), Message(TOOL, "2", name="g", call_id="mine"), Message(USER, "go on"),
        Message(ASSISTANT, "", calls[:1]), Message(TOOL, "1", name="f"), Message(TOOL, "stray", name="x"),
    ]  # fmt: skip
    wire = chat_messages(conversation)
    assert [(m["role"], m.get("tool_call_id")) for m in wire] == [
        ("assistant", None), ("tool", "mine"), ("tool", "call_0_0"), ("user", None),
        ("assistant", None), ("tool", "call_3_0"), ("user", None),
    ]  # fmt: skip
    assert [c["function"]["name"] for c in wire[0]["tool_calls"]] == ["f", "g_h"]
    json.dumps(wire)


def test_replies_are_kept_on_disk_and_charged_all_the_same(tmp_path):
    env = chat(small_world(tool("map")))

    def run(lines):
        model = Scripted(lines)
        play(env, LlmAgent(Cached(model, tmp_path / "replies.sqlite"), ReAct()))
        return len(model.heard), env.episode.ledger.tokens, env.episode.grade.strict

    first = run([("map", {"city": "c0"}), ("finish", {"answer": "fact-0"})])
    again = run(["never asked"])
    assert first[0] == 2 and again[0] == 0 and first[1:] == again[1:]


def test_a_file_that_is_no_cache_is_refused(tmp_path):
    (tmp_path / "x").write_text("not a database, by any means" * 10)
    with pytest.raises(DataError):
        Cached(Scripted([]), tmp_path / "x")


def test_prices_are_checked_before_anything_runs(tmp_path):
    table = load_prices()
    assert table.in_currency("gpt-4o-2024-05-13", "USD").output == 15.0
    with pytest.raises(UnknownName, match="gpt-4o"):
        table.in_currency("gpt-4", "USD")
    for text in ("models: {}", "date: 2024-01-01\nmodels: {a: {input: -1, output: 2}}", "date: x\nmodels: {}", "[", "- 1"):
        (tmp_path / "prices.yaml").write_text(text)
        with pytest.raises(DataError):
            load_prices(tmp_path / "prices.yaml")


def test_an_agent_is_made_for_a_server_by_name(server, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    agent = make_agent("react", model="openai:tiny")
    assert (agent.name, agent.model) == ("react", "tiny")


def test_a_leaderboard_holds_the_servers_usage_and_no_key(server, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv(KEY_VARIABLE, "sk-secret")
    usages = [(1000 + i, 7 * i + 7) for i in range(6)]
    lines = [("look", ("no_such_tool", {})), ("", ("finish", {"answer": "?"}))] * 3
    server.answers = [
        wire_reply(text, call, prompt=p, completion=c) for (text, call), (p, c) in zip(lines, usages, strict=True)
    ]
    row = run(small_board(), tmp_path / "run", concurrency=1).document["rows"][0]
    assert row["model"] == "tiny" and row["void_episodes"] == 0
    assert row["average_tokens"] * 3 == sum(p + c for p, c in usages)
    assert row["average_cost"] * 3 == pytest.approx(sum(100 * p + 400 * c for p, c in usages) / 1e6, rel=1e-12)
    assert verify(tmp_path / "run").verified
    assert not any(b"sk-secret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert {headers["authorization"] for headers in server.headers} == {"Bearer sk-secret"}


def small_board(**more):
    scenario = parse_scenario({"name": "small", **SMALL, "tokens": {"input": 100.0, "output": 400.0}})
    return make_run_config(scenario=scenario, agents=["react"], budgets="price=20", episodes=3, model="openai:tiny", **more)


def test_a_refused_request_ends_a_leaderboard_and_scores_nothing(server, monkeypatch, tmp_path):
    monkeypatch.setenv(URL_VARIABLE, server.url)
    server.answers = [(404, refusal("The model `tiny` does not exist", code="model_not_found"), {})] * 9
    with pytest.raises(ConfigError, match="does not exist"):
        run(small_board(), tmp_path / "run", concurrency=1)
    assert not (tmp_path / "run" / "leaderboard.json").exists()
    played = tmp_path / "run" / "episodes.jsonl"
    assert not played.exists() or played.read_text() == ""


def test_a_server_that_breaks_down_voids_the_episode(server, monkeypatch, tmp_path):
    monkeypatch.setenv(URL_VARIABLE, server.url)
    last = wire_reply("", ("finish", {"answer": "?"}))
    server.answers = [last, *[(200, "<html>", {"Content-Type": "text/html"})] * INFRASTRUCTURE_TRIES, last]
    row = run(small_board(), tmp_path / "run", concurrency=1).document["rows"][0]
    assert (row["episodes"], row["void_episodes"]) == (3, 1)
    assert row["void_reasons"] == {"model server: the answer is not a chat completion: '<html>'": 1}
    assert "Void: model server: the answer is not a chat" in (tmp_path / "run" / "index.html").read_text()
    assert server.url not in (tmp_path / "run" / "leaderboard.json").read_text()


def test_a_model_goes_to_another_process_without_its_key(monkeypatch, tmp_path):
    monkeypatch.setenv(KEY_VARIABLE, "sk-secret")
    model = Cached(
        OpenAIModel("tiny", url="https://models.example/v1", temperature=0.5), tmp_path / "kept" / "replies.sqlite", "it"
    )
    sent = pickle.dumps(make_agent("react", model=model))
    assert b"sk-secret" not in sent
    copied = pickle.loads(sent)._model
    assert (copied.model.name, copied.model.url, copied.model.settings.temperature) == (
        "tiny",
        "https://models.example/v1",
        0.5,
    )
    assert (copied.path, copied._identity) == (model.path, "it")
    assert copied.model._client.api_key == "sk-secret"
    monkeypatch.delenv(KEY_VARIABLE)
    with pytest.raises(ConfigError, match=f"set the environment variable {KEY_VARIABLE} to the key of models.example"):
        pickle.loads(sent)


@pytest.mark.slow
def test_a_real_models_agent_plays_in_several_processes(server, monkeypatch):
    monkeypatch.setenv(URL_VARIABLE, server.url)
    monkeypatch.setenv(KEY_VARIABLE, "sk-secret")
    server.answers = [wire_reply("I do not know.")] * 1000
    env = costgym.make("costgym/MarketplaceChat-v0", scenario="marketplace", budget={"price": 20}, disable_env_checker=True)
    there = costgym.rollout(env, make_agent("react", model="openai:tiny"), 30, engine=Local(2))
    count = len(server.requests)
    assert {headers["authorization"] for headers in server.headers} == {"Bearer sk-secret"}
    assert there == costgym.rollout(env, make_agent("react", model="openai:tiny"), 30)
    assert len(server.requests) == 2 * count and not any(result.void for result in there)

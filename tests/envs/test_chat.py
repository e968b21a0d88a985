"""The text view: what actions do, and that no text whatever raises."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import costgym
from costgym.envs import chat as chat_env
from costgym.envs.actions import MAX_CALLS, count_tokens, encode_action, read_action
from costgym.envs.actions import text as actions
from costgym.simulators.marketplace import answers
from costgym.simulators.status import Status
from costgym.simulators.world import Usage
from tests.helpers.playing import chat
from tests.helpers.worlds import FactAnswers, small_world, tool

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def env() -> Any:
    return costgym.make(
        "costgym/MarketplaceChat-v0", scenario="marketplace-reliable", enforcement="record", disable_env_checker=True
    ).unwrapped


def gold_calls(env: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(need.tools[0], dict(need.arguments or {})) for need in env.task.needs]


def test_the_right_calls_and_an_answer_with_the_facts_succeed(env: Any) -> None:
    env.reset(seed=1)
    offered = {tool.name for tool in env.candidates}
    total = 0.0
    for need in env.task.needs:
        # even a reliable tool times out when it is slow: take the fastest
        tool = min(offered.intersection(need.tools), key=lambda name: env.world.catalog.get(name).profile.latency_s)
        observation, reward, terminated, _, info = env.step(encode_action(tool, need.arguments))
        assert need.fact in observation
        assert info["status"] == Status.OK and not terminated
        total += reward
    answer = "; ".join(need.fact for need in env.task.needs)
    _, reward, terminated, truncated, info = env.step(encode_action("finish", {"answer": answer}))
    assert terminated and not truncated and info["is_success"]
    assert total + reward == pytest.approx(0.5 - 0.5 * info["cost_sum"] / 100.0)


def test_an_agent_that_reports_no_tokens_pays_for_what_it_was_shown_and_wrote(env: Any) -> None:
    query, _ = env.reset(seed=2)
    tool, arguments = gold_calls(env)[0]
    nothing = Usage(0, 0)
    shown, _, _, _, first = env.step(encode_action(tool, arguments, nothing))
    written = len(tool + json.dumps(arguments)) // 8
    assert first["cost_tokens"] == len(query) // 8 + written
    _, _, _, _, second = env.step(encode_action("finish", {"answer": "a fact" * 10}, nothing))
    assert second["cost_tokens"] == len(shown) // 8 + len("a fact" * 10) // 8


def test_tokens_reported_above_the_floor_pay_for_later_calls(env: Any) -> None:
    env.reset(seed=2)
    env.step(encode_action("think", usage=Usage(1000, 500)))  # a plan, written once and then followed
    tool, arguments = gold_calls(env)[0]
    _, _, _, _, info = env.step(encode_action(tool, arguments, Usage(0, 0)))
    assert info["cost_tokens"] == 0


def test_usage_is_charged_as_said_and_counted_where_it_is_not(env: Any) -> None:
    env.reset(seed=2)
    _, _, _, _, info = env.step(encode_action("think", usage=Usage(100, 20, 40)))
    assert info["cost_tokens"] == 120
    assert info["at_s"] == 0.5 + 20 / 60.0
    action = '{"name": "think"}'
    _, _, _, _, info = env.step(action)
    documents = count_tokens(json.dumps(env.documentation()))
    assert info["cost_tokens"] == documents + count_tokens(env.query) + count_tokens(action)


def test_short_documents_keep_the_first_sentence_the_price_and_what_a_call_needs() -> None:
    full, short = (costgym.make("costgym/MarketplaceChat-v0", documents=form).unwrapped for form in ("full", "short"))
    for env in (full, short):
        env.reset(seed=2, options={"task": 3})
    for long, brief in zip(full.documentation(), short.documentation(), strict=True):
        long, brief = long["function"], brief["function"]
        required = long["parameters"]["required"]
        assert brief["name"] == long["name"] and brief["parameters"]["required"] == required
        assert list(brief["parameters"]["properties"]) == required
        sentence, _, price = brief["description"].removesuffix(" credits.").rpartition(" ")
        assert long["description"].startswith(sentence) and float(price) == short.quotes()[brief["name"]]
        assert "\n" not in brief["description"]
    assert [card.documentation() for card in short.seat("x").tools] == short.documentation()
    spent = [env.step('{"name": "think"}')[4]["cost_tokens"] for env in (full, short)]
    assert spent[1] < 0.7 * spent[0]  # tokens are counted from the documents that are shown


def test_the_form_of_the_documents_changes_nothing_else() -> None:
    logs = []
    for form in ("full", "short"):
        env = costgym.make("costgym/MarketplaceChat-v0", documents=form).unwrapped
        env.reset(seed=5, options={"task": 7})
        usage = Usage(10, 5)
        for name, arguments in gold_calls(env):
            env.step(encode_action(name, arguments, usage))
        logs.append([(call.tool, call.status, call.finished_s) for call in env.episode.calls])
    assert logs[0] == logs[1] and logs[0]
    with pytest.raises(costgym.UnknownName, match=r"form of the documents.*brief"):
        costgym.make("costgym/MarketplaceChat-v0", documents="brief")


def test_calls_in_one_action_run_side_by_side(env: Any) -> None:
    env.reset(seed=3, options={"task": next(t.number for t in env.world.tasks if len(t.needs) >= 2 and not t.needs[1].after)})
    calls = gold_calls(env)[:2]
    offered = {tool.name for tool in env.candidates}
    needs = env.task.needs[:2]
    names = [next(name for name in need.tools if name in offered) for need in needs]
    action = {"calls": [{"name": name, "arguments": call[1]} for name, call in zip(names, calls, strict=True)]}
    observation, *_ = env.step(json.dumps(action))
    first, second = env.episode.calls
    assert first.submitted_s == second.submitted_s
    assert [result["name"] for result in json.loads(observation)["results"]] == names


def test_info_holds_what_each_call_of_the_step_returned() -> None:
    env = chat(small_world(tool("map"), tool("forecast", need=1), tool("broken", reliability=0.0), copies=1))
    _, info = env.reset(seed=0)
    assert (info["results"], info["news"]) == ([], [])
    observation, *_, info = env.step(encode_action("map", {"city": "c0"}))
    assert (
        info["results"] == [{"tool": "map", "status": "ok", "text": '{"value": "fact-0"}'}]
        and observation == info["results"][0]["text"]
    )
    info["results"][0]["text"] = "changed"
    info["results"].append("more")
    names = ["forecast", "broken", "nowhere"]
    observation, *_, info = env.step(json.dumps({"calls": [{"name": name, "arguments": {"city": "c1"}} for name in names]}))
    statuses = [(result["tool"], result["status"]) for result in info["results"]]
    assert statuses == [("forecast", "ok"), ("broken", "server_error"), ("nowhere", "unknown_tool")]
    assert [result["content"] for result in json.loads(observation)["results"]] == [
        result["text"] for result in info["results"]
    ]
    for action in ("think", "wait", "finish"):
        *_, info = env.step(encode_action(action))
        assert (info["results"], info["statuses"], info["status"]) == ([], "", 0)


def test_each_result_is_cut_by_itself_and_says_so() -> None:
    env = chat(small_world(tool("map"), tool("forecast", need=1), copies=1), max_observation=12)
    env.reset(seed=0)
    cut = '{"value": "f... [cut: 12 of 19 characters]'
    assert env.step(encode_action("map", {"city": "c0"}))[0] == cut
    calls = [{"name": "map", "arguments": {"city": "c0"}}, {"name": "forecast", "arguments": {"city": "c1"}}]
    observation, *_, info = env.step(json.dumps({"calls": calls}))
    assert [result["text"] for result in info["results"]] == [cut, cut]
    assert [result["content"] for result in json.loads(observation)["results"]] == [cut, cut]


class Emoji(FactAnswers):
    """Answers in characters that JSON writes longest."""

    def answer(self, *_: Any) -> str:
        return "\U0001f600" * 60


def test_the_longest_observation_lies_in_the_observation_space() -> None:
    env = chat(replace(small_world(tool("map"), copies=1), answers=Emoji()), max_observation=50)
    env.reset(seed=0)
    observation, *_ = env.step(json.dumps({"calls": [{"name": "map", "arguments": {"city": "c0"}}] * MAX_CALLS}))
    assert len(observation) > 12 * 50 * MAX_CALLS and env.observation_space.contains(observation)


@pytest.mark.parametrize(
    ("action", "status"),
    [
        ("", Status.MALFORMED),
        ("call the weather", Status.MALFORMED),
        ('{"name": ', Status.MALFORMED),
        ("[1, 2]", Status.MALFORMED),
        ('{"name": 7}', Status.MALFORMED),
        ('{"name": "nowhere_to_be_found"}', Status.UNKNOWN_TOOL),
        ("[" * 100_000, Status.MALFORMED),
        ('{"calls": []}', Status.MALFORMED),
        ('{"name": "x", "arguments": "{"}', Status.MALFORMED),
    ],
)
def test_nonsense_is_answered_and_costs_no_price(env: Any, action: str, status: Status) -> None:
    env.reset(seed=4)
    observation, _, terminated, _, info = env.step(action)
    assert info["status"] == status and not terminated
    assert json.loads(observation)["error"] == status.label
    assert info["cost_price"] == 0.0 and env.episode.ledger.attempts == 1


def test_wrong_arguments_are_refused_before_the_call_where_the_schema_tells(env: Any) -> None:
    env.reset(seed=5)
    name = next(tool.name for tool in env.candidates if tool.parameters["required"])
    observation, _, _, _, info = env.step(encode_action(name, {}))
    assert info["status"] == Status.INVALID_ARGUMENTS and info["cost_price"] == 0.0
    assert "required" in json.loads(observation)["message"]


def test_a_policys_own_refusal_is_recorded_and_free(env: Any) -> None:
    env.reset(seed=6)
    name = env.candidates[0].name
    _, _, _, _, info = env.step(encode_action(name, refuse=Status.FORBIDDEN, reason="the plan is used up"))
    assert info["status"] == Status.FORBIDDEN and info["cost_calls"] == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(action=st.text() | (JSON | st.fixed_dictionaries({"name": JSON, "arguments": JSON, "usage": JSON})).map(json.dumps))
def test_any_text_is_answered_by_an_observation(env: Any, action: str) -> None:
    env.reset(seed=8)
    observation, reward, terminated, truncated, info = env.step(action)
    assert env.observation_space.contains(observation)
    assert isinstance(terminated, bool) and isinstance(truncated, bool) and isinstance(reward, float)
    assert info["cost_price"] >= 0.0


@given(value=JSON)
def test_reading_never_raises(value: Any) -> None:
    for text in (value, json.dumps(value), json.dumps({"name": "x", "arguments": value, "calls": value, "usage": value})):
        assert read_action(text).kind in ("call", "finish", "wait", "think")


@given(st.text(alphabet='{}[]",: \n\ufeff1aeN-.', max_size=24), st.booleans())
def test_actions_are_decoded_as_json_decodes_them(text: str, enclosed: bool) -> None:
    def outcome(decode: Any) -> str:
        try:
            return repr(decode(text))
        except (ValueError, RecursionError) as error:
            return f"{type(error).__name__} {error}"

    text = f'{{"a": {text}}}' if enclosed else text
    assert outcome(actions._load) == outcome(json.loads)


def test_a_changed_quote_of_one_step_is_not_in_the_next() -> None:
    env = costgym.make("costgym/MarketplaceChat-v0", budget={})
    base = env.unwrapped
    env.reset(seed=0, options={"task": base.numbers[0]})
    listed = base.quotes()
    base.quotes().clear()
    assert base.quotes() == listed == {slot.name: slot.quote for slot in base.episode.candidates}


def test_kept_offers_and_answers_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_env, "MAX_OFFERS", 3)
    monkeypatch.setattr(answers, "MAX_TEXTS", 3)
    env = costgym.make("costgym/MarketplaceChat-v0", budget={})
    base = env.unwrapped
    base.world.answers._texts.clear()
    for number in base.numbers[:8]:
        env.reset(seed=0, options={"task": number})
        for need in base.task.needs:
            for name in need.tools:
                base.world.answers.answer(base.world.catalog.get(name), need.arguments, base.task)
        assert len(base._offers) <= 3 and len(base.world.answers._texts) <= 3

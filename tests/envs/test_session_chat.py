"""A session in words is the session in numbers: the same calls take the same time, cost the same and end alike."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import costgym
from costgym.agents.models.base import USER, Message
from costgym.agents.models.simulated import SimulatedRates
from costgym.agents.sessions.speaking import SimulatedSessionModel
from costgym.envs.actions import encode_action
from costgym.envs.sessions.chat import NEXT, RECALL, SessionChatEnv
from costgym.envs.sessions.session import MarketplaceSessionEnv
from costgym.experiments.board.conditions import OWN_LIMITS
from costgym.experiments.play.text_episode import ToolEpisode
from costgym.simulators.status import Status
from tests.helpers.command_line import invoke

SMALL: dict[str, Any] = {"queries": 12, "drift": 0.1, "price_drift": 0.2, "repeat": 0.6, "outage_every_s": 60.0}
TEXT = "costgym/MarketplaceSessionChat-v0"


def words(env: MarketplaceSessionEnv, action: int) -> str:
    """An action of the numeric view as a call."""
    names = {env.recall_action: RECALL, env.next_action: NEXT}
    return encode_action(names.get(action, f"tool_{action:02d}"))


@pytest.mark.parametrize(
    "settings",
    [{}, {"budget": {"price": 40.0}, "enforcement": "terminate"}, {"budget": {"seconds": 50.0}, "reward": "value-minus-price"}],
)
def test_words_and_numbers_agree_call_by_call(settings: dict[str, Any]) -> None:
    generator, numbers, ended = np.random.default_rng(1), MarketplaceSessionEnv(**SMALL, **settings), set()
    text = SessionChatEnv(**SMALL, **settings)
    for seed in range(12):
        _, seen = numbers.reset(seed=seed)
        _, told = text.reset(seed=seed)
        over = False
        while not over:
            # mostly what the mask allows, some of what it forbids
            allowed = np.flatnonzero(seen["action_mask"]) if generator.random() < 0.9 else np.arange(numbers.next_action + 1)
            action = int(generator.choice(allowed))
            _, *outcome, seen = numbers.step(action)
            _, *said, told = text.step(words(numbers, action))
            assert outcome == said
            keys = seen.keys() & told.keys() - {"cost_tokens", "budget_remaining_tokens", "status"}
            assert {key: seen[key] for key in keys} == {key: told[key] for key in keys} and len(keys) > 12
            if action < numbers.recall_action:
                assert seen["status"] == told["status"]
                ended.add(told["statuses"])
            over = outcome[1] or outcome[2]
        calls = [
            [(c.slot, c.status, c.submitted_s, c.finished_s, c.price) for c in env.account().calls] for env in (numbers, text)
        ]
        assert calls[0] == calls[1] and numbers.figures() == text.figures()
    assert {"ok", "forbidden"} < ended


def test_what_an_agent_reads_says_what_it_can_do() -> None:
    env = costgym.make(TEXT, split="test", queries=3).unwrapped
    text, _ = env.reset(seed=0, options={"task": "session-100300"})
    assert isinstance(env, SessionChatEnv)
    assert "Answer 3 queries" in text and "Query 1 of 3, worth" in text
    names = [document["function"]["name"] for document in env.documentation()]
    assert names == [f"tool_{slot:02d}" for slot in range(24)] + [RECALL, NEXT]
    kind = env.account().capability
    other = next(slot for slot in range(24) if env.account().session.offers[slot] != kind)
    answer, reward, *_, info = env.step(encode_action(f"tool_{other:02d}"))
    assert info["status"] == int(Status.FORBIDDEN) and reward == 0.0 and "does not serve" in answer
    assert "nothing is remembered" in env.step(encode_action(RECALL))[0]
    answer, *_ = env.step(json.dumps({"calls": [{"name": NEXT}, {"name": NEXT}]}))
    assert answer.count("The query is left.") == 2 and "Query 3 of 3" in answer
    assert env.step("no JSON")[4]["statuses"] == "malformed"
    answer, _, terminated, _, info = env.step("finish")
    assert terminated and info["value_share"] == 0.0


def test_a_session_in_words_is_served_as_tools() -> None:
    pytest.importorskip("mcp")
    from costgym.experiments.serve.tools import describe

    env = costgym.make(TEXT, split="test").unwrapped
    env.reset(seed=1)
    names = [tool.name for tool in describe(env)]  # type: ignore[arg-type]
    assert names[:2] == ["tool_00", "tool_01"] and {RECALL, NEXT, "task", "budget", "finish"} < set(names)


def test_one_episode_of_calls_plays_tasks_and_sessions_for_every_adapter() -> None:
    episode = ToolEpisode.of_row({"task": 100_300, "seed": 7, "session": {"queries": 3}, "budget": "price=30"}, split="test")
    assert [function.name for function in episode.functions][-3:] == [RECALL, NEXT, "finish"]
    assert "Query 2 of 3" in episode.call(NEXT, {}).text
    kind = episode.env.account().capability
    served = next(slot for slot in range(24) if episode.env.account().session.offers[slot] == kind)
    assert "Query " in episode.call(f"tool_{served:02d}", {}).text
    episode.finish("")
    assert episode.over and episode.score()["quality"] == episode.reward


def test_the_cheapest_tools_answer_some_queries() -> None:
    results = costgym.rollout(costgym.make(TEXT, split="test"), "cheapest", episodes=3)
    assert max(result.figures["queries_passed"] for result in results) > 10
    assert not any(result.errors["agent"] for result in results)


def test_react_plays_a_session_from_the_command_line() -> None:
    line = ("run", "--agent", "react", "--env", TEXT, "--episodes", 2, "--budget", "price=30")
    played = invoke(*line)
    assert played.exit_code == 0, played.output
    assert "react" in played.output and "30 credits" in played.output and "Value %" in played.output
    assert invoke(*line).output == played.output
    unlimited = invoke("run", "--agent", "react", "--env", TEXT)
    assert OWN_LIMITS in " ".join(unlimited.output.split())
    refused = invoke("run", "--agent", "react+btp", "--env", TEXT)
    assert refused.exit_code == 2 and "known: cheapest, react" in refused.output


def test_the_simulated_model_attends_to_memory_prices_and_failures() -> None:
    def calls(**rates: float) -> list[str]:
        model = SimulatedSessionModel(SimulatedRates(**{"stubborn": 0.0, "wrong_tool": 0.0, "tire": 0.0, **rates}))
        model.reset(0)
        found = []
        for text in ASKED:
            (call,) = model.complete([Message(USER, text)], []).message.calls
            found.append(str(call.name))
        return found

    tools = "Tools and their prices: a (3), b (1.5), c (2)."
    ASKED = [f"Query 1 of 9, worth 5: a fact of kind 2. {tools}"] * 4
    ASKED += [f"Query 2 of 9, worth 5: a fact of kind 2. The fact is in memory, 3.0 s old. {tools}"]
    ASKED += [f'{{"error": "over_budget"}}\nQuery 3 of 9, worth 5: a fact of kind 2. {tools}', "The session is over."]
    careful = calls(attend_costs=1.0)
    assert careful[0] == "b" and sorted(careful[:3]) == ["a", "b", "c"]
    assert careful[3:] == [NEXT, RECALL, NEXT, NEXT]
    assert calls(stubborn=1.0)[1:4] == calls(stubborn=1.0)[:1] * 3

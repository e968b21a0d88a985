"""A session in words is the session in numbers: the same calls take the same time, cost the same and end alike."""

import json
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import costgym
from costgym.agents import make_agent
from costgym.agents.models.base import USER, Function, FunctionCall, Message
from costgym.agents.models.simulated import SimulatedRates
from costgym.agents.sessions.speaking import SimulatedSessionModel
from costgym.envs.actions import encode_action
from costgym.envs.features.session_features import PAUSE_S
from costgym.envs.sessions.base import CANCEL, NEXT, OTHERS, PAUSE, RECALL, WAIT
from costgym.envs.sessions.chat import SessionChatEnv
from costgym.envs.sessions.session import MarketplaceSessionEnv
from costgym.experiments.board.conditions import OWN_LIMITS
from costgym.experiments.play.episodes import play
from costgym.experiments.play.text_episode import ToolEpisode
from costgym.experiments.play.trajectories.record import record
from costgym.experiments.play.trajectories.replay import replay_episode
from costgym.simulators.status import Status
from tests.helpers.command_line import invoke
from tests.helpers.lockstep import in_words

SMALL: dict[str, Any] = {"queries": 12, "drift": 0.1, "price_drift": 0.2, "repeat": 0.6, "outage_every_s": 60.0}
TEXT = "costgym/MarketplaceSessionChat-v0"


FORMS: list[dict[str, Any]] = [
    {},
    {"budget": {"price": 40.0}, "enforcement": "terminate"},
    {"budget": {"seconds": 50.0}, "reward": "value-minus-price"},
]


@pytest.mark.parametrize(
    "settings",
    [
        *FORMS,
        *({"concurrent": True, **form} for form in FORMS),
        {"concurrent": True, "budget": {"price": 30.0, "seconds": 40.0}, "enforcement": "record"},
        {"concurrent": True, "budget": {"calls": 9}, "cost": "seconds"},
        {"concurrent": True, "budget": {}, "repeat": 0.9, "tools": 8, "capabilities": 2, "max_steps": 60},
    ],
)
def test_words_and_numbers_agree_call_by_call(settings: dict[str, Any]) -> None:
    generator, ended, played = np.random.default_rng(1), set[str](), set[int]()
    numbers, text = MarketplaceSessionEnv(**{**SMALL, **settings}), SessionChatEnv(**{**SMALL, **settings})
    width, tools, side = int(numbers.action_space.n), numbers.rules.tools, numbers.concurrent  # type: ignore[attr-defined]
    for seed in range(6):
        _, seen = numbers.reset(seed=seed)
        _, text_start = text.reset(seed=seed)
        over = False
        while not over:
            # mostly what the mask allows, some of what it forbids; few that leave a query, so that calls run side by side
            weights = seen["action_mask"] * np.where(np.arange(width) == numbers.next_action, 0.3, 1.0)
            weights = weights if generator.random() < 0.9 else np.ones(width)
            action = int(generator.choice(width, p=weights / weights.sum()))
            _, *outcome, seen = numbers.step(action)
            _, *text_step, text_start = text.step(in_words(numbers, action))
            assert outcome == text_step
            keys = seen.keys() & text_start.keys() - {"cost_tokens", "budget_remaining_tokens", "status"}
            assert {key: seen[key] for key in keys} == {key: text_start[key] for key in keys} and len(keys) > 12
            # a call that starts says nothing of a status; the others say how the call ended that they are about
            starts, waited = side and action < tools and not text_start["status"], text_start["results"][0]["tool"]
            if not starts and waited not in (RECALL, NEXT, WAIT, PAUSE):
                assert seen["status"] == text_start["status"]
                ended.add(text_start["statuses"])
            played.add(min(action - tools, 4) if action >= tools else -1)
            over = outcome[1] or outcome[2]
        calls = [
            [(c.slot, c.status, c.submitted_s, c.finished_s, c.price) for c in env.account().calls] for env in (numbers, text)
        ]
        assert calls[0] == calls[1] and numbers.figures() == text.figures()
    assert {"ok", "forbidden"} < ended and played == set(range(-1, 5 if side else 2))
    assert "cancelled" in ended or not side


def test_calls_side_by_side_in_words() -> None:
    text = SessionChatEnv(queries=12, tools=8, capabilities=2, budget={}, split="test", concurrent=True)
    observation, _ = text.reset(seed=3)
    assert "`cancel` cuts a call off" in observation
    assert [document["function"]["name"] for document in text.documentation()[-5:]] == list(OTHERS)
    assert "no call is in flight" in text.step(encode_action(WAIT))[0]
    served = [f"tool_{slot:02d}" for slot in np.flatnonzero(text.account().session.offers == text.account().capability)]
    observation, _, _, _, info = text.step(json.dumps({"calls": [{"name": served[0]}, {"name": served[1]}]}))
    assert observation.startswith(
        f"{served[0]} is in flight.\n{served[1]} is in flight.\nIn flight: {served[0]} (1 call, 0.0 s), "
    )
    assert (info["at_s"], info["cost_price"], info["statuses"]) == (0.05, 0.0, "ok,ok")
    observation, *_, info = text.step(encode_action(CANCEL, {"tool": served[1]}))
    assert f"{served[1]} is cut off; it cost " in observation and info["statuses"] == "cancelled" and served[1] in observation
    assert "no call of this tool is in flight" in text.step(encode_action(CANCEL, {"tool": served[1]}))[0]
    observation, *_, info = text.step(encode_action(CANCEL, {"tool": "tool_99"}))
    assert "tool: expected the name of a tool, got 'tool_99'" in observation and info["statuses"] == "invalid_arguments"
    observation, *_ = text.step(encode_action(NEXT))
    fact = text.account().session.fact
    assert ("1 for another fact" in observation) == (fact[0] != fact[1])
    observation, *_, info = text.step(encode_action(WAIT))
    assert observation.startswith(f"{served[0]} has ended: ") and "In flight" not in observation
    assert "It was for query 1; " in observation and info["results"][0]["tool"] == served[0]
    observation, *_, info = text.step(encode_action(PAUSE))
    assert observation.startswith("No call has ended.\nQuery ") and info["cost_seconds"] == PAUSE_S
    # a refusal takes the gateway's time, in which a call may end: it is told of by the next `wait`
    assert "Calls that have ended without a report: 1." in unreported(text)


def unreported(text: SessionChatEnv) -> str:
    """An observation after a call has ended while another one was refused."""
    for seed in range(400):
        text.reset(seed=seed)
        session = text.account().session
        slot = int(np.flatnonzero(session.offers == text.account().capability)[0])
        text.step(encode_action(f"tool_{slot:02d}"))
        for _ in range(20):
            observation, *_ = text.step(encode_action(RECALL))
            if text.account().unread:
                return observation
    return ""


def test_a_session_of_calls_side_by_side_in_words_is_checked_recorded_and_replayed() -> None:
    env = costgym.make(TEXT, split="test", concurrent=True, **SMALL)
    check_env(SessionChatEnv(concurrent=True, **SMALL))
    trajectory, _ = record(env, make_agent("cheapest", TEXT), 100_301, 5)
    assert replay_episode(env, trajectory)[0] == trajectory
    world: Any = env.unwrapped
    arguments = world.world_spec().arguments(world.world_settings())
    assert arguments["concurrent"] and replay_episode(costgym.make(TEXT, **arguments), trajectory)[0] == trajectory
    assert "concurrent" not in SessionChatEnv(**SMALL).world_settings()


def test_one_call_at_a_time_in_words_is_the_sequential_session() -> None:
    for name in ("cheapest", "react"):
        agent = make_agent(name, TEXT)
        one, other = (SessionChatEnv(**SMALL, split="test", concurrent=form) for form in (False, True))
        for seed in range(3):
            ends = [play(env, agent, None, seed) for env in (one, other)]
            figures = [(episode.value, episode.ledger.price, episode.now_s) for episode in ends]  # type: ignore[attr-defined]
            assert figures[0] == figures[1], name


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
    beside = costgym.make(TEXT, split="test", concurrent=True).unwrapped
    beside.reset(seed=1)
    tools = {tool.name: tool.input_schema["required"] for tool in describe(beside)}  # type: ignore[arg-type]
    assert sorted(tools) == sorted({*names, PAUSE, CANCEL}) and (tools[WAIT], tools[CANCEL]) == ([], ["tool"])


def test_a_server_does_not_tell_how_a_call_in_flight_will_end() -> None:
    pytest.importorskip("mcp")
    from costgym.experiments.serve.limits import Limits
    from costgym.experiments.serve.sessions import Sessions
    from costgym.experiments.serve.tools import call

    sessions = Sessions(lambda: costgym.make(TEXT, split="test", concurrent=True), Limits(), 0, lambda: 0.0)
    session = sessions.open()
    session.reset({"seed": 7})
    world: Any = session.env.unwrapped
    served = f"tool_{int(np.flatnonzero(world.account().session.offers == world.account().capability)[0]):02d}"
    started, ended = call(session, served, {}), call(session, WAIT, {})
    assert "status" not in started.structured_content and not started.is_error
    assert "is in flight" in started.content[0].text and f"{served} has ended" in ended.content[0].text


def test_one_episode_of_calls_plays_tasks_and_sessions_for_every_adapter() -> None:
    episode = ToolEpisode.of_row({"task": 100_300, "seed": 7, "session": {"queries": 3}, "budget": "price=30"}, split="test")
    assert [function.name for function in episode.functions][-3:] == [RECALL, NEXT, "finish"]
    assert "Query 2 of 3" in episode.call(NEXT, {}).text
    kind = episode.env.account().capability
    served = next(slot for slot in range(24) if episode.env.account().session.offers[slot] == kind)
    assert "Query " in episode.call(f"tool_{served:02d}", {}).text
    episode.finish("")
    assert episode.over and episode.score()["quality"] == episode.reward
    beside = ToolEpisode.of_row({"task": 100_300, "session": {"queries": 3, "concurrent": True}}, split="test")
    served = f"tool_{int(np.flatnonzero(beside.env.account().session.offers == beside.env.account().capability)[0]):02d}"
    assert beside.call(served, {}).text.startswith(f"{served} is in flight.")
    cut, idle = beside.turn([FunctionCall(CANCEL, {"tool": served}), FunctionCall(WAIT, {})])
    assert ("is cut off" in cut.text, cut.failed, "no call is in flight" in idle.text, idle.failed) == (True, False, True, True)
    assert beside.call(served, {}).text and "has ended" in beside.call(WAIT, {}).text


def test_the_cheapest_tools_answer_some_queries() -> None:
    results = costgym.rollout(costgym.make(TEXT, split="test"), "cheapest", episodes=3)
    assert max(result.figures["queries_passed"] for result in results) > 10
    assert not any(result.errors["agent"] for result in results)


def test_react_plays_a_session_from_the_command_line() -> None:
    line = ("run", "--agent", "react", "--env", TEXT, "--episodes", 2, "--budget", "price=30")
    played = invoke(*line)
    assert played.exit_code == 0, played.output
    assert "react" in played.output and "30 ¢" in played.output and "Value %" in played.output
    assert invoke(*line).output == played.output
    unlimited = invoke("run", "--agent", "react", "--env", TEXT, "--episodes", 1)
    assert OWN_LIMITS in " ".join(unlimited.output.split())
    composed = invoke("run", "--agent", "react+ecoact", "--env", TEXT, "--episodes", 1)
    assert composed.exit_code == 0 and "react+ecoact" in composed.output
    refused = invoke("run", "--agent", "tot-dfs", "--env", TEXT)
    assert refused.exit_code == 2 and "expected an agent of sessions (cheapest, react" in " ".join(refused.output.split())


def test_the_simulated_model_attends_to_memory_prices_and_failures() -> None:
    def calls(**rates: float) -> list[str]:
        model = SimulatedSessionModel(SimulatedRates(**{"stubborn": 0.0, "wrong_tool": 0.0, "tire": 0.0, **rates}))
        model.reset(0)
        calls = []
        for text in ASKED:
            (call,) = model.complete([Message(USER, text)], tools).message.calls
            calls.append(str(call.name))
        return calls

    tools = [Function(name, "", {}) for name in "abc"]
    offers = "Tools and their prices: a (3), b (1.5), c (2)."
    ASKED = [f"Query 1 of 9, worth 5: a fact of kind 2. {offers}"] * 4
    ASKED += [f"Query 2 of 9, worth 5: a fact of kind 2. The fact is in memory, 3.0 s old. {offers}"]
    ASKED += [f'{{"error": "over_budget"}}\nQuery 3 of 9, worth 5: a fact of kind 2. {offers}', "The session is over."]
    careful = calls(attend_costs=1.0)
    assert careful[0] == "b" and sorted(careful[:3]) == ["a", "b", "c"]
    assert careful[3:] == [NEXT, RECALL, NEXT, NEXT]
    assert calls(stubborn=1.0)[1:4] == calls(stubborn=1.0)[:1] * 3

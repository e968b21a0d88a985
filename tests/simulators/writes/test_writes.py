"""Calls that change the world: effects, ambiguous ends, keys, taking back, late effects, and the grade of the final state."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import costgym
from costgym.simulators.errors import DataError
from costgym.simulators.scenario import load_scenario, parse_scenario
from costgym.simulators.status import Status
from costgym.simulators.world.episode import Episode
from costgym.simulators.world.writes import WriteFigures
from tests.helpers.desks import FLIGHT, desk, scenario, tool

CHECK, UNDO = 1, 2
"""Slots after one tool that writes."""


def test_a_write_that_ends_well_takes_effect_once_and_passes() -> None:
    episode = scenario(tool("book")).build().episode(0)
    assert episode.call(0).status is Status.OK
    assert episode.finish().strict
    assert episode.write_figures() == WriteFigures(True, 0, 0, 0.0)


def test_nothing_done_does_not_pass_whatever_the_answer_says() -> None:
    episode = scenario(tool("book")).build().episode(0)
    assert not episode.finish("Your flight is booked: BK-48213.").strict
    assert episode.write_figures() == WriteFigures(False, 0, 0, 0.0)


@pytest.mark.parametrize(("happens", "count"), [(1.0, 1), (0.0, 0)])
def test_a_time_out_has_happened_or_not_and_the_status_does_not_tell(happens: float, count: int) -> None:
    episode = scenario(tool("book", 0.0, happens=happens)).build().episode(0)
    call = episode.call(0)
    assert (call.status, episode.known) == (Status.TIMEOUT, [False])
    assert episode.content(call) == '{"error": "timeout", "message": "504 the request timed out"}'
    check = episode.call(CHECK)
    assert episode.content(check) == ('{"found": 1, "booking": "BK-48213"}' if count else '{"found": 0}')
    assert (episode.known, episode.finish().strict) == ([bool(count)], bool(count))


def test_half_of_the_time_outs_have_happened_by_their_own_luck() -> None:
    world = scenario(tool("book", 0.0)).build()
    made = []
    for seed in range(400):
        episode = world.episode(0, seed)
        episode.call(0)
        made.append(episode.finish().strict)
    assert 160 < sum(made) < 240


def test_a_blind_repeat_after_a_time_out_is_paid_twice() -> None:
    episode = scenario(tool("flaky", 0.0, happens=1.0), tool("sure")).build().episode(0)
    episode.call(0)
    episode.call(1)
    grade = episode.finish()
    assert (grade.strict, grade.judged, grade.share) == (False, False, 0.0)
    assert episode.write_figures() == WriteFigures(False, 1, 1, 120.0)


def test_a_second_effect_that_is_taken_back_costs_no_money_and_passes() -> None:
    episode = scenario(tool("book")).build().episode(0)
    assert [episode.call(slot).status for slot in (0, 0, UNDO)] == [Status.OK] * 3
    assert episode.finish().strict
    assert episode.write_figures() == WriteFigures(True, 1, 0, 0.0)


def test_taking_back_the_only_effect_leaves_the_task_undone_and_a_second_time_finds_nothing() -> None:
    episode = scenario(tool("book")).build().episode(0)
    assert [episode.call(slot).status for slot in (0, UNDO, UNDO)] == [Status.OK, Status.OK, Status.NO_DATA]
    assert (episode.known, episode.finish().strict, episode.write_figures().uncompensated) == ([False], False, 0)


def test_a_refund_that_times_out_may_have_happened_too() -> None:
    made = desk(tool("book"))
    made["source"]["tools"][UNDO] |= {"happens": 1.0}
    made["source"]["tools"][UNDO]["profile"]["reliability"] = 0.0
    episode = parse_scenario(made).build().episode(0)
    assert [episode.call(slot).status for slot in (0, 0, UNDO)] == [Status.OK, Status.OK, Status.TIMEOUT]
    assert episode.finish().strict


def test_a_repeat_with_the_same_key_has_no_second_effect() -> None:
    world = scenario(tool("book", idempotent=True), tool("other", idempotent=True)).build()
    for keys, count in ((("a", "a"), 1), (("a", "b"), 2), ((None, None), 2)):
        episode = world.episode(0)
        for key in keys:
            assert episode.call(0, FLIGHT if key is None else {**FLIGHT, "idempotency_key": key}).status is Status.OK
        assert episode.store is not None and episode.store.records[0].count == count
    episode = world.episode(0)
    for slot in (0, 0, 1):  # without arguments the key is the need's; another tool does not know it
        episode.call(slot)
    assert episode.write_figures() == WriteFigures(False, 1, 1, 120.0)


def test_a_late_effect_is_seen_when_it_has_settled_and_counts_in_the_end() -> None:
    world = scenario(tool("book", settles_s=20.0)).build()
    episode = world.episode(0)
    episode.call(0)
    assert episode.content(episode.call(CHECK)) == '{"found": 0}' and episode.known == [False]
    assert episode.call(UNDO).status is Status.NO_DATA
    episode.advance(20.0)
    assert episode.content(episode.call(CHECK)) == '{"found": 1, "booking": "BK-48213"}'
    late = world.episode(0)
    late.call(0)
    assert late.finish().strict


def test_an_effect_that_nobody_wants_is_lost_money() -> None:
    made = desk(tool("book"))
    other = {"capability": "booking", "arguments": {"flight": "LH-7"}, "fact": "BK-50007", "amount": 90}
    made["source"]["tasks"].append({"query": "Book flight LH-7.", "needs": [other]})
    episode = parse_scenario(made).build().episode(0)
    assert episode.call(0, {"flight": "LH-7"}).status is Status.OK
    assert episode.call(0, {"flight": "nowhere"}).status in (Status.WRONG_ARGUMENTS, Status.NO_DATA)
    episode.call(0, FLIGHT)
    assert not episode.finish().strict
    assert episode.write_figures() == WriteFigures(False, 0, 1, 120.0)


def test_a_wrong_effect_can_be_taken_back_by_what_it_was_about() -> None:
    made = desk(tool("book"))
    other = {"capability": "booking", "arguments": {"flight": "LH-7"}, "fact": "BK-50007", "amount": 90}
    made["source"]["tasks"].append({"query": "Book flight LH-7.", "needs": [other]})
    episode = parse_scenario(made).build().episode(0)
    for slot, flight in ((0, "LH-7"), (UNDO, "LH-7"), (0, "SK-4041")):
        assert episode.call(slot, {"flight": flight}).status is Status.OK
    assert episode.finish().strict


def test_a_reference_that_is_asked_for_has_to_be_in_the_answer() -> None:
    world = scenario(tool("book"), asked=True).build()
    for answer, passed in (("Your booking is BK 48213.", True), ("It is booked.", False)):
        episode = world.episode(0)
        episode.call(0)
        assert episode.finish(answer).strict is passed


def test_a_call_that_is_cut_off_takes_no_effect() -> None:
    episode = scenario(tool("book")).build().episode(0)
    episode.submit(0)
    assert not episode.finish().strict


def test_a_fork_has_the_same_effects_and_lives_its_own_life() -> None:
    episode = scenario(tool("book", 0.0, happens=1.0), tool("sure")).build().episode(0)
    episode.call(0)
    fork = episode.fork()
    fork.call(1)
    assert episode.store is not None and fork.store is not None
    assert (episode.store.records[0].count, fork.store.records[0].count) == (1, 2)


# -- environments ------------------------------------------------------------------------------------------------------


def test_the_numeric_view_tells_what_the_agent_was_told_and_no_more() -> None:
    env = costgym.make("costgym/Marketplace-v0", scenario=desk(tool("book", 0.0, happens=1.0)))
    observation, info = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    rows = [env.unwrapped.action_of(slot) for slot in range(3)]
    assert observation["roles"][rows].tolist() == [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]]
    assert observation["effects"][0].tolist() == [1, 0, 0] and info["action_mask"][rows].tolist() == [True, False, False]
    observation, _, _, _, info = env.step(rows[0])
    assert observation["effects"][0].tolist() == [1, 0, 1] and info["action_mask"][rows].tolist() == [True, True, False]
    assert info["state_correct"] and "state_correct" not in env.unwrapped.visible_info(info)
    observation, _, _, _, info = env.step(rows[1])
    assert observation["effects"][0].tolist() == [1, 0.25, 0] and not info["action_mask"][rows].any()
    assert env.step(env.unwrapped.finish_action)[4]["is_success"]


def test_the_text_view_documents_the_key_and_tells_of_the_final_state() -> None:
    env = costgym.make("costgym/MarketplaceChat-v0", scenario=desk(tool("book", idempotent=True)))
    env.reset(seed=0)
    parameters = env.unwrapped.documentation()[0]["function"]["parameters"]
    assert "idempotency_key" in parameters["properties"] and parameters["required"] == ["flight"]
    call = '{"name": "book", "arguments": {"flight": "SK-4041", "idempotency_key": "k1"}}'
    env.step(call)
    env.step(call)
    info = env.step('{"name": "finish", "arguments": {"answer": "Booked."}}')[4]
    assert (info["is_success"], info["duplicates"], info["money_lost"]) == (True, 0, 0.0)


# -- forks ---------------------------------------------------------------------------------------------------------------

CALLS = st.lists(st.integers(0, 3), max_size=8)


@given(seed=st.integers(0, 2**40), before=CALLS, after=CALLS, other=CALLS)
def test_a_fork_has_the_effects_and_the_future_of_its_episode_and_changes_nothing_in_it(
    seed: int, before: list[int], after: list[int], other: list[int]
) -> None:
    world = scenario(tool("book", 0.5), tool("keyed", 0.5, idempotent=True, settles_s=8.0)).build()
    episode = world.episode(0, seed)

    def play(episode: Episode, slots: list[int]) -> tuple[str, ...]:
        for slot in slots:
            if not episode.over:
                episode.call(slot)
        assert episode.store is not None
        calls = [(call.slot, call.status, call.finished_s, call.effect, call.answer) for call in episode.calls]
        return repr(episode.store.records), repr(calls), repr(episode.ledger.price)

    present = play(episode, before)
    twin, other_fork = episode.fork(), episode.fork()
    assert play(twin, []) == present
    play(other_fork, other)
    assert play(episode, []) == present
    assert play(twin, after) == play(episode, after)
    assert twin.write_figures() == episode.write_figures()


# -- scenarios -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ({"checks": "booking"}, None, "either `writes`, `checks` or `compensates`"),
        ({"writes": None, "idempotent": True}, None, "only a tool that writes has it"),
        ({"settles_s": -1.0}, None, "settles_s: expected 0 to 86,400 seconds"),
        ({"happens": 1.5}, None, "happens: expected a chance between 0 and 1"),
        ({"writes": None, "compensates": "payment"}, None, "no tool writes 'payment'"),
        ({"writes": "often"}, None, "valid boolean"),
    ],
)
def test_what_is_wrong_with_a_tool_that_writes_is_said(path: dict[str, Any], value: None, sentence: str) -> None:
    made = desk(tool("book"))
    made["source"]["tools"][0] |= path
    with pytest.raises(DataError, match=sentence):
        parse_scenario(made).build()


def test_tools_of_one_capability_all_write_or_none_does() -> None:
    made = desk(tool("book"), {**tool("read"), "writes": None})
    with pytest.raises(DataError, match="only some of the tools of"):
        parse_scenario(made).build()


def test_the_generated_market_is_the_same_in_every_process_and_shares_nothing_between_splits() -> None:
    world = load_scenario("marketplace-writes").build()
    train, test = ([world.tasks[number] for number in world.tasks.numbers(split)] for split in ("train", "test"))
    assert (len(train), len(test), len(world.catalog)) == (200, 200, 44)
    names = [
        {str(value) for task in tasks for need in task.needs for value in (need.arguments or {}).values()}
        for tasks in (train, test)
    ]
    assert not names[0] & names[1]
    assert {need.state for task in train for need in task.needs} == {True, False}
    assert all(need.amount > 0 for task in train for need in task.needs if need.state)


def test_repeating_blindly_loses_more_money_than_checking() -> None:
    from costgym.agents import make_agent

    lost = {}
    for name in ("retry", "check-then-retry", "idempotent"):
        env = costgym.make("costgym/Marketplace-v0", scenario="marketplace-writes", split="test")
        results = costgym.rollout(env, make_agent(name), episodes=30, seed=0)
        lost[name] = np.mean([result.figures["money_lost"] for result in results])
    assert lost["retry"] > 2 * lost["check-then-retry"] and lost["retry"] > 2 * lost["idempotent"]


def test_the_agent_with_keys_tries_no_second_tool_after_an_end_that_may_have_had_an_effect() -> None:
    from costgym.agents import make_agent

    world = scenario(tool("first", 0.0, idempotent=True, happens=1.0), tool("second", idempotent=True))
    env = costgym.make("costgym/Marketplace-v0", scenario=world)
    [result] = costgym.rollout(env, make_agent("idempotent"), episodes=1, seed=0)
    assert (result.attempts, result.figures["duplicates"], result.figures["money_lost"]) == (4, 0, 0.0)

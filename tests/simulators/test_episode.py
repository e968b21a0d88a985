"""The world's rules 9 to 12, told as stories: events, thinking, budgets and the end of an episode, and its forks."""

import math
from itertools import pairwise

import pytest

from costgym.simulators.calls import Usage, WorldEvent
from costgym.simulators.errors import EpisodeOver
from costgym.simulators.ledger import Budget
from costgym.simulators.pricing.prompt_cache import ModelPrices
from costgym.simulators.status import Status
from costgym.simulators.tasks import Judge
from costgym.simulators.world import World
from tests.helpers.worlds import BROKEN, play, small_world, state, tool

# -- events ---------------------------------------------------------------------------------------------------------------


def test_a_banned_tool_is_refused_until_it_is_back():
    episode = play(
        tool("a"), tool("b", 1), events=[WorldEvent(1.0, "ban", (0,)), WorldEvent(5.0, "unban", (0,))], gateway_s=0.5
    )
    running = episode.submit(0)
    episode.advance(1.5)
    assert running.status is Status.OK
    assert episode.call(0).status is Status.BANNED
    assert episode.call(1).status is Status.OK
    episode.advance(2.0)
    assert [notice.kind for notice in episode.notices()] == ["ban", "unban"]
    assert episode.call(0).status is Status.OK


def test_an_event_at_time_zero_holds_from_the_first_call_on():
    episode = play(tool("a"), events=[WorldEvent(0.0, "ban", (0,))])
    assert episode.call(0).status is Status.BANNED
    assert [notice.kind for notice in episode.notices()] == ["ban"]


def test_a_change_of_mind_makes_the_old_answer_stale():
    change = WorldEvent(3.0, "preference_change", need=0)
    episode = play(tool("a", latency_s=2.0), changeable=[0], events=[change])
    episode.call(0)
    assert episode.known == [True]
    late = episode.submit(0)
    assert episode.wait() is change
    assert episode.known == [False]
    assert (episode.wait(), late.status, episode.known) == (late, Status.OK, [False])
    fork = episode.fork()
    assert fork.finish("it is fact-0").strict is False
    assert episode.call(0, {"city": "c0"}).status is Status.OK
    assert episode.known == [False]
    assert episode.call(0, {"city": "d0"}).status is Status.OK
    assert episode.known == [True]
    assert episode.finish("it is other-0").strict


# -- rules 9 and 10: thinking and waiting ---------------------------------------------------------------------------------


def test_thinking_takes_time_and_charges_tokens_and_their_price():
    episode = play(tool("a"), ttft_s=0.5, tokens_per_s=50.0, tokens=ModelPrices(input=1.0, output=2.0))
    episode.think(Usage(1000, 100))
    assert episode.now_s == 2.5
    charge = next(iter(episode.ledger))
    assert (charge.what, charge.tokens, charge.calls) == ("think", 1100, 0)
    assert charge.price == pytest.approx((1000 * 1.0 + 100 * 2.0) / 1e6)
    assert charge.price > 0


def test_calls_run_while_the_agent_thinks():
    episode = play(tool("a", latency_s=1.0), ttft_s=2.0)
    call = episode.submit(0)
    episode.think(Usage(10, 0))
    assert (call.finished_s, episode.now_s, episode.wait()) == (1.0, 2.0, call)


def test_with_nothing_in_flight_there_is_nothing_to_wait_for():
    episode = play(tool("a"), events=[WorldEvent(50.0, "ban", (0,))])
    assert episode.wait() is None
    assert (episode.now_s, episode.over) == (0.0, False)


def test_settling_leaves_other_completions_for_later_waits():
    episode = play(tool("a", latency_s=1.0), tool("b", 1, latency_s=2.0))
    first = episode.submit(0)
    second = episode.call(1)
    assert (second.finished_s, episode.wait()) == (2.0, first)
    assert episode.wait() is None


# -- rule 11: budgets -----------------------------------------------------------------------------------------------------


def test_strict_refuses_what_does_not_fit_beside_what_is_running():
    episode = play(tool("a", fee=4.0), tool("b", 1, fee=3.0), budget=Budget(price=10.0), enforcement="refuse")
    episode.submit(0)
    episode.submit(1)
    assert not episode.affordable(0)
    assert episode.submit(0).status is Status.OVER_BUDGET
    assert episode.affordable(1)
    episode.submit(1)
    while episode.in_flight:
        episode.wait()
    assert (episode.ledger.price, episode.over) == (10.0, False)
    assert episode.submit(1).status is Status.OVER_BUDGET


def test_strict_refuses_calls_beyond_their_number():
    episode = play(tool("a"), budget=Budget(calls=2), enforcement="refuse")
    episode.submit(0)
    episode.call(0)
    assert (episode.submit(0).status, episode.ledger.calls, episode.over) == (Status.OVER_BUDGET, 2, False)


def test_passing_a_limit_ends_the_episode_that_moment():
    episode = play(tool("a", fee=6.0), tool("b", 1, latency_s=5.0), budget=Budget(price=10.0))
    episode.submit(1)
    episode.call(0)
    last = episode.call(0)
    assert (episode.over, episode.exceeded, episode.now_s, last.status) == (True, "price", 2.0, Status.OK)
    assert episode.calls[0].status is Status.CANCELLED
    assert episode.ledger.price == 13.0
    assert not episode.success
    with pytest.raises(EpisodeOver):
        episode.submit(0)


@pytest.mark.parametrize("how", ["advance", "think", "refused call"])
def test_time_stops_at_the_moment_a_limit_is_passed(how):
    episode = play(tool("a", fee=20.0), budget=Budget(price=10.0, seconds=3.0), gateway_s=8.0)
    episode.submit(0)
    if how == "advance":
        episode.advance(8.0)
    elif how == "think":
        episode.think(Usage(0, 480))
    else:
        assert episode.submit(0, None, Status.FORBIDDEN).status is Status.FORBIDDEN
    assert (episode.over, episode.exceeded, episode.now_s) == (True, "price", 1.0)


def test_the_deadline_ends_the_episode_and_cuts_off_what_runs():
    episode = play(tool("a", latency_s=5.0), budget=Budget(seconds=3.0))
    call = episode.call(0)
    assert (call.status, call.finished_s, episode.exceeded, episode.now_s) == (Status.CANCELLED, 3.0, "seconds", 3.0)


def test_a_call_that_ends_at_the_deadline_is_in_time():
    episode = play(tool("a", latency_s=3.0), budget=Budget(seconds=3.0))
    assert episode.call(0).status is Status.OK
    assert episode.finish().strict
    assert episode.success


def test_a_refusal_at_the_deadline_stays_a_refusal():
    episode = play(tool("a", latency_s=5.0), budget=Budget(seconds=1.0), gateway_s=2.0)
    episode.submit(0)
    refused = episode.submit(0, None, Status.FORBIDDEN)
    assert (refused.status, refused.finished_s, episode.exceeded) == (Status.FORBIDDEN, 1.0, "seconds")


def test_recording_enforces_nothing_and_reports_what_was_passed():
    episode = play(tool("a", fee=9.0), budget=Budget(price=10.0, seconds=1.0, calls=1), enforcement="record")
    episode.call(0)
    episode.call(0)
    assert not episode.over
    assert episode.finish().strict
    assert (episode.exceeded, episode.success, episode.remaining()) == (
        "price", False, {"price": -8.0, "seconds": -1.0, "calls": -1},
    )  # fmt: skip


def test_tokens_are_limited_too():
    episode = play(tool("a"), budget=Budget(tokens=100))
    episode.think(Usage(90, 10))
    assert not episode.over
    episode.think(Usage(1, 0))
    assert (episode.over, episode.exceeded) == (True, "tokens")


# -- rule 12: finishing ---------------------------------------------------------------------------------------------------


def test_finish_grades_the_answers_facts_and_ends_the_episode():
    world = small_world(tool("a"), tool("b", 1))
    episode = world.episode(0)
    episode.call(0)
    grade = episode.finish()
    assert (grade.share, grade.strict, episode.over) == (0.5, False, True)
    guess = world.episode(0)
    assert guess.finish("Fact-0 and  FACT-1.").strict
    part = world.episode(0)
    assert part.finish("fact-01, fact-1").share == 0.5
    silent = world.episode(0)
    assert silent.finish("fact-0 fact-1", gave_up=True) == type(grade)(1.0, False, False)


def test_the_judge_never_passes_less_for_more_facts():
    judge = Judge()
    lucks = [i / 50 for i in range(50)]
    for solvable in (True, False):
        passes = [[judge.grade([True] * k + [False] * (6 - k), luck, solvable).judged for luck in lucks] for k in range(7)]
        for fewer, more in pairwise(passes):
            assert all(not a or b for a, b in zip(fewer, more, strict=True))


def test_the_judge_has_the_same_luck_whatever_was_called():
    world = small_world(tool("a"), copies=50)
    passed = []
    for number in range(50):
        direct, busy = world.episode(number), world.episode(number)
        for _ in range(3):
            busy.call(0)
        answers = [episode.finish("fact-0") for episode in (direct, busy)]
        assert answers[0] == answers[1]
        passed.append(answers[0].judged)
    assert 0 < sum(passed) <= 50


def test_an_episode_that_has_ended_takes_no_action():
    episode = play(tool("a"))
    episode.finish()
    actions = (lambda: episode.submit(0), episode.wait, lambda: episode.advance(1.0), lambda: episode.think(Usage(1, 1)))
    for action in (*actions, episode.finish):
        with pytest.raises(EpisodeOver):
            action()


# -- forks ----------------------------------------------------------------------------------------------------------------


def test_a_fork_goes_its_own_way():
    episode = play(tool("a"), tool("b", 1))
    episode.submit(0)
    fork = episode.fork()
    fork.call(1)
    fork.finish()
    assert (episode.over, episode.now_s, episode.ledger.attempts, len(episode.calls)) == (False, 0.0, 1, 1)
    assert episode.wait().status is Status.OK


def test_settling_a_call_that_has_ended_already_is_replayed_too():
    episode = play(tool("a"))
    call = episode.submit(0)
    episode.advance(2.0)
    episode.settle(call)
    assert episode.wait() is None
    assert state(episode.fork()) == state(episode)


def test_worlds_without_limits_never_overflow_the_clock():
    episode = play(tool("a", latency_s=1e-9))
    for _ in range(1000):
        episode.call(0)
    assert math.isclose(episode.now_s, 1e-6, rel_tol=1e-9)


def test_equal_arguments_give_equal_episodes():
    def once(world: World) -> dict:
        episode = world.episode(0, 3)
        for _ in range(5):
            episode.call(0)
        return state(episode)

    spec = tool("a", latency_spread=0.7, reliability=0.5)
    assert once(small_world(spec, failures=BROKEN)) == once(small_world(spec, failures=BROKEN))

"""Stories of the world: one rule each, with the exact log of what happened."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from worlds import BROKEN, small_world, state, story, tool

from costgym.simulators.calls import Notice, Usage
from costgym.simulators.episode import Episode
from costgym.simulators.errors import EpisodeOver
from costgym.simulators.failures import Bursts
from costgym.simulators.ledger import Budget
from costgym.simulators.pricing import FaasPricing, TokenPricing
from costgym.simulators.status import Status
from costgym.simulators.tasks import Judge
from costgym.simulators.world import World


def play(*tools, budget=None, enforcement="terminate", seed=0, **settings) -> Episode:
    return small_world(*tools, **settings).episode(0, seed, budget, enforcement)


# -- rule 1: time ---------------------------------------------------------------------------------------------------------


def test_calls_that_end_at_the_same_time_complete_in_the_order_of_their_submission():
    episode = play(tool("slow", latency_s=2.0), tool("b", 1), tool("a", 2))
    episode.advance(1.0)
    for slot in (2, 1):
        episode.submit(slot)
    assert [episode.wait().tool, episode.wait().tool] == ["a", "b"]
    assert episode.now_s == 2.0


def test_calls_run_side_by_side():
    episode = play(tool("a", 0, latency_s=3.0), tool("b", 1, latency_s=2.0))
    episode.submit(0)
    episode.submit(1)
    assert [(episode.wait().tool, episode.now_s), (episode.wait().tool, episode.now_s)] == [("b", 2.0), ("a", 3.0)]


def test_time_passes_while_one_advances_and_completions_stay_for_later():
    episode = play(tool("a"))
    call = episode.submit(0)
    episode.advance(5.0)
    assert (episode.now_s, call.finished_s, episode.known) == (5.0, 1.0, [True])
    assert episode.wait() is call
    assert episode.now_s == 5.0


# -- rule 2: the gateway --------------------------------------------------------------------------------------------------


def test_a_refused_call_takes_the_gateways_time_and_counts_only_as_an_attempt():
    episode = play(tool("a"), gateway_s=0.25)
    call = episode.submit(0, {"city": 7}, Status.INVALID_ARGUMENTS, "city: expected text")
    assert (call.status, call.finished_s, call.price, call.reason) == (
        Status.INVALID_ARGUMENTS, 0.25, 0.0, "city: expected text",
    )  # fmt: skip
    assert (episode.ledger.attempts, episode.ledger.calls, episode.ledger.price, list(episode.ledger)) == (1, 0, 0.0, [])
    assert episode.counts == [0]


@pytest.mark.parametrize("slot", [-1, 1, 99])
def test_a_tool_that_is_none_of_the_candidates_is_unknown(slot):
    episode = play(tool("a"))
    call = episode.submit(slot)
    assert (call.status, call.slot, call.finished_s) == (Status.UNKNOWN_TOOL, -1, 0.05)
    assert "no function" in episode.content(call)


def test_other_calls_go_on_while_one_is_refused():
    episode = play(tool("a"), gateway_s=2.0)
    running = episode.submit(0)
    episode.submit(0, None, Status.FORBIDDEN)
    assert (episode.now_s, running.finished_s) == (2.0, 1.0)


# -- rule 3: rate limit and quota -----------------------------------------------------------------------------------------


def test_a_rate_limit_admits_n_calls_in_a_sliding_window_and_says_when_to_come_back():
    episode = play(tool("a", latency_s=0.5, rate_limit=2, window_s=10.0), gateway_s=1.0)
    episode.call(0)
    episode.advance(3.5)
    episode.call(0)
    refused = episode.submit(0)
    assert (refused.status, refused.retry_after_s, refused.price) == (Status.RATE_LIMITED, 5.5, 0.0)
    episode.advance(4.5)
    assert episode.now_s == 10.0
    assert episode.call(0).status is Status.OK
    assert episode.submit(0).retry_after_s == 3.5
    assert story(episode) == [
        (0.0, "a", "run"), (0.5, "a", "ok"),
        (4.0, "a", "run"), (4.5, "a", "ok"), (5.5, "a", "rate_limited"),
        (10.0, "a", "run"), (10.5, "a", "ok"), (11.5, "a", "rate_limited"),
    ]  # fmt: skip


def test_refused_calls_do_not_fill_the_window():
    episode = play(tool("a", latency_s=0.5, rate_limit=1, window_s=10.0), gateway_s=1.0)
    episode.call(0)
    for _ in range(9):
        assert episode.submit(0).status is Status.RATE_LIMITED
    episode.advance(0.5)
    assert (episode.now_s, episode.call(0).status) == (10.0, Status.OK)


def test_a_quota_holds_for_the_whole_episode():
    episode = play(tool("a", quota=2))
    assert [episode.call(0).status for _ in range(3)] == [Status.OK, Status.OK, Status.QUOTA_EXCEEDED]
    assert (episode.ledger.calls, episode.ledger.attempts, episode.ledger.price) == (2, 3, 2.0)


# -- rule 4: slots and GPU memory -----------------------------------------------------------------------------------------


def test_calls_beyond_the_slots_wait_in_submission_order_and_pay_nothing_for_it():
    episode = play(tool("a", concurrency=2, fee=3.0), tool("b", 1, latency_s=0.5))
    calls = [episode.submit(0) for _ in range(5)]
    episode.submit(1)
    while episode.in_flight:
        episode.wait()
    assert [(call.submitted_s, call.started_s, call.finished_s) for call in calls] == [
        (0.0, 0.0, 1.0), (0.0, 0.0, 1.0), (0.0, 1.0, 2.0), (0.0, 1.0, 2.0), (0.0, 2.0, 3.0),
    ]  # fmt: skip
    assert episode.ledger.price == 5 * 3.0 + 1.0


def test_gpu_tools_wait_until_their_memory_fits_and_nobody_overtakes():
    episode = play(
        tool("a", 0, gpu_cons_mb=500.0, gpu_inst_mb=100.0),
        tool("b", 1, gpu_cons_mb=600.0),
        tool("c", 2, gpu_cons_mb=300.0),
        tool("cpu", 3),
        gpu_capacity_mb=1000.0,
    )
    for slot in range(4):
        episode.submit(slot)
    while episode.in_flight:
        episode.wait()
    assert story(episode) == [
        (0.0, "a", "run"), (0.0, "cpu", "run"), (1.0, "a", "ok"), (1.0, "b", "run"), (1.0, "c", "run"), (1.0, "cpu", "ok"),
        (2.0, "b", "ok"), (2.0, "c", "ok"),
    ]  # fmt: skip


def test_a_call_that_waits_for_a_slot_of_its_tool_does_not_hold_up_the_memory_of_others():
    episode = play(
        tool("a", 0, gpu_cons_mb=300.0, concurrency=1, latency_s=2.0),
        tool("b", 1, gpu_cons_mb=300.0),
        gpu_capacity_mb=1000.0,
    )
    for slot in (0, 0, 1):
        episode.submit(slot)
    while episode.in_flight:
        episode.wait()
    assert story(episode) == [
        (0.0, "a", "run"), (0.0, "b", "run"), (1.0, "b", "ok"), (2.0, "a", "ok"), (2.0, "a", "run"), (4.0, "a", "ok"),
    ]  # fmt: skip


def test_a_tool_larger_than_the_gpu_runs_alone_however_the_sums_round():
    episode = play(
        tool("a", 0, gpu_cons_mb=0.1), tool("b", 1, gpu_cons_mb=0.2), tool("huge", 2, gpu_cons_mb=5.0), gpu_capacity_mb=1.0
    )
    for slot in (0, 1, 2):
        episode.submit(slot)
    while episode.in_flight:
        episode.wait()
    assert episode.now_s == 2.0


# -- rule 5: instances ----------------------------------------------------------------------------------------------------


def test_a_second_call_within_keep_alive_starts_warm_and_a_later_one_cold_again():
    episode = play(tool("a", latency_s=1.0, cold_start_s=0.5, keep_alive_s=10.0))
    episode.call(0)
    episode.advance(10.0)
    episode.call(0)
    episode.advance(10.5)
    episode.call(0)
    assert story(episode) == [
        (0.0, "a", "cold"), (0.5, "a", "run"), (1.5, "a", "ok"),
        (11.5, "a", "run"), (12.5, "a", "ok"),
        (23.0, "a", "cold"), (23.5, "a", "run"), (24.5, "a", "ok"),
    ]  # fmt: skip


def test_the_most_recently_used_idle_instance_is_taken():
    episode = play(tool("a", latency_s=1.0, cold_start_s=1.0, keep_alive_s=4.0))
    episode.submit(0)
    episode.advance(1.0)
    episode.submit(0)
    episode.advance(5.0)  # two instances, idle since 2 and since 3; at 6 both are within keep-alive
    first = episode.submit(0)
    episode.advance(1.5)  # at 7.5 one is idle since 7; the other, still idle since 2, is too old
    second, third = episode.submit(0), episode.submit(0)
    assert [first.cold, second.cold, third.cold] == [False, False, True]


# -- rule 6: duration -----------------------------------------------------------------------------------------------------


def test_a_call_longer_than_its_timeout_ends_then_as_a_timeout_and_teaches_nothing():
    episode = play(tool("a", latency_s=9.0, timeout_s=4.0, fee=2.0))
    call = episode.call(0)
    assert (call.status, call.finished_s, call.price) == (Status.TIMEOUT, 4.0, 2.0)
    assert (episode.known, episode.successes) == ([False], [0])
    explicit = episode.call(0, {"city": "c0"})
    assert (explicit.status, explicit.answer, episode.known) == (Status.TIMEOUT, None, [False])
    assert episode.finish().strict is False


def test_a_refused_connection_is_quick_and_a_timeout_takes_its_time():
    broken = BROKEN.model_copy(update={"kinds": {"connection_error": 1.0}})
    episode = play(tool("a", reliability=0.0, timeout_s=7.0), failures=broken)
    assert (episode.call(0).status, episode.now_s) == (Status.CONNECTION_ERROR, 0.05)
    slow = BROKEN.model_copy(update={"kinds": {"timeout": 1.0}})
    episode = play(tool("a", reliability=0.0, timeout_s=7.0), failures=slow)
    assert (episode.call(0).status, episode.now_s) == (Status.TIMEOUT, 7.0)


def test_the_duration_follows_the_size_level_and_the_calls_own_uniform():
    world = small_world(tool("a", latency_s=(1.0, 8.0), latency_spread=0.5))
    at_zero = world.episode(0).call(0).finished_s
    assert 0.1 < at_zero < 10.0 and at_zero != 1.0
    assert world.episode(0).call(0).finished_s == at_zero
    assert world.episode(0, 1).call(0).finished_s != at_zero


# -- rule 7: outcome ------------------------------------------------------------------------------------------------------


def test_right_arguments_give_the_fact_and_wrong_ones_are_billed_and_teach_nothing():
    episode = play(tool("a", fee=2.0))
    wrong = episode.call(0, {"city": "nowhere"})
    assert wrong.status in (Status.WRONG_ARGUMENTS, Status.NO_DATA)
    assert (wrong.price, episode.known) == (2.0, [False])
    right = episode.call(0, {"city": " C0 ", "extra": 1})
    assert (right.status, right.price, episode.known) == (Status.OK, 2.0, [True])
    assert episode.content(right) == '{"value": "fact-0"}'


def test_both_ways_to_be_wrong_happen():
    world = small_world(tool("a"), copies=40)
    kinds = {world.episode(number).call(0, {"city": "nowhere"}).status for number in range(40)}
    assert kinds == {Status.WRONG_ARGUMENTS, Status.NO_DATA}


def test_a_chained_need_cannot_be_asked_before_the_facts_it_depends_on():
    episode = play(tool("a", 0), tool("b", 1), after={1: (0,)})
    assert episode.call(1).status in (Status.WRONG_ARGUMENTS, Status.NO_DATA)
    episode.call(0)
    assert episode.call(1).status is Status.OK
    assert episode.finish().strict


def test_empty_and_irrelevant_answers_look_like_success_but_teach_nothing():
    for kind in ("empty", "irrelevant"):
        failures = BROKEN.model_copy(update={"kinds": {kind: 1.0}})
        episode = play(tool("a", reliability=0.0), failures=failures)
        call = episode.call(0)
        assert (call.status.label, call.price, episode.known) == (kind, 1.0, [False])
        assert episode.content(call) == ("{}" if kind == "empty" else '{"value": "something else"}')


def test_calls_that_start_in_a_burst_fail_and_others_do_not():
    failures = BROKEN.model_copy(update={"bursts": Bursts(every_s=5.0, lasts_s=3.0)})
    episode = play(tool("a", latency_s=0.25), failures=failures)
    for _ in range(200):
        episode.call(0)
    assert len(episode.bursts.spans) >= 3
    for call in episode.calls:
        inside = any(begin <= call.started_s < end for begin, end in episode.bursts.spans)
        assert (call.status is Status.OUTAGE) == inside
    assert {call.status for call in episode.calls} == {Status.OK, Status.OUTAGE}


def test_bursts_are_the_same_whatever_the_agent_does():
    failures = BROKEN.model_copy(update={"bursts": Bursts(every_s=5.0, lasts_s=3.0)})
    world = small_world(tool("a", latency_s=0.25), tool("b", 1, latency_s=0.75), failures=failures)
    first, second = world.episode(0), world.episode(0)
    for _ in range(60):
        first.call(0)
        second.call(1)
    known = min(len(first.bursts.spans), len(second.bursts.spans))
    assert known >= 2
    assert first.bursts.spans[:known] == second.bursts.spans[:known]


# -- rule 8: price --------------------------------------------------------------------------------------------------------


def test_the_price_is_fixed_at_the_start_though_it_changes_during_the_call():
    change = Notice(0.5, "price_change", (0,), 3.0)
    episode = play(tool("a", fee=2.0), tool("b", 1, fee=5.0), events=[change])
    first = episode.submit(0)
    assert episode.wait() is change
    assert episode.quote(0) == 6.0
    assert episode.wait() is first
    second, other = episode.call(0), episode.call(1)
    assert [call.price for call in (first, second, other)] == [2.0, 6.0, 5.0]


def test_a_queued_call_pays_the_price_at_its_start():
    episode = play(tool("a", fee=2.0, concurrency=1), events=[Notice(0.5, "price_change", (0,), 3.0)])
    calls = [episode.submit(0), episode.submit(0)]
    while episode.in_flight:
        episode.wait()
    assert [call.price for call in calls] == [2.0, 6.0]


def test_failures_cost_their_price_unless_they_are_not_billed():
    broken = tool("a", reliability=0.0, fee=4.0)
    assert play(broken, failures=BROKEN).call(0).price == 4.0
    free = play(broken, failures=BROKEN, bill_failures=False)
    assert (free.call(0).price, free.ledger.calls) == (0.0, 1)


def test_pay_per_use_bills_duration_times_memory_failures_included():
    faas = FaasPricing.opencatp()
    rate = float(faas.rate_per_ms(1000.0, 500.0, 0.0, 0.0)) * 1000.0
    spec = tool("a", cpu_cons_mb=1000.0, cpu_inst_mb=500.0, latency_s=2.0, reliability=0.0, cold_start_s=1.0)
    episode = play(spec, failures=BROKEN, faas=faas)
    assert episode.quote(0) == pytest.approx(faas.per_run + 2.0 * rate, rel=1e-12)
    assert episode.call(0).price == pytest.approx(faas.per_run + 2.0 * rate, rel=1e-12)
    billed = play(spec, failures=BROKEN, faas=faas, bill_cold_start=True)
    assert billed.call(0).price == pytest.approx(faas.per_run + 3.0 * rate, rel=1e-12)


def test_what_is_cut_off_by_the_end_costs_the_flat_fee_in_full_and_teaches_nothing():
    episode = play(tool("a", fee=2.0, concurrency=1))
    episode.submit(0)
    queued = episode.submit(0)
    episode.finish()
    assert [call.status for call in episode.calls] == [Status.CANCELLED, Status.CANCELLED]
    assert (episode.ledger.price, episode.ledger.calls, queued.price, episode.known) == (2.0, 1, 0.0, [False])
    assert episode.grade.share == 0.0


def test_what_is_cut_off_by_the_end_costs_its_elapsed_part_under_pay_per_use():
    faas = FaasPricing.opencatp()
    rate = float(faas.rate_per_ms(1000.0, 0.0, 0.0, 0.0)) * 1000.0
    spec = tool("a", cpu_cons_mb=1000.0, latency_s=10.0, cold_start_s=1.0)
    episode = play(spec, faas=faas, events=[Notice(2.0, "price_change", (0,), 7.0)])
    episode.submit(0)
    episode.advance(4.0)
    episode.finish()
    assert episode.ledger.price == pytest.approx(faas.per_run + 3.0 * rate, rel=1e-12)
    loading = play(spec, faas=faas)
    loading.submit(0)
    loading.advance(0.5)
    loading.finish()
    assert loading.ledger.price == pytest.approx(faas.per_run, rel=1e-12)


# -- events ---------------------------------------------------------------------------------------------------------------


def test_a_banned_tool_is_refused_until_it_is_back():
    episode = play(tool("a"), tool("b", 1), events=[Notice(1.0, "ban", (0,)), Notice(5.0, "unban", (0,))], gateway_s=0.5)
    running = episode.submit(0)
    episode.advance(1.5)
    assert running.status is Status.OK
    assert episode.call(0).status is Status.BANNED
    assert episode.call(1).status is Status.OK
    episode.advance(2.0)
    assert [notice.kind for notice in episode.notices()] == ["ban", "unban"]
    assert episode.call(0).status is Status.OK


def test_an_event_at_time_zero_holds_from_the_first_call_on():
    episode = play(tool("a"), events=[Notice(0.0, "ban", (0,))])
    assert episode.call(0).status is Status.BANNED
    assert [notice.kind for notice in episode.notices()] == ["ban"]


def test_a_change_of_mind_makes_the_old_answer_stale():
    change = Notice(3.0, "preference_change", need=0)
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
    episode = play(tool("a"), ttft_s=0.5, tokens_per_s=50.0, tokens=TokenPricing(1.0, 2.0))
    episode.think(Usage(1000, 100))
    assert episode.now_s == 2.5
    charge = next(iter(episode.ledger))
    assert (charge.what, charge.tokens, charge.calls) == ("think", 1100, 0)
    assert charge.price == pytest.approx(float(TokenPricing(1.0, 2.0).price(1000, 100, 0)))
    assert charge.price > 0


def test_calls_run_while_the_agent_thinks():
    episode = play(tool("a", latency_s=1.0), ttft_s=2.0)
    call = episode.submit(0)
    episode.think(Usage(10, 0))
    assert (call.finished_s, episode.now_s, episode.wait()) == (1.0, 2.0, call)


def test_with_nothing_in_flight_there_is_nothing_to_wait_for():
    episode = play(tool("a"), events=[Notice(50.0, "ban", (0,))])
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

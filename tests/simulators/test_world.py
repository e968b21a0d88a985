"""The world's rules 1 to 8, told as stories: calls, from the gateway to the price."""

import pytest

from costgym.simulators.calls import WorldEvent
from costgym.simulators.failures import Bursts
from costgym.simulators.ledger import Budget
from costgym.simulators.pricing import FaasPricing
from costgym.simulators.status import Status
from tests.helpers.worlds import BROKEN, play, small_world, state, story, tool

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
    episode.advance(0.5)
    for _ in range(9):
        assert episode.submit(0).status is Status.RATE_LIMITED  # the last at 9 of the 10 seconds
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
    assert episode.known == [False]
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


def test_listed_quantiles_take_the_place_of_the_lognormal():
    world = small_world(tool("a", latency_s=2.0, latency_spread=0.5, latency_quantiles=(0.5, 1.0, 1.0, 4.0)))
    seconds = sorted(world.episode(0, seed).call(0).finished_s for seed in range(3000))
    assert 1.0 <= seconds[0] < 1.02 and 7.9 < seconds[-1] <= 8.0
    assert sum(value == 2.0 for value in seconds) / 3000 == pytest.approx(1 / 3, abs=0.03)
    assert seconds[500] == pytest.approx(1.5, abs=0.1) and seconds[2500] == pytest.approx(5.0, abs=0.4)


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


def test_outages_of_some_tools_leave_the_others_alone():
    shared = Bursts(every_s=5.0, lasts_s=3.0, tools=("a", "b"))
    tools = (tool("a", latency_s=0.25), tool("b", 1, latency_s=0.25), tool("c", 0, latency_s=0.25))
    episode = play(*tools, failures=BROKEN.model_copy(update={"bursts": shared}))
    for _ in range(100):
        for slot in range(3):
            episode.submit(slot)
        for _ in range(3):
            episode.wait()
    down = [{call.started_s for call in episode.calls if call.slot == s and call.status is Status.OUTAGE} for s in range(3)]
    assert down[0] and down[0] == down[1] and not down[2]


def test_an_outage_is_under_way_as_often_as_at_any_time_of_a_long_episode():
    bursts = Bursts(every_s=60.0, lasts_s=20.0, under_way=True)
    world = small_world(tool("a", latency_s=0.25), failures=BROKEN.model_copy(update={"bursts": bursts}), copies=1)
    episodes = [world.episode(0, seed) for seed in range(2000)]
    for at_s in (0.0, 7.0, 300.0):
        assert sum(episode.bursts.cover(at_s) for episode in episodes) / 2000 == pytest.approx(0.25, abs=0.03)


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
    change = WorldEvent(0.5, "price_change", (0,), 3.0)
    episode = play(tool("a", fee=2.0), tool("b", 1, fee=5.0), events=[change])
    first = episode.submit(0)
    assert episode.wait() is change
    assert episode.quote(0) == 6.0
    assert episode.wait() is first
    second, other = episode.call(0), episode.call(1)
    assert [call.price for call in (first, second, other)] == [2.0, 6.0, 5.0]


def test_a_queued_call_pays_the_price_at_its_start():
    episode = play(tool("a", fee=2.0, concurrency=1), events=[WorldEvent(0.5, "price_change", (0,), 3.0)])
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
    episode = play(spec, faas=faas, events=[WorldEvent(2.0, "price_change", (0,), 7.0)])
    episode.submit(0)
    episode.advance(4.0)
    episode.finish()
    assert episode.ledger.price == pytest.approx(faas.per_run + 3.0 * rate, rel=1e-12)


@pytest.mark.parametrize("billed", [False, True])
@pytest.mark.parametrize("faas", [None, FaasPricing.opencatp()])
def test_a_call_cut_off_while_it_loads_costs_only_the_load_that_is_billed(faas: FaasPricing | None, billed: bool):
    spec = tool("a", fee=2.0, cpu_cons_mb=1000.0, latency_s=10.0, cold_start_s=1.0)
    rate = 0.0 if faas is None else float(faas.rate_per_ms(1000.0, 0.0, 0.0, 0.0)) * 1000.0
    loading, loaded = (play(spec, faas=faas, bill_cold_start=billed) for _ in range(2))
    for episode, seconds in ((loading, 0.5), (loaded, 1.0)):
        episode.submit(0)
        episode.advance(seconds)
        episode.finish()
    assert (loading.ledger.price, loading.ledger.calls) == (pytest.approx(0.5 * rate * billed, rel=1e-12), 0)
    fee = 2.0 if faas is None else faas.per_run
    assert (loaded.ledger.price, loaded.ledger.calls) == (pytest.approx(fee + rate * billed, rel=1e-12), 1)


# -- cancelling: rule 8 while the episode goes on ------------------------------------------------------------------------------


def test_a_cancelled_call_gives_its_slot_to_the_next_and_costs_its_fee():
    episode = play(tool("a", fee=2.0, latency_s=5.0, concurrency=1))
    first, second = episode.submit(0), episode.submit(0)
    episode.advance(1.0)
    episode.cancel(first)
    assert (first.status, first.finished_s, first.price, episode.now_s) == (Status.CANCELLED, 1.0, 2.0, 1.0)
    assert (second.started_s, episode.in_flight, episode.reserved, episode.ledger.calls) == (1.0, 1, 2.0, 1)
    assert episode.wait() is second and episode.now_s == 6.0
    assert (episode.in_flight, episode.reserved, episode.ledger.price) == (0, 0.0, 4.0)
    assert state(episode.fork()) == state(episode)


def test_a_cancelled_call_that_waits_or_loads_costs_nothing_and_one_that_had_loaded_leaves_a_warm_instance():
    episode = play(tool("a", fee=2.0, latency_s=5.0, cold_start_s=3.0, concurrency=1))
    loading, waiting = episode.submit(0), episode.submit(0)
    episode.advance(1.0)
    episode.cancel(waiting)
    episode.cancel(loading)
    assert (loading.price, waiting.price, episode.ledger.price, episode.in_flight) == (0.0, 0.0, 0.0, 0)
    loaded = episode.submit(0)
    episode.advance(4.0)
    assert loaded.cold
    episode.cancel(loaded)
    assert not episode.call(0).cold and episode.ledger.price == 4.0
    assert state(episode.fork()) == state(episode)


def test_a_cancelled_call_under_pay_per_use_costs_its_elapsed_part_and_may_end_the_episode():
    faas = FaasPricing()
    whole = play(tool("a", latency_s=4.0), faas=faas)
    price = whole.call(0).price
    episode = play(tool("a", latency_s=4.0), faas=faas)
    call = episode.submit(0)
    episode.advance(1.0)
    episode.cancel(call)
    assert faas.per_run < call.price < price
    ended = play(tool("a", latency_s=4.0), faas=faas, budget=Budget(price=call.price / 2), enforcement="terminate")
    late = ended.submit(0)
    ended.advance(1.0)
    ended.cancel(late)
    assert (ended.over, ended.exceeded) == (True, "price")

"""The optimum: exact where it says so, never beaten, never over its budget."""

import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.simulators.calls import WorldEvent
from costgym.simulators.failures import Bursts, FailureModel
from costgym.simulators.ledger import Budget
from costgym.simulators.oracle.optimum import WAIT, Optimum, facts_wanted, optimum
from costgym.simulators.pricing import FaasPricing
from costgym.simulators.quality import quality_of_plan
from costgym.simulators.status import Status
from costgym.simulators.tasks import Judge
from costgym.simulators.world import World
from tests.helpers.worlds import BROKEN, small_world, tool

SHAKY = FailureModel(usable=0.5)
CERTAIN = Judge(all_facts=1.0, none=0.0)


def shaky_world(copies: int = 40, **settings) -> World:
    settings.setdefault("failures", SHAKY)
    return small_world(
        tool("a", 0, fee=2.0, reliability=0.5, latency_spread=0.5),
        tool("b", 0, fee=5.0, reliability=0.9, latency_s=0.4),
        tool("c", 1, fee=1.0, reliability=0.3),
        tool("d", 1, fee=4.0, reliability=0.8, latency_s=2.0),
        after={1: (0,)},
        copies=copies,
        **settings,
    )


def replay(world: World, number: int, seed: int, best: Optimum, budget: Budget | None = None, enforcement="record"):
    """Play the plan's actions on a fresh episode and finish."""
    episode = world.episode(number, seed, budget, enforcement)
    for action in best.actions:
        if action >= 0:
            episode.submit(int(action))
        elif action == WAIT:
            episode.wait()
        else:
            episode.advance(-1 - action)
    episode.finish()
    return episode


def brute_force(world: World, number: int, budget: Budget, calls: int) -> float | None:
    """The least price of a strict pass within the budget over all sequences of at most so many calls, one after the other."""
    best = None
    for length in range(calls + 1):
        for slots in product(range(len(world.candidates(number))), repeat=length):
            episode = world.episode(number, 0, budget, "record")
            for slot in slots:
                episode.call(slot)
            episode.finish()
            if episode.success and (best is None or episode.ledger.price < best):
                best = episode.ledger.price
    return best


def test_the_cheapest_tool_is_called_until_it_works():
    world = small_world(tool("dear", fee=5.0), tool("cheap", fee=2.0), tool("other", 1, fee=3.0))
    best = optimum(world, 0, 0)
    assert best == Optimum((1, 2), (1, WAIT, 2, WAIT), 5.0, 2.0, True, True, best.quality, best.quality)
    assert best.quality == pytest.approx(float(quality_of_plan(1.0, 5.0, 0.5, 100.0)))


def test_tries_that_are_bound_to_fail_are_paid_for_only_where_they_are_still_cheaper():
    failures = SHAKY.model_copy(update={"slip": 0.0})
    world = small_world(tool("lame", fee=1.0, reliability=0.5), tool("sure", fee=3.0), failures=failures)
    plans = {optimum(world, 0, seed).plan for seed in range(60)}
    assert (0,) in plans and (1,) in plans and (0, 0) in plans
    for seed in range(60):
        best = optimum(world, 0, seed)
        assert best.price == (3.0 if best.plan == (1,) else float(len(best.plan))) <= 3.0


@pytest.mark.parametrize("budget", [Budget(), Budget(price=6.0), Budget(calls=2), Budget(price=9.0, calls=3)])
def test_small_worlds_are_solved_as_brute_force_solves_them(budget):
    world = shaky_world()
    solved = 0
    for number in range(15):
        best = optimum(world, number, 0, budget)
        plan = brute_force(world, number, budget, 4)
        if plan is not None:
            solved += 1
            assert best.feasible and best.exact and best.price <= plan
            if len(best.plan) <= 4:
                assert best.price == plan
        elif best.feasible:
            assert len(best.plan) > 4
    assert solved >= 3


def test_the_plan_played_gives_what_it_promises():
    faas = shaky_world(faas=FaasPricing.opencatp())
    for grading, world in (("strict", shaky_world()), ("judge", shaky_world()), ("strict", faas)):
        for number in range(40):
            best = optimum(world, number, 0, Budget(price=12.0), grading)
            episode = replay(world, number, 0, best, Budget(price=12.0))
            assert (episode.ledger.price, episode.now_s) == (best.price, best.seconds)
            assert best.plan == tuple(call.slot for call in episode.calls)
            assert all(episode.known) == best.feasible or not best.feasible
            if best.feasible:
                assert episode.grade.strict and episode.exceeded is None


def test_rising_prices_bans_and_bursts_are_met_by_a_search():
    bursts = SHAKY.model_copy(update={"bursts": Bursts(every_s=2.0, lasts_s=1.0)})
    events = [WorldEvent(1.0, "price_change", (0, 2), 3.0), WorldEvent(1.5, "ban", (3,)), WorldEvent(4.0, "unban", (3,))]
    world = shaky_world(failures=bursts, events=events)
    for number in range(15):
        best = optimum(world, number, 0, Budget(price=30.0))
        plan = brute_force(world, number, Budget(price=30.0), 3)
        assert best.quality >= best.achieved
        if plan is not None:
            assert best.feasible and best.price <= plan + 1e-9
        if best.exact and best.feasible:
            assert best.quality == best.achieved


def test_an_outage_that_no_call_has_met_is_waited_out():
    # one call is allowed, after a ban and an outage that only the oracle knows of
    events = [WorldEvent(0.0, "ban", (0,)), WorldEvent(1.0, "unban", (0,))]
    bursts = FailureModel(usable=1.0, slip=0.0, bursts=Bursts(every_s=2.0, lasts_s=1.0))
    world, budget, covered = small_world(tool("a"), failures=bursts, events=events, copies=40), Budget(calls=1), 0
    for number in range(40):
        episode = world.episode(number, 0, budget, "record")
        episode.advance(1.0)
        covered += episode.bursts.cover(episode.now_s)
        while episode.bursts.cover(episode.now_s):
            episode.advance(max(end for begin, end in episode.bursts.spans if begin <= episode.now_s) - episode.now_s)
        episode.call(0)
        episode.finish()
        best = optimum(world, number, 0, budget)
        assert episode.success and best.feasible and best.exact and best.price == episode.ledger.price
    assert covered >= 5


def test_what_can_be_done_before_the_price_rises_is_done_side_by_side():
    events = [WorldEvent(0.5, "price_change", (0, 1), 10.0)]
    world = small_world(tool("a", 0, fee=2.0), tool("b", 1, fee=2.0), events=events)
    best = optimum(world, 0, 0)
    assert (best.price, best.exact, best.seconds) == (4.0, True, 1.0)


def test_a_price_that_falls_is_waited_for_by_the_patient_alone():
    world = small_world(tool("a", fee=8.0), events=[WorldEvent(5.0, "price_change", (0,), 0.25)])
    patient, hasty = optimum(world, 0, 0), optimum(world, 0, 0, patient=False)
    assert (patient.price, patient.exact, hasty.price, hasty.exact) == (2.0, True, 8.0, False)
    assert hasty.quality >= hasty.achieved


def test_a_rate_limit_is_waited_out_by_the_patient():
    failures = BROKEN.model_copy(update={"slip": 0.0})
    world = small_world(tool("a", reliability=0.5, rate_limit=1, window_s=20.0), failures=failures)
    for seed in range(30):
        best = optimum(world, 0, seed)
        if len(best.plan) > 1:
            assert best.feasible and best.seconds >= 20.0 * (len(best.plan) - 1)
            assert not optimum(world, 0, seed, patient=False).feasible
            break
    else:
        pytest.fail("no seed needs a second call")


def test_a_deadline_is_kept_by_calling_side_by_side():
    world = small_world(tool("a", 0, latency_s=2.0), tool("b", 1, latency_s=2.0), tool("fast", 1, latency_s=0.5, fee=9.0))
    assert optimum(world, 0, 0, Budget(seconds=4.0)).seconds == 4.0
    assert optimum(world, 0, 0, Budget(seconds=3.0)).seconds == 2.0
    assert optimum(world, 0, 0, Budget(seconds=3.0)).price == 2.0
    assert not optimum(world, 0, 0, Budget(seconds=1.0)).feasible


def test_a_judge_is_given_no_more_facts_than_it_takes():
    world = shaky_world(judge=Judge())
    wanted = [facts_wanted(world.episode(number, 0), "judge") for number in range(40)]
    assert {0, 1, 2} <= set(wanted)
    for number, facts in enumerate(wanted):
        best = optimum(world, number, 0, grading="judge")
        episode = replay(world, number, 0, best)
        if facts is None:
            assert (best.plan, best.quality) == ((), 0.0)
        elif facts == 0:
            assert (best.plan, best.quality, episode.grade.judged) == ((), 0.5, True)
        else:
            assert sum(episode.known) == facts and episode.grade.judged


def test_an_unsolvable_task_costs_nothing_and_passes_the_judge_alone():
    world = small_world(tool("a", -1), solvable=False)
    assert optimum(world, 0, 0) == Optimum((), (), 0.0, 0.0, False, True, 0.0, 0.0)
    assert optimum(world, 0, 0, grading="judge").quality == 0.5


def test_where_a_strict_pass_is_out_of_reach_a_judges_pass_is_bought():
    world = small_world(tool("a", 0, fee=2.0), tool("b", 1, fee=50.0), judge=Judge(all_facts=1.0, none=0.0), copies=30)
    bought = 0
    for number in range(30):
        best = optimum(world, number, 0, Budget(price=10.0))
        episode = replay(world, number, 0, best)
        assert not best.feasible and best.quality == 0.0
        assert episode.grade.judged == (best.plan == (0,))
        bought += best.plan == (0,)
    assert 5 <= bought <= 25


def test_a_plan_that_costs_more_than_a_pass_is_worth_is_not_played():
    world = small_world(tool("a", fee=30.0), max_price=20.0, judge=CERTAIN)
    assert optimum(world, 0, 0) == Optimum((), (), 0.0, 0.0, False, True, 0.0, 0.0)
    assert optimum(small_world(tool("a", fee=30.0), max_price=40.0), 0, 0).feasible


def test_an_optimum_is_looked_up_the_second_time():
    world = shaky_world()
    assert optimum(world, 3, 0, Budget(price=9.0)) is optimum(world, 3, 0, Budget(price=9.0))
    assert optimum(world, 3, 0, Budget(price=9.0)) is not optimum(world, 3, 1, Budget(price=9.0))


STORMY = shaky_world(8, failures=FailureModel(usable=0.5, bursts=Bursts(every_s=3.0, lasts_s=1.0)))
WORLDS = (shaky_world(8), shaky_world(8, faas=FaasPricing.opencatp(), max_price=1.0), STORMY)


LIMITS = st.sampled_from([None, 4.0, 8.0, 15.0])


@given(st.sampled_from([0, 1, 2]), st.integers(0, 7), st.integers(0, 10**6), LIMITS, st.integers(0, 10**6))
def test_no_random_rollout_that_passes_is_cheaper_than_the_oracle(kind, number, seed, price, luck):
    world, budget, chance = WORLDS[kind], Budget(price=price), random.Random(luck)
    best = optimum(world, number, seed, budget)
    for _ in range(50):
        episode = rollout(world, number, seed, budget, chance)
        if episode.success:
            assert best.quality >= quality_of_plan(1.0, episode.ledger.price, world.alpha, world.max_price) - 1e-12
            if world is not STORMY:
                assert best.feasible and best.exact and best.price <= episode.ledger.price + 1e-12


def rollout(world: World, number: int, seed: int, budget: Budget, chance: random.Random):
    episode = world.episode(number, seed, budget)
    for _ in range(chance.randrange(1, 14)):
        if episode.over:
            break
        if episode.in_flight and chance.random() < 0.6:
            episode.wait()
        else:
            episode.submit(chance.randrange(4))
    while not episode.over and episode.in_flight:
        episode.wait()
    if not episode.over:
        episode.finish()
    return episode


def test_the_status_of_a_refusal_is_no_try():
    world = small_world(tool("a", quota=1))
    episode = world.episode(0)
    episode.call(0)
    assert episode.call(0).status is Status.QUOTA_EXCEEDED
    assert optimum(world, 0, 0).plan == (0,)

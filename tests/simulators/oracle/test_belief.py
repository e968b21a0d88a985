"""The filter over a tool's hidden state, and the informed policy that calls by it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.simulators.failures import FailureModel, state_chances
from costgym.simulators.ledger import Budget
from costgym.simulators.oracle.expected_optimum import ExpectedOptimumPolicy, Offer, choose_call
from costgym.simulators.rules.gateway import admits
from costgym.simulators.status import Status
from costgym.simulators.world.belief import Belief, cut_share
from tests.helpers.worlds import Spec, small_world, tool

MODEL = FailureModel(slip=0.1, persistence=0.3)


def belief_of(reliability: float, model: FailureModel, cut: float = 0.0) -> Belief:
    alive, degraded = state_chances(reliability, model.slip)
    return Belief((alive, degraded, 1.0 - alive - degraded), model, cut=cut)


def test_a_belief_starts_at_the_reliability_and_follows_the_outcomes() -> None:
    belief = belief_of(0.5, MODEL)
    assert belief.chance == pytest.approx(0.45 * 0.9 + 0.1 * 0.5 + 0.45 * 0.1)
    belief.learn(Status.SERVER_ERROR)
    once = belief.chance
    belief.learn(Status.SERVER_ERROR)
    assert belief.chance < once < 0.25
    assert belief._weights.sum() == pytest.approx(1.0)
    belief = belief_of(0.5, MODEL)
    belief.learn(Status.OK)
    assert belief.chance > 0.8


FAILURES = (Status.SERVER_ERROR, Status.TIMEOUT, Status.CONNECTION_ERROR, Status.EMPTY)


@given(st.floats(0.0, 1.0), st.lists(st.sampled_from((Status.OK, *FAILURES)), max_size=6), st.sampled_from(FAILURES))
def test_a_failure_never_raises_the_chance_of_the_next_call(reliability: float, before: list[Status], last: Status) -> None:
    belief = belief_of(reliability, FailureModel())
    for status in before:
        belief.learn(status)
    chance = belief.chance
    belief.learn(last)
    assert belief.chance <= chance + 1e-12
    assert -1e-12 <= belief.chance <= 1.0 + 1e-12


def test_a_time_out_may_be_a_tool_that_works_and_is_slow() -> None:
    model = FailureModel(slip=0.0, persistence=0.0, kinds={"timeout": 1.0})
    alive, degraded = state_chances(0.5, 0.0)
    belief = belief_of(0.5, model, cut=0.5)
    assert belief.chance == pytest.approx(0.25)
    belief.learn(Status.TIMEOUT)
    weights = [alive * 0.5, degraded * (0.5 * 0.5 + 0.5), 1.0 - alive - degraded]
    assert belief._weights.sum(axis=(1, 2)) == pytest.approx([weight / sum(weights) for weight in weights])


def test_an_outage_tells_nothing_of_the_tool() -> None:
    belief = belief_of(0.8, MODEL)
    belief.learn(Status.SERVER_ERROR)
    before, chance = belief._weights.sum(axis=(1, 2)), belief.chance
    belief.learn(Status.OUTAGE)
    assert belief._weights.sum(axis=(1, 2)) == pytest.approx(before)
    # the pull towards the call before is lost: a call after a failure that nobody saw is more likely to work
    assert belief.chance > chance


def test_a_filtered_chance_is_the_frequency_with_which_calls_work() -> None:
    """400 episodes of each kind of tool: what the belief says before a call, beside what the call brought."""
    spread = tool("slow", latency_s=20.0, latency_spread=0.5, reliability=0.6, timeout_s=30.0)
    world = small_world(spread, failures=FailureModel(), copies=1000)
    known, brought = [], []
    for number in range(1000):
        episode = world.episode(number, 3)
        belief = Belief.of(episode.candidates[0], world.failures)
        for _ in range(4):
            known.append(belief.chance)
            status = episode.call(0).status
            brought.append(status is Status.OK)
            belief.learn(status)
    for low in (0.0, 0.2, 0.4, 0.6):
        here = [index for index, chance in enumerate(known) if low <= chance < low + 0.2]
        if len(here) > 150:
            mean = sum(known[position] for position in here) / len(here)
            assert sum(brought[position] for position in here) / len(here) == pytest.approx(mean, abs=0.04)


def test_the_share_that_is_cut_off_is_counted_in_the_quantiles() -> None:
    world = small_world(
        tool("a", latency_s=60.0, timeout_s=30.0), tool("b", latency_s=30.0, latency_spread=0.5, timeout_s=30.0)
    )
    first, second = world.candidates(0)
    assert cut_share(first) == 1.0
    assert cut_share(second) == 0.5
    assert cut_share(second, 1.0) == 1.0


def offers(*rows: tuple[int, float, float], need: int = 0) -> list[Offer]:
    return [Offer(slot, need, price, price, chance) for slot, price, chance in rows]


def test_the_lowest_price_over_chance_is_called_first() -> None:
    assert choose_call(offers((0, 2.0, 0.4), (1, 4.0, 1.0)), [0], [True], 20.0, 0.01) == 1
    assert choose_call(offers((0, 1.0, 0.4), (1, 4.0, 1.0)), [0], [True], 20.0, 0.01) == 0
    assert choose_call(offers((0, 1.0, 0.4), (1, 4.0, 1.0)), [0], [True], 0.5, 0.01) is None
    assert choose_call(offers((0, 1.0, 0.005)), [0], [True], 20.0, 0.01) is None


def test_a_call_after_which_the_rest_cannot_be_paid_is_not_made() -> None:
    two = [*offers((0, 6.0, 1.0), (1, 5.0, 0.5)), *offers((2, 5.0, 1.0), need=1)]
    assert choose_call(two, [0, 1], [True, False], 11.0, 0.01) == 0
    assert choose_call(two, [0, 1], [True, False], 10.0, 0.01) == 1
    assert choose_call(two, [0, 1], [True, False], 9.0, 0.01) is None


def chosen(*tools: Spec, budget: Budget | None = None) -> int | None:
    """The slot that the informed policy calls first."""
    world = small_world(*tools)
    episode = world.episode(0, 0, budget, "refuse")
    return ExpectedOptimumPolicy(world, 0).choose(episode)


def test_the_informed_know_what_the_time_out_cuts_off() -> None:
    assert chosen(tool("cheap", fee=1.0, latency_s=60.0, timeout_s=30.0), tool("dear", fee=9.0)) == 1
    assert chosen(tool("cheap", fee=1.0, latency_s=60.0, timeout_s=30.0)) is None


def test_the_informed_know_limits_and_what_they_have_used_of_them() -> None:
    world = small_world(tool("window", rate_limit=1, window_s=10.0), tool("quota", quota=1), tool("free"))
    episode = world.episode(0)
    admitted = lambda: [admits(episode, episode, 0, slot) for slot in range(3)]  # noqa: E731
    assert admitted() == [True, True, True]
    episode.call(0)
    assert admitted() == [False, True, True]
    episode.call(1)
    episode.advance(10.0)
    assert admitted() == [True, False, True]


def test_the_informed_know_that_a_limit_of_seconds_ends_the_episode() -> None:
    tools = tool("slow", fee=1.0, latency_s=5.0), tool("quick", fee=9.0, latency_s=1.0)
    assert chosen(*tools, budget=Budget(seconds=10.0)) == 0
    assert chosen(*tools, budget=Budget(seconds=3.0)) == 1
    cold = tool("slow", fee=1.0, latency_s=2.0, cold_start_s=4.0), tools[1]
    assert chosen(*cold, budget=Budget(seconds=7.0)) == 0
    assert chosen(*cold, budget=Budget(seconds=5.0)) == 1

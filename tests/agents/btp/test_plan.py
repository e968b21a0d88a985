"""The knapsack behind BTP: optimal, within budget, and careful with ties."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.agents.btp.plan import BtpSettings, expected_value, frequency_cap, plan_tool_usage
from costgym.simulators.errors import ConfigError

WHOLE = st.tuples(st.integers(0, 9), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0]), st.integers(0, 3))
REAL = st.tuples(st.floats(0.01, 9), st.floats(0.0, 1.0), st.integers(0, 3))


def brute(tools, budget):
    ranges = [range(cap + 1) for _, _, cap in tools]
    plans = (plan for plan in itertools.product(*ranges) if sum(n * t[0] for n, t in zip(plan, tools, strict=True)) <= budget)
    return max(sum(n * t[1] for n, t in zip(plan, tools, strict=True)) for plan in plans)


def total(plan, numbers):
    return sum(n * number for n, number in zip(plan, numbers, strict=True))


@given(st.lists(WHOLE, max_size=5), st.integers(0, 30))
def test_a_plan_is_optimal_within_its_caps_and_budget(tools, budget):
    costs, values, caps = ([t[i] for t in tools] for i in range(3))
    plan = plan_tool_usage(costs, values, caps, budget)
    assert all(0 <= n <= cap for n, cap in zip(plan, caps, strict=True))
    assert total(plan, costs) <= budget
    assert total(plan, values) == pytest.approx(brute(tools, budget))


@given(st.lists(REAL, max_size=4), st.floats(0.01, 30))
def test_real_costs_never_pass_the_budget_and_lose_next_to_nothing(tools, budget):
    costs, values, caps = ([t[i] for t in tools] for i in range(3))
    plan = plan_tool_usage(costs, values, caps, budget)
    assert total(plan, costs) <= budget * (1 + 1e-9)
    # a unit is a 20,000th of what can be spent; a plan of a dozen uses loses a dozen units at most
    assert total(plan, values) >= brute(tools, budget * 0.999) - 1e-9


def test_ties_go_to_the_cheaper_plan_and_the_earlier_tool():
    assert plan_tool_usage([3, 2], [0.5, 0.5], [1, 1], 4) == [0, 1]
    assert plan_tool_usage([2, 2], [0.5, 0.5], [1, 1], 3) == [1, 0]


def test_nothing_is_planned_that_is_worth_nothing_or_cannot_be_had():
    assert plan_tool_usage([1, 1, math.inf, 50], [0.0, 0.5, 1.0, 1.0], [5, 2, 5, 5], 20) == [0, 2, 0, 0]
    assert plan_tool_usage([1], [1.0], [5], -3.0) == [0]


def test_a_huge_budget_takes_everything_that_helps():
    assert plan_tool_usage([0.3, 7], [0.2, 0.9], [4, 2], 1e12) == [4, 2]
    assert plan_tool_usage([3, 7], [0.2, 0.9], [4, 2], math.inf) == [4, 2]


def test_small_prices_are_planned_as_exactly_as_large_ones():
    assert plan_tool_usage([0.0003, 0.0002], [0.9, 0.5], [3, 3], 0.0008) == [2, 1]


@pytest.mark.parametrize("costs,values,caps,budget", [([1], [1, 2], [1], 3), ([-1], [1], [1], 3), ([1], [math.nan], [1], 3)])
def test_numbers_that_make_no_sense_are_refused(costs, values, caps, budget):
    with pytest.raises(ConfigError):
        plan_tool_usage(costs, values, caps, budget)


def test_a_value_is_the_weighted_share_of_helpful_uses():
    settings = BtpSettings.paper()
    assert expected_value([1.0, 0.0], [1, 0], settings) == pytest.approx(math.e / (math.e + 1))
    assert expected_value([], [], settings) == 0.1


def test_the_prior_pulls_a_value_towards_a_tenth():
    assert expected_value([1.0], [1], BtpSettings.published()) == pytest.approx((1.0 + 0.1) / 2.0)
    assert expected_value([], []) == pytest.approx(0.1)


def test_caps_follow_the_rules_in_their_order():
    settings = BtpSettings()
    assert frequency_cap([], [], 0.0, settings) == 1
    assert frequency_cap([0.5], [4], 0.149, settings) == 0
    assert frequency_cap([0.5, 0.5], [4, 1], 0.5, settings) == 3  # 2.5, half up
    assert frequency_cap([0.5, 0.5], [4, 1], 0.5, BtpSettings.published()) == 2
    assert frequency_cap([0.5], [4], 0.5, settings, helpful=[0]) == 1


@pytest.mark.parametrize(
    "wrong", [{"threshold": -1}, {"threshold": math.nan}, {"rounding": "up"}, {"unseen_cap": -1}, {"similarity": "x"}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError):
        BtpSettings(**wrong)


@given(data=st.data(), count=st.integers(2, 40))
def test_estimates_do_not_depend_on_the_order_in_which_a_library_adds(data, count):
    likeness = data.draw(st.lists(st.sampled_from([0.0, 0.1, 1 / 3, 0.7, 1.0]), min_size=count, max_size=count))
    counts = data.draw(st.lists(st.integers(1, 4), min_size=count, max_size=count))
    helped = data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=count, max_size=count))
    order = data.draw(st.permutations(range(count)))

    def estimates(places):
        near, uses, right = ([row[place] for place in places] for row in (likeness, counts, helped))
        value = expected_value(near, right)
        return value, frequency_cap(near, uses, value, helpful=right)

    assert estimates(range(count)) == estimates(order)

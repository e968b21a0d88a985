"""Records of episodes, rows of the leaderboard and their intervals."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.experiments.board.conditions import budget_order, rank_rows
from costgym.experiments.play.metrics import METRICS, paired_difference, summarise
from costgym.experiments.play.results import EpisodeResult
from costgym.simulators.errors import ConfigError, DataError, UnknownName
from tests.helpers.boards import record

CONTRACT = {
    "agent", "model", "env", "budget", "episodes", "grading", "pass_rate", "pass_rate_under_budget", "judged_pass_rate",
    "judged_pass_rate_under_budget", "average_cost", "budget_failure_rate", "quality_of_plan", "average_seconds",
    "average_tokens", "tool_error_rate", "regret", "ci95",
}  # fmt: skip


def test_a_record_survives_json_and_equal_records_have_equal_bytes():
    first = record(budget={"price": 20}, price=5, errors={"tool": 1}, errors_by_status={"timeout": 1, "empty": 2})
    second = record(
        budget={"price": np.float64(20)}, price=np.float64(5), errors={"tool": np.int64(1), "agent": 0},
        errors_by_status={"empty": 2, "timeout": 1},
    )  # fmt: skip
    assert first == second
    assert first.to_json() == second.to_json()
    assert EpisodeResult.from_json(first.to_json()) == first
    assert EpisodeResult.from_json(first.to_json()).to_json() == first.to_json()
    assert "\n" not in first.to_json()


@given(
    price=st.floats(0, 1e9), seconds=st.floats(0, 1e9), quality=st.floats(-5, 1), regret=st.none() | st.floats(-1, 5),
    task=st.text(), tokens=st.integers(0, 10**12),
)  # fmt: skip
def test_any_record_comes_back_from_json_as_it_was(price, seconds, quality, regret, task, tokens):
    whole = record(price=price, seconds=seconds, quality=quality, regret=regret, task=task, tokens=tokens)
    assert EpisodeResult.from_json(whole.to_json()) == whole


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("price", math.nan), ("price", -1), ("seconds", math.inf), ("share", 1.5), ("tokens", 2.5), ("calls", -1),
        ("exceeded", "money"), ("budget", {"gold": 3}), ("budget", {"price": 0}), ("errors", {"user": 1}), ("strict", "yes"),
        ("task", 7), ("regret", math.nan), ("errors_by_status", {"timeout": -1}), ("errors", None),
    ],
)  # fmt: skip
def test_a_record_refuses_what_cannot_be_and_names_the_field(field, value):
    with pytest.raises(DataError, match=field):
        record(**{field: value})


@pytest.mark.parametrize("line", ["", "[1]", "{", '{"agent": "react"}', record().to_json()[:-20]])
def test_a_broken_line_is_no_record(line):
    with pytest.raises(DataError, match="episode record"):
        EpisodeResult.from_json(line)


def test_a_row_has_the_names_of_the_contract_and_is_plain_json():
    row = summarise([record(i) for i in range(4)])
    assert row.keys() >= CONTRACT
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert row["ci95"].keys() == set(METRICS)


def test_passes_count_under_the_budget_only_when_nothing_was_overspent():
    results = [
        record(0),
        record(1, price=25, exceeded="price"),
        record(2, strict=False, judged=True, price=8),
        record(3, strict=False, judged=False, price=30, exceeded="price"),
    ]
    row = summarise(results)
    assert row["pass_rate"] == 0.5
    assert row["pass_rate_under_budget"] == 0.25
    assert row["judged_pass_rate"] == 0.75
    assert row["judged_pass_rate_under_budget"] == 0.5
    assert row["budget_failure_rate"] == 0.5
    assert row["average_cost"] == 17.0
    assert row["quality_of_plan"] == 0.75
    assert row["average_seconds"] == 2.5
    assert row["average_tokens"] == 100.0
    assert row["regret"] == 0.05
    assert (row["tool_error_rate"], row["agent_error_rate"], row["infrastructure_error_rate"]) == (0.25, 0.0, 0.0)
    assert row["errors"] == {"agent": 0, "tool": 4, "infrastructure": 0}


def test_spending_exactly_the_limit_is_within_it_on_every_resource():
    assert record(budget={"price": 5, "seconds": 2.5, "tokens": 100, "calls": 2}).within_budget
    for resource, limit in {"price": 4.9, "seconds": 2.4, "tokens": 99, "calls": 1}.items():
        assert not record(budget={resource: limit}).within_budget
    assert record(budget={}, price=1e9).within_budget


def test_an_episode_without_a_record_is_a_failure_that_cost_nothing():
    row = summarise([record(0), record(2)], episodes=4)
    assert (row["episodes"], row["missing_episodes"]) == (4, 2)
    assert row["pass_rate"] == 0.5
    assert row["average_cost"] == 2.5
    assert row["regret"] == 0.05
    assert row["tool_error_rate"] == 0.25


def test_a_void_episode_is_nobodys_failure_and_is_reported():
    row = summarise([record(0), record(1, void=True, strict=False, price=99, errors={"infrastructure": 1})])
    assert (row["episodes"], row["void_episodes"]) == (2, 1)
    assert row["pass_rate"] == 1.0
    assert row["average_cost"] == 5.0
    assert row["errors"]["infrastructure"] == 0


def test_figures_without_an_episode_to_stand_on_are_none():
    row = summarise([record(0, void=True)])
    assert all(row[metric] is None for metric in METRICS)
    assert row["ci95"] == {}
    assert summarise([record(0, regret=None)])["regret"] is None


def test_the_order_of_the_records_does_not_matter():
    results = [record(i, price=i * 0.1, strict=i % 3 == 0) for i in range(30)]
    assert json.dumps(summarise(results)) == json.dumps(summarise(results[::-1]))


@pytest.mark.parametrize(
    "results",
    [
        [],
        [record(0), record(0)],
        [record(0), record(1, agent="dfsdt")],
        [record(0), record(1, budget={"price": 10})],
        [record(0), record(7)],
    ],
)
def test_a_row_is_of_one_agent_one_budget_and_the_episodes_asked_for(results):
    with pytest.raises(ConfigError):
        summarise(results, episodes=2)


def test_an_unknown_grading_or_metric_is_named():
    with pytest.raises(UnknownName, match="nearest: strict"):
        summarise([record()], grading="stric")
    with pytest.raises(UnknownName, match="regret"):
        paired_difference([record()], [record()], "regrets")


def test_an_interval_holds_the_mean_and_shrinks_with_episodes():
    rng = np.random.default_rng(1)

    def width(n):
        row = summarise([record(i, strict=bool(rng.random() < 0.5)) for i in range(n)])
        low, high = row["ci95"]["pass_rate"]
        assert low < row["pass_rate"] < high
        return high - low

    assert width(50) > 1.5 * width(800)


@pytest.mark.slow
def test_a_95_percent_interval_covers_the_truth_about_95_times_in_100():
    rng = np.random.default_rng(2)
    prices = rng.exponential(4.0, size=(300, 100))
    covered = 0
    for sample in prices:
        low, high = summarise([record(i, price=x) for i, x in enumerate(sample)], resamples=400)["ci95"]["average_cost"]
        covered += low <= 4.0 <= high
    assert 0.89 <= covered / 300 <= 0.98


def test_agents_of_the_same_episodes_share_their_resamples():
    rows = [
        summarise([record(i, agent=agent, price=i % 7 + shift) for i in range(40)]) for agent, shift in (("a", 0), ("b", 1))
    ]
    low, high = rows[0]["ci95"]["average_cost"]
    assert rows[1]["ci95"]["average_cost"] == pytest.approx([low + 1, high + 1], abs=1e-9)


def test_a_seed_fixes_the_intervals_and_another_moves_them():
    results = [record(i, price=i % 7) for i in range(40)]
    assert summarise(results, seed=3) == summarise(results, seed=3)
    assert summarise(results, seed=3)["ci95"] != summarise(results, seed=4)["ci95"]


def test_a_constant_difference_between_noisy_agents_has_no_width():
    prices = np.random.default_rng(5).exponential(10, 60)
    a = [record(i, agent="a", price=x + 1) for i, x in enumerate(prices)]
    b = [record(i, agent="b", price=x) for i, x in enumerate(prices)]
    difference = paired_difference(a, b, "average_cost")
    assert difference.episodes == 60
    assert difference.difference == pytest.approx(1.0)
    assert difference.ci95 == pytest.approx((1.0, 1.0))
    assert difference.p_value == pytest.approx(1 / 2001)


def test_equal_agents_do_not_differ():
    a = [record(i, price=i) for i in range(20)]
    difference = paired_difference(a, a, "average_cost")
    assert (difference.difference, difference.ci95, difference.p_value) == (0.0, (0.0, 0.0), 1.0)


def test_a_p_value_agrees_with_the_exact_sign_flip_test():
    gains = [3.0, 1.0, -1.0, 2.0, 4.0, -2.0, 5.0, 1.0]
    flips = 1 - 2 * ((np.arange(2**8)[:, None] >> np.arange(8)) & 1)
    exact = np.mean(np.abs(flips @ gains) >= abs(sum(gains)) - 1e-9)
    a = [record(i, price=10 + gain) for i, gain in enumerate(gains)]
    b = [record(i, price=10) for i in range(8)]
    assert paired_difference(a, b, "average_cost", resamples=20_000).p_value == pytest.approx(exact, abs=0.01)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=24), st.integers(0, 3))
def test_the_interval_holds_no_difference_exactly_where_the_p_value_says_so(gains, seed):
    a = [record(i, price=10 + gain) for i, gain in enumerate(gains)]
    b = [record(i, price=10) for i in range(len(gains))]
    # the rarest of five exchanges is 2 in 32: 400 draws may find it in fewer than 5 of 100
    difference = paired_difference(a, b, "average_cost", seed=seed, resamples=4_000)
    low, high = difference.ci95
    assert low <= difference.difference <= high
    assert (low <= 0 <= high) == (difference.p_value >= 0.05)
    assert len(gains) >= 6 or np.isinf(difference.ci95).all() or not any(gains)


def test_five_wins_in_twenty_are_not_yet_a_lead_and_the_sentence_says_so():
    a = [record(i, agent="greedy", strict=i < 15) for i in range(20)]
    b = [record(i, agent="cheapest", strict=i < 10) for i in range(20)]
    difference = paired_difference(a, b, "pass_rate_under_budget")
    assert (
        difference.difference == 0.25
        and difference.p_value == pytest.approx(2 / 32, abs=0.02)
        and difference.ci95[0] <= 0 < difference.ci95[1]
    )
    start = "greedy less cheapest, success: +25 points (0 to +4"
    assert repr(difference).startswith(start) and repr(difference).endswith(", 20 episodes: it may be chance")
    few = paired_difference(a[9:12], b[9:12], "pass_rate_under_budget")
    assert "3 episodes are too few for an interval" in str(few) and few.ci95 == (-1.0, 1.0)


def test_only_common_valid_episodes_are_compared():
    a = [record(i, strict=True) for i in range(5)]
    b = [record(i, strict=False, void=i == 3) for i in range(2, 9)]
    assert paired_difference(a, b, "pass_rate").episodes == 2
    with pytest.raises(ConfigError, match="common"):
        paired_difference(a[:2], b, "pass_rate")


def test_another_world_under_the_same_index_is_no_pair():
    with pytest.raises(ConfigError, match="episode 0"):
        paired_difference([record(0)], [record(0, seed=1)], "pass_rate")


def test_rows_are_ranked_by_budget_then_pass_rate_then_price():
    def row(agent, limit, passed, cost, judged=0.0):
        return {
            "agent": agent, "env": "e", "budget": {"price": limit} if limit else {}, "average_cost": cost,
            "pass_rate_under_budget": passed, "judged_pass_rate_under_budget": judged,
        }  # fmt: skip

    rows = [
        row("d", None, 0.9, 1),
        row("c", 20, 0.5, 9, 0.9),
        row("b", 20, 0.5, 3, 0.7),
        row("a", 10, 0.2, 1),
        row("e", 20, None, 1),
    ]
    assert [r["agent"] for r in rank_rows(rows, {})] == ["a", "b", "c", "e", "d"]
    assert [r["agent"] for r in rank_rows(rows, {}, "judge")] == ["a", "c", "b", "e", "d"]
    assert budget_order({"price": 10}) < budget_order({"price": 20}) < budget_order({})


def test_the_episodes_of_one_task_are_drawn_together():
    a = [record(i, price=10 + i // 2) for i in range(20)]
    b = [record(i, price=10) for i in range(20)]
    tasks = paired_difference(a[::2], b[::2], "average_cost", resamples=4000)
    together = paired_difference(a, b, "average_cost", seeds=2, resamples=4000)
    apart = paired_difference(a, b, "average_cost", resamples=4000)
    width = {name: pair.ci95[1] - pair.ci95[0] for name, pair in (("tasks", tasks), ("all", together), ("apart", apart))}
    assert width["all"] == pytest.approx(width["tasks"], rel=0.1)
    assert width["apart"] < 0.85 * width["all"]

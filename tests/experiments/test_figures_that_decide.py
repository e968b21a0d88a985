"""Intervals of shares, passes under all seeds, cost of a success, and area over budgets."""

from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.experiments.pages.sections import p_text
from costgym.experiments.play.metrics import pass_hat_k, summarise, with_budget_areas, with_fault_robustness
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.statistics import independent_trials, wilson


def result(episode: int, passed: bool, price: float = 5.0, agent: str = "react", **more: Any) -> EpisodeResult:
    settings: dict[str, Any] = {
        "agent": agent, "model": "simulated", "env": "costgym/MarketplaceChat-v0", "task": str(episode), "episode": episode,
        "seed": 0, "budget": {"price": 20}, "strict": passed, "judged": passed, "share": float(passed), "price": price,
        "seconds": 1.0, "tokens": 10, "calls": 1, "attempts": 1, "errors": {}, "errors_by_status": {},
    }  # fmt: skip
    return EpisodeResult(**(settings | more))


def test_nothing_of_two_hundred_may_still_be_two_percent() -> None:
    assert wilson(0.0, 200) == (0.0, pytest.approx(0.0188, abs=1e-4))
    assert wilson(1.0, 200)[0] == pytest.approx(0.9812, abs=1e-4)
    assert wilson(0.5, 100) == (pytest.approx(0.4038, abs=1e-4), pytest.approx(0.5962, abs=1e-4))


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=2, max_size=30))
def test_episodes_of_one_task_tell_no_more_than_so_many_tasks_and_no_less_than_the_tasks(tasks: list[list[bool]]) -> None:
    passed = np.array(tasks, dtype=float)
    trials = independent_trials(passed, np.ones_like(passed))
    assert len(tasks) <= trials <= 4 * len(tasks)
    if all(len(set(task)) == 1 for task in tasks):
        assert trials == len(tasks)


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=12))
def test_a_task_passes_k_times_in_as_many_ways_as_there_are(tasks: list[list[bool]]) -> None:
    results = [result(i, passed) for i, passed in enumerate(p for task in tasks for p in task)]
    expected = [np.mean([comb(sum(task), k) / comb(3, k) for task in tasks]) for k in (1, 2, 3)]
    assert pass_hat_k(results, 3) == pytest.approx(expected)
    assert sorted(pass_hat_k(results, 3), reverse=True) == pass_hat_k(results, 3)


def test_a_success_costs_what_all_episodes_cost_over_those_that_pass() -> None:
    row = summarise([result(i, i < 2, price=4.0 + i) for i in range(4)])
    assert row["cost_per_success"] == pytest.approx((4 + 5 + 6 + 7) / 2)
    assert summarise([result(i, False) for i in range(4)])["cost_per_success"] is None
    priced = summarise([result(i, True, price=6.0, figures={"token_cost": 2.0}) for i in range(4)])
    assert (priced["tool_cost"], priced["token_cost"], priced["average_cost"]) == (4.0, 2.0, 6.0)


def rows_of(shares: dict[str, tuple[int, int, int]]) -> list[dict[str, Any]]:
    rows = []
    for agent, passes in shares.items():
        for limit, count in zip((10.0, 20.0, 40.0), passes, strict=True):
            rows.append(summarise([result(i, i < count, agent=agent, budget={"price": limit}) for i in range(20)]))
    return with_budget_areas([{"track": "text", **row} for row in rows])


def test_the_area_over_budgets_is_that_of_a_trapezoid_over_their_logarithms() -> None:
    rows = rows_of({"react": (0, 10, 20)})
    assert [row["budget_area"] for row in rows] == [0.5] * 3
    single = with_budget_areas(rows[:1])
    assert single[0]["budget_area"] is None


def test_a_small_p_value_is_a_bound():
    assert p_text(0.05) == "p = 0.050"
    assert p_text(0.0001) == "p < 0.001"


def test_fault_robustness_is_success_with_faults_over_success_without():
    calm = [result(i, i < 8) for i in range(10)]
    faulty = [result(i, i < 4 or i == 9) for i in range(10)]
    row = with_fault_robustness(summarise(faulty), faulty, calm)
    assert row["fault_robustness"] == row["judged_fault_robustness"] == pytest.approx(5 / 8)
    low, high = row["ci95"]["fault_robustness"]
    assert low < 5 / 8 < high


def test_one_success_kept_of_one_is_far_from_certain():
    calm, faulty = [result(i, i == 0) for i in range(10)], [result(i, i == 0) for i in range(10)]
    row = with_fault_robustness(summarise(faulty), faulty, calm)
    assert row["fault_robustness"] == 1.0 and row["ci95"]["fault_robustness"][0] < 0.3


def test_without_a_success_there_is_nothing_to_keep_and_void_episodes_count_on_neither_side():
    nothing = [result(i, False) for i in range(4)]
    assert with_fault_robustness(summarise(nothing), nothing, nothing)["fault_robustness"] is None
    calm, faulty = [result(i, True) for i in range(4)], [result(i, i > 1, void=i == 0) for i in range(4)]
    assert with_fault_robustness(summarise(faulty), faulty, calm)["fault_robustness"] == pytest.approx(2 / 3)

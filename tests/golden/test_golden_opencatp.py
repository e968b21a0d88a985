"""Held to what OpenCATP's own functions answered (commit a06e1f2)."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared_data import shared_lines

from costgym.simulators.pricing import FaasPricing
from costgym.simulators.quality import cumulative_reward, quality_of_plan, returns_to_go

RUN = ("exec_time_ms", "cpu_cons_mb", "cpu_inst_mb", "gpu_cons_mb", "gpu_inst_mb")


def test_every_price_is_the_official_one() -> None:
    rows = shared_lines("data/opencatp/price.jsonl")
    pricing = FaasPricing.opencatp()
    scalar = [pricing.price(*(row[name] for name in RUN)) for row in rows]
    assert scalar == pytest.approx([row["price_usd"] for row in rows], rel=1e-9, abs=0.0)
    batched = pricing.price(*(np.array([row[name] for row in rows]) for name in RUN))
    assert batched.tolist() == scalar


def test_negative_measurements_occur_only_as_instant_memory() -> None:
    rows = shared_lines("data/opencatp/price.jsonl")
    negative = {(row["tag"], name) for row in rows for name in RUN if row[name] < 0}
    assert negative <= {("negative_instant_mem", "cpu_inst_mb"), ("negative_instant_mem", "gpu_inst_mb")}


def test_every_quality_of_plan_is_the_official_one() -> None:
    rows = shared_lines("data/opencatp/qop.jsonl")
    scalar = [quality_of_plan(row["score"], row["price_usd"], row["alpha"], row["max_cost"]) for row in rows]
    assert scalar == pytest.approx([row["qop"] for row in rows], rel=1e-9, abs=1e-15)
    columns = (np.array([row[name] for row in rows]) for name in ("score", "price_usd", "alpha"))
    assert quality_of_plan(*columns).tolist() == scalar


def test_every_published_reward_follows_from_the_cumulative_form() -> None:
    for row in shared_lines("data/opencatp/reward.jsonl"):
        ours = cumulative_reward(row["score"], row["cost"], row["is_final"], row["alpha"], row["max_score"], row["scale"])
        assert ours == pytest.approx(row["reward"], rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(("pool", "in_single_precision"), [("seq", 12), ("nonseq", 0)])
def test_rewards_and_returns_of_the_recorded_plans(pool: str, in_single_precision: int) -> None:
    # Image scores reached the official code as numpy.float32, and so did everything it added them to.
    single = 0
    for row in shared_lines(f"data/opencatp/returns_{pool}.jsonl"):
        last = len(row["actions"]) - 1
        is_single = float(np.float32(row["rewards"][-1])) == row["rewards"][-1]
        single += is_single
        scores = [np.float32(score) if is_single else score for score in row["scores"]]
        rewards = [
            cumulative_reward(scores[step + 1], row["costs"][step + 1], step == last, row["alpha"], row["max_score"])
            for step in range(last + 1)
        ]
        assert rewards == pytest.approx(row["rewards"], rel=1e-9, abs=1e-15)
        assert returns_to_go(rewards, row["gamma"]) == pytest.approx(row["returns"], rel=1e-9, abs=1e-12)
    assert single == in_single_precision

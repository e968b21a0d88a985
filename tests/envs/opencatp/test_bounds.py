"""OpenCATP's spaces hold what is observed, and no more than the profile and the limits allow."""

from typing import Any

import numpy as np
import pytest

import costgym
from costgym.envs.opencatp.calls import RESOURCE_FEATURES
from costgym.envs.opencatp.plans import PROGRESS_FEATURES

ENVS = {"costgym/OpenCATP-v0": ("progress", PROGRESS_FEATURES), "costgym/OpenCATPCalls-v0": ("resources", RESOURCE_FEATURES)}
TIGHT = {"price": 0.05, "seconds": 0.5, "tokens": 9, "calls": 2}


@pytest.mark.parametrize("budget", [None, TIGHT], ids=["free", "tight"])
@pytest.mark.parametrize("env_id", ENVS)
def test_the_spaces_hold_what_is_observed_and_are_finite(env_id: str, budget: dict[str, float] | None) -> None:
    env = costgym.make(env_id, tasks="all", budget=budget)
    space: Any = env.observation_space
    chance = np.random.default_rng(0)
    for seed in range(30):
        observation, info = env.reset(seed=seed)
        over = False
        while not over:
            assert space.contains(observation)
            action = int(chance.choice(np.flatnonzero(info["action_mask"])))
            observation, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        assert space.contains(observation)
    assert all(np.isfinite(part.low).all() and np.isfinite(part.high).all() for part in space.values())


@pytest.mark.parametrize("env_id", ENVS)
def test_the_dearest_plan_is_where_the_spaces_end(env_id: str) -> None:
    part, names = ENVS[env_id]
    ends = {} if "Calls" not in env_id else {"enforcement": "terminate"}  # what is refused passes no limit
    env: Any = costgym.make(env_id, budget={"price": 0.1, "calls": 4}, **ends).unwrapped
    dearest = sum(max(env.profile.price(tool, level) for level in range(4)) for tool in env.profile.tools)
    box = env.observation_space[part]
    end = dict(zip(names, zip(box.low.tolist(), box.high.tolist(), strict=True), strict=True))
    assert end["price"][1] == pytest.approx(dearest / env.max_price)
    assert end["price_left"] == pytest.approx((1 - dearest / 0.1, 1))
    assert end["calls_left"] == pytest.approx((1 - 10 / 4, 1))
    assert end["seconds_left"] == pytest.approx((0, 1))
    assert (env.observation_space["tools"].high[:, 2:] <= 1.000001).all()


def test_where_calls_are_refused_the_spaces_end_at_the_limits() -> None:
    env: Any = costgym.make("costgym/OpenCATPCalls-v0", budget={"price": 0.1, "calls": 4}).unwrapped
    box = env.observation_space["resources"]
    end = dict(zip(RESOURCE_FEATURES, zip(box.low.tolist(), box.high.tolist(), strict=True), strict=True))
    assert end["price"][1] == pytest.approx(0.1 / env.max_price)
    assert end["price_left"] == pytest.approx((0, 1), abs=1e-6) and end["calls_left"] == pytest.approx((0, 1), abs=1e-6)

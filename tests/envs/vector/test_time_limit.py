"""Gymnasium's `max_episode_steps` truncates the same steps in the scalar and the native environments."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import costgym
from costgym import ConfigError

LIMIT = 3
ENV_ID = "costgym/Marketplace-v0"


def played(made: Any, steps: int = 60) -> list[dict[str, Any]]:
    """Random actions, most of them under the mask; what each step returned."""
    chance = np.random.default_rng(0)
    observation, info = made.reset(seed=5)
    observations = [dict(observation)]
    for _ in range(steps):
        free = chance.random((made.num_envs, info["action_mask"].shape[1])) * np.where(info["action_mask"], 1.0, 0.2)
        observation, reward, terminated, truncated, info = made.step(free.argmax(1))
        observations.append({**observation, "reward": reward, "terminated": terminated, "truncated": truncated})
    return observations


@pytest.mark.native
@pytest.mark.parametrize("more", [{}, {"max_steps": LIMIT}], ids=["limit", "both"])
def test_a_time_limit_is_the_same_in_the_batch_and_around_the_scalar_environment(more: dict[str, int]) -> None:
    native = gym.make_vec(ENV_ID, 4, max_episode_steps=LIMIT, **more)
    around = gym.make_vec(ENV_ID, 4, max_episode_steps=LIMIT, vectorization_mode="sync", **more)
    assert native.single_observation_space == around.single_observation_space
    assert native.spec is not None and native.spec.max_episode_steps == LIMIT
    ends = set()
    for ours, theirs in zip(played(native), played(around), strict=True):
        for name in theirs:
            np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
        ends |= set(zip(theirs.get("terminated", ()), theirs.get("truncated", ()), strict=True))
    assert {(False, True), (True, False)} <= ends


@pytest.mark.parametrize("mode", ["sync", "async", "vector_entry_point"])
def test_every_vector_form_tells_its_step_limit(mode: str) -> None:
    for limits, limit in (({}, 64), ({"max_steps": 9}, 9), ({"max_episode_steps": 5}, 5)):
        made = costgym.make_vec(ENV_ID, 2, vectorization_mode=mode, **limits)
        assert made.spec is not None and made.spec.max_episode_steps == limit
        made.close()


def test_a_time_limit_is_a_positive_number() -> None:
    with pytest.raises(ConfigError, match="max_episode_steps: expected a positive whole number, got 0"):
        costgym.make_vec(ENV_ID, 2, max_episode_steps=0)

"""Stable-Baselines3 on the native batch sees what it sees on scalar environments."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs the extra `train`")
pytest.importorskip("stable_baselines3", reason="needs the extra `train`")

from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from costgym.envs.marketplace import MarketplaceEnv
from costgym.experiments.train.sb3.vec_env import NativeVecEnv

SOURCE = {"kind": "marketplace", "tools": 40, "providers": 8, "categories": 3, "train": 6, "test": 3, "candidates": 5}
SETTINGS: dict[str, Any] = {"scenario": {"source": SOURCE}, "max_steps": 12}


@pytest.mark.native
def test_steps_rewards_ends_and_episode_sums_are_those_of_dummyvecenv() -> None:
    native = NativeVecEnv(4, **SETTINGS)
    dummy = DummyVecEnv([lambda: Monitor(MarketplaceEnv(**SETTINGS))] * 4)
    generator = np.random.default_rng(0)
    native.seed(3)
    dummy.seed(3)
    first, second = native.reset(), dummy.reset()
    ended = 0
    for _ in range(200):
        assert all(np.array_equal(first[key], second[key]) for key in second)
        actions = generator.integers(0, native.action_space.n, 4)
        first, rewards, done, infos = native.step(actions)
        second, expected, dones, notes = dummy.step(actions)
        assert rewards.tolist() == expected.tolist() and rewards.dtype == np.float32
        assert done.tolist() == dones.tolist()
        for i in np.flatnonzero(done):
            ended += 1
            assert set(infos[i]) == set(notes[i])
            assert infos[i]["episode"]["l"] == notes[i]["episode"]["l"]
            assert infos[i]["episode"]["r"] == pytest.approx(notes[i]["episode"]["r"], abs=1e-6)  # Monitor rounds it
            for key in ("TimeLimit.truncated", "is_success", "cost_sum", "status", "at_s"):
                assert infos[i][key] == notes[i][key]
            last = notes[i]["terminal_observation"]
            assert all(np.array_equal(infos[i]["terminal_observation"][key], last[key]) for key in last)
    assert ended > 40
    assert np.array_equal(np.stack(native.env_method("action_masks")), np.stack(dummy.env_method("action_masks")))
    assert np.array_equal(native.env_method("action_masks", indices=[2])[0], native.action_masks()[2])


def test_a_shared_attribute_cannot_be_set_for_one_environment() -> None:
    native = NativeVecEnv(2, **SETTINGS)
    assert native.get_attr("num_envs") == [2, 2]
    with pytest.raises(AttributeError, match="NativeVecEnv"):
        native.set_attr("max_steps", 3)
    with pytest.raises(AttributeError, match="action_masks"):
        native.env_method("render")


@pytest.mark.slow
def test_maskable_ppo_learns_on_it() -> None:
    contrib = pytest.importorskip("sb3_contrib", reason="needs the extra `train`")
    native = NativeVecEnv(64, scenario={"source": SOURCE, "failures": "reliable"}, max_steps=16)
    model = contrib.MaskablePPO("MultiInputPolicy", native, n_steps=32, batch_size=512, n_epochs=4, learning_rate=1e-3, seed=0)
    model.learn(64 * 32 * 2)
    before = float(np.mean([entry["r"] for entry in model.ep_info_buffer]))
    model.learn(64 * 32 * 25, reset_num_timesteps=False)
    after = float(np.mean([entry["r"] for entry in model.ep_info_buffer]))
    assert after > before + 0.05

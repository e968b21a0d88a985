"""Forks, deep copies and pickles of environments in the middle of an episode."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import costgym
from costgym.envs.actions import encode_action
from tests.helpers.forks import CASES, SETTINGS, choose, go_on

COPIES: dict[str, Callable[[Any], Any]] = {
    "fork": lambda env: env.unwrapped.fork(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
}


def test_every_environment_is_here() -> None:
    assert sorted(SETTINGS) == sorted(costgym.ENV_IDS)


@pytest.mark.parametrize("how", ["fork", "deepcopy", pytest.param("pickle", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("env_id", "settings"), CASES)
def test_a_copy_in_mid_episode_goes_on_like_the_original(env_id: str, settings: dict[str, Any], how: str) -> None:
    env = costgym.make(env_id, disable_env_checker=True, **settings)
    generator = np.random.default_rng(0)
    for seed in (0, 3):
        observation, info = env.reset(seed=seed)
        del observation
        for _ in range(seed):
            *_, terminated, truncated, info = env.step(choose(env, info, generator.random()))
            if terminated or truncated:
                break
        twin, other = (COPIES[how](env) for _ in range(2))
        assert go_on(other, info, seed + 100) is not None  # what one copy does changes nothing for the others
        assert go_on(twin, info, seed) == go_on(env, info, seed)


def test_a_fork_shares_the_world_and_a_wrapped_environment_is_copied_with_it() -> None:
    env = gym.wrappers.RecordEpisodeStatistics(costgym.make("costgym/Marketplace-v0"))
    env.reset(seed=0)
    twin = copy.deepcopy(env)
    assert twin is not env and twin.unwrapped is not env.unwrapped
    assert twin.unwrapped.world is env.unwrapped.world  # type: ignore[attr-defined]
    *_, info = twin.step(twin.unwrapped.finish_action)  # type: ignore[attr-defined]
    assert info["episode"]["l"] == 1
    assert not env.unwrapped.episode.over  # type: ignore[attr-defined]


@pytest.mark.parametrize("env_id", ["costgym/MarketplaceChat-v0", "costgym/OpenCATPChat-v0"])
def test_texts_pass_through_shared_memory(env_id: str) -> None:
    batches = [costgym.make_vec(env_id, 2, vectorization_mode=mode) for mode in ("sync", "async")]
    try:
        first, second = (batch.reset(seed=3)[0] for batch in batches)
        assert list(first) == list(second) and len(first) == 2
        action = [encode_action("finish", {"answer": "caf\u00e9 \U0001f600"})] * 2
        one, two = (batch.step(action) for batch in batches)
        assert (list(one[0]), one[1].tolist()) == (list(two[0]), two[1].tolist())
    finally:
        for batch in batches:
            batch.close()


def test_a_text_is_flat_as_its_code_points() -> None:
    env = costgym.make("costgym/MarketplaceChat-v0")
    query, _ = env.reset(seed=0)
    flat, _ = gym.wrappers.FlattenObservation(env).reset(seed=0)
    assert gym.spaces.flatten_space(env.observation_space).contains(flat)
    assert gym.spaces.unflatten(env.observation_space, flat) == query

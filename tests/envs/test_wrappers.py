"""The wrappers change the form of what an environment says and nothing else."""

import doctest

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import costgym
import costgym.envs.wrappers as wrappers
from costgym.agents import make_agent
from costgym.envs.wrappers import CostTuple, FlattenObservation, LagrangianReward, MaskObservation
from costgym.simulators.errors import ConfigError

MAKE = {"id": "costgym/Marketplace-v0", "disable_env_checker": True}


def make(**settings):
    return gym.make(**MAKE, **settings)


def actions_of(env, count=30, seed=3):
    """Calls of random tools, each followed by a wait."""
    generator = np.random.default_rng(seed)
    wait = int(env.action_space.n) - 2
    return [action for _ in range(count // 2) for action in (int(generator.integers(wait)), wait)]


def test_the_examples_in_the_documentation_run():
    result = doctest.testmod(wrappers)
    assert (result.failed, result.attempted >= 18) == (0, True)


@pytest.mark.parametrize("cost", ["price", "seconds", "calls"])
def test_the_cost_tuple_has_six_values_and_its_costs_add_up(cost):
    plain, wrapped = make(cost=cost, budget={}), CostTuple(make(cost=cost, budget={}))
    plain.reset(seed=5)
    wrapped.reset(seed=5)
    total = 0.0
    for action in actions_of(plain):
        expected = plain.step(action)
        observation, reward, spent, terminated, truncated, info = wrapped.step(action)
        assert (reward, terminated, truncated) == expected[1:4]
        assert {k: v.tolist() for k, v in observation.items()} == {k: v.tolist() for k, v in expected[0].items()}
        total += spent
        if terminated or truncated:
            break
    assert total == pytest.approx(info["cost_sum"], rel=1e-12) and total > 0


def test_the_lagrangian_reward_subtracts_the_priced_cost_and_keeps_the_reward():
    plain, wrapped = make(), LagrangianReward(make(), 0.5)
    plain.reset(seed=2)
    wrapped.reset(seed=2)
    for step, action in enumerate(actions_of(plain, 12)):
        wrapped.multiplier = 0.1 * step
        _, reward, terminated, _, info = plain.step(action)
        _, shaped, _, _, seen = wrapped.step(action)
        assert seen["reward"] == reward
        assert shaped == pytest.approx(reward - 0.1 * step * info["cost"])
        if terminated:
            break


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "1", None, True])
def test_an_invalid_multiplier_is_refused(value):
    with pytest.raises(ConfigError, match="multiplier"):
        LagrangianReward(make(), value)
    env = LagrangianReward(make())
    with pytest.raises(ConfigError, match="multiplier"):
        env.multiplier = value


def test_the_flat_vector_holds_the_parts_in_the_order_of_the_keys():
    plain, flat = make(), FlattenObservation(make())
    first, _ = plain.reset(seed=1)
    vector, _ = flat.reset(seed=1)
    assert vector.dtype == np.float32 and flat.observation_space.contains(vector)
    assert vector.tolist() == np.concatenate([first[name].ravel() for name in plain.observation_space]).tolist()
    later = flat.step(0)[0]
    assert later is not vector and not np.array_equal(later, vector)


def test_the_mask_stands_in_the_observation():
    env = MaskObservation(make())
    observation, info = env.reset(seed=1)
    assert observation["action_mask"].tolist() == info["action_mask"].astype(int).tolist()
    observation, _, _, _, info = env.step(0)
    assert observation["action_mask"].tolist() == info["action_mask"].astype(int).tolist()
    assert env.observation_space.contains(observation)


def both(env):
    return MaskObservation(FlattenObservation(env))


@pytest.mark.parametrize("wrap", [LagrangianReward, FlattenObservation, MaskObservation, both])
def test_wrapped_environments_pass_gymnasiums_check(wrap):
    check_env(wrap(costgym.make("costgym/Marketplace-v0", disable_env_checker=True).unwrapped), skip_render_check=True)


def test_wrappers_say_what_they_need():
    chat = gym.make("costgym/MarketplaceChat-v0", disable_env_checker=True)
    with pytest.raises(ConfigError, match="Dict of boxes"):
        FlattenObservation(chat)
    with pytest.raises(ConfigError, match="discrete actions"):
        MaskObservation(chat)


@pytest.mark.parametrize("around", [CostTuple, FlattenObservation, LagrangianReward, MaskObservation])
def test_the_cost_tuple_goes_outermost(around):
    inner = gym.wrappers.OrderEnforcing(CostTuple(make()))
    with pytest.raises(ConfigError, match=rf"{around.__name__}: expected five values from step, but CostTuple returns six"):
        around(inner)
    with pytest.raises(ConfigError, match="put CostTuple around everything else"):
        costgym.rollout(CostTuple(make()), make_agent("greedy"), episodes=1)

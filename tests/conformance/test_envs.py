"""What every registered environment must do."""

import copy
import json
import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import costgym
from costgym.envs.actions import read_action
from costgym.envs.opencatp.chat import read_plan_action
from costgym.envs.registration import parameters_of
from costgym.simulators.marketplace.schema import check_arguments

NUMERIC = [name for name in costgym.ENV_IDS if "Chat" not in name]
VERSION_1 = [name for name in costgym.ENV_IDS if name.endswith("-v1")]
REFUSING = [name for name in NUMERIC if "enforcement" in parameters_of(name)]
TIGHT: dict[str, list[dict[str, float]]] = {
    "costgym/Marketplace-v0": [{"price": 5.0}, {"price": 9.0, "calls": 1.5}],
    "costgym/MarketplaceSession-v0": [{"price": 20.0}, {"price": 30.0, "calls": 5.5}],
    "costgym/MarketplaceSession-v1": [{"price": 20.0}],
    "costgym/OpenCATPCalls-v0": [{"price": 0.05}, {"seconds": 0.9}, {"price": 0.1, "calls": 2.5}],
    "costgym/DecisionAware-v0": [{"price": 0.2}, {"price": 2.0}, {"tokens": 100}, {"tokens": 500, "calls": 0.5}],
}
"""Limits that random play passes where nothing is refused."""
CONSTANT_KEYS = {
    "cost", "cost_price", "cost_seconds", "cost_tokens", "cost_calls", "cost_sum",
    "budget_remaining_price", "budget_remaining_seconds", "budget_remaining_tokens", "budget_remaining_calls", "is_success",
}  # fmt: skip


def record(env_id: str, seed: int, steps: int, **settings: Any) -> list[Any]:
    env = costgym.make(env_id, **settings)
    env.action_space.seed(seed)
    observation, info = env.reset(seed=seed)
    log: list[Any] = [plain(observation), plain(info)]
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        log.append([plain(observation), reward, terminated, truncated, plain(info)])
        if terminated or truncated:
            observation, info = env.reset()
            log.append([plain(observation), plain(info)])
    return log


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("env_id", costgym.ENV_IDS)
def test_every_env_passes_gymnasiums_check(env_id: str) -> None:
    check_env(costgym.make(env_id, disable_env_checker=True).unwrapped)


@pytest.mark.parametrize("env_id", NUMERIC)
def test_every_numeric_env_passes_stable_baselines_check(env_id: str) -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker", reason="needs the extra `train`")
    checker.check_env(costgym.make(env_id), warn=False)


@pytest.mark.parametrize("env_id", costgym.ENV_IDS)
def test_every_env_replays_itself(env_id: str) -> None:
    steps = 20 if "Chat" in env_id else 80  # a random text of the whole length takes ten milliseconds
    first, second = (record(env_id, seed=7, steps=steps) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    "env_id",
    [pytest.param(env_id, marks=() if env_id == "costgym/Marketplace-v0" else pytest.mark.slow) for env_id in costgym.ENV_IDS],
)
def test_every_env_is_the_same_in_another_process_under_another_hash_seed(env_id: str) -> None:
    script = (
        "import sys, json; sys.path.insert(0, 'tests/conformance'); import test_envs; "
        f"print(json.dumps(test_envs.record({env_id!r}, seed=3, steps=60)))"
    )
    seed = "2" if sys.flags.hash_randomization == 0 else "0"
    there = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed, "PATH": ""}
    )
    log = json.loads(there.stdout)
    assert len(log) >= 62
    assert log == json.loads(json.dumps(record(env_id, seed=3, steps=60)))


@pytest.mark.parametrize("env_id", costgym.ENV_IDS)
def test_info_always_has_the_same_keys_and_costs_add_up(env_id: str) -> None:
    env = costgym.make(env_id)
    env.action_space.seed(1)
    _, info = env.reset(seed=1)
    keys = set(info)
    assert keys >= CONSTANT_KEYS
    total = 0.0
    for _ in range(20 if "Chat" in env_id else 100):
        _, _, terminated, truncated, info = env.step(env.action_space.sample())
        assert set(info) == keys
        total += info["cost"]
        assert info["cost_sum"] == pytest.approx(total, abs=1e-9)
        if terminated or truncated:
            _, info = env.reset()
            total = 0.0


@pytest.mark.parametrize("env_id", NUMERIC)
def test_masks_never_empty_and_agree(env_id: str) -> None:
    env = costgym.make(env_id)
    generator = np.random.default_rng(0)
    _, info = env.reset(seed=0)
    for _ in range(300):
        mask = env.get_wrapper_attr("action_masks")()
        assert mask.dtype == np.bool_ and mask.any()
        assert np.array_equal(mask, info["action_mask"])
        action = int(generator.choice(np.flatnonzero(mask)))
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()


@pytest.mark.parametrize("env_id", [name for name in VERSION_1 if name in NUMERIC])
def test_gymnasium_samples_from_the_masks_of_version_1(env_id: str) -> None:
    env = costgym.make(env_id)
    _, info = env.reset(seed=0)
    for _ in range(100):
        action = env.action_space.sample(info["action_mask"])
        assert info["action_mask"][action]
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()


@pytest.mark.parametrize("env_id", VERSION_1)
def test_an_id_of_version_1_plays_and_records_version_1_and_refuses_version_0(env_id: str) -> None:
    env = costgym.make(env_id).unwrapped
    assert env.world_version == 1 == env.world_spec().version  # type: ignore[attr-defined]
    old = costgym.make(env_id.replace("-v1", "-v0")).unwrapped
    assert old.world_version == 0 and old.world_spec().digest != env.world_spec().digest  # type: ignore[attr-defined]
    with pytest.raises(costgym.DataError, match="expected version 1 of the world, got 0"):
        env.check_world(old.world_spec().document)  # type: ignore[attr-defined]


def overspends(env_id: str, enforcement: str | None, budget: dict[str, float], **form: Any) -> bool:
    """Whether random allowed actions pass a limit in one of the episodes."""
    env = costgym.make(env_id, budget=budget, enforcement=enforcement, **form)
    generator = np.random.default_rng(0)
    for seed in range(12):
        _, info = env.reset(seed=seed)
        over = False
        while not over:
            action = int(generator.choice(np.flatnonzero(info["action_mask"])))
            _, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        if min(info[f"budget_remaining_{resource}"] for resource in budget) < 0.0:
            return True
    return False


@pytest.mark.parametrize(("env_id", "budget"), [(env_id, budget) for env_id in REFUSING for budget in TIGHT[env_id]])
def test_no_action_of_the_mask_overspends_under_refuse_which_is_the_default(env_id: str, budget: dict[str, float]) -> None:
    assert overspends(env_id, "terminate", budget) and not overspends(env_id, None, budget)
    assert "concurrent" not in parameters_of(env_id) or not overspends(env_id, "refuse", budget, concurrent=True)


@pytest.mark.parametrize("env_id", NUMERIC)
def test_the_return_is_the_quality_of_plan(env_id: str) -> None:
    env = costgym.make(env_id)
    generator = np.random.default_rng(5)
    for seed in range(20):
        _, info = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            action = int(generator.choice(np.flatnonzero(info["action_mask"])))
            _, reward, terminated, truncated, info = env.step(action)
            total += float(reward)
            over = terminated or truncated
        quality = env.unwrapped.quality  # type: ignore[attr-defined]
        assert total == pytest.approx(quality() if callable(quality) else quality, abs=1e-9)


@pytest.mark.parametrize("env_id", costgym.ENV_IDS)
def test_specs_survive_json(env_id: str) -> None:
    spec = gym.spec(env_id)
    assert gym.envs.registration.EnvSpec.from_json(spec.to_json()).id == env_id


@pytest.mark.parametrize("env_id", costgym.ENV_IDS)
def test_a_step_before_reset_and_unknown_ids_are_clear_errors(env_id: str) -> None:
    env = costgym.make(env_id, disable_env_checker=True).unwrapped
    with pytest.raises(costgym.CostGymError, match="reset"):
        env.step(env.action_space.sample())
    with pytest.raises(costgym.UnknownName, match=env_id):
        costgym.make(f"{env_id[:-1]}9")


def reads(env_id: str, action: str) -> bool:
    if "OpenCATP" in env_id:
        return read_plan_action(action)[0] is not None
    read = read_action(action)
    return all(call.status is None for call in read.calls)


@pytest.mark.parametrize("env_id", [name for name in VERSION_1 if "Chat" in name])
def test_samples_of_version_1_are_calls_that_can_be_read_with_some_nonsense_between(env_id: str) -> None:
    env = costgym.make(env_id)
    env.reset(seed=0)
    env.action_space.seed(0)
    twin = copy.deepcopy(env.action_space)
    samples = [env.action_space.sample() for _ in range(300)]
    assert samples == [twin.sample() for _ in range(300)] and all(env.action_space.contains(action) for action in samples)
    assert 0.8 < sum(reads(env_id, action) for action in samples) / 300 < 0.97
    if env_id == "costgym/MarketplaceChat-v1":  # of what is on offer now, with arguments that fit
        calls = [call for action in samples for call in read_action(action).calls if call.status is None]
        tools = {tool.name: tool for tool in env.unwrapped.candidates}  # type: ignore[attr-defined]
        known = [call for call in calls if call.name in tools]
        assert {call.name for call in known} == set(tools)
        assert [check_arguments(tools[call.name], call.arguments) for call in known] == [None] * len(known)


@pytest.mark.parametrize("number", [0, -1, 2.5, "3", True])
@pytest.mark.parametrize("env_id", ["costgym/Marketplace-v0", "costgym/OpenCATP-v1"])
def test_a_vector_of_no_environments_is_refused_in_a_sentence(env_id: str, number: Any) -> None:
    with pytest.raises(costgym.ConfigError, match="num_envs: expected a positive whole number, got"):
        costgym.make_vec(env_id, number)

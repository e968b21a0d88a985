"""One contract of the mask: what it forbids is refused in every environment, and what is no action is an error."""

import json
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import costgym
from costgym.envs.base import base_env
from costgym.simulators.status import Status

NUMERIC = [env_id for env_id in costgym.ENV_IDS if "Chat" not in env_id]
FORMS: list[tuple[str, dict[str, Any]]] = [
    *((env_id, {}) for env_id in NUMERIC),
    ("costgym/Marketplace-v0", {"mask": "legal", "budget": {"price": 4.0}}),
    ("costgym/Marketplace-v0", {"concurrent": True, "mask": "useful"}),
    ("costgym/Marketplace-v0", {"scenario": "storm"}),
    ("costgym/MarketplaceSession-v0", {"concurrent": True}),
    ("costgym/OpenCATPCalls-v0", {"concurrent": True}),
    ("costgym/OpenCATPCalls-v0", {"budget": {"price": 0.05}}),
    ("costgym/DecisionAware-v0", {"budget": {"price": 0.5}}),
]
UNKNOWN = '{"name": "no_such_function", "arguments": {}}'
"""What text environments, which have no mask, refuse."""
TEXTS = {
    "costgym/MarketplaceChat-v0": ("unknown_tool", 0.75, 0, 0, False),
    "costgym/MarketplaceChat-v1": ("unknown_tool", 0.75, 0.48525, -0.00242625, False),
    "costgym/MarketplaceSessionChat-v0": ("unknown_tool", 0.05, 0, 0, False),
    "costgym/MarketplaceSessionChat-v1": ("unknown_tool", 0.05, 0.2945, 0, False),
    "costgym/OpenCATPChat-v0": ("invalid_plan", 0, 0, -0.5, True),
    "costgym/OpenCATPChat-v1": ("invalid_plan", 0, 0.000512, -0.500452, True),
}
"""Status, seconds, price, reward and end of such an action: in version 1 its tokens are charged."""
NO_ACTIONS = (999, -1, 1.7, "3", True, None, np.array([0]), np.float32(1.0), np.bool_(True))


def forbidden_steps(env_id: str, settings: dict[str, Any], episodes: int = 12) -> Iterator[tuple[Any, dict[str, Any], int]]:
    """An environment in the middle of episodes, the `info` there, and an action that the mask forbids."""
    env = costgym.make(env_id, disable_env_checker=True, **settings)
    generator = np.random.default_rng(0)
    for seed in range(episodes):
        _, info = env.reset(seed=seed)
        for _ in range(4):
            mask = info["action_mask"]
            if not mask.all():
                yield env, info, int(generator.choice(np.flatnonzero(mask == 0)))
            *_, terminated, truncated, info = env.step(int(generator.choice(np.flatnonzero(mask))))
            if terminated or truncated:
                break


@pytest.mark.parametrize(("env_id", "settings"), FORMS)
def test_a_forbidden_action_takes_the_gateway_s_time_and_nothing_else(env_id: str, settings: dict[str, Any]) -> None:
    seen = 0
    for env, before, action in forbidden_steps(env_id, settings):
        world = base_env(env)
        if world.account().in_flight:
            continue  # what is on its way may end meanwhile
        gateway_s = world.account().world.gateway_s
        calls = len([call for call in world.account().calls if call.k])
        _, reward, terminated, truncated, info = env.step(action)
        spent = {name: info[f"cost_{name}"] for name in ("price", "tokens", "calls")}
        assert spent == {"price": 0, "tokens": 0, "calls": 0} and reward == 0.0
        assert info["cost_seconds"] == pytest.approx(gateway_s)
        assert not terminated and not truncated
        assert info["status"] in (Status.FORBIDDEN, Status.BANNED, Status.OVER_BUDGET, Status.UNKNOWN_TOOL)
        assert len([call for call in world.account().calls if call.k]) == calls
        assert world.account().grade is None
        assert np.array_equal(info["action_mask"], before["action_mask"]) or settings.get("scenario") == "storm"
        seen += 1
    assert seen > 5


@pytest.mark.parametrize("env_id", [env_id for env_id in costgym.ENV_IDS if "Chat" in env_id])
def test_an_unknown_function_takes_the_model_s_time_and_its_tokens_and_nothing_else(env_id: str) -> None:
    env = costgym.make(env_id, disable_env_checker=True)
    env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(UNKNOWN)
    status, *figures, ends = TEXTS[env_id]
    assert json.JSONDecoder().raw_decode(observation)[0]["error"] == status
    assert [info["cost_seconds"], info["cost_price"], reward] == pytest.approx(figures)
    assert (terminated or truncated) == ends


@pytest.mark.parametrize("name", ["recall", "wait", "cancel"])
def test_a_session_in_words_refuses_what_has_nothing_to_act_on(name: str) -> None:
    env = costgym.make("costgym/MarketplaceSessionChat-v0", disable_env_checker=True, concurrent=True)
    env.reset(seed=0)
    observation, *_, info = env.step(json.dumps({"name": name, "arguments": {"tool": "tool_00"}}))
    assert json.JSONDecoder().raw_decode(observation)[0]["error"] == "forbidden"
    assert (round(info["cost_seconds"], 9), info["cost_price"]) == (0.05, 0)


@pytest.mark.parametrize("action", NO_ACTIONS, ids=repr)
@pytest.mark.parametrize("env_id", NUMERIC)
def test_what_is_no_action_is_an_error_and_changes_nothing(env_id: str, action: Any) -> None:
    env = costgym.make(env_id, disable_env_checker=True).unwrapped
    env.reset(seed=0)
    before = env.account().ledger.attempts  # type: ignore[attr-defined]
    with pytest.raises(gym.error.InvalidAction, match="expected a whole number from 0 to"):
        env.step(action)
    assert env.account().ledger.attempts == before  # type: ignore[attr-defined]


@pytest.mark.parametrize("action", [0, np.int64(0), np.uint8(0), np.array(0)], ids=repr)
@pytest.mark.parametrize("env_id", NUMERIC)
def test_every_form_of_a_whole_number_is_an_action(env_id: str, action: Any) -> None:
    env = costgym.make(env_id, disable_env_checker=True)
    env.reset(seed=0)
    env.step(action)


def test_a_plan_that_is_never_finished_is_invalid() -> None:
    env = costgym.make("costgym/OpenCATP-v0", max_tokens=20)
    _, info = env.reset(seed=0)
    total, steps, over = 0.0, 0, False
    forbidden = int(np.flatnonzero(~info["action_mask"])[0])
    while not over:
        _, reward, terminated, truncated, info = env.step(forbidden)
        total, steps, over = total + float(reward), steps + 1, terminated or truncated
    assert (total, steps, terminated, truncated, info["plan_valid"]) == (-0.5, 20, False, True, False)
    episode = base_env(env).account()
    assert episode.ledger.attempts == 21 and "not finished within 20 steps" in episode.calls[-1].reason


@pytest.mark.native
@pytest.mark.parametrize("settings", [{}, {"mask": "legal"}, {"concurrent": True, "mask": "useful"}, {"scenario": "storm"}])
def test_compiled_environments_and_native_batches_refuse_alike(settings: dict[str, Any]) -> None:
    scalar = costgym.make("costgym/Marketplace-v0", disable_env_checker=True, **settings)
    compiled = costgym.make("costgym/Marketplace-v0", disable_env_checker=True, compiled=True, **settings)
    batch = costgym.make_vec("costgym/Marketplace-v0", 1, autoreset_mode="Disabled", **settings)
    generator, forbidden = np.random.default_rng(1), 0
    for seed in range(60):
        _, info = scalar.reset(seed=seed)
        compiled.reset(seed=seed)
        batch.reset(seed=seed)
        over = False
        while not over:
            action = int(generator.integers(scalar.action_space.n))  # type: ignore[attr-defined]
            forbidden += not info["action_mask"][action]
            observation, reward, terminated, truncated, info = scalar.step(action)
            other, again = compiled.step(action), batch.step(np.array([action]))
            for name, array in observation.items():
                assert np.array_equal(array, other[0][name]) and np.array_equal(array, again[0][name][0])
            assert (reward, terminated, truncated) == other[1:4] == tuple(part[0] for part in again[1:4])
            assert info["status"] == other[4]["status"] == again[4]["status"][0]
            assert info["at_s"] == other[4]["at_s"] == again[4]["at_s"][0]
            assert np.array_equal(info["action_mask"], other[4]["action_mask"])
            over = terminated or truncated
    assert forbidden > 60
    for wrong in (999, -1):
        for env, action in ((compiled, wrong), (batch, np.array([wrong]))):
            env.reset(seed=0)
            with pytest.raises(gym.error.InvalidAction, match="from 0 to"):
                env.step(action)
    with pytest.raises(gym.error.InvalidAction):
        batch.step(np.array([1.0]))

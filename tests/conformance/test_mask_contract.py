"""One contract of the mask: what it forbids is refused in every environment, and what is no action is an error."""

import json
from collections.abc import Iterator
from pathlib import Path
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
PAGE = Path(__file__).parents[2] / "docs/environments/index.md"
UNKNOWN = '{"name": "no_such_function", "arguments": {}}'
"""What text environments, which have no mask, refuse."""
TEXTS: list[tuple[str, dict[str, Any]]] = [
    *((env_id, {}) for env_id in costgym.ENV_IDS if "Chat" in env_id),
    ("costgym/MarketplaceSessionChat-v0", {"concurrent": True}),
]
IDLE = ("recall", "wait", "cancel")
"""What a session in words refuses where nothing is remembered or in flight."""
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


def refused_texts(env_id: str, settings: dict[str, Any]) -> Iterator[tuple[Any, None, str]]:
    """A text environment at its start, and texts that it refuses."""
    env = costgym.make(env_id, disable_env_checker=True, **settings)
    env.reset(seed=0)
    yield env, None, UNKNOWN
    for name in IDLE if settings else ():
        yield env, None, json.dumps({"name": name, "arguments": {"tool": "tool_00"}})
    if settings:
        yield env, None, json.dumps({"name": "cancel", "arguments": {"tool": 7}})


def table_row(env_id: str, settings: dict[str, Any]) -> str:
    """A row of the table on the environments' page: what refused actions did."""
    did: dict[str, set[str]] = {name: set() for name in ("status", "seconds", "price", "reward", "ends")}
    for env, _, action in forbidden_steps(env_id, settings) if env_id in NUMERIC else refused_texts(env_id, settings):
        if base_env(env).account().in_flight:
            continue  # what is on its way may end meanwhile
        observation, reward, terminated, truncated, info = env.step(action)
        did["status"].add(
            Status(info["status"]).label if env_id in NUMERIC else json.JSONDecoder().raw_decode(observation)[0]["error"]
        )
        did["seconds"].add(f"{info['cost_seconds']:.2f}")
        did["price"].add(f"{info['cost_price']:g}")
        did["reward"].add(f"{float(reward) + 0.0:g}")
        did["ends"].add("yes" if terminated or truncated else "no")
    form = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    cells = [", ".join(f"`{each}`" if name == "status" else each for each in sorted(seen)) for name, seen in did.items()]
    return f"| `{env_id.removeprefix('costgym/')}` | {f'`{form}`' if form else ''} | {' | '.join(cells)} |"


def test_the_page_says_what_every_environment_does_with_a_masked_action() -> None:
    rows = [table_row(env_id, settings) for env_id, settings in sorted([*FORMS, *TEXTS], key=str)]
    table = "\n".join(["| environment | arguments | status | seconds | price | reward | ends |", "| --- " * 7 + "|", *rows])
    assert table in PAGE.read_text(), f"{PAGE} is to hold this table:\n{table}"


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

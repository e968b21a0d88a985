"""An observation in two parts, what a task fixes and what changes, is the whole one bit for bit."""

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import costgym

pytest.importorskip("numba", reason="needs the extra `train`")

pytestmark = pytest.mark.native

SMALL: dict[str, Any] = {"queries": 12, "tools": 8, "capabilities": 3, "providers": 2}
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "storm": ("costgym/Marketplace-v0", {"scenario": "storm"}),
    "events": ("costgym/Marketplace-v0", {"scenario": "storm", "concurrent": True, "max_tools": 5}),
    "writes": ("costgym/Marketplace-v0", {"scenario": "marketplace-writes"}),
    "sessions": ("costgym/MarketplaceSession-v1", SMALL),
    "raw": ("costgym/MarketplaceSession-v1", {**SMALL, "memory": "raw", "mask": "legal", "concurrent": True}),
    "drawn in Python": ("costgym/MarketplaceSession-v0", SMALL),
}


def joined(env: Any, observation: dict[str, Any]) -> dict[str, Any]:
    """The whole observation of one in two parts."""
    parts = {name: observation[name] for name in env.columns}
    first = next(iter(parts.values()))
    tools = np.full((*first.shape[:-1], sum(map(len, env.columns.values()))), np.nan, np.float32)
    for name, part in parts.items():
        tools[..., env.columns[name]] = part
    return {"tools": tools, **{name: part for name, part in observation.items() if name not in parts}}


def assert_whole(env: Any, observation: dict[str, Any], whole: dict[str, Any]) -> None:
    together = joined(env, observation)
    assert sorted(together) == sorted(whole)
    assert all(together[name].tobytes() == whole[name].tobytes() for name in whole)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("form", FORMS)
def test_both_parts_together_are_the_whole_observation(form: str, mode: AutoresetMode, copy: bool) -> None:
    name, settings = FORMS[form]
    settings = {"autoreset_mode": mode, "copy": copy, "max_steps": 25, **settings}
    flat, env = costgym.make_vec(name, 5, **settings).unwrapped, costgym.make_vec(name, 5, factored=True, **settings).unwrapped
    (observation, info), (parts, _) = flat.reset(seed=4), env.reset(seed=4)
    assert_whole(env, parts, observation)
    assert env.single_observation_space.contains({key: part[0] for key, part in parts.items()})
    generator, ends = np.random.default_rng(0), 0
    for _ in range(120):
        fixed = parts["tools_fixed"].copy()
        actions = (generator.random(info["action_mask"].shape) * info["action_mask"]).argmax(axis=1)
        observation, rewards, terminated, truncated, info = flat.step(actions)
        parts, *others, more = env.step(actions)
        assert_whole(env, parts, observation)
        assert all(one.tobytes() == two.tobytes() for one, two in zip(others, (rewards, terminated, truncated), strict=True))
        ended = terminated | truncated
        ends += int(ended.sum())
        for i in np.flatnonzero(ended).tolist() if "final_obs" in info else ():
            assert_whole(env, more["final_obs"][i], info["final_obs"][i])
        if mode is AutoresetMode.DISABLED:
            assert parts["tools_fixed"].tobytes() == fixed.tobytes()  # no episode has begun
            if ended.any():
                (observation, info), (parts, _) = (made.reset(options={"reset_mask": ended}) for made in (flat, env))
                info["action_mask"] = flat.action_masks()
                assert_whole(env, parts, observation)
    assert ends > 5

"""The native OpenCATP batches beside Gymnasium's loop over single environments: the same actions, every byte compared."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from ...envs.opencatp.calls import CALLS, OpenCATPCallsEnv
from ...envs.opencatp.plans import OpenCATPEnv
from ...envs.tpl import MIN_TOKENS
from ...envs.vector.opencatp_calls import OpenCATPCallsVectorEnv
from ...envs.vector.opencatp_plans import OpenCATPVectorEnv
from .lockstep import Difference, difference, enumerate_all

VIEWS: dict[str, tuple[Any, Any]] = {
    "costgym/OpenCATP-v0": (OpenCATPEnv, OpenCATPVectorEnv),
    "costgym/OpenCATPCalls-v0": (OpenCATPCallsEnv, OpenCATPCallsVectorEnv),
}


def some_actions(generator: np.random.Generator, env_id: str, mask: Any) -> Any:
    """Mostly allowed actions, some nonsense; calls are left to run more often than chance would have it."""
    count, width = mask.shape
    allowed = (generator.random(mask.shape) * mask).argmax(axis=1)
    luck = generator.random(count)
    if env_id == "costgym/OpenCATPCalls-v0":
        concurrent = width == len(CALLS) + 2
        instead = width - 2 if concurrent else (generator.random((count, width - 1)) * mask[:, :-1]).argmax(axis=1)
        allowed = np.where((allowed == width - 1) & (luck < 0.7), instead, allowed)
        if concurrent:
            allowed = np.where((luck > 0.75) & mask[:, width - 2], width - 2, allowed)
    return np.where(luck < 0.02, generator.integers(-1, width + 1, count), allowed)


def run_opencatp(
    env_id: str,
    count: int,
    steps: int,
    seed: int,
    mode: AutoresetMode,
    options: dict[str, Any] | None = None,
    **settings: Any,
) -> Counter[str]:
    """Step a native OpenCATP view beside `SyncVectorEnv` over the scalar one.

    Args:
        options: of every reset by hand.

    Returns:
        How often each way to end was met.

    Raises:
        Difference: they differ; says where.
    """
    single, batch = VIEWS[env_id]
    scalar: Any = SyncVectorEnv([lambda: single(**settings)] * count, autoreset_mode=mode)
    native = batch(count, autoreset_mode=mode, **settings)
    generator = np.random.default_rng(seed)
    expected, got = (env.reset(seed=seed, options=dict(options or {})) for env in (scalar, native))
    same("reset", expected, got)
    met: Counter[str] = Counter()
    mask = native.action_masks()
    for step in range(steps):
        actions = some_actions(generator, env_id, mask)
        expected, got = scalar.step(actions), native.step(actions)
        same(f"step {step}", expected, got)
        _, _, terminated, truncated, info = got
        final = info.get("final_info", info)
        for key, where in (("terminated", terminated), ("truncated", truncated)):
            met[key] += int(where.sum())
        for key in ("is_success", "plan_valid"):
            met[key] += int(final[key].sum())
        met["scored"] += int((final["score"] != 0).sum())
        ended = terminated | truncated
        met["all at once"] += int(ended.all())
        if mode is AutoresetMode.DISABLED and ended.any():
            expected, got = (env.reset(options={"reset_mask": ended.copy(), **(options or {})}) for env in (scalar, native))
            same(f"reset after step {step}", expected, got)
        mask = native.action_masks()
        if not np.array_equal(mask, np.stack([env.unwrapped.action_masks() for env in scalar.envs])):
            raise Difference(f"step {step}: masks")
    return met


def same(place: str, expected: Any, got: Any) -> None:
    found = difference(dict(enumerate_all(expected)), dict(enumerate_all(got)))
    if found is not None:
        raise Difference(f"{place}{found}")


def random_settings(random: Random, env_id: str) -> dict[str, Any]:
    """Tasks, objective, limits and machine of an OpenCATP view; the limits are often too low for the whole task."""
    high = {"price": 2.0, "seconds": 20.0, "tokens": 30, "calls": 6}
    settings: dict[str, Any] = {
        "tasks": random.choice(("sequential", "nonsequential", "all")),
        "split": random.choice(("train", "test")),
        "alpha": random.uniform(0.1, 0.9),
        "level": random.choice((None, 0, 1, 2, 3)),
        "budget": {name: round(random.uniform(0.01, most), 3) for name, most in high.items() if random.random() < 0.3} or None,
        "cost": random.choice(sorted(high)),
        "success_score": random.uniform(-0.5, 0.9),
    }
    if env_id == "costgym/OpenCATP-v0":
        return {
            **settings,
            "reward": random.choice(("incremental", "cumulative")),
            "max_tokens": random.randint(MIN_TOKENS, 60),
        }
    return {
        **settings,
        "slots": random.choice((None, 1, 2, 4)),
        "gpu_capacity_mb": random.choice((None, random.uniform(1600, 2200))),
        "cold_starts": random.random() < 0.5,
        "concurrent": random.random() < 0.5,
        "max_steps": random.randint(3, 40),
        "enforcement": random.choice((None, "refuse", "terminate", "record")),
    }

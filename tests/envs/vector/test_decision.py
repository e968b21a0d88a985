"""The native vector environment of DEER's branches is SyncVectorEnv over the scalar one, only faster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import costgym
from costgym.envs.decision import SEARCH, DecisionAwareEnv

pytest.importorskip("numba", reason="needs the extra `train`")

from costgym.envs.vector.decision import DecisionVectorEnv
from costgym.experiments.selftest.lockstep import difference, run_views, some_decisions
from costgym.simulators.status import Status

pytestmark = pytest.mark.native

SAMPLES = {"counts": {"train": (20, 40, 60), "test": (5, 10, 15)}}
STORM = {
    "source": {"kind": "marketplace", "tools": 120, "providers": 20, "categories": 5},
    "failures": "storm",
    "tokens": {"input": 500, "output": 1500},
    "events": [
        {"at_s": 0.3, "kind": "price_change", "share": 0.6, "factor": 1.7},
        {"at_s": 0.5, "kind": "ban", "share": 0.4},
        {"at_s": 1.2, "kind": "ban", "share": 0.7},  # while a call is thought about
        {"at_s": 1.3, "kind": "preference_change"},
        {"at_s": 2.5, "kind": "unban"},
    ],
}


def views(count: int, steps: int, mode: AutoresetMode, **settings: Any) -> Any:
    made = {"scalar_env": DecisionAwareEnv, "native_env": DecisionVectorEnv, "choose": some_decisions}
    return run_views(count, steps, 3, mode, **made, **{"samples": SAMPLES, **settings})


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"enforcement": "refuse", "cost": "tokens", "budget": {"price": 3.0, "tokens": 900}},
        {"scenario": STORM, "grading": "judge", "budget": {"price": 1.2, "seconds": 4.0, "calls": 1}},
        {"scenario": STORM, "grading": "judge", "cost": "calls", "max_steps": 2, "budget": {"seconds": 12.0}, "split": "test"},
        {"scenario": STORM, "enforcement": "record", "cost": "seconds", "budget": {"price": 2.0, "calls": 0.5, "seconds": 4.0}},
    ],
    ids=("default", "refused", "refused by default", "ends of all kinds", "recorded"),
)
def test_native_and_scalar_decisions_are_equal_to_the_last_bit(mode: AutoresetMode, settings: dict[str, Any]) -> None:
    met = views(6, 80, mode, **settings)
    assert met["0"] and met["10"] and met["terminated"], met


def test_limits_end_decisions_in_both_views_alike() -> None:
    met = views(4, 60, AutoresetMode.SAME_STEP, budget={"tokens": 300}, enforcement="terminate") + views(
        4, 60, AutoresetMode.NEXT_STEP, budget={"seconds": 3.0}, max_steps=3, enforcement="terminate"
    )
    assert met["terminated"] and met["truncated"]


@pytest.mark.parametrize("budget", [{"price": 0.2}, {"price": 0.6}, {"tokens": 300}, {"seconds": 1.5}, {"calls": 0.5}])
def test_limits_refuse_decisions_in_both_views_alike(budget: dict[str, float]) -> None:
    met = views(4, 60, AutoresetMode.SAME_STEP, budget=budget)
    assert met["terminated"] and met[str(int(Status.OVER_BUDGET))]


def test_make_vec_takes_the_native_batch() -> None:
    made = costgym.make_vec("costgym/DecisionAware-v0", 4, samples=SAMPLES)
    assert isinstance(made.unwrapped, DecisionVectorEnv)
    observation, info = made.reset(seed=1)
    assert made.observation_space.contains(observation)
    assert info["action_mask"].shape == (4, made.single_action_space.n)
    observation, *_ = made.step(np.full(4, SEARCH))
    assert observation["stage"].tolist() == [[0.0, 1.0]] * 4 and observation["candidates"].any(axis=(1, 2)).all()


def test_a_task_can_be_chosen_and_tables_grow_with_the_tasks_that_are_drawn() -> None:
    native = DecisionVectorEnv(3, samples=SAMPLES)
    assert len(native.batch.numbers) == 0
    task = native.scalar.world.tasks[native.scalar.world.tasks.numbers("test")[2]]
    first, _ = native.reset(seed=4, options={"task": task.id})
    scalar, _ = native.scalar.reset(seed=4, options={"task": task.id})
    assert difference({key: value[0] for key, value in first.items()}, scalar) is None
    native.reset(seed=5)
    assert 1 < len(native.batch.numbers) <= 7


def test_without_copies_the_values_are_the_same() -> None:
    fresh, reused = (DecisionVectorEnv(8, copy=copy, samples=SAMPLES) for copy in (True, False))
    generator = np.random.default_rng(0)
    (first, _), (second, _) = fresh.reset(seed=3), reused.reset(seed=3)
    for _ in range(100):
        assert difference(first, second) is None
        actions = generator.integers(0, 8, 8)
        (first, *rest), (second, *others) = fresh.step(actions), reused.step(actions)
        assert [difference(a, b) for a, b in zip(rest, others, strict=True)] == [None] * 4

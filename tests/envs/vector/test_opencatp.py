"""The native OpenCATP batches are Gymnasium's SyncVectorEnv over the scalar views, only faster."""

from __future__ import annotations

import itertools
import random
from functools import lru_cache
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import given
from hypothesis import strategies as st

import costgym
from costgym.simulators.errors import ConfigError, EpisodeOver, UnknownName

pytest.importorskip("numba", reason="needs the extra `train`")

from costgym.envs import tpl
from costgym.envs.vector.kernels import opencatp_plans as kernels
from costgym.envs.vector.opencatp_calls import OpenCATPCallsVectorEnv
from costgym.envs.vector.opencatp_plans import OpenCATPVectorEnv
from costgym.experiments.selftest.lockstep import difference
from costgym.experiments.selftest.opencatp import VIEWS, run_opencatp
from costgym.simulators.opencatp.profile import Profile, ToolCost
from costgym.simulators.opencatp.tools import TOOLS
from tests.helpers.opencatp_scores import RuleScores

pytestmark = pytest.mark.native

PLANS, CALLS = VIEWS


def profile(seed: int) -> Profile:
    """Round times, so that tools often end together, one level at which nothing takes time, and memory in fractions."""
    luck = random.Random(seed)
    tools = {}
    for tool in TOOLS:
        times = (*(luck.choice((500.0, 1000.0, 1500.0)) for _ in range(3)), 0.0)
        cold = luck.choice((0.0, 0.5, 0.7))
        tools[tool] = ToolCost(times, 100.0, round(luck.uniform(50, 300), 1), cold_start_s=cold)
    return Profile("round", tools)


@lru_cache(maxsize=16)
def known_profile(seed: int) -> Profile | str:
    return "v100" if seed == 0 else profile(seed)


def limits() -> st.SearchStrategy[dict[str, float] | None]:
    limit = st.floats(0.01, 20.0, allow_nan=False)
    return st.none() | st.fixed_dictionaries(
        {}, optional={"price": limit, "seconds": limit, "tokens": st.integers(1, 30), "calls": st.integers(1, 6) | limit}
    )


def settings() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "tasks": st.sampled_from(("sequential", "nonsequential", "all")),
            "split": st.sampled_from(("train", "test")),
            "alpha": st.floats(0.1, 0.9),
            "level": st.none() | st.integers(0, 3),
            "budget": limits(),
            "cost": st.sampled_from(("price", "seconds", "tokens", "calls")),
            "success_score": st.floats(-0.5, 0.9),
            "profile": st.integers(0, 3).map(known_profile),
        },
        optional={"scores": st.sampled_from((RuleScores(), RuleScores(12)))},
    )


@given(
    settings(), st.sampled_from(list(AutoresetMode)), st.integers(0, 10**6), st.sampled_from(("incremental", "cumulative")),
    st.integers(tpl.MIN_TOKENS, 60),
)  # fmt: skip
def test_plans_written_natively_are_equal_to_the_last_bit(
    chosen: dict[str, Any], mode: AutoresetMode, seed: int, reward: str, max_tokens: int
) -> None:
    run_opencatp(PLANS, 3, 40, seed, mode, reward=reward, max_tokens=max_tokens, **chosen)


@given(
    settings(), st.sampled_from(list(AutoresetMode)), st.integers(0, 10**6), st.none() | st.integers(1, 4),
    st.none() | st.floats(300.0, 900.0), st.booleans(), st.integers(3, 40), st.booleans(),
    st.sampled_from((None, "refuse", "terminate", "record")),
)  # fmt: skip
def test_calls_made_natively_are_equal_to_the_last_bit(
    chosen: dict[str, Any],
    mode: AutoresetMode,
    seed: int,
    slots: int | None,
    gpu_mb: float | None,
    cold_starts: bool,
    max_steps: int,
    concurrent: bool,
    enforcement: str | None,
) -> None:
    if chosen["profile"] == "v100" and gpu_mb is not None:
        gpu_mb += 1300.0
    machine = {"slots": slots, "gpu_capacity_mb": gpu_mb, "cold_starts": cold_starts, "concurrent": concurrent}
    run_opencatp(CALLS, 3, 40, seed, mode, max_steps=max_steps, enforcement=enforcement, **machine, **chosen)


@pytest.mark.parametrize("enforcement", ["refuse", "terminate", "record"])
@pytest.mark.parametrize("concurrent", [False, True])
def test_tight_limits_are_equal_to_the_last_bit(enforcement: str, concurrent: bool) -> None:
    tight: list[dict[str, float]] = [{"price": 0.05}, {"seconds": 0.9, "calls": 2.5}, {"price": 0.2, "seconds": 2.0}]
    form = {"tasks": "all", "scores": RuleScores(), "enforcement": enforcement, "concurrent": concurrent}
    machines: list[dict[str, Any]] = [{}, {"profile": profile(2), "slots": 2, "cold_starts": True}]
    for number, (budget, machine) in enumerate(itertools.product(tight, machines)):
        met = run_opencatp(CALLS, 3, 60, number, AutoresetMode.SAME_STEP, budget=budget, max_steps=12, **machine, **form)
        assert met["terminated"]


@pytest.mark.parametrize("env_id", VIEWS)
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_long_play_meets_every_end(env_id: str, mode: AutoresetMode) -> None:
    met = run_opencatp(env_id, 4, 400, 5, mode, tasks="all", scores=RuleScores(), budget={"price": 0.6})
    met += run_opencatp(env_id, 1, 150, 6, mode, tasks="all")
    if env_id == CALLS:
        met += run_opencatp(env_id, 2, 60, 7, mode, max_steps=5, slots=1)
        met += run_opencatp(env_id, 3, 200, 8, mode, tasks="all", concurrent=True)
        assert met["truncated"] > 0
    assert min(met[key] for key in ("terminated", "is_success", "plan_valid", "scored", "all at once")) > 0, met


@pytest.mark.parametrize("env_id", VIEWS)
def test_task_sample_and_level_can_be_chosen_from_any_split(env_id: str) -> None:
    options = {"task": 203, "sample": 77, "level": 3}
    run_opencatp(env_id, 2, 60, 1, AutoresetMode.DISABLED, options=options, tasks="sequential", split="train")
    native = VIEWS[env_id][1](2)
    for wrong in ({"task": 10**6}, {"sample": 100}, {"sample": "first"}, {"level": 4}):
        with pytest.raises((UnknownName, ConfigError)):
            native.reset(options=wrong)


@given(st.data())
def test_the_compiled_mask_is_the_planning_languages_own(data: st.DataObject) -> None:
    kind = data.draw(st.integers(0, len(tpl.KINDS) - 1))
    used, consumed = data.draw(st.integers(0, 1023)), data.draw(st.integers(0, 1023))
    tools = [tool for tool in range(10) if used >> tool & 1]
    current = data.draw(st.sampled_from([-1, *tools]))
    last = current if current >= 0 else data.draw(st.sampled_from(tools or [-1]))
    deps = data.draw(st.integers(0, 2047)) if current >= 0 else 0
    state = (kind, used, consumed & used, current, deps, last, data.draw(st.integers(0, 60)))
    assert kernels.legal(*state) == tpl._legal(*state)


@pytest.mark.parametrize(("env_id", "batch"), [(PLANS, OpenCATPVectorEnv), (CALLS, OpenCATPCallsVectorEnv)])
def test_make_vec_takes_the_native_batch(env_id: str, batch: type) -> None:
    made = gym.make_vec(env_id, num_envs=4, tasks="all")
    assert type(made.unwrapped) is batch
    assert made.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    observation, info = made.reset(seed=1)
    assert made.observation_space.contains(observation)
    assert info["action_mask"].shape == (4, made.single_action_space.n)
    looped = costgym.make_vec(env_id, num_envs=4, vectorization_mode="sync", tasks="all")
    expected = looped.reset(seed=1)
    assert difference(observation, expected[0]) is None


@pytest.mark.parametrize("env_id", VIEWS)
def test_without_copies_the_values_are_the_same(env_id: str) -> None:
    single, batch = VIEWS[env_id]
    fresh, reused = batch(8), batch(8, copy=False)
    generator = np.random.default_rng(0)
    (first, _), (second, _) = fresh.reset(seed=3), reused.reset(seed=3)
    for _ in range(200):
        assert difference(first, second) is None
        actions = generator.integers(0, single().action_space.n, 8)
        (first, *rest), (second, *others) = fresh.step(actions), reused.step(actions)
        assert [difference(a, b) for a, b in zip(rest, others, strict=True)] == [None] * 4


def test_with_copies_nothing_is_shared_between_steps() -> None:
    native = OpenCATPCallsVectorEnv(3)
    native.reset(seed=0)
    before = native.step(np.zeros(3, np.int64))
    kept = {key: value.copy() for key, value in before[4].items()}
    after = native.step(np.array([46, 0, 0]))
    assert difference(before[4], kept) is None
    for one, other in [(before[0], after[0]), (before[4], after[4])]:
        assert not any(np.shares_memory(one[key], other[key]) for key in one)


@pytest.mark.parametrize("env_id", VIEWS)
def test_what_the_batch_cannot_do_it_refuses(env_id: str) -> None:
    batch = VIEWS[env_id][1]
    with pytest.raises(ConfigError, match="SyncVectorEnv"):
        batch(2, render_mode="ansi")
    with pytest.raises(ConfigError, match="num_envs"):
        batch(0)
    with pytest.raises(ConfigError, match="alpha"):
        batch(2, alpha=3)
    with pytest.raises(EpisodeOver, match="reset"):
        batch(2).step(np.zeros(2, np.int64))


def test_an_illegal_token_costs_what_was_published() -> None:
    native = OpenCATPVectorEnv(2, autoreset_mode="Disabled")
    native.reset(seed=0)
    *_, terminated, _, info = native.step(np.array([tpl.END, tpl.N_ACTIONS]))
    assert terminated.all() and info["quality_of_plan"].tolist() == [-0.5, -0.5] and not info["plan_valid"].any()

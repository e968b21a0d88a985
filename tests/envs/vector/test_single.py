"""A single environment in compiled code is the event-driven one, only faster."""

import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import costgym
from costgym.envs.marketplace import MarketplaceEnv
from costgym.experiments.play.rollout import rollout
from costgym.simulators.errors import ConfigError

pytest.importorskip("numba", reason="needs the extra `train`")

from costgym.simulators.batch.arguments import BoundArguments
from tests.helpers.lockstep import CompiledOnes, run_views

pytestmark = pytest.mark.native

ENV_ID = "costgym/Marketplace-v0"
ENFORCEMENTS = ("refuse", "terminate", "record")


def pair(**settings: Any) -> tuple[MarketplaceEnv, MarketplaceEnv]:
    return MarketplaceEnv(**settings), MarketplaceEnv(compiled=True, **settings)


def assert_same(expected: Any, got: Any, where: str = "") -> None:
    """The same keys in the same order, the same types, and the same bytes."""
    assert type(expected) is type(got), where
    if isinstance(expected, dict):
        assert list(expected) == list(got), where
        for key in expected:
            assert_same(expected[key], got[key], f"{where}/{key}")
    elif isinstance(expected, tuple):
        for index, (one, other) in enumerate(zip(expected, got, strict=True)):
            assert_same(one, other, f"{where}/{index}")
    elif isinstance(expected, np.ndarray):
        assert (expected.dtype, expected.tobytes()) == (got.dtype, got.tobytes()), where
    else:
        assert repr(expected) == repr(got), where  # tells -0.0 from 0.0


def play_both(world: MarketplaceEnv, compiled: MarketplaceEnv, steps: int, seed: int) -> None:
    """Random play with resets of every kind, and steps after the end."""
    generator = np.random.default_rng(seed)
    width = int(world.action_space.n)  # type: ignore[attr-defined]
    assert_same(world.reset(seed=seed), compiled.reset(seed=seed), "reset")
    for step in range(steps):
        action = int(generator.integers(0, width))
        results = world.step(action), compiled.step(action)
        assert_same(*results, f"step {step}")
        assert_same(world.action_masks(), compiled.action_masks(), f"masks {step}")
        ended = results[0][2] or results[0][3]
        if ended and generator.random() < 0.7:
            options = {"task": world.numbers[step % len(world.numbers)]} if generator.random() < 0.5 else None
            chosen = int(generator.integers(1 << 62)) << int(generator.integers(4)) if generator.random() < 0.5 else None
            fresh = (env.reset(seed=chosen, options=options) for env in (world, compiled))
            assert_same(*fresh, f"reset at {step}")


@pytest.mark.parametrize("form", [{}, {"concurrent": True}], ids=["default", "concurrent"])
@pytest.mark.parametrize("scenario", ["marketplace", "storm", "faas", "marketplace-writes"])
def test_every_value_has_the_type_and_the_bits_of_the_event_driven_environment(scenario: str, form: dict[str, Any]) -> None:
    for number, (enforcement, cost) in enumerate(zip(ENFORCEMENTS, ("price", "tokens", "seconds"), strict=True)):
        budget = ({"price": 20.0}, {"tokens": 900, "seconds": 9.0}, {})[number]
        envs = pair(scenario=scenario, enforcement=enforcement, cost=cost, budget=budget, max_steps=12, **form)
        play_both(*envs, steps=200, seed=number)


def test_loops_over_them_are_equal_in_every_autoreset_mode() -> None:
    for number, (mode, mask) in enumerate(product(AutoresetMode, ("useful", "legal"))):
        settings: dict[str, Any] = {"scenario": "storm", "mask": mask, "max_steps": 14, "enforcement": ENFORCEMENTS[number % 3]}
        met = run_views(4, 60, number, mode, native_env=CompiledOnes, **settings)
        assert met["terminated"]


def test_tasks_of_a_large_split_get_their_tables_when_they_are_drawn() -> None:
    play_both(*pair(split="train-large"), steps=120, seed=3)


@pytest.mark.parametrize(
    "read",
    [
        lambda env: env.account(), lambda env: env.episode, lambda env: env.task, lambda env: env.render(),
        lambda env: env.fork(), lambda env: env.optimum(), lambda env: env.succeeded, copy.deepcopy, pickle.dumps,
        lambda env: rollout(env, "random", 1, 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("env_id", [ENV_ID, "costgym/MarketplaceSession-v0"])
def test_what_needs_a_log_is_refused_with_the_remedy(env_id: str, read: Any) -> None:
    env = costgym.make(env_id, compiled=True, render_mode="ansi", disable_env_checker=True).unwrapped
    env.reset(seed=0)
    env.step(0)
    with pytest.raises(ConfigError, match=r"keeps no log.*make the environment with compiled=False"):
        read(env)


def test_two_environments_share_nothing() -> None:
    world, compiled = pair()
    other = MarketplaceEnv(compiled=True)
    other.reset(seed=4)
    world.reset(seed=3)
    observation, _ = compiled.reset(seed=3)
    copied = observation["tools"].copy()
    for action in range(6):
        other.step(action + 3)
        assert_same(world.step(action), compiled.step(action))
    assert observation["tools"].tobytes() == copied.tobytes()  # what a step hands out is the caller's


def test_six_threads_play_what_one_plays_in_python() -> None:
    source = {"kind": "marketplace", "tools": 40, "providers": 8, "categories": 3, "train": 6, "test": 3, "candidates": [3, 7]}

    def episodes(thread: int, **settings: Any) -> str:
        env = MarketplaceEnv(scenario={"source": source, "failures": "storm"}, **settings)
        generator = np.random.default_rng(thread)
        log: list[Any] = [env.reset(seed=thread)]
        for action in generator.integers(0, env.finish_action + 1, 150).tolist():
            log.append(env.step(action))
            if log[-1][2] or log[-1][3]:
                log.append(env.reset())
        return repr(log)

    alone = [episodes(thread) for thread in range(6)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(6) as pool:
            assert list(pool.map(lambda thread: episodes(thread, compiled=True), range(6))) == alone
    finally:
        sys.setswitchinterval(before)


def test_gymnasium_makes_and_checks_it() -> None:
    made = gym.make(ENV_ID, compiled=True, max_episode_steps=3)
    assert made.unwrapped._compiled is not None
    check_env(costgym.make(ENV_ID, compiled=True, disable_env_checker=True).unwrapped)
    made.reset(seed=0)
    assert [made.step(0)[3] for _ in range(3)] == [False, False, True]
    assert costgym.make_vec(ENV_ID, 2, compiled=True).reset(seed=0)[1]["status"].tolist() == [0, 0]


def test_a_step_before_a_reset_and_arguments_that_make_no_sense_say_what_is_wrong() -> None:
    compiled = MarketplaceEnv(compiled=True)
    with pytest.raises(Exception, match="reset"):
        compiled.step(0)
    with pytest.raises(Exception, match="reset"):
        compiled.action_masks()
    with pytest.raises(ConfigError, match=r"compiled.*true or false, got 1"):
        MarketplaceEnv(compiled=1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"one set of rules, budget and prices, and \w+ has another than \w+;"):
        MarketplaceEnv(compiled=True, scenario=["marketplace", "storm"]).reset(seed=0)


def test_a_reset_may_name_the_scenarios_that_it_was_made_with_and_no_others() -> None:
    compiled = MarketplaceEnv(compiled=True)
    assert_same(MarketplaceEnv().reset(seed=2), compiled.reset(seed=2, options={"scenario": "marketplace"}))
    with pytest.raises(ConfigError, match="since compiled code plays no others; make it with compiled=False"):
        compiled.reset(seed=2, options={"scenario": "storm"})


def test_copies_of_bound_arguments_have_addresses_of_their_own() -> None:
    bound = BoundArguments((np.zeros(3), 1))
    for way in (copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))):
        twin = way(bound)
        assert twin.address != bound.address and twin._numba_type_ == bound._numba_type_
        assert_same(bound.content, twin.content)

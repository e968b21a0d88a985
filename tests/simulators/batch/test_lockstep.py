"""The rules compiled for arrays of episodes are the rules interpreted for one, in random worlds and to the last bit."""

from random import Random
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("numba", reason="needs the extra `train`")

from costgym.envs.native import SessionVectorEnv
from costgym.envs.sessions.session import MarketplaceSessionEnv
from costgym.simulators.scenario import parse_scenario
from tests.helpers.lockstep import CANCEL, FINISH, WAIT, play, run_views, session_actions
from tests.helpers.random_worlds import Writer

pytestmark = pytest.mark.native
EPISODES, STEPS = 8, 40
SEEDS = st.integers(0, 2**32)


def random_actions(random: np.random.Generator, width: int) -> list[list[int]]:
    """Calls, waits and cancelled calls, and now and then an end."""
    actions = random.integers(-1, width, (STEPS, EPISODES))
    actions = np.where(random.random(actions.shape) < 0.35, WAIT, actions)
    actions = np.where(random.random(actions.shape) < 0.08, CANCEL - np.maximum(actions, 0), actions)
    return np.where(random.random(actions.shape) < 0.02, FINISH, actions).tolist()


@given(number=SEEDS)
def test_calls_are_played_alike(number: int) -> None:
    scenario = parse_scenario(Writer(Random(number)).scenario())
    world, random = scenario.build(), np.random.default_rng(number)
    actions = random_actions(random, max(len(task.candidates) for task in world.tasks))
    seeds = [int(seed) for seed in random.integers(2**40, size=EPISODES)]
    play(world, actions, seeds, scenario.limits(), scenario.enforcement)


@given(number=SEEDS)
def test_environments_are_played_alike(number: int) -> None:
    random = Random(number)
    scenario = parse_scenario(Writer(random).scenario())
    settings: dict[str, Any] = {"scenario": scenario, "enforcement": scenario.enforcement, "max_steps": random.choice((4, 12))}
    settings |= {"concurrent": random.random() < 0.5, "mask": random.choice(("useful", "legal"))}
    run_views(3, 24, number, random.choice(list(AutoresetMode)), **settings)


@given(number=SEEDS)
def test_sessions_are_played_alike(number: int) -> None:
    random = Random(number)
    kinds = random.randint(1, 4)
    settings = {
        "queries": random.randint(1, 12), "capabilities": kinds, "tools": random.randint(kinds, 12),
        "providers": random.randint(1, 4), "drift": random.choice((0.0, 0.1, 1.0)), "price_drift": random.choice((0.0, 0.3)),
        "repeat": random.random(), "ttl_s": random.choice((1.0, 60.0)), "outage_every_s": random.choice((5.0, 400.0)),
        "enforcement": random.choice(("refuse", "terminate", "record")), "concurrent": random.random() < 0.5,
        "budget": random.choice((None, {}, {"price": 25, "seconds": 40.0}, {"calls": 5})),
        "memory": random.choice(("counts", "raw")), "mask": random.choice(("useful", "legal")),
    }  # fmt: skip
    mode = random.choice(list(AutoresetMode))
    run_views(3, 24, number, mode, None, MarketplaceSessionEnv, SessionVectorEnv, session_actions, **settings)

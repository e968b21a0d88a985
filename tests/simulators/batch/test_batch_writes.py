"""Writes in a batch equal those of the event-driven world, call by call and to the last bit."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from costgym.experiments.lab.selftest.lockstep import FINISH, WAIT, play
from costgym.simulators.scenario import Scenario, load_scenario
from tests.helpers.desks import scenario, tool

pytestmark = pytest.mark.native
FAILING = {
    "slip": 0.2,
    "persistence": 0.3,
    "sticky": 0.2,
    "kinds": {"timeout": 0.4, "empty": 0.2, "unauthorized": 0.2, "corrupt": 0.2},
}


def run(world: Scenario, count: int, steps: int, seed: int) -> None:
    """Play random actions both ways."""
    built, random = world.build(), np.random.default_rng(seed)
    width = max(len(task.candidates) for task in list(built.tasks)[:count])
    actions = random.integers(0, width, (steps, count))
    actions = np.where(random.random(actions.shape) < 0.45, WAIT, actions)
    actions[-1] = FINISH
    seeds = [int(each) for each in random.integers(2**40, size=count)]
    met = play(built, actions.tolist(), seeds, world.limits(), world.enforcement)
    assert met.total() > steps


@pytest.mark.parametrize("seed", range(6))
def test_random_desks_are_played_alike(seed: int) -> None:
    random = Random(seed)
    tools = [
        tool(
            f"book{index}",
            random.choice((0.0, 0.5, 0.8)),
            idempotent=random.random() < 0.5,
            happens=random.choice((0.0, 0.5, 1.0)),
            settles_s=random.choice((0.0, 3.0, 50.0)),
        )
        for index in range(3)
    ]
    run(scenario(*tools, failures=FAILING, asked=random.random() < 0.5), 16, 60, seed)


def test_the_generated_market_is_played_alike() -> None:
    run(load_scenario("marketplace-writes"), 40, 80, 0)

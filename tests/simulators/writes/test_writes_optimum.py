"""The optimum of tasks with writes against trying every sequence of calls, in code that shares nothing with the search."""

from __future__ import annotations

from itertools import product
from random import Random

from costgym.simulators.oracle.optimum import optimum
from costgym.simulators.quality import quality_of_plan
from costgym.simulators.scenario import Scenario
from costgym.simulators.world import World
from tests.helpers.desks import scenario, tool

LENGTH = 4
"""Longest sequence that is tried."""
KINDS = {"slip": 0.1, "persistence": 0.3, "sticky": 0.3, "kinds": {"timeout": 0.6, "server_error": 0.2, "unauthorized": 0.2}}


def tiny(random: Random) -> Scenario:
    tools = [
        tool(
            f"book{index}",
            random.choice((0.3, 0.6, 1.0)),
            random.choice((1.0, 2.0, 3.5)),
            idempotent=random.random() < 0.3,
            happens=random.choice((0.2, 0.5, 1.0)),
        )
        for index in range(random.choice((1, 2)))
    ]
    return scenario(*tools, failures=KINDS, asked=random.random() < 0.4)


def cheapest(world: World, seed: int) -> float | None:
    """The least price of any sequence of calls after which finishing passes; None where none is as short as that."""
    prices = []
    for length in range(LENGTH + 1):
        for slots in product(range(len(world.candidates(0))), repeat=length):
            episode = world.episode(0, seed)
            for slot in slots:
                episode.call(slot)
            if episode.finish().strict:
                prices.append(episode.ledger.price)
    return min(prices, default=None)


def test_the_optimum_is_right_or_says_that_it_is_a_bound() -> None:
    exact = bounds = 0
    for number in range(150):
        world = tiny(Random(number)).build()
        best, least = optimum(world, 0, number), cheapest(world, number)
        if least is not None:
            assert quality_of_plan(1.0, least, world.alpha, world.max_price) <= best.quality + 1e-9
            if best.exact:
                assert best.feasible and best.price <= least + 1e-9, number
        if best.feasible:
            episode = world.episode(0, number)
            for slot in best.plan:
                episode.call(slot)
            assert episode.finish().strict and abs(episode.ledger.price - best.price) < 1e-9
            assert least is None or best.price >= least - 1e-9
        exact, bounds = exact + best.exact, bounds + (not best.exact)
    assert (exact + bounds, exact > 100) == (150, True)

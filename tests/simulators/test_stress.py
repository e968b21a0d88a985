"""Stress: the same world, tasks and luck, with factors on failures, limits and latencies."""

from dataclasses import replace

import pytest

from costgym.simulators.errors import CostGymError
from costgym.simulators.scenario import Scenario, parse_scenario
from costgym.simulators.status import Status
from costgym.simulators.stress import Stress
from costgym.simulators.tools import Catalog

SMALL = Scenario.model_validate(
    {"name": "small", "source": {"kind": "marketplace", "tools": 120, "providers": 20, "categories": 8, "train": 6, "test": 6}}
)

SLIP = SMALL.failures.slip
WORKED = (Status.OK, Status.NO_DATA, Status.WRONG_ARGUMENTS)


def stressed(**factors: float) -> Scenario:
    return SMALL.model_copy(update={"stress": Stress(**factors)})


def test_a_scenario_without_stress_keeps_its_document_and_its_digest():
    assert "stress" not in SMALL.model_dump(mode="json")
    assert stressed(failures=2).digest != SMALL.digest
    assert parse_scenario(stressed(failures=2).model_dump(mode="json")) == stressed(failures=2)


def test_factors_of_one_change_no_tool_and_no_failure():
    world, same = SMALL.build(), stressed().build()
    assert list(same.catalog) == list(world.catalog) and same.failures == world.failures


def test_stress_changes_what_happens_and_nothing_that_is_advertised():
    world, harsh = SMALL.build(), stressed(failures=3, rate_limits=20, latency=4).build()
    for tool, other in zip(world.catalog, harsh.catalog, strict=True):
        ours, theirs = tool.profile, other.profile
        failing = [(1 - catalog.reliability) * (1 - SLIP) + catalog.reliability * SLIP for catalog in (ours, theirs)]
        assert failing[1] == pytest.approx(min(3 * failing[0], 1 - SLIP))
        assert theirs.latency_s == tuple(4 * seconds for seconds in ours.latency_s)
        assert theirs.rate_limit == 1 and (theirs.quota == 1) == bool(ours.quota)
        names = ("reliability", "latency_s", "cold_start_s", "rate_limit", "quota")
        assert replace(other, profile=replace(theirs, **{name: getattr(ours, name) for name in names})) == tool
    assert harsh.failures == world.failures and stressed(failures=0).build().failures.slip == 0


def test_a_slip_of_a_tools_own_is_stressed_like_the_worlds():
    """A tool that has the world's slip as its own fails as often as one that takes it from the world."""
    world = SMALL.build()
    catalog = Catalog(replace(tool, profile=replace(tool.profile, slip=SLIP / 2)) for tool in world.catalog)
    half = replace(world, catalog=catalog, failures=world.failures.model_copy(update={"slip": SLIP / 2}))
    for factor in (0.0, 0.5, 3.0):
        stress = Stress(failures=factor)
        mixed, all_of_it = stress.applied(replace(world, catalog=catalog), 0), stress.applied(half, 0)
        assert [tool.profile for tool in mixed.catalog] == [tool.profile for tool in all_of_it.catalog]
        assert {tool.profile.slip for tool in mixed.catalog} == {all_of_it.failures.slip}


def test_without_failures_every_call_works_and_harsher_worlds_share_their_luck():
    worked = {}
    for factor in (0.0, 1.0, 3.0):
        world = stressed(failures=factor, rate_limits=0, latency=0.01).build()
        outcomes = []
        for number in range(12):
            episode = world.episode(number, seed=7)
            for slot in world.candidates(number):
                outcomes.append(episode.call(slot.index).status in WORKED)
        worked[factor] = outcomes
    assert all(worked[0.0])
    assert all(calm or not usual for calm, usual in zip(worked[0.0], worked[1.0], strict=True))
    assert sum(worked[0.0]) > sum(worked[1.0]) > sum(worked[3.0])
    assert all(usual or not harsh for usual, harsh in zip(worked[1.0], worked[3.0], strict=True))


@pytest.mark.parametrize("factors", [{"failures": -1}, {"latency": 0}, {"rate_limits": float("nan")}, {"noise": 1}])
def test_factors_that_make_no_sense_are_refused(factors):
    with pytest.raises(CostGymError):
        parse_scenario({"name": "wrong", "stress": factors})

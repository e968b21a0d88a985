"""Versions of the world: what states one, what decides where nothing does, and what is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import costgym
from costgym.simulators.scenario import Scenario, load_scenario, parse_scenario

ONE = {"source": {"kind": "marketplace", "world": 1}}
ZERO = {"source": {"kind": "marketplace", "world": 0}}
KINDS = ("marketplace", "toolbench", "mgtoolbench", "anytool", "tooldeer", "writes", "worlds")


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_of_version_0_says_nothing_of_it_and_one_of_version_1_does(kind: str) -> None:
    without, zero, one = (
        parse_scenario({"name": "x", "source": {"kind": kind, **stated}}) for stated in ({}, {"world": 0}, {"world": 1})
    )
    assert (without.world, zero.world, one.world) == (0, 0, 1)
    assert without.digest == zero.digest != one.digest
    assert "world" not in without.model_dump(mode="json")["source"] and one.model_dump(mode="json")["source"]["world"] == 1


@pytest.mark.parametrize("world", [2, -1, True, "new", 0.5])
def test_a_version_that_does_not_exist_is_refused(world: Any) -> None:
    with pytest.raises(costgym.DataError, match=r"source\.marketplace\.world: expected a version of the world, 0 or 1, got"):
        parse_scenario({"name": "x", "source": {"kind": "marketplace", "world": world}})


def test_the_id_decides_where_the_scenario_says_nothing_and_refuses_the_other_version() -> None:
    for version, other in ((0, ONE), (1, ZERO)):
        env_id = f"costgym/MarketplaceChat-v{version}"
        env: Any = costgym.make(env_id, scenario="marketplace").unwrapped
        assert (env.world_version, env.world.version, env.scenario.world) == (version, version, version)
        env.reset(seed=0, options={"scenario": "storm"})
        assert env.world.version == version
        with pytest.raises(costgym.ConfigError, match=f"expected version {version} of the world, got {1 - version}"):
            costgym.make(env_id, scenario=other)
    assert [costgym.make("costgym/Marketplace-v0", scenario=s).unwrapped.world_version for s in ("marketplace", ONE)] == [0, 1]  # type: ignore[attr-defined]


def test_another_split_and_a_stressed_world_keep_the_version() -> None:
    scenario = load_scenario("storm").in_world(1)
    assert scenario.unseen().world == 1 == scenario.unseen().build().version
    stressed = Scenario.model_validate({**scenario.model_dump(), "stress": {"failures": 2.0}})
    assert stressed.world == 1 == stressed.build().version


@given(
    name=st.sampled_from(["marketplace", "storm", "marketplace-writes", "silent"]),
    concurrent=st.booleans(),
    seed=st.integers(0, 2**31),
    split=st.sampled_from(["train", "test"]),
)
def test_numbers_are_equal_to_the_last_bit_in_both_versions(name: str, concurrent: bool, seed: int, split: str) -> None:
    generator = np.random.default_rng(seed)
    chosen: dict[str, Any] = {"concurrent": concurrent, "split": split, "disable_env_checker": True}
    envs = [costgym.make("costgym/Marketplace-v0", scenario=load_scenario(name).in_world(world), **chosen) for world in (0, 1)]
    (observation, info), other = (env.reset(seed=seed) for env in envs)
    over = False
    while not over:
        for key, array in observation.items():
            assert array.tobytes() == other[0][key].tobytes(), key
        mask, mask_of_other = info.pop("action_mask"), other[-1].pop("action_mask")
        assert info == other[-1] and np.array_equal(mask, mask_of_other)
        action = int(generator.choice(np.flatnonzero(mask)))
        (observation, reward, terminated, truncated, info), other = (env.step(action) for env in envs)
        assert (reward, terminated, truncated) == other[1:4]
        over = terminated or truncated

"""Native batches and compiled episodes over several worlds are those of Python to the last bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs the extra `train`")

from gymnasium.vector import AutoresetMode

import costgym
from costgym.envs.native import MarketplaceVectorEnv
from costgym.simulators.errors import ConfigError
from costgym.simulators.forge.folder import WorldFolder
from costgym.simulators.scenario import parse_scenario
from tests.helpers.lockstep import CompiledOnes, run_views
from tests.helpers.specifications import forged_worlds

pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return forged_worlds(tmp_path_factory.mktemp("forged"))


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("kept_rows", [3, 8_192])
def test_every_episode_of_a_batch_draws_its_world_as_in_python(
    worlds: Path, mode: AutoresetMode, kept_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costgym.envs.vector.marketplace.KEPT_ROWS", kept_rows)
    met = run_views(3, 240, 4, mode, scenario=worlds, max_steps=8)
    assert met["terminated"] > 20 and met["success"]


@pytest.mark.parametrize("concurrent", [False, True])
def test_a_single_compiled_environment_and_lists_of_worlds_are_as_in_python(worlds: Path, concurrent: bool) -> None:
    run_views(2, 120, 1, AutoresetMode.NEXT_STEP, None, native_env=CompiledOnes, scenario=worlds, concurrent=concurrent)
    several = [WorldFolder(worlds, parse_scenario)[number] for number in (0, 5, 7)]
    run_views(3, 80, 2, AutoresetMode.NEXT_STEP, scenario={"any_of": several, "weights": [1, 2, 5]}, concurrent=concurrent)


def test_worlds_whose_tools_fail_in_other_ways_keep_their_own(worlds: Path) -> None:
    ways: list[dict[str, float]] = [{"timeout": 1.0}, {"server_error": 1.0, "empty": 3.0}, {"partial": 1.0, "irrelevant": 1.0}]
    several = []
    for number, kinds in enumerate(ways):
        world = WorldFolder(worlds, parse_scenario)[number]
        several.append(world.model_copy(update={"failures": world.failures.model_copy(update={"kinds": kinds, "usable": 0.2})}))
    met = run_views(4, 150, 3, AutoresetMode.NEXT_STEP, scenario=several)
    assert len(set(met) - {"terminated", "truncated", "success"}) > 4


def test_memory_is_flat_however_many_worlds_are_met(worlds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costgym.envs.vector.marketplace.KEPT_ROWS", 8)
    env = MarketplaceVectorEnv(2, scenario=worlds)
    names = set[str]()
    for seed in range(60):
        env.reset(seed=seed)
        names.add(env.scalar.scenario.name)
    assert len(names) > 5 and len(env.batch.numbers) <= 8 and len(env._row_of) <= 8


def test_what_a_batch_of_several_worlds_cannot_do_is_said(worlds: Path) -> None:
    env: Any = costgym.make_vec("costgym/Marketplace-v0", 2, scenario=worlds)
    assert isinstance(env, MarketplaceVectorEnv) and np.isfinite(env.reset(seed=0)[0]["tools"]).all()
    with pytest.raises(ConfigError, match="draws its tasks"):
        env.reset(options={"task": 3})
    with pytest.raises(ConfigError, match="all_tables"):
        costgym.make_vec("costgym/Marketplace-v0", 2, scenario=worlds, all_tables=True)

"""Training over a folder of worlds: one batch of many worlds, other worlds in every segment, and runs that resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs the extra `train`")
pytest.importorskip("sb3_contrib", reason="needs the extra `train`")

from gymnasium.vector import AutoresetMode

from costgym.agents import make_agent
from costgym.envs.vector.marketplace import MarketplaceVectorEnv
from costgym.experiments.train.sb3.decisions import ToolVecEnv
from costgym.experiments.train.sb3.train import train_dqn, train_ppo
from costgym.experiments.train.sb3.worlds import WorldsVectorEnv
from costgym.simulators.errors import ConfigError
from costgym.simulators.forge.folder import WorldFolder
from costgym.simulators.scenario import parse_scenario
from tests.helpers.specifications import forged_worlds
from tests.helpers.training import DQN, PPO, StopAt, files

pytestmark = pytest.mark.native
SAME_STEP: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP, "max_steps": 8}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return forged_worlds(tmp_path_factory.mktemp("forged"))


def test_a_batch_of_worlds_plays_each_world_as_its_own_batch(worlds: Path) -> None:
    many = WorldsVectorEnv(7, scenario=worlds, worlds=3, **SAME_STEP)
    observation, info = many.reset(seed=list(range(20, 27)))
    folder = WorldFolder(worlds, parse_scenario)
    names = [each.scalar.scenario.name for each in many._batches]
    singles = [
        MarketplaceVectorEnv(len(seeds), scenario=next(w for w in folder if w.name == name), max_tools=folder.most_candidates,
                             **SAME_STEP)
        for name, seeds in zip(names, (range(3), range(2), range(2)), strict=True)
    ]  # fmt: skip
    ended, starts = 0, (20, 23, 25)
    begun = [single.reset(seed=start) for single, start in zip(singles, starts, strict=True)]
    assert all(np.array_equal(observation[key], np.concatenate([each[0][key] for each in begun])) for key in observation)
    rng = np.random.default_rng(0)
    for _ in range(40):
        mask = many.action_masks()
        actions = np.array([rng.choice(np.flatnonzero(row)) for row in mask])
        observation, rewards, terminated, truncated, info = many.step(actions)
        parts = [single.step(part) for single, part in zip(singles, np.split(actions, (3, 5)), strict=True)]
        assert all(np.array_equal(observation[key], np.concatenate([each[0][key] for each in parts])) for key in observation)
        assert rewards.tolist() == np.concatenate([each[1] for each in parts]).tolist()
        done = terminated | truncated
        ended += int(done.sum())
        for i in np.flatnonzero(done).tolist():
            k = int(np.searchsorted((3, 5), i, side="right"))
            last, own = parts[k][4], i - (0, 3, 5)[k]
            assert all(np.array_equal(info["final_obs"][i][key], value) for key, value in last["final_obs"][own].items())
            assert all(info["final_info"][key][i] == last["final_info"][key][own] for key in ("is_success", "cost_sum"))
    assert ended > 20


def test_other_seeds_draw_other_worlds_and_the_same_seed_the_same(worlds: Path) -> None:
    env = ToolVecEnv(8, scenario=str(worlds), worlds=4)

    def drawn(seed: int) -> list[str]:
        env.seed(seed)
        env.reset()
        return [each.scalar.scenario.name for each in env.env._batches]

    first = drawn(0)
    assert len(first) == 4 and drawn(1) != first and drawn(0) == first


def test_a_stopped_run_over_a_folder_ends_with_the_bytes_of_an_uninterrupted_one(worlds: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {**PPO, "steps": 384, "worlds": 3, "budget": {"price": 20}}
    assert not train_ppo(tmp_path / "a", worlds, callback=StopAt(128), **settings).finished
    train_ppo(tmp_path / "a", worlds, **settings)
    train_ppo(tmp_path / "b", str(worlds), **settings)
    stopped, whole = files(tmp_path / "a" / "checkpoints"), files(tmp_path / "b" / "checkpoints")
    weights = [name for name in whole if name.endswith(".safetensors")]
    assert weights and all(stopped[name] == whole[name] for name in weights)
    assert make_agent(f"sb3:{tmp_path / 'b'}").env_id == "costgym/Marketplace-v0"


def test_dqn_over_a_folder_is_refused_before_its_own_folder_is_made(worlds: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="DQN learns in one world"):
        train_dqn(tmp_path / "dqn", worlds, steps=64, **DQN)
    assert not (tmp_path / "dqn").exists()

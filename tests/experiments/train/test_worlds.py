"""Training over a folder of worlds: one batch of many worlds, other worlds in every segment, and runs that resume."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numba", reason="needs the extra `train`")
pytest.importorskip("sb3_contrib", reason="needs the extra `train`")

from gymnasium.vector import AutoresetMode

from costgym.agents import make_agent
from costgym.experiments.train.sb3.decisions import ToolVecEnv
from costgym.experiments.train.sb3.train import train_dqn, train_ppo
from costgym.simulators.errors import ConfigError
from tests.helpers.specifications import forged_worlds
from tests.helpers.training import DQN, PPO, StopAt, files

pytestmark = pytest.mark.native
SAME_STEP: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP, "max_steps": 8}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return forged_worlds(tmp_path_factory.mktemp("forged"))


def test_other_seeds_draw_other_worlds_and_the_same_seed_the_same(worlds: Path) -> None:
    env = ToolVecEnv(8, scenario=str(worlds), worlds=4)

    def drawn(seed: int) -> list[str]:
        env.seed(seed)
        env.reset()
        return [scenario.name for scenario in env.env.scalar.scenarios]

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

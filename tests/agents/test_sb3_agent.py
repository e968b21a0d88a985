"""Learnt policies as agents: what they play, and which checkpoints are refused."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import costgym
from costgym.agents import make_agent
from costgym.agents.checkpoints import save_checkpoint
from costgym.agents.sb3 import Sb3Agent, Sb3Config, needed
from costgym.agents.settings import CONFIG, NetworkSettings, read_config
from costgym.envs.features.templates import MAX_NEEDS, NEED_FEATURES, TOOL_FEATURES
from costgym.simulators.errors import ConfigError, DataError, MissingExtra
from costgym.simulators.scenario import load_scenario

torch = pytest.importorskip("torch", reason="learnt policies need torch (the train extra)")
pytest.importorskip("safetensors", reason="checkpoints are safetensors files (the train extra)")

WEIGHTS = "checkpoints/step-00000007/policy.safetensors"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A checkpoint of a network that learnt nothing, but finishes last of all."""
    from costgym.agents.tool_network import ToolNetwork

    torch.manual_seed(0)
    network = ToolNetwork(NetworkSettings(hidden_size=8, rounds=1))
    with torch.no_grad():
        network.others.bias[1] = -100.0
    config = Sb3Config(
        trainer="ppo",
        scenario=load_scenario("marketplace"),
        settings={"needed_only": True},
        env_settings={"split": "train"},
        lagrangian=None,
        network=network.describe(),
    )
    (tmp_path / CONFIG).write_text(config.model_dump_json())
    save_checkpoint(tmp_path, 7, network.state_dict(), {}, {})
    return tmp_path


def change(run: Path, **fields: object) -> None:
    path = run / CONFIG
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_a_run_is_an_agent_by_its_path(run: Path) -> None:
    agent = make_agent(f"sb3:{run}")
    assert (agent.name, agent.env_id) == (f"sb3:{run}", "costgym/Marketplace-v0")


def test_a_path_may_hold_a_plus(run: Path) -> None:
    other = run.parent / "a+btp"
    run.rename(other)
    assert make_agent(f"sb3:{other}").name == f"sb3:{other}"


def test_it_ends_its_episodes_and_stays_within_the_budget_that_nothing_enforces(run: Path) -> None:
    env = costgym.make("costgym/Marketplace-v0", split="test", budget={"price": 8, "calls": 3}, enforcement="record")
    results = costgym.rollout(env, Sb3Agent(run), episodes=20, seed=0)
    assert all(result.within_budget and result.calls <= 3 for result in results)
    assert sum(result.calls for result in results) > 0


def test_it_plays_the_same_every_time(run: Path) -> None:
    env = costgym.make("costgym/Marketplace-v0", split="test")
    first, second = (costgym.rollout(env, Sb3Agent(run), episodes=5, seed=3) for _ in range(2))
    assert first == second


def test_a_call_is_needed_where_its_fact_is_missing_and_can_be_had() -> None:
    tools = np.zeros((4, len(TOOL_FEATURES)), np.float32)
    for tool, need in enumerate((0, 1, 2)):  # the fourth tool serves nothing
        tools[tool, TOOL_FEATURES.index(f"need_{need + 1}")] = 1.0
    needs = np.zeros((MAX_NEEDS, len(NEED_FEATURES)), np.float32)
    needs[0], needs[1], needs[2] = (1, 0, 1), (1, 1, 1), (1, 0, 0)  # missing; known; not ready
    assert needed({"tools": tools, "needs": needs}).tolist() == [True, False, False, False]


def test_another_environment_is_no_place_for_it(run: Path) -> None:
    env = costgym.make("costgym/MarketplaceChat-v0")
    with pytest.raises(ConfigError, match="Marketplace-v0"):
        costgym.rollout(env, Sb3Agent(run), episodes=1)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"format": "costgym.training/9"}, "expected format 'costgym.training/1', got 'costgym.training/9'"),
        ({"env": "costgym/OpenCATP-v0"}, "expected a policy for costgym/Marketplace-v0, got one for 'costgym/OpenCATP-v0'"),
        ({"version": "9.9.0"}, "written by costgym 9.9.0"),
        ({"trainer": "sac"}, "expected a run of ppo or dqn, got one of 'sac'"),
        ({"settings": []}, "settings"),
        ({"surprise": 1}, "surprise"),
        ({"network": {"hidden_size": 8, "rounds": 1}}, "observations differ from this version's: needs, resources, tools"),
        ({"network": {"hidden_size": 10**9, "rounds": 1}}, "expected a number less than or equal to 4096"),
        ({"network": {}}, "network.hidden_size: expected a valid integer, got None"),
        ({"scenario": {"name": "x", "alpha": 7}}, "scenario.alpha"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(run: Path, fields: dict[str, object], words: str) -> None:
    change(run, **fields)
    with pytest.raises(DataError, match=words):
        Sb3Agent(run)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no training run.*expected the folder of a `costgym train ppo or dqn` run"):
        make_agent(f"sb3:{tmp_path}")


@pytest.mark.parametrize("text", ["", "[", "[]", "null", '"x"'])
def test_an_invalid_manifest_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / CONFIG).write_text(text)
    with pytest.raises(DataError):
        read_config(tmp_path, Sb3Config)


def test_weights_of_another_network_are_refused(run: Path) -> None:
    document = json.loads((run / CONFIG).read_text())
    change(run, network={**document["network"], "hidden_size": 16})
    with pytest.raises(DataError, match="do not fit the network"):
        Sb3Agent(run)


def test_broken_and_missing_weights_are_refused(run: Path) -> None:
    weights = run / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(DataError, match="missing or damaged"):
        Sb3Agent(run)
    weights.unlink()
    with pytest.raises(DataError, match="missing or damaged"):
        Sb3Agent(run)


def test_weights_that_are_no_numbers_are_refused(run: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(run / WEIGHTS)
    weights["score.bias"][0] = float("nan")
    save_file(weights, run / WEIGHTS)
    with pytest.raises(DataError, match="do not fit"):
        Sb3Agent(run)


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return pytest.fail, ("a pickle was opened",)


def test_nothing_is_ever_unpickled(run: Path) -> None:
    (run / WEIGHTS).write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(DataError, match="missing or damaged"):
        Sb3Agent(run)


def test_without_torch_the_extra_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r'pip install "costgym\[train\]"'):
        Sb3Agent(run)

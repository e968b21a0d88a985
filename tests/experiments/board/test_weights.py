"""What trained agents play with is hashed, so that a changed checkpoint is another run."""

from pathlib import Path

import pytest

from costgym.experiments import leaderboard
from costgym.experiments.board.run_config import RunConfig, make_run_config, weights_of
from costgym.experiments.board.submissions.manifest import Submission
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import regenerate_pages
from costgym.simulators.errors import ConfigError

torch = pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("safetensors", reason="the train extra is not installed")


def trained(run: Path, value: float, step: int = 3) -> str:
    from costgym.agents.checkpoints import save_checkpoint

    run.mkdir(parents=True, exist_ok=True)
    (run / "config.json").write_text('{"trainer": "catp"}')
    save_checkpoint(run, step, {"w": torch.tensor([value])}, {"m": torch.tensor([value])}, {})
    return f"catp:{run}"


def test_only_trained_agents_have_a_hash(tmp_path: Path) -> None:
    agent = trained(tmp_path / "run", 1.0)
    assert set(weights_of(["random", "react+btp", agent, f"sb3:{tmp_path / 'none'}"])) == {agent}


def test_weights_and_settings_count_and_the_rest_does_not(tmp_path: Path) -> None:
    run = tmp_path / "run"
    agent = trained(run, 1.0)
    first = weights_of([agent])
    (run / "curve.jsonl").write_text("{}")
    (run / "checkpoints" / "step-00000003" / "optimizer.safetensors").write_bytes(b"other")
    trained(run / "sft", 9.0)
    assert weights_of([agent]) == first
    trained(run, 2.0)
    assert weights_of([agent]) != first
    trained(run, 1.0)
    assert weights_of([agent]) == first
    (run / "config.json").write_text("{}")
    assert weights_of([agent]) != first


def test_of_several_checkpoints_the_newest_counts(tmp_path: Path) -> None:
    agent = trained(tmp_path / "run", 1.0, step=3)
    before = weights_of([agent])
    trained(tmp_path / "run", 2.0, step=5)
    after = weights_of([agent])
    assert after != before
    (tmp_path / "run" / "checkpoints" / "step-00000003" / "policy.safetensors").unlink()
    assert weights_of([agent]) == after


def test_older_runs_of_reinforcement_learning_are_hashed_too(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"w": torch.ones(1)}, tmp_path / "policy-7.safetensors")
    first = weights_of([f"sb3:{tmp_path}"])
    save_file({"m": torch.ones(1)}, tmp_path / "training-7.safetensors")
    assert first and weights_of([f"sb3:{tmp_path}"]) == first
    save_file({"w": torch.zeros(1)}, tmp_path / "policy-7.safetensors")
    assert weights_of([f"sb3:{tmp_path}"]) != first


def learnt(run: Path, value: float) -> str:
    """An agent that plays in the track of numbers."""
    from costgym.agents.checkpoints import save_checkpoint
    from costgym.agents.sb3 import Sb3Config
    from costgym.agents.settings import NetworkSettings
    from costgym.agents.tool_network import ToolNetwork

    torch.manual_seed(0)
    network = ToolNetwork(NetworkSettings(hidden_size=8, rounds=1))
    with torch.no_grad():
        network.others.bias[1] = value
    about = Sb3Config(trainer="ppo", settings={}, env_settings={}, lagrangian=None, network=network.describe())
    run.mkdir(exist_ok=True)
    (run / "config.json").write_text(about.model_dump_json())
    save_checkpoint(run, 7, network.state_dict(), {}, {})
    return f"sb3:{run}"


def test_an_edited_or_missing_page_is_regenerated_from_the_verified_data(tmp_path: Path) -> None:
    config = make_run_config(agents=["cheapest"], episodes=2, budgets="price=20")
    board = leaderboard.run(config, tmp_path / "board").folder
    page = board / "index.html"
    written = page.read_bytes()
    assert regenerate_pages(board) == []
    page.write_text(page.read_text().replace("cheapest", "llama-9<script>"))
    assert verify(board).verified  # pages are shown, never read
    assert regenerate_pages(board) == ["index.html"] and page.read_bytes() == written
    page.unlink()
    assert regenerate_pages(board) == ["index.html"] and page.read_bytes() == written


def test_a_leaderboard_does_not_go_on_with_other_weights(tmp_path: Path) -> None:
    agents = [learnt(tmp_path / "run", -100.0), "cheapest"]
    config = make_run_config(agents=agents, episodes=2, budgets="price=20")
    assert list(config.weights) == agents[:1]
    leaderboard.run(config, tmp_path / "board")
    learnt(tmp_path / "run", -50.0)
    with pytest.raises(ConfigError, match=r"different: weights"):
        leaderboard.run(make_run_config(agents=agents, episodes=2, budgets="price=20"), tmp_path / "board")


def test_a_submission_says_which_weights_it_is_of() -> None:
    assert RunConfig.model_fields["weights"].default == {}
    assert Submission.model_fields["run"].annotation is RunConfig

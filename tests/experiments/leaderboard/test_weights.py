"""What trained agents play with is hashed, so that a changed checkpoint is another run."""

from __future__ import annotations

from pathlib import Path

import pytest

from costgym.experiments.leaderboard import board as leaderboard
from costgym.experiments.leaderboard.run_config import RunConfig, make_run_config
from costgym.experiments.leaderboard.submissions.manifest import Submission
from costgym.experiments.leaderboard.weights import weights_of
from costgym.experiments.verify import verify
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


@pytest.mark.parametrize("moved", [False, True])
def test_a_forged_page_is_named_wherever_the_weights_are(tmp_path: Path, moved: bool) -> None:
    agent = learnt(tmp_path / "run", -100.0)
    curve = "".join(f'{{"step": {step}, "success": {step / 10}}}\n' for step in range(1, 9))
    (tmp_path / "run" / "curve.jsonl").write_text(curve)
    config = make_run_config(agents=[agent, "cheapest"], episodes=2, budgets="price=20")
    board = leaderboard.run(config, tmp_path / "board").folder
    if moved:
        (tmp_path / "run").rename(tmp_path / "elsewhere")
    assert verify(board).verified
    page = (board / "index.html").read_text()
    drawing = page.index('<div class="curves">')
    for old, new, after in (
        ("cheapest", "llama-9", 0),
        ("Pass rate <small>", "gpt-9 won <small>", drawing),
        ("<g>", "<g onload='alert(1)'>", drawing),
        ("<defs>", "<h2>gpt-9 won</h2><defs>", drawing),
        ("</div>", "</div><p>gpt-9 won</p>", drawing),
    ):
        (board / "index.html").write_text(page[:after] + page[after:].replace(old, new, 1))
        assert verify(board).problems == (
            "index.html: is not the page of this leaderboard; run the leaderboard again to write it anew",
        )


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

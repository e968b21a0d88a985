"""`costgym train`: a subcommand for every trainer, with its own options."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from costgym.cli.learn.train import SUMMARIES
from costgym.experiments.train.run import TrainingResult
from tests.helpers.command_line import costgym, invoke
from tests.helpers.training import PPO


def train(*arguments: object) -> Any:
    return invoke("train", *arguments)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """What a trainer is called with; nothing is trained."""
    calls: dict[str, Any] = {}

    def note(*args: Any, **options: Any) -> TrainingResult:
        calls.update(options, args=args[1:])
        return TrainingResult(tmp_path, 1, {})

    for function in (
        "sb3.train.train_ppo", "sb3.train.train_dqn", "catp.train.train_catp", "catp.train.train_ift", "catp.train.train_rltf",
        "deer.train.train_deer", "toolplanner.train.train_toolplanner", "grpo.train.train_grpo",
        "sft.train.train_sft",
    ):  # fmt: skip
        pytest.importorskip("stable_baselines3", reason="the train extra is not installed")
        monkeypatch.setattr(f"costgym.experiments.train.{function}", note)
    return calls


@pytest.mark.parametrize("name", SUMMARIES)
def test_help_shows_the_trainers_own_options_and_an_example(name: str) -> None:
    shown = train(name, "--help")
    assert shown.exit_code == 0 and f"Example: `costgym train {name} " in " ".join(shown.output.split())
    assert "--out" in shown.output and "--seed" in shown.output and "--resume" in shown.output
    assert ("--n-steps" in shown.output) == (name == "ppo")
    assert ("--minutes" in shown.output) == (name in ("ppo", "dqn", "sft"))
    assert ("--pool" in shown.output) == (name == "catp")
    assert "Undefined" not in shown.output


def test_help_lists_the_trainers() -> None:
    shown = train("--help").output
    assert [name for name in re.findall(r"^\W+(\w+)  ", shown, re.MULTILINE) if name in SUMMARIES] == list(SUMMARIES)


def test_an_unknown_trainer_is_named_with_the_nearest() -> None:
    done = train("toolplaner")
    assert done.exit_code == 2 and "nearest: toolplanner" in done.stderr


def test_an_option_of_another_trainer_is_refused(called: dict[str, Any], tmp_path: Path) -> None:
    shown = train("dqn", "--out", tmp_path, "--cost-limit", 7)
    assert shown.exit_code == 2 and "no such option: --cost-limit" in shown.stderr and not called


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ("ppo --minutes 5", {"minutes": 5.0, "steps": None, "budget": None, "lagrangian": None, "resume": True}),
        ("ppo --steps 9 --budget price=20 --cost-limit 7", {"steps": 9, "budget": {"price": 20.0}, "lagrangian": {"price": 7}}),
        ("ppo --learning-rate 1e-4 --n-steps 8 --ent-coef 0.01 --no-needed-only --no-resume",
         {"learning_rate": 1e-4, "n_steps": 8, "ent_coef": 0.01, "needed_only": False, "resume": False}),
        ("ppo --split train-large", {"split": "train-large"}),
        ("ppo --target-kl 0.02 --scenario storm", {"target_kl": 0.02, "scenario": "storm"}),
        ("dqn --buffer-size 100 --exploration-fraction 0.2", {"buffer_size": 100, "exploration_fraction": 0.2}),
        ("catp", {"steps": 3000, "pool": ()}),
        ("catp --tasks sequential --no-context --no-feedback --model gpt2 --pool a.json --pool b.pkl",
         {"tasks": "sequential", "context": False, "intermediate_feedback": False, "model": "gpt2",
          "pool": [Path("a.json"), Path("b.pkl")]}),
        ("catp --no-intermediate-feedback --mask", {"intermediate_feedback": False, "mask": True}),
        ("ift --steps 7", {"steps": 7}),
        ("rltf --group 4", {"steps": 1500, "group": 4}),
        ("deer --sampling inter --steps 5 --seed 3", {"sampling": "inter", "steps": 5, "seed": 3, "args": ("decision",)}),
        ("deer --steps 5 --no-check", {"steps": 5, "check": False}),
        ("toolplanner", {"sft": None, "trees": None}),
        ("toolplanner --steps 500", {"steps": 500, "tasks": 2000, "rank_tasks": 400, "rank_steps": 80}),
        ("toolplanner --steps 1 --rank-steps 9", {"steps": 1, "tasks": 100, "rank_tasks": 50, "rank_steps": 9}),
        ("toolplanner --without completion,tags --start x/sft --levels tool,api",
         {"completion": False, "tags": False, "sft": Path("x/sft"), "levels": ("tool", "api")}),
        ("sft --model m --split train-large --minutes 9 --no-bf16 --lora-rank 4",
         {"model": "m", "split": "train-large", "minutes": 9.0, "bf16": False, "lora_rank": 4, "scenario": "marketplace"}),
        ("grpo --steps 3 --num-generations 4", {"steps": 3, "num_generations": 4}),
    ],
)  # fmt: skip
def test_options_reach_the_trainer_and_others_keep_its_defaults(
    called: dict[str, Any], tmp_path: Path, arguments: str, options: dict[str, Any]
) -> None:
    name, *rest = arguments.split()
    shown = train(name, "--out", tmp_path / "run", "--quiet", *rest)
    assert shown.exit_code == 0, shown.exception
    assert {key: called[key] for key in options} == options
    known = {"args", "callback", "env", "resume", "scenario", "split", "budget", "data", "steps", "minutes", "check"}
    known |= {"lagrangian", "pool", "sft", "trees"}
    assert set(called) - known <= set(options)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("toolplanner --without tag", "unknown part to leave out 'tag'; nearest: tags"),
        ("ppo --budget price=1,2", "--budget: expected one limit per resource, got 'price=1,2'"),
        ("ppo --batch-size 1 --steps 9", "--batch-size: expected a number greater than or equal to 2, got 1"),
        ("ppo --split test", "unknown split to learn from 'test'"),
        ("dqn --split train-large --scenario examples/weather_desk.yaml", "unknown split 'train-large'; nearest: train"),
        ("ppo --steps 9 --minutes 1", "--steps: expected steps or minutes, got both"),
        ("catp --tasks some", "--tasks: expected 'sequential', 'nonsequential' or 'all', got 'some'"),
        ("deer --sampling mixed", "unknown sampling strategy 'mixed'; nearest: mixture"),
    ],
)
def test_bad_options_are_named_and_nothing_is_written(tmp_path: Path, arguments: str, words: str) -> None:
    pytest.importorskip("stable_baselines3", reason="the train extra is not installed")
    name, *rest = arguments.split()
    done = train(name, "--out", tmp_path / "run", "--quiet", *rest)
    assert done.exit_code == 2 and words in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.native
def test_a_policy_is_trained_and_resumed_from_the_command_line(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3", reason="the train extra is not installed")
    options = [part for name, value in PPO.items() for part in (f"--{name.replace('_', '-')}", value)]
    done = costgym("train", "ppo", "--steps", 128, "--out", tmp_path / "run", *options)
    assert "learning curves" in done.stdout and "return" in done.stdout
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["steps"] == 128
    assert "Return" in (tmp_path / "run" / "curves.html").read_text()
    refused = costgym("train", "ppo", "--steps", 256, "--out", tmp_path / "run", "--n-steps", 16, check=False)
    assert refused.returncode == 2 and "holds another run" in refused.stderr and "n_steps 8 there, 16 asked" in refused.stderr

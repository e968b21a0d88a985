"""GRPO: the model in training plays the episodes of a world, and is rewarded with their quality."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from costgym.experiments.play.text_episode import TextWorld
from costgym.experiments.train.grpo.settings import GrpoSettings
from costgym.experiments.train.grpo.world import GrpoWorld, episode_quality
from costgym.simulators.draws import stable_generator
from costgym.simulators.errors import ConfigError
from costgym.simulators.scenario import Scenario, parse_scenario
from tests.helpers.tiny_model import save_tiny_model
from tests.helpers.training import StopAt, files


def scenario(failures: str = "reliable", **settings: Any) -> Scenario:
    source = {"kind": "marketplace", "tools": 40, "providers": 10, "categories": 4, "train": 12, "test": 2, "candidates": 4}
    return parse_scenario({"name": "small", "source": source, "failures": failures, **settings})


def tokenizer_with_calls(folder: Path) -> Any:
    """The tiny model's tokenizer with the chat template that holds tools and calls."""
    transformers = pytest.importorskip("transformers", reason="needs transformers (the train extra)")
    pytest.importorskip("trl", reason="needs trl (the train extra)")
    from costgym.agents.models.chat_template import CHAT_TEMPLATE

    model = transformers.AutoTokenizer.from_pretrained(save_tiny_model(folder))
    model.chat_template = CHAT_TEMPLATE
    return model


def test_a_row_names_its_episode_in_the_prompt() -> None:
    world = GrpoWorld(scenario(), tasks=2, rounds=3)
    assert [json.loads(row["prompt"]) for row in world.rows()] == TextWorld(scenario(), tasks=2, rounds=3).rows()
    assert world.episode(world.rows()[1]["prompt"]).env.task.id == "train-00001"


def test_a_rollout_holds_the_tokens_that_supervised_training_learns(tmp_path: Path) -> None:
    tokenizer = tokenizer_with_calls(tmp_path)
    from costgym.experiments.train.grpo.rollouts import _Played
    from costgym.experiments.train.sft.episodes import Conversation, gold, tokenize

    world = GrpoWorld(scenario(), tasks=4, rounds=1)
    settings = GrpoSettings(max_completion_length=10_000, max_reply_length=1_000)
    for row in world.rows():
        taught = world.episode(row["prompt"])
        ((messages, tools, _),) = gold(taught, stable_generator(0, "test").random)
        while "tool_calls" not in messages[-1]:
            del messages[-1]  # what follows the last call, which nobody waits for
        known = tokenize(tokenizer, Conversation(messages, tools))
        played = _Played(world.episode(row["prompt"]), tokenizer, settings)
        turns = [message for message in messages if message["role"] == "assistant"]
        for number, message in enumerate(turns):
            call = message["tool_calls"][0]["function"]
            text = (
                f'<tool_call>{{"name": {json.dumps(call["name"])}, "arguments": {json.dumps(call["arguments"])}}}</tool_call>'
            )
            assert played.hear(tokenizer(f"{text}<|im_end|>")["input_ids"]) is (number < len(turns) - 1)
        assert played.ids == known.ids[: len(played.ids)] and len(turns) > 1
        marked = [played.prompt + index for index, mark in enumerate(played.mask) if mark]
        assert marked == known.learnt_at
        assert played.episode.score()["quality"] == taught.score()["quality"] == pytest.approx(taught.reward)


def test_an_episode_ends_where_no_reply_has_room(tmp_path: Path) -> None:
    tokenizer = tokenizer_with_calls(tmp_path)
    from costgym.experiments.train.grpo.rollouts import _Played

    world = GrpoWorld(scenario(), tasks=1, rounds=1)
    call = tokenizer('<tool_call>{"name": "no_such_tool", "arguments": {}}')["input_ids"]  # cut off before its end
    played = _Played(world.episode(world.rows()[0]["prompt"]), tokenizer, GrpoSettings(max_reply_length=len(call)))
    while played.hear(call):
        token = played.ids[played.prompt :][played.mask.index(0)]
        assert token == tokenizer.eos_token_id  # the end of the reply is written for it, and not learnt
    assert not played.episode.over and played.mask[-1] == 1 and len(played.mask) <= 512
    assert played.episode.score()["agent_errors"] >= 1


def test_rollouts_follow_from_the_seed_and_the_step_alone(tmp_path: Path) -> None:
    torch, tokenizer = pytest.importorskip("torch"), tokenizer_with_calls(tmp_path)
    import transformers

    from costgym.experiments.train.grpo.rollouts import Rollouts

    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).train()
    world = GrpoWorld(scenario(), tasks=2, rounds=1)
    prompts = [row["prompt"] for row in world.rows() for _ in range(2)]

    def play(seed: int, step: int) -> dict[str, list[Any]]:
        trainer = SimpleNamespace(
            accelerator=SimpleNamespace(unwrap_model=lambda wrapped: wrapped),
            model=model,
            processing_class=tokenizer,
            state=SimpleNamespace(global_step=step),
        )
        return Rollouts(world, GrpoSettings(seed=seed, max_reply_length=8))(prompts, trainer)

    first = play(0, 1)
    torch.manual_seed(1)  # nobody else's chance counts
    assert play(0, 1) == first and model.training
    assert play(0, 2)["completion_ids"] != first["completion_ids"] != play(1, 1)["completion_ids"]
    assert [len(ids) for ids in first["completion_ids"]] == [len(mask) for mask in first["env_mask"]]
    logged: dict[str, float] = {}
    figures = {name: first[name] for name in ("success", "price", "calls", "agent_errors")}
    assert episode_quality(first["quality"], log_metric=logged.__setitem__, **figures) == first["quality"]
    assert logged["episode/price"] == sum(first["price"]) / 4


def test_probabilities_of_what_was_said_are_trls(tmp_path: Path) -> None:
    torch, trl = pytest.importorskip("torch"), pytest.importorskip("trl", reason="needs trl (the train extra)")
    import transformers

    from costgym.experiments.train.grpo.rollouts import GrpoTrainer

    tokenizer = tokenizer_with_calls(tmp_path / "model")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    arguments = trl.GRPOConfig(
        output_dir=str(tmp_path / "run"), per_device_train_batch_size=2, num_generations=2, temperature=0.7, report_to="none",
        use_cpu=True, bf16=False,
    )  # fmt: skip
    data = GrpoWorld(scenario(), tasks=1, rounds=1).train_dataset
    trainer = GrpoTrainer(model, [episode_quality], args=arguments, train_dataset=data, processing_class=tokenizer)
    ids = torch.randint(3, 300, (2, 12), generator=torch.Generator().manual_seed(0))
    attention, keep = torch.ones_like(ids), 7  # of five tokens of prompt and seven after it; the rows are padded at both ends
    attention[0, :3] = attention[1, -2:] = 0
    trainer._marks = marks = torch.tensor([[1, 1, 0, 0, 1, 1, 1], [1, 0, 0, 1, 1, 0, 0]])
    entropies = trainer._get_per_token_logps_and_entropies(model, ids, attention, keep, compute_entropy=True)
    known = trl.GRPOTrainer._get_per_token_logps_and_entropies(trainer, model, ids, attention, keep, compute_entropy=True)
    for ours, theirs in zip(entropies[:2], known[:2], strict=True):
        torch.testing.assert_close(ours, (theirs * marks).detach(), check_stride=False, rtol=1e-4, atol=1e-5)
    grads = []
    for logps in (entropies[0], known[0]):
        model.zero_grad()
        (logps * marks).sum().backward()
        grads.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    torch.testing.assert_close(*grads, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_a_model_folder_with_the_fetched_models_template_is_trained(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="needs trl (the train extra)")
    from costgym.experiments.train.grpo.train import train_grpo

    folder = tmp_path / "model"
    tokenizer_with_calls(folder).save_pretrained(folder)
    world = GrpoWorld(scenario(), tasks=1, rounds=1)
    options = {"num_generations": 2, "max_reply_length": 8, "warm_start_steps": 0, "lora_rank": 2}
    done = train_grpo(tmp_path / "run", world, 0, steps=1, model=str(folder), **options)
    assert done.steps == 1 and (tmp_path / "run" / "model" / "adapter_model.safetensors").is_file()


@pytest.mark.slow
def test_two_steps_of_grpo_leave_a_model_and_a_curve(tmp_path: Path) -> None:
    for module in ("torch", "trl", "transformers", "datasets", "peft"):
        pytest.importorskip(module, reason=f"GRPO needs {module} (the train extra)")
    from costgym.experiments.train.grpo.train import train_grpo
    from costgym.experiments.train.run import read_curve

    world = GrpoWorld(scenario(), tasks=1, rounds=4)
    small = {"num_generations": 2, "max_reply_length": 32, "hidden_size": 32, "layers": 1, "vocabulary": 512}
    small |= {"warm_start_steps": 2, "warm_start_batch_size": 2, "warm_start_variants": 2}
    folder, whole = tmp_path / "run", tmp_path / "whole"
    assert not train_grpo(folder, world, steps=2, callback=StopAt(1), **small).finished
    warm_start = (folder / "warm-start" / "model.safetensors").stat().st_mtime_ns
    result = train_grpo(folder, world, steps=2, **small)
    assert (folder / "warm-start" / "model.safetensors").stat().st_mtime_ns == warm_start
    curve = read_curve(folder)
    assert [line["step"] for line in curve] == [1.0, 2.0] and result.steps == 2
    assert all({"reward", "reward_std", "groups_alike"} <= set(line) for line in curve)
    assert train_grpo(whole, world, steps=2, **small).metrics.keys() == result.metrics.keys()
    for name in ("warm-start", "model"):  # stopped and continued, or in one go: the same weights
        assert (folder / name / "model.safetensors").read_bytes() == (whole / name / "model.safetensors").read_bytes()
    losses = [[line["loss"] for line in read_curve(path)] for path in (folder, whole)]
    assert losses[0] == losses[1]
    before = files(folder)
    assert train_grpo(folder, world, steps=2, **small).metrics == result.metrics and files(folder) == before
    with pytest.raises(ConfigError, match=r"another run \(seed 0 there, 1 asked\)"):
        train_grpo(folder, world, seed=1, steps=2, **small)

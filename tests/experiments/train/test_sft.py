"""Supervised fine-tuning: what is learnt from, what is learnt, and a run that stops and goes on."""

import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from costgym.agents.models.chat_template import CHAT_TEMPLATE, RESPONSE_TEMPLATE
from costgym.experiments.train.sft.episodes import Conversation, gold_episodes, tokenize
from costgym.simulators.errors import ConfigError
from costgym.simulators.scenario import parse_scenario
from tests.helpers.tiny_model import save_tiny_model
from tests.helpers.training import StopAt, files

SOURCE = {"kind": "marketplace", "tools": 40, "providers": 10, "categories": 4, "train": 12, "test": 4, "candidates": 4}
SMALL = parse_scenario({"name": "small", "source": SOURCE, "failures": "rapidapi-2023"})
QUICK = {"steps": 3, "batch_size": 1, "held_out": 1, "max_length": 4096, "save_every": 2, "warmup_steps": 1, "bf16": False}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with the template of fetched models."""
    return made_model(tmp_path_factory.mktemp("model"))


def made_model(folder: Path, says: str | None = None) -> Path:
    transformers = pytest.importorskip("transformers", reason="the extra `train` is not installed")
    save_tiny_model(folder, says)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template, tokenizer.response_template = CHAT_TEMPLATE, RESPONSE_TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


def test_a_gold_answer_holds_only_what_a_result_showed() -> None:
    for messages, tools, _ in islice(gold_episodes(SMALL, "train", None, "short", 1), 12):
        (answer,) = [
            call["function"]["arguments"]["answer"]
            for message in messages
            for call in message.get("tool_calls", ())
            if call["function"]["name"] == "finish"
        ]
        shown = " ".join(message["content"] for message in messages if message["role"] == "tool").replace(",", "")
        assert all(fact.replace(",", "") in shown for fact in answer.split("; "))
        assert {call["function"]["name"] for message in messages for call in message.get("tool_calls", ())} <= {
            tool["function"]["name"] for tool in tools
        }
        assert messages[-1] == {"role": "assistant", "content": "Done."}


def test_gold_episodes_follow_from_the_seed() -> None:
    first, again, other = (list(islice(gold_episodes(SMALL, "train", None, "short", seed), 5)) for seed in (1, 1, 2))
    assert first == again != other


def test_where_nothing_can_be_solved_the_episodes_end() -> None:
    assert list(gold_episodes(SMALL, "train", {"price": 0.5}, "short", 1)) == []


def test_what_is_learnt_is_what_the_assistant_says_and_its_end(model: Path) -> None:
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    messages, tools, _ = next(gold_episodes(SMALL, "train", None, "short", 1))
    row = tokenize(tokenizer, Conversation(messages, tools))
    text = tokenizer.decode([row.ids[position] for position in row.learnt_at])
    turns = text.split("<|im_end|>")
    assert turns[-1] == "" and turns[-2] == "Done." and len(turns) == sum(m["role"] == "assistant" for m in messages) + 1
    assert all(turn.startswith('<tool_call>{"name": ') for turn in turns[:-2])
    marked = tokenizer.apply_chat_template(messages, tools=tools, return_dict=True, return_assistant_tokens_mask=True)
    assert row.ids == marked["input_ids"] and row.learnt_at == [i for i, mark in enumerate(marked["assistant_masks"]) if mark]


def test_a_run_that_stops_ends_with_the_weights_of_one_that_does_not(model: Path, tmp_path: Path) -> None:
    from costgym.experiments.train.sft.train import train_sft

    whole = train_sft(tmp_path / "whole", SMALL, 1, model=str(model), callback=StopAt(99), **QUICK)
    assert whole.finished and set(whole.metrics) == {"loss", "unseen_loss", "unseen_turns_right"}
    part = train_sft(tmp_path / "part", SMALL, 1, model=str(model), callback=StopAt(1), **QUICK)
    assert not part.finished and part.steps == 1 and not (tmp_path / "part" / "model").exists()
    assert train_sft(tmp_path / "part", SMALL, 1, model=str(model), **QUICK).metrics == whole.metrics
    name = "model/model.safetensors"
    assert (tmp_path / "part" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert train_sft(tmp_path / "part", SMALL, 1, model=str(model), **QUICK).steps == 3  # done already


def test_adapters_learn_and_a_model_of_the_run_plays(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="the extra `train` is not installed")
    from costgym.agents.models.local import LocalModel
    from costgym.experiments.train.sft.train import train_sft

    train_sft(tmp_path / "run", SMALL, 1, model=str(model), lora_rank=2, **{**QUICK, "steps": 1})
    assert "model/adapter_model.safetensors" in files(tmp_path / "run")
    LocalModel(str(model), adapter=tmp_path / "run" / "model", max_tokens=4)


def test_adapters_also_learn_the_special_tokens_around_a_call(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="the extra `train` is not installed")
    from safetensors.numpy import load_file

    from costgym.agents.models.local import LocalModel
    from costgym.experiments.train.sft.train import train_sft

    def vectors(name: str, base: Path) -> dict[str, tuple[int, ...]]:
        train_sft(tmp_path / name, SMALL, 1, model=str(base), lora_rank=2, **{**QUICK, "steps": 1})
        learnt = load_file(tmp_path / name / "model" / "adapter_model.safetensors")
        return {key.split(".")[-3]: value.shape for key, value in learnt.items() if "lora" not in key}

    special = made_model(tmp_path / "special", "<tool_call>")  # one token, with a vector to be read and one to be said
    assert vectors("with", special) == {"embed_tokens": (1, 16), "lm_head": (1, 16)}
    assert vectors("without", model) == {}  # there it is written in ordinary tokens
    LocalModel(str(special), adapter=tmp_path / "with" / "model", max_tokens=4)


@pytest.mark.parametrize("bf16", [True, False])
def test_bfloat16_on_a_processor_without_it_warns(model: Path, tmp_path: Path, monkeypatch: Any, bf16: bool) -> None:
    from costgym.experiments.train.sft.train import train_sft

    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "AVX2")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        train_sft(tmp_path / "run", SMALL, 1, model=str(model), **{**QUICK, "steps": 1, "bf16": bf16})
    assert any("--no-bf16" in str(warning.message) for warning in said) == bf16


def test_wrong_settings_are_named(model: Path, tmp_path: Path) -> None:
    from costgym.experiments.train.sft.train import train_sft

    def fails(match: str, **settings: Any) -> None:
        with pytest.raises(ConfigError, match=match):
            train_sft(tmp_path / match.split(":")[0].strip("-"), SMALL, model=str(model), **{**QUICK, **settings})

    fails("--minutes: expected a time above 0", minutes=0)
    fails("max_length: no solved episode has at most 20 tokens", max_length=20)
    fails("batch_size", batch_size=0)

"""Exports: what other libraries read is what was recorded."""

import copy
import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import costgym
from costgym.agents.base import NUMERIC, TEXT
from costgym.agents.btp.experience import Experience
from costgym.agents.registry import make_agent
from costgym.experiments.play.collect import collect
from costgym.experiments.play.export.formats import export
from costgym.experiments.play.export.tables import save_dataset
from costgym.experiments.play.trajectories.replay import readable, replayed
from costgym.simulators.errors import DataError
from tests.helpers.records import Dice

EPISODES = 12


@pytest.fixture(scope="module", params=[NUMERIC, TEXT])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    env = costgym.make(request.param, scenario="storm", max_steps=20)
    return collect(env, Dice(request.param), EPISODES, tmp_path_factory.mktemp("run"), seed=5)


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two agents on the same tasks and seeds; some passes, some failures."""
    folder = tmp_path_factory.mktemp("chats")
    for name in ("react", "plan-act"):
        collect(costgym.make(TEXT, scenario="marketplace", max_steps=400), make_agent(name), 60, folder / name, seed=3)
    return folder


def arrays(steps: Any, name: str | None) -> Any:
    values = [step.observation if name is None else step.observation[name] for step in steps]
    return [readable(value) for value in values] if name is None else np.stack(values)


# -- Minari --------------------------------------------------------------------------------------------------------------


def test_minari_loads_samples_and_recovers_the_world(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    from costgym.experiments.play.export.minari import check_minari

    name = "costgym/dice-v0"
    folder = export(recorded, "minari", name, root=tmp_path)
    assert folder == tmp_path / "costgym" / "dice-v0"
    assert check_minari(folder) == []

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    dataset = minari.load_dataset(name)
    assert dataset.total_episodes == EPISODES
    originals = list(replayed(recorded))
    assert dataset.total_steps == sum(len(played.recorded.actions) for played in originals)
    for played, episode in zip(originals, dataset.iterate_episodes(), strict=True):
        assert list(map(float, episode.rewards)) == played.recorded.rewards
        assert list(map(bool, episode.truncations))[-1] is played.recorded.truncated
        assert len(episode.infos["cost_price"]) == len(played.steps)
        np.testing.assert_array_equal(episode.infos["cost_price"], [step.info["cost_price"] for step in played.steps])
        if isinstance(episode.observations, dict):
            for part in ("tools", "needs", "resources"):
                np.testing.assert_array_equal(episode.observations[part], arrays(played.steps, part))
            assert episode.observations["tools"].dtype == np.float32
            np.testing.assert_array_equal(episode.infos["action_mask"], [step.info["action_mask"] for step in played.steps])
        else:
            assert list(episode.observations) == arrays(played.steps, None)
            assert all(dataset.observation_space.contains(text) for text in episode.observations)

    dataset.set_seed(1)
    sampled = list(dataset.sample_episodes(4))
    assert len(sampled) == 4
    env = dataset.recover_environment()
    spec = json.loads(recorded.read_text().splitlines()[0])
    assert env.unwrapped.scenario.digest == spec["digest"]
    assert env.unwrapped.max_steps == 20
    (row,) = dataset.storage.get_episode_metadata([sampled[0].id])
    env.reset(seed=int(row["seed"]), options={"task": int(row["options"]["task"])})
    rewards = [env.step(action if isinstance(action, str) else int(action))[1] for action in sampled[0].actions]
    assert rewards == list(map(float, sampled[0].rewards))


def test_a_changed_minari_dataset_is_found(recorded: Path, tmp_path: Path) -> None:
    pytest.importorskip("minari")
    import h5py

    from costgym.experiments.play.export.minari import check_minari

    folder = export(recorded, "minari", "dice-v0", root=tmp_path)
    with h5py.File(folder / "data" / "main_data.hdf5", "r+") as file:
        file["episode_3"]["rewards"][0] += 0.125
    assert check_minari(folder) == ["episode 3: rewards differ from the replay's"]


def test_a_process_that_knows_only_minari_recovers_the_world(recorded: Path, tmp_path: Path) -> None:
    pytest.importorskip("minari")
    export(recorded, "minari", "dice-v1", root=tmp_path)
    script = f"""
import os; os.environ["MINARI_DATASETS_PATH"] = {str(tmp_path)!r}
import minari
env = minari.load_dataset("dice-v1").recover_environment()
env.reset(seed=0)
print(env.spec.id)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.stdout.strip() in (NUMERIC, TEXT), done.stderr


def test_minari_names_are_checked(recorded: Path, tmp_path: Path) -> None:
    pytest.importorskip("minari")
    for name in ("no version", "dice"):
        with pytest.raises(costgym.ConfigError, match="Minari id"):
            export(recorded, "minari", name, root=tmp_path)
    export(recorded, "minari", "dice-v0", root=tmp_path)
    with pytest.raises(costgym.ConfigError, match="exists already"):
        export(recorded, "minari", "dice-v0", root=tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["dice-v0"]


# -- tables --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["parquet", "hf"])
def test_tables_hold_every_step(recorded: Path, format: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    out = tmp_path / f"steps.{format}"
    assert export(recorded, format, out, next_observation=True) == out
    if format == "parquet":
        import pyarrow.parquet as parquet

        rows = parquet.read_table(out).to_pylist()
        header = parquet.read_schema(out).metadata[b"costgym.header"].decode()
    else:
        datasets = pytest.importorskip("datasets")
        table = datasets.load_from_disk(str(out))
        rows, header = list(table), table.info.description
    assert header == recorded.read_text().splitlines()[0]
    expected = [(p, i, step) for p in replayed(recorded) for i, step in enumerate(p.steps[1:])]
    assert len(rows) == len(expected)
    for row, (played, index, step) in zip(rows, expected, strict=True):
        assert (row["episode"], row["step"]) == (played.recorded.episode, index)
        assert (row["task"], row["number"], row["seed"]) == (
            played.recorded.task,
            played.recorded.number,
            played.recorded.seed,
        )
        assert (row["reward"], row["terminated"], row["truncated"]) == (step.reward, step.terminated, step.truncated)
        assert row["cost_sum"] == step.info["cost_sum"] and row["status"] == step.info["status"]
        assert row["passed"] is played.passed
        before = played.steps[index]
        if isinstance(step.observation, str):
            assert row["action"] == readable(step.action)
            assert (row["observation"], row["next_observation"]) == (readable(before.observation), readable(step.observation))
        else:
            assert row["action"] == step.action
            assert row["observation_needs"] == before.observation["needs"].ravel().tolist()
            assert row["next_observation_tools"] == step.observation["tools"].ravel().tolist()
            assert row["action_mask"] == before.info["action_mask"].tolist()
            assert row["action_mask"][row["action"]]


def test_what_does_not_replay_is_not_exported(recorded: Path, tmp_path: Path) -> None:
    header, *lines = recorded.read_text().splitlines()
    document = json.loads(lines[2])
    document["rewards"][0] -= 1.0
    forged = tmp_path / "forged.jsonl"
    forged.write_text("\n".join([header, *lines[:2], json.dumps(document)]) + "\n")
    pytest.importorskip("pyarrow")
    with pytest.raises(costgym.DataError, match="line 4: replay differs from the record"):
        export(forged, "parquet", tmp_path / "out.parquet")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["forged.jsonl"]


def test_formats_and_options_are_checked(recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(costgym.UnknownName, match="nearest: parquet"):
        export(recorded, "parket", tmp_path / "x")
    with pytest.raises(costgym.ConfigError, match="--kind: parquet has no such option"):
        export(recorded, "parquet", tmp_path / "x", kind="sft")
    with pytest.raises(costgym.DataError, match="holds no trajectory file"):
        export(tmp_path, "parquet", tmp_path / "x")


# -- messages ------------------------------------------------------------------------------------------------------------


def test_sft_rows_are_the_conversations_that_passed(chats: Path, tmp_path: Path) -> None:
    out = export(chats / "react", "messages", tmp_path / "sft.jsonl")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    passed = [played for played in replayed(chats / "react") if played.passed]
    assert [row["task"] for row in rows] == [played.recorded.task for played in passed] and len(rows) > 5
    for row, played in zip(rows, passed, strict=True):
        roles = [message["role"] for message in row["messages"]]
        assert roles[:2] == ["system", "user"]
        assert row["messages"][1]["content"] == played.steps[0].observation
        functions = [call["function"] for message in row["messages"] for call in message.get("tool_calls", [])]
        assert [call["name"] for call in functions] == [json.loads(action)["name"] for action in played.recorded.actions]
        assert functions[-1]["name"] == "finish"
        contents = [message["content"] for message in row["messages"] if message["role"] == "tool"]
        assert contents == [step.observation for step in played.steps[1:-1]]
        names = {tool["function"]["name"] for tool in row["tools"]}
        assert "finish" in names and {call["name"] for call in functions if call["arguments"]} <= names
    everything = export(chats / "react", "messages", tmp_path / "all.jsonl", only="all")
    assert len(everything.read_text().splitlines()) == 60


def test_dpo_pairs_share_task_and_seed(chats: Path, tmp_path: Path) -> None:
    out = export(chats, "messages", tmp_path / "dpo.jsonl", kind="dpo")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    outcomes: dict[tuple[str, int], set[bool]] = {}
    for played in replayed(chats):
        outcomes.setdefault((played.recorded.task, played.recorded.seed), set()).add(played.passed)
    assert [(row["task"], row["seed"]) for row in rows] == [key for key, seen in outcomes.items() if len(seen) == 2]
    assert rows
    for row in rows:
        assert [message["role"] for message in row["prompt"]] == ["system", "user"]
        assert row["chosen"] != row["rejected"] and row["chosen"][0]["role"] == "assistant"
        assert set(row["agent"].split(" over ")) == {"react", "plan-act"}


def test_dpo_pairs_of_one_agents_seeds_share_the_task(tmp_path: Path) -> None:
    for seed in (1, 2):
        collect(costgym.make(TEXT, scenario="marketplace"), make_agent("react"), 30, tmp_path / f"runs/{seed}", seed)
    with pytest.raises(costgym.ConfigError, match="--pairs task takes any seeds"):
        export(tmp_path / "runs", "messages", tmp_path / "x.jsonl", kind="dpo")
    with pytest.raises(costgym.UnknownName, match="pairs of episodes"):
        export(tmp_path / "runs", "messages", tmp_path / "x.jsonl", kind="dpo", pairs="all")
    out = export(tmp_path / "runs", "messages", tmp_path / "dpo.jsonl", kind="dpo", pairs="task")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    outcomes: dict[str, set[bool]] = {}
    for played in replayed(tmp_path / "runs"):
        outcomes.setdefault(played.recorded.task, set()).add(played.passed)
    assert rows and [row["task"] for row in rows] == [task for task, seen in outcomes.items() if len(seen) == 2]
    assert {row["agent"] for row in rows} == {"react over react"} and all(row["chosen"] != row["rejected"] for row in rows)


def test_messages_of_numbers_are_refused(recorded: Path, tmp_path: Path) -> None:
    if json.loads(recorded.read_text().splitlines()[0])["env"] == TEXT:
        pytest.skip("this recording is of the text view")
    for format in ("messages", "experience"):
        with pytest.raises(costgym.ConfigError, match="MarketplaceChat"):
            export(recorded, format, tmp_path / "x.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_experience_reads_back(chats: Path, tmp_path: Path) -> None:
    past = Experience.load(export(chats / "plan-act", "experience", tmp_path / "past.jsonl"))
    assert len(past) == 60
    for query, played in zip(past.queries, replayed(chats / "plan-act"), strict=True):
        assert query.query == played.steps[0].observation and not query.test
        executed = [call.tool for call in played.episode.calls if call.slot >= 0 and call.status.executed]
        assert sum(map(len, query.uses.values())) == len(executed) and set(query.uses) == set(executed)


TEMPLATE = (
    "{% for tool in tools %}<tool>{{ tool | tojson }}</tool>\n{% endfor %}"
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}"
    "{% for call in message.tool_calls or [] %}<call>{{ call.function | tojson }}</call>{% endfor %}"
    "</{{ message.role }}>\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


def tiny_model(texts: list[str]) -> tuple[Any, Any]:
    """A random Llama and a byte-level tokenizer, made on the spot."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=2000, special_tokens=["<pad>", "<eos>"], initial_alphabet=alphabet)
    )
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")
    wrapped.chat_template = TEMPLATE
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=2000,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=8192,
        pad_token_id=0,
        eos_token_id=1,
    )
    return LlamaForCausalLM(config), wrapped


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sft", "dpo"])
@pytest.mark.parametrize("shape", ["folder", "jsonl"])
def test_trl_trains_on_the_messages_as_they_are(chats: Path, tmp_path: Path, kind: str, shape: str) -> None:
    datasets, trl = pytest.importorskip("datasets"), pytest.importorskip("trl")
    out = export(chats, "messages", tmp_path / ("rows" if shape == "folder" else "rows.jsonl"), kind=kind)
    if shape == "folder":
        rows = datasets.load_from_disk(str(out))
    else:
        rows = datasets.load_dataset("json", data_files=str(out), cache_dir=str(tmp_path / "cache"))["train"]
    first = rows[0]
    call = first["messages" if kind == "sft" else "chosen"][2 if kind == "sft" else 0]["tool_calls"][0]["function"]
    assert set(call) == {"name", "arguments"} and None not in call["arguments"].values()
    model, tokenizer = tiny_model([json.dumps(row) for row in rows.select(range(min(4, len(rows))))])
    common = {
        "output_dir": str(tmp_path / "run"),
        "max_steps": 2,
        "per_device_train_batch_size": 1,
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "max_length": 8192,
        "logging_steps": 1,
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    if kind == "sft":
        trainer = trl.SFTTrainer(model=model, args=trl.SFTConfig(**common), train_dataset=rows, processing_class=tokenizer)
    else:
        reference = copy.deepcopy(model)
        trainer = trl.DPOTrainer(
            model=model, ref_model=reference, args=trl.DPOConfig(**common), train_dataset=rows, processing_class=tokenizer
        )
    result = trainer.train()
    assert result.global_step == 2 and np.isfinite(result.training_loss)


def test_a_disk_that_fails_under_the_library_is_told_as_such(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the extra `data`")

    def rows() -> Any:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "out"))
        yield {}

    def load(cache: Path) -> Any:
        return datasets.Dataset.from_generator(rows, cache_dir=str(cache))

    with pytest.raises(DataError, match="No space left"):
        save_dataset(load, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []

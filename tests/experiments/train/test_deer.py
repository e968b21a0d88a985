"""A DEER policy that learns: its loss, its decoding, its runs."""

import json
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym import ConfigError, UnknownName
from costgym.agents.deer.learnt import decode, load_decider
from costgym.agents.deer.settings import DeerSettings
from costgym.agents.deer.writing import Writing, read_call
from costgym.experiments.train.run import read_curve
from costgym.simulators.decision.training_set import training_set
from tests.helpers.tooldeer_folder import NOUNS, tooldeer_folder
from tests.helpers.training import DEER, DEER_COUNTS, StopAt, one_thread

pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("transformers", reason="the train extra is not installed")
pytest.importorskip("safetensors", reason="the train extra is not installed")

from costgym.experiments.train.deer.train import train_deer


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.warns(UserWarning, match="retrieval accuracy"):
        return train_deer(tmp_path_factory.mktemp("deer") / "run", **DEER)


def weights_of(run: Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    return load_file(sorted((run / "checkpoints").glob("step-*"))[-1] / "policy.safetensors")


# -- decoding -----------------------------------------------------------------------------------------------------------------

answers = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple), min_size=1, max_size=6, unique=True)


@given(choices=st.lists(answers, min_size=1, max_size=4), seed=st.integers(0, 999))
def test_decoding_never_leaves_the_open_answers_whatever_the_model_says(choices, seed):
    ended = [[(*answer, 9) for answer in choice] for choice in choices]
    luck = np.random.default_rng(seed)
    read: list[list[int]] = []

    def scores(sequences: list[list[int]], tokens: list[list[int]]) -> list[np.ndarray]:
        read.extend(sequences)
        return [luck.normal(size=len(these)) for these in tokens]

    text = decode(scores, [[7]] * len(ended), ended)
    assert all(0 <= index < len(answers) for index, answers in zip(text, ended, strict=True))
    beginnings = {(7, *answer[:end]) for answers in ended for answer in answers for end in range(len(answer))}
    assert {tuple(sequence) for sequence in read} <= beginnings


def test_decoding_takes_the_best_open_token_at_each_step():
    likes = {(0,): [0.0, 1.0, 5.0, 2.0], (0, 3): [0.0, 1.0, 3.0, 0.0]}
    chosen = decode(
        lambda sequences, tokens: [np.array(likes[tuple(read)])[these] for read, these in zip(sequences, tokens, strict=True)],
        [[0]],
        [[(1,), (3, 1), (3, 2)]],
    )
    assert chosen == [2]  # token 2 is liked best and not open


@pytest.mark.parametrize("choices", [[], [(1,), (1,)], [(1,), (1, 2)]])
def test_ambiguous_answers_are_refused(choices):
    with pytest.raises(ConfigError, match="choices"):
        decode(lambda sequences, tokens: [np.zeros(len(these)) for these in tokens], [[0]], [choices])


# -- what is learnt -----------------------------------------------------------------------------------------------------------


def test_the_loss_is_that_of_the_completions_tokens_alone():
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from costgym.agents.deer.language_model import completion_loss, small_model

    model = small_model(12, DeerSettings(hidden_size=16), 0, 1)
    ids = torch.tensor([[2, 3, 4, 5, 6], [7, 8, 9, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    labels = torch.tensor([[-100, -100, -100, 5, 6], [-100, -100, 9, -100, -100]])
    logits = model(input_ids=ids, attention_mask=mask).logits.detach().numpy().astype(np.float64)
    chance = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    by_hand = -(math.log(chance[0, 2, 5]) + math.log(chance[0, 3, 6]) + math.log(chance[1, 1, 9])) / 3
    loss, right = completion_loss(model, ids, mask, labels)
    assert float(right) == np.mean([logits[0, 2].argmax() == 5, logits[0, 3].argmax() == 6, logits[1, 1].argmax() == 9])
    assert float(loss.detach()) == pytest.approx(by_hand, rel=1e-5)
    loss.backward()
    # what stands behind the last learnt token has no part in it
    assert float(model.model.embed_tokens.weight.grad[6].abs().sum()) == 0.0
    assert float(model.model.embed_tokens.weight.grad[2].abs().sum()) > 0.0


def test_only_the_answer_of_a_row_is_labelled(run):
    from costgym.agents.deer.learnt import load_tokenizer
    from costgym.experiments.train.deer.rows import token_row

    tokenizer = load_tokenizer(run.run)
    row = token_row(tokenizer, "<tools> <1> star show <query> the star of sh-1 <decide>", "<1>")
    answer = tokenizer.convert_tokens_to_ids(["<1>", "<end>"])
    assert row.labels == [-100] * (len(row.input_ids) - 2) + answer
    assert row.input_ids[-2:] == answer


def test_words_to_retrieve_are_answered_by_the_tool_that_has_them_and_answers_are_not_read(run):
    from costgym.agents.deer.language_model import IGNORED
    from costgym.agents.deer.learnt import load_tokenizer
    from costgym.experiments.train.deer.rows import WORDS_ASKED, first_word, retrieval_rows

    tokenizer = load_tokenizer(run.run)
    names = ["<tools>", "<query>", "<decide>", "<end>", "<none>", "<1>", "<2>", "<3>"]
    tools, query, decide, end, none, *slot_ids = tokenizer.convert_tokens_to_ids(names)
    assert retrieval_rows(0, None, 3, DeerSettings()) == []  # a published model's tokenizer need not know its tokens
    rows = retrieval_rows(60, tokenizer, 3, DeerSettings(batch_size=4))
    again, other = (retrieval_rows(60, tokenizer, 3, DeerSettings(batch_size=4, seed=seed)) for seed in (0, 1))
    assert rows == again != other
    assert all(len({len(row.input_ids) for row in rows[start : start + 4]}) == 1 for start in range(0, len(rows), 4))
    decided = []
    for ids, labels in rows:
        split = ids.index(query)
        pairs = set(zip(ids[1:split:2], ids[2:split:2], strict=True))
        query_ids = ids[split + 1 : -2]
        assert ids[0] == tools and ids[-2:] == [decide, end] and len(query_ids) == WORDS_ASKED
        assert sorted({mark for mark, _ in pairs}) == slot_ids and set(labels[: split + 2]) == {IGNORED}
        assert min(word for _, word in pairs) >= first_word(tokenizer, 3) <= min(query_ids)
        for words, answer in zip([*([word] for word in query_ids), query_ids], labels[split + 2 :], strict=True):
            counts = [sum((mark, word) in pairs for word in words) for mark in slot_ids]
            best = [mark for mark, count in zip(slot_ids, counts, strict=True) if count == max(counts)]
            assert answer == (none if not any(counts) else best[0] if len(best) == 1 else IGNORED)
        decided.append(labels[-1])
    assert {*slot_ids, none} <= set(decided) and 0.15 < decided.count(none) / len(decided) < 0.5


def test_exchanged_words_are_never_control_tokens_or_places(run):
    from costgym.agents.deer.learnt import load_tokenizer
    from costgym.experiments.train.deer.rows import first_word, scattered, token_row

    tokenizer = load_tokenizer(run.run)
    row = token_row(tokenizer, "<query> the star of the show on television <decide>", "<search>")
    other = {token for seed in range(500) for token in scattered(row, 5, tokenizer, np.random.default_rng(seed)).input_ids}
    assert {token for token in other if token < first_word(tokenizer, 5)} <= set(row.input_ids)
    assert len(other) > 50


def test_a_tools_place_stands_before_each_of_its_words():
    from costgym.agents.deer.writing import Writing
    from costgym.simulators.tools import Tool

    tools = [Tool(name, description, "Films", "p") for name, description in (("a", "The star of a show. More."), ("b", "7"))]
    prompt = Writing(True, frozenset({"the", "of", "a"})).index_prompt(tools)
    assert prompt.split() == ["<tools>", "<1>", "star", "<1>", "show", "<2>", "<query>"]


def test_an_unknown_word_is_found_again(run):
    from costgym.agents.deer.learnt import load_tokenizer
    from costgym.agents.deer.writing import prompt_ids

    tokenizer = load_tokenizer(run.run)
    first, second = prompt_ids(tokenizer, "xylograph"), prompt_ids(tokenizer, "the Xylograph of")
    assert len(first) == 1 and first[0] in second and first[0] != tokenizer.unk_token_id


@pytest.mark.parametrize("bf16", [True, False])
def test_gradients_are_in_the_adapters_alone_and_in_full_precision(tmp_path, bf16):
    torch = pytest.importorskip("torch")
    pytest.importorskip("peft")
    from costgym.agents.deer.language_model import completion_loss, small_model
    from costgym.agents.networks import learning, published_model, trained_weights

    small_model(12, DeerSettings(hidden_size=16), 0, 1).save_pretrained(tmp_path)
    settings = DeerSettings(model=str(tmp_path), lora_rank=2, bf16=bf16)
    model = published_model(settings)
    ids = torch.tensor([[2, 3, 4]])
    attention = model.get_base_model().config._attn_implementation
    with learning(settings, model):
        assert model.get_base_model().config._attn_implementation == "eager" != attention
        completion_loss(model, ids, torch.ones_like(ids), torch.tensor([[-100, -100, 4]]))[0].backward()
    assert model.get_base_model().config._attn_implementation == attention
    small = small_model(12, DeerSettings(hidden_size=16), 0, 1)
    with learning(DeerSettings(hidden_size=16), small):
        assert small.config._attn_implementation == attention  # what ships learnt so
    kinds = {weight.dtype for name, weight in model.named_parameters() if "lora_" not in name}
    assert kinds == {torch.bfloat16 if bf16 else torch.float32}
    assert {weight.dtype for weight in trained_weights(model).values()} == {torch.float32}
    with_gradient = {name for name, weight in model.named_parameters() if weight.grad is not None}
    assert with_gradient == set(trained_weights(model)) and all("lora_" in name for name in with_gradient)


@pytest.mark.parametrize("bf16", [True, False])
@pytest.mark.parametrize("processor", ["AVX2", "AVX512"])
def test_bfloat16_on_a_processor_without_it_warns(tmp_path, monkeypatch, bf16, processor):
    torch = pytest.importorskip("torch")
    pytest.importorskip("peft")
    from costgym.agents.deer.language_model import small_model
    from costgym.agents.networks import published_model

    small_model(12, DeerSettings(hidden_size=16), 0, 1).save_pretrained(tmp_path)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: processor)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        published_model(DeerSettings(model=str(tmp_path), lora_rank=2, bf16=bf16))
    assert any("--no-bf16" in str(warning.message) for warning in said) == (bf16 and processor == "AVX2")


# -- a folder of recorded samples ---------------------------------------------------------------------------------------------

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "find", "the", "number", "finds", "a", "_", "finder", ":", ".", *NOUNS]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small sentence encoder on disk, as published ones lie there."""
    import tokenizers
    import transformers

    folder = tmp_path_factory.mktemp("encoder")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.normalizer = tokenizers.normalizers.Lowercase()
    words.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]")
    tokenizer.save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        transformers.BertModel(config).save_pretrained(folder)
    (folder / "modules.json").write_text("[]")
    return str(folder)


def test_two_maps_on_a_sentence_encoders_vectors_learn_which_tool_is_meant(tmp_path: Path, encoder: str) -> None:
    data = tooldeer_folder(tmp_path / "data")
    trained = train_deer(tmp_path / "run", data=str(data), model=encoder, steps=150, batch_size=29, learning_rate=0.01)
    assert {"seen_p_ds", "seen_p_call"} <= set(trained.metrics) and not [key for key in trained.metrics if "unseen" in key]
    decider = load_decider(tmp_path / "run")
    needed = [example for example in training_set(data).examples if example.kind != "NoSearch"]
    questions = [(example.query, example.candidates) for example in needed]
    assert decider.choose_many(questions) == [example.gold for example in needed]
    assert decider.choose(*questions[0]) == needed[0].gold and decider.choose(questions[0][0], ()) is None
    assert decider.search(needed[0].query) and not decider.search("zzz")
    assert decider.model == encoder


@pytest.mark.parametrize("bf16", [False, True])
def test_a_sentence_encoder_is_tuned_and_its_own_vectors_are_remembered(tmp_path: Path, encoder: str, bf16: bool) -> None:
    from costgym.agents.deer.matching import MatchingDecider
    from costgym.simulators.retrieval.sentences import sentence_embedding

    data = str(tooldeer_folder(tmp_path / "data"))
    options = {"model": encoder, "tune_encoder": True, "bf16": bf16, "batch_size": 29, "learning_rate": 0.01, "warmup_steps": 2}
    train_deer(tmp_path / "run", data=data, steps=60, save_every=30, **options)
    decider = load_decider(tmp_path / "run")
    assert isinstance(decider, MatchingDecider)
    needed = [example for example in training_set(data).examples if example.kind != "NoSearch"]
    questions = [(example.query, example.candidates) for example in needed]
    assert decider.choose_many(questions) == [example.gold for example in needed]
    assert decider.search(needed[0].query)
    weights, own, shared = decider._matcher.state_dict(), decider._embed, sentence_embedding(encoder)
    queries = [example.query for example in needed]
    assert np.allclose(weights["known"].numpy(), own(queries), atol=1e-5)
    # the encoder that all share is not changed, and of the run's own the vectors of words are not
    assert not np.allclose(shared(queries), own(queries), atol=1e-2)
    assert own.network.get_input_embeddings().weight.equal(shared.network.get_input_embeddings().weight)
    assert not train_deer(tmp_path / "again", data=data, steps=60, callback=StopAt(30), **options).finished
    train_deer(tmp_path / "again", data=data, steps=60, **options)
    again = load_decider(tmp_path / "again")
    assert isinstance(again, MatchingDecider)
    assert all(weight.equal(again._matcher.state_dict()[name]) for name, weight in weights.items())


def test_the_mean_of_several_tuned_encoders_is_a_run_that_decides(tmp_path: Path, encoder: str) -> None:
    from benchmarks.papers.averaged import average
    from costgym.agents.deer.matching import MatchingDecider

    data = str(tooldeer_folder(tmp_path / "data"))
    runs, weights = [tmp_path / f"seed-{seed}" for seed in range(3)], []
    options = {"model": encoder, "tune_encoder": True, "bf16": False, "batch_size": 8, "learning_rate": 0.01, "steps": 4}
    for seed, run in enumerate(runs):
        train_deer(run, data=data, seed=seed, check=False, **options)
        decider = load_decider(run)
        assert isinstance(decider, MatchingDecider)
        weights.append(decider._matcher.state_dict())
    average(runs, data, tmp_path / "mean")
    mean = load_decider(tmp_path / "mean")
    assert isinstance(mean, MatchingDecider)
    for name, weight in mean._matcher.state_dict().items():
        if name not in ("known", "search_at"):
            assert np.allclose(weight, sum(one[name] for one in weights) / 3, atol=1e-6), name
    queries = [example.query for example in training_set(data).examples if example.kind != "NoSearch"]
    assert np.allclose(mean._matcher.known.detach().numpy(), mean._embed(queries), atol=1e-5)
    train_deer(tmp_path / "longer", data=data, check=False, **{**options, "steps": 5})
    with pytest.raises(ValueError, match="differ in their seeds alone"):
        average([*runs, tmp_path / "longer"], data, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_only_a_sentence_encoder_is_tuned_itself(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="tune_encoder: expected a sentence encoder"):
        train_deer(tmp_path / "run", tune_encoder=True)


def test_a_policy_that_remembers_fewer_queries_learns_the_same_maps(tmp_path: Path, encoder: str) -> None:
    from costgym.agents.deer.matching import MatchingDecider

    data = str(tooldeer_folder(tmp_path / "data"))
    weights = []
    for remembered in (None, 4):
        run = tmp_path / str(remembered)
        train_deer(run, data=data, model=encoder, steps=2, remembered=remembered)
        decider = load_decider(run)
        assert isinstance(decider, MatchingDecider)
        weights.append(decider._matcher.state_dict())
    every, few = weights
    step = -(-len(every["known"]) // 4)
    assert step > 1 and few["known"].equal(every["known"][::step])
    assert all(few[name].equal(every[name]) for name in ("query.weight", "tool.weight", "none"))


def test_a_published_model_learns_to_write_calls_and_is_read_by_the_name_of_the_function(tmp_path: Path) -> None:
    example = next(example for example in training_set(tooldeer_folder(tmp_path)).examples if example.kind == "Call")
    assert example.gold is not None
    _, row = Writing(False).rows(example)
    name = example.candidates[example.gold].name
    assert row is not None and f"- {name}(name, most): Finds a" in row.prompt and row.prompt.endswith("\nCall:")
    assert row.completion == f" {name}(name={example.task.needs[0].arguments['name']!r})"
    assert read_call(row.completion, example.candidates) == example.gold
    for text in (" no tool fits", f" {name}", " other(name='x')", "", f" other(x='{name}(')"):
        assert read_call(text, example.candidates) is None
    none = next(example for example in training_set(tmp_path).examples if example.kind == "NoCall")
    written = Writing(False).rows(none)[1]
    assert written is not None and written.completion == " no tool fits"


@pytest.mark.parametrize(("end", "last"), [(1, ()), (5, ()), (8, (3, 4)), (0, (2, 6, 7, 9))])
def test_texts_are_written_up_to_their_end_whatever_is_written_beside_them(end: int, last: tuple[int, ...]) -> None:
    import torch

    from costgym.agents.deer.language_model import LONGEST_CALL, next_texts, small_model

    model = small_model(12, DeerSettings(hidden_size=16), 0, 1).eval()
    model.generation_config.repetition_penalty = 5.0  # the likeliest tokens are meant, whatever a model's maker prefers
    sequences = [[3, 4, 5], [6, 7], [8, 9, 10, 11, 2], [2, 10]]
    together = next_texts(model, sequences, 0, end, last)
    for sequence, written in zip(sequences, together, strict=True):
        assert next_texts(model, [sequence], 0, end, last) == [written]
        likeliest: list[int] = []
        while len(likeliest) < LONGEST_CALL and not {end, *last} & {*likeliest}:
            with torch.no_grad():
                likeliest.append(int(model(torch.tensor([[*sequence, *likeliest]])).logits[0, -1].argmax()))
        assert written == [token for token in likeliest if token != end]


# -- runs ---------------------------------------------------------------------------------------------------------------------


def test_a_run_says_what_it_is_and_plays(run):
    from costgym.agents.registry import make_agent
    from costgym.agents.seat import begin
    from costgym.envs.decision import DecisionAwareEnv

    assert run.steps == 6 and set(run.metrics) >= {"seen_p_ds", "seen_p_dc", "unseen_p_dc", "retrieval_accuracy"}
    assert json.loads((run.run / "config.json").read_text())["settings"]["sampling"] == "mixture"
    agent = make_agent(f"deer:{run.run}")
    env = DecisionAwareEnv(samples={"counts": DEER_COUNTS}, split="test")
    observation, info = env.reset(seed=0)
    tell = begin(agent, env, observation, info, 0)
    over = False
    while not over:
        action = agent.act(observation, tell(info))
        assert info["action_mask"][action]
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    assert terminated and agent.name == f"deer:{run.run}"


def test_retrieval_ends_as_soon_as_it_is_learnt_and_then_so_many_steps_decide(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import costgym.experiments.train.deer.learning as learning

    def stages(folder: Path) -> list[bool]:
        return ["retrieval_accuracy" in line for line in read_curve(folder)]

    assert stages(run.run) == [True] * 2 + [False] * 4
    monkeypatch.setattr(learning, "LEARNT", 0.0)
    monkeypatch.setattr(learning, "RECENT", 3)
    many = {**DEER, "retrieval_steps": 9}
    straight = train_deer(tmp_path / "straight", **many)
    assert stages(straight.run) == [True] * 3 + [False] * 4 and straight.steps == 7
    assert not train_deer(tmp_path / "cut", **many, callback=StopAt(2)).finished
    assert train_deer(tmp_path / "cut", **many).metrics == straight.metrics
    assert all(np.array_equal(weights_of(tmp_path / "cut")[n], w) for n, w in weights_of(straight.run).items())


def test_a_run_that_did_not_learn_retrieval_says_so(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="retrieval accuracy is only .* after 2 pre-training steps"):
        train_deer(tmp_path / "run", **DEER)


def test_samples_without_a_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="NoCall"):
        train_deer(tmp_path / "run", **{**DEER, "counts": {**DEER_COUNTS, "train": (20, 0, 40)}})


@pytest.mark.parametrize("bad", [{"retrieval_share": 1.0}, {"hidden_size": 18}, {"learning_rate": math.nan}])
def test_settings_that_make_no_sense_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        DeerSettings(**bad)


def test_an_unknown_sampling_is_refused() -> None:
    with pytest.raises(UnknownName, match="mixture"):
        DeerSettings(sampling="mixed")

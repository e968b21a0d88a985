"""A model on this machine: a tiny one with random weights, made here."""

import copy
import json
import pickle

import pytest

from costgym.agents.llm.session import LlmAgent
from costgym.agents.llm.strategies import Dfsdt, ReAct, SearchSettings
from costgym.agents.models.base import SYSTEM, TOOL, USER, Function, FunctionCall, Message
from costgym.agents.models.local import LocalModel
from costgym.simulators.errors import ConfigError
from tests.helpers.playing import chat, play
from tests.helpers.worlds import small_world, tool

TEMPLATE = (
    "{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}"
    "{% endfor %}<assistant>"
)


@pytest.fixture(scope="module")
def tiny():
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    import torch

    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<end>", *letters])}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>")
    tokenizer.chat_template = TEMPLATE
    config = transformers.LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=4096, eos_token_id=0, pad_token_id=0, bos_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return transformers.LlamaForCausalLM(config), tokenizer


@pytest.mark.slow
def test_an_episode_runs_and_the_ledger_holds_the_tokenizers_count(tiny):
    model = LocalModel(*tiny, max_tokens=8, device="cpu")
    env = chat(small_world(tool("map")), max_observation=200)
    actions, _, _ = play(env, LlmAgent(model, Dfsdt(SearchSettings(depth=2, queries=4, text_is_answer=False))))
    usage = [json.loads(action)["usage"] for action in actions]
    assert env.episode.grade is not None and all(0 < used["output_tokens"] <= 8 for used in usage)
    assert env.episode.ledger.tokens == sum(used["input_tokens"] + used["output_tokens"] for used in usage)


@pytest.mark.slow
def test_a_batch_says_what_its_members_say_alone_and_sampling_repeats_itself(tiny):
    requests = [([Message(SYSTEM, "s"), Message(USER, "q" * n)], [Function("map", "", {})]) for n in (1, 40)]
    model = LocalModel(*tiny, max_tokens=6, device="cpu")
    alone = [model.complete(*request) for request in requests]
    talks = model.side_by_side(3)
    for seat, request in enumerate(requests):
        talks.begin(seat, *request)
    replies = replies_of(talks, len(requests))
    batch = [replies[seat] for seat in range(len(requests))]
    assert [r.usage for r in batch] == [r.usage for r in alone]
    assert [r.message.content for r in batch] == [r.message.content for r in alone]
    sampler = LocalModel(*tiny, max_tokens=6, device="cpu", temperature=1.0)
    texts = []
    for seed in (1, 1, 2):
        sampler.reset(seed)
        texts.append([sampler.complete(*requests[0]).message.content for _ in range(2)])
    assert texts[0] == texts[1] != texts[2] and texts[0][0] != texts[0][1]


def replies_of(talks, count):
    replies = {}
    while len(replies) < count:
        replies |= talks.step()
    return replies


@pytest.mark.slow
def test_conversations_side_by_side_are_those_alone_and_go_on_where_they_stood(tiny):
    model = LocalModel(*tiny, max_tokens=6, device="cpu")
    talks, fed = model.side_by_side(4), []
    histories = {seat: [Message(SYSTEM, "s" * 200), Message(USER, "q" * n)] for seat, n in ((3, 7), (0, 1), (1, 40))}
    alone = {seat: [] for seat in histories}
    for seat, history in histories.items():
        for _ in range(4):
            reply = model.complete(history, ())
            alone[seat].append((reply.message.content, reply.usage))
            history += [reply.message, Message(USER, "more")]
    hook = tiny[0].register_forward_pre_hook(lambda _, args, kwargs: fed.append(kwargs["input_ids"].numel()), with_kwargs=True)
    together = {seat: [] for seat in histories}
    try:
        for late, seat in enumerate(histories):  # each begins when the one before has said something
            for _ in range(late):
                talks.step()
            talks.begin(seat, histories[seat][:2], ())
        while any(len(replies_of_one) < 4 for replies_of_one in together.values()):
            for seat, reply in talks.step().items():
                together[seat].append((reply.message.content, reply.usage))
                turn = len(together[seat])
                if turn < 4:  # goes on while the others are in the middle of their replies
                    talks.begin(seat, histories[seat][: 2 + 2 * turn], ())
    finally:
        hook.remove()
    assert together == alone
    assert sum(length > 60 for length in fed) == 3  # the first prompts, of 210 tokens and more; nothing of them again


@pytest.mark.slow
def test_a_model_that_sees_a_part_of_the_context_is_not_batched(tiny):
    transformers = pytest.importorskip("transformers")
    config = transformers.MistralConfig(
        vocab_size=300, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, sliding_window=8, eos_token_id=0, pad_token_id=0, bos_token_id=0,
    )  # fmt: skip
    model = LocalModel(transformers.MistralForCausalLM(config), tiny[1], device="cpu")
    with pytest.raises(ConfigError, match="whole context"):
        model.side_by_side(2)


@pytest.mark.slow
def test_a_context_that_is_too_long_brings_an_empty_reply(tiny):
    model = LocalModel(*tiny, max_tokens=8, device="cpu")
    reply = model.complete([Message(USER, "x" * 5000)], ())
    talks = model.side_by_side(1)
    talks.begin(0, [Message(USER, "x" * 5000)], ())
    assert talks.step() == {0: reply}
    assert reply.message.content == "" and reply.usage[:3] == (0, 0, 0)


@pytest.mark.slow
def test_a_model_without_a_template_or_without_files_is_refused(tiny, tmp_path):
    model, tokenizer = tiny
    with pytest.raises(ConfigError, match="cannot be loaded"):
        LocalModel(str(tmp_path))
    bare = type(tokenizer)(tokenizer_object=tokenizer.backend_tokenizer, eos_token="<end>")
    with pytest.raises(ConfigError, match="chat template"):
        LocalModel(model, bare)


@pytest.mark.slow
def test_saved_weights_are_loaded_from_their_folder(tiny, tmp_path):
    model, tokenizer = tiny
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = LocalModel(str(tmp_path), max_tokens=4, device="cpu")
    message = [Message(USER, "q"), Message("assistant", "", (FunctionCall("f", "{broken"),)), Message(TOOL, "r", name="f")]
    assert loaded.complete(message, ()).usage.output_tokens > 0
    play(chat(small_world(tool("map"))), LlmAgent(loaded, ReAct()))


CALL = FunctionCall("map", {"city": "Lille"})


@pytest.mark.slow
@pytest.mark.parametrize("last", ['{"name": "map", "argu', '{"name": "map", "argu}'])
def test_a_call_that_the_limit_cuts_off_is_not_made_and_those_before_it_are(tiny, last):
    model = LocalModel(*tiny, max_tokens=512, device="cpu")
    input_ids = tiny[1]('{"name": "map", "arguments": {"city": "Lille"}}\n' + last)["input_ids"]
    reply = model._reply([1], input_ids)
    assert (reply.outcome, reply.message.calls) == ("", (CALL, FunctionCall("", last)))  # the model ended it so
    model.max_tokens = len(input_ids)
    reply = model._reply([1], input_ids)
    assert (reply.outcome, reply.message.calls, reply.message.content) == ("truncated", (CALL,), "")


def test_a_loaded_model_stays_in_its_process(tiny):
    with pytest.raises(ConfigError, match="name its folder"):
        pickle.dumps(LocalModel(*tiny))


def test_weights_are_read_from_safetensors_alone(tiny, tmp_path):
    import torch
    import transformers

    from costgym.agents.networks import load_published
    from costgym.simulators.errors import InfrastructureError
    from costgym.simulators.retrieval.sentences import SentenceEmbedding

    network, tokenizer = tiny
    for part in (network, tokenizer):
        part.save_pretrained(tmp_path)
    load_published(transformers.AutoModelForCausalLM, str(tmp_path))
    (tmp_path / "model.safetensors").unlink()
    torch.save(network.state_dict(), tmp_path / "pytorch_model.bin")  # a pickle
    with pytest.raises(InfrastructureError, match="safetensors"):
        load_published(transformers.AutoModelForCausalLM, str(tmp_path))
    with pytest.raises(InfrastructureError, match="safetensors"):
        SentenceEmbedding(str(tmp_path))
    with pytest.raises(ConfigError, match="safetensors"):
        LocalModel(str(tmp_path))


def test_an_adapter_is_read_from_safetensors_alone(tiny, tmp_path):
    peft = pytest.importorskip("peft")
    import torch
    from safetensors.torch import load_file

    network, tokenizer = copy.deepcopy(tiny[0]), tiny[1]
    peft.get_peft_model(network, peft.LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(tmp_path)
    LocalModel(copy.deepcopy(tiny[0]), tokenizer, adapter=tmp_path)
    weights = tmp_path / "adapter_model.safetensors"
    torch.save(load_file(weights), tmp_path / "adapter_model.bin")  # a pickle, which peft would open
    weights.unlink()
    with pytest.raises(ConfigError, match=r"adapter_model\.safetensors"):
        LocalModel(copy.deepcopy(tiny[0]), tokenizer, adapter=tmp_path)

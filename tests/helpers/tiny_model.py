"""Tiny language models, made in a moment: random weights, or weights that always say one thing.

Their tokenizer is trained on a few lines and their chat template tells of tools, so that transformers loads, serves and tunes
them like any other model.
"""

from pathlib import Path

import pytest

TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }} {{ c.function.arguments | tojson }}</tool_call>"
    "{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LINES = ["What is the weather in the city, and what does it cost?", '{"name": "map", "arguments": {"city": "Lille"}}'] * 4


def save_tiny_model(folder: Path, says: str | None = None, longest: int = 32_768) -> Path:
    """A model in a folder.

    Args:
        folder: where to; created.
        says: what it always replies, one token of its own; None for random weights, which say anything.
        longest: context it can read.
    """
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.train_from_iterator(
        LINES,
        tokenizers.trainers.BpeTrainer(
            vocab_size=320,
            special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
            initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE
    )
    if says is not None:
        tokenizer.add_tokens([tokenizers.AddedToken(says, normalized=False)])
    config = transformers.Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=longest, tie_word_embeddings=False, bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.Qwen2ForCausalLM(config)
    if says is not None:
        _teach(torch, model, tokenizer, says)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _teach(torch, model, tokenizer, says: str) -> None:
    """After the line break that opens its turn the model says its piece, and after that it ends its turn."""
    after = {tokenizer("\n")["input_ids"][-1]: tokenizer.convert_tokens_to_ids(says)}
    after[tokenizer.convert_tokens_to_ids(says)] = tokenizer.eos_token_id
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.zero_()
        model.model.embed_tokens.weight[:, -1] = 1.0
        model.lm_head.weight.zero_()
        for index, (token, following) in enumerate(after.items()):
            model.model.embed_tokens.weight[token] = torch.eye(model.config.hidden_size)[index]
            model.lm_head.weight[following, index] = 10.0

"""A tokenizer for a tiny model, trained on the episodes that it learns from."""

import re
from collections.abc import Sequence
from typing import Any

from ....agents.models.chat_template import CHAT_TEMPLATE
from ..sft.episodes import Conversation

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")


def tiny_tokenizer(rows: Sequence[Conversation], vocabulary: int) -> Any:
    """Train a byte-level tokenizer on conversations. Digits are separate tokens; other merges may span words, so that a
    schema's boilerplate takes a few tokens and an episode a few hundred."""
    import tokenizers
    import transformers

    def wrap(model: Any) -> Any:
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=model,
            eos_token="<|im_end|>",
            pad_token="<|endoftext|>",
            extra_special_tokens=list(CONTROL[1:]),
        )
        tokenizer.chat_template = CHAT_TEMPLATE
        return tokenizer

    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    plain = wrap(model)
    texts = [plain.apply_chat_template(messages, tools=tools, tokenize=False) for messages, tools in rows]
    control = re.compile("|".join(map(re.escape, CONTROL)))
    splits = [
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"[\n{}:]+|(?<=\.) "), "merged_with_previous"),
        tokenizers.pre_tokenizers.Digits(individual_digits=True),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    model.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(splits)
    model.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(CONTROL),
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    model.train_from_iterator((part for text in texts for part in control.split(text) if part), trainer)
    return wrap(model)

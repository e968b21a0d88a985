"""Gold episodes, which teach a tiny model to call tools, and a tokenizer trained on them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ....simulators.draws import stable_generator
from ..data.gold import solve
from .world import GrpoWorld, Row, TaskEnvironment, tools_of

CONTROL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>",
    "<think>", "</think>", "<tools>", "</tools>",
)  # fmt: skip


def gold_rows(world: GrpoWorld, variants: int, seed: int = 0) -> list[Row]:
    """Generate gold episodes as conversations with tools (`messages`, `tools`).

    Only episodes that pass, and in which results showed what the answer states, are kept (see `data.gold.solve`). The calls go
    through the same methods as in training, so the messages are identical.

    Args:
        world: the world to play in.
        variants: number of episodes per task, each with its own order of tools.
        seed: seed of the episodes and of the order of tools.
    """
    import transformers.utils

    rows = []
    for task, kind in world.environment_factory.items():
        environment = kind()
        schemas = [transformers.utils.get_json_schema(method) for method in tools_of(environment)]
        for variant in range(variants):
            luck = stable_generator(seed, "gold", task, variant)
            environment.reset(task=task, seed=int(luck.integers(2**31)))
            messages, shown = _play_gold(environment, luck.random)
            if shown and environment._env.succeeded:
                rows.append({"messages": [*world.prompt(task), *messages], "tools": schemas})
    return rows


def _play_gold(environment: TaskEnvironment, luck: Callable[[], float]) -> tuple[list[dict[str, Any]], bool]:
    messages: list[dict[str, Any]] = []

    def say(name: str, arguments: dict[str, Any]) -> None:
        messages.append(
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}],
            }
        )
        try:
            content = str(getattr(environment, name)(**arguments))
        except Exception as error:  # the trainer converts every exception of a tool in this way
            content = str({"error": str(error)})
        messages.append({"role": "tool", "name": name, "content": content})

    env = environment._env
    shown = solve(env._playing(), env.quotes(), luck, say, lambda: environment._over)
    messages.append({"role": "assistant", "content": "Done."})
    return messages, shown


def tiny_tokenizer(rows: list[Row], vocabulary: int) -> Any:
    """Train a byte-level tokenizer on conversations; it uses Qwen3's chat template, which TRL supports.

    Digits are separate tokens. Other merges may span words, so that a schema's boilerplate takes a few tokens and an episode
    a few hundred.
    """
    import tokenizers
    import transformers
    from trl.chat_template_utils import qwen3_chat_template

    def wrap(model: Any) -> Any:
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=model,
            eos_token="<|im_end|>",
            pad_token="<|endoftext|>",
            extra_special_tokens=list(CONTROL[1:]),
        )
        tokenizer.chat_template = qwen3_chat_template
        return tokenizer

    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    plain = wrap(model)
    texts = [plain.apply_chat_template(row["messages"], tools=row["tools"], tokenize=False) for row in rows]
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

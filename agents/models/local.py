"""A language model on this machine, through Hugging Face transformers.

The model's own chat template presents the functions; calls are read from its text in the forms that open models write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...simulators.calls import Usage
from ...simulators.errors import ConfigError, require
from .base import ACT, ASSISTANT, Function, FunctionCall, Message, Reply
from .openai import chat_messages
from .prefixes import Prefixes

_TAGGED = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
_MARKED = re.compile(r"\[TOOL_CALLS\]\s*(.*)\Z", re.DOTALL)
_FENCE = re.compile(r"\A\s*(?:```(?:json)?\s*)?(?:<\|python_tag\|>)?\s*([\[{].*[\]}])\s*(?:```)?\s*\Z", re.DOTALL)
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


class LocalModel:
    """Generates on CPU or GPU. Weights are read from safetensors only, and no code comes with them.

    Args:
        model: A folder or a name on the hub; or a loaded model, with `tokenizer`.
        tokenizer: Tokenizer of a loaded model; it must have a chat template.
        adapter: Folder of a LoRA adapter to put on top.
        device: "cpu", "cuda" and so on; None takes a GPU where there is one.
        max_tokens: Longest reply.
        temperature: Sampling temperature; 0 takes the likeliest token.

    Raises:
        MissingExtra: Transformers or torch is not installed.
        ConfigError: The model cannot be loaded, or has no chat template.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        adapter: str | Path | None = None,
        device: str | None = None,
        max_tokens: int = 512,
        temperature: float = 0.0,
    ) -> None:
        self._torch = torch = require("torch", "llm")
        self._made_with = None if tokenizer is not None else (model, None, adapter, device, max_tokens, temperature)
        self.name = str(model) if tokenizer is None else str(getattr(model, "name_or_path", "") or "local")
        if Path(self.name).is_dir():
            self.name = Path(self.name).resolve().name  # where it lies on this machine is nobody's business
        if tokenizer is None:
            model, tokenizer = _load(str(model), None if adapter is None else str(adapter))
        elif adapter is not None:
            model = _adapt(model, str(adapter))
        if adapter is not None:
            self.name += f"+{Path(adapter).name}"
        if not getattr(tokenizer, "chat_template", None):
            raise ConfigError(f"model {self.name}", "has no chat template; choose an instruction-tuned model")
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._model, self._tokenizer = model.to(self._device).eval(), tokenizer
        self.max_tokens, self.temperature = max_tokens, temperature
        self._prefixes = Prefixes(self._model, tokenizer.pad_token_id)
        self._seed = self._said = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to another process by its name: the weights are read there."""
        if self._made_with is None:
            raise ConfigError(f"model {self.name}", "a loaded model stays in its process; name its folder to use several")
        return type(self), self._made_with

    def reset(self, seed: int) -> None:
        self._seed, self._said = seed & 0x7FFFFFFF, 0

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        return self._replies([(messages, functions)])[0]

    def complete_many(self, requests: Sequence[tuple[Sequence[Message], Sequence[Function]]]) -> list[Reply]:
        """Replies to several requests in one batch.

        What was read before of a conversation is not read again. So, and because a batch pads and adds up in another order,
        single replies may differ from those that `complete` gives.
        """
        return self._replies(requests, self._prefixes)

    def _replies(
        self, requests: Sequence[tuple[Sequence[Message], Sequence[Function]]], prefixes: Prefixes | None = None
    ) -> list[Reply]:
        """Replies, each with the tokens it took. A context that is too long for the model brings an empty reply, unpaid."""
        texts = [self._render(messages, functions) for messages, functions in requests]
        prompts = self._tokenizer(texts, add_special_tokens=False)["input_ids"]
        longest = int(getattr(self._model.config, "max_position_embeddings", 0) or 1 << 30)
        fits = [i for i, prompt in enumerate(prompts) if len(prompt) + self.max_tokens <= longest]
        replies = [Reply(Message(ASSISTANT, ""), Usage(0, 0))] * len(requests)
        if fits:
            for i, said in zip(fits, self._generate([prompts[i] for i in fits], prefixes), strict=True):
                content, calls = read_calls(str(self._tokenizer.decode(said, skip_special_tokens=True)))
                replies[i] = Reply(Message(ASSISTANT, content, calls), Usage(len(prompts[i]), len(said)))
        return replies

    def _render(self, messages: Sequence[Message], functions: Sequence[Function]) -> str:
        written = chat_messages(messages)
        for entry in written:
            for call in entry.get("tool_calls", ()):
                # templates write the arguments out as JSON themselves
                read = FunctionCall("", call["function"]["arguments"]).read()
                call["function"]["arguments"] = {} if read is None else read
        tools = [function.document() for function in functions] or None
        return str(self._tokenizer.apply_chat_template(written, tools=tools, tokenize=False, add_generation_prompt=True))

    def _generate(self, prompts: Sequence[list[int]], prefixes: Prefixes | None) -> list[list[int]]:
        """The tokens that follow each prompt."""
        torch, end = self._torch, self._tokenizer.eos_token_id
        sampling = {"do_sample": True, "temperature": self.temperature} if self.temperature > 0 else {"do_sample": False}
        self._said += 1
        # a generator of its own, put back afterwards: no chance leaks into or out of the model
        with torch.random.fork_rng(), torch.inference_mode():
            torch.manual_seed(self._seed + self._said)
            batch = (prefixes or Prefixes(self._model, self._tokenizer.pad_token_id)).batch(prompts)
            output = self._model.generate(
                input_ids=batch.tokens,
                attention_mask=batch.mask,
                past_key_values=batch.cache,
                max_new_tokens=self.max_tokens,
                pad_token_id=self._tokenizer.pad_token_id,
                return_dict_in_generate=True,
                **sampling,
            )
            rows = output.sequences[:, batch.tokens.shape[1] :].tolist()
            said = [row[: row.index(end) + 1] if end in row else row for row in rows]
            if prefixes is not None:
                prefixes.keep(batch, output.past_key_values, [reply[:-1] for reply in said])
        return said


@lru_cache(maxsize=1)
def _load(name: str, adapter: str | None) -> tuple[Any, Any]:
    """A model and its tokenizer from disk; kept, for a leaderboard makes many agents of one model."""
    transformers = require("transformers", "llm")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
        model = transformers.AutoModelForCausalLM.from_pretrained(name, trust_remote_code=False, use_safetensors=True)
    except (OSError, ValueError) as error:
        raise ConfigError(f"model {name}", f"cannot be loaded: {str(error)[:300]}") from error
    return model if adapter is None else _adapt(model, adapter), tokenizer


def _adapt(model: Any, adapter: str) -> Any:
    """A model with a LoRA adapter on top."""
    if not (Path(adapter) / "adapter_config.json").is_file():
        raise ConfigError(f"adapter {adapter}", "expected a folder with adapter_config.json and adapter_model.safetensors")
    return require("peft", "train").PeftModel.from_pretrained(model, adapter)


def read_calls(text: str) -> tuple[str, tuple[FunctionCall, ...]]:
    """Text and calls of a reply, in the forms that open models write: tagged, marked, or bare JSON.

    >>> read_calls('I look. <tool_call>{"name": "map", "arguments": {"city": "Lille"}}</tool_call>')
    ('I look.', (FunctionCall(name='map', arguments={'city': 'Lille'}, id=''),))
    """
    text = _THOUGHT.sub("", text)
    tagged = _TAGGED.findall(text)
    if tagged:
        return _TAGGED.sub("", text).strip(), tuple(call for document in tagged for call in _calls_in(document, True))
    marked = _MARKED.search(text)
    if marked:
        return text[: marked.start()].strip(), tuple(_calls_in(marked.group(1), True))
    bare = _FENCE.match(text)
    calls = _calls_in(bare.group(1), False) if bare else []
    return ("", tuple(calls)) if calls else (text.strip(), ())


def _calls_in(text: str, surely: bool) -> list[FunctionCall]:
    """The calls in a JSON text; where it surely is meant as one but cannot be read, a call without a name."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return [FunctionCall("", text[:2000])] if surely else []
    found = []
    for entry in document if isinstance(document, list) else [document]:
        function = entry.get("function", entry) if isinstance(entry, dict) else None
        function = function if isinstance(function, dict) else entry
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            arguments = function.get("arguments", function.get("parameters", {}))
            found.append(FunctionCall(function["name"], arguments))
        elif surely:
            found.append(FunctionCall("", "{}"))
    return found

"""A language model on this machine, through Hugging Face transformers.

The model's own chat template presents the functions; calls are read from its text in the forms that open models write.
"""

import hashlib
import struct
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from costgym.agents.models.base import ACT, ASSISTANT, TRUNCATED, Function, FunctionCall, Message, Reply
from costgym.agents.models.batched import Conversations
from costgym.agents.models.call_forms import read_calls
from costgym.agents.models.chat_template import CHAT_TEMPLATE
from costgym.agents.models.openai import chat_messages
from costgym.simulators.calls import Usage
from costgym.simulators.errors import ConfigError, require

if TYPE_CHECKING:
    from costgym.agents.models.decoding import Decoder

Dtype = Literal["float32", "bfloat16"]
_TOO_LONG = Reply(Message(ASSISTANT, ""), Usage(0, 0))  # to a context that is too long for the model: empty, unpaid


class LocalModel:
    """Generates on CPU or GPU. Weights are read from safetensors or GGUF only, and no code comes with them.

    `model` is a folder, a GGUF file, a name on the hub, or a loaded model with its `tokenizer`; `adapter` a folder of LoRA
    weights; `sha256` the digest that the GGUF file or `model.safetensors` must have; `dtype` the type that the weights are read
    into, by default the files' own, which for quantised ones is float32. Temperature 0 takes the likeliest token.

    Raises:
        ConfigError: The model cannot be loaded, has another digest, or has no chat template.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        adapter: str | Path | None = None,
        device: str | None = None,
        max_tokens: int = 512,
        temperature: float = 0.0,
        sha256: str | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        self._torch = torch = require("torch", "llm")
        arguments = (model, tokenizer, adapter, device, max_tokens, temperature, sha256, dtype)
        self._made_with = arguments if tokenizer is None else None
        self.name = str(model) if tokenizer is None else str(getattr(model, "name_or_path", "") or "local")
        if Path(self.name).exists():
            self.name = Path(self.name).resolve().name  # results are published: they must not show a path of this machine
        if tokenizer is None:
            if sha256 is not None:
                _check(Path(model), sha256)
            model, tokenizer = _load(str(model), None if adapter is None else str(adapter), dtype)
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
        self._seed = self._replies_so_far = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to another process by its name: the weights are read there."""
        if self._made_with is None:
            raise ConfigError(f"model {self.name}", "a loaded model stays in one process; to use several, name its folder")
        return type(self), self._made_with

    def reset(self, seed: int) -> None:
        self._seed, self._replies_so_far = seed & 0x7FFFFFFF, 0

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        prompt = self._prompt(messages, functions)
        return _TOO_LONG if prompt is None else self._reply(prompt, self._generate(prompt))

    def side_by_side(self, seats: int) -> Conversations:
        """Conversations with a greedy model at once; a batch adds up in another order, replies may differ from `complete`'s."""
        from costgym.agents.models.decoding import Decoder

        return _SideBySide(self, Decoder(self._model, self._tokenizer.eos_token_id, seats, self.max_tokens))

    def _prompt(self, messages: Sequence[Message], functions: Sequence[Function]) -> list[int] | None:
        """Return the tokens of a request; None where they are too many for the model."""
        written, tools = template_messages(messages), [function.document() for function in functions] or None
        text = self._tokenizer.apply_chat_template(written, tools=tools, tokenize=False, add_generation_prompt=True)
        tokens: list[int] = self._tokenizer(str(text), add_special_tokens=False)["input_ids"]
        longest = int(getattr(self._model.config, "max_position_embeddings", 0) or 1 << 30)
        return tokens if len(tokens) + self.max_tokens <= longest else None

    def _reply(self, prompt: Sequence[int], tokens: Sequence[int]) -> Reply:
        content, calls, form = read_calls(str(self._tokenizer.decode(tokens, skip_special_tokens=True)), lenient=True)
        whole = len(tokens) < self.max_tokens or tokens[-1] == self._tokenizer.eos_token_id
        if not whole and calls and not calls[-1].name:
            calls = calls[:-1]  # cut off by the limit, which the outcome says; the model did not get it wrong
        return Reply(Message(ASSISTANT, content, calls), Usage(len(prompt), len(tokens)), "" if whole else TRUNCATED, form)

    def _generate(self, prompt: Sequence[int]) -> list[int]:
        torch, end = self._torch, self._tokenizer.eos_token_id
        tokens = torch.tensor([prompt], device=self._device)
        sampling = {"do_sample": True, "temperature": self.temperature} if self.temperature > 0 else {"do_sample": False}
        self._replies_so_far += 1
        # a generator of its own, put back afterwards: no chance leaks into or out of the model
        with torch.random.fork_rng(), torch.inference_mode():
            torch.manual_seed(self._seed + self._replies_so_far)
            output = self._model.generate(
                input_ids=tokens,
                attention_mask=torch.ones_like(tokens),
                max_new_tokens=self.max_tokens,
                pad_token_id=self._tokenizer.pad_token_id,
                **sampling,
            )
        generated: list[int] = output[0, len(prompt) :].tolist()
        return generated[: generated.index(end) + 1] if end in generated else generated


def template_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return a conversation as chat templates take it, which write the arguments out as JSON themselves."""
    written = chat_messages(messages, "")
    for entry in written:
        for call in entry.get("tool_calls", ()):
            call["function"]["arguments"] = FunctionCall("", call["function"]["arguments"]).read() or {}
    return written


class _SideBySide:
    """Conversations with one local model at the same time."""

    def __init__(self, model: LocalModel, decoder: "Decoder") -> None:
        self._model, self._decoder = model, decoder
        self._prompts: dict[int, list[int]] = {}
        self._refused: list[int] = []

    def begin(self, seat: int, messages: Sequence[Message], functions: Sequence[Function]) -> None:
        prompt = self._model._prompt(messages, functions)
        if prompt is None:
            self._refused.append(seat)
        else:
            self._prompts[seat] = prompt
            self._decoder.begin(seat, prompt)

    def step(self) -> dict[int, Reply]:
        replies = {seat: self._model._reply(self._prompts.pop(seat), tokens) for seat, tokens in self._decoder.step().items()}
        replies |= dict.fromkeys(self._refused, _TOO_LONG)
        self._refused = []
        return replies


def _check(path: Path, wanted: str) -> None:
    file = path / "model.safetensors" if path.is_dir() else path
    if not file.is_file():
        raise ConfigError("sha256", f"expected a GGUF file or a folder with model.safetensors, got {path}")
    with file.open("rb") as weights:
        digest = hashlib.file_digest(weights, "sha256").hexdigest()
    if digest != wanted.lower():
        raise ConfigError(f"model {path}", f"expected the SHA-256 {wanted}, got {digest}; it is another model")


@lru_cache(maxsize=1)
def _load(name: str, adapter: str | None, dtype: Dtype | None) -> tuple[Any, Any]:
    """Return a model and its tokenizer from disk; kept, for a leaderboard makes many agents of one model."""
    transformers = require("transformers", "llm")
    options: dict[str, Any] = {"trust_remote_code": False}
    weights: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
    folder = name
    if name.endswith(".gguf"):
        require("gguf", "models")
        folder, options["gguf_file"] = str(Path(name).parent), Path(name).name
        # with kernels from the hub, which are code, it would compute on packed weights, and to other figures
        if hasattr(transformers, "GgufConfig"):
            weights["quantization_config"] = transformers.GgufConfig(dequantize=True)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, **options, **weights, use_safetensors=True)
    # a GGUF file that is cut off, or of another kind, raises whatever its reader meets
    except (OSError, ValueError, LookupError, struct.error) as error:
        raise ConfigError(f"model {name}", f"cannot be loaded: {str(error)[:300]}") from error
    template = str(tokenizer.chat_template or "")
    if "<|im_start|>" in template and "tools" not in template:
        tokenizer.chat_template = CHAT_TEMPLATE  # of the same format, and it writes down the functions
    return model if adapter is None else _adapt(model, adapter), tokenizer


def _adapt(model: Any, adapter: str) -> Any:
    # where there are no safetensors, peft would open a pickle
    if not all((Path(adapter) / name).is_file() for name in ("adapter_config.json", "adapter_model.safetensors")):
        raise ConfigError(f"adapter {adapter}", "expected a folder with adapter_config.json and adapter_model.safetensors")
    return require("peft", "train").PeftModel.from_pretrained(model, adapter)

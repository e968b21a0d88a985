"""Transformers that trained policies stand on: small ones made from a config, and published ones with adapters."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from costgym.simulators.errors import ConfigError, InfrastructureError, require

SMALL_MODELS = ("llama", "gpt2")
"""Architectures that are made from a config and trained in full; any other model name is a published one's identifier."""


def small_config(
    kind: str, vocabulary: int, hidden_size: int, layers: int, heads: int, positions: int, mlp_size: int, **llama: Any
) -> Any:
    """The config of a small model; `llama` holds further fields of a llama's config."""
    transformers = require("transformers", "train")
    if kind == "gpt2":
        return transformers.GPT2Config(
            vocab_size=vocabulary,
            n_positions=positions,
            n_embd=hidden_size,
            n_layer=layers,
            n_head=heads,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=None,
            eos_token_id=None,
        )
    return transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden_size,
        intermediate_size=mlp_size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=positions,
        **{"bos_token_id": None, "eos_token_id": None, **llama},
    )


def load_published(kind: Any, model: str, **options: Any) -> Any:
    """Load a published model or its tokenizer by `kind.from_pretrained`; weights are read from safetensors files alone. Raises
    InfrastructureError where that fails."""
    if hasattr(kind, "from_config"):  # a model; its weights could come as a pickle, which can run code
        options["use_safetensors"] = True
    try:
        return kind.from_pretrained(model, **options)
    except (OSError, ValueError) as error:
        raise InfrastructureError(
            f"the model {model!r} cannot be loaded ({error}); name an available causal language model, or omit it for "
            "a small one"
        ) from error


def published_model(settings: Any) -> Any:
    """Load a published causal model by fields of `LanguageModelSettings`, with LoRA adapters on all its linear layers, which
    alone are trained then; without adapters (`lora_rank` 0) it is trained in full."""
    torch = require("torch", "train")
    model = published_base(require("transformers", "train").AutoModelForCausalLM, settings)
    if settings.lora_rank == 0:
        return model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        return with_adapters(model, adapters(settings.lora_rank))


def published_base(kind: Any, settings: Any) -> Any:
    """Load a published model by `kind.from_pretrained`, without its adapters; warns as `warn_of_bf16` does."""
    torch = require("torch", "train")
    warn_of_bf16(settings)
    # what adapters stand on is only read; what is trained keeps its precision
    kept = torch.bfloat16 if settings.bf16 and settings.lora_rank else torch.float32
    return load_published(kind, settings.model, dtype=kept)


def warn_of_bf16(settings: Any) -> None:
    """Warn if a model is to be multiplied in bfloat16 on a processor that has no instructions for it."""
    torch = require("torch", "train")
    if settings.bf16 and not torch.cuda.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX2":
        warnings.warn(
            "this processor has no instructions for bfloat16, which makes the model many times slower; train with --no-bf16",
            stacklevel=3,
        )


def multiplied(settings: Any, device: Any) -> Any:
    """Return the context in which a model of `LanguageModelSettings` is read: matrices of a published one are multiplied in
    bfloat16 if the settings say so."""
    torch = require("torch", "train")
    return torch.autocast(device.type, torch.bfloat16, enabled=settings.bf16 and not settings.small)


@contextmanager
def learning(settings: Any, model: Any) -> Iterator[None]:
    """The context in which a model of `LanguageModelSettings` learns: that of `multiplied`, and on a processor a published one
    attends without the fused kernel, whose backward pass in bfloat16 takes up to half of a step. That takes more memory."""
    network = without_adapters(model)
    attention = network.config._attn_implementation
    eager = not settings.small and network.device.type == "cpu"
    if eager:
        network.set_attn_implementation("eager")
    try:
        with multiplied(settings, network.device):
            yield
    finally:
        if eager:
            network.set_attn_implementation(attention)


def with_adapters(model: Any, config: Any) -> Any:
    """Put LoRA adapters on a model."""
    try:
        return require("peft", "train").get_peft_model(model, config)
    except ValueError as error:
        raise ConfigError("model", f"{model.name_or_path!r} has no layers for which adapters are known: {error}") from error


def without_adapters(model: Any) -> Any:
    """Return the causal language model under LoRA adapters; the model itself where it has none."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def padded(rows: Sequence[Sequence[int]], pad: int, multiple: int = 1) -> tuple[Any, Any]:
    """Put rows of numbers into one tensor, padded at the end to the longest, or to a multiple of that many, with the mask of
    what is not padding.  # (rows, longest) each"""
    torch = require("torch", "train")
    longest = multiple * math.ceil(max(map(len, rows), default=0) / multiple)
    numbers = torch.full((len(rows), longest), pad, dtype=torch.long)
    there = torch.zeros_like(numbers)
    for index, row in enumerate(rows):
        numbers[index, : len(row)] = torch.tensor(row, dtype=torch.long)
        there[index, : len(row)] = 1
    return numbers, there


def adapters(rank: int, vectors: Mapping[str, Sequence[int]] | None = None) -> Any:
    """Make the config of LoRA adapters on all linear layers of a causal language model, and on vectors of tokens by layer."""
    peft = require("peft", "train")
    taught = {"trainable_token_indices": {name: list(tokens) for name, tokens in vectors.items()}} if vectors else {}
    return peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM", **taught)


def not_finite(weights: Mapping[str, Any]) -> str | None:
    """Return the name of the first weight that is not finite; None if all are."""
    return next((name for name, weight in weights.items() if not bool(weight.isfinite().all())), None)


def trained_weights(model: Any) -> dict[str, Any]:
    """Collect the weights that training changes, by name."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}

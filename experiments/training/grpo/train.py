"""Group-relative policy optimisation of a tool-calling language model in the marketplace, with TRL.

Without a model's id a tiny Llama is made from a config, with a tokenizer of its own, and taught to call tools by supervised
fine-tuning on gold episodes; from random weights no tool call would ever appear. With an id the same function trains that model
with LoRA, on a GPU if there is one. It needs a chat template that TRL knows, and no warm start if it calls tools already.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ....simulators.draws import stable_generator
from ....simulators.errors import ConfigError, DataError, require
from ....simulators.version import __version__
from ...files import sole_writer, write_atomically
from ...trajectories.export.messages import features
from .world import GrpoWorld, Row, TaskEnvironment, tools_of

Progress = Callable[[int, int], None]
CONTROL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>",
    "<think>", "</think>", "<tools>", "</tools>",
)  # fmt: skip
CURVE, MANIFEST, WARM, FINAL = "curve.jsonl", "grpo.json", "warm-start", "model"


@dataclass(frozen=True, slots=True)
class GrpoSettings:
    """Settings of both stages.

    Attributes:
        group, groups: completions of a prompt, and prompts of a step.
        completion: most tokens of an episode, tool results included.
        learning_rate, temperature, beta: of GRPO; beta weighs the divergence from the first model.
        warm_steps, warm_batch, warm_rate: of the warm start; 0 steps for none.
        warm_variants: gold episodes of each task, every one with its own order of tools.
        hidden, layers, vocabulary: of the tiny model and its tokenizer.
        lora_rank: of the adapters of a published model.
    """

    group: int = 8
    groups: int = 1
    completion: int = 300
    learning_rate: float = 2e-4
    temperature: float = 1.0
    beta: float = 0.0
    warm_steps: int = 150
    warm_batch: int = 4
    warm_rate: float = 3e-3
    warm_variants: int = 12
    hidden: int = 96
    layers: int = 2
    vocabulary: int = 2048
    lora_rank: int = 16

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            rate = name in ("learning_rate", "temperature", "beta", "warm_rate")
            least = 0 if name in ("warm_steps", "beta") else 2 if name == "group" else 1
            fine = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if not fine or (value <= 0 if rate and name != "beta" else value < least) or not (rate or isinstance(value, int)):
                wanted = "positive number" if rate else f"whole number of at least {least}"
                raise ConfigError(name, f"expected a {wanted}, got {value!r}")


@dataclass(frozen=True, slots=True)
class GrpoResult:
    """A finished run.

    Attributes:
        run: its folder; `run / "model"` holds the model (or its adapters) and the tokenizer.
        curve: a line per step: reward, its standard deviation within groups, share of groups without any, success, price.
    """

    run: Path
    curve: list[dict[str, float]]


def train_grpo(
    out: str | Path,
    world: GrpoWorld,
    seed: int = 0,
    *,
    steps: int = 20,
    model: str | None = None,
    settings: GrpoSettings | None = None,
    progress: Progress | None = None,
) -> GrpoResult:
    """Train a language model on a world.

    Args:
        out: folder of the run. A warm start that is there already is taken up, not trained again.
        world: what to train on.
        seed: of weights, data order and sampling.
        steps: of GRPO.
        model: a published model by id, or a folder; None makes the tiny one.
        settings: of both stages.
        progress: called with the steps done and to do.

    Raises:
        ConfigError: a number makes no sense, the folder belongs to another run, or the loss became NaN (the warm start stays).
        MissingExtra: torch, transformers, trl, datasets or peft is not installed.
    """
    for module in ("torch", "datasets", "peft", "trl", "transformers"):
        require(module, "train")
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ConfigError("--steps", f"expected a positive whole number, got {steps!r}")
    chosen = settings or GrpoSettings()
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {
        "format": "costgym.grpo/1",
        "version": __version__,
        "model": model,
        "seed": seed,
        "settings": asdict(chosen),
        "scenario": world.scenario.digest,
        "tasks": sorted(world.environment_factory),
    }
    with sole_writer(folder):
        _own(folder, manifest)
        policy, tokenizer = _start(folder, world, seed, model, chosen)
        return _optimise(folder, world, policy, tokenizer, seed, steps, model is not None, chosen, progress)


def _own(folder: Path, manifest: Mapping[str, Any]) -> None:
    path = folder / MANIFEST
    if path.exists():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(path, "is no JSON; choose another folder") from error
        if found != manifest:
            differing = sorted(name for name in manifest if not isinstance(found, dict) or found.get(name) != manifest[name])
            raise ConfigError("--out", f"{folder} belongs to another run (different: {', '.join(differing)})")
    write_atomically(path, json.dumps(manifest, indent=1) + "\n")


# -- gold episodes -----------------------------------------------------------------------------------------------------------


def gold_rows(world: GrpoWorld, variants: int, seed: int = 0) -> list[Row]:
    """Episodes that pass, as conversations with tools (`messages`, `tools`): for each need its tools in some order, cheap ones
    rather early, until one works; then the answer. Played through the trainer's own methods, so the words are the same."""
    import transformers.utils

    rows = []
    for task, kind in world.environment_factory.items():
        environment = kind()
        schemas = [transformers.utils.get_json_schema(method) for method in tools_of(environment)]
        for variant in range(variants):
            luck = stable_generator(seed, "gold", task, variant)
            environment.reset(task=task, seed=int(luck.integers(2**31)))
            messages = _play_gold(environment, luck.random)
            if environment._env.succeeded:
                rows.append({"messages": [*world.prompt(task), *messages], "tools": schemas})
    return rows


def _play_gold(environment: TaskEnvironment, luck: Callable[[], float]) -> list[dict[str, Any]]:
    episode = environment._env._playing()
    quotes = environment._env.quotes()
    messages: list[dict[str, Any]] = []

    def say(name: str, arguments: dict[str, Any]) -> bool:
        messages.append(
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}],
            }
        )
        try:
            content, fine = str(getattr(environment, name)(**arguments)), True
        except Exception as error:  # as the trainer does with whatever a tool raises
            content, fine = str({"error": str(error)}), False
        messages.append({"role": "tool", "name": name, "content": content})
        return fine

    for index, need in enumerate(episode.needs):
        for name in sorted(need.tools, key=lambda tool: quotes.get(tool, math.inf) * (0.3 + luck())):
            if name in quotes and not episode.known[index] and not environment._over:
                say(name, dict(need.arguments))
    if not environment._over:
        say("finish", {"answer": "; ".join(str(need.fact) for need in episode.needs)})
    messages.append({"role": "assistant", "content": "Done."})
    return messages


# -- the first model -------------------------------------------------------------------------------------------------------


def _start(folder: Path, world: GrpoWorld, seed: int, model: str | None, settings: GrpoSettings) -> tuple[Any, Any]:
    """The model to optimise and its tokenizer: the warm start where there is one."""
    import transformers

    warm = folder / WARM
    if model is not None and not settings.warm_steps:
        return model, transformers.AutoTokenizer.from_pretrained(model)
    if not (warm / "config.json").exists() and not (warm / "adapter_config.json").exists():
        rows = gold_rows(world, settings.warm_variants, seed)
        if not rows:
            raise ConfigError("tasks", "no gold episode passes within the budget; raise the budget or take other tasks")
        if model is None:
            transformers.set_seed(seed)
            tokenizer = tiny_tokenizer(rows, settings.vocabulary)
            policy: Any = tiny_model(tokenizer, settings)
        else:
            policy, tokenizer = model, transformers.AutoTokenizer.from_pretrained(model)
        _warm_up(folder, policy, tokenizer, rows, seed, model is not None, settings)
    tokenizer = transformers.AutoTokenizer.from_pretrained(warm)
    if model is None:
        return transformers.AutoModelForCausalLM.from_pretrained(warm, dtype="float32"), tokenizer
    peft = require("peft", "train")
    base = transformers.AutoModelForCausalLM.from_pretrained(model)
    return peft.PeftModel.from_pretrained(base, warm, is_trainable=True), tokenizer


def tiny_tokenizer(rows: list[Row], vocabulary: int) -> Any:
    """A byte-level tokenizer trained on the conversations, with the chat template of Qwen3, which TRL knows.

    Digits stand alone; apart from that, merges may span words, so that the boilerplate of schemas becomes a few tokens and an
    episode a few hundred.
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


def tiny_model(tokenizer: Any, settings: GrpoSettings) -> Any:
    """A small Llama with random weights."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=settings.hidden,
        intermediate_size=2 * settings.hidden,
        num_hidden_layers=settings.layers,
        num_attention_heads=4,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return transformers.LlamaForCausalLM(config)


def _warm_up(folder: Path, model: Any, tokenizer: Any, rows: list[Row], seed: int, lora: bool, settings: GrpoSettings) -> None:
    import datasets
    import trl

    form = {name: feature for name, feature in features("sft").items() if name in ("messages", "tools")}
    arguments = trl.SFTConfig(
        output_dir=str(folder / ".warm-up"),
        max_steps=settings.warm_steps,
        per_device_train_batch_size=settings.warm_batch,
        learning_rate=settings.warm_rate,
        lr_scheduler_type="cosine",
        warmup_steps=min(20, settings.warm_steps // 5),
        max_length=None,
        assistant_only_loss=True,
        bf16=False,
        seed=seed,
        **_quiet(),
    )
    trainer = trl.SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=datasets.Dataset.from_list(rows, features=datasets.Features(form)),
        processing_class=tokenizer,
        peft_config=_lora(settings) if lora else None,
    )
    result = trainer.train()
    if not math.isfinite(result.training_loss):
        raise ConfigError("warm_rate", "the loss of the warm start became NaN; lower it")
    trainer.model.save_pretrained(folder / WARM)
    tokenizer.save_pretrained(folder / WARM)


def _lora(settings: GrpoSettings) -> Any:
    rank = settings.lora_rank
    return require("peft", "train").LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")


def _quiet() -> dict[str, Any]:
    import torch

    return {
        "report_to": "none",
        "save_strategy": "no",
        "gradient_checkpointing": False,
        "disable_tqdm": True,
        "logging_steps": 1,
        "use_cpu": not torch.cuda.is_available(),
        "dataloader_pin_memory": torch.cuda.is_available(),
        "log_level": "error",
    }


# -- GRPO ---------------------------------------------------------------------------------------------------------------------


def _optimise(
    folder: Path,
    world: GrpoWorld,
    model: Any,
    tokenizer: Any,
    seed: int,
    steps: int,
    published: bool,
    settings: GrpoSettings,
    progress: Progress | None,
) -> GrpoResult:
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    import torch
    import transformers
    import trl

    curve: list[dict[str, float]] = []
    store = folder / CURVE
    store.unlink(missing_ok=True)

    class Notes(transformers.TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if not logs or "reward" not in logs:
                return
            line = {name: float(logs[key]) for name, key in _LOGGED.items() if key in logs} | {"step": float(state.global_step)}
            curve.append(line)
            with store.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(line) + "\n")
            if progress is not None:
                progress(int(state.global_step), steps)
            if not all(math.isfinite(value) for value in line.values()):
                control.should_training_stop = True

    arguments = trl.GRPOConfig(
        output_dir=str(folder / ".grpo"),
        max_steps=steps,
        per_device_train_batch_size=settings.group * settings.groups,
        num_generations=settings.group,
        max_completion_length=settings.completion,
        learning_rate=settings.learning_rate,
        temperature=settings.temperature,
        beta=settings.beta,
        bf16=published and torch.cuda.is_available(),
        seed=seed,
        **_quiet(),
    )
    trainer = trl.GRPOTrainer(
        model=model,
        args=arguments,
        train_dataset=world.train_dataset,
        environment_factory=world.environment_factory,
        reward_funcs=world.reward_funcs,
        processing_class=tokenizer,
        peft_config=_lora(settings) if isinstance(model, str) else None,
        callbacks=[Notes()],
    )
    trainer.train()
    weights = [parameter for parameter in trainer.model.parameters() if parameter.requires_grad]
    if not all(bool(parameter.isfinite().all()) for parameter in weights):
        raise ConfigError("learning_rate", f"the loss became NaN; the warm start in {folder / WARM} stays; lower it")
    trainer.model.save_pretrained(folder / FINAL)
    tokenizer.save_pretrained(folder / FINAL)
    return GrpoResult(folder, curve)


_LOGGED = {
    "reward": "reward",
    "reward_std": "reward_std",
    "groups_alike": "frac_reward_zero_std",
    "success": "episode/success",
    "price": "episode/price",
    "finished": "episode/finished",
    "loss": "loss",
    "tool_calls": "tools/call_frequency",
    "tool_failures": "tools/failure_frequency",
    "step_time_s": "step_time",
}

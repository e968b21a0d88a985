"""Train a tool-calling language model in the marketplace by group-relative policy optimisation (GRPO) with TRL.

The episodes are those of `costgym train sft` and of the agent `react`: same prompts, same tokens.

Without a model id, a tiny Llama with random weights and its own tokenizer is created. It is first fine-tuned on gold episodes,
because random weights never produce a tool call. With a model id, that model is trained with LoRA, on a GPU if available; it
needs no warm start if it can call tools.
"""

import itertools
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costgym.agents.models.chat_template import CHAT_TEMPLATE
from costgym.agents.networks import adapters, load_published, small_config, warn_of_bf16
from costgym.experiments.train.grpo.settings import GrpoConfig, GrpoSettings
from costgym.experiments.train.grpo.world import GrpoWorld, episode_quality
from costgym.experiments.train.run import (
    METRICS,
    Callback,
    TrainingResult,
    TrainingRun,
    TrainingStep,
    check_steps,
    open_run,
    require_modules,
)
from costgym.experiments.train.sft.episodes import Conversation, gold_episodes, tokenize
from costgym.simulators.errors import ConfigError, TrainingFailed

WARM_START, FINAL, KEPT = "warm-start", "model", ".grpo"
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
_LOGGED = {
    "reward": "reward",
    "reward_std": "reward_std",
    "groups_alike": "frac_reward_zero_std",
    "success": "episode/success",
    "price": "episode/price",
    "calls": "episode/calls",
    "agent_errors": "episode/agent_errors",
    "completion_tokens": "completions/mean_length",
    "loss": "loss",
    "step_time_s": "step_time",
}
"""Names in the learning curve, with TRL's names for the same values."""
_AT_ONCE = 4
"""Completions that are learnt from at once: each token's logits are as many numbers as the vocabulary has words."""


def train_grpo(
    out: str | Path,
    world: GrpoWorld,
    seed: int = 0,
    *,
    steps: int = 20,
    resume: bool = True,
    callback: Callback | None = None,
    **settings: Any,
) -> TrainingResult:
    """Train a language model on the tasks of a world, with further fields of `GrpoSettings`.

    At the end `out / "model"` holds the model (or its adapters) and the tokenizer. A warm start that is already in the folder
    is reused, and so is the newest checkpoint, unless `resume` is False; more steps than a finished run had go on from it.
    Returns the values of the last step; the learning curve holds those of every step. Raises ConfigError if a number is out of
    range or the folder belongs to another run, TrainingFailed if the loss is NaN (the warm start is kept), and MissingExtra.
    """
    require_modules("torch", "datasets", "peft", "trl", "transformers")
    check_steps("--steps", steps)
    chosen = GrpoSettings(**{"seed": seed, **settings})
    tasks = tuple(sorted(world.numbers))
    config = GrpoConfig(
        settings=chosen, scenario=world.scenario, budget=world.budget, split=world.split, tasks=tasks, documents=world.documents
    )
    with open_run(out, config, resume=resume, callback=callback, files=(WARM_START, FINAL, KEPT)) as run:
        done = run.done(FINAL)
        if done is not None and done.steps == steps:
            return done
        return _optimise(run, world, *_start(run, world, chosen), steps, chosen)


# -- the first model -------------------------------------------------------------------------------------------------------


def _start(run: TrainingRun, world: GrpoWorld, settings: GrpoSettings) -> tuple[Any, Any]:
    """Return the model to optimise and its tokenizer, from the warm start if there is one."""
    import transformers

    warm, model, seed = run.folder / WARM_START, settings.model, settings.seed
    if model is not None and not settings.warm_start_steps:
        return model, load_published(transformers.AutoTokenizer, model)
    if not (warm / "config.json").exists() and not (warm / "adapter_config.json").exists():
        gold = gold_episodes(world.scenario, world.split, world.budget, world.documents, seed, tuple(world.numbers.values()))
        rows = list(itertools.islice(gold, settings.warm_start_variants * len(world.numbers)))
        if not rows:
            raise ConfigError("tasks", "no gold episode passes within the budget; raise the budget or choose other tasks")
        if model is None:
            transformers.set_seed(seed)
            tokenizer = tiny_tokenizer(rows, settings.vocabulary)
            policy: Any = tiny_model(tokenizer, settings)
        else:
            policy, tokenizer = model, load_published(transformers.AutoTokenizer, model)
        run.say(f"warm start: {settings.warm_start_steps} supervised steps on {len(rows)} gold episodes")
        _warm_up(run.folder, policy, tokenizer, rows, settings)
    tokenizer = transformers.AutoTokenizer.from_pretrained(warm)
    if model is None:
        return transformers.AutoModelForCausalLM.from_pretrained(warm, dtype="float32"), tokenizer
    import peft

    base = load_published(transformers.AutoModelForCausalLM, model)
    return peft.PeftModel.from_pretrained(base, warm, is_trainable=True), tokenizer


def tiny_tokenizer(rows: Sequence[Conversation], vocabulary: int) -> Any:
    """Train a byte-level tokenizer on conversations. Digits are separate tokens; other merges may span words, so that a
    schema's boilerplate takes a few tokens and an episode a few hundred."""
    import tokenizers
    import transformers

    def wrap(model: Any) -> Any:
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=model, eos_token="<|im_end|>", pad_token="<|endoftext|>", extra_special_tokens=list(CONTROL[1:])
        )
        tokenizer.chat_template = CHAT_TEMPLATE
        return tokenizer

    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    plain = wrap(model)
    texts = [plain.apply_chat_template(messages, tools=tools, tokenize=False) for messages, tools, _ in rows]
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
    """Create a small Llama with random weights."""
    import transformers

    width, ids = settings.hidden_size, {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = small_config("llama", len(tokenizer), width, settings.layers, 4, 4096, 2 * width, tie_word_embeddings=True, **ids)
    return transformers.LlamaForCausalLM(config)


def _warm_up(folder: Path, model: Any, tokenizer: Any, rows: list[Conversation], settings: GrpoSettings) -> None:
    import datasets
    import transformers
    import trl

    taught = [tokenize(tokenizer, row) for row in rows]
    learnt = [
        {"input_ids": row.ids, "assistant_masks": np.isin(range(len(row.ids)), row.learnt_at).astype(int)} for row in taught
    ]
    arguments = trl.SFTConfig(
        output_dir=str(folder / ".warm-up"),
        max_steps=settings.warm_start_steps,
        per_device_train_batch_size=settings.warm_start_batch_size,
        learning_rate=settings.warm_start_learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=min(20, settings.warm_start_steps // 5),
        max_length=None,
        save_strategy="no",
        bf16=False,
        seed=settings.seed,
        **_quiet(),
    )
    trainer = trl.SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=datasets.Dataset.from_list(learnt),
        processing_class=tokenizer,
        peft_config=adapters(settings.lora_rank) if settings.model is not None else None,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    result = trainer.train()
    if not math.isfinite(result.training_loss):
        raise TrainingFailed(settings.warm_start_steps, f"the loss of the warm start is {result.training_loss}")
    tokenizer.save_pretrained(folder / WARM_START)
    trainer.model.save_pretrained(folder / WARM_START)


def _quiet() -> dict[str, Any]:
    import torch

    return {
        "report_to": "none",
        "gradient_checkpointing": False,
        "disable_tqdm": True,
        "logging_steps": 1,
        "use_cpu": not torch.cuda.is_available(),
        "dataloader_pin_memory": torch.cuda.is_available(),
        "log_level": "error",
    }


# -- GRPO ---------------------------------------------------------------------------------------------------------------------


def _follower(run: TrainingRun, steps: int, checkpoint: Path | None, metrics: dict[str, float]) -> Any:
    """A callback of the trainer that keeps the last `metrics`, reports each step and stops where the run says so."""
    import transformers

    class Follower(transformers.TrainerCallback):  # type: ignore[misc]
        stopped = False

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if not logs or "reward" not in logs:
                return
            step = int(state.global_step)
            metrics.update({name: float(logs[key]) for name, key in _LOGGED.items() if key in logs})
            odd = sorted(name for name, value in metrics.items() if not math.isfinite(value))
            if odd:
                raise TrainingFailed(step, f"{odd[0]} is {metrics[odd[0]]}", checkpoint)
            self.stopped = run.report(TrainingStep("", step, step, steps, metrics)) and step < steps
            control.should_training_stop = control.should_training_stop or self.stopped
            control.should_save = control.should_save or self.stopped

    return Follower()


def _optimise(
    run: TrainingRun, world: GrpoWorld, model: Any, tokenizer: Any, steps: int, settings: GrpoSettings
) -> TrainingResult:
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    import transformers
    import trl

    from costgym.experiments.train.grpo.rollouts import GrpoTrainer, Rollouts
    from costgym.experiments.train.loop import check_finite

    # whole ones, for their state is written last, which leave a step to take, whose figures the run ends with
    there = [path.parent for path in (run.folder / KEPT).glob("checkpoint-*/trainer_state.json")]
    before = max((path for path in there if _step_of(path) < steps), key=_step_of, default=None)
    run.cut_curve(0 if before is None else _step_of(before))
    (run.folder / METRICS).unlink(missing_ok=True)
    metrics: dict[str, float] = {}
    warm = run.folder / WARM_START
    checkpoint = before or (warm if warm.exists() else None)

    follower = _follower(run, steps, checkpoint, metrics)
    few = math.gcd(settings.num_generations * settings.groups, _AT_ONCE)
    half = settings.bf16 and settings.model is not None
    if half:
        warn_of_bf16(settings)
    arguments = trl.GRPOConfig(
        output_dir=str(run.folder / KEPT),
        max_steps=steps,
        lr_scheduler_type="constant",  # so that a longer run goes on as it would have
        save_strategy="steps",
        save_steps=settings.save_every,
        save_total_limit=2,
        per_device_train_batch_size=few,
        gradient_accumulation_steps=settings.num_generations * settings.groups // few,
        num_generations=settings.num_generations,
        max_completion_length=settings.max_completion_length,
        learning_rate=settings.learning_rate,
        temperature=settings.temperature,
        beta=settings.beta,
        bf16=half,
        model_init_kwargs={"dtype": "bfloat16" if half else "float32"} if isinstance(model, str) else None,
        seed=settings.seed,
        **_quiet(),
    )
    trainer = GrpoTrainer(
        model=model,
        args=arguments,
        train_dataset=world.train_dataset,
        rollout_func=Rollouts(world, settings),
        reward_funcs=[episode_quality],
        processing_class=tokenizer,
        peft_config=adapters(settings.lora_rank) if isinstance(model, str) else None,
        callbacks=[follower],
    )
    trainer.remove_callback(transformers.PrinterCallback)  # the run reports its steps itself
    trainer.train(resume_from_checkpoint=None if before is None else str(before))
    taken = int(trainer.state.global_step)
    check_finite({name: weight for name, weight in trainer.model.named_parameters() if weight.requires_grad}, taken, checkpoint)
    trainer.model.save_pretrained(run.folder / FINAL)
    tokenizer.save_pretrained(run.folder / FINAL)
    return TrainingResult(run.folder, taken, {}, finished=False) if follower.stopped else run.finish(taken, metrics)


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])

"""Fine-tune a causal language model on solved text episodes, in full or with LoRA adapters, on a CPU or a GPU.

Logits are computed only where the assistant speaks, which spares most of the vocabulary's matrix. The trained model is
`RUN/model`, which `--model local:RUN/model` loads and `costgym train grpo --model RUN/model` trains further.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from costgym.agents.networks import adapters, load_published, warn_of_bf16, with_adapters
from costgym.experiments.train.run import Callback, TrainingResult, TrainingRun, TrainingStep, open_run, require_modules
from costgym.experiments.train.sft.episodes import TokenRow, token_rows
from costgym.experiments.train.sft.settings import SftConfig, SftSettings
from costgym.experiments.train.sft.strategies import taught_episodes
from costgym.simulators.draws import stable_generator
from costgym.simulators.errors import ConfigError
from costgym.simulators.scenario import Scenario, load_scenario

FINAL, ROWS = "model", ("learnt.jsonl", "unseen.jsonl")


def train_sft(
    out: str | Path,
    scenario: str | Path | Scenario = "marketplace",
    seed: int = 0,
    *,
    split: str = "train",
    budget: Mapping[str, float] | None = None,
    minutes: float | None = None,
    resume: bool = True,
    callback: Callback | None = None,
    **settings: Any,
) -> TrainingResult:
    """Fine-tune a language model on solved episodes; at the end `out / "model"` holds it (or its adapters) and the tokenizer.

    Tasks of `split` are learnt from; the loss is measured on `test`. `budget` are limits that the episodes keep, None for the
    scenario's. After `minutes` the run stops, to be continued by the same call; with `resume` False it starts again. `settings`
    are fields of `SftSettings`, of which `model` is needed. Returns the loss and the share of right turns on unseen tasks.
    Raises ConfigError if a setting is wrong, no episode fits, or the folder belongs to another run, and TrainingFailed if the
    loss is not finite (the last checkpoint is kept).
    """
    require_modules("torch", "transformers", *(("peft",) if settings.get("lora_rank") else ()))
    chosen = SftSettings(**{"seed": seed, **settings})
    if minutes is not None and not minutes > 0:
        raise ConfigError("--minutes", f"expected a time above 0, got {minutes!r}")
    world = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    limits = None if budget is None else dict(budget)
    config = SftConfig(settings=chosen, scenario=world, budget=limits, split=split)
    watched = callback if minutes is None else _Stopping(callback or Callback(), minutes)
    with open_run(out, config, resume=resume, callback=watched, files=(FINAL, *ROWS)) as run:
        done = run.done(FINAL)
        return done if done is not None and done.steps == chosen.steps else _train(run, world, chosen, limits, split)


class _Stopping(Callback):
    """Passes everything on, and stops the run when its time is over."""

    def __init__(self, inner: Callback, minutes: float) -> None:
        self.inner, self.until = inner, monotonic() + 60 * minutes

    def on_step(self, step: TrainingStep) -> bool | None:
        return self.inner.on_step(step) is True or monotonic() > self.until

    def on_message(self, text: str) -> None:
        self.inner.on_message(text)


def _train(
    run: TrainingRun, world: Scenario, settings: SftSettings, budget: dict[str, float] | None, split: str
) -> TrainingResult:
    import torch
    import transformers

    from costgym.experiments.train.loop import optimise
    from costgym.experiments.train.sft.learning import SftLearner

    transformers.utils.logging.disable_progress_bar()
    warn_of_bf16(settings)
    tokenizer = load_published(transformers.AutoTokenizer, settings.model)
    if not getattr(tokenizer, "chat_template", None):
        raise ConfigError("model", f"{settings.model!r} has no chat template; choose an instruction-tuned model")
    kinds = settings.steps * settings.batch_size

    def rows(name: str, split: str, count: int) -> Sequence[TokenRow]:
        taught = taught_episodes(world, settings.agents, split, budget, settings.documents, settings.seed)
        return token_rows(run.folder / name, tokenizer, taught, count, settings.max_length)

    learnt, held = rows(ROWS[0], split, kinds), rows(ROWS[1], "test", settings.held_out)
    if not learnt or not held:
        raise ConfigError("max_length", f"no solved episode has at most {settings.max_length} tokens; raise it or the budget")
    length, learnt_length = (
        sum(counts) // len(learnt) for counts in zip(*((len(row.ids), len(row.learnt_at)) for row in learnt), strict=True)
    )
    run.say(f"{len(learnt)} conversations of {length} tokens, {learnt_length} said")
    model = load_published(transformers.AutoModelForCausalLM, settings.model, dtype=torch.float32)
    if settings.lora_rank:
        model = with_adapters(model, adapters(settings.lora_rank, _marks(model, tokenizer, learnt)))
    if torch.cuda.is_available():
        model = model.to("cuda")
    order = _order(learnt, kinds, settings.seed, mixed=len(settings.agents) > 1)
    result = optimise(run, SftLearner(model, settings, order, held), settings.save_every)
    if result.finished:
        saved = model.to(torch.bfloat16) if settings.bf16 and not settings.lora_rank else model
        saved.save_pretrained(run.folder / FINAL)
        tokenizer.save_pretrained(run.folder / FINAL)
    return result


def _marks(model: Any, tokenizer: Any, rows: Sequence[TokenRow]) -> dict[str, list[int]]:
    """Return the special tokens that are said, besides the one that ends a reply, for each layer that holds their vectors.

    Such tokens stand around a call. Adapters of linear layers cannot teach them to a model that never learnt them: their
    vectors in Qwen2.5-Coder are too short to ever be likely.
    """
    special = set(tokenizer.get_added_vocab().values()) - {tokenizer.eos_token_id}
    special_learnt = sorted({row.ids[position] for row in rows for position in row.learnt_at} & special)
    first, last = model.get_input_embeddings(), model.get_output_embeddings()
    layers = [first] if last.weight is first.weight else [first, last]
    names = [name.rpartition(".")[2] for name, module in model.named_modules() if any(module is layer for layer in layers)]
    return dict.fromkeys(names, special_learnt) if special_learnt else {}


def _order(rows: Sequence[TokenRow], count: int, seed: int, mixed: bool) -> list[TokenRow]:
    """Return the rows in training order, each as often as every other. They are `mixed` where an episode has several, which
    would make up a batch of one task."""
    order: list[TokenRow] = []
    turn = 0
    while len(order) < count:
        mixing = turn or mixed
        turns = stable_generator(seed, "sft", "again", turn).permutation(len(rows)) if mixing else range(len(rows))
        order += [rows[int(index)] for index in turns]
        turn += 1
    return order[:count]

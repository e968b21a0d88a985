"""Training a DEER policy: samples to rows, rows to a language model with TRL's trainer, and its six accuracies.

A run is a folder: `config.json`, `tokenizer/`, `checkpoints/`, `curve.jsonl` (the loss of each step) and, at the end,
`metrics.json`. A small model first looks words up until it can, then decides. Rows and their order are functions of the seed,
so a run that was stopped and resumed learns the same as one that was not.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from ....agents.checkpoints import checkpoints, load_optimizer, load_weights
from ....agents.deer.examples import Example, accuracies, examples
from ....agents.deer.language_model import trained_weights
from ....agents.deer.learnt import LearntDecider, build_model, evaluate_together, load_tokenizer, source_of, writing_of
from ....agents.deer.settings import CONFIG, SAMPLINGS, TOKENIZER, DeerRun, DeerSettings, read_run, write_run
from ....agents.deer.writing import common_words, small_tokenizer, words
from ....envs.decision import DecisionAwareEnv
from ....simulators.decision.samples import COUNTS
from ....simulators.decision.toolsets import what_it_does
from ....simulators.errors import ConfigError, DataError, require
from ....simulators.scenario import Scenario
from ...files import sole_writer, write_atomically
from ...reproduction.decisions import ACCURACIES
from .retrieval import look_up_rows
from .rows import learning_order, rows_of
from .steps import CURVE, Learner, LookingUp, Stage, take_steps

METRICS = "metrics.json"
Progress = Callable[[int, int], None]
Counts = Mapping[str, tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class DeerResult:
    """A finished (or stopped) run.

    Attributes:
        run: its folder.
        steps: steps taken in all.
        loss: mean of the last steps.
        metrics: the six accuracies on seen tools (split `valid`) and on unseen ones (`test`), as ``seen_p_ds`` and so on; of a
            small model also ``looked_up``, how rightly words were looked up before it began to decide.
    """

    run: Path
    steps: int
    loss: float
    metrics: dict[str, float]


def train_deer(
    out: str | Path,
    scenario: str | Path | Scenario = "decision",
    seed: int = 0,
    *,
    data: str | None = None,
    counts: Counts | None = None,
    save_every: int = 250,
    stop: Callable[[int], bool] | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> DeerResult:
    """Train a policy that decides whether to search and what to call; it plays as ``deer:OUT``.

    Args:
        out: folder of the run; the same folder goes on from its last checkpoint.
        scenario: whose tools and queries.
        seed: of weights, samples and their order.
        data: a ToolDEER folder with training samples instead of generated ones.
        counts: NoSearch, NoCall and Call samples of the splits `train`, `valid` and `test`; None for the paper's.
        save_every: steps between checkpoints.
        stop: asked after each step; the run then saves and ends, and can be resumed.
        progress: called with the steps done and to do.
        settings: other fields of `DeerSettings`.

    Raises:
        ConfigError: a setting makes no sense, the folder holds something else, or there is nothing to learn from.
        DataError: a checkpoint to go on from is damaged.
        MissingExtra: torch, transformers, trl, datasets or (for a published model) peft is not installed.
        TrainingFailed: the loss became infinite or no number; the last good checkpoint stays.
    """
    for module in ("torch", "transformers", "trl", "datasets", "safetensors"):
        require(module, "train")
    known = {field.name for field in fields(DeerSettings)}
    for name in settings:
        if name not in known:
            raise ConfigError(name, f"no such setting; known: {', '.join(sorted(known))}")
    chosen = DeerSettings(seed=seed, **settings)
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ConfigError("--out", f"{folder} is a file; name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    with sole_writer(folder):
        return _train(folder, scenario, data, counts, chosen, save_every, stop, progress)


def training_examples(
    scenario: str | Path | Scenario, data: str | None, settings: DeerSettings, counts: Counts | None = None
) -> tuple[list[Example], DecisionAwareEnv]:
    """What is learnt from, and the environment it comes from.

    Raises:
        ConfigError: there are no samples to learn from, or they lack a kind.
    """
    if data is not None:
        env = DecisionAwareEnv(data=data, split="train", scenario=scenario)  # raises where there is no such split
    else:
        none, misfits, calls = (counts or COUNTS)["train"]
        wanted = {**(counts or COUNTS), "train": (none, misfits * settings.scale, calls * settings.scale)}
        env = DecisionAwareEnv(
            scenario=scenario, split="train", samples={"counts": wanted, "mixture": SAMPLINGS[settings.sampling]}
        )
    found = examples(env.world, "train")
    missing = sorted({"NoSearch", "NoCall", "Call"} - {example.kind for example in found})
    if missing:
        raise ConfigError("samples", f"expected training samples of every kind, got none of {', '.join(missing)}")
    return found, env


def _train(
    folder: Path,
    scenario: str | Path | Scenario,
    data: str | None,
    counts: Counts | None,
    settings: DeerSettings,
    save_every: int,
    stop: Callable[[int], bool] | None,
    progress: Progress | None,
) -> DeerResult:
    import torch

    known, env = training_examples(scenario, data, settings, counts)
    tools = {tool.name: tool for example in known for tool in example.candidates}
    seen = [tools[name] for name in sorted(tools)]
    world = env.scenario.digest if data is None else Path(data).name
    run = DeerRun(settings, env.k, common_words(seen) if settings.model is None else (), world)
    tokenizer = _prepare(folder, run, known, seen)
    rows = rows_of(known, writing_of(run), tokenizer, settings)
    model = build_model(run, tokenizer)
    if torch.cuda.is_available():
        model = model.to("cuda")
    weights = trained_weights(model)
    optimizer = torch.optim.AdamW(weights.values(), lr=1.0, betas=(0.9, 0.98), weight_decay=0.01)
    most = settings.index_steps if settings.model is None else 0
    looking_up, steps, kept = LookingUp(most), 0, None
    if checkpoints(folder):
        kept = checkpoints(folder)[-1]
        load_weights(kept, weights)
        state = load_optimizer(kept, weights, optimizer)
        looking_up, steps = LookingUp.restored(most, state), state["step"]
    _cut_curve(folder / CURVE, steps)
    learner = Learner(folder, model, tokenizer, weights, optimizer, looking_up, save_every, stop, progress)
    looked_up = look_up_rows(most, tokenizer, run.slots, settings)
    stopped = False
    if not looking_up.over:
        order: Sequence[int] = range(len(looked_up))
        rate = partial(settings.rate, falling=False)
        stage = Stage(looked_up, order, settings.batch, 0, most, rate, True, most + settings.steps)
        steps, kept, stopped = take_steps(learner, stage, steps, kept, settings.seed)
    total = looking_up.steps + settings.steps
    if looking_up.over and not stopped and steps < total:
        unread = looked_up[looking_up.steps * settings.batch :] or looked_up
        order = learning_order(rows, len(unread), settings)
        stage = Stage(rows + unread, order, settings.batch, looking_up.steps, total, settings.rate, False, total)
        steps, kept, stopped = take_steps(learner, stage, steps, kept, settings.seed)
    decider = LearntDecider(model, tokenizer, writing_of(run), "deer", source_of(run))
    metrics = measure(decider, scenario, data, counts) if looking_up.over and steps >= total else {}
    losses = [line["loss"] for line in read_curve(folder)][-50:]
    loss = sum(losses) / len(losses) if losses else math.nan
    if metrics and most:
        metrics["looked_up"] = looking_up.share
        if not looking_up.learnt:
            warnings.warn(
                f"words are looked up rightly in {looking_up.share:.1%} only after {most} steps of it, so there was little to "
                "decide with; give it more (index_steps) or another seed",
                stacklevel=2,
            )
    if metrics:
        write_atomically(folder / METRICS, json.dumps({"steps": steps, "loss": loss, **metrics}, indent=1) + "\n")
    return DeerResult(folder, steps, loss, metrics)


def _prepare(folder: Path, run: DeerRun, known: Sequence[Example], seen: Sequence[Any]) -> Any:
    """Makes the folder the run's own, with its tokenizer."""
    import transformers

    settings = run.settings
    if (folder / CONFIG).is_file():
        there = read_run(folder)
        if there != run:
            odd = [
                field.name
                for field in fields(DeerSettings)
                if getattr(there.settings, field.name) != getattr(settings, field.name)
            ] or ["the world"]
            raise ConfigError("--out", f"{folder} holds a run of other settings ({', '.join(odd)}); choose another folder")
        return load_tokenizer(folder)
    if any(not entry.name.startswith(".") and entry.name != TOKENIZER for entry in folder.iterdir()):
        raise ConfigError("--out", f"{folder} holds something else than a training run; choose another folder")
    if settings.model is None:
        texts = [example.query for example in known] + [" ".join(words(what_it_does(tool))) for tool in seen]
        tokenizer = small_tokenizer(texts, run.slots, settings.vocabulary)
    else:
        tokenizer = transformers.AutoTokenizer.from_pretrained(settings.model)
    tokenizer.save_pretrained(folder / TOKENIZER)
    write_run(folder, run)
    return load_tokenizer(folder)


def measure(
    decider: LearntDecider,
    scenario: str | Path | Scenario = "decision",
    data: str | None = None,
    counts: Counts | None = None,
) -> dict[str, float]:
    """The six accuracies on seen and on unseen tools, on samples that are the same whatever was learnt from."""
    found: dict[str, float] = {}
    samples = None if counts is None else {"counts": dict(counts)}
    env = DecisionAwareEnv(scenario=scenario, data=data, split="valid" if data is None else "train", samples=samples)
    for kind, split in (("seen", "valid"), ("unseen", "test")):
        if split in env.world.tasks.splits:
            scores = accuracies(evaluate_together(decider, examples(env.world, split)))
            found |= {f"{kind}_{name}": score for name, score in zip(ACCURACIES, scores, strict=True) if score is not None}
    return found


def read_curve(run: str | Path) -> list[dict[str, float]]:
    """The loss of each step; raises DataError where there is no curve, or a line is no JSON."""
    path = Path(run) / CURVE
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise DataError(path, f"cannot be read as a learning curve: {error}") from error


def _cut_curve(path: Path, steps: int) -> None:
    """Drops what the curve has beyond a step, such as the steps after the checkpoint of a killed run."""
    kept = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines()[:steps]:
            try:
                json.loads(line)
            except ValueError:
                break
            kept.append(line)
    path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")

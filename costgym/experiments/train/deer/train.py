"""Train DEER's policy, a language model pre-trained on retrieval if it is small, on samples; measure its six accuracies."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from costgym.agents.deer.deciders import TrainedDecider
from costgym.agents.deer.learnt import LearntDecider, build_model, load_tokenizer, writing_of
from costgym.agents.deer.settings import SAMPLINGS, TOKENIZER, DeerConfig, DeerSettings
from costgym.agents.deer.writing import common_words, small_tokenizer, words
from costgym.agents.networks import load_published, warn_of_bf16
from costgym.envs.decision import DecisionAwareEnv
from costgym.experiments.play.decisions import accuracies, evaluate_together
from costgym.experiments.train.deer.rows import retrieval_rows, rows_of
from costgym.experiments.train.run import Callback, TrainingResult, TrainingRun, open_run, require_modules
from costgym.simulators.decision.recorded import find_file
from costgym.simulators.decision.samples import COUNTS, NO_SEARCH, Example, examples
from costgym.simulators.decision.toolsets import what_it_does
from costgym.simulators.decision.training_set import CANDIDATES, training_set
from costgym.simulators.errors import ConfigError
from costgym.simulators.retrieval.sentences import MINILM, is_sentence_encoder, sentence_embedding
from costgym.simulators.scenario import Scenario, load_scenario
from costgym.simulators.tools import Tool

Counts = Mapping[str, tuple[int, int, int]]


def train_deer(
    out: str | Path,
    scenario: str | Path | Scenario = "decision",
    seed: int = 0,
    *,
    data: str | None = None,
    counts: Counts | None = None,
    resume: bool = True,
    callback: Callback | None = None,
    save_every: int = 250,
    check: bool = True,
    **settings: Any,
) -> TrainingResult:
    """Train a policy that decides whether to search and what to call, the agent ``deer:OUT``.

    `data` is a ToolDEER folder, used instead of generated samples: its train.json, or else samples that are drawn from its
    tool.json by the paper's Algorithm 1. `counts` are numbers of NoSearch, NoCall and Call samples in the splits `train`,
    `valid` and `test`, None for the paper's. `save_every` is in steps, `settings` are further fields of `DeerSettings`, and
    with `resume` False the run starts again. Returns the loss and, unless `check` is False, the six accuracies on seen tools
    (`valid`) and unseen ones (`test`, but not a folder's, which is looked at once), named ``seen_p_ds`` and so on; for a small
    model also ``retrieval_accuracy`` at the end of pre-training.

    Raises ConfigError or UnknownName if a setting is invalid, the folder holds other files, or there are no training samples;
    DataError for a damaged checkpoint; MissingExtra; TrainingFailed if the loss is not finite (the last good checkpoint is
    kept).
    """
    require_modules("torch", "transformers", "safetensors")
    chosen = DeerSettings(**{"seed": seed, **settings})
    world = None if data is not None else scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    recorded = () if data is None else (Path(data).name,)
    wanted = DeerConfig(settings=chosen, scenario=world, data=recorded)
    with open_run(out, wanted, resume=resume, callback=callback, files=(TOKENIZER,)) as run:
        if (done := run.done()) is not None:
            return done
        known, slots = training_examples(scenario, data, chosen, counts)
        tools = {tool.name: tool for example in known for tool in example.candidates}
        seen = [tools[name] for name in sorted(tools)]
        run.say(f"{len(known)} samples about {len(seen)} tools for training")

        def measured(decider: TrainedDecider) -> dict[str, float]:
            return measure(decider, scenario, data, counts) if check else {}

        if is_sentence_encoder(chosen.model):
            return _match(run, chosen, known, measured, save_every)
        run.update(slots=slots, common=common_words(seen) if chosen.small else ())
        return _write(run, chosen, known, seen, measured, save_every)


def _write(
    run: TrainingRun,
    settings: DeerSettings,
    known: Sequence[Example],
    seen: Sequence[Tool],
    measured: Callable[[TrainedDecider], dict[str, float]],
    save_every: int,
) -> TrainingResult:
    """Train a policy on a language model, which writes its decisions."""
    import torch

    from costgym.experiments.train.deer.learning import DeerLearner
    from costgym.experiments.train.loop import optimise

    config = run.config
    assert isinstance(config, DeerConfig)
    tokenizer = _tokenizer(run.folder, config, known, seen)
    model = build_model(config, tokenizer)
    if torch.cuda.is_available():
        model = model.to("cuda")
    decider = LearntDecider(model, tokenizer, config)
    learner = DeerLearner(
        model,
        settings,
        tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id,
        retrieval_rows(settings.retrieval_steps if settings.small else 0, tokenizer, config.slots, settings),
        rows_of(known, writing_of(config), tokenizer, settings),
        lambda: measured(decider),
    )
    return optimise(run, learner, save_every)


def _match(
    run: TrainingRun,
    settings: DeerSettings,
    known: Sequence[Example],
    measured: Callable[[TrainedDecider], dict[str, float]],
    save_every: int,
) -> TrainingResult:
    """Train a policy on a sentence encoder: maps on its vectors, or the encoder itself."""
    from costgym.agents.deer.matching import MatchingDecider, new_matcher
    from costgym.experiments.train.deer.matching import EncoderLearner, MatchingLearner
    from costgym.experiments.train.loop import optimise

    needed = [example for example in known if example.kind != NO_SEARCH]
    remembered = [example.query for example in needed][:: math.ceil(len(needed) / (settings.remembered or len(needed)))]
    run.update(known=len(remembered))
    matcher, embed = new_matcher(settings, len(remembered))
    decider = MatchingDecider(matcher, embed, "deer", settings.model or MINILM)
    if settings.tune_encoder:
        warn_of_bf16(settings)
        learner = EncoderLearner(matcher, settings, needed, embed, remembered, lambda: measured(decider))
        return optimise(run, learner, save_every)
    run.say(f"reading {len(needed)} queries")
    matcher.remember(embed(remembered))
    return optimise(run, MatchingLearner(matcher, settings, needed, embed, lambda: measured(decider)), save_every)


def training_examples(
    scenario: str | Path | Scenario, data: str | None, settings: DeerSettings, counts: Counts | None = None
) -> tuple[list[Example], int]:
    """Return the training examples, and how many candidates each has."""
    if data is not None and find_file(Path(data), "train.json") is None and find_file(Path(data), "tool.json") is not None:
        encoder = settings.model if is_sentence_encoder(settings.model) else None if settings.encoder == "words" else MINILM
        embed = None if encoder is None else sentence_embedding(encoder)
        return training_set(data, embed, SAMPLINGS[settings.sampling], settings.seed).examples, CANDIDATES
    if data is not None:
        env = DecisionAwareEnv(data=data, split="train", scenario=scenario)  # raises if the split does not exist
    else:
        none, misfits, calls = (counts or COUNTS)["train"]
        wanted = {**(counts or COUNTS), "train": (none, misfits * settings.scale, calls * settings.scale)}
        env = DecisionAwareEnv(
            scenario=scenario, split="train", samples={"counts": wanted, "mixture": SAMPLINGS[settings.sampling]}
        )
    learnt_from = examples(env.world, "train")
    missing = sorted({"NoSearch", "NoCall", "Call"} - {example.kind for example in learnt_from})
    if missing:
        raise ConfigError("samples", f"expected training samples of every kind, got none of {', '.join(missing)}")
    return learnt_from, env.k


def _tokenizer(folder: Path, config: DeerConfig, known: Sequence[Example], seen: Sequence[Any]) -> Any:
    """Return the run's tokenizer; it is created if the folder has none."""
    if not (folder / TOKENIZER / "tokenizer.json").is_file():
        settings = config.settings
        if settings.model is None:
            texts = [example.query for example in known] + [" ".join(words(what_it_does(tool))) for tool in seen]
            tokenizer = small_tokenizer(texts, config.slots, settings.vocabulary)
        else:
            import transformers

            tokenizer = load_published(transformers.AutoTokenizer, settings.model)
        tokenizer.save_pretrained(folder / TOKENIZER)
    return load_tokenizer(folder)


def measure(
    decider: TrainedDecider, scenario: str | Path | Scenario = "decision", data: str | None = None, counts: Counts | None = None
) -> dict[str, float]:
    """Compute the six accuracies on seen and unseen tools, on samples that do not depend on the training data; with a folder on
    seen tools alone."""
    figures: dict[str, float] = {}
    samples = None if counts is None else {"counts": dict(counts)}
    world = DecisionAwareEnv(scenario=scenario, data=data, split="valid", samples=samples).world
    for kind, split in (("seen", "valid"), ("unseen", "test")):
        if split in world.tasks.splits and (data is None or split == "valid"):
            scores = accuracies(evaluate_together(decider, examples(world, split)))
            figures |= {f"{kind}_{name}": score for name, score in scores.items() if score is not None}
    return figures

"""Train BTP's usefulness classifier, which predicts whether the result of a call helps.

The classifier is fitted on the train split and evaluated on the test split, whose queries, arguments and answers do not occur
in the train split.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....agents.btp.usefulness import FILE, NUMBERS, LearntUsefulness, RuleBased, Usefulness, WordModel
from ....simulators.errors import ConfigError, require
from ....simulators.scenario import Scenario
from ...play.files import write_atomically
from ..run import Callback, TrainingResult, TrainingRun, open_run, require_modules
from .data import Labelled, check_kinds, collect_labelled, recorded_labelled
from .settings import UsefulnessConfig, UsefulnessSettings


def train_btp(
    out: str | Path,
    scenario: Scenario,
    seed: int = 0,
    *,
    records: str | Path | None = None,
    resume: bool = True,
    callback: Callback | None = None,
    **settings: Any,
) -> TrainingResult:
    """Train the usefulness classifier; `Btp(usefulness=load_usefulness(out))` uses it.

    `records` are trajectories of the train split, and optionally of the test split, used instead of new episodes; `settings`
    are further fields of `UsefulnessSettings`; with `resume` False the run starts again. Returns, on held-out tasks, the number
    of examples, the share of helpful ones, accuracy, precision and recall of the classifier and of the rules, and the
    classifier's area under the ROC curve. Raises ConfigError if the folder belongs to another run, or there are too few
    examples.
    """
    chosen = UsefulnessSettings(**{"seed": seed, **settings})
    require_modules("sklearn")
    data = () if records is None else (Path(records).name,)
    config = UsefulnessConfig(settings=chosen, scenario=scenario, data=data, numbers=NUMBERS)
    with open_run(out, config, resume=resume, callback=callback, files=(FILE,)) as run:
        return run.done(FILE) or _train(run, scenario, records, chosen)


def _train(run: TrainingRun, scenario: Scenario, records: str | Path | None, settings: UsefulnessSettings) -> TrainingResult:
    splits: dict[str, list[Labelled]] = {}
    if records is None:
        for split, episodes in (("train", settings.episodes), ("test", settings.held_out)):
            run.say(f"playing {episodes} episodes of the {split} split")
            splits[split] = collect_labelled(scenario, split, episodes, settings.seed)
    else:
        splits = recorded_labelled(records)
        if "train" not in splits:
            raise ConfigError("--records", f"expected episodes of the split 'train', got {', '.join(sorted(splits))}")
    run.say(f"{len(splits['train'])} labelled results for training")
    classifier = fit_usefulness(splits["train"], settings)
    metrics = metrics_of(classifier, splits)
    about = {"scenario": scenario.digest, "data": run.config.data, "settings": settings.model_dump()}
    write_atomically(run.folder / FILE, classifier.to_json({**about, "metrics": metrics}))
    return run.finish(1, metrics)


def fit_usefulness(examples: Sequence[Labelled], settings: UsefulnessSettings | None = None) -> LearntUsefulness:
    """Fit a logistic regression to examples."""
    chosen = settings or UsefulnessSettings()
    linear = require("sklearn.linear_model", "train")
    labels = check_kinds(examples)
    observed = [example.observed for example in examples]
    blank = WordModel.unfitted(observed, chosen.min_examples, chosen.vocabulary)
    # the numerical inputs contain a constant 1, so no separate intercept is fitted
    fitted = linear.LogisticRegression(C=chosen.strength, fit_intercept=False, max_iter=2000, tol=1e-6)
    fitted.fit(blank.features(observed).astype(np.float64), labels)
    model = WordModel(blank.vocabulary, blank.rarity, fitted.coef_[0].astype(np.float64), chosen.threshold)
    return LearntUsefulness(model, {example.tool: example.observed.document for example in examples})


def measure(judge: Usefulness, examples: Sequence[Labelled]) -> dict[str, float]:
    """Compute accuracy, precision and recall of a usefulness judge; a ratio with denominator 0 is 0."""
    metrics = require("sklearn.metrics", "train")
    said = [judge.helpful(e.observed.query, e.tool, e.observed.arguments, e.observed.text) for e in examples]
    right = [e.helpful for e in examples]
    return {
        "accuracy": float(metrics.accuracy_score(right, said)),
        "precision": float(metrics.precision_score(right, said, zero_division=0.0)),
        "recall": float(metrics.recall_score(right, said, zero_division=0.0)),
    }


def metrics_of(classifier: LearntUsefulness, splits: Mapping[str, Sequence[Labelled]]) -> dict[str, float]:
    """Evaluate a classifier and the rules on held-out tasks, or on the train tasks if there are no held-out tasks."""
    known = splits.get("test") or splits["train"]
    labels = check_kinds(known)
    scores = [classifier.probability(e.observed.query, e.tool, e.observed.arguments, e.observed.text) for e in known]
    return {
        "train_examples": float(len(splits["train"])),
        "examples": float(len(known)),
        "helpful_share": sum(labels) / len(labels),
        "auc": float(require("sklearn.metrics", "train").roc_auc_score(labels, scores)),
        **measure(classifier, known),
        **{f"rules_{name}": value for name, value in measure(RuleBased(), known).items()},
    }

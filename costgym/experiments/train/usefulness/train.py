"""Train BTP's usefulness classifier, which predicts from the text of a call's result whether it answers a need of the task.

Calls are those of new episodes or recorded ones. The classifier is fitted on the train split and evaluated on the test split,
whose queries, arguments and answers do not occur in the train split.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from costgym.agents.btp.usefulness import FILE, NUMBERS, LearntUsefulness, Observed, RuleBased, Usefulness, WordModel
from costgym.experiments.play.experience import play_split
from costgym.experiments.train.run import Callback, TrainingResult, TrainingRun, open_run, require_modules
from costgym.experiments.train.usefulness.settings import UsefulnessConfig, UsefulnessSettings
from costgym.simulators.errors import ConfigError, require
from costgym.simulators.files import write_atomically
from costgym.simulators.scenario import Scenario
from costgym.simulators.status import Status


class Labelled(NamedTuple):
    """A call's result and its label."""

    tool: str
    observed: Observed  # input of a classifier
    helpful: bool  # whether the result answers a need of the task


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
            # without a budget; each pass over the tasks uses another seed
            played = play_split(scenario, split, range(episodes), settings.seed, ("usefulness", split))
            splits[split] = [example for env in played for example in labelled_calls(env)]
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


def recorded_labelled(path: str | Path) -> dict[str, list[Labelled]]:
    """Label the calls of recorded text-view trajectories (see `costgym collect`) and return them by split."""
    from costgym.experiments.play.export.messages import need_text
    from costgym.experiments.play.trajectories.replay import replayed

    labelled: dict[str, list[Labelled]] = {}
    for played in replayed(path):
        need_text(played.header.env, "a usefulness classifier")
        labelled.setdefault(played.header.settings["split"], []).extend(labelled_calls(played.env.unwrapped))
    return labelled


def labelled_calls(env: Any) -> Iterator[Labelled]:
    """Yield the executed calls of a finished episode with their labels."""
    for call in env.episode.calls:
        if call.slot >= 0 and call.status.executed:
            tool = env.world.catalog.get(call.tool)
            document = f"{tool.name.replace('_', ' ')}. {tool.description}"
            observed = Observed(env.episode.content(call), env.query, dict(call.arguments or {}), document)
            yield Labelled(call.tool, observed, call.status is Status.OK and call.need >= 0)


def check_kinds(examples: Sequence[Labelled]) -> list[bool]:
    """Return the labels of examples; raises ConfigError unless both labels occur."""
    labels = [example.helpful for example in examples]
    if len(set(labels)) < 2:
        kind = "none" if not labels else "only helpful ones" if labels[0] else "only useless ones"
        raise ConfigError("examples", f"expected helpful and useless results, got {kind}; record more episodes")
    return labels


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
    verdicts = [judge.helpful(e.observed.query, e.tool, e.observed.arguments, e.observed.text) for e in examples]
    right = [e.helpful for e in examples]
    return {
        "accuracy": float(metrics.accuracy_score(right, verdicts)),
        "precision": float(metrics.precision_score(right, verdicts, zero_division=0.0)),
        "recall": float(metrics.recall_score(right, verdicts, zero_division=0.0)),
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

"""Training BTP's usefulness classifier: which results of calls help, learnt from recorded episodes.

The examples are the calls of played episodes, each with its result's text. A result is labelled helpful if it answers a need of
the task, which the world knows and the classifier must guess. Tasks are kept apart: it is fitted on the train split and
measured on the test split, whose queries, arguments and answers it has never met.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ....agents.btp.usefulness import Observed, RuleBased, Usefulness
from ....agents.btp.usefulness_model import FILE, NUMBERS, LearntUsefulness, WordModel
from ....simulators.draws import stable_integer
from ....simulators.errors import ConfigError, require
from ....simulators.scenario import Scenario
from ....simulators.status import Status
from ...files import sole_writer, write_atomically

Progress = Callable[[int, int], None]


class Labelled(NamedTuple):
    """A call's result and whether it helped.

    Attributes:
        tool: its name.
        observed: what a classifier may read.
        helpful: it answers a need of the task.
    """

    tool: str
    observed: Observed
    helpful: bool


@dataclass(frozen=True, slots=True)
class UsefulnessSettings:
    """Settings of the classifier.

    Attributes:
        episodes, held_out: played on the train and on the test split.
        strength: inverse of the regularisation.
        vocabulary: most words.
        least: examples that a word must occur in.
        threshold: least probability that counts as help.
    """

    episodes: int = 400
    held_out: int = 200
    strength: float = 4.0
    vocabulary: int = 4000
    least: int = 3
    threshold: float = 0.5

    def __post_init__(self) -> None:
        for name in ("episodes", "held_out", "vocabulary", "least"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(name, f"expected a positive whole number, got {value!r}")
        if not math.isfinite(self.strength) or self.strength <= 0:
            raise ConfigError("strength", f"expected a positive number, got {self.strength!r}")
        if not 0.0 <= self.threshold <= 1.0:
            raise ConfigError("threshold", f"expected a probability, got {self.threshold!r}")


@dataclass(frozen=True, slots=True)
class UsefulnessResult:
    """A finished run.

    Attributes:
        run: its folder; it holds the classifier.
        classifier: what was learnt.
        metrics: on held-out tasks: examples, share that helps, and for the classifier and the rules accuracy, precision and
            recall; for the classifier also the area under the ROC curve.
    """

    run: Path
    classifier: LearntUsefulness
    metrics: dict[str, float]


def collect_labelled(scenario: Scenario, split: str, episodes: int, seed: int = 0, agent: Any = None) -> list[Labelled]:
    """The calls of an agent that plays a split without a budget.

    Args:
        scenario: the world.
        split: whose tasks.
        episodes: how many; tasks come round and round, each round in another world.
        seed: keys the world's chance and the agent's.
        agent: by default ReAct on the simulated model.
    """
    from ....agents.registry import make_agent
    from ....envs.chat import MarketplaceChatEnv

    player = agent if agent is not None else make_agent("react")
    env = MarketplaceChatEnv(scenario=scenario, split=split, budget={}, enforcement="record", max_steps=400)
    found: list[Labelled] = []
    for index in range(episodes):
        number = env.numbers[index % len(env.numbers)]
        world_seed = stable_integer(seed, "usefulness", split, index // len(env.numbers)) >> 1
        observation, info = env.reset(seed=world_seed, options={"task": number})
        player.reset(env, observation, info, stable_integer(world_seed, "agent", number) >> 1)
        over = False
        while not over:
            observation, _, terminated, truncated, info = env.step(player.act(observation, info))
            over = terminated or truncated
        found += labelled_calls(env)
    return found


def recorded_labelled(path: str | Path, data: str | None = None) -> dict[str, list[Labelled]]:
    """The calls of recorded trajectories of the text view, by split; see `costgym collect`."""
    from ...trajectories.export.messages import need_text
    from ...trajectories.replay import replayed

    found: dict[str, list[Labelled]] = {}
    for played in replayed(path, data):
        need_text(played.header.env, "a usefulness classifier")
        found.setdefault(played.header.settings["split"], []).extend(labelled_calls(played.env.unwrapped))
    return found


def labelled_calls(env: Any) -> Iterator[Labelled]:
    """The executed calls of an episode that has ended."""
    for call in env.episode.calls:
        if call.slot >= 0 and call.status.executed:
            document = document_of(env.world.catalog.get(call.tool))
            observed = Observed(env.episode.content(call), env.query, dict(call.arguments or {}), document)
            yield Labelled(call.tool, observed, call.status is Status.OK and call.need >= 0)


def document_of(tool: Any) -> str:
    """What is read of a tool's documentation: its name and its description."""
    return f"{tool.name.replace('_', ' ')}. {tool.description}"


def fit_usefulness(examples: Sequence[Labelled], settings: UsefulnessSettings | None = None) -> LearntUsefulness:
    """A classifier that fits some examples.

    Raises:
        ConfigError: the examples are all of one kind.
        MissingExtra: scikit-learn is not installed.
    """
    chosen = settings or UsefulnessSettings()
    linear = require("sklearn.linear_model", "train")
    labels = [example.helpful for example in examples]
    if len(set(labels)) < 2:
        kind = "none at all" if not labels else "only helpful ones" if labels[0] else "only useless ones"
        raise ConfigError("examples", f"expected helpful and useless results, got {kind}; record more episodes")
    observed = [example.observed for example in examples]
    blank = WordModel.unfitted(observed, chosen.least, chosen.vocabulary)
    # the numbers hold a constant 1, so no intercept stands apart
    fitted = linear.LogisticRegression(C=chosen.strength, fit_intercept=False, max_iter=2000, tol=1e-6)
    fitted.fit(blank.features(observed).astype(np.float64), labels)
    model = WordModel(blank.vocabulary, blank.rarity, fitted.coef_[0].astype(np.float64), chosen.threshold)
    return LearntUsefulness(model, {example.tool: example.observed.document for example in examples})


def measure(judge: Usefulness, examples: Sequence[Labelled]) -> dict[str, float]:
    """Accuracy, precision and recall of a judge of results; 0 where there is nothing to divide by."""
    said = [judge.helpful(e.observed.query, e.tool, e.observed.arguments, e.observed.text) for e in examples]
    right = [e.helpful for e in examples]
    both = sum(s and r for s, r in zip(said, right, strict=True))
    same = sum(s == r for s, r in zip(said, right, strict=True))
    return {
        "accuracy": same / len(examples) if examples else 0.0,
        "precision": both / sum(said) if any(said) else 0.0,
        "recall": both / sum(right) if any(right) else 0.0,
    }


def area_under_curve(scores: npt.NDArray[np.float64], labels: Sequence[bool]) -> float:
    """The chance that a helpful example scores higher than a useless one, ties counted half.

    Raises:
        ConfigError: the examples are all of one kind.
    """
    flags = np.asarray(labels, np.bool_)
    yes, no = scores[flags], scores[~flags]
    if not len(yes) or not len(no):
        raise ConfigError("examples", "expected helpful and useless results to rank; measure on more episodes")
    ordered = np.sort(no)
    below = np.searchsorted(ordered, yes, "left") + np.searchsorted(ordered, yes, "right")
    return float(below.sum() / (2 * len(yes) * len(no)))


def train_btp(
    out: str | Path,
    scenario: Scenario,
    seed: int = 0,
    *,
    model: str | None = None,
    records: str | Path | None = None,
    settings: UsefulnessSettings | None = None,
    progress: Progress | None = None,
) -> UsefulnessResult:
    """Train the usefulness classifier; `Btp(usefulness=load_usefulness(out))` uses it.

    Args:
        out: folder of the run. A finished run of the same settings is not trained again.
        scenario: the world that is played for examples.
        seed: of the episodes.
        model: None for the logistic regression; "longformer" for a small one made from a config, or a published sequence
            classifier by id or folder, is fine-tuned instead.
        records: trajectories of the train split (and of the test split, to measure on) instead of played episodes.
        settings: see `UsefulnessSettings`.
        progress: called with the stages done and to do.

    Raises:
        ConfigError: the folder belongs to another run, or there are too few examples.
        DataError: the records cannot be read.
        MissingExtra: scikit-learn (or torch and transformers) is not installed.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ConfigError("--seed", f"expected a whole number of at least 0, got {seed!r}")
    chosen = settings or UsefulnessSettings()
    require("sklearn", "train")
    tell = progress or (lambda done, total: None)
    run = Path(out)
    run.mkdir(parents=True, exist_ok=True)
    about = {
        "model": model or "logistic regression",
        "scenario": scenario.digest,
        "records": None if records is None else Path(records).name,
        "seed": seed,
        "settings": asdict(chosen),
    }
    with sole_writer(run):
        _own(run, about)
        tell(0, 3)
        splits: Mapping[str, list[Labelled]]
        if records is None:
            train = collect_labelled(scenario, "train", chosen.episodes, seed)
            tell(1, 3)
            splits = {"train": train, "test": collect_labelled(scenario, "test", chosen.held_out, seed)}
        else:
            splits = recorded_labelled(records)
            if "train" not in splits:
                raise ConfigError("--records", f"expected episodes of the split 'train', got {', '.join(sorted(splits))}")
        tell(2, 3)
        classifier: Any
        if model is None:
            classifier = fit_usefulness(splits["train"], chosen)
            found = metrics_of(classifier, splits)
            write_atomically(run / FILE, classifier.to_json({**about, "metrics": found}))
        else:
            from .transformer import fit_transformer

            classifier = fit_transformer(run, splits["train"], model, seed)
            found = metrics_of(classifier, splits)
        write_atomically(run / "metrics.json", json.dumps(found, indent=1) + "\n")
        tell(3, 3)
    return UsefulnessResult(run, classifier, found)


def metrics_of(classifier: Any, splits: Mapping[str, Sequence[Labelled]]) -> dict[str, float]:
    """The figures of a classifier beside those of the rules, on held-out tasks (on the train tasks where there are none)."""
    known = splits.get("test") or splits["train"]
    scores = np.array(
        [classifier.probability(e.observed.query, e.tool, e.observed.arguments, e.observed.text) for e in known], np.float64
    )
    labels = [e.helpful for e in known]
    return {
        "train_examples": float(len(splits["train"])),
        "examples": float(len(known)),
        "helpful_share": sum(labels) / len(labels),
        "auc": area_under_curve(scores, labels),
        **measure(classifier, known),
        **{f"rules_{name}": value for name, value in measure(RuleBased(), known).items()},
    }


def _own(run: Path, about: dict[str, Any]) -> None:
    path = run / "config.json"
    wanted = json.dumps({"format": "costgym.usefulness-run/1", "numbers": list(NUMBERS), **about}, indent=1) + "\n"
    if path.exists():
        if path.read_text(encoding="utf-8") != wanted:
            raise ConfigError("--out", f"{run} belongs to another run; choose another folder")
    elif any(not entry.name.startswith(".") for entry in run.iterdir()):
        raise ConfigError("--out", f"{run} holds other files; choose an empty folder")
    write_atomically(path, wanted)

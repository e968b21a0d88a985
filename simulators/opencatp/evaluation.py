"""What a plan is worth on a sample: its score from the outcome table, its price and time from the profile.

A plan answers with its sinks. A wanted image is the last image among them, in the order written; in a sequential task the
wanted text is the last text, in a non-sequential one the last that goes back to the reader of that kind (the caption to
`image_captioning`, and so on). What is wanted and missing scores 0; the score of a plan is the plain mean over what is wanted.

Each tool works on the artefact of its last listed dependency. All tools of a plan cost what they cost at the size level of the
sample's image.

Source: CATP-LLM, section 3 and appendix B. Missing outputs score 0 as the paper says; its code lets one branch overwrite
another's image, which is not followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

from ..errors import ConfigError, UnknownName
from ..plan import Plan
from ..quality import MAX_PRICE_USD, quality_of_plan
from .levels import LEVELS
from .profile import Profile, load_profile
from .table import OutcomeTable
from .tasks import OpenCATPTask, Output
from .tools import IMAGE_TOOLS, OUTPUT_OF_READER, SIGNATURES

_REMEMBERED = 1 << 16
TRAIN_SHARE = 0.6

# The straight way to each output from the restored image; tables hold its score ready.
_READER = {kind: reader for reader, kind in OUTPUT_OF_READER.items()}
_DIRECT: dict[str, tuple[str, ...]] = {"image": ()}
_DIRECT |= {kind: (reader,) for kind, reader in _READER.items()}
_DIRECT |= {f"{kind}_de": (reader, "machine_translation") for kind, reader in _READER.items()}


class ScoreSource(Protocol):
    """Scores of executed tool chains; `OutcomeTable` is one."""

    @property
    def samples(self) -> int:
        """How many samples there are, numbered from 0."""
        ...

    def score(self, degradation: int, sample: int, chain: Sequence[str], output: str) -> float:
        """Score of the image after a chain of restorers, or of the text that is read from it straight (see `Output.name`)."""
        ...

    def text_score(self, degradation: int, sample: int, chain: Sequence[str], route: Sequence[str], wanted: str) -> float:
        """Score of the text that a reader and the text tools after it (`route`) make of that image."""
        ...


class PlanOutcome(NamedTuple):
    """What a plan came to: task score, price (USD), time when branches run at once (seconds), Quality of Plan."""

    score: float
    price: float
    seconds: float
    quality: float


@dataclass(frozen=True, slots=True)
class _Sink:
    """An output of a plan: the restorers it went through, and the reader and text tools after them (none for an image)."""

    chain: tuple[str, ...]
    route: tuple[str, ...]


@lru_cache(maxsize=4)
def shipped_outcomes(path: str | None = None) -> OutcomeTable:
    """The outcome table, read once; the shipped one where no path is given."""
    return OutcomeTable.load(path)


def sample_level(task: OpenCATPTask, sample: int) -> int:
    """The size level at which a sample is given: the four levels in turn, shifted from task to task.

    The scenes are generated and have no size of their own; a level changes what tools cost, not what they make of the image.
    Every task meets every level equally often, and a scene has different sizes in different tasks.
    """
    return (sample + task.task_id) % LEVELS


def split_samples(samples: int, split: str) -> range:
    """The samples of a split: the first 60 in 100 train, the rest test."""
    if split not in ("train", "test"):
        raise ConfigError("split", f"expected train or test, got {split!r}")
    first_test = max(1, min(samples - 1, round(samples * TRAIN_SHARE)))
    return range(first_test) if split == "train" else range(first_test, samples)


class Evaluator:
    """Evaluates plans from a table: a look-up per output, with prices and times remembered by plan and level.

    Args:
        scores: Where scores come from; None: the shipped outcome table.
        profile: What tools cost: a profile, or the name or the file of one.
        alpha: Weight of the score in the Quality of Plan.
        max_price: Price that weighs as much as a full score, USD.

    Raises:
        DataError, UnknownName: there is no such table or profile.
    """

    def __init__(
        self,
        scores: ScoreSource | None = None,
        profile: Profile | str | Path = "v100",
        alpha: float = 0.5,
        max_price: float = MAX_PRICE_USD,
    ) -> None:
        self.scores: ScoreSource = shipped_outcomes() if scores is None else scores
        self.profile = profile if isinstance(profile, Profile) else load_profile(profile)
        quality_of_plan(0.0, 0.0, alpha, max_price)
        self.alpha, self.max_price = alpha, max_price
        self._sinks: dict[Plan, tuple[_Sink, ...]] = {}
        self._costs: dict[tuple[Plan, int], tuple[float, float]] = {}

    def evaluate(self, plan: Plan, task: OpenCATPTask, sample: int, level: int | None = None) -> PlanOutcome:
        """What a plan comes to.

        Args:
            level: Size level; None: the sample's own (:func:`sample_level`).

        Raises:
            InvalidPlan: a tool is unknown or reads what it cannot.
            UnknownName: no such sample.
        """
        score = self.score(plan, task, sample)
        price, seconds = self.cost(plan, sample_level(task, sample) if level is None else level)
        return PlanOutcome(score, price, seconds, self.alpha * score - (1.0 - self.alpha) * price / self.max_price)

    def score(self, plan: Plan, task: OpenCATPTask, sample: int) -> float:
        """Task score of a plan on a sample: the mean over what is wanted."""
        sinks = self._sinks.get(plan)
        if sinks is None:
            sinks = self._read(plan)
        total = 0.0
        for want in task.wants:
            sink = _answer(want, sinks, task.kind == "sequential")
            if sink is None:
                continue
            if sink.route == _DIRECT[want.name]:
                total += self.scores.score(task.combination, sample, sink.chain, want.name)
            else:
                total += self.scores.text_score(task.combination, sample, sink.chain, sink.route, want.name)
        return total / len(task.wants)

    def missing(self, plan: Plan, task: OpenCATPTask) -> tuple[Output, ...]:
        """What is wanted and not among the plan's outputs."""
        sinks = self._sinks.get(plan) or self._read(plan)
        return tuple(want for want in task.wants if _answer(want, sinks, task.kind == "sequential") is None)

    def cost(self, plan: Plan, level: int) -> tuple[float, float]:
        """Price (USD) and time (seconds, branches at once) of a plan at a size level."""
        key = (plan, level)
        found = self._costs.get(key)
        if found is None:
            if plan not in self._sinks:
                self._read(plan)
            if len(self._costs) >= _REMEMBERED:
                self._costs.clear()
            found = self._costs[key] = (self.profile.plan_price(plan, level), self.profile.plan_seconds(plan, level))
        return found

    def _read(self, plan: Plan) -> tuple[_Sink, ...]:
        plan.check_types(SIGNATURES)
        if len(self._sinks) >= _REMEMBERED:
            self._sinks.clear()
        chains = plan.chains()
        sinks = []
        for tool in plan.sinks:
            chain = chains[tool]
            restorers = sum(each in IMAGE_TOOLS for each in chain)
            sinks.append(_Sink(chain[:restorers], chain[restorers:]))
        found = self._sinks[plan] = tuple(sinks)
        return found


def _answer(want: Output, sinks: tuple[_Sink, ...], any_text: bool) -> _Sink | None:
    for sink in reversed(sinks):
        if want.is_image:
            if not sink.route:
                return sink
        elif sink.route and (any_text or OUTPUT_OF_READER[sink.route[0]] == want.kind):
            return sink
    return None


@lru_cache(maxsize=8)
def _evaluator(profile: str, alpha: float) -> Evaluator:
    return Evaluator(None, profile, alpha)


def evaluate_plan(
    plan: Plan,
    task: OpenCATPTask,
    sample: int,
    level: int | None = None,
    *,
    alpha: float = 0.5,
    profile: str = "v100",
    scores: ScoreSource | None = None,
) -> PlanOutcome:
    """What a plan comes to on a sample, from the shipped table; see :class:`Evaluator`.

    >>> from costgym.simulators.opencatp import task
    >>> plan = Plan.from_list(["image_denoising", ["input_of_query"], "image_captioning", ["image_denoising"]])
    >>> evaluate_plan(plan, task(24), sample=0).price > 0
    True
    """
    evaluator = _evaluator(profile, alpha) if scores is None else Evaluator(scores, profile, alpha)
    return evaluator.evaluate(plan, task, sample, level)


def check_sample(scores: ScoreSource, sample: int) -> int:
    """A sample number that there is.

    Raises:
        UnknownName: it is not.
    """
    if isinstance(sample, bool) or not isinstance(sample, int) or not 0 <= sample < scores.samples:
        raise UnknownName("sample", str(sample), (f"0..{scores.samples - 1}",))
    return sample

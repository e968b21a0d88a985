"""Evaluate a plan on a sample: its score from the outcome table, its price and time from the profile.

A plan answers with its sinks. A wanted image is the last image among them, in the order written; in a sequential task the
wanted text is the last text, in a non-sequential one the last that goes back to the reader of that kind (the caption to
`image_captioning`, and so on). What is wanted and missing scores 0; the score of a plan is the plain mean over what is wanted.

Each tool works on the artefact of its last listed dependency. All tools of a plan cost what they cost at the size level of the
sample's image.

Source: CATP-LLM, section 3 and appendix B. Missing outputs score 0 as the paper says; its code lets one branch overwrite
another's image, which is not followed.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from costgym.simulators.errors import ConfigError, UnknownName
from costgym.simulators.opencatp.profile import Profile, load_profile, read_profile
from costgym.simulators.opencatp.scoring.table import OutcomeTable
from costgym.simulators.opencatp.tasks import OpenCATPTask, Output
from costgym.simulators.opencatp.tools import IMAGE, IMAGE_TOOLS, LEVELS, OUTPUT_OF_READER, READER_OF, SIGNATURES
from costgym.simulators.plan import TASK_INPUT, Plan
from costgym.simulators.quality import MAX_PRICE_USD, quality_of_plan
from costgym.simulators.tools import Same

_REMEMBERED = 1 << 16
TRAIN_SHARE = 0.6

# The straight way to each output from the restored image; tables hold its score ready.
_DIRECT: dict[str, tuple[str, ...]] = {"image": ()}
_DIRECT |= {kind: (reader,) for kind, reader in READER_OF.items()}
_DIRECT |= {f"{kind}_de": (reader, "machine_translation") for kind, reader in READER_OF.items()}


_TAKES = {tool: signature.takes for tool, signature in SIGNATURES.items()}
_GIVES = {TASK_INPUT: IMAGE} | {tool: signature.gives for tool, signature in SIGNATURES.items()}


class ScoreSource(Protocol):
    """Scores of executed tool chains; `OutcomeTable` is one."""

    @property
    def samples(self) -> int:
        """Return the number of samples; they are numbered from 0."""
        ...

    def score(self, degradation: int, sample: int, chain: Sequence[str], output: str) -> float:
        """Score of the image after a chain of restorers, or of the text that is read from it straight (see `Output.name`)."""
        ...

    def text_score(self, degradation: int, sample: int, chain: Sequence[str], route: Sequence[str], wanted: str) -> float:
        """Score of the text that a reader and the text tools after it (`route`) make of that image."""
        ...


class PlanOutcome(NamedTuple):
    """The outcome of a plan: task score, price (USD), time when branches run at once (seconds), Quality of Plan."""

    score: float
    price: float
    seconds: float
    quality: float


class _Sink:
    """Something made from the task's image: its `chain` of restorers, then the `route` through a reader and text tools.

    All plans share these objects, which know what each further tool makes of them: plans are read by walking from one to the
    next, and reading many makes little for the garbage collector to look through.
    """

    __slots__ = ("_after", "chain", "kind", "route")

    def __init__(self, chain: tuple[str, ...], route: tuple[str, ...]) -> None:
        self.chain, self.route = chain, route
        self.kind = OUTPUT_OF_READER[route[0]] if route else IMAGE
        self._after: dict[str, _Sink] = {}

    def after(self, tool: str) -> "_Sink":
        """Return the artefact that a tool makes of this one."""
        following = self._after.get(tool)
        if following is None:
            image = tool in IMAGE_TOOLS
            following = _Sink((*self.chain, tool), ()) if image else _Sink(self.chain, (*self.route, tool))
            self._after[tool] = following
        return following


_GIVEN = _Sink((), ())


class _Known(NamedTuple):
    """A plan that was read."""

    sinks: tuple[_Sink, ...]  # its outputs
    costs: dict[int, tuple[float, float]]  # its price and time by size level, as far as asked for


@lru_cache(maxsize=16)
def shipped_outcomes(path: str | None = None, arrangement: int = 0) -> OutcomeTable:
    """The outcome table, read once; the shipped one where no path is given. See `OutcomeTable.arranged`."""
    return shipped_outcomes(path).arranged(arrangement) if arrangement else OutcomeTable.load(path)


def sample_level(task: OpenCATPTask, sample: int) -> int:
    """The size level at which a sample is given: the four levels in turn, shifted from task to task.

    The scenes are generated and have no size of their own; a level changes what tools cost, not what they make of the image.
    Every task meets every level equally often, and a scene has different sizes in different tasks. Photos have a size of their
    own; `Evaluator.level` returns the level of either.
    """
    return (sample + task.task_id) % LEVELS


def split_samples(samples: int, split: str) -> range:
    """The samples of a split: the first 60 in 100 train, the rest test."""
    if split not in ("train", "test"):
        raise ConfigError("split", f"expected train or test, got {split!r}")
    # neither split is empty, however few samples there are
    first_test = max(1, min(samples - 1, round(samples * TRAIN_SHARE)))
    return range(first_test) if split == "train" else range(first_test, samples)


class Evaluator:
    """Evaluates plans from a table: a look-up per output, with prices and times remembered by plan and level.

    Args:
        scores: Source of the scores; None for the shipped outcome table.
        profile: Costs of the tools: a profile, the name or the file of one, or the content of such a file.
        alpha: Weight of the score in the Quality of Plan.
        max_price: Price that weighs as much as a full score, USD.

    Raises:
        DataError, UnknownName: There is no such table or profile.
    """

    def __init__(
        self,
        scores: ScoreSource | None = None,
        profile: Profile | str | Path | Mapping[str, Any] = "v100",
        alpha: float = 0.5,
        max_price: float = MAX_PRICE_USD,
    ) -> None:
        self.scores: ScoreSource = shipped_outcomes() if scores is None else scores
        if isinstance(profile, Mapping):
            profile = read_profile(profile)
        self.profile = profile if isinstance(profile, Profile) else load_profile(profile)
        quality_of_plan(0.0, 0.0, alpha, max_price)
        self.alpha, self.max_price = alpha, max_price
        self._known: dict[Plan, _Known] = {}
        self._levels: tuple[int, ...] | None = getattr(self.scores, "levels", None)

    def evaluate(self, plan: Plan, task: OpenCATPTask, sample: int, level: int | None = None) -> PlanOutcome:
        """Evaluate a plan on a sample.

        Args:
            level: Size level; None: the sample's own.

        Raises:
            InvalidPlan: A tool is unknown or reads what it cannot.
            UnknownName: No such sample.
        """
        known = self._known.get(plan) or self._read(plan)
        score = self._score(known.sinks, task, sample)
        price, seconds = self._cost(known, plan, self.level(task, sample) if level is None else level)
        return PlanOutcome(score, price, seconds, self.alpha * score - (1.0 - self.alpha) * price / self.max_price)

    def level(self, task: OpenCATPTask, sample: int) -> int:
        """The size level at which a sample is given: that of its photo, or of `sample_level` for a scene."""
        levels = self._levels
        return sample_level(task, sample) if levels is None else levels[sample]

    def score(self, plan: Plan, task: OpenCATPTask, sample: int) -> float:
        """Task score of a plan on a sample: the mean over what is wanted."""
        return self._score((self._known.get(plan) or self._read(plan)).sinks, task, sample)

    def missing(self, plan: Plan, task: OpenCATPTask) -> tuple[Output, ...]:
        """Return the wanted outputs that the plan does not make."""
        return tuple(want for want, tool in self.answers(plan, task) if tool is None)

    def answers(self, plan: Plan, task: OpenCATPTask) -> tuple[tuple[Output, str | None], ...]:
        """Return each wanted output with the tool of the plan whose output answers it; None where the plan makes none."""
        sinks = (self._known.get(plan) or self._read(plan)).sinks
        answers = [(want, _answer(want, sinks, task.kind == "sequential")) for want in task.wants]
        return tuple((want, None if sink is None else (sink.route or sink.chain)[-1]) for want, sink in answers)

    def cost(self, plan: Plan, level: int) -> tuple[float, float]:
        """Price (USD) and time (seconds, branches at once) of a plan at a size level."""
        return self._cost(self._known.get(plan) or self._read(plan), plan, level)

    def _score(self, sinks: tuple[_Sink, ...], task: OpenCATPTask, sample: int) -> float:
        total = 0.0
        any_text = task.kind == "sequential"
        for want in task.wants:
            sink = _answer(want, sinks, any_text)
            if sink is None:
                continue
            name = want.name
            if sink.route == _DIRECT[name]:
                total += self.scores.score(task.combination, sample, sink.chain, name)
            else:
                total += self.scores.text_score(task.combination, sample, sink.chain, sink.route, name)
        return total / len(task.wants)

    def _cost(self, known: _Known, plan: Plan, level: int) -> tuple[float, float]:
        cost = known.costs.get(level)
        if cost is None:
            cost = known.costs[level] = self.profile.plan_price(plan, level), self.profile.plan_seconds(plan, level)
        return cost

    def _read(self, plan: Plan) -> _Known:
        """Types checked, and the sinks with what led to them, in one pass."""
        needed: set[str] = set()
        made = {TASK_INPUT: _GIVEN}
        for step in plan.steps:
            tool, deps = step.tool, step.deps
            takes = _TAKES.get(tool)
            for dep in deps:
                if _GIVES[dep] != takes:
                    plan.check_types(SIGNATURES)  # says what is wrong and where
            needed.update(deps)
            made[tool] = made[deps[-1]].after(tool)
        # cleared whole: a plan that returns is read again, which costs little
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        known = self._known[plan] = _Known(tuple([made[step.tool] for step in plan.steps if step.tool not in needed]), {})
        return known


def _answer(want: Output, sinks: tuple[_Sink, ...], any_text: bool) -> _Sink | None:
    wanted = want.kind
    if any_text and wanted != IMAGE:
        return next((sink for sink in reversed(sinks) if sink.route), None)
    return next((sink for sink in reversed(sinks) if sink.kind == wanted), None)


def check_sample(scores: ScoreSource, sample: int) -> int:
    """A sample number that there is."""
    if isinstance(sample, bool) or not isinstance(sample, int) or not 0 <= sample < scores.samples:
        raise UnknownName("sample", str(sample), (f"0..{scores.samples - 1}",))
    return sample


class KnownScores:
    """The scores of a table on the first `samples`, its train split; of the others it knows nothing."""

    def __init__(self, source: ScoreSource) -> None:
        self._source, self.samples = source, len(split_samples(source.samples, "train"))
        levels = getattr(source, "levels", None)
        self.levels = None if levels is None else levels[: self.samples]

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent to another process: of a table nothing but what is known."""
        head = getattr(self._source, "head", None)
        return {**self.__dict__, "_source": self._source if head is None else head(self.samples)}

    def score(self, degradation: int, sample: int, chain: Any, output: str) -> float:
        """As of the table."""
        self._check(sample)
        return self._source.score(degradation, sample, chain, output)

    def text_score(self, degradation: int, sample: int, chain: Any, route: Any, wanted: str) -> float:
        """As of the table."""
        self._check(sample)
        return self._source.text_score(degradation, sample, chain, route, wanted)

    def _check(self, sample: int) -> None:
        if not 0 <= sample < self.samples:
            raise ConfigError("sample", f"expected one of the train split, 0 to {self.samples - 1}, got {sample}")


@lru_cache(maxsize=16)
def known_evaluator(whole: Evaluator) -> Evaluator:
    """The same prices and weights over what may be known of the scores."""
    return Evaluator(_known_scores(Same(whole.scores)), whole.profile, whole.alpha, whole.max_price)


@lru_cache(maxsize=8)
def _known_scores(source: Same) -> KnownScores:
    return KnownScores(source.value)


def train_samples(evaluator: Evaluator) -> range:
    """The samples of the train split that an evaluator has."""
    scores = evaluator.scores
    return range(scores.samples) if isinstance(scores, KnownScores) else split_samples(scores.samples, "train")

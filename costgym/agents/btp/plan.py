"""Budget-constrained tool learning with planning: what a tool is worth, how often it may be used, and the best plan.

Pure functions: past uses in, a plan out. `costgym.agents.btp.access` plays the plan in an episode.

Source: BTP (arXiv 2402.15960). Where paper and published code differ, a setting holds the choice.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from costgym.simulators.errors import ConfigError

Rounding = Literal["floor", "half_even", "half_up", "ceil"]
Similarity = Literal["words", "minilm"]
UNCAPPED = 1000  # most uses of a tool where no use counts limit a plan
MAX_UNITS = 20_000
"""Length of the knapsack's table: a budget with a fraction, or a larger one, is scaled to about so many units."""


@dataclass(frozen=True, slots=True)
class BtpSettings:
    """Choices of BTP.

    Attributes:
        threshold: Tau; a tool whose expected value is below it is not planned.
        sharpness: Weight of a past use is exp(sharpness * (similarity - offset)); 1 in the paper, where a use in an unrelated
            query still weighs a third of one in the same; more makes the value depend more on the query.
        offset: Subtracted from the similarity; matters only beside a prior.
        prior_value, prior_weight: Pseudo-uses added to every tool: so many, worth so much.
        rounding: Rounding of the mean use count.
        unseen_cap: Cap of a tool without past uses.
        clip_unhelpful: Uses in a query in which the tool never helped count as one at most.
        count_test_queries: Use counts may come from test queries (values never do).
        blacklist: Forbid a tool at an unhelpful result.
        spare_helpful: A tool that has helped once in the episode is not blacklisted any more.
        caps: Use counts limit a plan; without them a tool is planned as often as the budget allows.
        summarise: After the search the final answer is written from all executed calls.
        similarity: What compares queries: the words they share, or the sentence encoder MiniLM (extra `minilm`).
    """

    threshold: float = 0.15
    sharpness: float = 3.0
    offset: float = 1.0
    prior_value: float = 0.1
    prior_weight: float = 1.0
    rounding: Rounding = "half_up"
    unseen_cap: int = 1
    clip_unhelpful: bool = True
    count_test_queries: bool = False
    blacklist: bool = True
    spare_helpful: bool = True
    summarise: bool = True
    caps: bool = True
    similarity: Similarity = "words"

    def __post_init__(self) -> None:
        for name in ("threshold", "sharpness", "offset", "prior_value", "prior_weight"):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0:
                raise ConfigError(f"BtpSettings.{name}", f"expected a finite number of at least 0, got {value!r}")
        if self.rounding not in _ROUND:
            raise ConfigError("BtpSettings.rounding", f"expected one of {', '.join(_ROUND)}, got {self.rounding!r}")
        if self.similarity not in get_args(Similarity):
            expected = ", ".join(get_args(Similarity))
            raise ConfigError("BtpSettings.similarity", f"expected one of {expected}, got {self.similarity!r}")
        if self.unseen_cap < 0:
            raise ConfigError("BtpSettings.unseen_cap", f"expected at least 0, got {self.unseen_cap!r}")

    @classmethod
    def published(cls, threshold: float = 0.15) -> "BtpSettings":
        """The published code's settings: caps rounded half to even, use counts of test queries kept."""
        return cls(threshold=threshold, sharpness=1.0, rounding="half_even", count_test_queries=True)

    @classmethod
    def paper(cls, threshold: float = 0.15) -> "BtpSettings":
        """The settings of the paper's formulas: no prior, exp(sim), caps rounded down, counts as they are."""
        return cls(threshold=threshold, sharpness=1.0, offset=0.0, prior_weight=0.0, rounding="floor", clip_unhelpful=False)


_ROUND: dict[str, Callable[[float], int]] = {
    "floor": math.floor,
    "half_even": round,
    "half_up": lambda mean: math.floor(mean + 0.5),
    "ceil": math.ceil,
}


Numbers = Sequence[float] | npt.NDArray[np.float64]


_DIGITS = 12
"""Decimals of a value and of a mean count. The last ones of a double depend on how a processor's libraries compute exponentials
and add, and would decide between equal values and about a mean of one half."""


def weights_of(similarities: Numbers, settings: BtpSettings) -> npt.NDArray[np.float64]:
    """Return the weights of past queries or uses, by the similarity of their queries."""
    array = np.asarray(similarities, dtype=np.float64)
    weights: npt.NDArray[np.float64] = np.exp(settings.sharpness * (array - settings.offset))
    return weights


def expected_value(similarities: Numbers, helpful: Numbers, settings: BtpSettings | None = None) -> float:
    """Return the expected helpfulness of a use of a tool.

    Args:
        similarities: Cosine of the query to the query of each past use, shape (uses,).
        helpful: 1 where that use helped, else 0, shape (uses,).
        settings: See `BtpSettings`.

    Returns:
        A share, 0 to 1. Without uses and without a prior: `prior_value`.

    Source: BTP, Section 2.2 (expected value), with the published code's prior.
    """
    settings = settings or BtpSettings()
    if len(similarities) != len(helpful):
        raise ConfigError("expected_value", f"got {len(similarities)} similarities for {len(helpful)} uses")
    return value_of(weights_of(similarities, settings), helpful, settings)


def value_of(weights: npt.NDArray[np.float64], helpful: Numbers, settings: BtpSettings) -> float:
    """Return the `expected_value` of uses whose weights are known."""
    total = float(weights.sum()) + settings.prior_weight
    if total <= 0.0:
        return settings.prior_value
    gained = float(weights @ np.asarray(helpful, dtype=np.float64)) + settings.prior_weight * settings.prior_value
    return round(gained / total, _DIGITS)


def frequency_cap(
    similarities: Numbers, counts: Numbers, value: float, settings: BtpSettings | None = None, helpful: Numbers | None = None
) -> int:
    """Return how often a tool may be planned: about as often as similar queries used it.

    Args:
        similarities: Cosine of the query to each past query that used the tool, shape (queries,).
        counts: Number of uses in each query, shape (queries,).
        value: The tool's expected value.
        settings: See `BtpSettings`.
        helpful: 1 where the tool helped in that query; with `clip_unhelpful` the counts of the others are clipped to one.
            None leaves the counts as they are.

    Source: BTP, Section 2.2 (frequency constraint); the order of the rules as in the published code.
    """
    settings = settings or BtpSettings()
    if len(similarities) != len(counts):
        raise ConfigError("frequency_cap", f"got {len(similarities)} similarities for {len(counts)} counts")
    return cap_of(weights_of(similarities, settings), counts, value, settings, helpful)


def cap_of(
    weights: npt.NDArray[np.float64], counts: Numbers, value: float, settings: BtpSettings, helpful: Numbers | None = None
) -> int:
    """Return the `frequency_cap` by queries whose weights are known."""
    if not len(counts):
        return settings.unseen_cap
    if value < settings.threshold:
        return 0
    if not settings.caps:
        return UNCAPPED
    uses = np.asarray(counts, dtype=np.float64)
    if helpful is not None and settings.clip_unhelpful:
        uses = np.where(np.asarray(helpful) > 0, uses, np.minimum(uses, 1.0))
    return int(_ROUND[settings.rounding](round(float(weights @ uses) / float(weights.sum()), _DIGITS)))


def plan_tool_usage(costs: Sequence[float], values: Sequence[float], frequency_caps: Sequence[int], budget: float) -> list[int]:
    """Return the most valuable plan within a budget: how often to use each tool.

    A bounded knapsack by dynamic programming. Of equally valuable plans it takes the cheapest, and among those prefers not
    to take a later tool. Whole costs are planned exactly; real ones are scaled to whole units first, costs rounded up and
    the budget down, so a plan never exceeds its budget.

    Args:
        costs: Price of one use, shape (tools,); infinite for a tool that cannot be had.
        values: Value of one use, shape (tools,).
        frequency_caps: Most uses, shape (tools,).
        budget: Most that all uses may cost together; at or below 0 only uses that cost nothing are planned.

    Returns:
        Uses of each tool, shape (tools,).

    Raises:
        ConfigError: Lengths differ, a cost or a cap is negative, or a number is NaN.

    Source: BTP, Algorithm 1 and Appendix A.1.
    """
    return list(_best_plan(tuple(costs), tuple(values), tuple(frequency_caps), budget))


@lru_cache(maxsize=4096)  # agents of one experience plan the same tasks within the same budgets
def _best_plan(
    costs: tuple[float, ...], values: tuple[float, ...], frequency_caps: tuple[int, ...], budget: float
) -> Sequence[int]:
    count = len(costs)
    if len(values) != count or len(frequency_caps) != count:
        raise ConfigError(
            "plan_tool_usage",
            f"got {count} costs, {len(values)} values and {len(frequency_caps)} caps; expected as many of each",
        )
    limits = (
        ("cost", costs, 0.0),
        ("value", values, -math.inf),
        ("cap", frequency_caps, 0.0),
        ("budget", (budget,), -math.inf),
    )
    for name, numbers, least in limits:
        for number in numbers:
            if not number >= least:  # NaN is not, either
                raise ConfigError("plan_tool_usage", f"{name}: expected a number of at least 0, got {number!r}")
    if budget < 0:
        return [0] * count
    within = [cost <= budget and value > 0.0 for cost, value in zip(costs, values, strict=True)]
    most = sum(cost * cap for cost, cap, fits in zip(costs, frequency_caps, within, strict=True) if fits)
    if most <= budget:
        return [int(cap) if fits else 0 for cap, fits in zip(frequency_caps, within, strict=True)]
    # Uses of a tool are taken one at a time, as items of a 0/1 knapsack. `taken` remembers for every item where it improved the
    # table, which is enough to read the plan back without a table of two dimensions.
    units, size = _whole_units(costs, budget)
    plan = [0] * count
    best = np.zeros(size + 1)  # best[j]: value of the best plan of the items so far within j units
    taken: list[tuple[int, np.ndarray]] = []
    for tool in range(count):
        cost, value = units[tool], float(values[tool])
        if cost > size or value <= 0.0:
            continue
        rest = best[cost:]
        most = int(min(frequency_caps[tool], size // cost if cost else frequency_caps[tool]))
        for number in range(1, most + 1):
            with_it = best[: size + 1 - cost] + value
            # "greater" and not "at least": of equally valuable plans the one without a later tool is kept
            better = with_it > rest
            np.maximum(with_it, rest, out=rest)
            taken.append((tool, better))
            if number < most and not better.any():
                break  # one more use would not help either
    left = int(np.argmax(best))  # the smallest budget that reaches the maximum
    for tool, better in reversed(taken):
        if left >= units[tool] and better[left - units[tool]]:
            plan[tool] += 1
            left -= units[tool]
    return plan


def _whole_units(costs: Sequence[float], budget: float) -> tuple[list[int], int]:
    """Return the costs and budget as whole units; a cost beyond the budget becomes more than the budget."""
    whole = budget <= MAX_UNITS and all(float(cost).is_integer() for cost in costs if cost <= budget)
    scale = 1.0 if whole else MAX_UNITS / budget
    # a cost that lies on a unit but for rounding noise stays on it; the noise is far below any price
    size = math.floor(budget * scale + 1e-9)
    return [math.ceil(cost * scale - 1e-9) if cost <= budget else size + 1 for cost in costs], size

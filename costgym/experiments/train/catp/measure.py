"""Evaluate plans by mean Quality of Plan over tasks and samples, as in the paper's tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from costgym.simulators.opencatp.scoring.evaluation import Evaluator, split_samples
from costgym.simulators.opencatp.tasks import OpenCATPTask
from costgym.simulators.plan import Plan
from costgym.simulators.quality import INVALID_PLAN_REWARD

PlanOf = Callable[[OpenCATPTask, int, int], Plan | None]
"""Function from task, sample and size level to a plan, or to None if no valid plan was written."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Mean metrics over all tasks and samples."""

    quality: float  # Quality of Plan; an invalid plan counts as -0.5, the published penalty
    score: float  # of valid plans, as are price and seconds
    price_usd: float
    seconds: float
    valid: float  # share of valid plans
    plans: int  # number of plans, valid or not


def measure(plan_of: PlanOf, tasks: Sequence[OpenCATPTask], split: str, evaluator: Evaluator) -> Figures:
    """Evaluate a plan for every task and every sample of a split, at the sample's size level."""
    quality = score = price = seconds = 0.0
    valid = count = 0
    for task in tasks:
        for sample in split_samples(evaluator.scores.samples, split):
            level = evaluator.level(task, sample)
            plan = plan_of(task, sample, level)
            count += 1
            if plan is None:
                quality += INVALID_PLAN_REWARD
                continue
            outcome = evaluator.evaluate(plan, task, sample, level)
            quality, score = quality + outcome.quality, score + outcome.score
            price, seconds, valid = price + outcome.price, seconds + outcome.seconds, valid + 1
    return Figures(quality / count, score / count, price / count, seconds / count, valid / count, count)

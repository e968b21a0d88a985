"""Train on plan pools: recorded plans are the training data, and metrics are measured on held-out plans.

Pools do not contain input sizes. The size level of a sample is the level whose measured prices are nearest to the prices of its
recorded runs. From each return, the best recorded return for the same task and sample is subtracted, because the best possible
return differs between images.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from costgym.agents.catp.decoding import episode_logs, write_plans
from costgym.agents.catp.planner import price_table
from costgym.agents.catp.policy import CatpPolicy
from costgym.agents.catp.sequences import Record, allowed_bits
from costgym.agents.catp.settings import CatpSettings
from costgym.envs.tpl import kind_of
from costgym.experiments.train.catp.dataset import ExecutedPlan, choices_of
from costgym.experiments.train.catp.learning import OfflineLearner
from costgym.simulators.draws import stable_generator
from costgym.simulators.errors import DataError, UnknownName
from costgym.simulators.opencatp.pools import PoolPlan, load_pool
from costgym.simulators.opencatp.profile import Profile
from costgym.simulators.opencatp.scoring.evaluation import Evaluator
from costgym.simulators.opencatp.tasks import task as find_task
from costgym.simulators.opencatp.tools import LEVELS, TOOLS

HELD_OUT_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class PoolData:
    """Recorded plans; no (task, sample) pair is in both parts."""

    train: tuple[ExecutedPlan, ...]
    held_out: tuple[ExecutedPlan, ...]
    left_out: int  # number of plans that belong to no known task or that the action masks forbid


def pool_data(paths: Sequence[str | Path], seed: int, profile: Profile, tasks: str = "all") -> PoolData:
    """Read pools as executed plans of ``sequential``, ``nonsequential`` or ``all`` tasks, and hold out a quarter of the tasks'
    samples. Raises DataError if a pool cannot be read, or there are no usable plans for training or for holding out."""
    recorded = [plan for path in paths for plan in load_pool(path)]
    by_pair: dict[tuple[int, int], list[PoolPlan]] = {}
    for plan in recorded:
        by_pair.setdefault((plan.task_id, plan.sample_id), []).append(plan)
    pairs = sorted(by_pair)
    held = {pairs[i] for i in stable_generator(seed, "held out").permutation(len(pairs))[: round(HELD_OUT_SHARE * len(pairs))]}
    sides: tuple[list[ExecutedPlan], list[ExecutedPlan]] = ([], [])
    for pair in pairs:
        level = _level(by_pair[pair], profile)
        for plan in by_pair[pair]:
            executed = _executed(plan, level, profile)
            if executed is not None and tasks in ("all", executed.task.kind):
                sides[pair in held].append(executed)
    if not sides[0] or not sides[1]:
        problem = f"expected training and held-out plans ({tasks} tasks), got {len(sides[0])} and {len(sides[1])}"
        raise DataError(", ".join(map(str, paths)), problem)
    return PoolData(tuple(sides[0]), tuple(sides[1]), len(recorded) - len(sides[0]) - len(sides[1]))


class PoolLearner(OfflineLearner):
    """Trains a policy on recorded plans and evaluates it on held-out ones; of the evaluator only the prices are used."""

    def __init__(
        self,
        policy: CatpPolicy,
        records: Sequence[Record],
        evaluator: Evaluator,
        settings: CatpSettings,
        target_return: float,
        held_out: Sequence[ExecutedPlan],
    ) -> None:
        super().__init__(policy, records, evaluator, settings, target_return)
        self.held_out = held_out

    def check(self) -> dict[str, float]:
        """Evaluate the policy on the held-out plans, by Quality of Plan with the recorded scores and prices.

        `pairs`: number of held-out (task, sample) pairs. `choice_accuracy`: share of recorded actions that are the most likely
        ones under the policy conditioned on the plan's return, counted where more than one action is legal; `choice_chance`:
        the same for a uniform choice among the legal actions. `pool_mean`, `pool_best`: mean return of the recorded plans, and
        of the best one per pair. `chosen`: mean return of the recorded plan with the highest likelihood under the policy
        conditioned on the best return. `covered`: share of pairs whose plan written by the policy is in the pool; `written`:
        mean return of those plans, omitted if there are none.
        """
        settings, policy = self.settings, self.policy
        groups: dict[tuple[int, int], list[ExecutedPlan]] = {}
        for plan in self.held_out:
            groups.setdefault((plan.task.task_id, plan.sample), []).append(plan)
        told: list[Record] = []
        asked: list[Record] = []
        for group in groups.values():
            returns = [plan.total_return(settings) for plan in group]
            told += [plan.record(settings, max(returns) if settings.centred else 0.0) for plan in group]
            # all plans are conditioned on the same target return, so that they differ in their actions alone
            asked += [plan.record(settings, earned - self.target_return) for plan, earned in zip(group, returns, strict=True)]
        policy.eval()
        right: list[bool] = []
        by_chance: list[float] = []
        for record, logs in zip(told, episode_logs(policy, told), strict=True):
            for step, guess in enumerate(logs.argmax(-1).tolist()):
                legal = allowed_bits(record, step, True).bit_count()
                if legal > 1:
                    right.append(guess == record.choices[step])
                    by_chance.append(1.0 / legal)
        paired = zip(asked, episode_logs(policy, asked), strict=True)
        likelihoods = (float(logs[range(len(record.choices)), record.choices].sum()) for record, logs in paired)
        mean, best, chosen, written = [], [], [], []
        situations = [(group[0].task, group[0].level) for group in groups.values()]
        plans = write_plans(policy, situations, price_table(self.evaluator), self.target_return)
        for group, proposals in zip(groups.values(), plans, strict=True):
            worth = [plan.quality(settings.alpha) for plan in group]
            mean += worth
            best.append(max(worth))
            chosen.append(worth[int(np.argmax([next(likelihoods) for _ in group]))])
            written += [q for plan, q in zip(group, worth, strict=True) if list(plan.choices) == proposals.record.choices][:1]
        scores = {
            "pairs": float(len(groups)),
            "choice_accuracy": sum(right) / max(1, len(right)),
            "choice_chance": sum(by_chance) / max(1, len(right)),
            "pool_mean": float(np.mean(mean)),
            "pool_best": float(np.mean(best)),
            "chosen": float(np.mean(chosen)),
            "covered": len(written) / len(groups),
        }
        return {**scores, "written": float(np.mean(written))} if written else scores


def _level(plans: Sequence[PoolPlan], profile: Profile) -> int:
    """Return the size level whose prices are nearest to the recorded ones, on a logarithmic scale."""
    far = [0.0] * LEVELS
    for plan in plans:
        for tool, ms in zip(plan.plan.nodes, plan.time_ms, strict=True):
            for level in range(LEVELS):
                far[level] += abs(math.log(max(ms, 1.0) / (1000.0 * profile.seconds(tool, level))))
    return int(np.argmin(far))


def _executed(plan: PoolPlan, level: int, profile: Profile) -> ExecutedPlan | None:
    try:
        task = find_task(plan.task_id)
    except UnknownName:
        return None
    choices = choices_of(plan.plan, kind_of(task))
    if choices is None:
        return None
    prices = [profile.price(tool, level) for tool in TOOLS]
    runs = zip(plan.plan.nodes, plan.time_ms, plan.cpu_inst_mb, plan.gpu_inst_mb, strict=True)
    for tool, ms, cpu, gpu in runs:
        cost = profile.tools[tool]
        prices[TOOLS.index(tool)] = profile.pricing.price(ms, cost.cpu_cons_mb, cpu, cost.gpu_cons_mb, gpu)
    return ExecutedPlan(task, level, choices, plan.task_score, tuple(prices), plan.sample_id)

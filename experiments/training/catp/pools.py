"""Learning from the official plan pools: recorded plans as training data, and how well what was held out is met.

The pools name no input sizes. The size level of a sample is taken to be the one whose measured prices lie nearest to those of
its recorded runs. Returns are told less the best one recorded for the same task and sample, because images differ in how well
they can be solved at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ....agents.catp.planner import CatpPlanner
from ....agents.catp.sequences import Record, allowed_bits, batch_of
from ....envs.tpl import kind_of
from ....simulators.draws import stable_generator
from ....simulators.errors import DataError, UnknownName
from ....simulators.opencatp.levels import LEVELS
from ....simulators.opencatp.pools import PoolPlan, load_pool
from ....simulators.opencatp.profile import Profile, v100
from ....simulators.opencatp.tasks import task as find_task
from ....simulators.opencatp.tools import TOOLS
from .dataset import ExecutedPlan, choices_of

if TYPE_CHECKING:
    from ....agents.catp.policy import CatpPolicy

HELD_OUT_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class PoolData:
    """A pool, split by task and sample.

    Attributes:
        train, held_out: plans to learn from and plans kept apart; no (task, sample) is in both.
        left_out: plans that are of no known task, or that the masks do not admit.
    """

    train: tuple[ExecutedPlan, ...]
    held_out: tuple[ExecutedPlan, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """How a policy meets what was held out. Returns are Quality of Plan with the recorded scores and prices.

    Attributes:
        accuracy: share of recorded choices that the policy, told the plan's return, finds most likely; only where there
            was more than one legal choice.
        chance: the same for drawing among the legal choices.
        pool_mean, pool_best: mean return of the recorded plans, and of the best plan for each task and sample.
        chosen: return of the recorded plan that the policy, asked for the best, finds most likely for each task and sample.
        written: return of the plans it writes, where that plan was recorded for the task and sample; else not counted.
        covered: share of tasks and samples where it was.
        pairs: how many tasks and samples were held out.
    """

    accuracy: float
    chance: float
    pool_mean: float
    pool_best: float
    chosen: float
    written: float
    covered: float
    pairs: int


def pool_data(paths: Sequence[str | Path], seed: int = 0, profile: Profile | None = None) -> PoolData:
    """Reads pools as executed plans, a quarter of the tasks' samples held out.

    Raises:
        DataError: a pool cannot be read, or none of its plans can be learnt from.
    """
    machine = v100() if profile is None else profile
    recorded = [plan for path in paths for plan in load_pool(path)]
    by_pair: dict[tuple[int, int], list[PoolPlan]] = {}
    for plan in recorded:
        by_pair.setdefault((plan.task_id, plan.sample_id), []).append(plan)
    pairs = sorted(by_pair)
    held = {pairs[i] for i in stable_generator(seed, "held out").permutation(len(pairs))[: round(HELD_OUT_SHARE * len(pairs))]}
    sides: tuple[list[ExecutedPlan], list[ExecutedPlan]] = ([], [])
    for pair in pairs:
        level = _level(by_pair[pair], machine)
        for plan in by_pair[pair]:
            found = _executed(plan, level, machine)
            if found is not None:
                sides[pair in held].append(found)
    if not sides[0]:
        raise DataError(", ".join(map(str, paths)), "no plan in it can be learnt from")
    return PoolData(tuple(sides[0]), tuple(sides[1]), len(recorded) - len(sides[0]) - len(sides[1]))


def pool_figures(planner: CatpPlanner, data: PoolData, profile: Profile | None = None) -> PoolFigures:
    """Holds a trained policy to the plans kept apart.

    Raises:
        DataError: none were.
    """
    if not data.held_out:
        raise DataError("pool", "no plans were held out; the pool is too small")
    from ....agents.catp.decoding import write_plans

    policy, settings, machine = planner.policy, planner.settings, v100() if profile is None else profile
    groups: dict[tuple[int, int], list[ExecutedPlan]] = {}
    for plan in data.held_out:
        groups.setdefault((plan.task.task_id, plan.sample), []).append(plan)
    right, total, by_chance, covered = 0, 0, 0.0, 0
    qualities: list[float] = []
    best: list[float] = []
    chosen: list[float] = []
    written: list[float] = []
    prices = [[machine.price(tool, level) for tool in TOOLS] for level in range(LEVELS)]
    asked = write_plans(policy, [(group[0].task, group[0].level) for group in groups.values()], prices, planner.target_return)
    for group, own in zip(groups.values(), asked, strict=True):
        worth = [plan.quality(settings.alpha) for plan in group]
        qualities += worth
        best.append(max(worth))
        for plan in group:
            record = plan.record(settings.alpha, settings.intermediate_feedback, max(worth) if settings.centred else 0.0)
            for step, guess in enumerate(_log_probabilities(policy, record).argmax(-1).tolist()):
                legal = allowed_bits(record, step, True).bit_count()
                if legal > 1:
                    total += 1
                    right += guess == record.choices[step]
                    by_chance += 1.0 / legal
        likelihood = []
        for plan, quality in zip(group, worth, strict=True):
            # Each plan is told as if it were what was asked for, so that they differ in their choices alone.
            record = plan.record(settings.alpha, settings.intermediate_feedback, quality - planner.target_return)
            logs = _log_probabilities(policy, record)
            likelihood.append(float(logs[range(len(record.choices)), record.choices].sum()))
        chosen.append(worth[int(np.argmax(likelihood))])
        same = [quality for plan, quality in zip(group, worth, strict=True) if list(plan.choices) == own.record.choices]
        covered += bool(same)
        written += same[:1]
    return PoolFigures(
        right / max(1, total),
        by_chance / max(1, total),
        float(np.mean(qualities)),
        float(np.mean(best)),
        float(np.mean(chosen)),
        float(np.mean(written)) if written else float("nan"),
        covered / len(groups),
        len(groups),
    )


def _log_probabilities(policy: CatpPolicy, record: Record) -> Any:
    """Of every choice at every step of an episode, seen through the policy's window.  # (T, N_ACTIONS)"""
    import torch

    settings, steps = policy.settings, len(record.choices)
    windows = [(max(0, step - settings.window + 1), step) for step in range(steps)]
    batch = batch_of([record] * steps, windows, settings.mask, settings.conditioned, settings.size_words)
    policy.eval()
    with torch.no_grad():
        logs = policy.log_probabilities(batch)
    return logs[torch.arange(steps), torch.tensor([step - first for first, step in windows])].cpu()


def _level(plans: Sequence[PoolPlan], profile: Profile) -> int:
    """The size level whose prices lie nearest to those recorded, on a logarithmic scale."""
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

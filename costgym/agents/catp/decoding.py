"""Writing plans with a policy, many at once, under the masks of the planning language.

The return asked for is updated as the plan is written: what a tool costs is taken from what is still to come.

Source: CATP-LLM, section 3.2.2 (inference with a target return).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from costgym.agents.catp.policy import CatpPolicy
from costgym.agents.catp.sequences import Record, batch_of, begin, charge_of, extend
from costgym.envs.tpl import END, TplState, kind_of
from costgym.simulators.opencatp.tasks import OpenCATPTask
from costgym.simulators.plan import Plan

_TOGETHER = 16  # episodes whose steps are read together


@dataclass(frozen=True, slots=True)
class Written:
    """The plan that a policy wrote, with its probabilities."""

    plan: Plan | None  # the plan; None where it chose what the masks forbid (only without them)
    record: Record  # its choices, the states they were made in, and the returns told


def write_plans(
    policy: CatpPolicy,
    situations: Sequence[tuple[OpenCATPTask, int]],
    prices: Sequence[Sequence[float]],
    target_return: float = 0.0,
    chance: np.random.Generator | None = None,
) -> list[Written]:
    """A plan for each task and size level; `prices` in USD (LEVELS, 10). Without `chance` the likeliest choices are taken."""
    settings = policy.settings
    states = [TplState(kind_of(task)) for task, _ in situations]
    records = [begin(task, level, state, target_return) for (task, level), state in zip(situations, states, strict=True)]
    finished: dict[int, Written] = {}
    so_far = [0.0] * len(records)
    writing = list(range(len(records)))
    policy.eval()
    while writing:
        chosen = _next_choices(policy, [records[i] for i in writing], chance)
        for i, choice in zip(writing, chosen, strict=True):
            record, state = records[i], states[i]
            if not state.legal >> choice & 1:
                record.choices.append(choice)
                finished[i] = Written(None, record)
                continue
            state.push(choice)
            charge = charge_of(choice, prices[record.level], settings.alpha) if settings.intermediate_feedback else 0.0
            so_far[i] += charge
            charged = so_far[i] if settings.cumulative and settings.intermediate_feedback else charge
            left = record.returns[-1] if settings.constant_target else (record.returns[-1] + charged) / settings.gamma
            extend(record, choice, state, left)
            if choice == END:
                finished[i] = Written(state.plan(), record)
        writing = [i for i in writing if i not in finished]
    return [finished[i] for i in range(len(records))]


def step_logs(policy: CatpPolicy, records: Sequence[Record], steps: Sequence[int]) -> Any:
    """The log-probability of every action at one step of each record, (records, N_ACTIONS), within the policy's window."""
    settings = policy.settings
    windows = [(max(0, step - settings.window + 1), step) for step in steps]
    batch = batch_of(records, windows, settings)
    with torch.no_grad():
        logs = policy.log_probabilities(batch)
    return logs[torch.arange(len(records)), torch.tensor([step - first for first, step in windows])]


def episode_logs(policy: CatpPolicy, records: Sequence[Record]) -> Iterator[Any]:
    """The log-probability of every action at every step of finished episodes, each (T, N_ACTIONS), within the policy's window.
    All steps of the first window are read in one row, since the model is causal."""
    window = policy.settings.window
    for start in range(0, len(records), _TOGETHER):
        chosen = records[start : start + _TOGETHER]
        wholes = [min(len(record.choices), window) for record in chosen]
        lasts = [(whole - 1, *range(whole, len(record.choices))) for record, whole in zip(chosen, wholes, strict=True)]
        rows = [record for record, ends in zip(chosen, lasts, strict=True) for _ in ends]
        windows = [(max(0, last - window + 1), last) for ends in lasts for last in ends]
        with torch.no_grad():
            logs = policy.log_probabilities(batch_of(rows, windows, policy.settings))
        row = 0
        for ends, whole in zip(lasts, wholes, strict=True):
            later = logs[row + 1 : row + len(ends), whole - 1]
            yield torch.cat([logs[row, :whole], later])
            row += len(ends)


def _next_choices(policy: CatpPolicy, records: Sequence[Record], chance: np.random.Generator | None) -> list[int]:
    final = step_logs(policy, records, [len(record.choices) for record in records]).double().cpu().numpy()  # (B, N_ACTIONS)
    if chance is None:
        return [int(choice) for choice in final.argmax(axis=1)]
    weights = np.exp(final - final.max(axis=1, keepdims=True))
    edges = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    draws = chance.random(len(records))
    # The last allowed choice takes what rounding leaves above the last edge.
    top = np.array([int(np.flatnonzero(row > 0)[-1]) for row in weights])
    return [int(min(np.searchsorted(row, draw, side="right"), most)) for row, draw, most in zip(edges, draws, top, strict=True)]

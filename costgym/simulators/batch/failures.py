"""`failures`, compiled: how a call of a batched episode fails, and when the platform is down."""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from typing import Any

import numpy as np

from costgym.simulators.batch.rng import inlined, log, uniforms


@inlined
def pick(tables: Any, task: Any, luck: float) -> int:
    """The way to fail, in the world of a task, whose cumulative weight first exceeds the luck."""
    kind = 0
    while luck >= tables.kind_edge[task, kind]:
        kind += 1
    return tables.kind_status[task, kind]


@inlined
def in_burst(tables: Any, rules: Any, state: Any, i: int, spec: Any, at: float) -> bool:
    """Return whether a call of a candidate that starts at this time falls into an outage of its own. Only the first one that
    ends later is kept."""
    if spec.outage < 0:
        return False
    e, kept = state.episodes[i], state.bursts[i, spec.outage]
    if kept.count > 0 and at < kept.before:  # the time lies before the outage that is kept, so begin again
        kept.count = 0
    if kept.count == 0:
        kept.before, kept.begin, kept.end = -np.inf, 0.0, 0.0
    while kept.count == 0 or kept.end <= at:
        slots = np.int64(tables.slot_count[e.task])
        _, _, u_gap, u_length = uniforms(e.seed, tables.number[e.task], kept.count * (slots + 1) + spec.outage_slot)
        if kept.count > 0:
            kept.before = kept.end
        else:
            u_gap = max(0.0, (u_gap - rules.burst_at_first) / (1.0 - rules.burst_at_first))
        kept.begin = kept.end - rules.burst_every_s * log(1.0 - u_gap)
        kept.end = kept.begin - rules.burst_lasts_s * log(1.0 - u_length)
        kept.count += 1
    return kept.begin <= at

"""`failures`, compiled: how a call of a batched episode fails, and when the platform is down."""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .rng import inlined, uniforms


@inlined
def pick(tables: Any, luck: float) -> int:
    """The way to fail whose cumulative weight first exceeds the luck."""
    last = tables.kind_edge.size - 1
    for kind in range(last):
        if luck < tables.kind_edge[kind]:
            return tables.kind_status[kind]
    return tables.kind_status[last]


@inlined
def in_burst(tables: Any, rules: Any, state: Any, i: int, at: float) -> bool:
    """Return whether a call that starts at this time falls into an outage. Only the first outage that ends later is
    kept."""
    e = state.episodes[i]
    if e.burst > 0 and at < e.burst_before:  # the time lies before the outage that is kept, so begin again
        e.burst = 0
    if e.burst == 0:
        e.burst_before, e.burst_begin, e.burst_end = -np.inf, 0.0, 0.0
    while e.burst == 0 or e.burst_end <= at:
        slots = np.int64(tables.slot_count[e.task])
        _, _, u_gap, u_length = uniforms(e.seed, tables.number[e.task], np.int64(e.burst) * (slots + 1) + slots)
        if e.burst > 0:
            e.burst_before = e.burst_end
        e.burst_begin = e.burst_end - rules.burst_every_s * math.log(1.0 - u_gap)
        e.burst_end = e.burst_begin - rules.burst_lasts_s * math.log(1.0 - u_length)
        e.burst += 1
    return e.burst_begin <= at

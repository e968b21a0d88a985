"""The failure model of tools, and answers that look right and are not."""

from costgym.simulators.failures.model import (
    ALIVE,
    DEAD,
    DEGRADED,
    KINDS,
    PRESETS,
    SILENT_KINDS,
    Bursts,
    BurstTimes,
    Chain,
    FailureModel,
    cumulative_kinds,
    draw_latency_s,
    draw_reliability,
    pick,
    start_chain,
    state_chances,
)

__all__ = [
    "ALIVE",
    "DEAD",
    "DEGRADED",
    "KINDS",
    "PRESETS",
    "SILENT_KINDS",
    "BurstTimes",
    "Bursts",
    "Chain",
    "FailureModel",
    "cumulative_kinds",
    "draw_latency_s",
    "draw_reliability",
    "pick",
    "start_chain",
    "state_chances",
]

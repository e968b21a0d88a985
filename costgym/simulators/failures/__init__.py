"""The failure model of tools, and answers that look right and are not."""

from costgym.simulators.failures.model import (
    KINDS,
    PRESETS,
    SILENT_KINDS,
    Bursts,
    BurstTimes,
    FailureModel,
    cumulative_kinds,
    draw_latency_s,
    draw_reliability,
    state_chances,
)

__all__ = [
    "KINDS",
    "PRESETS",
    "SILENT_KINDS",
    "BurstTimes",
    "Bursts",
    "FailureModel",
    "cumulative_kinds",
    "draw_latency_s",
    "draw_reliability",
    "state_chances",
]

"""Templates: what the environment of the marketplace computes once for a task."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_NEEDS = 6
TOOL_FEATURES = (
    "on_offer", "price", "latency_s", "success", "popularity",
    "need_1", "need_2", "need_3", "need_4", "need_5", "need_6",
    "calls", "in_flight", "last_ok", "last_failed", "banned",
)  # fmt: skip
"""Columns of `observation["tools"]`, described in `MarketplaceEnv`."""
FIXED_FEATURES = tuple(name for name in TOOL_FEATURES[: TOOL_FEATURES.index("calls")] if name != "price")  # by the task
NEED_FEATURES = ("wanted", "known", "ready")  # columns of `observation["needs"]`, described in `MarketplaceEnv`
RESOURCE_FEATURES = (
    "clock", "in_flight", "step",
    "price_left", "seconds_left", "tokens_left", "calls_left", "price_spent",
)  # fmt: skip
"""Entries of `observation["resources"]`, described in `MarketplaceEnv`."""

PhaseKey = tuple[tuple[bool, ...], tuple[int, ...]]


class Phase(NamedTuple):
    """The arrays that follow from the known facts alone: `observation["needs"]`, and the mask before prices, bans and
    `wait`."""

    needs: NDArray[np.float32]
    mask: NDArray[np.bool_]


class Template(NamedTuple):
    """The arrays of a task at its start."""

    tools: NDArray[np.float32]  # (max_tools, 16) `observation["tools"]`
    needs: NDArray[np.float32]  # (6, 3) `observation["needs"]`
    mask: NDArray[np.bool_]  # (actions,) what is allowed before prices, bans and needs are looked at
    slots: tuple[int, ...]  # the candidate of each row, by its index in the task
    rows: tuple[int, ...]
    dearest: float  # the highest quote of a candidate
    roles: NDArray[np.float32]  # (max_tools, 5) `observation["roles"]`, which only worlds with writes have
    # (max_tools,) bits of the needs that a row serves; bit 6 for needs that observations do not show, 7 for none
    serves: NDArray[np.uint8]
    # the task's `Phase`s that were computed so far, by what is known and how often each need has changed; None is the key of
    # the first
    phases: dict[PhaseKey | None, Phase]

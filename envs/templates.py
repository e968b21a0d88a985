"""Templates: what the environment of the marketplace computes once for a task."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PhaseKey = tuple[tuple[bool, ...], tuple[int, ...]]


class Phase(NamedTuple):
    """The arrays that follow from the known facts alone: `observation["needs"]`, and the mask before prices, bans and
    `wait`."""

    needs: NDArray[np.float32]
    mask: NDArray[np.bool_]


class Template(NamedTuple):
    """The arrays of a task at its start.

    Attributes:
        tools: (max_tools, 16) `observation["tools"]`.
        needs: (6, 3) `observation["needs"]`.
        mask: (actions,) what is allowed before prices, bans and needs are looked at.
        slots: the candidate of each row, by its index in the task.
        rows: the row of each candidate.
        serves: (max_tools,) bits of the needs that a row serves; bit 6 for needs that observations do not show, 7 for none.
        phases: the task's `Phase`s that were computed so far, by what is known and how often each need has changed; None is
            the key of the first.
    """

    tools: NDArray[np.float32]
    needs: NDArray[np.float32]
    mask: NDArray[np.bool_]
    slots: tuple[int, ...]
    rows: tuple[int, ...]
    serves: NDArray[np.uint8]
    phases: dict[PhaseKey | None, Phase]

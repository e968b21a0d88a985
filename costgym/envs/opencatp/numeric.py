"""Base of the numeric OpenCATP environments: the features of tasks and tools, and the true ends of their spaces."""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Space

from costgym.envs.opencatp.base import OpenCATPBase, OpenCATPSettings
from costgym.simulators.draws import log
from costgym.simulators.opencatp.tasks import OpenCATPTask
from costgym.simulators.opencatp.tools import LEVELS, SIGNATURES, TEXT, TOOLS
from costgym.simulators.status import Status

Observation = dict[str, npt.NDArray[Any]]
TASK_FEATURES = (
    "low_resolution", "noise", "blur", "grey",
    "image", "caption", "caption_de", "label", "label_de", "object", "object_de", "sequential",
)  # fmt: skip
"""Entries of `observation["task"]`, described in the environments."""
LEVEL_FEATURES = tuple(f"level_{level}" for level in range(LEVELS))
_DEGRADATIONS = ("low-resolutioned", "noisy", "blurry", "grayscale")


class OpenCATPNumeric(OpenCATPBase[Observation, "int | np.integer[Any]"]):
    """Base of `OpenCATP-v0` and `OpenCATPCalls-v0`."""

    _status = Status.OK  # of the last action

    def _configure(self, settings: OpenCATPSettings) -> None:
        super()._configure(settings)
        self._costs_at = [self._tool_costs(level) for level in range(LEVELS)]

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> OpenCATPTask:
        task = super()._begin(seed, options)
        self._tools = np.zeros((len(TOOLS), len(self.column_names["tools"])), np.float32)
        self._tools[:, :4] = self._costs_at[self.size_level]
        self._steps, self._status = 0, Status.OK
        return task

    def _tool_costs(self, level: int) -> npt.NDArray[np.float32]:
        """Per tool: price in units of max_price, log(1 + seconds), whether it reads and whether it makes text.  # (10, 4)"""
        rows = [
            (
                self.profile.price(tool, level) / self.max_price,
                math.log1p(self.profile.seconds(tool, level)),
                SIGNATURES[tool].takes == TEXT,
                SIGNATURES[tool].gives == TEXT,
            )
            for tool in TOOLS
        ]
        return np.array(rows, dtype=np.float32)

    def _features(self) -> Observation:
        """The arrays that both environments observe."""
        level = (np.arange(LEVELS) == self.size_level).astype(np.float32)
        return {"task": _task_row(self.task).copy(), "level": level, "tools": self._tools.copy()}

    def _shares_left(self, spent: tuple[float, float, int, int]) -> list[float]:
        return [1.0 if limit is None else 1.0 - used / limit for limit, used in zip(self._limits, spent, strict=True)]

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """The present action mask, (actions,) bool."""
        raise NotImplementedError

    def _info(self) -> dict[str, Any]:
        info = super()._info()
        info["action_mask"] = self.action_masks().astype(self.mask_type, copy=False)
        info["status"] = int(self._status)
        return info

    def _boxes(
        self, whole: str, tokens: float = 0.0, loading_s: float = 0.0, most: Sequence[float] | None = None
    ) -> dict[str, Space[Any]]:
        """The boxes of `_features` and of the array `whole`: price, seconds, entries from 0 to 1, and the shares left.

        Their ends are true: they follow from the profile and the limits, since a tool runs once. `loading_s` is the most that
        loading adds; `most` are the price, seconds, tokens and calls that are never passed; None where any may be.
        """
        profile, between = self.profile, self.column_names[whole].index("price_left") - 2
        prices = [max(profile.price(tool, level) for level in range(LEVELS)) / self.max_price for tool in TOOLS]
        seconds = [max(profile.seconds(tool, level) for level in range(LEVELS)) for tool in TOOLS]
        dearest, ends = sum(prices), [sum(prices) * self.max_price, sum(seconds) + loading_s, tokens, float(len(TOOLS))]
        if most is not None:
            dearest = min(dearest, most[0] / self.max_price)
            ends = [min(end, limit) for end, limit in zip(ends, most, strict=True)]
        left = [0.0 if limit is None else min(0.0, 1.0 - end / limit) for end, limit in zip(ends, self._limits, strict=True)]
        tools = np.ones((len(TOOLS), len(self.column_names["tools"])), np.float32)
        tools[:, 0], tools[:, 1] = prices, np.log1p(seconds)
        high = [dearest, log(1.0 + ends[1]), *[1.0] * between, *[1.0] * len(left)]
        low = [*[0.0] * (2 + between), *left]
        return {
            "task": Box(0.0, 1.0, (len(TASK_FEATURES),), np.float32),
            "level": Box(0.0, 1.0, (LEVELS,), np.float32),
            "tools": Box(np.zeros_like(tools), _beyond(tools, np.inf), dtype=np.float32),
            whole: Box(_beyond(low, -np.inf), _beyond(high, np.inf), dtype=np.float32),
        }


@cache
def _task_row(task: OpenCATPTask) -> npt.NDArray[np.float32]:
    wanted = {want.name for want in task.wants}
    row = [name in task.degradations for name in _DEGRADATIONS]
    row += [name in wanted for name in TASK_FEATURES[4:11]]
    return np.array([*row, task.kind == "sequential"], dtype=np.float32)


def _beyond(values: Any, to: float) -> npt.NDArray[np.float32]:
    """The next float32 values in a direction, since sums may be rounded either way."""
    return np.nextafter(np.asarray(values, np.float32), np.float32(to))

"""The true ends of OpenCATP's observations: they follow from the profile and the limits, since a tool runs once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box

from ...simulators.draws import log
from ...simulators.opencatp.profile import Profile
from ...simulators.opencatp.tools import LEVELS, TOOLS


def cost_boxes(
    profile: Profile,
    max_price: float,
    limits: Sequence[float | None],
    columns: int,
    between: int,
    tokens: float = 0.0,
    loading_s: float = 0.0,
    most: Sequence[float] | None = None,
) -> tuple[Box, Box]:
    """The boxes of the tools, whose first columns are price and seconds, and of the resources: price, seconds, shares left.

    `between` entries from 0 to 1 stand between the seconds and the shares that are left; `loading_s` is the most that loading
    adds; `most` are the price, seconds, tokens and calls that are never passed; None where any may be.
    """
    prices = [max(profile.price(tool, level) for level in range(LEVELS)) / max_price for tool in TOOLS]
    seconds = [max(profile.seconds(tool, level) for level in range(LEVELS)) for tool in TOOLS]
    dearest, ends = sum(prices), [sum(prices) * max_price, sum(seconds) + loading_s, tokens, float(len(TOOLS))]
    if most is not None:
        dearest = min(dearest, most[0] / max_price)
        ends = [min(end, limit) for end, limit in zip(ends, most, strict=True)]
    left = [0.0 if limit is None else min(0.0, 1.0 - end / limit) for end, limit in zip(ends, limits, strict=True)]
    tools = np.ones((len(TOOLS), columns), np.float32)
    tools[:, 0], tools[:, 1] = prices, np.log1p(seconds)
    high = [dearest, log(1.0 + ends[1]), *[1.0] * between, *[1.0] * len(left)]
    low = [*[0.0] * (2 + between), *left]
    return (
        Box(np.zeros_like(tools), _beyond(tools, np.inf), dtype=np.float32),
        Box(_beyond(low, -np.inf), _beyond(high, np.inf), dtype=np.float32),
    )


def _beyond(values: Any, to: float) -> npt.NDArray[np.float32]:
    """The next float32 values in a direction, since sums may be rounded either way."""
    return np.nextafter(np.asarray(values, np.float32), np.float32(to))

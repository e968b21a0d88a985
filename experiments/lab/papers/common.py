"""Parts that the papers' tables share: the environment of text agents and intervals of figures."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....agents.base import TEXT
from ....envs.registration import make
from ....simulators.scenario import Scenario
from ...board.suites import STEP_LIMIT
from ...play.statistics import intervals

Row = dict[str, Any]
RESAMPLES = 2000


def text_env(scenario: Scenario, **settings: Any) -> Any:
    """Create the text view of a paper's table: test tasks, limits that are only recorded, and the judge's grading."""
    usual = {"split": "test", "budget": {}, "enforcement": "record", "grading": "judge", "max_steps": STEP_LIMIT}
    return make(TEXT, scenario=scenario, disable_env_checker=True, **{**usual, **settings})


def interval_ends(
    names: Collection[str],
    above: NDArray[np.float64],
    below: NDArray[np.float64] | None = None,
    episodes: Sequence[int] | None = None,
    seed: int = 0,
    *,
    difference: bool = False,
) -> dict[str, list[float]]:
    """Return the 95 % intervals of figures by name, by bootstrap over episodes.

    Args:
        above, below: numerators and denominators of each episode; None for means.  # (episodes, figures)
        episodes: numbers of the episodes; None counts them from 0.
        difference: `above` has two columns, and the one figure is the first less the second.
    """
    below = np.ones_like(above) if below is None else below
    episodes = range(len(above)) if episodes is None else episodes
    lows, highs = intervals(above, below, episodes, seed, RESAMPLES, difference=difference)
    return {name: [float(low), float(high)] for name, low, high in zip(names, lows, highs, strict=True)}

"""Returns of the references, and scores of returns between them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from costgym.simulators.errors import check_known

LOWEST, HIGHEST = "random", "informed"  # the references whose mean returns are the scores 0 and 1


@cache
def reference_returns() -> dict[str, dict[str, float]]:
    """The mean returns of the references on `valid`, by environment and agent; `benchmarks/session_ladder.py` plays them."""
    text = Path(__file__).with_name("reference_returns.json").read_text(encoding="utf-8")
    returns: dict[str, dict[str, float]] = json.loads(text)
    return returns


def normalized_score(env_id: str, returns: Any) -> Any:
    """Returns of episodes, or their mean, as scores: 0 is the mean return of random actions, 1 that of `informed`.

    Args:
        env_id: id, such as ``costgym/MarketplaceSessionHard-v1``.
        returns: a number, or an array of them, with the reward ``value``.

    Raises:
        UnknownName: the environment has no reference returns; the message has those that have.

    >>> round(normalized_score("costgym/MarketplaceSession-v1", 0.0), 1)
    -0.2
    """
    known = reference_returns()
    check_known("environment with reference returns", env_id, known)
    low, high = known[env_id][LOWEST], known[env_id][HIGHEST]
    scores = (np.asarray(returns, np.float64) - low) / (high - low)
    return float(scores) if scores.ndim == 0 else scores

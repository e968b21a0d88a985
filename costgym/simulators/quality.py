"""Quality of Plan and the rewards that lead to it.

QoP weighs what a plan achieved against what it cost. It is not clipped: a plan may cost more than any score repays.
"""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, overload

import numpy as np

from costgym.simulators.errors import ConfigError, InvalidProfile
from costgym.simulators.pricing.calls import FloatArray, _elementwise

MAX_PRICE_USD = 0.5669374317944147
INVALID_PLAN_COST = 2.0
INVALID_PLAN_REWARD = -0.5


@overload
def quality_of_plan(  # type: ignore[overload-overlap]
    score: float, price: float, alpha: float = 0.5, max_price: float = MAX_PRICE_USD
) -> float: ...
@overload
def quality_of_plan(
    score: float | FloatArray, price: float | FloatArray, alpha: float | FloatArray = 0.5, max_price: float = MAX_PRICE_USD
) -> FloatArray: ...
def quality_of_plan(score: Any, price: Any, alpha: Any = 0.5, max_price: float = MAX_PRICE_USD) -> float | FloatArray:
    """``α·score − (1−α)·price/max_price``, for floats or arrays of one shape, unclipped.

    Args:
        score: Task score, 0 to 1 by definition; the official image score may pass 1.
        price: Price of the plan, USD; a refund (below zero) counts as one.
        alpha: Weight of the score. Both ends are allowed here, where they mean "score only" and "price only"; settings of
            an environment go through :func:`check_alpha`, which wants a real trade-off.
        max_price: The price that weighs as much as a full score, USD. The default is OpenCATP's.

    Raises:
        InvalidProfile: The score or the price is not a finite number.
        ConfigError: Alpha is outside [0, 1] or max_price is not above zero.

    Source: CATP-LLM, Eq. 1 (minimum score and price 0, maximum score 1).
    """
    if not (isinstance(max_price, int | float) and 0.0 < max_price < math.inf):
        raise ConfigError("max_price", f"expected a price above zero, got {max_price!r}")
    if any(isinstance(value, np.ndarray | list | tuple) for value in (score, price, alpha)):
        return _elementwise(quality_of_plan, (score, price, alpha, max_price))
    if not math.isfinite(score):
        raise InvalidProfile(f"score: expected a finite number, got {score}; an unscored plan has no quality")
    if not math.isfinite(price):
        raise InvalidProfile(f"price: expected a finite number, got {price}")
    if not 0.0 <= alpha <= 1.0:
        raise ConfigError("alpha", f"expected a weight between 0 and 1, got {alpha}")
    return float(alpha * score - (1.0 - alpha) * price / max_price)


def check_alpha(alpha: float) -> float:
    """The weight of the score as a float; raises ConfigError where it is not strictly between 0 and 1."""
    if not (isinstance(alpha, int | float) and 0.0 < alpha < 1.0):
        raise ConfigError("alpha", f"expected a weight strictly between 0 and 1, got {alpha!r}")
    return float(alpha)


def cumulative_reward(
    score: float,
    price: float,
    is_final: bool,
    alpha: float = 0.5,
    max_score: float = 1.0,
    scale: float = 1.0,
    max_price: float = MAX_PRICE_USD,
) -> float:
    """Reward of one plan token as published: the price of *all* tools so far is charged again at every token.

    The price 2 marks an invalid plan, which earns −0.5 whatever α. Source: CATP-LLM, Eq. 4 as its published code has it.
    """
    # the published data mark an invalid plan by its price
    if price == INVALID_PLAN_COST:
        return INVALID_PLAN_REWARD * scale
    reward = -(1.0 - alpha) * price / max_price
    if is_final:
        reward += alpha * score / max_score
    return reward * scale


def returns_to_go(rewards: Sequence[float], gamma: float = 1.0) -> list[float]:
    """Discounted sum of the rewards from each step to the end."""
    backwards = accumulate(reversed(rewards), lambda ahead, reward: reward + gamma * ahead, initial=0.0)
    return list(backwards)[:0:-1]

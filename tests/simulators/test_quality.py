"""Quality of Plan and its rewards."""

import math

import numpy as np
import pytest

from costgym.simulators.errors import ConfigError, InvalidProfile
from costgym.simulators.quality import check_alpha, quality_of_plan


def test_a_full_score_for_nothing_is_alpha_and_nothing_for_the_maximum_is_its_rest_below_zero() -> None:
    assert quality_of_plan(1.0, 0.0, alpha=0.3) == 0.3
    assert quality_of_plan(0.0, 2.0, alpha=0.25, max_price=2.0) == -0.75


def test_it_is_not_clipped() -> None:
    assert quality_of_plan(0.0, 4.0, alpha=0.5, max_price=1.0) == -2.0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_scores_and_prices_must_be_numbers(bad: float) -> None:
    for score, price in ((bad, 0.1), (0.5, bad)):
        with pytest.raises(InvalidProfile):
            quality_of_plan(score, price)
        with pytest.raises(InvalidProfile):
            quality_of_plan(np.array([score]), np.array([price]))


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_alpha_is_a_weight(bad: float) -> None:
    with pytest.raises(ConfigError, match="alpha"):
        quality_of_plan(0.5, 0.1, alpha=bad)
    with pytest.raises(ConfigError, match="alpha"):
        quality_of_plan(np.array([0.5]), 0.1, alpha=bad)
    with pytest.raises(ConfigError, match="max_price"):
        quality_of_plan(0.5, 0.1, max_price=0.0)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, 2.0, math.nan, "half"])
def test_an_environment_wants_a_real_trade_off(bad: float) -> None:
    with pytest.raises(ConfigError, match="strictly between 0 and 1"):
        check_alpha(bad)
    assert check_alpha(0.5) == 0.5

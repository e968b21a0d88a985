"""The paired test that decides ranks, bold figures and who is as good."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.experiments.board.rows import BY_EPISODE, as_good, rank_bands, rivals_text
from costgym.experiments.play.statistics import holm, sign_flip_p_values

METRIC = "pass_rate_under_budget"


def row(episodes: Any, agent: str = "a") -> dict[str, Any]:
    return {"agent": agent, BY_EPISODE: {METRIC: episodes}}


def test_a_row_that_wins_every_episode_is_first_and_equal_ones_share_their_ranks() -> None:
    rows = [row("1" * 40), row("10" * 20), row("01" * 20)]
    assert rank_bands(rows, METRIC) == [(1, 1), (2, 3), (2, 3)]
    assert as_good(rows[1], [rows[0], rows[2]], METRIC) == [True, True]
    assert as_good(rows[0], rows[1:], METRIC) == [False, False]


def test_all_seeds_of_a_task_are_one_trial() -> None:
    rows = [row("1" * 12), row("0" * 12)]
    assert rank_bands(rows, METRIC) == [(1, 1), (2, 2)]
    assert rank_bands(rows, METRIC, seeds=4) == [(1, 2), (1, 2)]  # three tasks tell too little


def test_void_episodes_tell_nothing() -> None:
    assert rank_bands([row("1" * 20 + "-" * 20), row("-" * 20 + "0" * 20)], METRIC) == [(1, 2), (1, 2)]


@given(st.lists(st.lists(st.sampled_from("01"), min_size=20, max_size=20).map("".join), min_size=2, max_size=6))
def test_the_answer_names_as_good_whoever_may_share_the_first_rank(episodes: list[str]) -> None:
    rows = sorted((row(episode) for episode in episodes), key=lambda entry: -entry[BY_EPISODE][METRIC].count("1"))
    bands = rank_bands(rows, METRIC)
    alike = as_good(rows[0], rows[1:], METRIC)
    assert bands[0] is not None and bands[0][1] == 1 + sum(map(bool, alike))


def test_a_row_with_luck_of_its_own_has_no_band_and_takes_none_from_the_others() -> None:
    alone = {"agent": "rerun", METRIC: 0.9}
    rows = [alone, row("1" * 40), row("0" * 40)]
    assert rank_bands(rows, METRIC) == [None, (1, 2), (2, 3)]
    assert as_good(rows[1], [alone, rows[2]], METRIC) == [None, False]
    assert rivals_text([("rerun", None), ("b", False)]) == ""
    assert rivals_text([("rerun", None), ("b", True)]) == "Not significantly better than b."
    assert rivals_text([(name, True) for name in "abc"]) == "Not significantly better than a, b and c."
    assert rivals_text([(name, True) for name in "abcdef"]) == "Not significantly better than a, b, c, d and 2 more."


@given(st.lists(st.lists(st.sampled_from("01-"), min_size=8, max_size=8).map("".join), min_size=1, max_size=6))
def test_bands_hold_their_ranks(episodes: list[str]) -> None:
    bands = rank_bands([row(episode) for episode in episodes], METRIC)
    assert all(band is not None and 1 <= band[0] <= band[1] <= len(episodes) for band in bands)


def test_a_sign_flip_of_passes_is_mcnemars_test_and_holm_steps_down() -> None:
    (p,) = sign_flip_p_values(np.array([[1.0] * 9 + [-1.0] * 2 + [0.0] * 5]))
    assert p == pytest.approx(math.erfc((7 - 1) / math.sqrt(2 * 11)))
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])

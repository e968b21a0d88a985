"""No play beats the optimum: every short sequence of actions is tried in tiny random worlds and sessions."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.hostile.optimum import CHANCE, ERRORS, sessions, worlds
from tests.helpers.tiny_worlds import tiny, tiny_forged, wrong_with


@settings(max_examples=settings().max_examples // 4)
@given(number=st.integers(0, 2**32))
def test_no_play_beats_the_optimum(number: int) -> None:
    assert wrong_with(tiny(Random(number)), number)[0] == ""


@pytest.mark.parametrize("number", range(8))
def test_no_play_beats_the_optimum_of_a_forged_world_that_writes(number: int) -> None:
    document, task = tiny_forged(Random(number))
    assert wrong_with(document, number, task)[0] == ""


def test_no_policy_beats_the_bound_of_a_session_of_three_queries() -> None:
    assert max(errors for _, errors in sessions(None, range(3))) < CHANCE


@pytest.mark.parametrize(("error", "number"), zip(ERRORS, (92, 3, 28, 33, 9), strict=True))
def test_an_error_in_what_the_optimum_foresees_is_found(error: str, number: int) -> None:
    [(_, _, _, wrong)] = worlds(error, range(number, number + 1))
    assert "a play reaches" in wrong

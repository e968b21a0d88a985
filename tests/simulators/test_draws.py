"""Chance is a pure function of seed, task, call and purpose."""

import math
import os
import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from costgym.simulators import draws
from costgym.simulators.draws import PURPOSES, Draws, DrawSource, stable_generator, stable_integer, stable_uniforms

SEEDS = st.integers(0, 2**63)
PLACES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)), min_size=1, max_size=12)


def fresh_table(seed: int, task: int, slots: int, rows: int) -> np.ndarray:
    """The table as one fresh Philox stream gives it, shape (rows, slots, PURPOSES)."""
    bits = np.random.Philox(key=np.array([seed, task], dtype=np.uint64))
    return np.random.Generator(bits).random((rows, slots, PURPOSES))


@given(seed=SEEDS, task=st.integers(0, 10**6), indices=PLACES)
def test_a_draw_does_not_depend_on_what_was_drawn_before_and_equals_a_fresh_stream(seed, task, indices):
    source = DrawSource()
    forth, back = Draws(source, seed, task, 6), Draws(source, seed, task, 6)
    expected = fresh_table(seed, task, 7, 41)
    there = {index: forth.at(*index) for index in indices}
    here = {index: back.at(*index) for index in reversed(indices)}
    assert there == here == {(k, slot): expected[k, slot].tolist() for k, slot in indices}


def test_the_size_of_the_pieces_in_which_rows_are_drawn_does_not_matter():
    source = DrawSource()
    whole = source.rows(5, 3, 4, 0, 12)
    pieces = [row for first, count in ((0, 1), (1, 4), (5, 2), (7, 5)) for row in source.rows(5, 3, 4, first, count)]
    assert pieces == whole


def test_many_tools_are_drawn_in_smaller_pieces_with_the_same_result():
    wide = Draws(DrawSource(), 1, 2, 200)
    assert wide.at(9, 200) == fresh_table(1, 2, 201, 10)[9, 200].tolist()


def test_episodes_that_share_a_source_do_not_disturb_each_other():
    source = DrawSource()
    first, second = Draws(source, 1, 0, 3), Draws(source, 2, 0, 3)
    alternating = [(first.at(k, 0), second.at(k, 0)) for k in range(50)]
    alone = Draws(DrawSource(), 1, 0, 3), Draws(DrawSource(), 2, 0, 3)
    assert alternating == [(alone[0].at(k, 0), alone[1].at(k, 0)) for k in range(50)]


def test_seeds_tasks_calls_tools_and_purposes_are_all_apart():
    source = DrawSource()
    values = [
        value
        for seed in range(3)
        for task in range(3)
        for row in source.rows(seed, task, 5, 0, 8)
        for slot in row
        for value in slot
    ]
    assert len(set(values)) == len(values) == 3 * 3 * 8 * 5 * PURPOSES
    assert all(0.0 <= value < 1.0 for value in values)
    assert abs(float(np.mean(values)) - 0.5) < 0.02


def test_draws_are_the_same_in_every_process():
    program = (
        "from costgym.simulators.draws import *\n"
        "print(Draws(DrawSource(), 7, 11, 4).at(13, 2), stable_integer(3, 'event', 'a'), stable_generator(3, 'a', 1).random())"
    )
    here = f"{Draws(DrawSource(), 7, 11, 4).at(13, 2)} {stable_integer(3, 'event', 'a')} {stable_generator(3, 'a', 1).random()}"
    environment = {**os.environ, "PYTHONHASHSEED": "0" if sys.flags.hash_randomization else "12345"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == here


def test_draws_stay_what_they_were_when_recorded_runs_were_made():
    assert Draws(DrawSource(), 0, 0, 1).at(0, 0) == [
        0.011546754286331562, 0.24154919656271812, 0.11142585551493822, 0.5644146216071337,
    ]  # fmt: skip
    assert stable_integer(0, "a") == 17035932339863366895


def test_names_are_kept_apart():
    assert stable_integer(0, "ab", "c") != stable_integer(0, "a", "bc")
    assert stable_integer(0, "a") != stable_integer(1, "a")
    assert stable_generator(0, "a").random() != stable_generator(0, "b").random()


@given(value=st.floats(2.0**-53, 1e12))
def test_our_logarithm_is_the_c_librarys_but_for_its_last_bits(value: float) -> None:
    exact = math.log(value)
    assert abs(draws.log(value) - exact) <= 2.0 * math.ulp(exact) + 2.0**-60
    assert draws.log(1.0) == 0.0


@given(SEEDS, st.text(max_size=8), st.integers(0, 40), st.integers(0, 150))
def test_uniforms_without_a_generator_are_those_of_the_generator(seed: int, name: str, blocks: int, count: int) -> None:
    first = blocks * PURPOSES
    wanted = stable_generator(seed, name, 7).random(first + count).tolist()
    assert stable_uniforms(count, first, seed, name, 7) == wanted[first:]

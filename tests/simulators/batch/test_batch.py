"""N episodes at once are N episodes, call by call and bit by bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba", reason="needs the extra `train`")

from costgym.simulators.batch.rng import next_draw, stream_words, uniforms
from costgym.simulators.batch.state import Batch
from costgym.simulators.draws import DrawSource
from costgym.simulators.errors import EpisodeOver
from costgym.simulators.failures import Bursts, FailureModel
from costgym.simulators.ledger import Budget
from tests.helpers.lockstep import FINISH, WAIT, play
from tests.helpers.worlds import BROKEN, small_world, tool

pytestmark = pytest.mark.native

STORM = FailureModel(usable=0.5, bursts=Bursts(every_s=4.0, lasts_s=2.0))
SHARED = FailureModel(usable=0.5, bursts=Bursts(every_s=4.0, lasts_s=2.0, tools=("t0", "t2"), under_way=True))
QUIET = FailureModel(kinds={"timeout": 1.0, "partial": 2.0, "corrupt": 2.0, "drifted": 2.0}, sticky=0.3)


# -- chance --------------------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**64 - 1), task=st.integers(0, 2**40), slots=st.integers(1, 40), k=st.integers(0, 200))
@settings(deadline=None)
def test_any_place_of_the_table_of_draws_is_what_numpy_draws(seed: int, task: int, slots: int, k: int) -> None:
    rows = DrawSource().rows(seed, task, slots, k, 1)[0]
    assert [list(uniforms(np.uint64(seed), np.uint64(task), k * slots + slot)) for slot in range(slots)] == rows


@given(seed=st.integers(0, 2**70))
@settings(deadline=None)
def test_a_stream_draws_what_gymnasiums_generator_draws(seed: int) -> None:
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    streams = np.array([stream_words(seed)], np.uint64)
    assert [int(next_draw(streams, 0)) for _ in range(50)] == [int(generator.integers(1 << 62)) for _ in range(50)]


# -- stories -------------------------------------------------------------------------------------------------------------------


def test_two_episodes_of_a_batch_run_on_their_own_clocks() -> None:
    world = small_world(tool("slow", latency_s=3.0, fee=2.0), tool("quick", 1, latency_s=1.0))
    batch = Batch(world, [0], 2)
    batch.begin(0, [1, 2])
    assert batch.submit([0, 1]).tolist() == [-1, -1]
    assert batch.wait().tolist() == [0 * 64, 1 * 64]
    assert batch.state.episodes["now"].tolist() == [3.0, 1.0]
    assert batch.state.episodes["price"].tolist() == [2.0, 1.0]
    assert batch.state.episodes["known"].tolist() == [0b01, 0b10]


def test_an_action_after_the_end_says_so_and_the_others_go_on() -> None:
    batch = Batch(small_world(tool("a")), [0], 2)
    batch.begin(0, 0)
    batch.finish([True, False])
    with pytest.raises(EpisodeOver, match="begin a new one"):
        batch.submit(0)
    assert batch.submit(0, [False, True]).tolist() == [0, -1]


def test_many_calls_in_flight_widen_the_arrays_and_change_nothing() -> None:
    world = small_world(tool("a", latency_s=5.0, cold_start_s=1.0), tool("b", 1, concurrency=2), copies=2)
    actions = [[0, 1]] * 70 + [[WAIT, WAIT]] * 75 + [[0, 1]] * 30 + [[WAIT, WAIT]] * 31 + [[FINISH, FINISH]]
    met = play(world, actions, [5, 6], Budget(), "record")
    assert met["0"] > 150


def test_a_task_of_another_split_gets_a_row_of_its_own() -> None:
    world = small_world(tool("a", rate_limit=3), copies=3)
    batch = Batch(world, [0], 1)
    batch.add([2], 1)
    assert batch.tables.number.tolist() == [0, 2]


def test_failures_are_billed_the_same_in_the_batch() -> None:
    world = small_world(tool("a", reliability=0.0), failures=BROKEN, bill_failures=False, copies=4)
    met = play(world, [[0] * 4, [WAIT] * 4, [0] * 4, [FINISH] * 4], [1, 2, 3, 4], Budget(price=5), "terminate")
    assert met["32"] == 4

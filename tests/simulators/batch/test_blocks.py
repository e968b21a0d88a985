"""Records in blocks, as a GPU keeps them, are the records that a CPU keeps; neighbours read neighbouring words."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs the extra `train`")

import numba

from costgym.envs.vector.kernels.sessions import SEEN
from costgym.simulators.batch import memory, plain
from costgym.simulators.batch.blocks import WARP, WORD, arranged, by_field, in_blocks, is_block
from costgym.simulators.batch.memory import record_type
from costgym.simulators.batch.sessions import PROGRESS
from costgym.simulators.batch.state import BILL, EPISODE, LARGE, SMALL

pytestmark = pytest.mark.native

FIELDS = (
    ("now", np.float64),
    ("seed", np.uint64),
    ("task", np.int32),
    ("log", np.float32),
    ("epoch", np.int16),
    ("over", np.bool_),
)
ROWS, COLUMNS = 70, 3  # two blocks, and a part of a third


def some_records() -> Any:
    records = np.zeros((ROWS, COLUMNS), record_type([*FIELDS]))
    generator = np.random.default_rng(0)
    for name, kind in FIELDS:
        records[name] = generator.integers(0, 2 if kind is np.bool_ else 30_000, records.shape)
    return records


def operations(record_in: Any, copy_in: Any, clear_row: Any) -> Any:
    """What kernels do with records: they read, write, copy and clear them."""

    def play(array: Any, rows: int, total: Any) -> None:
        for i in range(rows):
            for column in range(array.shape[1]):
                record = record_in(array, i, column)
                total[0] += record.now * (i + 1) + record.task + record.log - record.epoch * record.over
                record.now += i + 0.5
                record.epoch, record.over, record.task = i, column == 1, record.task + 1
            copy_in(array, i, 0, 2)
            if i % 5 == 0:
                clear_row(array, i)

    return play


def as_attributes(array: Any) -> Any:
    """The array with records whose fields are attributes, as Python alone plays them."""
    return array.view(np.dtype((np.record, array.dtype)))


@pytest.mark.parametrize("compiled", [True, False])
def test_both_layouts_hold_the_same_after_the_same_operations(compiled: bool) -> None:
    form = memory if compiled else plain
    play = operations(form.record_in, form.copy_in, form.clear_row)
    play = numba.njit(play) if compiled else play
    records, totals = some_records(), np.zeros((2, 1))
    blocks = by_field(records)
    layouts = [records, blocks] if compiled else [as_attributes(records), as_attributes(blocks)]
    for array, total in zip(layouts, totals, strict=True):
        play(array, ROWS, total)
    assert records["epoch"].max() == ROWS - 1 and totals[0] == totals[1] != 0
    assert by_field(records).tobytes() == blocks.tobytes()


def test_a_warp_reads_a_field_from_words_in_a_row() -> None:
    @numba.njit
    def read(array: Any, out: Any) -> None:
        for i in range(out.shape[0]):
            for column in range(out.shape[1]):
                out[i, column] = memory.record_in(array, i, column).seed

    blocks = by_field(some_records())
    numbered = np.arange(blocks.nbytes // WORD, dtype=np.uint64).view(blocks.dtype).reshape(blocks.shape)  # a word is its place
    addresses = np.zeros((2 * WARP, COLUMNS), np.int64)
    read(numbered, addresses)
    first = addresses[::WARP]
    assert (addresses.reshape(2, WARP, COLUMNS) == first[:, None] + np.arange(WARP)[:, None]).all()
    assert (first % WARP == 0).all() and len(set(first.ravel())) == first.size


@pytest.mark.parametrize("kind", [EPISODE, SMALL.call, LARGE.call, BILL, PROGRESS, SEEN])
def test_no_field_leaves_its_word(kind: Any) -> None:
    block = in_blocks(kind)
    assert is_block(block) and not is_block(kind) and block.isalignedstruct
    assert all(offset % (WARP * WORD) + field.itemsize <= WORD for field, offset in block.fields.values())
    assert block.itemsize < WARP * (kind.itemsize + WORD)


def test_arrays_of_numbers_lie_column_by_column_where_they_are_named() -> None:
    from costgym.simulators.batch.sessions import SessionState

    arrays = {name: np.arange(12.0).reshape(4, 3) for name in SessionState._fields}
    state = arranged(SessionState(**arrays), frozenset({"times"}))
    assert state.times.flags.f_contiguous and not state.windows.flags.f_contiguous
    assert (state.times == state.windows).all()

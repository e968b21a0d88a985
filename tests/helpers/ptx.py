"""Compile row functions for GPUs that need not be there."""

from types import SimpleNamespace
from typing import Any

from costgym.simulators.batch.device import Row, _numba_cuda, _rounded_twice, _thread
from costgym.simulators.batch.rng import numba

CAPABILITIES = (8, 0), (9, 0)
"""Compute capabilities for which the tests compile every kernel: A100 and H100 with their like."""


def compile_ptx(row: Row, arguments: tuple[Any, ...], capability: tuple[int, int], lanes: int = 1) -> str:
    """Compile a row function for a GPU, which need not be there.

    Args:
        row: the function.
        arguments: NumPy arrays and numbers of the types that it will be called with, without the row's number.
        capability: CUDA's compute capability, (major, minor).
        lanes: threads for each row.

    Returns:
        The kernel in PTX.
    """
    cuda, dispatcher = _numba_cuda(), _numba_cuda(".dispatcher")
    types = numba.types.int64, numba.typeof(arguments)
    find = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)  # asked for its capability only
    try:
        with _rounded_twice():
            code, _ = cuda.compile_ptx(_thread(row, lanes), types, cc=capability)
    finally:
        dispatcher.get_current_device = find
    return str(code)

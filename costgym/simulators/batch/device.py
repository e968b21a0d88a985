"""Rows of a kernel as the threads of a GPU, or one after the other where there is none.

A *row function* plays row `i` of its arrays: ``row(*arguments, i)``, or ``row(*arguments, i, lane)`` where several threads
share a row. Here it runs for all rows, on a device that also holds the arrays. A GPU runs what the CPU runs, compiled from the
same functions, and both give the same bits: nothing is fused (``a * b + c`` is rounded twice), and logarithms and exponentials
are our own or come from tables.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.batch.rng import INTERPRETED, inlined, numba
from costgym.simulators.errors import ConfigError, require

THREADS_PER_BLOCK = 128

Row = Any


class Device(Protocol):
    """The place that holds the arrays of row functions and runs them."""

    name: str
    captures: bool  # `capture` saves the host's work

    def put(self, array: NDArray[Any]) -> Any:
        """A copy of an array on the device."""

    def get(self, array: Any) -> NDArray[Any]:
        """A copy of a device's array for the CPU."""

    def view(self, tensor: Any) -> Any:
        """A PyTorch tensor of the device as the array that kernels take, without a copy."""

    def launch(self, row: Row, count: int, *arguments: Any, lanes: int = 1) -> None:
        """Run a row function for rows 0 to ``count - 1``, with so many threads each, after everything launched before."""

    def capture(self, play: Callable[[], None]) -> Callable[[], None]:
        """A function that does at once, whenever it is called, what `play` launches and what PyTorch does in it. All was done
        before, so that nothing is left to compile; what `play` makes is overwritten at each call."""


def find_device(name: str) -> Device:
    """The device ``cpu``, ``cuda`` or ``cuda:N``; raises ConfigError for another name or a GPU that is not there."""
    kind, _, number = name.partition(":")
    if kind == "cpu" and not number:
        return Cpu()
    if kind != "cuda" or (number and not number.isdecimal()):
        raise ConfigError("device", f"expected cpu, cuda or cuda:N, got {name!r}")
    return Gpu(int(number or 0))


class Cpu:
    """The CPU as a device: rows run one after the other."""

    name = "cpu"
    captures = False

    def put(self, array: NDArray[Any]) -> Any:
        return array.copy()

    def get(self, array: Any) -> NDArray[Any]:
        return array.copy()

    def view(self, tensor: Any) -> Any:
        return tensor.numpy()

    def launch(self, row: Row, count: int, *arguments: Any, lanes: int = 1) -> None:
        _loop(row, lanes)(count, arguments)

    def capture(self, play: Callable[[], None]) -> Callable[[], None]:
        return play


class Gpu:
    """A CUDA device. Kernels run on PyTorch's present stream, so they and PyTorch's own work keep their order."""

    captures = True

    def __init__(self, number: int = 0) -> None:
        self._torch, self._cuda = require("torch", "train"), _numba_cuda()
        count = len(self._cuda.gpus) if self._cuda.is_available() else 0
        if not self._torch.cuda.is_available() or number >= count:
            raise ConfigError("device", f"expected a GPU that CUDA and PyTorch find, got cuda:{number} of {count}")
        self._number, self.name = number, f"cuda:{number}"
        self._cuda.select_device(number)

    def put(self, array: NDArray[Any]) -> Any:
        with self._cuda.gpus[self._number]:
            return self._cuda.to_device(np.ascontiguousarray(array), stream=self._stream())

    def get(self, array: Any) -> NDArray[Any]:
        stream = self._stream()
        copy = array.copy_to_host(stream=stream)
        stream.synchronize()
        return copy

    def view(self, tensor: Any) -> Any:
        return self._cuda.as_cuda_array(tensor, sync=False)

    def launch(self, row: Row, count: int, *arguments: Any, lanes: int = 1) -> None:
        blocks = -(-count * lanes // THREADS_PER_BLOCK)
        with self._cuda.gpus[self._number], _rounded_twice():
            _kernel(row, lanes)[blocks, THREADS_PER_BLOCK, self._stream()](count, arguments)

    def capture(self, play: Callable[[], None]) -> Callable[[], None]:
        graph = self._torch.cuda.CUDAGraph()
        # the stream of the capture is PyTorch's present one inside, so that kernels are launched on it too
        with self._torch.cuda.device(self._number), self._torch.cuda.graph(graph):
            play()
        replay: Callable[[], None] = graph.replay
        return replay

    def _stream(self) -> Any:
        # on PyTorch's stream, kernels and tensors keep their order without waiting for each other
        pointer = self._torch.cuda.current_stream(self._number).cuda_stream
        return self._cuda.external_stream(pointer) if pointer else self._cuda.legacy_default_stream()


def _numba_cuda(module: str = "") -> Any:
    """A module of numba-cuda, which takes the place of the older one inside Numba."""
    require("numba_cuda", "cuda")
    return require(f"numba.cuda{module}", "cuda")


@inlined
def take_words(streams: Any, words: Any, taken: Any, i: int) -> None:
    """Give row i of the generators a new state, where `taken` says so."""
    if taken[i]:
        for k in range(4):
            streams[i, k] = words[i, k]


def _callable(row: Row) -> Any:
    """A row function that may be called with a tuple of arguments, and by numba-cuda."""
    return row if INTERPRETED else inlined(row.py_func)


@cache
def _loop(row: Row, lanes: int) -> Any:
    one = _callable(row)

    @numba.njit(nogil=True, _nrt=False)
    def loop(count: int, arguments: Any) -> None:
        for i in range(count):
            one(*arguments, i)

    @numba.njit(nogil=True, _nrt=False)
    def shared(count: int, arguments: Any) -> None:
        for i in range(count):
            for lane in range(lanes):
                one(*arguments, i, lane)

    return loop if lanes == 1 else shared


def _thread(row: Row, lanes: int = 1) -> Callable[..., None]:
    cuda = _numba_cuda()
    one = _callable(row)

    def thread(count: int, arguments: Any) -> None:
        i = cuda.grid(1)
        if i < count:
            one(*arguments, i)

    def shared(count: int, arguments: Any) -> None:
        number = cuda.grid(1)
        if number < count * lanes:
            one(*arguments, number // lanes, number % lanes)

    return thread if lanes == 1 else shared


@cache
def _kernel(row: Row, lanes: int = 1) -> Any:
    # linking at run time would fuse again; `jit(lto=False)(function)` would drop the option, in numba-cuda 0.30.4
    return _numba_cuda().jit(_thread(row, lanes), lto=False)


@contextmanager
def _rounded_twice() -> Iterator[None]:
    """Compile for CUDA without fusing multiplications and additions, for which numba-cuda has no option."""
    nvvm = _numba_cuda(".cudadrv.nvvm")
    compile_ir = nvvm.compile_ir
    if compile_ir.__module__ == __name__:  # within another one
        yield
        return

    def unfused(llvm_ir: Any, **options: Any) -> Any:
        return compile_ir(llvm_ir, **{**options, "fma": False})

    # replaced while a kernel compiles and put back at once: other users of numba-cuda keep their own settings
    nvvm.compile_ir = unfused
    try:
        yield
    finally:
        nvvm.compile_ir = compile_ir

"""Compilation of kernels, and random numbers inside them: NumPy's Philox and PCG64, bit by bit.

`uniforms` computes one row of the table of `draws`, at any place, without drawing the rows before it. `next_draw` is the number
that ``Generator(PCG64).integers(1 << 62)`` draws next, by which an environment picks its task and its episode's seed;
`next_word` is the generator's next 64 bits.

Sources: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (Philox4x64-10); O'Neill, PCG XSL-RR 128/64; NumPy's
documentation for how each is keyed and read.
"""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from types import ModuleType
from typing import Any

import numpy as np

from costgym.simulators.batch import plain
from costgym.simulators.draws import EIGHTHS, LN2_HIGH, LN2_LOW, LOGS, SEVENTH, SIXTH, SQRT_HALF, THIRD
from costgym.simulators.draws import decay as decay_in_python
from costgym.simulators.draws import log as log_in_python
from costgym.simulators.errors import require

numba = require("numba", "train")
prange = numba.prange  # `range`, whose numbers a `threaded` kernel shares among threads
_OPTIONS = {"nogil": True, "_nrt": False, "no_cfunc_wrapper": True}
"""Kernels never allocate, so reference counting is off: for the dozens of arrays of a call it would cost more than the work.
Fast math is off, so that sums keep their order."""


def _digest(*files: Path) -> bytes:
    """The SHA-256 of files, one after another."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()


_FOLDER = Path(__file__).parent
_BATCH_DIGEST = _digest(*sorted(_FOLDER.glob("*.py")), *sorted((_FOLDER.parent / "rules").glob("*.py")))
"""The digest of this folder and of the rule book, with which the stamp of every compiled kernel begins."""


INTERPRETED = bool(numba.config.DISABLE_JIT)
"""Nothing is compiled (`NUMBA_DISABLE_JIT=1`): kernels are functions of Python, which a debugger steps through."""


def unless_interpreted(plain_form: Callable[..., Any]) -> Callable[[Any], Any]:
    """Decorate a kernel that Python cannot run; `plain_form` stands in its place where nothing is compiled."""
    return lambda kernel: plain_form if INTERPRETED else kernel


def _ours(module: ModuleType) -> bool:
    return module.__name__.partition(".")[0] == __name__.partition(".")[0]


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a kernel, and keep it on disk.

    A kernel contains the functions that it calls. So it is compiled again when its file changes, or a file of this folder, or a
    module that its file imports as a module.
    """
    if INTERPRETED:
        return function
    try:
        kernel = numba.njit(cache=True, **_OPTIONS, **options)(function)
    except RuntimeError:  # no folder to keep the cache in, so every process compiles
        return numba.njit(**_OPTIONS, **options)(function)
    cache_file = getattr(kernel._cache, "_cache_file", None)
    if cache_file is not None:
        named = {part.__file__ for part in function.__globals__.values() if isinstance(part, ModuleType) and _ours(part)}
        sources = Path(function.__code__.co_filename), *map(Path, sorted(filter(None, named)))
        cache_file._source_stamp = _BATCH_DIGEST + _digest(*sources)
        cache_file._load_index = _or_empty(cache_file._load_index)
    return kernel


def say_compiling(kernel: Any, what: str) -> None:
    """Say once, on standard error unless logging is set up otherwise, that a kernel has to be compiled, which takes a while."""
    cache_file = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    if not INTERPRETED and cache_file is not None and what not in _announced and not cache_file._load_index():
        _announced.add(what)
        logging.getLogger("costgym").warning("costgym compiles %s, about a minute; what is compiled is kept on disk", what)


_announced: set[str] = set()


def _or_empty(load_index: Callable[[], dict[Any, Any]]) -> Callable[[], dict[Any, Any]]:
    """Numba unpickles an index before it checks its stamp; one that is damaged, or names a lost class, counts as empty."""

    def load() -> dict[Any, Any]:
        try:
            return load_index()
        except (AttributeError, ImportError, UnpicklingError, EOFError, ValueError):
            return {}

    return load


def internal(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a kernel that only other kernels call. Without an entry for Python it takes about half the time."""
    return compiled(function, no_cpython_wrapper=True, **options)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a kernel into its callers, for kernels that are small or called once."""
    return internal(function, forceinline=True)


def row(function: Callable[..., Any]) -> Any:
    """A kernel of one episode, which the loops over all episodes contain: compiled with each of them, not by itself."""
    return internal(function, inline="always")


def threaded(function: Callable[..., Any]) -> Any:
    """Compile a kernel whose loop over `prange` is shared among threads; `in_threads` calls it.

    Nothing is added up across threads: what a kernel returns as a whole, each part of the loop writes to a row of its own.
    """
    return compiled(function, parallel=True)


def in_threads(count: int, kernel: Callable[..., Any], *arguments: Any) -> Any:
    """Call a `threaded` kernel on a number of threads, which later calls of other kernels do not inherit."""
    before = numba.get_num_threads()
    numba.set_num_threads(count)
    try:
        return kernel(*arguments)
    finally:
        numba.set_num_threads(before)


def most_threads() -> int:
    """The largest number of threads that kernels can use on this machine."""
    return int(numba.config.NUMBA_NUM_THREADS)


_M0, _M1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_W0, _W1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_PCG_HIGH, _PCG_LOW = np.uint64(0x2360ED051FC65DA4), np.uint64(0x4385DF649FCCF645)
_ONE = np.uint64(1)
_ELEVEN, _TWO, _SIX, _WORD = np.uint64(11), np.uint64(2), np.uint64(58), np.uint64(64)
_MASK = np.uint64(63)
_UNIT = 2.0**-53


_LOGS = np.array(LOGS)


@numba.extending.intrinsic
def _bits(typing_context: Any, value: Any) -> Any:
    """The 64 bits of a float; Numba's own way to them does not compile for a GPU."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], require("llvmlite.ir", "train").IntType(64))

    return numba.types.int64(numba.types.float64), generate


@numba.extending.intrinsic
def _from_bits(typing_context: Any, bits: Any) -> Any:
    """The float of 64 bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], require("llvmlite.ir", "train").DoubleType())

    return numba.types.float64(numba.types.int64), generate


_MANTISSA, _EXPONENT_OF_HALF = np.int64(52), np.int64(1022)
_MANTISSA_BITS = np.int64((1 << 52) - 1)


@unless_interpreted(log_in_python)
@inlined
def log(value: float) -> float:
    """`draws.log`, step by step, of a number that is neither subnormal nor below zero."""
    # exponent and mantissa are taken apart by shifts: a GPU has no `frexp` that gives the same bits
    bits = _bits(value)
    power = (bits >> _MANTISSA) - _EXPONENT_OF_HALF
    part = _from_bits((bits & _MANTISSA_BITS) | (_EXPONENT_OF_HALF << _MANTISSA))
    if part < SQRT_HALF:
        part += part
        power -= 1
    near = np.int64(part * 128.0 + 0.5)
    centre = near * 0.0078125
    ratio = (part - centre) / (part + centre)
    square = ratio * ratio
    series = (ratio + ratio) * (1.0 + square * (THIRD + square * (0.2 + square * SEVENTH)))
    return power * LN2_HIGH + (_LOGS[near] + (power * LN2_LOW + series))


_EIGHTHS = np.array(EIGHTHS)


@unless_interpreted(decay_in_python)
@inlined
def decay(value: float) -> float:
    """`draws.decay`, step by step."""
    if value > 32.0:
        return 0.0
    near = np.int64(value * 8.0 + 0.5)
    rest = near * 0.125 - value
    series = 1.0 + rest * (1.0 + rest * (0.5 + rest * (SIXTH + rest * (SIXTH / 4.0 + rest * (SIXTH / 20.0)))))
    return _EIGHTHS[near] * series


@numba.extending.intrinsic
def _multiply(typing_context: Any, a: Any, b: Any) -> Any:
    """Both halves of a 64 by 64 bit product: (high, low)."""
    ir = require("llvmlite.ir", "train")
    word = numba.types.uint64
    signature = numba.types.UniTuple(word, 2)(word, word)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide, narrow = ir.IntType(128), ir.IntType(64)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), narrow)
        return context.make_tuple(builder, signature.return_type, (high, builder.trunc(product, narrow)))

    return signature, generate


@compiled
def philox(key_0: Any, key_1: Any, counter: Any) -> Any:
    """Compute one block of four words of Philox4x64-10, at a counter below 2**64."""
    c0, c1, c2, c3 = np.uint64(counter), np.uint64(0), np.uint64(0), np.uint64(0)
    k0, k1 = np.uint64(key_0), np.uint64(key_1)
    # ten rounds, as NumPy has it; with fewer the numbers would be others
    for _ in range(10):
        high_0, low_0 = _multiply(_M0, c0)
        high_1, low_1 = _multiply(_M1, c2)
        c0, c1, c2, c3 = high_1 ^ c1 ^ k0, low_1, high_0 ^ c3 ^ k1, low_0
        k0 += _W0
        k1 += _W1
    return c0, c1, c2, c3


@unless_interpreted(plain.uniforms)
@compiled
def uniforms(seed: Any, task: Any, index: Any) -> Any:
    """The four uniforms at an index (k * slots + slot) of an episode's table, in the order of `draws`' purposes."""
    # NumPy counts before it draws, so the first block is that of counter 1
    a, b, c, d = philox(seed, task, np.uint64(index) + _ONE)
    return (
        # the upper 53 bits, all that a float between 0 and 1 holds: NumPy makes its floats in the same way
        np.float64(a >> _ELEVEN) * _UNIT,
        np.float64(b >> _ELEVEN) * _UNIT,
        np.float64(c >> _ELEVEN) * _UNIT,
        np.float64(d >> _ELEVEN) * _UNIT,
    )


@unless_interpreted(plain.next_word)
@compiled
def next_word(streams: Any, i: Any) -> Any:
    """Advance stream i of `streams`, (n, 4) uint64: state and increment of each PCG64, high word first; draw 64 bits."""
    high, low = streams[i, 0], streams[i, 1]
    # state * multiplier + increment on 128 bits, in two words with a carry
    carry, product = _multiply(low, _PCG_LOW)
    carry += high * _PCG_LOW + low * _PCG_HIGH
    low = product + streams[i, 3]
    high = carry + streams[i, 2]
    if low < product:
        high += _ONE
    streams[i, 0], streams[i, 1] = high, low
    # XSL-RR: the halves are mixed and turned by the highest six bits
    word = high ^ low
    turn = high >> _SIX
    return (word >> turn) | (word << ((_WORD - turn) & _MASK))


@compiled
def next_draw(streams: Any, i: Any) -> Any:
    """Advance stream i and draw an integer below 2**62."""
    return next_word(streams, i) >> _TWO


@compiled
def draw_where(streams: Any, where: Any, draws: Any) -> None:
    """The next number of each environment of `where`: it picks the task and, where none is given, is the episode's seed."""
    for i in range(where.size):
        if where[i]:
            draws[i] = next_draw(streams, i)


def stream_words(seed: int | None) -> tuple[int, int, int, int]:
    """The state of the PCG64 that Gymnasium seeds with this number, as four words for `next_draw`."""
    # only the seeding is NumPy's; from here on kernels draw, without the interpreter
    inner = np.random.PCG64(np.random.SeedSequence(seed)).state["state"]
    word = (1 << 64) - 1
    state, increment = int(inner["state"]), int(inner["inc"])
    return state >> 64, state & word, increment >> 64, increment & word

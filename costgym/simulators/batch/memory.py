"""Memory operations for kernels: copy or clear whole rows at once, and prefetch cache lines.

On a GPU, where there is no block copy, a row is copied or cleared word by word.
"""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from collections.abc import Sequence
from typing import Any

import numpy as np

from costgym.simulators.batch import plain
from costgym.simulators.batch.rng import INTERPRETED, numba, unless_interpreted
from costgym.simulators.errors import require


def record_type(fields: Sequence[tuple[Any, ...]]) -> np.dtype[Any]:
    """The type of records with these fields, aligned as the processor wants them."""
    kind = np.dtype(list(fields), align=True)
    # kernels read fields as attributes, which NumPy offers for records of this class only
    return np.dtype((np.record, kind)) if INTERPRETED else kind


def _on_gpu(context: Any) -> bool:
    return type(context).__name__ == "CUDATargetContext"


def _word(array: Any) -> int:
    """Bytes of the largest word that divides the elements of an array type and suits their alignment."""
    dtype = numba.np.numpy_support.as_dtype(array.dtype)
    return int(min(8, dtype.alignment))


def _words(builder: Any, place: Any, size: Any, word: int) -> Any:
    """A pointer to words, and their number."""
    ir = require("llvmlite.ir", "train")
    return builder.bitcast(place, ir.IntType(8 * word).as_pointer()), builder.udiv(size, ir.Constant(size.type, word))


def _row(context: Any, builder: Any, kind: Any, array: Any, i: Any) -> tuple[Any, Any]:
    """The address of row i of an array, and its size in bytes."""
    found = context.make_array(kind)(context, builder, array)
    size = numba.core.cgutils.unpack_tuple(builder, found.strides)[0]
    byte = require("llvmlite.ir", "train").IntType(8).as_pointer()
    return builder.gep(builder.bitcast(found.data, byte), [builder.mul(i, size)]), size


@unless_interpreted(plain.copy_row)
@numba.extending.intrinsic
def copy_row(typing_context: Any, target: Any, i: Any, source: Any, j: Any) -> Any:
    """``target[i] = source[j]`` in one copy of memory; both are contiguous and of one type but for the length."""
    signature = numba.types.void(target, numba.types.int64, source, numba.types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = [_row(context, builder, signature.args[k], *arguments[k : k + 2]) for k in (0, 2)]
        places, size = [place for place, _ in rows], rows[0][1]
        # NVVM has no call for a block of memory, and byte by byte would be eight times as many accesses
        if _on_gpu(context):
            word = min(_word(signature.args[0]), _word(signature.args[2]))
            (to, count), (of, _) = (_words(builder, place, size, word) for place in places)
            with numba.core.cgutils.for_range(builder, count) as loop:
                builder.store(builder.load(builder.gep(of, [loop.index])), builder.gep(to, [loop.index]))
        else:
            numba.core.cgutils.raw_memcpy(builder, *places, size, 1, align=1)
        return context.get_dummy_value()

    return signature, generate


@unless_interpreted(plain.clear_row)
@numba.extending.intrinsic
def clear_row(typing_context: Any, target: Any, i: Any) -> Any:
    """Set all bytes of ``target[i]`` to zero, in a contiguous array."""
    signature = numba.types.void(target, numba.types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, size = _row(context, builder, signature.args[0], *arguments)
        if _on_gpu(context):
            word = _word(signature.args[0])
            to, count = _words(builder, place, size, word)
            with numba.core.cgutils.for_range(builder, count) as loop:
                zero = require("llvmlite.ir", "train").IntType(8 * word)(0)
                builder.store(zero, builder.gep(to, [loop.index]))
        else:
            numba.core.cgutils.memset(builder, place, size, 0)
        return context.get_dummy_value()

    return signature, generate


def _prefetching(writes: bool) -> Any:
    """A prefetch of the memory at ``array[i]`` plus some bytes, to read it, or to write to it too."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        ir = require("llvmlite.ir", "train")
        whole, byte = ir.IntType(32), ir.IntType(8).as_pointer()
        place, _ = _row(context, builder, signature.args[0], *arguments[:2])
        address = builder.gep(place, [arguments[2]])
        hint = numba.core.cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole]), "llvm.prefetch.p0i8"
        )
        builder.call(hint, [address, ir.Constant(whole, int(writes)), ir.Constant(whole, 3), ir.Constant(whole, 1)])
        return context.get_dummy_value()

    def prefetch(typing_context: Any, array: Any, i: Any, offset: Any) -> Any:
        return numba.types.void(array, numba.types.int64, numba.types.int64), generate

    return plain.prefetch if INTERPRETED else numba.extending.intrinsic(prefetch)


prefetch = _prefetching(writes=False)
"""``prefetch(array, i, offset)``, of what threads share: a line that is fetched to be written to is taken from them."""
prefetch_own = _prefetching(writes=True)  # the same of what this thread alone writes to


@unless_interpreted(plain.lowest_bit)
@numba.extending.intrinsic
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """The place of the lowest bit that is set in 64 bits which are not all zero; Numba's own does not compile for a GPU."""
    signature = numba.types.int64(numba.types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], require("llvmlite.ir", "train").IntType(1)(1))

    return signature, generate

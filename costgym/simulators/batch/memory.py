"""Memory operations for kernels: copy or clear whole rows at once, and prefetch cache lines.

On a GPU, where there is no block copy, a row is copied or cleared word by word, by one thread or by several together.
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


def _word(*arrays: Any) -> int:
    """Bytes of the largest word that divides the elements of some types of arrays and suits their alignment."""
    return min(8, *(int(numba.np.numpy_support.as_dtype(array.dtype).alignment) for array in arrays))


def _move(builder: Any, places: Sequence[Any], size: Any, word: int, lane: Any, lanes: Any) -> None:
    """Copy the second of two places in memory to the first, or clear the only one: by words of 16 bytes, where all are aligned
    to 16, and otherwise by smaller ones, of which the first is number `lane` and the next ones follow `lanes` further on."""
    ir, cgutils = require("llvmlite.ir", "train"), numba.core.cgutils

    def loop(kind: Any, width: int) -> None:
        words = [builder.bitcast(place, kind.as_pointer()) for place in places]
        count = builder.udiv(size, ir.Constant(size.type, width))
        with cgutils.for_range_slice(builder, lane, count, lanes, inc=True) as (index, _):
            of = [builder.gep(each, [index]) for each in words]
            moved = ir.Constant(kind, None) if len(of) == 1 else builder.load(of[1], align=width)
            builder.store(moved, of[0], align=width)

    bits = size
    for place in places:
        bits = builder.or_(bits, builder.ptrtoint(place, size.type))
    odd = builder.and_(bits, ir.Constant(size.type, 15))
    with builder.if_else(builder.icmp_unsigned("==", odd, ir.Constant(size.type, 0))) as (wide, narrow):
        with wide:
            loop(ir.VectorType(ir.IntType(64), 2), 16)
        with narrow:
            loop(ir.IntType(8 * word), word)


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
            _move(builder, places, size, _word(signature.args[0], signature.args[2]), size.type(0), size.type(1))
        else:
            numba.core.cgutils.raw_memcpy(builder, *places, size, 1, align=1)
        return context.get_dummy_value()

    return signature, generate


@unless_interpreted(plain.copy_share)
@numba.extending.intrinsic
def copy_share(typing_context: Any, target: Any, i: Any, source: Any, j: Any, lane: Any, lanes: Any) -> Any:
    """The share of one of the `lanes` that do `copy_row` together, next to each other in memory at every moment."""
    whole = numba.types.int64
    signature = numba.types.void(target, whole, source, whole, whole, whole)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = [_row(context, builder, signature.args[k], *arguments[k : k + 2]) for k in (0, 2)]
        places, size = [place for place, _ in rows], rows[0][1]
        _move(builder, places, size, _word(signature.args[0], signature.args[2]), *arguments[4:])
        return context.get_dummy_value()

    return signature, generate


@unless_interpreted(plain.take_place)
@numba.extending.intrinsic
def take_place(typing_context: Any, counter: Any) -> Any:
    """Add one to the only number of an array, whoever else does; returns what it was."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, _ = _row(context, builder, signature.args[0], arguments[0], require("llvmlite.ir", "train").IntType(64)(0))
        word = require("llvmlite.ir", "train").IntType(64)
        return builder.atomic_rmw("add", builder.bitcast(place, word.as_pointer()), word(1), "monotonic")

    return numba.types.int64(counter), generate


@unless_interpreted(plain.clear_row)
@numba.extending.intrinsic
def clear_row(typing_context: Any, target: Any, i: Any) -> Any:
    """Set all bytes of ``target[i]`` to zero, in a contiguous array."""
    signature = numba.types.void(target, numba.types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, size = _row(context, builder, signature.args[0], *arguments)
        if _on_gpu(context):
            _move(builder, [place], size, _word(signature.args[0]), size.type(0), size.type(1))
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

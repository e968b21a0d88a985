"""Memory operations for kernels: copy or clear whole rows at once, and prefetch cache lines.

On a GPU, where there is no block copy, a row is copied or cleared word by word, by one thread or by several together.
"""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from collections.abc import Sequence
from typing import Any

import numpy as np

from costgym.simulators.batch import plain
from costgym.simulators.batch.blocks import WARP, WORD, is_block
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


def _move(builder: Any, addresses: Sequence[Any], size: Any, word: int, lane: Any, lanes: Any) -> None:
    """Copy from the second of two addresses to the first, or clear what is at the only one: by words of 16 bytes, where all are
    aligned to 16, and otherwise by smaller ones, of which the first is number `lane` and the next ones follow `lanes` further
    on."""
    ir, cgutils = require("llvmlite.ir", "train"), numba.core.cgutils

    def loop(kind: Any, width: int) -> None:
        words = [builder.bitcast(address, kind.as_pointer()) for address in addresses]
        count = builder.udiv(size, ir.Constant(size.type, width))
        with cgutils.for_range_slice(builder, lane, count, lanes, inc=True) as (index, _):
            at = [builder.gep(word, [index]) for word in words]
            moved = ir.Constant(kind, None) if len(at) == 1 else builder.load(at[1], align=width)
            builder.store(moved, at[0], align=width)

    bits = size
    for address in addresses:
        bits = builder.or_(bits, builder.ptrtoint(address, size.type))
    odd = builder.and_(bits, ir.Constant(size.type, 15))
    with builder.if_else(builder.icmp_unsigned("==", odd, ir.Constant(size.type, 0))) as (wide, narrow):
        with wide:
            loop(ir.VectorType(ir.IntType(64), 2), 16)
        with narrow:
            loop(ir.IntType(8 * word), word)


def _row(context: Any, builder: Any, kind: Any, array: Any, i: Any) -> tuple[Any, Any]:
    """The address of row i of an array, and its size in bytes."""
    array_parts = context.make_array(kind)(context, builder, array)
    size = numba.core.cgutils.unpack_tuple(builder, array_parts.strides)[0]
    byte = require("llvmlite.ir", "train").IntType(8).as_pointer()
    return builder.gep(builder.bitcast(array_parts.data, byte), [builder.mul(i, size)]), size


def _in_blocks(array: Any) -> bool:
    return is_block(numba.np.numpy_support.as_dtype(array.dtype))


def _record(context: Any, builder: Any, kind: Any, array: Any, i: Any, *columns: Any) -> Any:
    """The address of the record of row i in a column of an array, or of the first of its words that lie in a block."""
    array_parts = context.make_array(kind)(context, builder, array)
    blocks = _in_blocks(kind)
    row = builder.udiv(i, i.type(WARP)) if blocks else i
    address = numba.core.cgutils.get_item_pointer(context, builder, kind, array_parts, [row, *columns])
    if not blocks:
        return address
    first = builder.bitcast(address, require("llvmlite.ir", "train").IntType(64).as_pointer())
    return builder.bitcast(builder.gep(first, [builder.urem(i, i.type(WARP))]), address.type)


def _move_apart(builder: Any, addresses: Sequence[Any], count: Any) -> None:
    """As `_move`, for a number of words of one episode in blocks, which lie 32 words apart."""
    word = require("llvmlite.ir", "train").IntType(64)
    words = [builder.bitcast(address, word.as_pointer()) for address in addresses]
    with numba.core.cgutils.for_range(builder, count) as loop:
        at = [builder.gep(first, [builder.mul(loop.index, loop.index.type(WARP))]) for first in words]
        builder.store(word(0) if len(at) == 1 else builder.load(at[1]), at[0])


@unless_interpreted(plain.record_at)
@numba.extending.intrinsic
def record_at(typing_context: Any, array: Any, i: Any) -> Any:
    """The record of episode i in an array of one for each, in whatever layout. Its fields are those in the array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _record(context, builder, signature.args[0], *arguments)

    return array.dtype(array, numba.types.int64), generate


@unless_interpreted(plain.record_in)
@numba.extending.intrinsic
def record_in(typing_context: Any, array: Any, i: Any, column: Any) -> Any:
    """The record of episode i in a column of an array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _record(context, builder, signature.args[0], *arguments)

    return array.dtype(array, numba.types.int64, numba.types.int64), generate


@unless_interpreted(plain.copy_in)
@numba.extending.intrinsic
def copy_in(typing_context: Any, array: Any, i: Any, target: Any, source: Any) -> Any:
    """Copy the record of episode i in one column of an array to another column."""
    whole = numba.types.int64
    signature = numba.types.void(array, whole, whole, whole)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, (array, i, *columns) = signature.args[0], arguments
        addresses = [_record(context, builder, kind, array, i, column) for column in columns]
        size = arguments[1].type(kind.dtype.size)
        if _in_blocks(kind):
            _move_apart(builder, addresses, arguments[1].type(kind.dtype.size // (WARP * WORD)))
        elif _on_gpu(context):
            _move(builder, addresses, size, _word(kind), size.type(0), size.type(1))
        else:
            numba.core.cgutils.raw_memcpy(builder, *addresses, size, 1, align=1)
        return context.get_dummy_value()

    return signature, generate


@unless_interpreted(plain.copy_row)
@numba.extending.intrinsic
def copy_row(typing_context: Any, target: Any, i: Any, source: Any, j: Any) -> Any:
    """``target[i] = source[j]`` in one copy of memory; both are contiguous and of one type but for the length."""
    signature = numba.types.void(target, numba.types.int64, source, numba.types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = [_row(context, builder, signature.args[k], *arguments[k : k + 2]) for k in (0, 2)]
        addresses, size = [address for address, _ in rows], rows[0][1]
        # NVVM has no call for a block of memory, and byte by byte would be eight times as many accesses
        if _on_gpu(context):
            _move(builder, addresses, size, _word(signature.args[0], signature.args[2]), size.type(0), size.type(1))
        else:
            numba.core.cgutils.raw_memcpy(builder, *addresses, size, 1, align=1)
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
        addresses, size = [address for address, _ in rows], rows[0][1]
        _move(builder, addresses, size, _word(signature.args[0], signature.args[2]), *arguments[4:])
        return context.get_dummy_value()

    return signature, generate


@unless_interpreted(plain.take_place)
@numba.extending.intrinsic
def take_place(typing_context: Any, counter: Any) -> Any:
    """Add one to the only number of an array, whoever else does; returns what it was."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, _ = _row(context, builder, signature.args[0], arguments[0], require("llvmlite.ir", "train").IntType(64)(0))
        word = require("llvmlite.ir", "train").IntType(64)
        return builder.atomic_rmw("add", builder.bitcast(address, word.as_pointer()), word(1), "monotonic")

    return numba.types.int64(counter), generate


@unless_interpreted(plain.clear_row)
@numba.extending.intrinsic
def clear_row(typing_context: Any, target: Any, i: Any) -> Any:
    """Set all bytes of ``target[i]`` to zero, in a contiguous array, or those of episode i in an array of blocks."""
    signature = numba.types.void(target, numba.types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, (array, i) = signature.args[0], arguments
        blocks = _in_blocks(kind)
        address, size = _row(context, builder, kind, array, builder.udiv(i, i.type(WARP)) if blocks else i)
        if blocks:
            first = builder.gep(address, [builder.mul(builder.urem(i, i.type(WARP)), i.type(WORD))])
            _move_apart(builder, [first], builder.udiv(size, size.type(WARP * WORD)))
        elif _on_gpu(context):
            _move(builder, [address], size, _word(signature.args[0]), size.type(0), size.type(1))
        else:
            numba.core.cgutils.memset(builder, address, size, 0)
        return context.get_dummy_value()

    return signature, generate


def _prefetching(writes: bool) -> Any:
    """A prefetch of the memory at ``array[i]`` plus some bytes, to read it, or to write to it too."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        ir = require("llvmlite.ir", "train")
        whole, byte = ir.IntType(32), ir.IntType(8).as_pointer()
        address, _ = _row(context, builder, signature.args[0], *arguments[:2])
        address = builder.gep(address, [arguments[2]])
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
    """The number of the lowest bit that is set in 64 bits which are not all zero; Numba's own does not compile for a GPU."""
    signature = numba.types.int64(numba.types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], require("llvmlite.ir", "train").IntType(1)(1))

    return signature, generate

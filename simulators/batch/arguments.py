"""Arguments of a kernel that are unpacked once and not at every call.

Numba looks into each array among a kernel's arguments at each call. That takes 11 microseconds for the arrays of a step, and
0.7 with this module (`benchmarks/tricks.py`, one core of a shared Xeon, 2026-11-25): next to nothing beside a large batch, but
several times what one episode's step takes. `BoundArguments` writes into memory what it finds there, and `bound_arguments`
reads it from there, inside a kernel that is given nothing else.
"""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from operator import is_not
from typing import Any

import numpy as np

from .rng import compiled, numba

_extending, _types = numba.extending, numba.types


class BoundArgumentsType(_types.Type):  # type: ignore[name-defined]
    """The type of a `BoundArguments`, by that of its arguments."""

    def __init__(self, content: Any) -> None:
        self.content = content
        super().__init__(name=f"BoundArguments({content})")

    @property
    def key(self) -> Any:
        return self.content


_extending.register_model(BoundArgumentsType)(_extending.models.OpaqueModel)


@_extending.unbox(BoundArgumentsType)
def _unbox(_: Any, found: Any, call: Any) -> Any:
    number = call.pyapi.object_getattr_string(found, "address")
    address = call.pyapi.long_as_voidptr(number)
    call.pyapi.decref(number)
    return _extending.NativeValue(address)


@_extending.intrinsic
def _size(typing_context: Any, content: Any) -> Any:
    """Bytes that a value takes in memory."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.data_model_manager[signature.args[0]].get_data_type()
        return context.get_constant(_types.intp, context.get_abi_sizeof(kind))

    return _types.intp(content), generate


@_extending.intrinsic
def _store(typing_context: Any, memory: Any, content: Any) -> Any:
    """Write a value into an array of bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        data = context.data_model_manager[signature.args[1]].as_data(builder, arguments[1])
        builder.store(data, builder.bitcast(array.data, data.type.as_pointer()))
        return context.get_dummy_value()

    return _types.void(memory, content), generate


@_extending.intrinsic
def bound_arguments(typing_context: Any, bound: Any) -> Any:
    """The tuple that a `BoundArguments` holds; what the kernel does not use of it is not read."""

    def load(context: Any, builder: Any, kind: Any, place: Any) -> Any:
        if not isinstance(kind, _types.BaseTuple):
            return context.data_model_manager[kind].load_from_data_pointer(builder, place)
        # part by part: LLVM then drops the loads of arrays that a kernel does not use
        parts = [
            load(context, builder, part, numba.core.cgutils.gep_inbounds(builder, place, 0, number))
            for number, part in enumerate(kind.types)
        ]
        return context.make_tuple(builder, kind, parts)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = context.data_model_manager[signature.return_type].get_data_type()
        return load(context, builder, signature.return_type, builder.bitcast(values[0], kind.as_pointer()))

    return bound.content(bound), generate


@compiled
def _size_of(content: Any) -> Any:
    return _size(content)


@compiled
def _write(memory: Any, content: Any) -> None:
    _store(memory, content)


class BoundArguments:
    """A tuple of arrays (whose content may change) and numbers for kernels: `content`, which keeps it alive, at `address`."""

    __slots__ = ("_memory", "_numba_type_", "address", "content")

    def __init__(self, content: tuple[Any, ...]) -> None:
        self.content = content
        # words of eight bytes, so that the memory is aligned as Numba's structures want it
        self._memory = np.zeros(-(-int(_size_of(content)) // 8), np.uint64).view(np.uint8)
        _write(self._memory, content)
        self.address = self._memory.ctypes.data
        self._numba_type_ = BoundArgumentsType(numba.typeof(content))

    def __reduce__(self) -> Any:
        return BoundArguments, (self.content,)  # a copy has addresses of its own


def rebound(bound: BoundArguments | None, content: tuple[Any, ...]) -> BoundArguments:
    """The bound arguments of a tuple: those that there are, or new ones where a part is another object now."""
    return BoundArguments(content) if bound is None or any(map(is_not, bound.content, content)) else bound

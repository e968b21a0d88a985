"""Arguments of a kernel that are unpacked once and not at every call.

Numba looks into each array among a kernel's arguments at each call. That takes 11 microseconds for the arrays of a step, and
0.7 with this module (one core of a shared Xeon, 2026-11-25): next to nothing beside a large batch, but
several times what one episode's step takes. `BoundArguments` writes into memory what it finds there, and `bound_arguments`
reads it from there, inside a kernel that is given nothing else.
"""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from operator import is_not
from typing import Any

import numpy as np

from costgym.simulators.batch import plain
from costgym.simulators.batch.rng import INTERPRETED, compiled, numba, unless_interpreted
from costgym.simulators.errors import require

_extending, _types = numba.extending, numba.types


class BoundArgumentsType(_types.Type):  # type: ignore[name-defined]
    """The type of a `BoundArguments`, and of a named tuple among its arguments. Kernels read the parts where they use them, and
    pass one pointer to a kernel that is not inlined; the tuple itself would be hundreds of words."""

    def __init__(self, content: Any) -> None:
        self.content = content
        super().__init__(name=f"BoundArguments({content})")

    @property
    def key(self) -> Any:
        return self.content


_extending.register_model(BoundArgumentsType)(_extending.models.OpaqueModel)


@_extending.unbox(BoundArgumentsType)
def _unbox(_: Any, bound: Any, call: Any) -> Any:
    number = call.pyapi.object_getattr_string(bound, "address")
    address = call.pyapi.long_as_voidptr(number)
    call.pyapi.decref(number)
    return _extending.NativeValue(address)


@_extending.intrinsic
def _store(typing_context: Any, memory: Any, content: Any) -> Any:
    """Write a value into an array of bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        data = context.data_model_manager[signature.args[1]].as_data(builder, arguments[1])
        builder.store(data, builder.bitcast(array.data, data.type.as_pointer()))
        return context.get_dummy_value()

    return _types.void(memory, content), generate


def _in_place(kind: Any) -> Any:
    return BoundArgumentsType(kind) if isinstance(kind, _types.BaseNamedTuple) else kind


def _part(context: Any, builder: Any, content: Any, memory: Any, number: int) -> Any:
    """A part of a tuple in memory that nobody changes, so that LLVM may read it once, again or never."""
    types = require("llvmlite.ir", "train")
    model = context.data_model_manager[content.types[number]]

    def load(of: Any, at: Any) -> Any:
        if not isinstance(of, types.Aggregate):
            value = builder.load(at)
            value.set_metadata("invariant.load", builder.module.add_metadata([]))
            return value
        # number by number: of a load in one piece LLVM forgets that it is invariant, and steps take half as long again
        whole = types.Constant(of, types.Undefined)
        for k in range(len(of)):
            inside = load(of.gep(types.IntType(32)(k)), numba.core.cgutils.gep_inbounds(builder, at, 0, k))
            whole = builder.insert_value(whole, inside, k)
        return whole

    kind = context.data_model_manager[content].get_data_type()
    pointer = numba.core.cgutils.gep_inbounds(builder, builder.bitcast(memory, kind.as_pointer()), 0, number)
    if isinstance(content.types[number], _types.BaseNamedTuple):
        return builder.bitcast(pointer, memory.type)
    return model.from_data(builder, load(model.get_data_type(), pointer))


@_extending.infer_getattr
class _Parts(numba.core.typing.templates.AttributeTemplate):  # type: ignore[name-defined]
    key = BoundArgumentsType

    def generic_resolve(self, bound: Any, name: str) -> Any:
        return _in_place(bound.content.types[bound.content.fields.index(name)])


@_extending.lower_getattr_generic(BoundArgumentsType)
def _get(context: Any, builder: Any, bound: Any, memory: Any, name: str) -> Any:
    return _part(context, builder, bound.content, memory, bound.content.fields.index(name))


@unless_interpreted(plain.bound_arguments)
@_extending.intrinsic
def bound_arguments(typing_context: Any, bound: Any) -> Any:
    """The tuple that a `BoundArguments` holds, with its named tuples left where they are."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        parts = [_part(context, builder, bound.content, values[0], number) for number in range(len(bound.content))]
        return context.make_tuple(builder, signature.return_type, parts)

    return _types.Tuple([_in_place(kind) for kind in bound.content.types])(bound), generate


@compiled
def _write(memory: Any, content: Any) -> None:
    _store(memory, content)


class BoundArguments:
    """A tuple of arrays (whose content may change) and numbers for kernels: `content`, which keeps it alive, at `address`."""

    __slots__ = ("_memory", "_numba_type_", "address", "content")

    def __init__(self, content: tuple[Any, ...]) -> None:
        self.content = content
        if INTERPRETED:
            return
        kind = numba.typeof(content)
        target = numba.core.registry.cpu_target.target_context
        size = target.get_abi_sizeof(target.data_model_manager[kind].get_data_type())
        # words of eight bytes, so that the memory is aligned as Numba's structures want it
        self._memory = np.zeros(-(-size // 8), np.uint64).view(np.uint8)
        _write(self._memory, content)
        self.address = self._memory.ctypes.data
        self._numba_type_ = BoundArgumentsType(kind)

    def __reduce__(self) -> Any:
        return BoundArguments, (self.content,)  # a copy has addresses of its own


def rebound(bound: BoundArguments | None, content: tuple[Any, ...]) -> BoundArguments:
    """The bound arguments of a tuple: those that there are, or new ones where a part is another object now."""
    return BoundArguments(content) if bound is None or any(map(is_not, bound.content, content)) else bound

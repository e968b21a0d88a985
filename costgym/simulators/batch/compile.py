"""Compile the rule book for arrays of records.

A rule is compiled from its own code, with other globals: `rules.layout` is `records` there, other rules are their compiled
forms, and a `Status` is its number. A debugger that steps through a kernel under `NUMBA_DISABLE_JIT=1` shows the rule itself.
"""

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

from costgym.simulators.batch.rng import inlined, internal
from costgym.simulators.rules import layout
from costgym.simulators.status import Status

BY_THEMSELVES = frozenset(
    {"advance", "complete", "complete_in_session", "end", "end_query", "happen", "reach", "refuse", "start_waiting", "step"}
)
"""Functions that are compiled once and called. All others are small or called once, and compiled into their callers."""


def compiled_form(
    book: Sequence[ModuleType], records: ModuleType, instead: Mapping[Callable[..., Any], Callable[..., Any]] | None = None
) -> dict[str, ModuleType]:
    """Modules with the compiled forms of the rules in `book` and of the functions in `records`, by their last names. Rules that
    `records` calls give way to others where `instead` says so."""
    sources = (*book, records)
    spaces = {source.__name__: dict(vars(source)) for source in sources}
    kernels: dict[FunctionType, Any] = {}
    for source in sources:
        for name, function in vars(source).items():
            if isinstance(function, FunctionType) and function.__module__ == source.__name__:
                copy = FunctionType(function.__code__, spaces[source.__name__], name, function.__defaults__)
                kernels[function] = (internal if name in BY_THEMSELVES else inlined)(copy)
    modules = {name: ModuleType(name) for name in spaces}
    for source in sources:
        space, module = spaces[source.__name__], modules[source.__name__]
        for name, value in space.items():
            if isinstance(value, FunctionType):
                rule: Any = (instead or {}).get(value, value) if source is records else value
                space[name] = kernels.get(rule, rule)
            elif isinstance(value, Status):
                space[name] = int(value)
            elif value is layout:
                space[name] = modules[records.__name__]
        vars(module).update({name: value for name, value in space.items() if not name.startswith("__")})
        module.__file__ = source.__file__
    return {name.rpartition(".")[2]: module for name, module in modules.items()}

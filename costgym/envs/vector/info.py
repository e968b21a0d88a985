"""The figures of `info` for N episodes of a tool world, as `tool_world.ToolEnv` computes them for one."""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.batch.rng import inlined
from costgym.simulators.ledger import RESOURCES
from costgym.simulators.world.writes import WriteFigures

FIGURES = (
    "cost_price", "cost_seconds", "cost_sum",
    "budget_remaining_price", "budget_remaining_seconds", "budget_remaining_tokens", "budget_remaining_calls", "at_s",
)  # fmt: skip
"""Rows of `Out.figures`."""
COUNTS = ("cost_tokens", "cost_calls", "status")  # rows of `Out.counts`
WRITTEN = WriteFigures._fields  # rows of `Out.written`, which only worlds with writes have


@inlined
def spent(e: Any) -> Any:
    """What an episode has spent: price, seconds, tokens and calls. `report` tells what was added to it since."""
    return e.price, e.now, e.tokens, e.calls


NOTHING_SPENT = 0.0, 0.0, np.int32(0), np.int32(0)  # what an episode that has just begun had spent, in the types of `spent`


@inlined
def report(rules: Any, view: Any, out: Any, e: Any, i: int, before: Any) -> Any:
    """Write the figures of an episode, given what it had spent `before`; return this step's cost and its success."""
    success = e.over and e.exceeded == 0 and (e.judged if view.judged else e.strict)
    cost = e.price - before[0]
    out.success[i] = success
    figures, counts = out.figures, out.counts
    figures[0, i], figures[1, i] = cost, e.now - before[1]
    total = e.price
    if view.resource == 1:
        total = e.now
    elif view.resource == 2:
        total = np.float64(e.tokens)
    elif view.resource == 3:
        total = np.float64(e.calls)
    figures[2, i] = total
    figures[3, i], figures[4, i] = rules.price_limit - e.price, rules.seconds_limit - e.now
    figures[5, i], figures[6, i] = rules.tokens_limit - e.tokens, rules.calls_limit - e.calls
    figures[7, i] = e.now
    counts[0, i], counts[1, i], counts[2, i] = e.tokens - before[2], e.calls - before[3], e.status
    return cost, success


def duplicate(array: Any) -> Any:
    """A copy of a NumPy array or of a PyTorch tensor."""
    return array.copy() if isinstance(array, np.ndarray) else array.clone()


_TYPES = {name: type(value) for name, value in WriteFigures()._asdict().items()}


def _of_type(array: Any, kind: type) -> Any:
    """A copy of an array or a tensor as booleans, whole numbers or floats."""
    if isinstance(array, np.ndarray):
        return array.astype(kind)
    return array.bool() if kind is bool else array.long() if kind is int else array.clone()


def as_mask(array: Any, kind: type) -> Any:
    """A mask of booleans as such or, where `kind` is `np.int8`, as numbers."""
    if isinstance(array, np.ndarray):
        return array.view(kind)
    return array if kind is np.bool_ else array.char()


def figures_info(out: Any, cost: str) -> dict[str, NDArray[Any]]:
    """The keys of the scalar environment's `info` as arrays of N; `cost` is the resource that ``info["cost"]`` reports."""
    info: dict[str, NDArray[Any]] = dict(zip(FIGURES, out.figures, strict=True))
    info.update(zip(COUNTS, out.counts, strict=True))
    info["is_success"] = out.success
    if hasattr(out, "written") and out.written.shape[0] == len(WRITTEN):  # sessions write nothing
        info.update({name: _of_type(row, kind) for (name, kind), row in zip(_TYPES.items(), out.written, strict=True)})
    info["action_mask"] = duplicate(out.mask)
    info["cost"] = duplicate(info[f"cost_{cost}"])
    if RESOURCES.index(cost) >= 2:  # tokens and calls are whole numbers
        info["cost_sum"] = _of_type(info["cost_sum"], int)
    return info

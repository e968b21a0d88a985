"""Read plan pools: plans that OpenCATP executed, with their scores, times and memory.

Two forms are read: JSON (``{"plans": [{"task_id", "sample_id", "plan", "score", "score_kind", "tool_exec_time_ms",
"tool_cpu_inst_mb", "tool_gpu_inst_mb"}, ...]}``) and the official pickle. A pickle can run anything when it is loaded; this
reader admits the pool's own plain data alone, and refuses the file at the first other name in it.
"""

import io
import pickle
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from costgym.simulators.bounds import what_is_wrong
from costgym.simulators.errors import DataError, InvalidPlan
from costgym.simulators.files import read_bytes, read_json
from costgym.simulators.opencatp.profile import Profile, v100
from costgym.simulators.opencatp.tools import ALIASES, TOOLS
from costgym.simulators.plan import Plan

MAX_POOL_BYTES = 512 * 2**20
_BY_TOOL = ("tool_exec_time_ms", "tool_cpu_inst_mb", "tool_gpu_inst_mb")
_FIELDS = ("plans", "scores", "tools_exec_time", "tools_cpu_mem", "tools_gpu_mem")


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """A plan that was executed on one sample."""

    task_id: int  #: number of the task in the old numbering
    sample_id: int
    plan: Plan
    score: float  #: the recorded score; `vit_score` is a distance of image features, see :attr:`task_score`
    score_kind: str  #: ``vit_score``, ``bert_score`` or ``multi_score``
    #: time_ms, cpu_inst_mb, gpu_inst_mb: duration and instant memory by tool, in the plan's order
    time_ms: tuple[float, ...]
    cpu_inst_mb: tuple[float, ...]
    gpu_inst_mb: tuple[float, ...]
    price_usd: float | None = None  #: price recorded with the plan, where there is one

    @property
    def task_score(self) -> float:
        """The score in the official code's form, in which image distances are divided by 100."""
        return self.score / 100.0 if self.score_kind == "vit_score" else self.score

    def price(self, profile: Profile | None = None) -> float:
        """Price of the plan from the recorded times and a profile's constant memory (default V100), USD."""
        machine = v100() if profile is None else profile
        runs = zip(self.plan.nodes, self.time_ms, self.cpu_inst_mb, self.gpu_inst_mb, strict=True)
        return sum(
            machine.pricing.price(ms, machine.tools[tool].cpu_cons_mb, cpu, machine.tools[tool].gpu_cons_mb, gpu)
            for tool, ms, cpu, gpu in runs
        )

    def seconds(self) -> float:
        """Time of the plan from the recorded times where branches run at once, seconds."""
        return self.plan.execution_time(dict(zip(self.plan.nodes, (ms / 1000.0 for ms in self.time_ms), strict=True)))


_Number = Annotated[int, Field(strict=True, ge=0)]
_Figure = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class _Record(BaseModel):
    """A plan as a file holds it, before the plan itself is read."""

    task_id: _Number
    sample_id: _Number
    plan: Any
    score: _Figure
    score_kind: Literal["vit_score", "bert_score", "multi_score"]
    tool_exec_time_ms: list[Annotated[_Figure, Field(ge=0)]]
    tool_cpu_inst_mb: list[_Figure]
    tool_gpu_inst_mb: list[_Figure]
    plan_price_usd: _Figure | None = None


def load_pool(path: str | Path) -> tuple[PoolPlan, ...]:
    """Read all plans of a pool, from JSON or the official pickle (``.pkl``, ``.pickle``).

    Raises:
        DataError: The file is missing or damaged, asks for anything but plain data, or holds a record that is no executed plan;
            the message names the record.
    """
    file = Path(path)
    if not file.is_file():
        raise DataError(file, "no such plan pool; give the path of a .json or .pkl file")
    if file.suffix in (".pkl", ".pickle"):
        return tuple(_from_pickle(file))
    record = read_json(file, MAX_POOL_BYTES, follow=True)
    plans = record.get("plans") if isinstance(record, dict) else None
    if not isinstance(plans, list):
        raise DataError(file, 'expected {"plans": [...]}')
    return tuple(_checked(file, f"plan {number}", entry) for number, entry in enumerate(plans))


def _checked(file: Path, location: str, value: Any) -> PoolPlan:
    try:
        record = _Record.model_validate(value)
        plan = Plan.from_list(record.plan, aliases=ALIASES)
    except ValidationError as error:
        raise DataError(file, ": ".join(filter(None, what_is_wrong(error))), location) from None
    except InvalidPlan as error:
        raise DataError(file, str(error), location) from error
    unknown = [tool for tool in plan.nodes if tool not in TOOLS]
    if unknown:
        raise DataError(file, f"unknown tool {unknown[0]!r}", location)
    columns = {name: tuple(getattr(record, name)) for name in _BY_TOOL}
    for name, values in columns.items():
        if len(values) != len(plan.nodes):
            raise DataError(file, f"{name}: expected {len(plan.nodes)} values, one per tool, got {len(values)}", location)
    times, cpu, gpu = columns.values()
    score, kind = record.score, record.score_kind
    return PoolPlan(record.task_id, record.sample_id, plan, score, kind, times, cpu, gpu, record.plan_price_usd)


def _from_pickle(file: Path) -> Iterator[PoolPlan]:
    try:
        pool = _PlainUnpickler(io.BytesIO(read_bytes(file, MAX_POOL_BYTES)), file).load()
    except DataError:
        raise
    except Exception as error:  # a damaged pickle can fail in any way
        raise DataError(file, f"not a readable plan pool ({type(error).__name__}: {error})") from error
    if not isinstance(pool, _PlanPool):
        raise DataError(file, f"expected a PlanPool, got {type(pool).__name__}")
    tables = [pool.fields.get(name) for name in _FIELDS]
    if not all(isinstance(table, dict) for table in tables):
        raise DataError(file, f"expected the tables {', '.join(_FIELDS)}, got {', '.join(map(str, pool.fields)) or 'none'}")
    for task_id, samples in pool.fields["plans"].items():
        if not isinstance(samples, dict):
            raise DataError(file, f"expected samples, got {type(samples).__name__}", f"task {task_id}")
        for sample_id in samples:
            location = f"task {task_id}, sample {sample_id}"
            columns = [
                _cell(file, location, name, table, task_id, sample_id) for name, table in zip(_FIELDS, tables, strict=True)
            ]
            if isinstance(columns[1], tuple):  # a single plan may stand without a list around it
                columns = [[column] for column in columns]
            if any(not isinstance(column, list) or len(column) != len(columns[0]) for column in columns):
                raise DataError(file, "plans, scores, times and memories are not equally many", location)
            for number, (plan, score, time_ms, cpu, gpu) in enumerate(zip(*columns, strict=True)):
                if not isinstance(score, tuple) or len(score) != 2:
                    raise DataError(file, f"score: expected (number, kind), got {score!r}", location)
                record = dict(zip(_Record.model_fields, (task_id, sample_id, plan, *score, time_ms, cpu, gpu), strict=False))
                yield _checked(file, f"{location}, plan {number}", record)


def _cell(file: Path, location: str, name: str, table: Any, task_id: Any, sample_id: Any) -> Any:
    row = table.get(task_id)
    if not isinstance(row, dict) or sample_id not in row:
        raise DataError(file, f"{name} are missing", location)
    return row[sample_id]


class _PlanPool:
    """Stands in for the official class; it takes the fields and does nothing."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}

    def __setstate__(self, state: Any) -> None:
        self.fields = dict(state) if isinstance(state, Mapping) else {}


class _Dtype:
    """Stands in for ``numpy.dtype``; it admits plain numbers, never objects."""

    _STRUCT = {"f4": "f", "f8": "d", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q"}  # noqa: RUF012

    def __init__(self, code: Any, *_: Any) -> None:
        if code not in self._STRUCT:
            raise pickle.UnpicklingError(f"numbers of type {code!r}")
        self.code, self.order = self._STRUCT[code], "<"

    def __setstate__(self, state: Any) -> None:
        order = state[1] if isinstance(state, tuple) and len(state) > 1 else "<"
        self.order = ">" if order == ">" else "<"


def _scalar(dtype: Any, raw: Any) -> float | int:
    """Read a NumPy scalar as a plain number."""
    if not isinstance(dtype, _Dtype) or not isinstance(raw, bytes):
        raise pickle.UnpicklingError("an invalid number")
    number: float | int = struct.unpack(dtype.order + dtype.code, raw)[0]
    return number


def _bytes(text: Any, encoding: Any) -> bytes:
    """Read bytes as old pickle protocols write them."""
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError("bytes in an encoding other than latin1")
    return text.encode("latin1")


def _plain_dict(*args: Any) -> dict[Any, Any]:
    return dict(*args[:1])


def _default_dict(*args: Any) -> defaultdict[Any, Any]:
    return defaultdict(dict)  # whatever factory the file names, only tables of tables are admitted


def _rebuilt(kind: Any, *_: Any) -> Any:
    """Make an object of a class as the oldest protocols do."""
    if kind is not _PlanPool:
        raise pickle.UnpicklingError("an object of a class other than PlanPool")
    return _PlanPool()


# A pickle may set the state of any object that it can name. A bare function would let it write to the function's attributes,
# among them its code; behind `_Maker`'s slots there is nothing to write to.
class _Maker:
    """A function that a pickle may call, and whose attributes it cannot reach."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *args: Any) -> Any:
        return self._make(*args)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("a state for a function")


class _PlainUnpickler(pickle.Unpickler):
    """An unpickler that admits a handful of names and refuses every other."""

    _KNOWN = {  # noqa: RUF012
        ("collections", "defaultdict"): _Maker(_default_dict),
        ("builtins", "dict"): _Maker(_plain_dict),
        ("builtins", "object"): object(),
        ("__builtin__", "object"): object(),
        ("__builtin__", "dict"): _Maker(_plain_dict),
        ("copyreg", "_reconstructor"): _Maker(_rebuilt),
        ("copy_reg", "_reconstructor"): _Maker(_rebuilt),
        ("_codecs", "encode"): _Maker(_bytes),
        ("numpy", "dtype"): _Dtype,
        ("numpy.core.multiarray", "scalar"): _Maker(_scalar),
        ("numpy._core.multiarray", "scalar"): _Maker(_scalar),
    }

    def __init__(self, stream: io.BytesIO, file: Path) -> None:
        super().__init__(stream)
        self._file = file

    def find_class(self, module: str, name: str) -> Any:
        # by its name alone, whatever module it was pickled from
        if name == "PlanPool":
            return _PlanPool
        if (module, name) not in self._KNOWN:
            raise DataError(self._file, f"asks for {module}.{name}, which is not plain data; refused, and none of it was run")
        return self._KNOWN[module, name]

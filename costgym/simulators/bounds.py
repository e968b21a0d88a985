"""The ranges that the numbers of a world may lie in, and the base of the models that hold them.

Within these ranges, the event-driven and the batched simulator play every world alike. Beyond them, sums of prices overflow,
clocks lose their resolution, or counters do not fit.
"""

import difflib
import math
from collections.abc import Collection
from typing import Annotated, Any, NamedTuple, NoReturn

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic._internal._model_construction import ModelMetaclass

from costgym.simulators.errors import ConfigError, check_known

DAY_S = 86_400.0
MAX_DEPTH = 40  # greatest depth of nested lists and mappings in a document


class Range(NamedTuple):
    """A closed range of numbers."""

    low: float
    high: float
    unit: str = ""
    whole: bool = False

    def __str__(self) -> str:
        return f"{'a whole number' if self.whole else 'a number'} from {self.low:g} to {self.high:g}"


_SHARE, _DAY, _LONG = Range(0, 1), Range(0, DAY_S, "s"), Range(0, 1e9, "s")
_MB, _MONEY, _COUNT = Range(0, 1e6, "MB"), Range(0, 1e9, "currency"), Range(0, 1_000_000, "", True)
BOUNDS: dict[str, Range] = {
    "seed": Range(0, 2**63 - 1, "", True),
    "gateway_s": Range(1e-6, DAY_S, "s"),
    "ttft_s": _DAY,
    "tokens_per_s": Range(1e-3, 1e9, "tokens/s"),
    "slots": Range(1, 1_000_000, "calls", True),
    "gpu_capacity_mb": Range(1e-3, 1e9, "MB"),
    "max_price": Range(1e-9, 1e12, "currency"),
    "stress.failures": Range(0, 100),
    "stress.rate_limits": Range(0, 100),
    "stress.latency": Range(1e-3, 1_000),
    "budget": Range(1e-9, 1e12),
    "tokens": Range(0, 1e9, "currency per million tokens"),
    "tokens.window": Range(1, 1e8, "tokens", True),
    "source.tools": Range(2, 100_000, "", True),
    "source.providers": Range(1, 100_000, "", True),
    "source.tasks": Range(1, 1_000_000, "", True),
    "source.candidates": Range(1, 10_000, "", True),
    "source.candidates.seconds": Range(0, 3_600, "s"),
    "source.needs": Range(1, 6, "", True),
    "source.tasks.size_level": Range(0, 3, "", True),
    "source.chain_share": _SHARE,
    "source.misnamed": _SHARE,
    "source.serving": _SHARE,
    "events": Range(0, 1_000, "events", True),
    "events.at_s": Range(0, 1e6, "s"),
    "events.share": _SHARE,
    "events.factor": Range(1e-3, 1e3),
    "events.need": Range(0, 63, "", True),
    "failures.usable": _SHARE,
    "failures.dead_share": _SHARE,
    "failures.perfect_share": _SHARE,
    "failures.beta": Range(1e-3, 1e3),
    "failures.slip": _SHARE,
    "failures.persistence": _SHARE,
    "failures.sticky": _SHARE,
    "failures.kinds": Range(0, 1e6),
    "failures.advertised_spread": Range(0, 10),
    "failures.advertised_floor": _SHARE,
    "failures.rate_limited_share": _SHARE,
    "failures.quota_share": _SHARE,
    "failures.bursts.every_s": Range(1, 1e9, "s"),
    "failures.bursts.lasts_s": Range(1e-3, 1e9, "s"),
    "judge.curve": Range(1e-3, 1e3),
    "judge.all_facts": _SHARE,
    "judge.none": _SHARE,
    "judge.unsolvable": _SHARE,
    "profile.fee": _MONEY,
    "profile.latency_s": _DAY,
    "profile.latency_spread": Range(0, 5),
    "profile.latency_quantiles": Range(0, 1e6),
    "profile.result_tokens": Range(0, 20_000, "tokens"),
    "profile.result_spread": Range(0, 5),
    "profile.cpu_cons_mb": _MB,
    "profile.gpu_cons_mb": _MB,
    "profile.cpu_inst_mb": _MB,
    "profile.gpu_inst_mb": _MB,
    "profile.cold_start_s": _DAY,
    "profile.keep_alive_s": _LONG,
    "profile.concurrency": _COUNT,
    "profile.rate_limit": Range(0, 1_000, "calls", True),
    "profile.window_s": _LONG,
    "profile.quota": _COUNT,
    "profile.timeout_s": Range(0, 1e6, "s"),
    "profile.reliability": _SHARE,
    "profile.slip": _SHARE,
    "profile.persistence": _SHARE,
    "profile.advertised_success": _SHARE,
    "profile.advertised_latency_s": _LONG,
    "profile.popularity": Range(0, 10),
}
"""The range of each number of a scenario, by its place."""
MAX_FACTOR = 1e9  # the price changes of a scenario may together multiply a price by this at most, and divide it by as much


def is_none(value: object) -> bool:
    """Fields that are younger than recorded scenarios are left out of documents, and of digests, where they say nothing."""
    return value is None


def is_empty(value: object) -> bool:
    """The same for lists."""
    return value == ()


def is_zero(value: object) -> bool:
    """The same for fields whose 0 says nothing."""
    return value == 0


WORLDS = (0, 1)
"""Versions of the world. Version 1 differs in what agents read and pay, and stands in every document; one without is 0."""


def _known_world(value: Any) -> Any:
    if isinstance(value, bool) or value not in WORLDS:
        raise ValueError(f"expected a version of the world, {' or '.join(map(str, WORLDS))}, got {value!r:.40}")
    return value


WorldVersion = Annotated[int, BeforeValidator(_known_world)]


def within(name: str, **settings: Any) -> Any:
    """A field of a pydantic model with the range that `BOUNDS` has for its place, and further settings of the field."""
    low, high, _, whole = BOUNDS[name]
    if not whole:
        settings["allow_inf_nan"] = False
    return Field(ge=low, le=high, **settings)


def out_of_bounds(name: str, value: Any) -> str | None:
    """Say in words how a number misses the range of its place; None if it does not."""
    bounds = BOUNDS[name]
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if fits and bounds.low <= value <= bounds.high and (not bounds.whole or value == int(value)):
        return None
    if name == "budget" and not (fits and value > 0):
        return f"expected a positive finite number, got {value!r:.60}"
    return f"expected {bounds}, got {value!r:.60}"


class _Constructor(ModelMetaclass):
    """Turns pydantic's error into ours where a model is made in code; documents are validated by `parse_scenario`."""

    def __call__(cls, *args: Any, **settings: Any) -> Any:
        try:
            return super().__call__(*args, **settings)
        except ValidationError as error:
            refuse(cls.__name__, error)


class StrictModel(BaseModel, metaclass=_Constructor):
    """A frozen model without unknown keys, unwritable texts or bottomless documents; ConfigError names the place."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _readable(cls, data: Any) -> Any:
        problem = unreadable(data)
        if problem:
            raise ValueError(problem)
        return data


def unreadable(data: Any, depth: int = 0) -> str | None:
    """Say in words why plain data cannot be written to a file; None if it can."""
    if isinstance(data, str):
        if data.isascii():
            return None
        # a lone surrogate passes through Python and fails only when a file is written, long after the mistake
        try:
            data.encode()
        except UnicodeEncodeError as error:
            return f"expected text, got a lone surrogate (U+{ord(data[error.start]):04X}) in {data[:40]!r}; write the full pair"
        return None
    if isinstance(data, int) and data.bit_length() > 1_000:
        return f"expected a number, got one of {data.bit_length()} bits"
    if not isinstance(data, dict | list | tuple):
        return None
    if depth >= MAX_DEPTH:
        return f"expected at most {MAX_DEPTH} levels of nested lists and mappings"
    parts = [*data, *data.values()] if isinstance(data, dict) else data
    for part in parts:
        if (problem := unreadable(part, depth + 1)) is not None:
            return problem
    return None


def first_problem(error: ValidationError) -> tuple[str, str]:
    """The place and the text of the first problem that pydantic found."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    problem = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        problem = "unknown key; check its spelling"
    if first["type"] == "value_error":
        return field, problem  # it says what came
    return field, f"{problem} (got {first['input']!r:.80})"


def refuse(what: str, error: ValidationError) -> NoReturn:
    """Raise a ConfigError that says what pydantic found wrong first."""
    field, problem = first_problem(error)
    raise ConfigError(f"{what}.{field}" if field else what, problem) from None


# -- settings and options ----------------------------------------------------------------------------------------------------

Count = Annotated[int, Field(ge=1)]  # a whole number of at least 1
Number = Annotated[int, Field(ge=0)]  # a whole number of at least 0
Amount = Annotated[float, Field(ge=0)]  # a finite number of at least 0
Share = Annotated[float, Field(ge=0, le=1)]  # a number from 0 to 1


def option(help: str, metavar: str = "", *names: str, **settings: Any) -> Any:
    """Describe a setting for the command line's help and the tables of the documentation; `settings` are `pydantic.Field`'s.

    `metavar` stands for the value, with its unit; `names` are spellings on the command line, by default that of the field, and
    ``--no-...`` too where it is a switch.
    """
    return Field(description=help, json_schema_extra={"metavar": metavar, "names": list(names)}, **settings)


def argument(help: str, metavar: str = "", **settings: Any) -> Any:
    """Describe a setting that the command line takes by its position."""
    return Field(description=help, json_schema_extra={"metavar": metavar, "argument": True}, **settings)


def one_of(kind: str, names: Collection[str]) -> Any:
    """A validator of registered names; others raise `UnknownName`, which offers the nearest."""

    def check(name: str) -> str:
        check_known(kind, name, names)
        return name

    return AfterValidator(check)


class Settings(BaseModel):
    """Base of settings, frozen and strict: ConfigError names a wrong or unknown field, UnknownName a value not registered."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(*what_is_wrong(error, type(self).model_fields)) from None

    @property
    def explicit(self) -> dict[str, Any]:
        """The fields that were set explicitly, by name; others have their defaults."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}


def what_is_wrong(error: ValidationError, known: Collection[str] = ()) -> tuple[str, str]:
    """The first field at fault, and a sentence that says what was expected and what came."""
    first = error.errors()[0]
    field, kind, got = ".".join(map(str, first["loc"])), first["type"], first["input"]
    if kind == "extra_forbidden":
        nearest = difflib.get_close_matches(field, known, n=1)
        hint = f"did you mean {nearest[0]}? " if nearest else ""
        return field, f"no such setting; {hint}known: {', '.join(sorted(known))}" if known else "unknown field"
    if kind == "missing":
        return field, "expected a value, got none"
    wanted = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if kind.startswith(("greater_than", "less_than")):
        wanted = f"a number {wanted}"
    return field, f"expected {wanted}, got {got!r:.80}"

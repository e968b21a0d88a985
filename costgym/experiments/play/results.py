"""The record of one episode: agent, world, costs and grade."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from costgym.simulators.errors import DataError
from costgym.simulators.files import decode_json
from costgym.simulators.ledger import RESOURCES, Budget
from costgym.simulators.rules.limits import exceeded

ORIGINS = ("agent", "tool", "infrastructure")
TOKEN_COST = "token_cost"  # the figure of an episode that says what the model's tokens cost
COST_WITHOUT_CACHE = "cost_without_cache"  # the figure that says what the whole episode would cost if no prompt were cached
_OPTIONAL = frozenset({"settings", "figures", "void_reason", "crash", "replies"})


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """The record of one episode. Numbers are coerced to plain Python ones, so equal records have equal bytes.

    Attributes:
        agent, model, env: names of agent, model and environment; `model` is None for agents without a language model.
        task: the task's id.
        episode: index of the episode in the run; episodes of one index are paired between agents.
        seed: seed of the world.
        budget: limit of each limited resource (`price`, `seconds`, `tokens`, `calls`); empty means unlimited.
        strict, judged: passed under the strict grading, and before the lenient judge, irrespective of the budget.
        share: share of the needed facts in the answer, 0 to 1.
        price: spent, in the scenario's currency.
        seconds: simulated time spent.
        tokens, calls: spent.
        attempts: every call asked for, refused ones included.
        errors: number of errors by origin, `agent`, `tool` and `infrastructure`.
        errors_by_status: number of errors by the name of the status.
        exceeded: the first resource over its limit, or None.
        void: the infrastructure failed; the episode is left out of every figure and counted separately.
        optimum_price: price of the optimal episode in this world, or None where it is unknown.
        quality: quality of plan (QoP).
        regret: quality of the optimum less `quality`, or None where the optimum is unknown.
        settings: arguments of the environment that vary within the run, such as the weight of an OpenCATP score.
        figures: numbers that only this world has, by name (`BaseEnv.figures`).
        void_reason: the infrastructure's message of a void episode; empty for others.
        crash: the exception of the agent's code that ended the episode as a failure; empty for others.
        replies: counts of a real model's replies by outcome (`filtered`, `truncated`, `refused`, `malformed`) and of its calls
            by form (`native`, `json`, `text`).

    Raises:
        DataError: a figure is not a number, negative or outside its range, or a name is unknown.
    """

    agent: str
    model: str | None
    env: str
    task: str
    episode: int
    seed: int
    budget: Mapping[str, float]
    strict: bool
    judged: bool
    share: float
    price: float
    seconds: float
    tokens: int
    calls: int
    attempts: int
    errors: Mapping[str, int]
    errors_by_status: Mapping[str, int]
    exceeded: str | None = None
    void: bool = False
    optimum_price: float | None = None
    quality: float = 0.0
    regret: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    void_reason: str = ""
    crash: str = ""
    replies: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.errors, Mapping):
            object.__setattr__(self, "errors", {**dict.fromkeys(ORIGINS, 0), **self.errors})
        for name, convert, accept, expected in _FIELDS:
            value = plain = getattr(self, name)
            if type(value) is convert and (accept is None or accept(value)):
                continue
            try:
                if type(value) is not convert:
                    plain = convert(value)
                fine = (plain is value or bool(plain == value)) and (accept is None or accept(plain))
            except (TypeError, ValueError, OverflowError, AttributeError):
                fine = False
            if not fine:
                raise DataError("episode record", f"expected {expected}, got {value!r}", name)
            if plain is not value:
                object.__setattr__(self, name, plain)

    @property
    def within_budget(self) -> bool:
        """Return whether no limit was passed."""
        if self.exceeded is not None:
            return False
        limits = Budget.from_mapping(self.budget)
        return exceeded(limits, self.price, self.seconds, self.tokens, self.calls) is None

    def to_json(self) -> str:
        """Write one line of JSON; equal records give equal bytes. What most worlds do not have is left out where it is
        empty."""
        record = {name: getattr(self, name) for name in self.__slots__}
        for name in _OPTIONAL:
            if not record[name]:
                del record[name]
        return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> "EpisodeResult":
        """The record that `to_json` wrote; raises DataError for a line that is not a JSON object, lacks a field, or has one too
        many or a wrong value."""
        try:
            record = decode_json(line)
        except ValueError as error:
            raise DataError("episode record", f"expected one line of JSON: {error}") from error
        known = {field.name for field in fields(cls)}
        if not isinstance(record, dict) or record.keys() | _OPTIONAL != known:
            got = sorted(record) if isinstance(record, dict) else type(record).__name__
            raise DataError("episode record", f"expected an object with the fields {', '.join(sorted(known))}; got {got}")
        return cls(**record)


def _optional_float(value: Any) -> float | None:
    return None if value is None else float(value)


def _counts(counts: Mapping[str, int]) -> bool:
    return all(n >= 0 for n in counts.values())


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _size(number: float) -> bool:
    return math.isfinite(number) and number >= 0


_FIELDS: tuple[tuple[str, Callable[[Any], Any], Callable[[Any], bool] | None, str], ...] = (
    *((name, str, None, "a text") for name in ("agent", "env", "task", "void_reason", "crash")),
    ("model", lambda v: None if v is None else str(v), None, "a text or None"),
    *(
        (name, int, lambda n: n >= 0, "a whole number of at least 0")
        for name in ("episode", "seed", "tokens", "calls", "attempts")
    ),
    *((name, bool, None, "true or false") for name in ("strict", "judged", "void")),
    ("share", float, lambda x: 0 <= x <= 1, "a number from 0 to 1"),
    *((name, float, _size, "a finite number of at least 0") for name in ("price", "seconds")),
    ("quality", float, math.isfinite, "a finite number"),
    ("optimum_price", _optional_float, lambda x: x is None or _size(x), "a finite price or None"),
    ("regret", _optional_float, lambda x: x is None or math.isfinite(x), "a finite number or None"),
    ("exceeded", lambda v: v, lambda v: v is None or v in RESOURCES, f"one of {', '.join(RESOURCES)}, or None"),
    (
        "budget",
        lambda limits: {name: float(limits[name]) for name in RESOURCES if name in limits},
        lambda limits: all(math.isfinite(x) and x > 0 for x in limits.values()),
        f"positive limits of {', '.join(RESOURCES)}",
    ),
    ("errors", lambda counts: {o: int(counts[o]) for o in ORIGINS}, _counts, f"counts by {', '.join(ORIGINS)}"),
    ("settings", lambda value: dict(value), lambda value: all(isinstance(name, str) for name in value), "settings by name"),
    ("figures", lambda value: dict(value), lambda value: all(map(_finite, value.values())), "finite numbers by name"),
    ("replies", lambda counts: {str(k): int(counts[k]) for k in sorted(counts)}, _counts, "counts by outcome and form"),
    ("errors_by_status", lambda counts: {str(k): int(counts[k]) for k in sorted(counts)}, _counts, "counts by status"),
)
"""Name of each field, its conversion, what it has to fulfil, and that in words; the first field at fault is reported."""


def outcome(result: EpisodeResult, grading: str = "strict") -> str:
    """The outcome of the episode: `passed`, `failed`, `over budget` or `void`."""
    if result.void:
        return "void"
    if not result.within_budget:
        return "over budget"
    return "passed" if (result.strict if grading == "strict" else result.judged) else "failed"

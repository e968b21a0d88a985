"""Budgets and ledgers: what may be spent, and what was.

A `Budget` limits up to four resources; a `Ledger` adds up charges. Seconds are read off the clock: calls overlap, so they
are not the sum of the calls' durations.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from costgym.simulators.bounds import out_of_bounds
from costgym.simulators.errors import ConfigError
from costgym.simulators.pricing.usage import Usage

RESOURCES = ("price", "seconds", "tokens", "calls")
TOKEN_CLASSES = ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
Enforcement = Literal["refuse", "terminate", "record"]


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits on what an episode may spend; None means without limit.

    Attributes:
        price: Price of calls and tokens, in the scenario's currency.
        seconds: Simulated time, seconds.
        tokens: Input and output tokens of the model.
        calls: Executed tool calls.

    Raises:
        ConfigError: A limit is not a positive number, or outside its range in `bounds`.
    """

    price: float | None = None
    seconds: float | None = None
    tokens: float | None = None
    calls: float | None = None

    def __post_init__(self) -> None:
        for name, limit in self.items():
            if problem := out_of_bounds("budget", limit):
                raise ConfigError(f"budget {name}", problem)

    def items(self) -> Iterator[tuple[str, float]]:
        """The limited resources and their limits, in the order of `RESOURCES`."""
        return ((name, limit) for name in RESOURCES if (limit := getattr(self, name)) is not None)

    def as_dict(self) -> dict[str, float]:
        return dict(self.items())

    @classmethod
    def from_mapping(cls, limits: Mapping[str, float]) -> "Budget":
        """Make a budget from a mapping such as ``{"price": 20}``.

        Raises:
            ConfigError: A resource is unknown, or a limit is not a positive number.
        """
        unknown = [name for name in limits if name not in RESOURCES]
        if unknown:
            raise ConfigError("budget", f"unknown resource {unknown[0]!r}; known: {', '.join(RESOURCES)}")
        return cls(**limits)

    @classmethod
    def parse(cls, text: str, where: str = "--budgets") -> "list[Budget]":
        """Read budgets from text: ``price=10,20,40``, or every combination of several resources, ``price=10,20;seconds=60``.

        Raises:
            ConfigError: The text has another form, or a limit is not a positive number.
        """
        combined: list[dict[str, float]] = [{}]
        for part in text.split(";"):
            name, _, values = part.partition("=")
            if not values:
                raise ConfigError(
                    where, f"expected RESOURCE=LIMIT[,LIMIT ...], got {part!r}; for example price=20, or price=10,20,40"
                )
            try:
                limits = [float(value) for value in values.split(",")]
            except ValueError:
                raise ConfigError(where, f"{name.strip()}: expected numbers, got {values!r}") from None
            combined = [{**chosen, name.strip(): limit} for chosen in combined for limit in limits]
        return [cls.from_mapping(limits) for limits in combined]

    @classmethod
    def one(cls, limits: str | float | Mapping[str, float], where: str = "--budget") -> "Budget":
        """Read the limits of one budget: by resource, as text such as ``price=20;seconds=60``, or a number, the price.

        Args:
            limits: The limits.
            where: What an error names as their place.

        Raises:
            ConfigError: They have another form, there are several for a resource, or one is not a positive number.
        """
        if isinstance(limits, int | float) and not isinstance(limits, bool):
            return cls(price=limits)
        if isinstance(limits, Mapping):
            return cls.from_mapping(limits)
        if not isinstance(limits, str):
            raise ConfigError(where, f'expected limits such as {{"price": 20}}, "price=20" or 20, got {limits!r:.60}')
        parsed = cls.parse(limits, where)
        if len(parsed) != 1:
            raise ConfigError(where, f"expected one limit per resource, got {limits!r}")
        return parsed[0]

    def __str__(self) -> str:
        return ", ".join(f"{name} {limit:g}" for name, limit in self.items()) or "unlimited"


class Charge(NamedTuple):
    """An entry of a ledger."""

    at_s: float  # simulated time of the charge, seconds
    what: str  # the tool's name, or "think"
    price: float  # charged price, in the scenario's currency
    tokens: int  # charged tokens
    calls: int  # 1 for an executed call, else 0


@dataclass(slots=True, eq=False)
class Ledger:
    """Everything that an episode has spent: the charges and their totals.

    Attributes:
        price, tokens, calls: Totals of the charges.
        attempts: Number of calls asked for, refused ones included.
        usages: Tokens of each request to a model, by class.
    """

    price: float = 0.0
    tokens: int = 0
    calls: int = 0
    attempts: int = 0
    charges: list[Charge] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)

    def __iter__(self) -> Iterator[Charge]:
        return iter(self.charges)

    def charge(self, at_s: float, what: str, price: float, tokens: int = 0, calls: int = 0) -> None:
        self.price += price
        self.tokens += tokens
        self.calls += calls
        self.charges.append(Charge(at_s, what, price, tokens, calls))

    def tokens_by_class(self) -> dict[str, int]:
        """Tokens of all requests by class; those read from a cache or written to it are among the input."""
        return {name: sum([getattr(usage, name) for usage in self.usages]) for name in TOKEN_CLASSES}

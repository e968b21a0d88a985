"""The tools of a world: their documentation, what a call costs, and the catalog that holds them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from costgym.simulators.bounds import BOUNDS, out_of_bounds
from costgym.simulators.errors import DataError, InvalidProfile, UnknownName

READ, WRITE, CHECK, UNDO = range(4)
"""Roles of a tool: it reads facts, makes an effect, tells which effects there are, or takes one back."""
KEY = "idempotency_key"  # argument by which tools that support it recognise a repeated request
_LISTS = ("latency_s", "latency_quantiles")
_OF_THE_WORLD = ("slip", "persistence")  # fields of a profile whose None stands for the world's own


@dataclass(frozen=True, slots=True)
class ToolProfile:
    """The costs and failure rates of a tool.

    Attributes:
        fee: Flat price of an executed call, in the scenario's currency (flat pricing).
        latency_s: Median duration of a call by size level of its input, seconds; one value serves all levels.
        latency_spread: Standard deviation of the logarithm of the duration; 0 for a constant duration.
        result_tokens, result_spread: Median length of its results, tokens, and the standard deviation of its logarithm; 0: as
            the answers come, or in generated worlds of version 1 a length by capability.
        latency_quantiles: Durations over the median in place of the lognormal: quantiles at equal steps from the shortest to
            the longest (three numbers: minimum, median, maximum), linear between two of them.
        cpu_cons_mb, gpu_cons_mb: Memory held as long as the tool is loaded, MB.
        cpu_inst_mb, gpu_inst_mb: Memory that a call takes on top, MB.
        cold_start_s: Time to load a new instance, seconds.
        keep_alive_s: Time that an idle instance stays warm, seconds.
        concurrency: Calls that may run at once; 0 for any number.
        rate_limit: Calls admitted per `window_s`; 0 for any number.
        window_s: Length of the sliding window, seconds.
        quota: Calls admitted per episode; 0 for any number.
        timeout_s: Duration at which a call ends as a timeout, seconds.
        reliability: True share of calls that succeed, 0 to 1; agents do not see it.
        slip, persistence: The tool's own values of `FailureModel`'s; None for the world's.
        advertised_success: Share of successful calls that the catalog claims, 0 to 1.
        advertised_latency_s: Duration that the catalog claims, seconds.
        popularity: Popularity that marketplaces show, 0 to 10.
    """

    fee: float = 1.0
    latency_s: tuple[float, ...] = (1.0,)
    latency_spread: float = 0.0
    cpu_cons_mb: float = 128.0
    gpu_cons_mb: float = 0.0
    cpu_inst_mb: float = 0.0
    gpu_inst_mb: float = 0.0
    cold_start_s: float = 0.0
    keep_alive_s: float = 300.0
    concurrency: int = 0
    rate_limit: int = 0
    window_s: float = 60.0
    quota: int = 0
    timeout_s: float = 30.0
    reliability: float = 1.0
    advertised_success: float = 1.0
    advertised_latency_s: float = 1.0
    popularity: float = 5.0
    slip: float | None = None
    persistence: float | None = None
    latency_quantiles: tuple[float, ...] = ()
    result_tokens: float = 0.0
    result_spread: float = 0.0

    def __post_init__(self) -> None:
        for name, bounds in _RANGES:
            value = getattr(self, name)
            if type(value) is float and bounds.low <= value <= bounds.high and not bounds.whole and name not in _LISTS:
                continue  # what nearly all are, without the cost of the checks below: markets have thousands of tools
            if value is None and name in _OF_THE_WORLD:
                continue
            if isinstance(value, tuple) is not (name in _LISTS):
                wanted = "a list of numbers" if name in _LISTS else "one number"
                raise InvalidProfile(f"{name}: expected {wanted}, got {value!r:.60}")
            for number in value if isinstance(value, tuple) else (value,):
                if problem := out_of_bounds(f"profile.{name}", number):
                    raise InvalidProfile(f"{name}: {problem}")
        if not self.latency_s:
            raise InvalidProfile("latency_s: expected at least one size level, got none")
        table = self.latency_quantiles
        if table and (list(table) != sorted(table) or not table[0] <= 1.0 <= table[-1] or len(table) < 2):
            wanted = "expected at least two durations over the median, in ascending order and on both sides of 1"
            raise InvalidProfile(f"latency_quantiles: {wanted}, got {list(table)!r:.200}")

    def latency_at(self, level: int) -> float:
        """Median duration at a size level, seconds; levels beyond the measured ones take the last."""
        return self.latency_s[min(level, len(self.latency_s) - 1)]


_RANGES = [(spec.name, BOUNDS[f"profile.{spec.name}"]) for spec in fields(ToolProfile)]


@dataclass(frozen=True, slots=True)
class Effect:
    """What calls of a tool do to the store."""

    role: int  # `WRITE`, `CHECK` or `UNDO`
    of: str  # the capability whose effects it makes, tells of, or takes back
    idempotent: bool = False  # it knows the key `KEY`: the second effect of the same key is none
    settles_s: float = 0.0  # time until other tools see an effect that it made, simulated seconds
    happens: float = 0.5  # chance that a call which ended ambiguously has taken effect, 0 to 1
    # of one that is idempotent: a repeat with the same arguments has no second effect, so it needs no key
    by_arguments: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if self.idempotent and self.role != WRITE:
            raise InvalidProfile("idempotent: only a tool that writes takes a key")
        if not 0.0 <= self.happens <= 1.0:
            raise InvalidProfile(f"happens: expected a chance between 0 and 1, got {self.happens!r}")
        if not 0.0 <= self.settles_s <= 86_400.0:
            raise InvalidProfile(f"settles_s: expected 0 to 86,400 seconds, got {self.settles_s!r}")


@dataclass(frozen=True, slots=True)
class ToolText:
    """A tool as far as its documentation goes; the fields are those of `Tool`."""

    name: str
    description: str
    category: str
    provider: str
    title: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}, "required": []})

    def documentation(self) -> dict[str, Any]:
        """The function in the form that chat models take: name, description, parameters."""
        about = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": about}


@dataclass(frozen=True, slots=True)
class Tool(ToolText):
    """A callable function (ToolBench calls it an API, and its provider a tool).

    Attributes:
        name: The function name that a model calls, unique in its catalog.
        description: What it does, in the documentation's words.
        category: Field of business, for example "Weather".
        provider: Who offers it.
        title: The API's own name within its provider.
        parameters: JSON schema of its arguments (an object schema).
        profile: What a call costs and how it may fail.
        capability: What it can do; tools of one capability can replace each other.
        effect: What its calls do to the world; None for a tool that reads.
        origin: Its name in version 0 of the world, where version 1 shows another.
    """

    profile: ToolProfile = field(default_factory=ToolProfile)
    capability: str = ""
    effect: Effect | None = None
    origin: str = field(default="", repr=False)

    @property
    def key(self) -> str:
        """The name from which everything of a tool is drawn, the same in all versions of the world."""
        return self.origin or self.name


@dataclass(frozen=True, slots=True)
class ToolCard(ToolText):
    """The documentation of a tool, which is all that agents are told of it."""

    @classmethod
    def of(cls, tool: Tool) -> "ToolCard":
        """The card of a tool."""
        return cls(tool.name, tool.description, tool.category, tool.provider, tool.title, tool.parameters)


class Catalog(Sequence[Tool]):
    """The tools of a world, by number and by name; raises DataError where two tools share a name."""

    def __init__(self, tools: Iterable[Tool], source: str = "catalog") -> None:
        self._tools = tuple(tools)
        self._index = {tool.name: number for number, tool in enumerate(self._tools)}
        if len(self._index) < len(self._tools):
            seen: set[str] = set()
            twice = next(tool.name for tool in self._tools if tool.name in seen or seen.add(tool.name))  # type: ignore[func-returns-value]
            raise DataError(source, f"two tools are named {twice!r}; names must be unique")

    def __len__(self) -> int:
        return len(self._tools)

    def __getitem__(self, number: Any) -> Any:
        return self._tools[number]

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools)

    def __contains__(self, tool: object) -> bool:
        return tool in self._index if isinstance(tool, str) else tool in self._tools

    def number(self, name: str) -> int:
        """The tool's number; raises UnknownName where no tool has that name."""
        try:
            return self._index[name]
        except KeyError:
            raise UnknownName("tool", name, self._index) from None

    def get(self, name: str) -> Tool:
        """The tool of that name; raises UnknownName where there is none."""
        return self._tools[self.number(name)]

    @property
    def categories(self) -> list[str]:
        return sorted({tool.category for tool in self._tools})

    @property
    def providers(self) -> list[str]:
        return sorted({tool.provider for tool in self._tools})


class Same:
    """The key of a cache that stands for an object by its identity, and keeps it alive."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

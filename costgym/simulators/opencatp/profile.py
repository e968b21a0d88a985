"""Profiles of the tools: time and memory by size level, as measured on one machine.

The built-in profile ``v100`` is the published one. Others are measured on the spot and kept as files: JSON or YAML, ::

    format: costgym.profile/1
    name: h200
    hardware: one NVIDIA H200
    date: 2026-11-20
    source: costgym opencatp profile
    tools:
      image_denoising:
        time_ms: [10.1, 15.0, 33.0, 240.0]     # by size level 0..3
        cpu_cons_mb: 1690.2
        gpu_cons_mb: 99.7
        cpu_inst_mb: [0, 0, 0, 0]              # optional
        gpu_inst_mb: [310, 420, 900, 5200]     # optional
        cold_start_s: 1.9                      # optional
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from costgym.simulators.errors import DataError, InvalidProfile, UnknownName, check_known
from costgym.simulators.files import read_json, read_yaml, write_atomically
from costgym.simulators.opencatp.tools import LEVELS, TOOLS
from costgym.simulators.plan import Plan, longest_path
from costgym.simulators.pricing import FaasPricing, Pricing

FORMAT = "costgym.profile/1"
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class ToolCost:
    """Time and memory of one tool.

    Raises:
        InvalidProfile: Something is negative, not a finite number, or not given for all four levels.
    """

    time_ms: tuple[float, ...]  #: duration of a run by size level, ms, (4,)
    #: cpu_cons_mb, gpu_cons_mb: memory held as long as the tool is loaded, MB
    cpu_cons_mb: float
    gpu_cons_mb: float
    #: cpu_inst_mb, gpu_inst_mb: memory a run takes on top, by size level, MB, (4,)
    cpu_inst_mb: tuple[float, ...] = (0.0,) * LEVELS
    gpu_inst_mb: tuple[float, ...] = (0.0,) * LEVELS
    cold_start_s: float = 0.0  #: time to load the tool, seconds

    def __post_init__(self) -> None:
        for name in ("time_ms", "cpu_inst_mb", "gpu_inst_mb"):
            by_level = getattr(self, name)
            if len(by_level) != LEVELS:
                raise InvalidProfile(f"{name}: expected {LEVELS} values, one per size level, got {len(by_level)}")
            for level, value in enumerate(by_level):
                _at_least_zero(f"{name} at level {level}", value)
        for name in ("cpu_cons_mb", "gpu_cons_mb", "cold_start_s"):
            _at_least_zero(name, getattr(self, name))


@dataclass(frozen=True)
class Profile:
    """The tools' costs on one machine, and their prices."""

    name: str  #: its name in scenarios
    tools: Mapping[str, ToolCost]  #: cost by tool
    #: hardware, source, date: hardware that was measured, source of the figures, and day
    hardware: str = ""
    source: str = ""
    date: str = ""
    pricing: Pricing = field(default_factory=FaasPricing.opencatp)  #: prices of time and memory

    def __post_init__(self) -> None:
        missing = [tool for tool in TOOLS if tool not in self.tools]
        if missing:
            raise InvalidProfile(
                f"profile {self.name}: no figures for {', '.join(missing)}; it must name all of {', '.join(TOOLS)}"
            )

    # worked out once, since environments ask at every step
    @cached_property
    def _prices(self) -> dict[str, tuple[float, ...]]:
        price = self.pricing.price
        return {
            tool: tuple(
                price(ms, cost.cpu_cons_mb, cpu_mb, cost.gpu_cons_mb, gpu_mb)
                for ms, cpu_mb, gpu_mb in zip(cost.time_ms, cost.cpu_inst_mb, cost.gpu_inst_mb, strict=True)
            )
            for tool, cost in self.tools.items()
        }

    def price(self, tool: str, level: int) -> float:
        """Price of one run on an input of a size level, USD."""
        self._check(tool, level)
        return self._prices[tool][level]

    def seconds(self, tool: str, level: int) -> float:
        """Duration of one run on an input of a size level, seconds."""
        self._check(tool, level)
        return self.tools[tool].time_ms[level] / 1000.0

    def plan_price(self, plan: Plan, level: int) -> float:
        """Price of all tools of a plan, USD, added in the order written."""
        return sum(self.price(tool, level) for tool in plan.nodes)

    def plan_seconds(self, plan: Plan, level: int) -> float:
        """Time of a plan where branches run at once, seconds."""
        seconds = {step.tool: self.seconds(step.tool, level) for step in plan.steps}  # checked when the profile was made
        return longest_path([(step.tool, step.deps) for step in plan.steps], seconds)

    def gpu_mb(self, level: int) -> dict[str, float]:
        """GPU memory a running tool needs, constant and instant, MB."""
        return {tool: cost.gpu_cons_mb + cost.gpu_inst_mb[level] for tool, cost in self.tools.items()}

    def cold_start_s(self) -> dict[str, float]:
        """Time to load each tool, seconds."""
        return {tool: cost.cold_start_s for tool, cost in self.tools.items()}

    def _check(self, tool: str, level: int) -> None:
        check_known("tool", tool, self.tools)
        if not 0 <= level < LEVELS:
            raise InvalidProfile(f"size level: expected 0..{LEVELS - 1}, got {level}")


@lru_cache(maxsize=1)
def v100() -> Profile:
    """The published profile, on two V100 with 32 GB."""
    # the authors publish memory and the price of a run; the file holds the durations at which `FaasPricing.opencatp` gives
    # exactly these prices
    return _read_file(_HERE / "profile_v100.json")


def profile_names() -> tuple[str, ...]:
    """Names of the profiles that come with the package."""
    others = {path.stem.removeprefix("profile_") for path in _HERE.glob("profile_*.json")} - {"v100"}
    return ("v100", *sorted(others))


def load_profile(name_or_path: str | Path) -> Profile:
    """Load a profile by its name, or from a file in the format that this module describes.

    Raises:
        UnknownName: The name is neither a known one nor an existing file.
        DataError: The file cannot be read, is no profile, or names an unknown tool or field.
        InvalidProfile: A time or a memory in it cannot be; the message names tool and field.
    """
    name = str(name_or_path)
    if name == "v100":
        return v100()
    shipped = _HERE / f"profile_{name}.json"
    path = shipped if name in profile_names() else Path(name_or_path)
    if not path.is_file():
        raise UnknownName("profile", name, profile_names())
    return _read_file(path)


def _read_file(path: Path) -> Profile:
    if path.suffix != ".json":
        return read_profile(read_yaml(path), path)
    return read_profile(read_json(path, follow=True), path)


def save_profile(profile: Profile, path: str | Path) -> None:
    """Write a profile as JSON, which `load_profile` reads."""
    write_atomically(Path(path), (json.dumps(profile_record(profile), indent=1) + "\n").encode(), parents=True)


def profile_record(profile: Profile) -> dict[str, Any]:
    """A profile as plain data, which `read_profile` reads. The pricing is not in it."""
    return {
        "format": FORMAT,
        "name": profile.name,
        "hardware": profile.hardware,
        "date": profile.date,
        "source": profile.source,
        "tools": {
            tool: {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(cost).items()}
            for tool, cost in profile.tools.items()
        },
    }


def read_profile(record: Any, path: str | Path = "profile") -> Profile:
    """Make a profile from `profile_record`'s form; raises DataError or InvalidProfile, which names the field at fault."""
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise DataError(path, f"expected a profile with format: {FORMAT}")
    tool_records = record.get("tools")
    if not isinstance(tool_records, dict):
        raise DataError(path, f"expected a table of tools, got {type(tool_records).__name__}", "tools")
    tools = {}
    for tool, figures in tool_records.items():
        location = f"tools.{tool}"
        if tool not in TOOLS:
            raise DataError(path, f"unknown tool; known: {', '.join(TOOLS)}", location)
        if not isinstance(figures, dict):
            raise DataError(path, f"expected a table of figures, got {type(figures).__name__}", location)
        known = [figure.name for figure in fields(ToolCost)]
        for key in figures:
            if key not in known:
                raise DataError(path, f"unknown field {key!r}; known: {', '.join(known)}", location)
        for key in known[:3]:
            if key not in figures:
                raise DataError(path, f"{key} is missing", location)
        try:
            given_figures: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in figures.items()}
            tools[tool] = ToolCost(**given_figures)
        except InvalidProfile as error:
            raise InvalidProfile(f"{path}, {location}: {error}") from None
        except TypeError as error:
            raise DataError(
                path, f"expected numbers, four by size level for times and instant memory: {error}", location
            ) from None
    hardware, source, date = (str(record.get(key, "")) for key in ("hardware", "source", "date"))
    try:
        return Profile(str(record.get("name") or Path(path).stem), tools, hardware, source, date)
    except InvalidProfile as error:
        raise InvalidProfile(f"{path}: {error}") from None


def _at_least_zero(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
        raise InvalidProfile(f"{name}: expected a finite number of at least 0, got {value!r}")

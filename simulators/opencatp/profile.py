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

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from ..errors import DataError, InvalidProfile, UnknownName
from ..plan import Plan, longest_path
from ..pricing import PER_RUN, FaasPricing
from .files import replace_file
from .levels import LEVELS
from .tools import TOOLS

FORMAT = "costgym.profile/1"
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class ToolCost:
    """Time and memory of one tool.

    Attributes:
        time_ms: Duration of a run by size level, ms.  # (4,)
        cpu_cons_mb, gpu_cons_mb: Memory held as long as the tool is loaded, MB.
        cpu_inst_mb, gpu_inst_mb: Memory a run takes on top, by size level, MB.  # (4,)
        cold_start_s: Time to load the tool, seconds.

    Raises:
        InvalidProfile: Something is negative, not a finite number, or not given for all four levels.
    """

    time_ms: tuple[float, ...]
    cpu_cons_mb: float
    gpu_cons_mb: float
    cpu_inst_mb: tuple[float, ...] = (0.0,) * LEVELS
    gpu_inst_mb: tuple[float, ...] = (0.0,) * LEVELS
    cold_start_s: float = 0.0

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
    """The tools' costs on one machine, and their prices.

    Attributes:
        name: Its name in scenarios.
        hardware, source, date: Hardware that was measured, source of the figures, and day.
        tools: Cost by tool.
        pricing: Prices of time and memory.
    """

    name: str
    tools: Mapping[str, ToolCost]
    hardware: str = ""
    source: str = ""
    date: str = ""
    pricing: FaasPricing = field(default_factory=FaasPricing.opencatp)

    def __post_init__(self) -> None:
        missing = [tool for tool in TOOLS if tool not in self.tools]
        if missing:
            raise InvalidProfile(
                f"profile {self.name}: no figures for {', '.join(missing)}; it must name all of {', '.join(TOOLS)}"
            )
        prices, seconds = {}, {}
        for tool, cost in self.tools.items():
            prices[tool] = tuple(
                self.pricing.price(
                    cost.time_ms[level], cost.cpu_cons_mb, cost.cpu_inst_mb[level], cost.gpu_cons_mb, cost.gpu_inst_mb[level]
                )
                for level in range(LEVELS)
            )
            seconds[tool] = tuple(ms / 1000.0 for ms in cost.time_ms)
        object.__setattr__(self, "_prices", prices)
        object.__setattr__(self, "_seconds", seconds)

    def price(self, tool: str, level: int) -> float:
        """Price of one run on an input of a size level, USD."""
        return self._of("_prices", tool, level)

    def seconds(self, tool: str, level: int) -> float:
        """Duration of one run on an input of a size level, seconds."""
        return self._of("_seconds", tool, level)

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

    def _cost(self, tool: str) -> ToolCost:
        if tool not in self.tools:
            raise UnknownName("tool", tool, self.tools)
        return self.tools[tool]

    def _of(self, table: str, tool: str, level: int) -> float:
        self._cost(tool)
        if not 0 <= level < LEVELS:
            raise InvalidProfile(f"size level: expected 0..{LEVELS - 1}, got {level}")
        value: float = getattr(self, table)[tool][level]
        return value


# Constant CPU and GPU memory (MB) and the price of one run by size level (USD). The duration follows from the price.
# Source: OpenCATP-LLM (Apache-2.0), commit a06e1f2, src/config.py, measured there on two V100 with 32 GB.
_V100: dict[str, tuple[float, float, tuple[float, float, float, float]]] = {
    "image_classification": (
        1788.50390625,
        330.2294921875,
        (0.0018386416371498659, 0.002039574896674113, 0.001632744822041972, 0.003468827901294199),
    ),
    "image_colorization": (
        1626.96875,
        131.31689453125,
        (0.02064448408770396, 0.030365631874341062, 0.03283418516591483, 0.20662706942016817),
    ),
    "object_detection": (
        1684.6875,
        234.7177734375,
        (0.008221186114819342, 0.007555937255849043, 0.007457512004008459, 0.010285611128207868),
    ),
    "image_deblurring": (
        1693.83984375,
        99.74462890625,
        (0.044596890616843535, 0.0763150490990877, 0.1770620811739597, 1.1910876856898132),
    ),
    "image_denoising": (
        1690.15625,
        99.67431640625,
        (0.03310938232453873, 0.05553857351136441, 0.126780926718445, 0.8438447906436202),
    ),
    "image_super_resolution": (
        1540.8515625,
        47.52490234375,
        (0.12710071314082524, 0.17339502868541215, 0.3204404321613257, 1.8004475979612815),
    ),
    "image_captioning": (
        2449.8359375,
        937.234375,
        (0.07681041316118693, 0.0789306347162341, 0.0856651295420851, 0.15344758910825465),
    ),
    "sentiment_analysis": (
        1719.6875,
        256.49755859375,
        (0.0009301707022420854, 0.0007762505455430947, 0.0007021147041751504, 0.0009259290352010135),
    ),
    "text_summarization": (
        3321.2578125,
        1550.06689453125,
        (0.4399955272843922, 0.44162034375878384, 0.47984100235254135, 0.4836095130016943),
    ),
    "machine_translation": (
        2388.72265625,
        850.3095703125,
        (0.0514501296757946, 0.07495833137293198, 0.17899568650893222, 0.1265572219738673),
    ),
}


@lru_cache(maxsize=1)
def v100() -> Profile:
    """The published profile, on two V100 with 32 GB."""
    pricing = FaasPricing.opencatp()
    tools = {}
    for tool, (cpu, gpu, prices) in _V100.items():
        rate = pricing.rate_per_ms(cpu, 0.0, gpu, 0.0)
        tools[tool] = ToolCost(tuple((price - PER_RUN) / rate for price in prices), cpu, gpu)
    return Profile("v100", tools, "two V100 with 32 GB", "OpenCATP-LLM, commit a06e1f2, src/config.py", "2025-04-10", pricing)


def profile_names() -> tuple[str, ...]:
    """Names of the profiles that come with the package."""
    return ("v100", *sorted(path.stem.removeprefix("profile_") for path in _HERE.glob("profile_*.json")))


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
    try:
        text = path.read_text(encoding="utf-8")
        record = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise DataError(path, f"cannot be read as JSON or YAML: {error}") from error
    return read_profile(record, path)


def save_profile(profile: Profile, path: str | Path) -> None:
    """Write a profile as JSON, which `load_profile` reads."""
    replace_file(Path(path), (json.dumps(profile_record(profile), indent=1) + "\n").encode())


def profile_record(profile: Profile) -> dict[str, Any]:
    """A profile as plain data, which `read_profile` reads. The pricing is not in it."""
    return {
        "format": FORMAT,
        "name": profile.name,
        "hardware": profile.hardware,
        "date": profile.date,
        "source": profile.source,
        "tools": {
            tool: {
                "time_ms": list(cost.time_ms),
                "cpu_cons_mb": cost.cpu_cons_mb,
                "gpu_cons_mb": cost.gpu_cons_mb,
                "cpu_inst_mb": list(cost.cpu_inst_mb),
                "gpu_inst_mb": list(cost.gpu_inst_mb),
                "cold_start_s": cost.cold_start_s,
            }
            for tool, cost in profile.tools.items()
        },
    }


def read_profile(record: Any, path: str | Path = "profile") -> Profile:
    """Make a profile from the plain data of `profile_record`, or of a file in that form.

    Args:
        record: The table.
        path: The file, for error messages.

    Raises:
        DataError: It is no profile, or names an unknown tool or field.
        InvalidProfile: A time or a memory in it cannot be; the message names tool and field.
    """
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise DataError(path, f"expected a profile with format: {FORMAT}")
    given = record.get("tools")
    if not isinstance(given, dict):
        raise DataError(path, f"expected a table of tools, got {type(given).__name__}", "tools")
    tools = {}
    for tool, figures in given.items():
        place = f"tools.{tool}"
        if tool not in TOOLS:
            raise DataError(path, f"unknown tool; known: {', '.join(TOOLS)}", place)
        if not isinstance(figures, dict):
            raise DataError(path, f"expected a table of figures, got {type(figures).__name__}", place)
        known = ("time_ms", "cpu_cons_mb", "gpu_cons_mb", "cpu_inst_mb", "gpu_inst_mb", "cold_start_s")
        for key in figures:
            if key not in known:
                raise DataError(path, f"unknown field {key!r}; known: {', '.join(known)}", place)
        for key in known[:3]:
            if key not in figures:
                raise DataError(path, f"{key} is missing", place)
        try:
            given_figures: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in figures.items()}
            tools[tool] = ToolCost(**given_figures)
        except InvalidProfile as error:
            raise InvalidProfile(f"{path}, {place}: {error}") from None
        except TypeError as error:
            raise DataError(
                path, f"expected numbers, four by size level for times and instant memory: {error}", place
            ) from None
    hardware, source, date = (str(record.get(key, "")) for key in ("hardware", "source", "date"))
    try:
        return Profile(str(record.get("name") or Path(path).stem), tools, hardware, source, date)
    except InvalidProfile as error:
        raise InvalidProfile(f"{path}: {error}") from None


def _at_least_zero(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
        raise InvalidProfile(f"{name}: expected a finite number of at least 0, got {value!r}")

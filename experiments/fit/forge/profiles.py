"""Profiles of tools that were measured: rates, latencies and prices of a log of real calls."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....simulators.errors import ConfigError
from ..calibration.calibrate import calibrate

SETTINGS = ("failures", "pricing", "bill_failures", "currency", "budget", "max_price")
"""Settings of a scenario that a log says something about."""


def measured(log: Path) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, Any]]:
    """The tools of a log (see `costgym calibrate`) with their fitted profiles, and the settings of a scenario that were fitted
    with them; raises ConfigError if the log names no tools of its own."""
    scenario = calibrate(log, "profile").scenario.model_dump(mode="json")
    tools = scenario["source"].get("tools")
    if not isinstance(tools, list):
        raise ConfigError("--profile", f"{log}: expected a log of calls of tools, got a folder of queries")
    return [{"name": tool["name"], "profile": tool["profile"]} for tool in tools], {key: scenario[key] for key in SETTINGS}

"""A world whose tools are real: the scenario gives prices, limits, latencies and failures, and the tools give the answers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from costgym.experiments.play.call_logs.log import callable_names
from costgym.simulators.errors import ConfigError, check_known
from costgym.simulators.failures import PRESETS
from costgym.simulators.marketplace.catalogue import draw_profile
from costgym.simulators.marketplace.custom import CustomSource
from costgym.simulators.marketplace.market import Marketplace
from costgym.simulators.scenario import Scenario, market_of, world_of
from costgym.simulators.stress import Stress
from costgym.simulators.tasks import Task, TaskSet, normalise
from costgym.simulators.tools import Catalog, Tool, ToolProfile
from costgym.simulators.world import World

AS_IT_IS = ToolProfile(fee=0.0, latency_s=(0.0,), timeout_s=1e6)  # no imposed prices, latencies or faults
KEPT = 64  # greatest number of replies per tool that are kept, to be returned as irrelevant answers


class RealAnswers:
    """The replies of real tools so far, in one run. The world asks for an answer when a call starts, and the real one comes
    later, so `answer` is a blank to be filled in."""

    def __init__(self) -> None:
        self._replies: dict[str, dict[str, str]] = {}

    def keep(self, tool: str, arguments: Mapping[str, Any], text: str) -> None:
        """Remember a reply."""
        replies = self._replies.setdefault(tool, {})
        if len(replies) < KEPT:
            replies.setdefault(normalise(dict(arguments)), text)

    def answer(self, tool: Tool, arguments: Mapping[str, Any], task: Task) -> str | None:
        """A placeholder: the tool itself gives the answer of a call that works."""
        return ""

    def irrelevant(self, tool: Tool, arguments: Mapping[str, Any], task: Task, luck: float) -> str:
        """An earlier reply to other arguments, or a bare acknowledgement if there is none."""
        wanted = normalise(dict(arguments))
        others = [text for arguments_text, text in self._replies.get(tool.name, {}).items() if arguments_text != wanted]
        return others[int(luck * len(others))] if others else json.dumps({"status": "ok"})


def tool_of(name: str, description: str = "", parameters: Mapping[str, Any] | None = None, provider: str = "real") -> Tool:
    """A real tool as an entry of a catalogue; its profile is set by `world_around`."""
    schema = dict(parameters or {"type": "object", "properties": {}})
    return Tool(name, description, "Tools", provider, title=name, parameters=schema, capability=name)


def world_around(
    tools: Sequence[Tool], scenario: Scenario | None, prices: Mapping[str, float] | None = None, faults: float | None = None
) -> World:
    """The world of a scenario (None imposes nothing) with real tools, in any order, in place of its own. A tool that the
    scenario lists itself, such as one that was fitted to a log, keeps its profile. All others have profiles drawn from the
    scenario's seed and the tool's name, like the tools of a generated marketplace. `faults` is a factor on the share of failing
    calls and on outages, as in `Stress`. Raises ConfigError or UnknownName for faults or prices that fit nothing."""
    if not tools:
        raise ConfigError("tools", "expected at least one, got none")
    names = [tool.name for tool in tools]
    for name, price in (prices or {}).items():
        check_known("tool", name, names)
        if not 0 <= price < float("inf"):
            raise ConfigError("price", f"expected a number of at least 0 for {name}, got {price}")
    if scenario is None:
        profiles = dict.fromkeys(names, AS_IT_IS)
    else:
        profiles = {name: draw_profile(scenario.seed, name, scenario.failures) for name in names}
        profiles |= _listed(tools, scenario)
    priced = {name: replace(profile, fee=(prices or {}).get(name, profile.fee)) for name, profile in profiles.items()}
    catalog = Catalog(
        (replace(tool, profile=priced[tool.name]) for tool in sorted(tools, key=lambda tool: tool.name)), "the real tools"
    )
    task = Task("real", 0, "", (), tuple(tool.name for tool in catalog))
    market = Marketplace(catalog, TaskSet([task], {"train": [0], "test": [0]}), RealAnswers())
    if scenario is None:
        if faults is not None:
            raise ConfigError("faults", "a factor on failures needs a scenario")
        return World(market.catalog, market.tasks, market.answers, PRESETS["reliable"])
    stress = scenario.stress or Stress()
    if faults is not None:
        if not 0 <= faults <= 100:
            raise ConfigError("faults", f"expected a factor from 0 to 100, got {faults}")
        stress = stress.model_copy(update={"failures": faults})
    world = world_of(scenario, market)
    return world if stress == Stress() else stress.applied(world, scenario.seed)


def _listed(tools: Sequence[Tool], scenario: Scenario) -> dict[str, ToolProfile]:
    """Profiles of the tools that a scenario lists, by their own names or as `calibrate` wrote them."""
    if not isinstance(scenario.source, CustomSource):
        return {}
    theirs = {tool.name: tool.profile for tool in market_of(scenario).catalog}
    written = callable_names([tool.name for tool in tools])
    return {tool.name: theirs[name] for tool in tools for name in (written[tool.name], tool.name) if name in theirs}

"""The tools of a session over a scenario's world: kinds that are drawn from what the world can do, and their rivals."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from ..draws import stable_generator
from ..errors import ConfigError
from ..scenario import Scenario, worlds_of
from ..tools import Tool
from .rules import SessionRules, rules_of

HIGHEST_FEE = 10.0
"""Highest price of a tool, in the currency of the queries' values."""
_NEEDED = {"pricing": "flat", "bill_failures": True, "tokens": None, "events": ()}
"""Rules of a scenario that sessions have too; under others a session would not be what its scenario says."""


@lru_cache(maxsize=4)
def _worlds(document: str) -> Sequence[Scenario]:
    scenario = rules_of(document).scenario
    assert scenario is not None
    for name, needed in _NEEDED.items():
        if (got := getattr(scenario, name)) != needed:
            raise ConfigError("scenario", f"a session needs {name}: {needed!r}, and {scenario.name} has {got!r:.60}")
    return worlds_of(scenario) or (scenario,)


def offered(rules: SessionRules, number: int) -> tuple[tuple[Tool, ...], NDArray[np.int64]]:
    """The tools of a session in the order of its slots, and what each can do.

    The worlds of a folder take turns by the session's number. At most `rules.capabilities` of what a world can read are drawn,
    and at most `rules.tools` of the tools that can do it.

    Returns:
        The world's tools, and (I,) their kinds from 0 on.

    Raises:
        ConfigError: The world's rules or prices do not fit a session, or it has no tool that reads.
    """
    worlds = _worlds(rules.document)
    scenario = worlds[number % len(worlds)]
    rivals: dict[str, list[Tool]] = {}
    for tool in scenario.build().catalog:
        if tool.capability and tool.effect is None:
            rivals.setdefault(tool.capability, []).append(tool)
    if not rivals:
        raise ConfigError("scenario", f"a session needs tools that read, and {scenario.name} has none of a known capability")
    dear = max((tool for each in rivals.values() for tool in each), key=lambda tool: tool.profile.fee)
    if dear.profile.fee > HIGHEST_FEE:
        wanted = f"a session needs prices up to {HIGHEST_FEE:g}, since its queries are worth 2 to 20"
        raise ConfigError("scenario", f"{wanted}; {dear.name} of {scenario.name} costs {dear.profile.fee:g}")
    random = stable_generator(number, "offers").random
    drawn = [list(rivals)[place] for place in np.argsort(random(len(rivals)))[: rules.capabilities]]
    orders = [[rivals[name][place] for place in np.argsort(random(len(rivals[name])))] for name in drawn]
    # in rounds, as in generated catalogues: where the slots do not suffice, every kind keeps some of its tools
    places = [(tool, kind) for lap in zip_longest(*orders) for kind, tool in enumerate(lap) if tool is not None]
    tools, kinds = zip(*places[: rules.tools], strict=True)
    return tools, np.array(kinds)

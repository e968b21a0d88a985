"""Build the world of DEER's decisions: from generated samples, or from those of a ToolDEER folder."""

import json
from functools import lru_cache

from ..simulators.decision.samples import DecisionSettings, decision_world
from ..simulators.scenario import parse_scenario
from ..simulators.world import World


@lru_cache(maxsize=4)
def build_world(scenario: str, data: str | None, samples: str | None) -> World:
    """Build the world of a scenario and, for generated samples, `DecisionSettings`, both as JSON; once per process."""
    settings = parse_scenario(json.loads(scenario))
    if settings.source.kind == "tooldeer":
        return settings.build()
    if data is not None:
        from ..simulators.decision.recorded import recorded_world

        return recorded_world(settings.build(), settings.seed, data)
    world, _ = decision_world(settings.build(), settings.seed, DecisionSettings(**json.loads(samples or "{}")))
    return world

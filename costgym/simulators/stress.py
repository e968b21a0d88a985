"""Stress: factors on how often the tools of a world fail, how tight their limits are and how long they take.

The catalogue, the tasks and what tools advertise stay as they are, and every draw of an episode keeps its place: an agent that
plays under several levels of stress meets the same tasks with the same luck, and only the world's harshness differs.
"""

from dataclasses import replace

from costgym.simulators.bounds import BOUNDS, StrictModel, out_of_bounds, within
from costgym.simulators.draws import stable_generator
from costgym.simulators.errors import ConfigError
from costgym.simulators.failures import FailureModel
from costgym.simulators.tools import Catalog, ToolProfile
from costgym.simulators.world import World


class Stress(StrictModel):
    """Factors on a world's faults. At 1, the world is as its scenario says."""

    # on each tool's share of failing calls, and on how often outages begin; 0 for a world without failures
    failures: float = within("stress.failures", default=1.0)
    # on the share of tools with a rate limit; what a limit or a quota admits is divided by it. 0 for none.
    rate_limits: float = within("stress.rate_limits", default=1.0)
    latency: float = within("stress.latency", default=1.0)  # on the duration of calls and cold starts

    def applied(self, world: World, seed: int) -> World:
        """The world of a scenario with this seed under stress; raises ConfigError where a number leaves its range."""
        model = world.failures
        tools = [replace(tool, profile=self._profile(tool.key, tool.profile, model, seed)) for tool in world.catalog]
        factor, bursts = self.failures, model.bursts
        if bursts is not None:
            path = "failures.bursts.every_s"
            every_s = min(bursts.every_s / factor, BOUNDS[path].high) if factor else 0.0
            if factor and (problem := out_of_bounds(path, every_s)):
                raise ConfigError("stress.failures", f"{factor:g} times as many outages: {path}: {problem}")
            bursts = bursts.model_copy(update={"every_s": every_s}) if factor else None
        failures = model.model_copy(update={"slip": self._slip(model.slip), "bursts": bursts})
        return world.changed(catalog=Catalog(tools), failures=failures)

    def _profile(self, name: str, profile: ToolProfile, model: FailureModel, seed: int) -> ToolProfile:
        limit = profile.rate_limit
        if not limit and self.rate_limits > 1 and model.rate_limited_share < 1:
            luck = stable_generator(seed, "stress", name).random(2)
            gained = min(1.0, model.rate_limited_share * self.rate_limits) - model.rate_limited_share
            if luck[0] < gained / (1.0 - model.rate_limited_share):
                limit = 3 + int(luck[1] * 8)  # as generated tools have it
        slip = model.slip if profile.slip is None else profile.slip
        return replace(
            profile,
            reliability=self._reliability(profile.reliability, slip),
            slip=None if profile.slip is None else self._slip(slip),
            rate_limit=self._admitted(limit),
            quota=self._admitted(profile.quota),
            latency_s=tuple(self._longer(name, "latency_s", seconds) for seconds in profile.latency_s),
            cold_start_s=self._longer(name, "cold_start_s", profile.cold_start_s),
        )

    def _longer(self, tool: str, field: str, seconds: float) -> float:
        longer = seconds * self.latency
        if problem := out_of_bounds(f"profile.{field}", longer):
            raise ConfigError("stress.latency", f"{self.latency:g} times as long for {tool}: {field}: {problem}")
        return longer

    def _slip(self, slip: float) -> float:
        """Return the slip under this stress: at most as large, since a larger one would let dead tools answer."""
        return slip * min(1.0, self.failures)

    def _reliability(self, reliability: float, slip: float) -> float:
        """The reliability at which `failures` times as many calls fail, those that fail by a slip among them."""
        factor = self.failures
        if factor <= 1.0 or slip >= 0.5:
            return max(0.0, 1.0 - factor + factor * reliability)
        # a working tool fails by a slip, and a dead one answers by a slip: solved for the reliability that gives the wanted
        # share
        failing = factor * ((1.0 - reliability) * (1.0 - slip) + reliability * slip)
        return max(0.0, (1.0 - failing - slip) / (1.0 - 2.0 * slip))

    def _admitted(self, limit: int) -> int:
        """Return how many calls a limit admits under this stress; 0 for any number."""
        return max(1, round(limit / self.rate_limits)) if limit and self.rate_limits else 0

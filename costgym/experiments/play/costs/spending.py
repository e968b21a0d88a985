"""What a real model's tokens cost in US dollars: a forecast before a run, and a limit at which it stops.

Costs are the tokens that the server reported, at the prices of a table. A forecast takes the tokens of the simulated model
instead, in the same agent on some of the same tasks.
"""

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from costgym.agents.models.named import read_model_name
from costgym.agents.models.prices import load_prices, shipped_prices
from costgym.experiments.play.execution.engine import Engine, Shared, Task, Work
from costgym.experiments.play.results import TOKEN_COST, EpisodeResult
from costgym.simulators.errors import ConfigError, SpendLimitReached
from costgym.simulators.scenario import TokenPrices

FORECAST_EPISODES = 5  # episodes of each row from which a forecast is made

Item = TypeVar("Item")


def sample_episodes(episodes: int) -> list[int]:
    """The indices of the episodes that a forecast plays, spread evenly over the run's.

    >>> sample_episodes(100)
    [0, 20, 40, 60, 80]
    """
    count = min(episodes, FORECAST_EPISODES)
    return [part * episodes // count for part in range(count)]


class Spending:
    """The dollars that a run's model costs: those that are forecast, those that were spent, and their limit (None: no limit).
    By default the package's prices hold. Raises ConfigError if the limit is not above 0, or the model is not a real one."""

    def __init__(
        self,
        model: str,
        prices: str | Path | None = None,
        limit_usd: float | None = None,
        announce: Callable[[str], None] = lambda text: None,
    ) -> None:
        name = read_model_name(model)
        if name is None:
            raise ConfigError("--spend-limit", f"{model} is not a real model; it costs nothing")
        if limit_usd is not None and not (math.isfinite(limit_usd) and limit_usd > 0):
            raise ConfigError("--spend-limit", f"expected US dollars above 0, got {limit_usd:g}")
        self.limit_usd, self.spent_usd, self.forecast_usd = limit_usd, 0.0, 0.0
        self.stopped_before: Hashable | None = None
        self._name, self._announce = name.model, announce
        self._table = shipped_prices(name.model) if prices is None else load_prices(prices)
        self._usd_per_unit: dict[Hashable, float] = {}
        self._dearest_usd: dict[Hashable, float] = {}
        self._met: set[Hashable] = set()  # rows of which the model itself has played an episode

    def usd_per_unit(self, world: Mapping[str, Any]) -> float | None:
        """The worth of a unit of a world's currency; None where its tokens are not priced by the table."""
        tokens, currency = world.get("tokens"), world.get("currency")
        version = (world.get("source") or {}).get("world", 0)
        if tokens is None or self._name not in self._table.models or currency not in self._table.per_dollar:
            return None
        if TokenPrices.model_validate(tokens) != self._table.in_currency(self._name, currency, version):
            return None
        return 1.0 / self._table.per_dollar[currency]

    def expect(self, row: Hashable, usd_per_unit: float, sample: Sequence[EpisodeResult], left: int) -> None:
        """Add a row's episodes that are left to the forecast, from a sample that the simulated model played."""
        self._usd_per_unit[row] = usd_per_unit
        costs = [self._usd(row, result) for result in sample]
        self._dearest_usd[row] = max([self._dearest_usd.get(row, 0.0), *costs])
        if costs:
            self.forecast_usd += left * sum(costs) / len(costs)

    def add(self, row: Hashable, result: EpisodeResult) -> None:
        """Count an episode that the model played."""
        cost = self._usd(row, result)
        self._met.add(row)
        self.spent_usd += cost
        self._dearest_usd[row] = max(self._dearest_usd.get(row, 0.0), cost)

    def announce(self, left: int) -> None:
        """Say what the episodes that are left will cost; nothing where none is left or no agent pays for tokens."""
        if not left or self.forecast_usd == 0:
            return
        before = f"{dollars(self.spent_usd)} spent so far; " if self.spent_usd else ""
        limit = "" if self.limit_usd is None else f"; the limit is {dollars(self.limit_usd)} in all"
        self._announce(
            f"{before}forecast: about {dollars(self.forecast_usd)} for {left:,} episodes{limit}. From the tokens of the "
            f"simulated model on up to {FORECAST_EPISODES} episodes of each agent and condition, at the prices of {self._name} "
            f"of {self._table.date.isoformat()}; the real model may write more or less"
        )

    def unpriced(self, tracks: Sequence[str] = ()) -> None:
        """Say that there is no forecast, since a world's tokens (those of some tracks) are not at the table's prices. Raises
        ConfigError if there is a limit, which could not be kept to."""
        where = f"the track{'s' if len(tracks) > 1 else ''} {', '.join(tracks)}" if tracks else "this run"
        problem = f"the table of {self._table.date.isoformat()} does not price the tokens of {self._name} in {where}"
        if self.limit_usd is not None:
            advice = "name other agents, or pass the model's prices with --prices FILE"
            raise ConfigError("--spend-limit", f"{problem}, so nothing can be counted; {advice}")
        self._announce(f"no forecast of the cost: {problem}")

    def stream(
        self,
        engine: Engine,
        work: Work[Shared, Task, Item],
        shared: Shared,
        tasks: Iterable[tuple[Hashable, Task]],
        result_of: Callable[[Item], EpisodeResult],
    ) -> Iterator[Item]:
        """Play episodes on an engine until the next one might pass the limit; `stopped_before` names its row then. An episode
        begins only if the limit covers it and those that are under way, each at the cost of the dearest one of its row so far,
        be it forecast or played. The first episode of a row is played alone, since a forecast may be far off."""
        waiting = deque(tasks)
        under_way: deque[tuple[Hashable, float]] = deque()

        def fits() -> bool:
            if self.limit_usd is not None and under_way and waiting[0][0] not in self._met:
                return False
            reserved = sum(usd for _, usd in under_way) + self._dearest_usd.get(waiting[0][0], 0.0)
            return self.limit_usd is None or self.spent_usd + reserved <= self.limit_usd

        def supply() -> Iterator[Task]:
            while waiting and fits():
                row, task = waiting.popleft()
                under_way.append((row, self._dearest_usd.get(row, 0.0)))
                yield task

        while waiting:
            if not fits():
                self.stopped_before = waiting[0][0]
                return
            for item in engine.stream(work, shared, supply()):
                row, _ = under_way.popleft()
                self.add(row, result_of(item))
                yield item

    def check(self, played: int, episodes: int) -> None:
        """Raise SpendLimitReached where `stream` stopped at the limit."""
        if self.stopped_before is not None and self.limit_usd is not None:
            following = self._dearest_usd[self.stopped_before]
            raise SpendLimitReached(self.spent_usd, self.limit_usd, following, played, episodes)

    def _usd(self, row: Hashable, result: EpisodeResult) -> float:
        return result.figures.get(TOKEN_COST, 0.0) * self._usd_per_unit.get(row, 0.0)


def dollars(usd: float) -> str:
    """US dollars in words, with the digits that small sums need.

    >>> dollars(12.345), dollars(0.00123)
    ('$12.35', '$0.0012')
    """
    return f"${usd:,.2f}" if usd >= 1 or usd == 0 else f"${usd:.2g}" if usd >= 1e-4 else f"${usd:.1e}"

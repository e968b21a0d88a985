"""What an agent's model calls cost under a vendor's price list, with and without its cache of prompts.

The world counts what the cache of an episode serves; without it the same requests are billed as new. A cache that episodes
share cannot be the world's, since what an episode costs there must not depend on others: the same requests are counted again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from costgym.agents.base import Agent
from costgym.envs.base import base_env
from costgym.experiments.play.episodes import play_many
from costgym.experiments.play.results import TOKEN_COST, EpisodeResult, outcome
from costgym.experiments.play.statistics import intervals
from costgym.simulators.calls import Prompt, Segment, Usage
from costgym.simulators.errors import ConfigError
from costgym.simulators.pricing.prompt_cache import ModelPrices, PrefixCache

RESAMPLES = 1000
MONTH_S = 30 * 24 * 3600.0
NONE, PREFIX, SHARED = "none", "prefix", "shared"
CACHES = (NONE, PREFIX)
"""Of prompts: none, that of an episode, and one that all episodes share."""
CLASSES = ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PlayedEpisode:
    """An episode's result, the tokens by class of each request that its agent made, and each one's time and prompt."""

    result: EpisodeResult
    usages: tuple[Usage, ...]
    prompts: tuple[tuple[float, Prompt], ...] = ()


def play_billed(env: Any, agent: Agent, env_id: str, episodes: int, seed: int) -> Iterator[PlayedEpisode]:
    """Play episodes in a world that counts what its cache of prompts serves; an agent without a model makes no requests."""
    for result, _ in play_many(env, agent, env_id, range(episodes), seed, recorded=False):
        account = base_env(env).account()
        yield PlayedEpisode(result, tuple(account.ledger.usages), tuple(_prompts(account)))


def _prompts(episode: Any) -> Iterator[tuple[float, Prompt]]:
    """The time and the prompt of each request of an episode that has ended."""
    thoughts = [entry[1] for entry in episode.log if entry[0] == "think"]
    ends = [charge.at_s for charge in episode.ledger if charge.what == "think"]
    for number, usage in enumerate(thoughts):
        if usage.prompt is not None:
            end_s = ends[number] if number < len(ends) else episode.now_s
            yield end_s - episode.world.thinking_s(usage), usage.prompt


class Bills:
    """What played episodes cost under a price list, in US dollars.

    Args:
        episodes: at least one.
        prices: of the model, by which the world counted too.
        per_dollar: units of the scenario's currency that are a dollar.
        cache: one of `CACHES`, or `SHARED`.
        interval_s: from the beginning of an episode to that of the next one, where they share a cache.

    Attributes:
        tokens_usd, tools_usd: cost of the tokens and of the tools, (n_episodes,) each.
        usages: tokens by class of each request of each episode.

    Raises:
        ConfigError: there are no episodes.
    """

    def __init__(
        self, episodes: Sequence[PlayedEpisode], prices: ModelPrices, per_dollar: float, cache: str, interval_s: float = 0.0
    ) -> None:
        if not episodes:
            raise ConfigError("episodes", "expected at least one episode, got none")
        self.episodes, self.cache = episodes, cache
        self.usages = [episode.usages for episode in episodes]
        if cache == NONE:
            self.usages = [tuple(map(_uncached, usages)) for usages in self.usages]
        elif cache == SHARED:
            self.usages = shared_usages(episodes, prices, interval_s)
        self.tokens_usd: FloatArray = np.array([sum(map(prices.price, usages)) for usages in self.usages], dtype=np.float64)
        results = [episode.result for episode in episodes]
        self.tools_usd: FloatArray = np.array(
            [(result.price - result.figures.get(TOKEN_COST, 0.0)) / per_dollar for result in results]
        )

    @property
    def usd(self) -> FloatArray:
        """Cost of each episode, (n_episodes,)."""
        return np.add(self.tokens_usd, self.tools_usd)

    def summary(self, tasks_per_month: int, grading: str = "strict", seed: int = 0) -> dict[str, Any]:
        """Sum up: a success is an episode passed within its budget, under the grading "strict" or "judge"."""
        total, count = self.usd, len(self.episodes)
        success = np.array([outcome(episode.result, grading) == "passed" for episode in self.episodes], dtype=np.float64)
        usages = [usage for requests in self.usages for usage in requests]
        classes = {name: sum(getattr(usage, name) for usage in usages) / count for name in CLASSES}
        low, high = intervals(total[:, None], np.ones((count, 1)), range(count), seed, RESAMPLES)
        read = classes["input_tokens"]
        return {
            "cache": self.cache,
            "episodes": count,
            "usd_per_task": float(total.mean()),
            "usd_per_task_ci95": [float(low[0]), float(high[0])],
            "usd_p50": float(np.percentile(total, 50)),
            "usd_p95": float(np.percentile(total, 95)),
            "usd_per_success": float(total.sum() / success.sum()) if success.any() else None,
            "usd_per_month": float(total.mean() * tasks_per_month),
            "usd_tokens": float(self.tokens_usd.mean()),
            "usd_tools": float(self.tools_usd.mean()),
            "success": float(success.mean()),
            "cached_share": classes["cached_tokens"] / read if read else 0.0,
            "requests": len(usages) / count,
            **classes,
        }

    def change(self, other: "Bills", seed: int = 0) -> dict[str, Any]:
        """The relative change of the costs from another's, who played the same tasks: of the tokens and of everything."""
        changes: dict[str, Any] = {}
        sides = {"usd_tokens": (self.tokens_usd, other.tokens_usd), "usd_per_task": (self.usd, other.usd)}
        for name, (ours, theirs) in sides.items():
            if theirs.sum() > 0:
                low, high = intervals(ours[:, None], theirs[:, None], range(len(ours)), seed, RESAMPLES)
                changes[name] = float(ours.sum() / theirs.sum() - 1)
                changes[f"{name}_ci95"] = [float(low[0] - 1), float(high[0] - 1)]
        return changes


def shared_usages(episodes: Sequence[PlayedEpisode], prices: ModelPrices, interval_s: float) -> list[tuple[Usage, ...]]:
    """The tokens by class of the same requests where episodes share a cache; they begin one `interval_s` after another."""
    requests: list[tuple[float, int, int, list[Segment], tuple[int, ...]]] = []
    for number, episode in enumerate(episodes):
        if len(episode.prompts) != len(episode.usages):
            raise ConfigError("--share-cache", "an episode's requests have no prompts, so nothing can be counted again")
        parts: list[Segment] = []
        for rank, (at_s, prompt) in enumerate(episode.prompts):
            parts = [*parts[: prompt.same], *prompt.parts]
            requests.append((number * interval_s + at_s, number, rank, parts, prompt.marks))
    cache, counted = PrefixCache(prices), [list(episode.usages) for episode in episodes]
    for at_s, number, rank, parts, marks in sorted(requests, key=lambda request: request[:3]):
        usage, served = counted[number][rank], cache.bill(parts, at_s, marks=marks)
        cached = min(served.cached_tokens, usage.input_tokens)
        written = min(served.cache_write_tokens, usage.input_tokens - cached)
        counted[number][rank] = usage._replace(cached_tokens=cached, cache_write_tokens=written)
    return [tuple(usages) for usages in counted]


def _uncached(usage: Usage) -> Usage:
    return usage._replace(cached_tokens=0, cache_write_tokens=0)

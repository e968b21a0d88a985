"""What an agent's model calls cost under a vendor's price list, with and without its cache of prompts.

Each request of an episode is kept as the digests and tokens of its parts, and the simulated time at which it was made. So one
play is priced under any rules: the decisions are the same, the bill is not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from costgym.agents.base import Agent
from costgym.agents.llm.session import LlmAgent
from costgym.agents.models.base import ACT, SYSTEM, Function, LanguageModel, Message, Reply
from costgym.agents.world_side import ModelHandle, model_of, wrap_model
from costgym.envs.base import base_env
from costgym.experiments.play.episodes import play_many
from costgym.experiments.play.results import TOKEN_COST, EpisodeResult, outcome
from costgym.experiments.play.statistics import intervals
from costgym.simulators.calls import Segment, Usage
from costgym.simulators.errors import ConfigError
from costgym.simulators.prompt_cache import ModelPrices, PrefixCache

RESAMPLES = 1000
CLASSES = ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a model.

    Attributes:
        at_s: simulated time, seconds.
        functions, system, messages: digests and tokens of the functions, the system message and the other messages.
        output_tokens: tokens of the reply.
    """

    at_s: float
    functions: tuple[Segment, ...]
    system: tuple[Segment, ...]
    messages: tuple[Segment, ...]
    output_tokens: int

    def segments(self, order: str) -> tuple[Segment, ...]:
        """The parts in a vendor's order, which begins with the functions or with the system message."""
        first = (*self.functions, *self.system) if order == "functions" else (*self.system, *self.functions)
        return (*first, *self.messages)


class PromptRecorder:
    """A language model that answers as another and keeps what it was sent in the present episode."""

    on_world_side = True

    def __init__(self, model: Any) -> None:
        self.name: str = model.name
        self.requests: list[Request] = []
        self._model, self._world = model, None

    def begin(self, world: Any, seed: int) -> None:
        self._world, self.requests = world, []
        if hasattr(self._model, "begin"):
            self._model.begin(world, seed)
        else:
            self._model.reset(seed)

    def complete(self, messages: Sequence[Message], functions: Sequence[Function], purpose: str = ACT) -> Reply:
        reply: Reply = self._model.complete(messages, functions, purpose)
        parts = [(message.digest, message.tokens) for message in messages]
        first = 1 if messages and messages[0].role == SYSTEM else 0
        self.requests.append(
            Request(
                at_s=float(base_env(self._world).account().now_s),  # type: ignore[arg-type]
                functions=tuple([(function.digest, function.tokens) for function in functions]),
                system=tuple(parts[:first]),
                messages=tuple(parts[first:]),
                output_tokens=reply.usage.output_tokens,
            )
        )
        return reply


def record_prompts(agent: Agent) -> PromptRecorder | None:
    """Put a recorder between an agent and its language model; None for an agent without one."""
    if not isinstance(agent, LlmAgent):
        return None
    model: LanguageModel | ModelHandle = agent._model
    recorder = PromptRecorder(model_of(model) if isinstance(model, ModelHandle) else model)
    agent._model, agent.handles = wrap_model(recorder)
    return recorder


def bill(requests: Sequence[Request], prices: ModelPrices, cached: bool = True) -> list[Usage]:
    """The tokens of an episode's requests by class, under the model's own cache or without one."""
    if not cached or prices.rules is None:
        return [
            Usage(sum(tokens for _, tokens in request.segments("functions")), request.output_tokens) for request in requests
        ]
    cache, order = PrefixCache(prices), prices.rules.order
    return [cache.bill(request.segments(order), request.at_s, request.output_tokens) for request in requests]


@dataclass(frozen=True, slots=True)
class PlayedEpisode:
    """An episode's result, and the requests that its agent made."""

    result: EpisodeResult
    requests: tuple[Request, ...]


def play_recorded(env: Any, agent: Agent, env_id: str, episodes: int, seed: int) -> Iterator[PlayedEpisode]:
    """Play episodes and keep the requests to the model; an agent without a model makes none."""
    recorder = record_prompts(agent)
    for result, _ in play_many(env, agent, env_id, range(episodes), seed, recorded=False):
        yield PlayedEpisode(result, () if recorder is None else tuple(recorder.requests))


class Bills:
    """What played episodes cost under a price list, in US dollars.

    Args:
        episodes: at least one.
        prices: of the model; `cached`: whether its cache of prompts is used.
        per_dollar: units of the scenario's currency that are a dollar.

    Attributes:
        tokens_usd, tools_usd: cost of the tokens and of the tools, (n_episodes,) each.
        usages: tokens by class of each request of each episode.

    Raises:
        ConfigError: there are no episodes.
    """

    def __init__(self, episodes: Sequence[PlayedEpisode], prices: ModelPrices, per_dollar: float, cached: bool) -> None:
        if not episodes:
            raise ConfigError("episodes", "expected at least one episode, got none")
        self.episodes, self.cached = episodes, cached
        self.usages = [bill(episode.requests, prices, cached) for episode in episodes]
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
            "cache": "prefix" if self.cached else "none",
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

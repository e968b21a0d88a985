"""The tasks that GRPO trains on: a dataset whose rows name episodes, and the episodes' figures as rewards."""

import json
from collections.abc import Callable
from typing import Any

from costgym.experiments.play.text_episode import Row, TextWorld, ToolEpisode
from costgym.simulators.scenario import parse_scenario

LOGGED = ("success", "price", "calls", "agent_errors")
"""Figures of an episode whose means are logged."""


class GrpoWorld(TextWorld):
    """Tasks of a scenario, each to be played under several seeds; arguments as for `TextWorld`."""

    @classmethod
    def tiny(cls, tasks: int = 3, rounds: int = 8, seed: int = 0) -> "GrpoWorld":
        """Create a small world that a tiny model learns on a CPU in minutes: tasks of two needs and about four of 40 tools."""
        source = {"kind": "marketplace", "tools": 40, "providers": 10, "categories": 4, "train": 24, "test": 4, "candidates": 4}
        scenario = parse_scenario({"name": "tiny", "description": "Small enough for a tiny model.", "source": source})
        return cls(scenario, tasks=tasks, most_needs=2, rounds=rounds, seed=seed)

    def rows(self) -> list[Row]:
        """Return the rows: `prompt` names the episode, as JSON with `task` and `seed`; the episode itself asks the model."""
        return [{"prompt": json.dumps(row)} for row in super().rows()]

    def episode(self, prompt: str) -> ToolEpisode:
        """Begin the episode that a row names."""
        return self.begin(**json.loads(prompt))


def episode_quality(
    quality: list[float], log_metric: Callable[[str, float], None] | None = None, **figures: Any
) -> list[float]:
    """The reward of each rollout: its Quality of Plan; `log_metric` receives the means of the figures in `LOGGED`."""
    if log_metric is not None and quality:
        for name in LOGGED:
            log_metric(f"episode/{name}", sum(figures[name]) / len(quality))
    return list(quality)

"""The tasks that GRPO trains on: a dataset whose rows name episodes, and the episodes' figures as rewards."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ....simulators.draws import stable_integer
from ....simulators.errors import ConfigError, require
from ....simulators.scenario import Scenario, load_scenario, parse_scenario
from ...play.text_episode import ToolEpisode, task_rows

LOGGED = ("success", "price", "calls", "agent_errors")
"""Figures of an episode whose means are logged."""


class GrpoWorld:
    """Tasks of a scenario, each to be played under several seeds.

    Args:
        scenario: name, YAML file or `Scenario`.
        split: split of the tasks.
        tasks: number of tasks from the start of the split; None for all.
        most_needs: maximum number of facts that a task may ask for; other tasks are excluded.
        rounds: number of rows per task, each with its own seed.
        budget: resource limits; None for the scenario's.
        seed: base seed from which the rows' seeds are drawn.
        max_steps: number of calls after which an episode is truncated.
        documents: `full` or `short` documents of the tools; short ones are those of `costgym train sft`.

    Raises:
        ConfigError: a number is out of range.
    """

    def __init__(
        self,
        scenario: str | Path | Scenario = "marketplace",
        split: str = "train",
        tasks: int | None = None,
        most_needs: int | None = None,
        rounds: int = 4,
        budget: Mapping[str, float] | None = None,
        seed: int = 0,
        max_steps: int = 32,
        documents: str = "short",
    ) -> None:
        for name, value in (("tasks", tasks), ("most_needs", most_needs), ("rounds", rounds)):
            if value is None and name != "rounds":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(name, f"expected a positive whole number, got {value!r}")
        self.scenario = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
        self.split, self.rounds, self.seed, self.documents = split, rounds, seed, documents
        self.budget = None if budget is None else dict(budget)
        self.max_steps = max_steps
        rows = [row for row in task_rows(self.scenario, split) if most_needs is None or row["needs"] <= most_needs]
        if not rows:
            raise ConfigError("most_needs", f"no task of the split {split} asks for at most {most_needs} facts")
        self.numbers = {row["id"]: row["task"] for row in rows[:tasks]}

    @classmethod
    def tiny(cls, tasks: int = 3, rounds: int = 8, seed: int = 0) -> GrpoWorld:
        """Create a small world that a tiny model learns on a CPU in minutes: tasks of two needs and about four of 40 tools."""
        source = {"kind": "marketplace", "tools": 40, "providers": 10, "categories": 4, "train": 24, "test": 4, "candidates": 4}
        scenario = parse_scenario({"name": "tiny", "description": "Small enough for a tiny model.", "source": source})
        return cls(scenario, tasks=tasks, most_needs=2, rounds=rounds, seed=seed)

    def rows(self) -> list[dict[str, str]]:
        """Return the dataset's rows: every task once, then every task again with the next seed, and so on.

        A row's `prompt` names the episode, as JSON with `task` and `seed`; the episode itself asks the model.
        """
        return [
            {"prompt": json.dumps({"task": task, "seed": stable_integer(self.seed, "grpo", task, turn) % 2**31})}
            for turn in range(self.rounds)
            for task in self.numbers
        ]

    @property
    def train_dataset(self) -> Any:
        """The rows as a `datasets.Dataset`.

        Raises:
            MissingExtra: datasets is not installed.
        """
        return require("datasets", "train").Dataset.from_list(self.rows())

    def episode(self, prompt: str) -> ToolEpisode:
        """Begin the episode that a row names; the completions of a group have the same row and see the same world."""
        row = json.loads(prompt)
        settings = {"split": self.split, "max_steps": self.max_steps, "documents": self.documents}
        return ToolEpisode(self.numbers[row["task"]], row["seed"], self.scenario, self.budget, **settings)


def episode_quality(
    quality: list[float], log_metric: Callable[[str, float], None] | None = None, **figures: Any
) -> list[float]:
    """Return the reward of each rollout: its Quality of Plan.

    Args:
        quality: of each episode.
        log_metric: takes the means of the other figures.
        figures: further columns of the rollouts, among them `LOGGED`.
    """
    if log_metric is not None and quality:
        for name in LOGGED:
            log_metric(f"episode/{name}", sum(figures[name]) / len(quality))
    return list(quality)

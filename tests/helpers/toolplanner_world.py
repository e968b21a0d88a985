"""A small marketplace, and settings with which ToolPlanner learns in it within seconds."""

from typing import Any

from costgym.simulators.scenario import Scenario

WORLD = Scenario.model_validate(
    {
        "name": "small",
        "source": {"kind": "marketplace", "tools": 240, "providers": 60, "categories": 10, "train": 40, "test": 40},
        "failures": "reliable",
    }
)
TINY: dict[str, Any] = {
    "tasks": 6,
    "worlds": 1,
    "levels": ("statement", "category"),
    "hidden_size": 16,
    "heads": 2,
    "layers": 1,
    "vocabulary": 400,
    "steps": 40,
    "batch_size": 3,
    "learning_rate": 0.02,
    "rank_tasks": 6,
    "rank_steps": 4,
    "rank_batch_size": 3,
    "beta": 1.0,
    "temperature": 1.0,
}

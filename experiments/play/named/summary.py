"""Summarise a built dataset: the figures of its row in the table of named datasets."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ....simulators.errors import DataError, require
from ..export.minari import datasets_in
from .build import folder_of


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of a dataset, and the numbers of its episodes and steps."""

    dataset: str  # its id
    episodes: int
    steps: int
    mean_return: float  # mean return of its episodes, on the train tasks
    normalised_score: float  # the same where random actions have 0 and the expert has 100 on the test tasks
    success: float  # share of its episodes that succeed
    mean_cost: float  # mean cost of its episodes
    size_mb: float  # size on disk, MB


def load(dataset_id: str, root: str | Path | None = None) -> Any:
    """Load a Minari dataset from a folder of datasets."""
    minari = require("minari", "data")
    with datasets_in(root):
        try:
            return minari.load_dataset(dataset_id)
        except FileNotFoundError:
            raise DataError(folder_of(dataset_id, root), f"holds no dataset {dataset_id}; build it first") from None


def summarise(dataset_id: str, root: str | Path | None = None) -> Summary:
    """Compute the figures of a named dataset that was built below `root`, by default Minari's own."""
    minari = require("minari", "data")
    dataset = load(dataset_id, root)
    returns, costs, passed = [], [], []
    for episode in dataset.iterate_episodes():
        returns.append(float(np.sum(episode.rewards)))
        costs.append(float(np.sum(episode.infos["costs"])))
        passed.append(bool(episode.infos["is_success"][-1]))
    scores = 100.0 * minari.get_normalized_score(dataset, np.asarray(returns))
    files = folder_of(dataset_id, root).rglob("*")
    return Summary(
        dataset=dataset_id,
        episodes=len(returns),
        steps=int(dataset.total_steps),
        mean_return=float(np.mean(returns)),
        normalised_score=float(np.mean(scores)),
        success=float(np.mean(passed)),
        mean_cost=float(np.mean(costs)),
        size_mb=sum(file.stat().st_size for file in files if file.is_file()) / 1e6,
    )

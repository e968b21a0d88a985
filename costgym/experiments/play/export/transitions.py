"""Read a Minari dataset as flat arrays of transitions, with the names of D4RL and DSRL."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.experiments.play.export.minari import LOG_PROBABILITIES
from costgym.simulators.errors import ConfigError

MASK = "action_mask"


def transitions(dataset: Any) -> dict[str, NDArray[Any]]:
    """Join the episodes of a Minari dataset into arrays of N transitions.

    Args:
        dataset: a `minari.MinariDataset` that costgym exported, with observations that are arrays.

    Returns:
        `observations` and `next_observations` (N, features), from dictionaries of arrays in the order of their names; `actions`
        (N,); `rewards` and `costs` (N,), float32; `terminals` and `timeouts` (N,), bool; where the dataset has them
        `action_masks` and `next_action_masks` (N, actions), bool, and `log_probabilities` (N,). ``costs[t]`` belongs to
        ``rewards[t]``.

    Raises:
        ConfigError: the dataset is empty, its observations are no arrays, or it has no `costs`.
    """
    parts: dict[str, list[NDArray[Any]]] = {}

    def add(name: str, values: Any) -> None:
        parts.setdefault(name, []).append(np.asarray(values))

    for episode in dataset.iterate_episodes():
        if "costs" not in episode.infos:
            raise ConfigError("dataset", "expected aligned costs in infos['costs'], got none; export it with this version")
        seen, steps = _flat(episode.observations), len(episode.rewards)
        add("observations", seen[:-1])
        add("next_observations", seen[1:])
        add("actions", np.asarray(episode.actions)[:steps])
        add("rewards", np.asarray(episode.rewards, np.float32))
        add("costs", np.asarray(episode.infos["costs"][:steps], np.float32))
        add("terminals", np.asarray(episode.terminations, np.bool_))
        add("timeouts", np.asarray(episode.truncations, np.bool_))
        if MASK in episode.infos:
            add("action_masks", episode.infos[MASK][:-1])
            add("next_action_masks", episode.infos[MASK][1:])
        if LOG_PROBABILITIES in episode.infos:
            add(LOG_PROBABILITIES, np.asarray(episode.infos[LOG_PROBABILITIES][:steps], np.float32))
    if not parts:
        raise ConfigError("dataset", "expected at least one episode, got none")
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def _flat(observations: Any) -> NDArray[Any]:
    """Observations of an episode as rows: (T + 1, features)."""
    if isinstance(observations, dict):
        return np.concatenate([np.reshape(part, (len(part), -1)) for _, part in sorted(observations.items())], axis=-1)
    if not isinstance(observations, np.ndarray):
        raise ConfigError("dataset", f"expected observations that are arrays, got {type(observations).__name__}")
    return observations.reshape(len(observations), -1)

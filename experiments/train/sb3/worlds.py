"""A native batch of many worlds of a folder, for training a policy that is to play in worlds it has never seen."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....envs.marketplace import Observation
from ....envs.vector.marketplace import MarketplaceVectorEnv
from ....simulators.draws import stable_integer
from ....simulators.forge.folder import WorldFolder
from ....simulators.scenario import parse_scenario

Info = dict[str, Any]


class WorldsVectorEnv:
    """Native batches of several worlds of a folder side by side, read as one batch; a reset with seeds draws other worlds.

    Each world's environments lie next to each other. It has those parts of `MarketplaceVectorEnv` that training uses.

    Args:
        num_envs: number of environments N, divided among the worlds.
        scenario: a folder of worlds, such as ``worlds/train``.
        worlds: number of worlds K that are played at a time.
        settings: settings of `MarketplaceVectorEnv`, the same for every world.
    """

    def __init__(self, num_envs: int, *, scenario: str | Path, worlds: int = 16, **settings: Any) -> None:
        self._folder = WorldFolder(Path(scenario), parse_scenario)
        sizes = [len(part) for part in np.array_split(np.arange(num_envs), min(worlds, num_envs))]
        self._ends, self._sizes = np.cumsum(sizes)[:-1], sizes
        self._settings = {**settings, "max_tools": self._folder.most_candidates}
        self._enter(0)
        first = self._batches[0]
        self.single_observation_space, self.single_action_space = first.single_observation_space, first.single_action_space

    def _enter(self, seed: int) -> None:
        chosen = [stable_integer(seed, "world", k) % len(self._folder) for k in range(len(self._sizes))]
        self._batches = [
            MarketplaceVectorEnv(size, scenario=self._folder[number], **self._settings)
            for size, number in zip(self._sizes, chosen, strict=True)
        ]

    def reset(self, *, seed: list[int | None]) -> tuple[Observation, Info]:
        """Begin new episodes, in other worlds if there are seeds: the first one chooses the worlds."""
        if seed[0] is not None:
            self._enter(seed[0])
        parts = np.split(np.array(seed, dtype=object), self._ends)
        begun = [each.reset(seed=list(part)) for each, part in zip(self._batches, parts, strict=True)]
        return _joined([each[0] for each in begun]), _joined([each[1] for each in begun])

    def step(self, actions: NDArray[Any]) -> tuple[Observation, Any, Any, Any, Info]:
        """Play one action in each environment; see `MarketplaceVectorEnv.step`."""
        parts = np.split(actions, self._ends)
        observations, rewards, ended, cut, infos = zip(
            *(each.step(part) for each, part in zip(self._batches, parts, strict=True)), strict=True
        )
        info: Info = _joined([{key: array for key, array in each.items() if "final" not in key} for each in infos])
        if any("final_info" in each for each in infos):
            # a world in which no episode has ended shows its present figures there, which nobody reads
            info["final_info"] = _joined([each.get("final_info", each) for each in infos])
            empty = [np.full(size, None, dtype=object) for size in self._sizes]
            info["final_obs"] = np.concatenate([each.get("final_obs", none) for each, none in zip(infos, empty, strict=True)])
        return _joined(observations), np.concatenate(rewards), np.concatenate(ended), np.concatenate(cut), info

    def action_masks(self) -> NDArray[np.bool_]:
        """The present action masks, (N, actions)."""
        return np.concatenate([each.action_masks() for each in self._batches])

    def close(self) -> None:
        """Close every batch."""
        for each in self._batches:
            each.close()


def _joined(parts: Any) -> dict[str, NDArray[Any]]:
    """Dictionaries of arrays as one, along the first axis; the keys are those of the shortest."""
    shortest = min(parts, key=len)
    return {key: np.concatenate([part[key] for part in parts]) for key in shortest}

"""Play the policy that a training run had at one of its stages.

Each world has one run of sb3-contrib's MaskablePPO with its `MlpPolicy` on flattened observations.
`benchmarks/learning/stages.py` trains them and writes their weights to `weights/WORLD.npz`, with the settings of the run and
the returns that it saw.
"""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.agents.base import NUMERIC, PLAN_CALLS, Agent
from costgym.agents.seat import Seat
from costgym.simulators.errors import ConfigError, check_known

WEIGHTS = Path(__file__).parent / "weights"
WORLDS = {"marketplace": NUMERIC, "marketplace-constrained": NUMERIC, "opencatp-calls": PLAN_CALLS}
"""Environment in which each run was trained."""
ABOUT = "about"
Layers = tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...]
"""Weights (inputs, outputs) and biases (outputs,) of each layer."""


@lru_cache(maxsize=len(WORLDS))
def _read(world: str) -> tuple[dict[str, Any], dict[str, NDArray[np.float32]]]:
    check_known("world of training stages", world, WORLDS)
    with np.load(WEIGHTS / f"{world}.npz", allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(str(arrays.pop(ABOUT))), arrays


def run_of(world: str) -> dict[str, Any]:
    """Return the training run of a world: `steps` and `returns` of its stages, `settings`, `seed` and `versions`."""
    return _read(world)[0]


class StageAgent(Agent):
    """The stochastic policy of a run at a stage (0: untrained), which draws from the distribution that the run drew from."""

    def __init__(self, world: str, stage: int) -> None:
        about, arrays = _read(world)
        count = len(about["steps"])
        if isinstance(stage, bool) or not isinstance(stage, int) or not 0 <= stage < count:
            raise ConfigError("stage", f"expected a number from 0 to {count - 1}, got {stage!r}")
        self.name, self.env_id = f"ppo-{about['steps'][stage]}", WORLDS[world]
        depth = sum(name.startswith("0/weight") for name in arrays)
        self._layers: Layers = tuple(
            (arrays[f"{stage}/weight{i}"].T.astype(np.float64), arrays[f"{stage}/bias{i}"].astype(np.float64))
            for i in range(depth)
        )

    def reset(self, seat: Seat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(seed))

    def probabilities(self, observation: Any, info: dict[str, Any]) -> NDArray[np.float64]:
        """Return the probability of each action, (actions,): a softmax over those that the mask allows."""
        x = np.concatenate([np.ravel(observation[name]) for name in sorted(observation)], dtype=np.float64)
        for number, (weight, bias) in enumerate(self._layers):
            x = (np.tanh(x) if number else x) @ weight + bias
        scores = np.where(info["action_mask"], x, -np.inf)
        chances: NDArray[np.float64] = np.exp(scores - scores.max())
        chances /= chances.sum()
        return chances

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        return drawn(self.probabilities(observation, info), self._generator)


def drawn(probabilities: NDArray[np.float64], generator: np.random.Generator) -> int:
    """Draw an action; one of probability 0 is never drawn."""
    edges = np.cumsum(probabilities)
    return int(np.searchsorted(edges, generator.random() * edges[-1], side="right"))

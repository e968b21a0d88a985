"""Policies learnt by reinforcement learning, as agents: ``sb3:RUN`` plays what `costgym train ppo` or `dqn` left in a folder.

Stable-Baselines3 itself is not needed to play: the network is rebuilt from its description and its weights. SB3's own zip
files hold pickled objects, which run code when they are opened; they are not read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ..envs.marketplace import MAX_NEEDS
from ..simulators.errors import ConfigError, require
from .base import NUMERIC, Agent
from .checkpoints import load_network, read_checkpoint
from .classic import _KNOWN, _NEED, _PRICE, _READY, _ROUNDING, _WANTED, numeric_env


def needed(tools: NDArray[np.float32], needs: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which tools serve a need whose fact is missing and can be had now. Other calls only cost, so no good policy is lost.

    Args:
        tools: (..., T, 16) of an observation.
        needs: (..., 6, 3).

    Returns:
        (..., T).
    """
    missing = (needs[..., _WANTED] > 0) & (needs[..., _KNOWN] == 0) & (needs[..., _READY] > 0)
    found: NDArray[np.bool_] = ((tools[..., _NEED : _NEED + MAX_NEEDS] > 0) & missing[..., None, :]).any(-1)
    return found


class Sb3Agent(Agent):
    """A learnt policy. It takes the best action that the mask allows, and waits for a call's answer before the next call.

    As in training, it calls no tool whose quoted price is beyond what is left of the budget, whatever the environment enforces.

    Args:
        path: the folder of the run.
        name: as it stands on the leaderboard; ``sb3:`` and the path by default.

    Raises:
        DataError: there is no checkpoint, or one of another environment, version or network.
        MissingExtra: torch is not installed.
    """

    env_id = NUMERIC

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        torch = require("torch", "train")
        self.checkpoint = read_checkpoint(path)
        self.name = name or f"sb3:{path}"
        self._torch = torch
        self._needed_only = self.checkpoint.training.get("needed_only") is True
        self._network = load_network(path, self.checkpoint).eval().requires_grad_(False)

    def reset(self, env: gym.Env[Any, Any], observation: Any, info: dict[str, Any], seed: int) -> None:
        view = numeric_env(env, self.name)
        self._wait = view.wait_action
        self._unit = view.world.max_price / 10.0
        if len(info["action_mask"]) != view.max_tools + 2:
            raise ConfigError(f"agent {self.name}", "expected the environment's own action mask in info")

    def act(self, observation: dict[str, NDArray[np.float32]], info: dict[str, Any]) -> int:
        mask = info["action_mask"].copy()
        if mask[self._wait]:
            return self._wait
        prices = observation["tools"][:, _PRICE].astype(np.float64) * self._unit
        mask[: self._wait] &= prices <= info["budget_remaining_price"] + _ROUNDING * prices
        mask[: self._wait] &= info["budget_remaining_calls"] >= 1
        if self._needed_only:
            mask[: self._wait] &= needed(observation["tools"], observation["needs"])
        torch = self._torch
        with torch.inference_mode():
            batch = {name: torch.from_numpy(np.array(part))[None] for name, part in observation.items()}
            logits = self._network(batch)[0][0].numpy()
        return int(np.argmax(np.where(mask, logits, -np.inf)))

"""What is watched while a policy learns: returns, costs, losses, time; and the Lagrange multiplier that follows the cost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from stable_baselines3.common.callbacks import BaseCallback

from .decisions import ToolVecEnv

if TYPE_CHECKING:
    from .train import _Run

LINE_EVERY = 4096
"""Decisions between two lines of DQN's learning curve; PPO has one per update."""


class Watch(BaseCallback):  # type: ignore[misc]
    """Notes the learning curve of one segment and says when to stop.

    Attributes:
        metrics: the last line of the curve.
        broken: the loss or a weight is no finite number.
    """

    def __init__(self, run: _Run, env: ToolVecEnv) -> None:
        super().__init__()
        self.run, self.env = run, env
        self.metrics: dict[str, float | None] = {}
        self.broken = False
        self._noted = run.steps

    def _on_step(self) -> bool:
        if self.run.algorithm == "dqn" and self.num_timesteps - self._noted >= LINE_EVERY:
            self._note()
        over = self.run.target_s is not None and self.run.share(self.num_timesteps) >= 1.0
        return not (self.broken or over)

    def _on_rollout_start(self) -> None:
        # SB3 updates after a rollout, so what the update logged is there when the next one starts
        if self.run.algorithm == "ppo" and self.num_timesteps > self._noted:
            self._note()

    def _on_training_end(self) -> None:
        if self.num_timesteps > self._noted:
            self._note()

    def _note(self) -> None:
        from .train import finite, network_of

        finished, self.env.finished = self.env.finished, []
        logged = self.logger.name_to_value
        line: dict[str, float | None] = {
            "steps": self.num_timesteps,
            "seconds": round(self.run.seconds, 2),
            "episodes": len(finished),
            "return": _mean([each.reward for each in finished]),
            "success": _mean([float(each.success) for each in finished]),
            "cost": _mean([each.cost for each in finished]),
            "decisions": _mean([float(each.steps) for each in finished]),
            "multiplier": self.run.multiplier,
            "loss": _number(logged.get("train/loss")),
            "value_loss": _number(logged.get("train/value_loss")),
            "entropy": _number(logged.get("train/entropy_loss"), -1.0),
        }
        self._noted = self.num_timesteps
        if not all(value is None or math.isfinite(value) for value in line.values()) or not finite(network_of(self.model)):
            self.broken = True
            return
        self.metrics = line
        self.run.note(line)
        self.run.report(self.num_timesteps)
        for name in ("return", "success", "cost", "multiplier"):
            if line[name] is not None:
                self.logger.record(f"rollout/{name}", line[name])
        if self.run.algorithm == "dqn":
            self.logger.dump(self.num_timesteps)
        if self.run.lagrangian is not None and line["cost"] is not None:
            self.run.integral, self.run.multiplier = self.run.lagrangian.update(self.run.integral, line["cost"])
            self.env.multiplier = self.run.multiplier


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _number(value: Any, factor: float = 1.0) -> float | None:
    return None if value is None else factor * float(value)

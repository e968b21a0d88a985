"""Callback of Stable-Baselines3 that writes the learning curve and updates the Lagrange multipliers."""

import math
from typing import TYPE_CHECKING, Any

from stable_baselines3.common.callbacks import BaseCallback

from ....agents.networks import not_finite
from ....simulators.ledger import RESOURCES
from .decisions import ToolVecEnv

if TYPE_CHECKING:
    from .train import Sb3Run

DQN_LINE_STEPS = 4096
"""Decisions between two lines of DQN's learning curve; PPO writes one line per update."""


class SegmentCallback(BaseCallback):  # type: ignore[misc]
    """Writes the learning curve of a segment, whose last line is `metrics`, and ends the segment when the run is over, is
    `stopped` by its callback, or `broken`: the loss or a weight is not finite."""

    def __init__(self, training: "Sb3Run", env: ToolVecEnv) -> None:
        super().__init__()
        self.training, self.env = training, env
        self.metrics: dict[str, float] = {}
        self.stopped = self.broken = False
        self._noted = training.steps

    def _on_step(self) -> bool:
        if self.training.algorithm == "dqn" and self.num_timesteps - self._noted >= DQN_LINE_STEPS:
            self._note()
        return not (self.broken or self.training.out_of_time(self.num_timesteps))

    def _on_rollout_start(self) -> None:
        # SB3 updates after a rollout, so the logged values of an update are available when the next rollout starts
        if self.training.algorithm == "ppo" and self.num_timesteps > self._noted:
            self._note()

    def _on_training_end(self) -> None:
        if self.num_timesteps > self._noted:
            self._note()

    def _note(self) -> None:
        from .train import network_of

        training = self.training
        finished, self.env.finished = self.env.finished, []
        logged = self.logger.name_to_value
        found: dict[str, float | None] = {
            "seconds": round(training.seconds, 2),
            "episodes": len(finished),
            "return": _mean([each.reward for each in finished]),
            "success": _mean([float(each.success) for each in finished]),
            "cost": _mean([each.costs[training.cost] for each in finished]),
            "decisions": _mean([float(each.steps) for each in finished]),
            "multiplier": training.multipliers[0] if training.multipliers else 0.0,
            "loss": _number(logged.get("train/loss")),
            "value_loss": _number(logged.get("train/value_loss")),
            "entropy": _number(logged.get("train/entropy_loss"), -1.0),
        }
        for constraint, multiplier in zip(training.constraints, training.multipliers, strict=True):
            ending = "" if constraint.resource == training.cost else f"_{constraint.resource}"
            found[f"cost{ending}"] = _mean([each.costs[constraint.resource] for each in finished])
            found[f"limit{ending}"], found[f"multiplier{ending}"] = constraint.limit, multiplier
        line = {name: value for name, value in found.items() if value is not None}
        self._noted = self.num_timesteps
        weights = dict(network_of(self.model).named_parameters())
        if not all(math.isfinite(value) for value in line.values()) or not_finite(weights):
            self.broken = True
            return
        self.metrics = line
        self.stopped |= training.report(self.num_timesteps, line)
        for name in line:
            if name in ("return", "success") or name.startswith(("cost", "multiplier")):
                self.logger.record(f"rollout/{name}", line[name])
        if training.algorithm == "dqn":
            self.logger.dump(self.num_timesteps)
        if finished:
            training.follow({name: sum(each.costs[name] for each in finished) / len(finished) for name in RESOURCES})
            self.env.multipliers = training.prices


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _number(value: Any, factor: float = 1.0) -> float | None:
    return None if value is None else factor * float(value)

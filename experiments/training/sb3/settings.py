"""Settings of reinforcement learning, and the price of a constraint. Nothing here needs torch."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from ....simulators.errors import ConfigError, UnknownName
from ....simulators.ledger import RESOURCES


def _whole(where: str, value: Any, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(where, f"expected a whole number of at least {least}, got {value!r}")


def _share(where: str, value: Any, low: float = 0.0, high: float = 1.0) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ConfigError(where, f"expected a number from {low:g} to {high:g}, got {value!r}")


def _flag(where: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ConfigError(where, f"expected true or false, got {value!r}")


@dataclass(frozen=True, slots=True)
class PpoSettings:
    """Settings of MaskablePPO.

    Attributes:
        envs: environments side by side.
        rollout: decisions of each between two updates.
        batch, epochs: minibatch size, and passes over what was collected.
        gamma, gae_lambda: discount, and the advantage's trade of bias for variance. Undiscounted: the return is the QoP.
        learning_rate, final_lr_fraction: the rate falls linearly to this share of itself.
        entropy, clip, value: weight of the entropy, clip range of the ratio, weight of the value loss.
        hidden, rounds: of the network.
        needed_only: mask calls that cannot bring a missing fact, as the classic agents do; else that is to be learnt, too.
        updates_per_checkpoint: a checkpoint after so many updates.
    """

    envs: int = 128
    rollout: int = 32
    batch: int = 1024
    epochs: int = 4
    gamma: float = 1.0
    gae_lambda: float = 0.95
    learning_rate: float = 1e-3
    final_lr_fraction: float = 0.03
    entropy: float = 0.003
    clip: float = 0.2
    value: float = 0.5
    hidden: int = 32
    rounds: int = 2
    needed_only: bool = True
    updates_per_checkpoint: int = 10

    def __post_init__(self) -> None:
        for name in ("envs", "rollout", "epochs", "hidden", "rounds", "updates_per_checkpoint"):
            _whole(name, getattr(self, name))
        _whole("batch", self.batch, 2)
        for name in ("gamma", "gae_lambda", "final_lr_fraction", "entropy", "clip"):
            _share(name, getattr(self, name))
        _share("learning_rate", self.learning_rate, 0.0, math.inf)
        _share("value", self.value, 0.0, 100.0)
        _flag("needed_only", self.needed_only)


@dataclass(frozen=True, slots=True)
class DqnSettings:
    """Settings of masked DQN.

    Attributes:
        envs: environments side by side.
        buffer: transitions that are remembered.
        warm_up: decisions at random before learning starts.
        batch, gradient_steps: transitions of an update, and updates after a decision of every environment.
        target_interval: decisions between two copies to the target network.
        gamma, learning_rate, final_lr_fraction, hidden, rounds, needed_only: as for PPO.
        explore_share, explore_final: exploration falls from 1 to the latter over this share of the run.
        decisions_per_checkpoint: a checkpoint after so many decisions.
    """

    envs: int = 64
    buffer: int = 50_000
    warm_up: int = 2_000
    batch: int = 256
    gradient_steps: int = 2
    target_interval: int = 2_000
    gamma: float = 1.0
    learning_rate: float = 1e-3
    final_lr_fraction: float = 0.1
    explore_share: float = 0.4
    explore_final: float = 0.03
    hidden: int = 32
    rounds: int = 2
    needed_only: bool = True
    decisions_per_checkpoint: int = 20_000

    def __post_init__(self) -> None:
        names = ("envs", "buffer", "batch", "gradient_steps", "target_interval", "hidden", "rounds", "decisions_per_checkpoint")
        for name in names:
            _whole(name, getattr(self, name))
        _whole("warm_up", self.warm_up, 0)
        for name in ("gamma", "final_lr_fraction", "explore_share", "explore_final"):
            _share(name, getattr(self, name))
        _share("learning_rate", self.learning_rate, 0.0, math.inf)
        _flag("needed_only", self.needed_only)


@dataclass(frozen=True, slots=True)
class Lagrangian:
    """A constraint on the mean cost of an episode, by dual ascent with a proportional term that damps its swings:
    ``integral = max(0, integral + rate * (cost - aim))``, ``multiplier = max(0, integral + gain * (cost - aim))``.

    Attributes:
        limit: what an episode may cost on average, in units of the resource.
        resource: price, seconds, tokens or calls.
        rate: how fast the multiplier's integral follows, reward per unit of cost squared and update.
        gain: of the proportional term, reward per unit of cost squared; 0 for plain dual ascent.
        margin: aim at this share below the limit, so that what is learnt keeps it on worlds that it has not seen, too.
        start: the first integral. Well above 0 it drives a policy that solves little yet to give everything up.

    Raises:
        ConfigError, UnknownName: a value makes no sense.

    Source: constrained MDPs (Altman 1999); PPO-Lagrangian as in Ray, Achiam and Amodei 2019; the
        proportional term as in Stooke, Achiam and Abbeel 2020, section 5.
    """

    limit: float
    resource: str = "price"
    rate: float = 1e-3
    gain: float = 4e-3
    margin: float = 0.15
    start: float = 0.0

    def __post_init__(self) -> None:
        if self.resource not in RESOURCES:
            raise UnknownName("cost resource", self.resource, RESOURCES)
        for name in ("limit", "rate"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ConfigError(f"lagrangian {name}", f"expected a positive finite number, got {value!r}")
        _share("lagrangian margin", self.margin)
        _share("lagrangian gain", self.gain, 0.0, 1e9)
        _share("lagrangian start", self.start, 0.0, 1e9)

    def update(self, integral: float, mean_cost: float) -> tuple[float, float]:
        """Integral and multiplier after an update in which episodes cost that much on average."""
        excess = mean_cost - self.limit * (1.0 - self.margin)
        integral = max(0.0, integral + self.rate * excess)
        return integral, max(0.0, integral + self.gain * excess)


def as_document(settings: PpoSettings | DqnSettings, lagrangian: Lagrangian | None) -> dict[str, Any]:
    """What a checkpoint keeps of them."""
    return {**asdict(settings), "lagrangian": None if lagrangian is None else asdict(lagrangian)}

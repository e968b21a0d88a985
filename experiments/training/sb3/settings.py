"""Settings of reinforcement learning, by Stable-Baselines3's names, and the price of a constraint. Nothing here needs torch."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from ....agents.settings import Amount, Count, NetworkSettings, Number, Settings, Share, TrainerSettings, one_of
from ....simulators.ledger import RESOURCES


class _Sb3Settings(TrainerSettings, NetworkSettings):
    """What PPO and DQN share."""

    hidden_size: int = Field(default=32, ge=1, le=4096, description="Width of every layer of the network.")
    learning_rate: Amount = Field(default=1e-3, description="Learning rate at the start.")
    gamma: Share = Field(default=1.0, description="Discount factor. Undiscounted, the return is the Quality of Plan.")
    needed_only: bool = Field(
        default=True,
        description="Mask calls that cannot bring a missing fact, as the classic agents do.",
    )


class PpoSettings(_Sb3Settings):
    """Settings of MaskablePPO; what Stable-Baselines3 has goes by its names."""

    n_envs: Count = Field(default=128, description="Environments side by side.")
    n_steps: Count = Field(default=32, description="Decisions of each environment between two updates.")
    batch_size: int = Field(default=1024, ge=2, description="Decisions of a minibatch.")
    n_epochs: Count = Field(default=4, description="Passes over the decisions of an update.")
    gae_lambda: Share = Field(default=0.95, description="Trade-off of bias and variance in generalised advantage estimation.")
    clip_range: Share = Field(default=0.2, description="Clip range of the probability ratio.")
    normalize_advantage: bool = Field(default=True, description="Normalise the advantages of a minibatch.")
    ent_coef: Share = Field(default=0.003, description="Weight of the entropy.")
    vf_coef: float = Field(default=0.5, ge=0, le=100, description="Weight of the value loss.")
    max_grad_norm: Amount = Field(default=0.5, description="Norm to which gradients are clipped.")
    target_kl: Amount | None = Field(default=None, description="End an update's epochs beyond this KL divergence.")
    final_lr_fraction: Share = Field(default=0.03, description="The learning rate falls linearly to this share of itself.")
    updates_per_checkpoint: Count = Field(default=10, description="Updates between checkpoints.")

    @property
    def checkpoint_steps(self) -> int:
        """Decisions between checkpoints."""
        return self.n_envs * self.n_steps * self.updates_per_checkpoint

    def of_sb3(self) -> dict[str, Any]:
        """The arguments of `MaskablePPO`; the learning rate follows a schedule of ours."""
        names = ("n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda", "clip_range", "normalize_advantage", "ent_coef")
        return self.model_dump(include={*names, "vf_coef", "max_grad_norm", "target_kl"})


class DqnSettings(_Sb3Settings):
    """Settings of masked DQN; what Stable-Baselines3 has goes by its names."""

    n_envs: Count = Field(default=64, description="Environments side by side.")
    buffer_size: Count = Field(default=50_000, description="Transitions that are remembered.")
    learning_starts: Number = Field(default=2_000, description="Decisions at random before learning starts.")
    batch_size: Count = Field(default=256, description="Transitions of an update.")
    tau: Share = Field(default=1.0, description="How far the target network moves to the online one when it is updated.")
    train_freq: Count = Field(default=1, description="Decisions of every environment between updates.")
    gradient_steps: Count = Field(default=2, description="Updates after so many decisions.")
    target_update_interval: Count = Field(default=2_000, description="Decisions between two updates of the target network.")
    exploration_fraction: Share = Field(default=0.4, description="Share of the run over which exploration falls.")
    exploration_initial_eps: Share = Field(default=1.0, description="Share of random actions at the start.")
    exploration_final_eps: Share = Field(default=0.03, description="Share of random actions after that.")
    max_grad_norm: Amount = Field(default=10.0, description="Norm to which gradients are clipped.")
    final_lr_fraction: Share = Field(default=0.1, description="The learning rate falls linearly to this share of itself.")
    decisions_per_checkpoint: Count = Field(default=20_000, description="Decisions between checkpoints.")

    @property
    def checkpoint_steps(self) -> int:
        """Decisions between checkpoints."""
        return self.decisions_per_checkpoint

    def of_sb3(self) -> dict[str, Any]:
        """The arguments of `DQN`; the learning rate and the exploration follow schedules of ours."""
        names = (
            "buffer_size",
            "learning_starts",
            "batch_size",
            "tau",
            "gamma",
            "train_freq",
            "gradient_steps",
            "max_grad_norm",
        )
        found = self.model_dump(include=set(names))
        return {**found, "target_update_interval": max(self.target_update_interval, self.n_envs)}

    def exploration(self, done: float) -> float:
        """Share of random actions when a share of the run is done."""
        fallen = (self.exploration_initial_eps - self.exploration_final_eps) * done / max(self.exploration_fraction, 1e-9)
        return max(self.exploration_final_eps, self.exploration_initial_eps - fallen)


class Lagrangian(Settings):
    """A constraint on the mean cost of an episode, by dual ascent with a proportional term that damps its swings:
    ``integral = max(0, integral + rate * (cost - aim))``, ``multiplier = max(0, integral + gain * (cost - aim))``.

    Source: constrained MDPs (Altman 1999); PPO-Lagrangian as in Ray, Achiam and Amodei 2019; the
        proportional term as in Stooke, Achiam and Abbeel 2020, section 5.
    """

    limit: float = Field(gt=0, description="What an episode may cost on average, in units of the resource.")
    resource: Annotated[str, one_of("cost resource", RESOURCES)] = Field(default="price", description="Resource that is held.")
    rate: float = Field(
        default=1e-3,
        gt=0,
        description="Rate of the multiplier's integral, reward per unit of cost squared and update.",
    )
    gain: float = Field(
        default=4e-3, ge=0, description="Of the proportional term, reward per unit of cost squared; 0 for plain dual ascent."
    )
    margin: Share = Field(
        default=0.15, description="Aim at this share below the limit, so that it is kept on worlds that were not seen, too."
    )
    start: Amount = Field(
        default=0.0,
        description="The first integral; well above 0 it drives a new policy to give up.",
    )

    @classmethod
    def holding(cls, resource: str, limit: float) -> Lagrangian:
        """A constraint whose rates suit the unit of its resource: in proportion to 1 / limit², the defaults at a limit of 7.

        Where a cost is counted in another unit, multiplier and cost scale against each other, and the penalty stays the same.
        """
        default = cls(limit=limit, resource=resource)
        scale = (7.0 / default.limit) ** 2
        return default.model_copy(update={"rate": default.rate * scale, "gain": default.gain * scale})

    def update(self, integral: float, mean_cost: float) -> tuple[float, float]:
        """Integral and multiplier after an update in which episodes cost that much on average."""
        excess = mean_cost - self.limit * (1.0 - self.margin)
        integral = max(0.0, integral + self.rate * excess)
        return integral, max(0.0, integral + self.gain * excess)

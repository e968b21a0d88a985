"""Settings of PPO, DQN and the cost constraint, named as in Stable-Baselines3. Does not import torch."""

from typing import Annotated, Any

from pydantic import Field

from costgym.agents.settings import NetworkSettings, TrainerSettings
from costgym.simulators.bounds import Amount, Count, Number, Settings, Share, one_of
from costgym.simulators.ledger import RESOURCES


class _Sb3Settings(TrainerSettings, NetworkSettings):
    """Settings that PPO and DQN share."""

    hidden_size: int = Field(default=32, ge=1, le=4096, description="Width of every layer of the network.")
    learning_rate: Amount = Field(default=1e-3, description="Initial learning rate.")
    gamma: Share = Field(default=1.0, description="Discount factor; with 1 the return is the Quality of Plan.")
    needed_only: bool = Field(
        default=True, description="Mask calls that cannot return a missing fact, as the classic agents do."
    )


class PpoSettings(_Sb3Settings):
    """Settings of MaskablePPO, named as in Stable-Baselines3."""

    n_envs: Count = Field(default=128, description="Environments in the batch.")
    worlds: Count = Field(default=16, description="Worlds that are played at a time, where the scenario is a folder of worlds.")
    n_steps: Count = Field(default=32, description="Decisions per environment between two updates.")
    batch_size: int = Field(default=1024, ge=2, description="Decisions per minibatch.")
    n_epochs: Count = Field(default=4, description="Passes over the decisions in an update.")
    gae_lambda: Share = Field(default=0.95, description="Lambda of generalised advantage estimation (bias against variance).")
    clip_range: Share = Field(default=0.2, description="Clip range of the probability ratio.")
    normalize_advantage: bool = Field(default=True, description="Normalise the advantages in each minibatch.")
    ent_coef: Share = Field(default=0.003, description="Weight of the entropy bonus.")
    vf_coef: float = Field(default=0.5, ge=0, le=100, description="Weight of the value loss.")
    max_grad_norm: Amount = Field(default=0.5, description="Maximum norm of the gradients.")
    target_kl: Amount | None = Field(default=None, description="KL divergence above which an update stops early.")
    final_lr_fraction: Share = Field(default=0.03, description="The learning rate falls linearly to this share of its start.")
    updates_per_checkpoint: Count = Field(default=10, description="Updates between checkpoints.")

    @property
    def checkpoint_steps(self) -> int:
        """Number of decisions between checkpoints."""
        return self.n_envs * self.n_steps * self.updates_per_checkpoint

    def of_sb3(self) -> dict[str, Any]:
        """Return the arguments of `MaskablePPO`, except the learning rate, which follows our own schedule."""
        names = ("n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda", "clip_range", "normalize_advantage", "ent_coef")
        return self.model_dump(include={*names, "vf_coef", "max_grad_norm", "target_kl"})


OF_SESSIONS = {
    "n_envs": 256, "n_steps": 64, "batch_size": 2048, "gae_lambda": 0.97, "ent_coef": 0.01, "final_lr_fraction": 0.05,
}  # fmt: skip
"""Defaults of PPO in sessions."""
SESSION_RATE = 180.0  # compared with 60 on `valid`, under limits of 40 and 80 credits; 20 did not reach the limit in time
OF_THE_MARKETPLACE = ("hidden_size", "rounds", "needed_only", "worlds")
"""Settings that sessions do not have."""


class DqnSettings(_Sb3Settings):
    """Settings of masked DQN, named as in Stable-Baselines3."""

    n_envs: Count = Field(default=64, description="Environments in the batch.")
    buffer_size: Count = Field(default=50_000, description="Transitions in the replay buffer.")
    learning_starts: Number = Field(default=2_000, description="Random decisions before learning starts.")
    batch_size: Count = Field(default=256, description="Transitions per update.")
    tau: Share = Field(default=1.0, description="Weight of the online network in an update of the target network; 1 copies it.")
    train_freq: Count = Field(default=1, description="Decisions per environment between updates.")
    gradient_steps: Count = Field(default=2, description="Updates after every `train_freq` decisions.")
    target_update_interval: Count = Field(default=2_000, description="Decisions between two updates of the target network.")
    exploration_fraction: Share = Field(default=0.4, description="Share of the run over which the exploration rate falls.")
    exploration_initial_eps: Share = Field(default=1.0, description="Initial share of random actions.")
    exploration_final_eps: Share = Field(default=0.03, description="Final share of random actions.")
    max_grad_norm: Amount = Field(default=10.0, description="Maximum norm of the gradients.")
    final_lr_fraction: Share = Field(default=0.1, description="The learning rate falls linearly to this share of its start.")
    decisions_per_checkpoint: Count = Field(default=20_000, description="Decisions between checkpoints.")

    @property
    def checkpoint_steps(self) -> int:
        """Number of decisions between checkpoints."""
        return self.decisions_per_checkpoint

    def of_sb3(self) -> dict[str, Any]:
        """Return the arguments of `DQN`, except the learning rate and the exploration rate, which follow our own schedules."""
        names = ("buffer_size", "learning_starts", "batch_size", "tau", "gamma", "train_freq", "gradient_steps")
        arguments = self.model_dump(include={*names, "max_grad_norm"})
        return {**arguments, "target_update_interval": max(self.target_update_interval, self.n_envs)}

    def exploration(self, done: float) -> float:
        """Return the share of random actions when the share `done` of the run is complete."""
        fallen = (self.exploration_initial_eps - self.exploration_final_eps) * done / max(self.exploration_fraction, 1e-9)
        return max(self.exploration_final_eps, self.exploration_initial_eps - fallen)


class Lagrangian(Settings):
    """A constraint on the mean cost per episode, enforced by dual ascent with a proportional term that damps oscillation.

    The multiplier is ``max(0, integral + gain * excess)``, with ``integral = max(0, integral + rate * excess)``. The excess is
    ``cost - aim``, but at most the aim: a policy cannot spend less than nothing, so an early one that spends many times the
    limit would otherwise wind the integral up further than all later ones can take it back.

    Source: constrained MDPs (Altman 1999); PPO-Lagrangian as in Ray, Achiam and Amodei 2019; the
        proportional term as in Stooke, Achiam and Abbeel 2020, section 5.
    """

    limit: float = Field(gt=0, description="Maximum mean cost per episode, in units of the resource.")
    resource: Annotated[str, one_of("cost resource", RESOURCES)] = Field(default="price", description="Constrained resource.")
    rate: float = Field(
        default=1e-3, gt=0, description="Rate of the multiplier's integral, reward per squared unit of cost and update."
    )
    gain: float = Field(
        default=4e-3, ge=0, description="Gain of the proportional term, reward per squared unit of cost; 0 for dual ascent."
    )
    margin: Share = Field(
        default=0.05,
        description="Share below the limit at which the constraint aims, so that the limit holds on unseen worlds.",
    )
    start: Amount = Field(default=0.0, description="Initial integral; a value well above 0 drives a new policy to give up.")

    @classmethod
    def holding(cls, resource: str, limit: float, in_sessions: bool = False) -> "Lagrangian":
        """A constraint whose rates suit the unit of its resource: in proportion to 1 / limit², the defaults at a limit of 7.

        Where a cost is counted in another unit, multiplier and cost scale against each other, and the penalty stays the same.
        In sessions, whose value is counted in credits, the rates are `SESSION_RATE` times as high.
        """
        default = cls(limit=limit, resource=resource)
        scale = (7.0 / default.limit) ** 2 * (SESSION_RATE if in_sessions else 1.0)
        return default.model_copy(update={"rate": default.rate * scale, "gain": default.gain * scale})

    def update(self, integral: float, mean_cost: float) -> tuple[float, float]:
        """Return the integral and the multiplier after an update with the given mean cost per episode."""
        aim = self.limit * (1.0 - self.margin)
        excess = min(mean_cost - aim, aim)
        integral = max(0.0, integral + self.rate * excess)
        return integral, max(0.0, integral + self.gain * excess)

"""Settings of PPO in sessions, named as in Stable-Baselines3. Does not import torch."""

from typing import Annotated

from pydantic import Field

from costgym.agents.settings import TrainerSettings
from costgym.envs.session_features import MEMORIES
from costgym.simulators.bounds import Amount, Count, Number, Share, one_of


class SessionSettings(TrainerSettings):
    """Settings of PPO in sessions."""

    memory: Annotated[str, one_of("memory", MEMORIES)] = Field(
        default="counts", description="What is observed: counts, or raw for a recurrent policy with a memory of each tool."
    )
    steps: Count = Field(default=3_000_000, description="Decisions of all environments together.")
    n_envs: Count = Field(default=256, description="Sessions that are played side by side.")
    n_steps: Count = Field(default=64, description="Decisions per session between two updates, and of a recurrent sequence.")
    batch_size: int = Field(default=2048, ge=2, description="Decisions per minibatch.")
    n_epochs: Count = Field(default=4, description="Passes over the decisions in an update.")
    learning_rate: Amount = Field(default=1e-3, description="Initial learning rate.")
    final_lr_fraction: Share = Field(default=0.05, description="The learning rate falls linearly to this share of its start.")
    gae_lambda: Share = Field(default=0.97, description="Lambda of generalised advantage estimation.")
    clip_range: Share = Field(default=0.2, description="Clip range of the probability ratio.")
    ent_coef: Amount = Field(default=0.01, description="Weight of the entropy bonus.")
    lagrangian: bool = Field(
        default=False, description="Spend past the budget while learning; two multipliers hold mean money and time to it."
    )
    multiplier_rate: Amount = Field(
        default=0.05, description="Rise of a multiplier in an update where twice the budget was spent."
    )
    reward_scale: Amount = Field(default=1 / 50, description="Factor on the rewards.")
    valid: Count = Field(default=100, description="Sessions of the split valid that decide which weights are kept.")
    updates_per_measurement: Count = Field(default=10, description="Updates between two measurements on the split valid.")
    updates_per_checkpoint: Number = Field(default=20, ge=1, description="Updates between checkpoints.")

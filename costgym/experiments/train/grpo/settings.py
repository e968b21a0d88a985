"""Settings of GRPO, named as in TRL where TRL has them, and the format of the run's `config.json`. Does not import torch."""

from typing import Literal

from pydantic import Field

from costgym.agents.base import TEXT
from costgym.agents.settings import PolicyConfig, TrainerSettings
from costgym.simulators.bounds import Amount, Count, Number


class GrpoSettings(TrainerSettings):
    """Settings of the warm start and of GRPO."""

    model: str | None = Field(
        default=None, description="Published model by id or folder, tuned with LoRA; by default a tiny model is created."
    )
    num_generations: int = Field(default=8, ge=2, description="Completions per prompt; they form a group.")
    groups: Count = Field(default=1, description="Prompts per step.")
    max_completion_length: Count = Field(
        default=512, description="Maximum tokens of an episode after its prompt; it ends where no reply has room."
    )
    max_reply_length: Count = Field(default=96, description="Maximum tokens of one reply.")
    learning_rate: float = Field(default=2e-4, gt=0, description="Learning rate of GRPO.")
    temperature: float = Field(default=1.0, gt=0, description="Sampling temperature of the completions.")
    beta: Amount = Field(default=0.0, description="Weight of the KL divergence from the initial model.")
    save_every: Count = Field(default=10, description="Steps of GRPO between checkpoints.")
    warm_start_steps: Number = Field(default=400, description="Supervised steps on gold episodes before GRPO; 0 for none.")
    warm_start_batch_size: Count = Field(default=4, description="Episodes per step of the warm start.")
    warm_start_learning_rate: float = Field(default=3e-3, gt=0, description="Peak learning rate of the warm start.")
    warm_start_variants: Count = Field(default=12, description="Gold episodes per task, each with its own order of tools.")
    hidden_size: Count = Field(default=96, description="Width of the tiny model.")
    layers: Count = Field(default=2, description="Layers of the tiny model.")
    vocabulary: Count = Field(default=2048, description="Vocabulary size of the tiny model.")
    lora_rank: Count = Field(default=16, description="Rank of the LoRA adapters of a published model.")
    bf16: bool = Field(default=True, description="Published model: keep its weights and multiply matrices in bfloat16.")


class GrpoConfig(PolicyConfig):
    """The contents of `config.json` in a run of `costgym train grpo`."""

    trainer: Literal["grpo"] = "grpo"
    env: str = TEXT
    settings: GrpoSettings
    budget: dict[str, float] | None = Field(default=None, description="Limits of the episodes; null for the scenario's.")
    split: str = Field(default="train", description="Split of the training tasks.")
    tasks: tuple[str, ...] = Field(description="Ids of the training tasks.")
    documents: str = Field(default="short", description="Documents of the tools: full, or short.")

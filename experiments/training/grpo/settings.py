"""Settings of GRPO, by TRL's names where TRL has them, and what `config.json` says of its run. Nothing here needs torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ....agents.base import TEXT
from ....agents.settings import Amount, Count, Number, PolicyConfig, TrainerSettings


class GrpoSettings(TrainerSettings):
    """Settings of the warm start and of GRPO."""

    model: str | None = Field(
        default=None, description="A published model by id or folder, tuned with LoRA; by default a tiny one is made."
    )
    num_generations: int = Field(default=8, ge=2, description="Completions of a prompt, which form a group.")
    groups: Count = Field(default=1, description="Prompts of a step.")
    max_completion_length: Count = Field(default=300, description="Most tokens of an episode, tool results included.")
    learning_rate: float = Field(default=2e-4, gt=0, description="Learning rate of GRPO.")
    temperature: float = Field(default=1.0, gt=0, description="Temperature of the completions.")
    beta: Amount = Field(default=0.0, description="Weight of the divergence from the first model.")
    warm_start_steps: Number = Field(default=150, description="Supervised steps on gold episodes before GRPO; 0 for none.")
    warm_start_batch_size: Count = Field(default=4, description="Episodes of a step of the warm start.")
    warm_start_learning_rate: float = Field(default=3e-3, gt=0, description="Peak rate of the warm start.")
    warm_start_variants: Count = Field(default=12, description="Gold episodes of each task, each with its own order of tools.")
    hidden_size: Count = Field(default=96, description="Width of the tiny model.")
    layers: Count = Field(default=2, description="Layers of the tiny model.")
    vocabulary: Count = Field(default=2048, description="Tokens of the tiny model.")
    lora_rank: Count = Field(default=16, description="Rank of the adapters of a published model.")


class GrpoConfig(PolicyConfig):
    """What `config.json` says of a run of `costgym train grpo`."""

    trainer: Literal["grpo"] = "grpo"
    env: str = TEXT
    settings: GrpoSettings
    tasks: tuple[str, ...] = Field(description="Ids of the tasks that are learnt from.")

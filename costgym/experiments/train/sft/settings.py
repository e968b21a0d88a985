"""Settings of supervised fine-tuning, and the format of the run's `config.json`. Does not import torch."""

from typing import Literal

from pydantic import Field

from costgym.agents.base import TEXT
from costgym.agents.settings import PolicyConfig, TrainerSettings
from costgym.simulators.bounds import Amount, Count, Number, Share


class SftSettings(TrainerSettings):
    """Settings of supervised fine-tuning."""

    model: str = Field(description="Model folder, such as one of `costgym models fetch`, or a published model's id.")
    agents: tuple[str, ...] = Field(
        default=("react",), min_length=1, description="Agents to imitate, with equally many episodes of each.", strict=False
    )
    steps: Count = Field(default=400, description="Steps of AdamW.")
    batch_size: Count = Field(default=4, description="Conversations per step.")
    learning_rate: float = Field(default=3e-4, gt=0, description="Peak learning rate.")
    warmup_steps: Number = Field(default=20, description="Steps over which the rate rises.")
    final_share: Share = Field(default=0.2, description="Last share of the steps, over which the rate falls to a tenth.")
    weight_decay: Amount = Field(default=0.0, description="Weight decay of AdamW.")
    max_grad_norm: float = Field(default=1.0, gt=0, description="Norm to which gradients are clipped.")
    lora_rank: Number = Field(default=0, description="Rank of LoRA adapters; 0 trains the whole model.")
    bf16: bool = Field(default=True, description="Multiply matrices in bfloat16; weights and moments stay in float32.")
    max_length: Count = Field(default=2048, description="Longest conversation in tokens; longer ones are left out.")
    documents: Literal["full", "short"] = Field(default="short", description="Documents of the tools: full, or short.")
    held_out: Count = Field(default=32, description="Conversations of unseen tasks on which the loss is measured.")
    save_every: Count = Field(default=100, description="Steps between checkpoints.")


class SftConfig(PolicyConfig):
    """The contents of `config.json` in a run of `costgym train sft`."""

    trainer: Literal["sft"] = "sft"
    env: str = TEXT
    settings: SftSettings
    budget: dict[str, float] | None = Field(default=None, description="Limits of the episodes; null for the scenario's.")
    split: str = Field(description="Split of the tasks that are learnt from.")

"""Settings of `costgym train btp`, and what its run folder says of it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ....agents.base import TEXT
from ....agents.settings import Count, PolicyConfig, Share, TrainerSettings


class UsefulnessSettings(TrainerSettings):
    """Settings of the classifier."""

    model: str | None = Field(
        default=None,
        description="longformer for a small one, or a published sequence classifier by id or folder; by default a logistic "
        "regression.",
    )
    episodes: Count = Field(default=400, description="Episodes played on the train split.")
    held_out: Count = Field(default=200, description="Episodes played on the test split, to measure on.")
    strength: float = Field(default=4.0, gt=0, description="Inverse of the regularisation of the logistic regression.")
    vocabulary: Count = Field(default=4000, description="Most words that the logistic regression reads.")
    min_examples: Count = Field(default=3, description="Examples that a word must occur in.")
    threshold: Share = Field(default=0.5, description="Least probability that counts as help.")
    epochs: Count = Field(default=3, description="Passes of a transformer over the examples.")
    batch_size: Count = Field(default=8, description="Examples of a transformer's step.")


class UsefulnessConfig(PolicyConfig):
    """What `config.json` says of a run of `costgym train btp`."""

    trainer: Literal["btp"] = "btp"
    env: str = TEXT
    settings: UsefulnessSettings
    numbers: tuple[str, ...] = Field(description="Figures that the logistic regression reads beside words.")

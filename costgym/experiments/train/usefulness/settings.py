"""Settings of `costgym train btp`, and the format of the run's `config.json`."""

from typing import Literal

from pydantic import Field

from costgym.agents.base import TEXT
from costgym.agents.settings import PolicyConfig, TrainerSettings
from costgym.simulators.bounds import Count, Share


class UsefulnessSettings(TrainerSettings):
    """Settings of the usefulness classifier."""

    episodes: Count = Field(default=400, description="Episodes played on the train split.")
    held_out: Count = Field(default=200, description="Episodes played on the test split for evaluation.")
    strength: float = Field(default=4.0, gt=0, description="Inverse regularisation strength of the logistic regression.")
    vocabulary: Count = Field(default=4000, description="Maximum number of words in the logistic regression's input.")
    min_examples: Count = Field(default=3, description="Minimum number of examples that contain a word.")
    threshold: Share = Field(default=0.5, description="Minimum probability at which a result counts as helpful.")


class UsefulnessConfig(PolicyConfig):
    """The contents of `config.json` in a run of `costgym train btp`."""

    trainer: Literal["btp"] = "btp"
    env: str = TEXT
    settings: UsefulnessSettings
    numbers: tuple[str, ...] = Field(description="Names of the logistic regression's numerical inputs.")

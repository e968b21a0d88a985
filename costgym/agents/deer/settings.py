"""Settings of a trained DEER policy, and the `config.json` of its run."""

import operator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from costgym.agents.base import DECISION
from costgym.agents.settings import LanguageModelSettings, PolicyConfig
from costgym.simulators.bounds import Count, Number, one_of
from costgym.simulators.decision.toolsets import INTER, INTRA, MIXTURE, NEAREST, RANDOM
from costgym.simulators.errors import ConfigError
from costgym.simulators.retrieval.sentences import is_sentence_encoder

TOKENIZER = "tokenizer"
SAMPLINGS: dict[str, dict[str, int]] = {
    "random": {RANDOM: 1},
    "inter": {INTER: 1},
    "intra": {INTRA: 1},
    "nearest": {NEAREST: 1},
    "mixture": dict(MIXTURE),
}
"""Strategies by which candidates of training samples are drawn, by the name of the option."""
_Share = Annotated[float, Field(ge=0, lt=1)]


class DeerSettings(LanguageModelSettings):
    """Settings of DEER's training. A small model is pre-trained on retrieval first, see `experiments.train.deer.rows`."""

    sampling: Annotated[str, one_of("sampling strategy", SAMPLINGS)] = Field(
        default="mixture", description="How candidates of training samples are drawn: random, inter, intra, nearest or mixture."
    )
    model: str | None = Field(
        default=None,
        description="A published causal language model by id or folder, tuned with LoRA, or a sentence encoder (minilm, or a "
        "folder), on whose vectors two maps are learnt; by default a small language model.",
    )
    encoder: Literal["words", "minilm"] = Field(
        default="words",
        description="What clusters the tools of a folder, from which training samples are drawn: words, or minilm.",
        exclude_if="words".__eq__,
    )
    tune_encoder: bool = Field(
        default=False,
        description="Train the sentence encoder itself, not maps on its vectors.",
        exclude_if=operator.not_,
    )
    remembered: Count | None = Field(
        default=None,
        description="Queries that a policy on a sentence encoder remembers, evenly spread; by default all.",
        exclude_if=operator.not_,
    )
    scale: Count = Field(default=1, description="Training samples about tools, as a multiple of the paper's number.")
    steps: Count = Field(default=1000, description="Optimiser steps on decisions.")
    batch_size: Count = Field(default=32, description="Rows of a step.")
    retrieval_steps: Number = Field(
        default=800, description="Maximum steps of retrieval pre-training, which ends once retrieval is learnt."
    )
    retrieval_share: _Share = Field(default=0.1, description="Share of the later steps that train retrieval.")
    search_share: _Share = Field(default=0.25, description="Share of the rows about tools that ask whether to search.")
    rename_share: _Share = Field(default=0.5, description="Share of the call decisions in which some words are replaced.")
    heads: Count = Field(default=2, description="Attention heads of the small model.")
    window: Count = Field(default=2, description="Tokens that the small model's first layer sees, its own included.")
    vocabulary: Count = Field(default=4000, description="Maximum vocabulary size of the small model.")

    @model_validator(mode="after")
    def _check_encoder(self) -> Self:
        if self.tune_encoder and not is_sentence_encoder(self.model):
            raise ConfigError("tune_encoder", f"expected a sentence encoder as the model, such as minilm, got {self.model!r}")
        return self

    def rate(self, step: int, falling: bool = True) -> float:
        """Return the learning rate of a step, counted from 0: of decisions, where it falls, or of retrieval, where it stays."""
        rising = self.peak(2e-4) * min(1.0, (step + 1) / max(1, self.warmup_steps))
        return rising * max(0.02, 1.0 - step / self.steps) if falling else rising


class DeerConfig(PolicyConfig):
    """The `config.json` of a run of `costgym train deer`."""

    trainer: Literal["deer"] = "deer"
    env: str = DECISION
    settings: DeerSettings
    slots: int = Field(default=0, ge=0, le=100, description="Candidates of a sample.")
    known: int = Field(default=0, ge=0, description="Queries that an encoder's policy remembers.", exclude_if=operator.not_)
    common: tuple[str, ...] = Field(default=(), description="Words in too many descriptions; a small model is not shown them.")

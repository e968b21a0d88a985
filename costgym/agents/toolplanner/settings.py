"""Settings of a learnt ToolPlanner, and the `config.json` of its run."""

from typing import Annotated, Any, Literal

from pydantic import Field

from costgym.agents.base import TEXT
from costgym.agents.settings import LanguageModelSettings, PolicyConfig
from costgym.agents.toolplanner.agent import PlannerSettings
from costgym.agents.toolplanner.tags import MOST_CANDIDATES
from costgym.agents.toolplanner.tree import Feedback
from costgym.simulators.bounds import Amount, Count, one_of
from costgym.simulators.tasks import LEVELS


class LearntSettings(LanguageModelSettings):
    """Settings of ToolPlanner's two training stages; the defaults are for small models.

    Source: ToolPlanner (arXiv 2409.14826), Section 4 and Table 7, for what there is to set.
    """

    tasks: Count = Field(default=20000, description="Train tasks to generate; a loaded scenario has its own.")
    worlds: Count = Field(default=1, description="Seeds under which the teacher plays each instruction.")
    budget: dict[str, float] | None = Field(
        default=None, description="Limits under which the train tasks are played, in both stages; null for none."
    )
    levels: tuple[Annotated[str, one_of("instruction level", LEVELS)], ...] = Field(
        default=("statement", "category", "tool", "api", "hybrid"),
        strict=False,
        min_length=1,
        description="Instruction levels to learn from.",
    )
    tags: bool = Field(default=True, description="Tag extraction.")
    path: bool = Field(default=True, description="Path planning.")
    completion: bool = Field(default=True, description="Task-completion feedback.")
    following: bool = Field(default=True, description="Instruction-following feedback.")
    candidates: Count = Field(default=MOST_CANDIDATES, description="Tools that the tags bring into play.")
    model: str = Field(default="llama", description="llama, gpt2 (small ones), or a published causal model by id or folder.")
    vocabulary: int = Field(default=2048, ge=300, description="Vocabulary size of a small model.")
    steps: Count = Field(default=5000, description="Optimiser steps of stage 1.")
    batch_size: Count = Field(default=16, description="Texts of a step of stage 1.")
    rank_tasks: Count = Field(default=4000, description="Tasks whose solution trees stage 2 learns from.")
    rank_steps: Count = Field(default=800, description="Optimiser steps of stage 2.")
    rank_batch_size: Count = Field(default=12, description="Pairs of a step of stage 2.")
    rank_learning_rate: Amount | None = Field(
        default=None, description="Peak rate of stage 2; a tenth of stage 1's by default."
    )
    beta: Amount = Field(default=1.0, description="Weight of the ranking loss.")
    margin: Amount = Field(default=0.0, description="Margin by which the better round is to lead.")
    rehearsal: Amount = Field(
        default=3.0,
        description="Weight, in stage 2, of stage 1's loss on solved paths that feedback does not fault; without it, the model "
        "would unlearn tags and paths.",
    )
    temperature: Amount = Field(default=0.7, description="Temperature at which the trees of stage 2 are drawn.")
    weight_decay: Amount = Field(default=0.0, description="Weight decay of AdamW.")

    @property
    def feedback(self) -> Feedback:
        """Return the rewarded parts of a solution."""
        return Feedback(self.completion, self.following)

    def planner(self, **changed: Any) -> PlannerSettings:
        """Return the limits under which the policy plays."""
        return PlannerSettings(candidates=self.candidates, tags=self.tags, path=self.path, **changed)

    def rate(self, stage: int, step: int) -> float:
        """Return the learning rate of a stage's step, counted from 0: it rises, then falls to a tenth."""
        first = self.peak(1e-4)
        peak = first if stage == 1 else self.rank_learning_rate if self.rank_learning_rate is not None else first / 10
        steps = self.steps if stage == 1 else self.rank_steps
        rising = min(1.0, (step + 1) / max(1, min(self.warmup_steps, steps // 4)))
        return float(peak * min(rising, max(0.1, 1.0 - 0.9 * step / steps)))


class PlannerConfig(PolicyConfig):
    """The `config.json` of a stage of `costgym train toolplanner`."""

    trainer: Literal["toolplanner"] = "toolplanner"
    env: str = TEXT
    stage: Literal[1, 2]
    settings: LearntSettings

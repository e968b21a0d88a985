"""Settings of a trained CATP policy, and the `config.json` of its run."""

import operator
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from costgym.agents.base import PLANS
from costgym.agents.settings import LanguageModelSettings, PolicyConfig
from costgym.simulators.bounds import Amount, Count, Number, Share, is_none, one_of, option
from costgym.simulators.errors import check_known

METHODS = ("catp", "ift", "rltf")
PRESETS = ("paper", "code")


class CatpSettings(LanguageModelSettings):
    """Settings of CATP-LLM's offline training and of the baselines IFT and RLTF.

    Source: CATP-LLM, section 3.2.2 and section 5.
    """

    method: Annotated[str, one_of("training method", METHODS)] = Field(
        default="catp", description="catp (offline, conditioned on returns), ift (supervised) or rltf (policy gradient)."
    )
    tasks: Literal["sequential", "nonsequential", "all"] = Field(default="all", description="Tasks to learn from.")
    steps: Count = Field(default=2000, description="Optimiser steps.")
    alpha: Amount = Field(default=0.5, description="Weight of the score in the Quality of Plan.")
    profile: str = Field(default="v100", description="What tools cost: a profile's name or file.")
    outcomes: str | None = Field(
        default=None,
        description="Outcome table of `costgym opencatp build-table`, a file; by default the shipped one.",
        exclude_if=is_none,
    )
    context: bool = Field(default=True, description="Context augmentation: tool tokens carry their prices.")
    intermediate_feedback: bool = option(
        "Intermediate feedback: a tool's price is a reward when it is written, not at the end.",
        "",
        "--intermediate-feedback/--no-intermediate-feedback",
        "--feedback/--no-feedback",
        default=True,
    )
    cumulative: bool = Field(
        default=False,
        description="Charge every token the price of all tools so far, as in Eq. 4, not only that of its own tool.",
        exclude_if=operator.not_,
    )
    gamma: float = Field(
        default=1.0,
        gt=0.0,
        le=1.0,
        description="Discount of a token's reward against that of the token before it.",
        exclude_if=(1.0).__eq__,
    )
    constant_target: bool = Field(
        default=False,
        description="Ask for the same return at every token, not for what is left of it.",
        exclude_if=operator.not_,
    )
    sampled: bool = Field(
        default=False,
        description="Draw the tokens of a plan from their probabilities; otherwise the likeliest are written.",
        exclude_if=operator.not_,
    )
    mask: bool = Field(default=True, description="Masked decoding: only tokens that can continue a valid plan.")
    centred: bool = Field(default=True, description="Subtract the best return known for the task and size level.")
    prompt: Literal["appendix", "short"] = Field(
        default="appendix",
        description="What is read before a plan: appendix (instructions, tools, costs, task, attributes), or short as before.",
    )
    size_words: bool = Field(default=True, description="State the size of the input in the prompt.")
    fusion: Literal["residual", "published"] = Field(
        default="residual",
        description="Context augmentation: a linear layer a level and a residual, or as published one layer and none.",
        exclude_if="residual".__eq__,
    )
    window: Count = Field(default=12, description="Steps (return, state, action) that the policy looks back.")
    model: str = Field(default="llama", description="llama, gpt2 (small ones), or a published causal model by id or folder.")
    hidden_size: Count = Field(default=64, description="Width of a small model.")
    layers: Count = Field(default=2, description="Layers of a small model.")
    lora_rank: Number = Field(default=64, description="Rank of a published model's adapters; 0 trains it in full.")
    batch_size: Count = Field(default=48, description="Episodes of a step.")
    weight_decay: Amount = Field(default=1e-4, description="Weight decay of AdamW.")
    warmup_steps: Number = Field(default=100, description="Steps over which the rate rises; in the last third it falls.")
    walks: Number = Field(default=6, description="Random walks through the tool graph for each task, in the offline data.")
    composed: Number = Field(default=120, description="Tasks with several outputs that are joined from sequential ones.")
    best: Count = Field(default=4, description="Best plans found for each task and size level.")
    near: Number = Field(default=6, description="Plans for each task and size level from the best tenth.")
    spread: Number = Field(default=4, description="Plans for each task and size level from all plans.")
    elite: Share = Field(default=0.5, description="Share of a batch drawn from plans within 0.03 of the best return known.")
    balance: Share = Field(default=0.5, description="Share of non-sequential tasks in a batch, if both kinds are trained on.")
    return_scale: Amount = Field(default=10.0, description="Factor on returns before they are embedded.")
    supervised_steps: Number = Field(default=300, description="rltf: supervised steps before the policy gradient.")
    group: int = Field(default=8, ge=2, description="rltf: plans drawn for each situation; their mean is the baseline.")

    @classmethod
    def preset(cls, name: str, tasks: str = "all") -> dict[str, Any]:
        """Return the settings in which a published training differs from the default.

        Args:
            name: one of `PRESETS`. "paper" is the text: every token is charged the price of all tools so far, the policy is
                asked for the largest return of its data, plans and returns are taken as they are, and prices are fused as
                published. "code" is the authors' code, which also discounts sequential tasks, asks for the same return at every
                token and draws the tokens. Its scheduled sampling in a tenth of the episodes is left out.
            tasks: kind of tasks to learn from.

        Source: CATP-LLM, Eq. 4, section 3.2.2 and appendix A; its published configurations, `offline_rl.py` and `inference.py`.

        Raises:
            UnknownName: there is no such preset.
        """
        check_known("preset", name, PRESETS)
        paper = {"cumulative": True, "centred": False, "return_scale": 1.0, "elite": 0.0, "fusion": "published"}
        if name == "paper":
            return paper
        sequential = tasks == "sequential"
        discount, window = (0.9, 10) if sequential else (1.0, 12)
        return {**paper, "gamma": discount, "window": window, "constant_target": True, "sampled": True}

    @property
    def conditioned(self) -> bool:
        """Whether the policy is told the wanted return."""
        return self.method == "catp"

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        rising = min(1.0, (step + 1) / max(1, self.warmup_steps))
        falling = min(1.0, max(0.1, 0.1 + 0.9 * (self.steps - step) / max(1.0, self.steps / 3)))
        return self.peak(1e-4) * min(rising, falling)


class CatpConfig(PolicyConfig):
    """The `config.json` of a run of `costgym train catp`, `ift` or `rltf`."""

    trainer: Literal["catp", "ift", "rltf"]
    env: str = PLANS
    settings: CatpSettings
    target_return: float = Field(default=0.0, description="The return that the policy is asked for.")

    @field_validator("settings", mode="before")
    @classmethod
    def _of_an_earlier_run(cls, settings: Any) -> Any:
        """Runs from before the prompt could be chosen had the short one."""
        return {"prompt": "short", **settings} if isinstance(settings, dict) else settings

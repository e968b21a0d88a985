"""What a training run is made of: its settings, and the file in which a run says what it is."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ...simulators.errors import ConfigError, DataError, UnknownName
from ..opencatp.base import ENV_ID

FORMAT = "costgym.catp/1"
CONFIG = "config.json"
METHODS = ("catp", "ift", "rltf")
SMALL_MODELS = ("llama", "gpt2")
"""Architectures that are built from a config and trained in full; any other model name is a published one's identifier."""


@dataclass(frozen=True, slots=True)
class CatpSettings:
    """Settings of a run; everything that its result depends on, besides the scores it learns from.

    Attributes:
        method: ``catp`` (return-conditioned, offline), ``ift`` (supervised on labelled plans) or ``rltf`` (policy gradient).
        tasks: ``sequential``, ``nonsequential`` or ``all``: the tasks trained on (their train split).
        steps: optimiser steps.
        seed: of everything drawn.
        alpha: weight of the score in the Quality of Plan.
        profile: what tools cost.
        context: context augmentation: tool tokens carry their prices at the four size levels, weighed by the input's level.
        intermediate_feedback: each tool's price is a reward when the tool is written; else all is rewarded at the end.
        mask: only tokens from which a valid plan can be finished are learnt from and chosen among.
        centred: returns are told less the best one known for the task and level, so that 0 asks for the best; else as they are,
            and the largest in the data is asked for.
        size_words: the size level is also said in the prompt's words.
        window: how many steps (return, state, action) the policy looks back.
        model: ``llama`` or ``gpt2`` for a small one made from a config, or the identifier of a published causal model.
        width, layers, heads: of a small model.
        lora_rank: of the adapters of a published model; 0 trains it in full.
        batch: episodes per step.
        learning_rate: of AdamW; None: 2e-3 for a small model, 1e-4 for a published one.
        weight_decay, clip: of AdamW, and the norm to which gradients are clipped.
        warmup: steps over which the learning rate rises; over the last third of all steps it falls to a tenth.
        walks: random walks through the tool graph, per task, in the offline data.
        composed: tasks with several outputs made by joining sequential train tasks on the same degraded image, beside the train
            tasks themselves (where non-sequential tasks are trained on).
        best, near, spread: plans per task and size level that are the best found, drawn from the best tenth, and from all.
        elite: share of a batch that is drawn from plans whose return lies within 0.03 of the best known; the rest is drawn
            from all.
        balance: share of a batch that is non-sequential where both kinds are trained on.
        return_scale: factor on returns before they are embedded.
        warm_steps: of RLTF: supervised steps before the policy gradient.
        group: of RLTF: plans sampled for each situation, whose mean is the baseline.

    Raises:
        ConfigError, UnknownName: a setting makes no sense.
    """

    method: str = "catp"
    tasks: str = "all"
    steps: int = 2000
    seed: int = 0
    alpha: float = 0.5
    profile: str = "v100"
    context: bool = True
    intermediate_feedback: bool = True
    mask: bool = True
    centred: bool = True
    size_words: bool = False
    window: int = 12
    model: str = "llama"
    width: int = 64
    layers: int = 2
    heads: int = 4
    lora_rank: int = 64
    batch: int = 48
    learning_rate: float | None = None
    weight_decay: float = 1e-4
    clip: float = 1.0
    warmup: int = 100
    walks: int = 6
    composed: int = 120
    best: int = 4
    near: int = 6
    spread: int = 4
    elite: float = 0.5
    balance: float = 0.5
    return_scale: float = 10.0
    warm_steps: int = 300
    group: int = 8

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UnknownName("training method", self.method, METHODS)
        if self.tasks not in ("sequential", "nonsequential", "all"):
            raise ConfigError("tasks", f"expected sequential, nonsequential or all, got {self.tasks!r}")
        for name, least in (
            ("steps", 1), ("seed", 0), ("window", 1), ("width", 1), ("layers", 1), ("heads", 1), ("lora_rank", 0), ("batch", 1),
            ("warmup", 0), ("walks", 0), ("composed", 0), ("best", 1), ("near", 0), ("spread", 0), ("warm_steps", 0),
            ("group", 2),
        ):  # fmt: skip
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(name, f"expected a whole number of at least {least}, got {value!r}")
        if self.width % (2 * self.heads):
            raise ConfigError("width", f"expected a multiple of twice the {self.heads} heads, got {self.width}")
        rates = ("alpha", "weight_decay", "clip", "elite", "balance", "return_scale")
        for name in (*rates, *(("learning_rate",) if self.learning_rate is not None else ())):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
                raise ConfigError(name, f"expected a finite number of at least 0, got {value!r}")

    @property
    def small(self) -> bool:
        """The model is made from a config."""
        return self.model in SMALL_MODELS

    @property
    def conditioned(self) -> bool:
        """The policy is told the return that is wanted."""
        return self.method == "catp"

    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        peak = self.learning_rate if self.learning_rate is not None else (2e-3 if self.small else 1e-4)
        rising = min(1.0, (step + 1) / max(1, self.warmup))
        falling = min(1.0, max(0.1, 0.1 + 0.9 * (self.steps - step) / max(1.0, self.steps / 3)))
        return peak * min(rising, falling)


def write_config(folder: Path, settings: CatpSettings, target_return: float) -> None:
    """Says in `config.json` what a run is."""
    from ...simulators.version import __version__

    record = {
        "format": FORMAT,
        "env": ENV_ID,
        "version": __version__,
        "target_return": target_return,
        "settings": asdict(settings),
    }
    (folder / CONFIG).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_config(folder: Path) -> tuple[CatpSettings, float]:
    """The settings of a run and the return that its policy is asked for.

    Raises:
        DataError: there is no run, it is of another kind, version or environment, or its settings make no sense.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise DataError(folder, f"no training run: {CONFIG} is missing; train one with `costgym train catp --out {folder}`")
    try:
        record: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(path, f"cannot be read as JSON: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        found = record.get("format") if isinstance(record, dict) else type(record).__name__
        raise DataError(path, f"expected format {FORMAT}, got {found!r}; train the policy again with this version")
    if record.get("env") != ENV_ID:
        raise DataError(path, f"trained for {record.get('env')!r}, expected {ENV_ID}", "env")
    given = record.get("settings")
    known = {field.name for field in fields(CatpSettings)}
    if not isinstance(given, dict) or set(given) != known:
        odd = sorted(known ^ set(given)) if isinstance(given, dict) else given
        raise DataError(path, f"expected exactly the settings of this version; differing: {odd}", "settings")
    target = record.get("target_return")
    if isinstance(target, bool) or not isinstance(target, int | float) or not math.isfinite(target):
        raise DataError(path, f"expected a finite number, got {target!r}", "target_return")
    try:
        return CatpSettings(**given), float(target)
    except (ConfigError, UnknownName) as error:
        raise DataError(path, str(error), "settings") from error

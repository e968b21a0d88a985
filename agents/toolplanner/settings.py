"""What a learnt ToolPlanner is made of: its settings, and the file in which a run says what it is."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ...simulators.errors import ConfigError, DataError, UnknownName
from ..base import TEXT
from .agent import PlannerSettings
from .tags import MOST_CANDIDATES
from .tree import Feedback

FORMAT = "costgym.toolplanner/1"
CONFIG = "config.json"
SMALL_MODELS = ("llama", "gpt2")
"""Architectures that are built from a config and trained in full; any other model name is a published one's identifier."""


@dataclass(frozen=True, slots=True)
class LearntSettings:
    """Settings of a run; everything that its result depends on, besides the scenario.

    Attributes:
        seed: of everything drawn.
        tasks: train tasks of a generated scenario that are learnt from; a loaded one has the tasks it has.
        worlds: seeds under which the teacher plays each instruction.
        levels: instruction levels that are learnt from.
        tags, path: with tag extraction, with path planning.
        completion, following: with task-completion feedback, with instruction-following feedback.
        candidates: tools that the tags bring into play.
        model: ``llama`` or ``gpt2`` for a small one made from a config, or the identifier of a published causal model.
        width, layers, heads, vocabulary: of a small model and its tokenizer.
        lora_rank: of the adapters of a published model; 0 trains it in full.
        steps, batch, learning_rate: of stage 1; None: 2e-3 for a small model, 1e-4 for a published one.
        rank_tasks: tasks whose solution trees stage 2 learns from.
        rank_steps, rank_batch, rank_rate: of stage 2; a batch is one of pairs. None: a tenth of stage 1's rate.
        beta: weight of the ranking loss; the paper has 1, for a model that knows more beforehand.
        margin: by which the score of the better round is to lead; the paper has 0.
        rehearsal: weight, in stage 2, of stage 1's loss on that of its solved paths which feedback has nothing against; pairs
            alone would unlearn tags and paths.
        temperature: at which the trees that stage 2 learns from are drawn.
        weight_decay, clip, warmup: of AdamW, the norm to which gradients are clipped, and the steps over which rates rise.

    Raises:
        ConfigError, UnknownName: a setting makes no sense.

    Source: ToolPlanner (arXiv 2409.14826), Section 4 and Table 7, for what there is to set; the figures are for small models.
    """

    seed: int = 0
    tasks: int = 20000
    worlds: int = 1
    levels: tuple[str, ...] = ("statement", "category", "tool", "api", "hybrid")
    tags: bool = True
    path: bool = True
    completion: bool = True
    following: bool = True
    candidates: int = MOST_CANDIDATES
    model: str = "llama"
    width: int = 128
    layers: int = 3
    heads: int = 4
    vocabulary: int = 2048
    lora_rank: int = 16
    steps: int = 5000
    batch: int = 16
    learning_rate: float | None = None
    rank_tasks: int = 4000
    rank_steps: int = 800
    rank_batch: int = 12
    rank_rate: float | None = None
    beta: float = 3.0
    margin: float = 1.0
    rehearsal: float = 3.0
    temperature: float = 0.7
    weight_decay: float = 0.0
    clip: float = 1.0
    warmup: int = 50

    def __post_init__(self) -> None:
        from ...simulators.tasks import LEVELS

        for name, least in (
            ("seed", 0), ("tasks", 1), ("worlds", 1), ("candidates", 1), ("width", 1), ("layers", 1), ("heads", 1),
            ("vocabulary", 300), ("lora_rank", 0), ("steps", 1), ("batch", 1), ("rank_tasks", 1), ("rank_steps", 1),
            ("rank_batch", 1), ("warmup", 0),
        ):  # fmt: skip
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(name, f"expected a whole number of at least {least}, got {value!r}")
        if self.width % (2 * self.heads):
            raise ConfigError("width", f"expected a multiple of twice the {self.heads} heads, got {self.width}")
        rates = ("beta", "margin", "rehearsal", "temperature", "weight_decay", "clip", "learning_rate", "rank_rate")
        for name in rates:
            value = getattr(self, name)
            if value is None and name in ("learning_rate", "rank_rate"):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
                raise ConfigError(name, f"expected a finite number of at least 0, got {value!r}")
        for name in ("tags", "path", "completion", "following"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(name, f"expected true or false, got {getattr(self, name)!r}")
        object.__setattr__(self, "levels", tuple(self.levels))
        if not self.levels:
            raise ConfigError("levels", "expected at least one instruction level")
        for level in self.levels:
            if level not in LEVELS:
                raise UnknownName("instruction level", level, LEVELS)

    @property
    def small(self) -> bool:
        """The model is made from a config."""
        return self.model in SMALL_MODELS

    @property
    def feedback(self) -> Feedback:
        """What a solution is rewarded for."""
        return Feedback(self.completion, self.following)

    def planner(self, **changed: Any) -> PlannerSettings:
        """The limits under which the policy plays."""
        return PlannerSettings(candidates=self.candidates, tags=self.tags, path=self.path, **changed)

    def rate(self, stage: int, step: int) -> float:
        """Learning rate of a stage's step, counted from 0: it rises, then falls to a tenth."""
        first = self.learning_rate if self.learning_rate is not None else (2e-3 if self.small else 1e-4)
        peak = first if stage == 1 else self.rank_rate if self.rank_rate is not None else first / 10
        steps = self.steps if stage == 1 else self.rank_steps
        rising = min(1.0, (step + 1) / max(1, min(self.warmup, steps // 4)))
        return float(peak * min(rising, max(0.1, 1.0 - 0.9 * step / steps)))


def write_config(folder: Path, settings: LearntSettings, stage: int, scenario: str) -> None:
    """Says in `config.json` what a run is.

    Args:
        stage: 1 or 2.
        scenario: digest of the world it learnt in.
    """
    from ...simulators.version import __version__

    record = {
        "format": FORMAT,
        "env": TEXT,
        "version": __version__,
        "stage": stage,
        "scenario": scenario,
        "settings": asdict(settings),
    }
    (folder / CONFIG).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_config(folder: Path) -> tuple[LearntSettings, int, str]:
    """Settings, stage and scenario digest of a run.

    Raises:
        DataError: there is no run, it is of another kind, version or environment, or its settings make no sense.
    """
    from ...simulators.version import __version__

    path = folder / CONFIG
    if not path.is_file():
        raise DataError(
            folder, f"no training run: {CONFIG} is missing; train one with `costgym train toolplanner --out {folder}`"
        )
    try:
        record: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(path, f"cannot be read as JSON: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        found = record.get("format") if isinstance(record, dict) else type(record).__name__
        raise DataError(path, f"expected format {FORMAT}, got {found!r}; train the policy again with this version", "format")
    version = str(record.get("version"))
    if version.split(".")[:2] != __version__.split(".")[:2]:
        raise DataError(path, f"was written by costgym {version}, this is {__version__}; use that or train again", "version")
    if record.get("env") != TEXT:
        raise DataError(path, f"trained for {record.get('env')!r}, expected {TEXT}", "env")
    if record.get("stage") not in (1, 2) or not isinstance(record.get("scenario"), str):
        raise DataError(path, "expected a stage, 1 or 2, and the digest of a scenario", "stage")
    given = record.get("settings")
    known = {field.name for field in fields(LearntSettings)}
    if not isinstance(given, dict) or set(given) != known:
        odd = sorted(known ^ set(given)) if isinstance(given, dict) else given
        raise DataError(path, f"expected exactly the settings of this version; differing: {odd}", "settings")
    try:
        return LearntSettings(**given), record["stage"], record["scenario"]
    except (ConfigError, UnknownName, TypeError) as error:
        raise DataError(path, str(error), "settings") from error

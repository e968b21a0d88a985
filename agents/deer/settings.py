"""What a trained DEER policy is: settings, and the file that says so."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from ...simulators.decision.toolsets import INTER, INTRA, MIXTURE, RANDOM
from ...simulators.errors import ConfigError, DataError, UnknownName
from ...simulators.version import __version__
from ..base import DECISION

FORMAT, CONFIG, TOKENIZER = "costgym.deer/2", "config.json", "tokenizer"
SAMPLINGS: dict[str, dict[str, int]] = {
    "random": {RANDOM: 1},
    "inter": {INTER: 1},
    "intra": {INTRA: 1},
    "mixture": dict(MIXTURE),
}
"""Strategies by which candidates of training samples are drawn, by the name of the option."""


@dataclass(frozen=True, slots=True)
class DeerSettings:
    """Settings of a training run.

    Attributes:
        sampling: how candidates are drawn, see `SAMPLINGS`.
        model: a published causal language model by id or folder, tuned with LoRA; None for a small one from a config.
        scale: so many times as many training samples about tools as the paper has.
        steps, batch: optimiser steps of deciding, and rows of each.
        index_steps: at most so many steps before them, in which a small model only learns to look up which of the tools has a
            word; they end as soon as it does. A single label per sample would teach it that far too slowly.
        index_share: share of such steps afterwards.
        search_share: of the rows about tools, that many are asked for the first decision, which is the easier one.
        rename_share: share of the call decisions in which words are exchanged for others, for a small model.
        learning_rate: None: 2e-3 for a small model, 2e-4 for LoRA.
        warmup: steps of rising learning rate; in those of deciding it then falls linearly.
        hidden, layers, heads, window: of the small model; the first layer sees `window` tokens, the own one included.
        vocabulary: most words of the small model.
        lora_rank: of the adapters of a published model.
        seed: of weights, samples and their order.
    """

    sampling: str = "mixture"
    model: str | None = None
    scale: int = 1
    steps: int = 1000
    batch: int = 32
    index_steps: int = 800
    index_share: float = 0.1
    search_share: float = 0.25
    rename_share: float = 0.5
    learning_rate: float | None = None
    warmup: int = 50
    hidden: int = 128
    layers: int = 3
    heads: int = 2
    window: int = 2
    vocabulary: int = 4000
    lora_rank: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        if self.sampling not in SAMPLINGS:
            raise UnknownName("sampling strategy", self.sampling, SAMPLINGS)
        for name in ("scale", "steps", "batch", "hidden", "layers", "heads", "window", "vocabulary", "lora_rank"):
            _whole(name, getattr(self, name), 1)
        for name in ("index_steps", "warmup", "seed"):
            _whole(name, getattr(self, name), 0)
        for name in ("index_share", "search_share", "rename_share"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0.0 <= value < 1.0:
                raise ConfigError(name, f"expected a share of at least 0 and below 1, got {value!r}")
        if self.learning_rate is not None and not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ConfigError("learning_rate", f"expected a positive number, got {self.learning_rate!r}")
        if self.hidden % (2 * self.heads):
            raise ConfigError("hidden", f"expected a multiple of twice the {self.heads} heads, got {self.hidden}")

    def rate(self, step: int, falling: bool = True) -> float:
        """Learning rate of a step, counted from 0: of deciding, where it falls, or of looking up, where it stays."""
        peak = self.learning_rate if self.learning_rate is not None else (2e-3 if self.model is None else 2e-4)
        rising = peak * min(1.0, (step + 1) / max(1, self.warmup))
        return rising * max(0.02, 1.0 - step / self.steps) if falling else rising


def _whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(name, f"expected a whole number of at least {least}, got {value!r}")


class DeerRun(NamedTuple):
    """What `config.json` says.

    Attributes:
        settings: of the training.
        slots: candidates of a sample.
        common: words that too many descriptions share to tell tools apart; a small model is not shown them.
        world: of the samples: the scenario's digest, or the name of the folder of recorded ones.
    """

    settings: DeerSettings
    slots: int
    common: tuple[str, ...]
    world: str


def write_run(folder: Path, run: DeerRun) -> None:
    """Says in `config.json` what a run is."""
    record = {
        "format": FORMAT,
        "version": __version__,
        "env": DECISION,
        "world": run.world,
        "slots": run.slots,
        "common": list(run.common),
        "settings": asdict(run.settings),
    }
    draft = folder / f".{CONFIG}.tmp"
    draft.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    draft.replace(folder / CONFIG)


def read_run(folder: str | Path) -> DeerRun:
    """What a run's folder says of it.

    Raises:
        DataError: there is no run, or it is of another kind, environment or version, or its settings make no sense.
    """
    path = Path(folder) / CONFIG
    try:
        record: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(
            path, f"cannot be read ({error.strerror}); expected the folder of a `costgym train deer` run"
        ) from error
    except (ValueError, RecursionError) as error:
        raise DataError(path, "is no JSON; train the policy again") from error
    found = record.get("format") if isinstance(record, dict) else type(record).__name__
    if found != FORMAT:
        raise DataError(path, f"expected format {FORMAT!r}, got {found!r}", "format")
    version = str(record.get("version"))
    if version.split(".")[:2] != __version__.split(".")[:2]:
        raise DataError(path, f"was written by costgym {version}, this is {__version__}; train again", "version")
    if record.get("env") != DECISION:
        raise DataError(path, f"expected a policy for {DECISION}, got one for {record.get('env')!r}", "env")
    given, slots, common = record.get("settings"), record.get("slots"), record.get("common")
    known = {field.name for field in fields(DeerSettings)}
    if not isinstance(given, Mapping) or set(given) != known:
        odd = sorted(known ^ set(given)) if isinstance(given, Mapping) else given
        raise DataError(path, f"expected exactly the settings of this version; differing: {odd}", "settings")
    if isinstance(slots, bool) or not isinstance(slots, int) or not 1 <= slots <= 100:
        raise DataError(path, f"expected a number of candidates, got {slots!r}", "slots")
    if not isinstance(common, list) or not all(isinstance(word, str) for word in common):
        raise DataError(path, "expected a list of words", "common")
    try:
        return DeerRun(DeerSettings(**given), slots, tuple(common), str(record.get("world")))
    except (ConfigError, UnknownName) as error:
        raise DataError(path, str(error), "settings") from error

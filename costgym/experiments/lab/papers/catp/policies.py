"""The policies that CATP-LLM's tables compare, trained here: which there are, and their training.

Every policy has as many optimiser steps as every other: joint ones learn from both kinds of tasks, those of the published
protocol from one kind each, with half the steps.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from costgym.agents.catp.settings import CatpSettings
from costgym.agents.networks import torch_threads
from costgym.experiments.lab.papers.protocols import BOARD, PUBLISHED
from costgym.experiments.play.execution.engine import Local
from costgym.experiments.train.run import require_modules
from costgym.simulators.opencatp.scoring.evaluation import Evaluator

ALPHA, ALPHAS = 0.5, (0.3, 0.5, 0.7)
KINDS = ("sequential", "nonsequential")
STEPS = 800  # optimiser steps of a policy that learns from both kinds of tasks
METHODS = ("ift", "rltf")
ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    "catp-no-context": {"context": False},
    "catp-no-feedback": {"intermediate_feedback": False},
    "catp-no-mask": {"mask": False},
}
"""Source: CATP-LLM, Table 4."""
TEXT: Mapping[str, Any] = CatpSettings.preset("paper")
"""Settings of the published protocol: the paper's text."""
CHANGES: Mapping[str, Mapping[str, Any]] = {f"catp+{name}": {name: value} for name, value in TEXT.items()}
"""The settings of the published protocol, one at a time."""
# a quarter and twice the default's weights, about
SIZES: Mapping[str, Mapping[str, Any]] = {"catp-small": {"hidden_size": 32}, "catp-large": {"hidden_size": 96}}


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy to train."""

    agent: str  # its name in the tables
    protocol: str  # that it belongs to; "" for all
    tasks: str = "all"  # that it learns from and is measured on: "sequential", "nonsequential" or "all"
    alpha: float = ALPHA  # weight of the score in the Quality of Plan
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)  # fields of `CatpSettings` unlike the default

    @property
    def folder(self) -> str:
        """Name of the folder of its training run."""
        return "-".join(part for part in (self.protocol, self.agent, self.tasks, f"{self.alpha:g}") if part)

    @property
    def method(self) -> str:
        return self.agent if self.agent in METHODS else "catp"


def policies() -> tuple[Policy, ...]:
    """All policies of the reproduction; those that learn from the same plans are neighbours, unless the longest came last."""
    other_alphas = [alpha for alpha in ALPHAS if alpha != ALPHA]
    own: Mapping[str, Mapping[str, Any]] = {"catp": {}, **ABLATIONS}
    found = [Policy("catp", BOARD), *(Policy(method, "") for method in METHODS)]
    found += [Policy(agent, BOARD, settings=change) for agent, change in SIZES.items()]
    found += [Policy("catp", BOARD, "all", alpha) for alpha in other_alphas]
    for kind in KINDS:
        found += [Policy(agent, PUBLISHED, kind, ALPHA, {**TEXT, **change}) for agent, change in own.items()]
        found += [Policy("catp", PUBLISHED, kind, alpha, TEXT) for alpha in other_alphas]
    found += [Policy(agent, BOARD, settings=change) for agent, change in {**ABLATIONS, **CHANGES}.items()]
    return tuple(found)


def train_policies(
    out: Path, seed: int, jobs: int, steps: int = STEPS, progress: Callable[[int, int], None] | None = None, **usual: Any
) -> dict[Policy, str]:
    """Train all policies in so many processes, or go on with those that are in the folder; return the agent's name of each. A
    policy takes so many optimiser steps, and half of them where it learns from one kind of tasks; `usual` are the fields of
    `CatpSettings` that all share, and further arguments of `train_catp`."""
    require_modules("torch", "transformers", "safetensors")
    asked = policies()
    for done, _ in enumerate(Local(jobs).stream(_train, (str(out), seed, steps, usual), asked), 1):
        if progress is not None:
            progress(done, len(asked))
    return {policy: f"{policy.method}:{out / policy.folder}" for policy in asked}


def _train(shared: tuple[str, int, int, dict[str, Any]], policy: Policy) -> Iterator[bool]:
    """Train one policy on one thread, so that its weights do not depend on the machine's number of processors."""
    from costgym.experiments.train.catp.train import train_catp, train_ift, train_rltf

    out, seed, steps, usual = shared
    trainer = {"catp": train_catp, "ift": train_ift, "rltf": train_rltf}[policy.method]
    steps = steps if policy.tasks == "all" else max(1, steps // 2)
    own = {"supervised_steps": steps // 2} if policy.method == "rltf" else {}
    with torch_threads(1):
        result = trainer(
            Path(out) / policy.folder,
            policy.tasks,
            steps,
            seed,
            evaluator=Evaluator(None, "v100", policy.alpha),
            device="cpu",
            save_every=50,
            **{**own, **usual, **policy.settings},
        )
    yield result.finished

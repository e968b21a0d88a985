"""Execute a plan for real: every tool runs on the sample's image, and what it took is measured.

Scores are formed as in an outcome table, down to their rounding, so that the same tools give the same score. Times and memory
are those of this machine and of this moment; nothing that a seed determines depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..plan import TASK_INPUT, Plan
from .backends.base import RESTORERS, Backend, Images, run_images, run_texts
from .backends.meter import Meter
from .plan_space import routes_to
from .scenes import degrade
from .scenes import scene as scenes
from .scoring import similarity
from .scoring.evaluation import Evaluator
from .scoring.table import SCALE, WANTED, wanted_texts
from .tasks import OpenCATPTask


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A run of a tool: seconds, memory above that held before it (process and GPU, MB), and its image or text."""

    seconds: float
    memory_mb: float
    gpu_memory_mb: float
    output: Any


@dataclass(frozen=True, slots=True)
class LiveOutcome:
    """What executing a plan brought.

    Attributes:
        score: task score of its outputs, 1 at best.
        runs: the run of each tool, in the order of the plan.
        seconds: longest path through the plan with the measured times, as if branches ran side by side.
        seconds_one_by_one: sum of the measured times; tools really ran one after another.
        memory_mb, gpu_memory_mb: most that a run took above what was held before it, MB.
    """

    score: float
    runs: Mapping[str, ToolRun]
    seconds: float
    seconds_one_by_one: float
    memory_mb: float
    gpu_memory_mb: float


class LiveTools:
    """Executes plans with a back-end.

    Args:
        backend: runs the tools.
        seed: world of the scenes; that of the outcome table whose samples are played.
        device: of the back-end, for its memory.
        twice: run each tool once unmeasured before, so that loading a model is no part of its time.
    """

    def __init__(self, backend: Backend, seed: int = scenes.TABLE_SEED, device: str = "cpu", twice: bool = True) -> None:
        self.backend, self.seed, self.twice = backend, seed, twice
        self._meter = Meter(device, None)
        self._warm: set[str] = set()

    def run(self, plan: Plan, task: OpenCATPTask, sample: int, evaluator: Evaluator) -> LiveOutcome:
        """Execute a plan on a sample of a task.

        Args:
            plan: a plan whose types fit.
            task: the task; its degradation is applied to the sample's scene.
            sample: number of the scene.
            evaluator: says which tool answers which output.

        Raises:
            DataError: weights are missing.
        """
        scene = scenes.make_scene(self.seed, sample)
        made: dict[str, Any] = {TASK_INPUT: degrade.degrade(scene.image, task.combination, self.seed, sample)}
        runs: dict[str, ToolRun] = {}
        routes: dict[str, tuple[str, ...]] = {TASK_INPUT: ()}
        for step in plan.steps:
            runs[step.tool] = self._run(step.tool, made[step.deps[-1]])
            made[step.tool] = runs[step.tool].output
            routes[step.tool] = () if step.tool in RESTORERS else (*routes[step.deps[-1]], step.tool)
        score = 0.0
        truths = dict(zip(WANTED, wanted_texts(scene), strict=True))
        for want, tool in evaluator.answers(plan, task):
            if tool is not None:
                exact = _image_score(made[tool], scene.image) if want.is_image else _text_score(made[tool], truths[want.name])
                # a table holds the scores of straight routes in single precision
                straight = routes[tool] == routes_to(want, False)[0]
                score += float(np.float32(round(exact * SCALE)) / np.float32(SCALE)) if straight else exact
        seconds = {tool: run.seconds for tool, run in runs.items()}
        return LiveOutcome(
            score / len(task.wants),
            runs,
            plan.execution_time(seconds),
            sum(seconds.values()),
            max((run.memory_mb for run in runs.values()), default=0.0),
            max((run.gpu_memory_mb for run in runs.values()), default=0.0),
        )

    def _run(self, tool: str, given: Any) -> ToolRun:
        inputs: Images | list[str] = [given] if isinstance(given, str) else given[None]
        if self.twice and tool not in self._warm:
            self.backend.run(tool, inputs)
            self._warm.add(tool)
        found: list[Any] = []
        seconds: list[float] = []

        def run() -> None:
            seconds.append(self._meter.seconds(lambda: found.append(_one(self.backend, tool, inputs))))

        memory, gpu = self._meter.peak_mb(run)
        return ToolRun(seconds[0], memory, gpu, found[0])


def _one(backend: Backend, tool: str, inputs: Images | list[str]) -> Any:
    return run_images(backend, tool, inputs)[0] if tool in RESTORERS else run_texts(backend, tool, inputs)[0]  # type: ignore[arg-type]


def _image_score(image: Any, wanted: Any) -> float:
    features = similarity.image_features(image[None])[0], similarity.image_features(wanted[None])[0]
    return round(float(np.clip((features[0] * features[1]).sum(), -1, 1)) * SCALE) / SCALE


def _text_score(text: str, wanted: str) -> float:
    return round(similarity.text_score(text, wanted) * SCALE) / SCALE


def check_seed(meta: Mapping[str, Any]) -> int:
    """The scenes' seed that an outcome table names in its `meta`.

    Raises:
        ConfigError: it names none, or other images or another scorer, so its samples cannot be made and scored again.
    """
    seed = meta.get("seed")
    if "images" in meta or "scorers" in meta:
        raise ConfigError("backend", "live episodes play generated scenes with our own scorer; the outcome table has others")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ConfigError("backend", "the outcome table does not say which scenes it is of; live episodes need one that does")
    return seed

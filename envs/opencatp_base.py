"""What both OpenCATP views share: which task and sample are played, the figures of `info`, rendering."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from ..simulators.errors import ConfigError, EpisodeOver, UnknownName
from ..simulators.ledger import RESOURCES, Budget
from ..simulators.opencatp.evaluation import Evaluator, ScoreSource, check_sample, sample_level, shipped_outcomes, split_samples
from ..simulators.opencatp.levels import LEVELS
from ..simulators.opencatp.profile import Profile
from ..simulators.opencatp.tasks import OpenCATPTask, tasks
from ..simulators.opencatp.tasks import task as find_task
from ..simulators.opencatp.tools import SIGNATURES, TEXT, TOOLS
from ..simulators.quality import MAX_PRICE_USD, check_alpha
from .opencatp_render import Bar, chart_image, chart_text

Observation = dict[str, npt.NDArray[Any]]
REWARDS = ("incremental", "cumulative")
RENDER_MODES = ("human", "ansi", "rgb_array")

TASK_FEATURES = (
    "low_resolution", "noise", "blur", "grey",
    "image", "caption", "caption_de", "label", "label_de", "object", "object_de", "sequential",
)  # fmt: skip
"""Entries of `observation["task"]`: how the image suffered, what is wanted, whether one output only."""
_DEGRADATIONS = ("low-resolutioned", "noisy", "blurry", "grayscale")


class OpenCATPBase(gym.Env[Observation, "int | np.integer[Any]"]):
    """Base of the OpenCATP views.

    Args:
        tasks: ``sequential``, ``nonsequential`` or ``all``.
        split: ``train`` or ``test``: of the tasks and of the samples.
        alpha: Weight of the score against the price, strictly between 0 and 1.
        profile: What tools cost: a name, a file, or a `Profile`.
        level: Give every sample at this size level; None: at its own (`simulators.opencatp.evaluation.sample_level`).
        budget: Limits such as ``{"price": 0.2}``; an episode that passes one ends without a score. None: no limits.
        cost: The resource that `info["cost"]` reports, for constrained RL.
        success_score: Task score from which an episode counts as a success.
        outcomes: File of an outcome table; None: the shipped one.
        scores: Scores from elsewhere, instead of a table.
        render_mode: ``ansi``, ``rgb_array`` or ``human``.

    Raises:
        CostGymError: a setting makes no sense, or there is no outcome table.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        tasks: str = "sequential",
        split: str = "train",
        alpha: float = 0.5,
        profile: str | Path | Profile = "v100",
        level: int | None = None,
        budget: dict[str, float] | None = None,
        cost: str = "price",
        success_score: float = 0.5,
        outcomes: str | None = None,
        scores: ScoreSource | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.tasks = _tasks(tasks, split)
        self.alpha, self.max_price = check_alpha(alpha), MAX_PRICE_USD
        if level is not None and (isinstance(level, bool) or level not in range(LEVELS)):
            raise ConfigError("level", f"expected a size level 0..{LEVELS - 1} or None, got {level!r}")
        if cost not in RESOURCES:
            raise UnknownName("cost resource", cost, RESOURCES)
        if isinstance(success_score, bool) or not isinstance(success_score, int | float) or not math.isfinite(success_score):
            raise ConfigError("success_score", f"expected a finite number, got {success_score!r}")
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise UnknownName("render mode", render_mode, RENDER_MODES)
        self.evaluator = Evaluator(shipped_outcomes(outcomes) if scores is None else scores, profile, alpha)
        self.profile = self.evaluator.profile
        self.samples = split_samples(self.evaluator.scores.samples, split)
        self.split, self.level, self.cost, self.success_score, self.render_mode = split, level, cost, success_score, render_mode
        self.budget = Budget.from_mapping(budget or {})
        self._limits = tuple(getattr(self.budget, name) for name in RESOURCES)
        self._task: OpenCATPTask | None = None
        self.sample = self.size_level = 0
        self._task_rows = {each.task_id: _task_row(each) for each in self.tasks}
        self._begin_figures()

    # -- episodes

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> OpenCATPTask:
        """Starts an episode. `options` may name `task` (old numbering), `sample` and `level`; else they are drawn."""
        super().reset(seed=seed)
        chosen = options or {}
        draw = self.np_random.integers(1 << 31, size=2)
        task = (
            self.tasks[int(draw[0]) % len(self.tasks)]
            if chosen.get("task") is None
            else find_task(_int("task", chosen["task"]))
        )
        if chosen.get("sample") is None:
            self.sample = self.samples[int(draw[1]) % len(self.samples)]
        else:
            self.sample = check_sample(self.evaluator.scores, _int("sample", chosen["sample"]))
        level = self.level if chosen.get("level") is None else _int("level", chosen["level"])
        if level is not None and not 0 <= level < LEVELS:
            raise ConfigError('options["level"]', f"expected a size level 0..{LEVELS - 1}, got {level}")
        self.size_level = sample_level(task, self.sample) if level is None else level
        self._task = task
        self._begin_figures()
        return task

    def _begin_figures(self) -> None:
        self._spent: tuple[float, float, int, int] = (0.0, 0.0, 0, 0)
        self._over = False
        self._valid = False
        self._score = 0.0
        self._return = 0.0
        self._exceeded: str | None = None

    @property
    def task(self) -> OpenCATPTask:
        """The task being played."""
        return self._playing()

    def _playing(self) -> OpenCATPTask:
        if self._task is None:
            raise EpisodeOver("no episode has begun; call reset() first")
        return self._task

    @property
    def quality(self) -> float:
        """Quality of Plan so far: alpha * score - (1 - alpha) * price / max_price, with the score once the plan is finished."""
        return self._return

    @property
    def exceeded(self) -> str | None:
        """The resource whose limit was passed, if any."""
        return self._exceeded

    def _check_budget(self, spent: tuple[float, float, int, int]) -> bool:
        """Whether all limits are kept."""
        for name, limit, used in zip(RESOURCES, self._limits, spent, strict=True):
            if limit is not None and used > limit:
                self._exceeded = name
                return False
        return True

    def _new_task_row(self) -> npt.NDArray[np.float32]:
        """Features of a task from outside the split, named in the reset's options."""
        row = self._task_rows[self.task.task_id] = _task_row(self.task)
        return row

    # -- figures

    def _figures(self, spent: tuple[float, float, int, int], mask: npt.NDArray[np.bool_]) -> dict[str, Any]:
        """`info` of this step: the same keys always, fresh objects every time."""
        last, self._spent = self._spent, spent
        steps = [now - before for now, before in zip(spent, last, strict=True)]
        index = RESOURCES.index(self.cost)
        info: dict[str, Any] = {"cost": steps[index]}
        for name, step in zip(RESOURCES, steps, strict=True):
            info[f"cost_{name}"] = step
        info["cost_sum"] = spent[index]
        for name, limit, used in zip(RESOURCES, self._limits, spent, strict=True):
            info[f"budget_remaining_{name}"] = math.inf if limit is None else limit - used
        done = self._over and self._valid and self._exceeded is None
        info["is_success"] = bool(done and self._score >= self.success_score)
        info["plan_valid"] = bool(self._over and self._valid)
        info["quality_of_plan"] = float(self._return)
        info["score"] = float(self._score)
        info["price"] = float(spent[0])
        info["execution_time_s"] = float(spent[1])
        info["task_id"] = self.task.task_id
        info["sample"] = self.sample
        info["size_level"] = self.size_level
        info["action_mask"] = mask
        return info

    def _shares_left(self, spent: tuple[float, float, int, int]) -> list[float]:
        return [1.0 if limit is None else 1.0 - used / limit for limit, used in zip(self._limits, spent, strict=True)]

    def _tool_costs(self) -> npt.NDArray[np.float32]:
        """Per tool: price in units of max_price, log(1 + seconds), whether it reads and whether it makes text.  # (10, 4)"""
        rows = [
            (
                self.profile.price(tool, self.size_level) / self.max_price,
                math.log1p(self.profile.seconds(tool, self.size_level)),
                SIGNATURES[tool].takes == TEXT,
                SIGNATURES[tool].gives == TEXT,
            )
            for tool in TOOLS
        ]
        return np.array(rows, dtype=np.float32)

    def _level_row(self) -> npt.NDArray[np.float32]:
        row = np.zeros(LEVELS, np.float32)
        row[self.size_level] = 1.0
        return row

    # -- views

    def _bars(self) -> list[Bar]:
        raise NotImplementedError

    def render(self) -> Any:
        """The episode as a Gantt chart: text, or an RGB image (height, width, 3)."""
        if self.render_mode is None:
            gym.logger.warn("render() needs a render_mode; make the env with render_mode='ansi' or 'rgb_array'")
            return None
        title = f"task {self.task.task_id}, sample {self.sample}, size level {self.size_level}"
        price, seconds = self._spent[:2]
        figures = f"price {price:.4f} USD, {seconds:.2f} s, score {self._score:.3f}, quality {self._return:.3f}"
        if self.render_mode == "rgb_array":
            return chart_image(f"{title}: {figures}", self._bars())
        text = chart_text([title, self.task.description, figures], self._bars())
        if self.render_mode == "human":
            print(text)
            return None
        return text


def _tasks(kind: str, split: str) -> tuple[OpenCATPTask, ...]:
    if split not in ("train", "test"):
        raise ConfigError("split", f"expected train or test, got {split!r}")
    return tasks(kind, split)


def _task_row(task: OpenCATPTask) -> npt.NDArray[np.float32]:
    wanted = {want.name for want in task.wants}
    row = [name in task.degradations for name in _DEGRADATIONS]
    row += [name in wanted for name in TASK_FEATURES[4:11]]
    return np.array([*row, task.kind == "sequential"], dtype=np.float32)


def _int(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ConfigError(f'options["{name}"]', f"expected a whole number, got {value!r}")
    return int(value)

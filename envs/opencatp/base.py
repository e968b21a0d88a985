"""What both OpenCATP views share: which task and sample are played, the figures of `info`, rendering."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from ...simulators.errors import ConfigError, DataError, EpisodeOver, UnknownName
from ...simulators.ledger import RESOURCES, Budget
from ...simulators.opencatp.episode_view import PlanView
from ...simulators.opencatp.levels import LEVELS
from ...simulators.opencatp.plan_space import PlanValues, plan_space
from ...simulators.opencatp.profile import Profile, profile_record, read_profile
from ...simulators.opencatp.scoring.evaluation import (
    Evaluator,
    ScoreSource,
    check_sample,
    sample_level,
    shipped_outcomes,
    split_samples,
)
from ...simulators.opencatp.scoring.table import OutcomeTable
from ...simulators.opencatp.tasks import OpenCATPTask, tasks
from ...simulators.opencatp.tasks import task as find_task
from ...simulators.opencatp.tools import SIGNATURES, TEXT, TOOLS
from ...simulators.plan import Plan
from ...simulators.pricing import FaasPricing
from ...simulators.quality import MAX_PRICE_USD, check_alpha
from ...simulators.tasks import Grade
from ..recording import Recordable
from ..rendering.opencatp import Bar, chart_image, chart_text

if TYPE_CHECKING:
    from ...simulators.oracle.optimum import Optimum
    from ..rendering.chart import Chart

Observation = dict[str, npt.NDArray[Any]]
REWARDS = ("incremental", "cumulative")
RENDER_MODES = ("human", "ansi", "rgb_array")

TASK_FEATURES = (
    "low_resolution", "noise", "blur", "grey",
    "image", "caption", "caption_de", "label", "label_de", "object", "object_de", "sequential",
)  # fmt: skip
"""Entries of `observation["task"]`, described in the environments."""
WORLD = "opencatp"
"""What the document of an OpenCATP world calls itself."""
_DEGRADATIONS = ("low-resolutioned", "noisy", "blurry", "grayscale")


class OpenCATPBase(Recordable[Observation, "int | np.integer[Any]"]):
    """Base of the OpenCATP environments: `OpenCATP-v0` and `OpenCATPCalls-v0`.

    ## Arguments

    | argument | meaning |
    | --- | --- |
    | `tasks` | `"sequential"` (one output), `"nonsequential"` (several outputs) or `"all"`. |
    | `split` | The tasks and samples that `reset` draws from: `"train"` or `"test"`. |
    | `alpha` | Weight of the score against the price, strictly between 0 and 1. |
    | `profile` | What tools cost: a name, a file of `costgym profile`, what such a file holds, or a `Profile`. |
    | `level` | Gives every sample at this size level, 0 to 3. `None`: at the sample's own. |
    | `budget` | Limits by resource, such as `{"price": 0.2}`. `None`: no limits. |
    | `cost` | The resource reported as `info["cost"]`: `"price"`, `"seconds"`, `"tokens"` or `"calls"`. |
    | `success_score` | The score from which an episode counts as a success. |
    | `outcomes` | File of an outcome table. `None`: the table that comes with the package. |
    | `scores` | Scores from another source in place of a table; such episodes cannot be recorded. |
    | `render_mode` | `"ansi"` returns a Gantt chart as text, `"rgb_array"` as an image, `"human"` prints the text. |

    A setting that makes no sense raises a `CostGymError` that names it.

    ## Information

    | key | type | meaning |
    | --- | --- | --- |
    | `cost` | float or int | What this step used of the resource chosen by the argument `cost`. |
    | `cost_price` | float | Price that this step added, USD. |
    | `cost_seconds` | float | Simulated seconds that this step added to the plan's run. |
    | `cost_tokens` | int | Tokens that this step wrote; 0 where tools are called. |
    | `cost_calls` | int | Tools that this step added. |
    | `cost_sum` | float or int | The sum of `cost` since the episode began. |
    | `budget_remaining_price` | float | USD left; negative once overspent, infinite without a limit. |
    | `budget_remaining_seconds` | float | Simulated seconds left, likewise. |
    | `budget_remaining_tokens` | float | Tokens left, likewise. |
    | `budget_remaining_calls` | float | Tools left, likewise. |
    | `is_success` | bool | The plan is valid, its score reaches `success_score`, and no limit was passed. |
    | `plan_valid` | bool | The episode has ended with a plan that makes every output the task wants. |
    | `quality_of_plan` | float | Quality of Plan so far; a score counts once the plan is finished. |
    | `score` | float | Score of the plan's outputs, 1 at best; 0 before the end. |
    | `price` | float | Price of the plan so far, USD. |
    | `execution_time_s` | float | Simulated seconds that the plan takes so far. |
    | `task_id` | int | The task's number, in the old numbering. |
    | `sample` | int | The number of the image that the task is about. |
    | `size_level` | int | How large the image is, 0 (smallest) to 3. |
    | `action_mask` | bool array | Which actions are allowed, one entry for each. |
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 4}  # noqa: RUF012
    WORLD_ARGUMENTS = frozenset({"profile", "scores"})
    in_time = False
    """Actions are taken while tools run; otherwise a plan is written first, and then runs."""

    def __init__(
        self,
        tasks: str = "sequential",
        split: str = "train",
        alpha: float = 0.5,
        profile: str | Path | Mapping[str, Any] | Profile = "v100",
        level: int | None = None,
        budget: dict[str, float] | None = None,
        cost: str = "price",
        success_score: float = 0.5,
        outcomes: str | None = None,
        scores: ScoreSource | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.kind, self.tasks = tasks, _tasks(tasks, split)
        self.numbers = [task.task_id for task in self.tasks]
        self.alpha, self.max_price = check_alpha(alpha), MAX_PRICE_USD
        if level is not None and (isinstance(level, bool) or level not in range(LEVELS)):
            raise ConfigError("level", f"expected a size level 0..{LEVELS - 1} or None, got {level!r}")
        if cost not in RESOURCES:
            raise UnknownName("cost resource", cost, RESOURCES)
        if isinstance(success_score, bool) or not isinstance(success_score, int | float) or not math.isfinite(success_score):
            raise ConfigError("success_score", f"expected a finite number, got {success_score!r}")
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise UnknownName("render mode", render_mode, RENDER_MODES)
        self.outcomes = None if outcomes is None else str(outcomes)
        self.evaluator = Evaluator(shipped_outcomes(self.outcomes) if scores is None else scores, profile, alpha)
        self.profile = self.evaluator.profile
        self.samples = split_samples(self.evaluator.scores.samples, split)
        self.split, self.level, self.cost, self.success_score, self.render_mode = split, level, cost, success_score, render_mode
        self.budget = Budget.from_mapping(budget or {})
        self._limits = tuple(getattr(self.budget, name) for name in RESOURCES)
        self._task: OpenCATPTask | None = None
        self.sample = self.size_level = self._draw = 0
        self._seed: int | None = None
        self._values: PlanValues | None = None
        self._task_rows = {each.task_id: _task_row(each) for each in self.tasks}
        self._begin_figures()

    # -- episodes

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> OpenCATPTask:
        """Starts an episode. `options` may name `task` (old numbering), `sample` and `level`; else they are drawn."""
        super().reset(seed=seed)
        chosen = options or {}
        draw = self.np_random.integers(1 << 31, size=2)
        self._seed, self._draw = seed, int(draw[1])
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
        info["is_success"] = bool(self.succeeded)
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

    # -- records

    def world_document(self) -> dict[str, Any]:
        table, profile = self.evaluator.scores, self.profile
        if not isinstance(table, OutcomeTable):
            raise ConfigError("scores", "episodes over scores from elsewhere cannot be recorded; name a table: outcomes=FILE")
        if profile.pricing != FaasPricing.opencatp():
            raise ConfigError(
                "profile", "episodes under other pricing than OpenCATP's cannot be recorded; profiles do not hold it"
            )
        return {"name": WORLD, "profile": profile_record(profile), "outcomes": table.digest}

    def world_settings(self) -> dict[str, Any]:
        settings = {
            "tasks": self.kind,
            "split": self.split,
            "alpha": self.alpha,
            "level": self.level,
            "budget": self.budget.as_dict(),
            "success_score": self.success_score,
        }
        return settings if self.outcomes is None else {**settings, "outcomes": self.outcomes}

    @classmethod
    def world_digest(cls, document: Mapping[str, Any]) -> str:
        fields = ("name", "outcomes", "profile")
        if sorted(document) != list(fields) or document["name"] != WORLD or not isinstance(document["outcomes"], str):
            raise DataError("header", f"expected a world {WORLD} with {', '.join(fields)}; got {sorted(document)}", "scenario")
        read_profile(document["profile"], "header")
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @classmethod
    def world_arguments(
        cls, document: Mapping[str, Any], settings: Mapping[str, Any], data: str | None = None
    ) -> dict[str, Any]:
        elsewhere = {} if data is None else {"outcomes": data}
        return {**settings, "profile": document["profile"], **elsewhere}

    def check_world(self, document: Mapping[str, Any]) -> None:
        table = self.evaluator.scores
        if not isinstance(table, OutcomeTable) or table.digest != document["outcomes"]:
            found = table.digest if isinstance(table, OutcomeTable) else "scores from elsewhere"
            wanted = f"expected the outcome table {document['outcomes']}, got {found}; name the file by --data"
            raise DataError(self.outcomes or "the shipped outcome table", wanted)

    def action_name(self, action: int) -> str:
        """What an action says."""
        raise NotImplementedError

    def plan(self) -> Plan | None:
        """The plan as far as it goes; None where there is none."""
        raise NotImplementedError

    def account(self) -> PlanView:
        raise NotImplementedError

    def give_up(self) -> None:
        self._playing()
        self._over = True

    @property
    def succeeded(self) -> bool:
        """The plan is valid, its score is enough and the budget was kept."""
        return self._over and self._valid and self._exceeded is None and self._score >= self.success_score

    def _grade(self) -> Grade | None:
        good = self._valid and self._score >= self.success_score
        return Grade(float(self._score), bool(good), bool(good)) if self._over else None

    def _episode_seed(self) -> int:
        """Of the episode; -1 where none was given, so that nobody can play it again."""
        return -1 if self._seed is None else self._seed

    def plan_figures(self) -> dict[str, Any]:
        """Score, Quality of Plan and validity; the sample and its size level; the number that drew the sample."""
        return {
            "score": float(self._score),
            "quality_of_plan": float(self._return),
            "plan_valid": bool(self._over and self._valid),
            "sample": self.sample,
            "size_level": self.size_level,
            "draw": self._draw,
        }

    def plan_quality(self) -> float:
        return float(self._return)

    def optimum(self, budget: Budget | None = None) -> Optimum:
        """The best plan for the sample being played, as execution would show it; no plan at all is worth 0."""
        from ...simulators.oracle.optimum import Optimum

        if self._values is None:
            self._values = PlanValues(self.evaluator)
        task, level, limits = self.task, self.size_level, self.budget if budget is None else budget
        plans, worth = plan_space(task.wants).plans, self._values.qualities(task, level)[self.sample]
        for number in np.argsort(-worth, kind="stable").tolist():
            price, seconds = self.evaluator.cost(plans[number], level)
            used = {"price": price, "seconds": seconds, "calls": len(plans[number].nodes)}
            if all(used.get(name, 0.0) <= limit for name, limit in limits.items()):
                quality = float(worth[number])
                good = self.evaluator.score(plans[number], task, self.sample) >= self.success_score
                return Optimum((), (), price, seconds, good, True, max(quality, 0.0), quality)
        return Optimum((), (), 0.0, 0.0, False, True, 0.0, 0.0)

    def chart(self) -> Chart:
        from ..rendering.chart import plan_chart

        return plan_chart(self.account(), self._return)

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

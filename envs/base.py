"""What both views of a tool world share: which episode is played, the cost keys of `info`, rendering."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

import gymnasium as gym
import numpy as np

from ..simulators.errors import ConfigError, EpisodeOver, UnknownName
from ..simulators.ledger import RESOURCES, Budget
from ..simulators.quality import quality_of_plan
from ..simulators.scenario import Scenario, load_scenario, parse_scenario
from ..simulators.tasks import Task
from ..simulators.world import Enforcement, Episode, World
from .recording import WITHOUT_INFLUENCE, ActType, ObsType, Recordable

if TYPE_CHECKING:
    from .rendering.chart import Chart

GRADINGS = ("strict", "judge")
FRAME_HEIGHT = 640
"""Frames of a video must be of one size, whatever was called."""


class ToolEnv(Recordable[ObsType, ActType], Generic[ObsType, ActType]):
    """Base of the marketplace views.

    Args:
        scenario: a name, a YAML file, a mapping of settings, or a `Scenario`.
        data: folder of a ToolBench scenario.
        split: which tasks `reset` draws from.
        budget: limits such as ``{"price": 20}``; None takes the scenario's, ``{}`` means none.
        enforcement: what passing a limit does: "refuse", "terminate" or "record"; None takes the scenario's.
        grading: what counts as success: "strict" (every fact) or "judge".
        cost: the resource that `info["cost"]` reports, for constrained RL.
        max_steps: steps after which an episode is truncated.
        render_mode: "ansi", "rgb_array" or "human".

    Raises:
        CostGymError: a setting makes no sense; says which.
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012
    WORLD_ARGUMENTS = frozenset({"scenario"})

    def __init__(
        self,
        scenario: str | Path | dict[str, Any] | Scenario = "marketplace",
        data: str | None = None,
        split: str = "train",
        budget: dict[str, float] | None = None,
        enforcement: Enforcement | None = None,
        grading: str = "strict",
        cost: str = "price",
        max_steps: int = 64,
        render_mode: str | None = None,
    ) -> None:
        if isinstance(scenario, dict):
            scenario = parse_scenario({"name": "inline", **scenario})
        elif not isinstance(scenario, Scenario):
            scenario = load_scenario(scenario, data)
        if grading not in GRADINGS:
            raise UnknownName("grading", grading, GRADINGS)
        if cost not in RESOURCES:
            raise UnknownName("cost resource", cost, RESOURCES)
        if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
            raise ConfigError("max_steps", f"expected a positive whole number, got {max_steps!r}")
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise UnknownName("render mode", render_mode, self.metadata["render_modes"])
        if enforcement not in (None, "refuse", "terminate", "record"):
            raise UnknownName("enforcement", str(enforcement), ("refuse", "terminate", "record"))
        self.scenario = scenario
        self.world: World = scenario.build()
        self.split, self.grading, self.cost, self.max_steps, self.render_mode = split, grading, cost, max_steps, render_mode
        self.numbers = self.world.tasks.numbers(split)
        self.budget = scenario.limits() if budget is None else Budget.from_mapping(budget)
        self.enforcement: Enforcement = enforcement or scenario.enforcement
        limits = self.budget.as_dict()
        self._limits = tuple(float(limits[name]) if name in limits else None for name in RESOURCES)
        self._cost_index = RESOURCES.index(cost)
        self._spent = (0.0, 0.0, 0, 0)
        self._steps = 0
        self.episode: Episode | None = None
        self._unseeded: int | None = None

    # -- episodes --------------------------------------------------------------------------------------------------------

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> Episode:
        """Start an episode: `seed` keys its chance; `options["task"]` (a number or an id) picks the task, else it is drawn."""
        chosen = (options or {}).get("task")
        if chosen is not None and type(seed) is int and seed >= 0:
            self._unseeded = seed  # nothing is drawn, so seeding the generator waits until something is
            number, episode_seed = self._task_number(chosen), seed
        else:
            self._catch_up()
            super().reset(seed=seed)
            # what integers(1 << 62) draws, in a tenth of its time
            draw = int(super().np_random.bit_generator.random_raw()) >> 2
            number = self.numbers[draw % len(self.numbers)] if chosen is None else self._task_number(chosen)
            episode_seed = draw if seed is None else seed
        budget = self.budget
        self.episode = episode = self.world.episode(number, episode_seed, budget, self.enforcement)
        self._spent = (0.0, 0.0, 0, 0)
        self._steps = 0
        return episode

    def _catch_up(self) -> None:
        """Seed the generator as the last reset asked, with that episode's draw behind it."""
        if self._unseeded is not None:
            seed, self._unseeded = self._unseeded, None
            super().reset(seed=seed)
            super().np_random.integers(1 << 62)

    @property
    def np_random(self) -> np.random.Generator:
        """What draws tasks and seeds where they are not given."""
        self._catch_up()
        return super().np_random

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self._unseeded = None
        gym.Env.np_random.__set__(self, value)  # type: ignore[attr-defined]

    @property
    def np_random_seed(self) -> int:
        """The seed of `np_random`; -1 where the generator itself was given."""
        self._catch_up()
        return super().np_random_seed

    def _task_number(self, chosen: object) -> int:
        tasks = self.world.tasks
        if isinstance(chosen, int | np.integer) and not isinstance(chosen, bool):
            if 0 <= chosen < len(tasks):
                return int(chosen)
            raise ConfigError('options["task"]', f"expected a task number from 0 to {len(tasks) - 1}, got {chosen}")
        for task in tasks:
            if task.id == chosen:
                return int(task.number)
        raise UnknownName("task", str(chosen), (task.id for task in list(tasks)[:200]))

    @property
    def task(self) -> Task:
        """The task being played."""
        return self._playing().task

    def _playing(self) -> Episode:
        if self.episode is None:
            raise EpisodeOver("no episode has begun; call reset() first")
        return self.episode

    # -- figures ---------------------------------------------------------------------------------------------------------

    @property
    def succeeded(self) -> bool:
        """The grade that counts was reached within the budget."""
        episode = self._playing()
        if episode.grade is None or episode.exceeded is not None:
            return False
        return episode.grade.strict if self.grading == "strict" else episode.grade.judged

    def quality(self) -> float:
        """Quality of Plan so far: alpha * performance - (1 - alpha) * price / max_price."""
        performance = 1.0 if self.succeeded else 0.0
        return float(quality_of_plan(performance, self._playing().ledger.price, self.world.alpha, self.world.max_price))

    def _info(self) -> dict[str, Any]:
        """The figures of this step. Same keys always; fresh objects every time."""
        episode = self.episode
        assert episode is not None
        ledger = episode.ledger
        now = episode.clock._now
        last = self._spent
        spent = (ledger.price, now, ledger.tokens, ledger.calls)
        self._spent = spent
        limits = self._limits
        index = self._cost_index
        inf = float("inf")
        return {
            "cost": spent[index] - last[index],
            "cost_price": spent[0] - last[0],
            "cost_seconds": now - last[1],
            "cost_tokens": spent[2] - last[2],
            "cost_calls": spent[3] - last[3],
            "cost_sum": spent[index],
            "budget_remaining_price": inf if limits[0] is None else limits[0] - spent[0],
            "budget_remaining_seconds": inf if limits[1] is None else limits[1] - now,
            "budget_remaining_tokens": inf if limits[2] is None else limits[2] - spent[2],
            "budget_remaining_calls": inf if limits[3] is None else limits[3] - spent[3],
            "at_s": now,
            "is_success": episode.over and self.succeeded,
        }

    # -- records ---------------------------------------------------------------------------------------------------------

    def world_document(self) -> dict[str, Any]:
        return self.scenario.model_dump(mode="json")

    def world_settings(self) -> dict[str, Any]:
        without = self.WORLD_ARGUMENTS | WITHOUT_INFLUENCE
        given = {} if self.spec is None else {name: value for name, value in self.spec.kwargs.items() if name not in without}
        if "data" in given and getattr(self.scenario.source, "data", None) is not None:
            del given["data"]  # the scenario holds it
        return {
            **given,
            "split": self.split,
            "budget": self.budget.as_dict(),
            "enforcement": self.enforcement,
            "grading": self.grading,
            "max_steps": self.max_steps,
        }

    @classmethod
    def world_digest(cls, document: Mapping[str, Any]) -> str:
        return parse_scenario(dict(document), "header").digest

    @classmethod
    def world_arguments(
        cls, document: Mapping[str, Any], settings: Mapping[str, Any], data: str | None = None
    ) -> dict[str, Any]:
        arguments: dict[str, Any] = {**settings, "scenario": document}
        if data is not None and "data" in settings:
            arguments["data"] = data
        elif data is not None:
            arguments["scenario"] = {**document, "source": {**document["source"], "data": data}}
        return arguments

    def account(self) -> Episode:
        return self._playing()

    def give_up(self) -> None:
        if not self._playing().over:
            self._playing().finish("", gave_up=True)

    def chart(self) -> Chart:
        from .rendering.chart import chart_of

        return chart_of(self._playing())

    # -- views -----------------------------------------------------------------------------------------------------------

    def render(self) -> Any:
        """The episode so far: a table of calls as text, or a Gantt chart as an RGB image (height, width, 3)."""
        from .rendering.draw import episode_image, episode_text

        if self.render_mode is None:
            gym.logger.warn("render() needs a render_mode; make the env with render_mode='ansi' or 'rgb_array'")
            return None
        if self.render_mode == "rgb_array":
            return episode_image(self._playing(), height=FRAME_HEIGHT)
        text = episode_text(self._playing())
        if self.render_mode == "human":
            print(text)
            return None
        return text

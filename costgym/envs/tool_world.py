"""The base of the environments over a tool world: choice of the episode, recording, grading and drawing."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, get_args

import numpy as np

from costgym.envs.base import WITHOUT_INFLUENCE, ActType, BaseEnv, Instance, ObsType, no_episode
from costgym.envs.world_spec import WORLD, Document, WorldSpec
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import ConfigError, UnknownName, check_known, check_positive
from costgym.simulators.forge.folder import WorldFolder
from costgym.simulators.ledger import Budget
from costgym.simulators.marketplace.sources import MarketplaceSource
from costgym.simulators.marketplace.tasks import LARGE_SPLIT
from costgym.simulators.marketplace.writing_market import WritingSource
from costgym.simulators.quality import quality_of_plan
from costgym.simulators.scenario import UNSEEN, Scenario, load_scenario, parse_scenario, worlds_of
from costgym.simulators.stress import Stress
from costgym.simulators.tasks import Task
from costgym.simulators.world import Enforcement, Episode, World
from costgym.simulators.world.writes import WriteFigures

if TYPE_CHECKING:
    from costgym.envs.rendering.choice import Choice
    from costgym.simulators.oracle.optimum import Optimum

GRADINGS = ("strict", "judge")
Named = str | Path | dict[str, Any] | Scenario  # a scenario, or what names one


def named_scenario(scenario: Named, data: str | None) -> Scenario:
    """The scenario that an argument names or holds."""
    if isinstance(scenario, dict):
        return parse_scenario({"name": "inline", **scenario})
    return scenario if isinstance(scenario, Scenario) else load_scenario(scenario, data)


def _several(argument: Named | Sequence[Named]) -> tuple[Sequence[Named], Sequence[float]]:
    """Scenarios and their weights, of one, a list, or ``{"any_of": [...], "weights": [...]}``; ConfigError for misfits."""
    weighted: dict[str, Any] = argument if isinstance(argument, dict) and "any_of" in argument else {"any_of": argument}
    chosen: Any = weighted["any_of"]
    several: list[Named] = list(chosen) if isinstance(chosen, list | tuple) else [chosen]
    weights: list[float] = list(weighted.get("weights") or [1.0] * len(several))
    if not several or len(weights) != len(several) or min(weights) < 0 or sum(weights) <= 0:
        raise ConfigError(
            "scenario", f"expected at least one scenario, and a weight for each, got {len(several)} and {weights}"
        )
    return several, weights


@dataclass(frozen=True, kw_only=True)
class ToolSettings:
    """Arguments that all environments over a tool world have; `ToolEnv` describes them."""

    scenario: Named | Sequence[Named] = field(default="marketplace", kw_only=False)
    data: str | None = None
    split: str = "train"
    budget: dict[str, float] | str | float | None = None
    enforcement: Enforcement | None = None
    grading: str = "strict"
    cost: str = "price"
    max_steps: int = 64
    render_mode: str | None = None


class ToolWorld(WorldSpec):
    """The document of a scenario."""

    arguments_of_world = frozenset({"scenario"})

    @property
    def version(self) -> Any:
        source = self.document.get("source")
        return source.get("world", 0) if isinstance(source, Mapping) else 0

    def digest_under(self, schema: int) -> str:
        return parse_scenario(dict(self.document), "header").digest_under(schema)

    def summary(self) -> dict[str, Any]:
        return {**{name: self.document[name] for name in ("name", "description", "currency")}, **self.stated_version}

    def arguments(self, settings: Document, data: str | None = None) -> dict[str, Any]:
        arguments: dict[str, Any] = {**settings, "scenario": self.document}
        if data is not None and "data" in settings:
            arguments["data"] = data
        elif data is not None:
            arguments["scenario"] = {**self.document, "source": {**self.document["source"], "data": data}}
        return arguments

    def another(self, settings: Document, seed: int) -> Self | None:
        scenario = parse_scenario(dict(self.document), "header")
        if settings.get("data") is not None or not isinstance(scenario.source, MarketplaceSource | WritingSource):
            return None
        return type(self)(scenario.model_copy(update={"seed": seed}).model_dump(mode="json"))

    @property
    def seed(self) -> int:
        return int(self.document["seed"])

    def varied(self, settings: Document) -> tuple[Self, dict[str, Any]]:
        stress = {name: factor for name, factor in settings.items() if name in Stress.model_fields}
        rest = {name: value for name, value in settings.items() if name not in stress and name not in (WORLD, "scenario")}
        world = self.numbered(settings.get(WORLD) or 0)
        if not stress:
            return world, rest
        whole = Stress.model_validate({**(world.document.get("stress") or {}), **stress})
        return type(self)({**world.document, "stress": whole.model_dump(mode="json")}), rest


class ToolEnv(BaseEnv[ObsType, ActType], Generic[ObsType, ActType]):
    """Base of the environments over a tool world: `Marketplace-v0`, `MarketplaceChat-v0` and `DecisionAware-v0`.

    ## Arguments

    | argument | meaning |
    | --- | --- |
    | `scenario` | The world: a name of `costgym scenarios`, a YAML file, a mapping, a `Scenario`, or a list of these. |
    | `data` | The folder that a scenario of kind `toolbench`, `mgtoolbench` or `tooldeer` reads. |
    | `split` | Tasks that `reset` draws from: `"train"`, `"test"`; of generated worlds also `"train-large"`, `"unseen"`. |
    | `budget` | Limits: `{"price": 20}`, `"price=20"` or `20`. `None` takes the scenario's limits, `{}` means no limits. |
    | `enforcement` | What a limit does: `"terminate"`, `"refuse"` or `"record"`. `None` takes the scenario's choice. |
    | `grading` | What counts as success: `"strict"` (every fact) or `"judge"` (a simulated lenient judge). |
    | `cost` | The resource reported as `info["cost"]`: `"price"`, `"seconds"`, `"tokens"` or `"calls"`. |
    | `max_steps` | The number of steps after which an episode is truncated. |
    | `render_mode` | `"ansi"` gives calls, budget, choice as text, which `"human"` prints; `"rgb_array"`, `"svg"` draw them. |

    `"train-large"` has 20,000 tasks, those of `"train"` among them, which are made when they are drawn. The tools, tasks and
    facts of `"unseen"` are in no other split. Of a list of scenarios every episode draws one from its seed; `{"any_of": [...],
    "weights": [...]}` says how often each, and `reset(options={"scenario": name})` names it. Of a folder of worlds that
    `costgym forge` wrote, such as `"worlds/train"`, every episode draws one likewise, and the option is a world's number.

    A setting that makes no sense raises a `CostGymError` that names it.

    ## Information

    | key | type | meaning |
    | --- | --- | --- |
    | `cost_price` | float | Money charged in this step, in the scenario's currency. |
    | `at_s` | float | Simulated seconds since the episode began. |
    | `is_success` | bool | The episode has ended, its grade is a pass, and no limit was passed. |

    In a world with writes also, for the present state as if it were the final one:

    | key | type | meaning |
    | --- | --- | --- |
    | `state_correct` | bool | Every wanted effect is there once, and no other is. |
    | `duplicates` | int | Effects that were made although the same was there already, taken back or not. |
    | `uncompensated` | int | Effects that nobody wants: second ones of the same, and wrong ones. |
    | `money_lost` | float | What those are worth, in the scenario's currency. |
    """

    world: World
    world_class: type[WorldSpec] = ToolWorld
    episode_state: tuple[str, ...] = ("episode",)
    world_kind = "tools"
    can_search = False
    reset_options = frozenset({"task", "scenario"})
    _world_index: int | None = None
    """The index of the present scenario among several; None for another."""
    gradings = GRADINGS

    def _configure(self, settings: ToolSettings) -> None:
        """Check the arguments, and enter the first scenario."""
        self.scenarios: Sequence[Scenario]
        self._edges: Sequence[float]
        several, weights = _several(settings.scenario)
        self.scenarios = tuple(named_scenario(scenario, settings.data).in_world(*self.worlds) for scenario in several)
        self._edges = list(accumulate(weights))
        self._whole = self.scenarios[0]
        if len(several) == 1 and (worlds := worlds_of(self._whole)) is not None:
            self.scenarios, self._edges = worlds, range(1, len(worlds) + 1)
        check_known("grading", settings.grading, GRADINGS)
        check_positive("max_steps", settings.max_steps)
        if settings.enforcement is not None:
            check_known("enforcement", settings.enforcement, get_args(Enforcement))
        self.split, self._given_budget, self._given_enforcement = settings.split, settings.budget, settings.enforcement
        self.grading, self.max_steps = settings.grading, settings.max_steps
        self._enter_world(0)
        self._set_up(settings.split, self.budget, settings.cost, settings.render_mode)
        self._steps = 0
        self._price = 0.0
        self.episode: Episode | None = None

    @property
    def world_version(self) -> int:
        return self.scenario.world

    def choice(self) -> "Choice | None":
        from costgym.envs.rendering.choice import facts_choice

        return facts_choice(self._playing())

    # -- worlds ----------------------------------------------------------------------------------------------------------

    def _enter(self, scenario: Scenario) -> None:
        """Let the next episodes be played in a scenario's world."""
        unseen = self.split == UNSEEN
        self.scenario = scenario
        self.world = (scenario.unseen() if unseen else scenario).build()
        try:
            self.numbers = self.world.tasks.numbers("test" if unseen else self.split)
        except UnknownName:
            generated = isinstance(scenario.source, MarketplaceSource)
            known = (*self.world.tasks.splits, *((LARGE_SPLIT, UNSEEN) if generated else ()))
            raise UnknownName("split", str(self.split), known) from None
        self.budget = scenario.limits() if self._given_budget is None else Budget.one(self._given_budget, "budget")
        self.enforcement: Enforcement = self._given_enforcement or scenario.enforcement
        self._loss = (1.0 - self.world.alpha) / self.world.max_price

    def _scenario_index(self, chosen: Named | int) -> int | None:
        """The index of the scenario that a reset names, by its number in a folder or its name; None for any other."""
        if not isinstance(self.scenarios, WorldFolder):
            return next((index for index, scenario in enumerate(self.scenarios) if scenario.name == chosen), None)
        if not isinstance(chosen, int | np.integer) or isinstance(chosen, bool):
            return None
        if not 0 <= chosen < len(self.scenarios):
            raise UnknownName("world", str(chosen), [f"0 to {len(self.scenarios) - 1}"])
        return int(chosen)

    def _drawn_world(self, seed: int) -> int:
        """The index of the scenario that an episode's seed draws."""
        # from the seed and not from the generator: a replay knows the scenario from the seed alone
        return bisect_right(self._edges, stable_integer(seed, "scenario") / 2**64 * self._edges[-1])

    def _enter_world(self, index: int) -> None:
        """Enter one of the scenarios."""
        # looking up a world takes long, and most resets stay in the one that was played before
        if index != self._world_index:
            self._enter(self.scenarios[index])
            self._world_index = index

    def _enter_chosen(self, seed: int, chosen: Named | int | None) -> None:
        """Enter the scenario that a reset names, or the one that the episode's seed draws where there are several."""
        if chosen is None:
            self._enter_world(self._drawn_world(seed) if len(self.scenarios) > 1 else 0)
        elif (index := self._scenario_index(chosen)) is not None:
            self._enter_world(index)
        else:
            self._enter(named_scenario(chosen, None).in_world(*self.worlds))  # type: ignore[arg-type]
            self._world_index = None
        self._set_limits(self.budget)

    def _most_candidates(self) -> int:
        """The largest number of tools that a task of any scenario has on offer."""
        if isinstance(self.scenarios, WorldFolder):
            return self.scenarios.most_candidates
        return max(scenario.build().tasks.most_candidates for scenario in self.scenarios)

    # -- episodes --------------------------------------------------------------------------------------------------------

    def _choose(self, seed: int | None, options: dict[str, Any] | None) -> tuple[int, int]:
        """The number and seed of the next task; `options["task"]`, a number or an id, fixes the task."""
        if options:
            self._check_options(options)
        chosen = options.get("task") if options else None
        if seed is not None:
            super().reset(seed=seed)
        # drawn even where task and seed are given, so that later resets do not depend on whether they were
        draw = self._draw_number()
        episode_seed = draw if seed is None else seed
        if len(self.scenarios) > 1 or options or self._world_index is None:
            self._enter_chosen(episode_seed, (options or {}).get("scenario"))
        number = self.numbers[draw % len(self.numbers)] if chosen is None else self._task_number(chosen)
        return number, episode_seed

    def _start(self, number: int, seed: int) -> Episode:
        """Start an episode of a task."""
        self.episode = episode = self.world.episode(number, seed, self.budget, self.enforcement)
        self._spent = (0.0, 0.0, 0, 0)
        self._steps = 0
        self._price = 0.0
        return episode

    def _task_number(self, chosen: object) -> int:
        tasks = self.world.tasks
        if isinstance(chosen, int | np.integer) and not isinstance(chosen, bool):
            if tasks.has(int(chosen)):
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
            raise no_episode()
        return self.episode

    def _redraw(self, seed: int) -> None:
        if self.episode is not None:
            self.episode.redraw(seed)

    # -- figures ---------------------------------------------------------------------------------------------------------

    @property
    def succeeded(self) -> bool:
        """Return whether the episode is a success: its grade is a pass and no limit was passed."""
        episode = self._playing()
        if episode.grade is None or episode.exceeded is not None:
            return False
        return episode.grade.strict if self.grading == "strict" else episode.grade.judged

    def quality(self) -> float:
        """Quality of Plan so far: alpha * performance - (1 - alpha) * price / max_price."""
        performance = 1.0 if self.succeeded else 0.0
        return float(quality_of_plan(performance, self._playing().ledger.price, self.world.alpha, self.world.max_price))

    def _outcome(self, episode: Episode) -> tuple[float, bool, bool]:
        """The reward of the last step, whether the episode is over, and whether it is truncated.

        The reward is alpha * success - (1 - alpha) * price / max_price, each part when it occurs, so the return is the Quality
        of Plan.
        """
        price = episode.ledger.price
        # charged when it is spent, so that a policy sees the cost of a call in the step that caused it
        reward = -self._loss * (price - self._price)
        self._price = price
        over = episode.over
        if over and self.succeeded:
            reward += self.world.alpha
        return reward, over, not over and self._steps >= self.max_steps

    def optimum(self, budget: Budget | None = None) -> "Optimum":
        """The best plan under the episode's realised luck; see `simulators.oracle.optimum`."""
        from costgym.simulators.oracle.optimum import optimum

        episode = self._playing()
        limits = self.budget if budget is None else budget
        return optimum(self.world, episode.number, episode.seed, limits, self.grading, searching=self.can_search)

    def _info(self) -> dict[str, Any]:
        """The `info` of this step. Its keys are always the same, and its objects are new."""
        episode = self.episode
        assert episode is not None
        ledger = episode.ledger
        now = episode.now_s
        info = self._cost_info((ledger.price, now, ledger.tokens, ledger.calls))
        info["at_s"] = now
        info["is_success"] = episode.over and self.succeeded
        if episode.store is not None:
            info |= episode.write_figures()._asdict()
        return info

    def visible_info(self, info: dict[str, Any]) -> dict[str, Any]:
        """Return `info` without the final state, which an agent has to find out."""
        if not self.world.writes:
            return info
        return {name: value for name, value in info.items() if name not in WriteFigures._fields}

    def figures(self) -> dict[str, Any]:
        """In a world with writes, the figures of the final state."""
        figures, episode = super().figures(), self.episode
        return figures if episode is None or episode.store is None else {**figures, **episode.write_figures()._asdict()}

    # -- records ---------------------------------------------------------------------------------------------------------

    def world_spec(self) -> WorldSpec:
        if len(self.scenarios) > 1 and not isinstance(self.scenarios, WorldFolder):
            raise ConfigError("scenario", "episodes over several scenarios cannot be recorded; record each scenario by itself")
        return self.world_class(self._whole.model_dump(mode="json"))

    def world_settings(self) -> dict[str, Any]:
        without = ToolWorld.arguments_of_world | WITHOUT_INFLUENCE
        arguments = (
            {} if self.spec is None else {name: value for name, value in self.spec.kwargs.items() if name not in without}
        )
        if "data" in arguments and getattr(self.scenario.source, "data", None) is not None:
            del arguments["data"]  # the scenario holds it
        of_each = isinstance(self.scenarios, WorldFolder)  # each world of a folder has its own, where none was given
        return {
            **arguments,
            "split": self.split,
            "budget": None if of_each and self._given_budget is None else self.budget.as_dict(),
            "enforcement": self._given_enforcement if of_each else self.enforcement,
            "grading": self.grading,
            "max_steps": self.max_steps,
        }

    def instance(self, index: int, seed: int) -> Instance:
        instance = super().instance(index, seed)
        if isinstance(self.scenarios, WorldFolder):  # the worlds in turn, so that a run meets as many as it can
            return instance._replace(options={"scenario": index % len(self.scenarios)})
        # of a list, the seed alone draws the scenario
        return instance if len(self.scenarios) == 1 else instance._replace(seed=seed + index)

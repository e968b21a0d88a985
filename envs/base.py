"""The base of every costgym environment: arguments, costs in `info`, budgets, rendering, and what records of episodes need.

An episode is named by a task's number, a seed and further options of the reset: ``reset(seed=seed, options={"task": number})``
and the same actions bring it back to the last bit. The world itself goes into records whole, as a JSON document with a digest;
where it is too large for that, by the digest of what was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import gymnasium as gym

from ..simulators.draws import stable_integer
from ..simulators.episode_view import EpisodeView
from ..simulators.errors import ConfigError, EpisodeOver, UnknownName
from ..simulators.ledger import RESOURCES, Budget

if TYPE_CHECKING:
    from ..simulators.oracle.optimum import Optimum
    from .rendering.chart import Chart
    from .rendering.story import Told

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")
RENDER_MODES = ("human", "ansi", "rgb_array")
FRAME_HEIGHT = 640  # pixels; frames of a video must be of one size, whatever was called
WITHOUT_INFLUENCE = frozenset({"cost", "render_mode", "disable_env_checker"})
"""Arguments of an environment that no episode depends on."""
FILE_PLACES = frozenset({"data", "outcomes"})
"""Arguments that say where files lie; a digest vouches for what is in them."""
NO_OPTIONS: Mapping[str, Any] = {}


class Instance(NamedTuple):
    """What a run plays at one index: a task in a world.

    Attributes:
        number: of the task, as `options["task"]` of a reset names it.
        seed: of the world's chance.
        options: further options of the reset, as JSON.
    """

    number: int
    seed: int
    options: Mapping[str, Any] = NO_OPTIONS


class BaseEnv(gym.Env[ObsType, ActType], Generic[ObsType, ActType]):
    """Base of the environments.

    Attributes:
        numbers: of the split's tasks; runs play them in turn.
        split, budget: as the environment was made.
        grading: what counts as success.
        cost: the resource that `info["cost"]` reports.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 4}  # noqa: RUF012
    numbers: Sequence[int]
    split: str
    budget: Budget
    grading: str = "strict"
    cost: str
    world_kind: str
    """Environments of one kind are views of the same worlds."""
    gradings: tuple[str, ...] = ()
    """What may count as success; empty where there is no choice."""
    WORLD_ARGUMENTS: frozenset[str]
    """Arguments that say which world it is; records hold the world's document instead."""
    reset_options: frozenset[str] = frozenset({"task"})
    """Names that `options` of a reset may have."""
    calls_by_name = False
    """Actions call the task's tools by their names, with arguments, so protocols of tool calls can carry them."""
    in_time = True
    """Actions are taken while tools run; otherwise a plan is written first, and then runs."""

    def _set_up(self, split: str, budget: Budget, cost: str, render_mode: str | None) -> None:
        """Check and keep the arguments that all environments have."""
        if cost not in RESOURCES:
            raise UnknownName("cost resource", cost, RESOURCES)
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise UnknownName("render mode", render_mode, RENDER_MODES)
        self.split, self.budget, self.cost, self.render_mode = split, budget, cost, render_mode
        limits = budget.as_dict()
        self._limits = tuple(float(limits[name]) if name in limits else None for name in RESOURCES)
        self._cost_index = RESOURCES.index(cost)
        self._spent: tuple[float, float, int, int] = (0.0, 0.0, 0, 0)

    def _check_options(self, options: Mapping[str, Any] | None) -> None:
        """Refuse options that no reset of this environment knows."""
        for name in options or ():
            if name not in self.reset_options:
                raise UnknownName("option of reset", name, sorted(self.reset_options))

    # -- figures -----------------------------------------------------------------------------------------------------------

    def _cost_info(self, spent: tuple[float, float, int, int]) -> dict[str, Any]:
        """The cost keys of this step's `info`: what the step cost, what the episode cost, and what is left of each limit.

        Args:
            spent: price, seconds, tokens and calls of the episode so far.
        """
        last, self._spent = self._spent, spent
        price, seconds, tokens, calls = self._limits
        index = self._cost_index
        inf = float("inf")
        return {
            "cost": spent[index] - last[index],
            "cost_price": spent[0] - last[0],
            "cost_seconds": spent[1] - last[1],
            "cost_tokens": spent[2] - last[2],
            "cost_calls": spent[3] - last[3],
            "cost_sum": spent[index],
            "budget_remaining_price": inf if price is None else price - spent[0],
            "budget_remaining_seconds": inf if seconds is None else seconds - spent[1],
            "budget_remaining_tokens": inf if tokens is None else tokens - spent[2],
            "budget_remaining_calls": inf if calls is None else calls - spent[3],
        }

    # -- the world ---------------------------------------------------------------------------------------------------------

    def world_document(self) -> dict[str, Any]:
        """The world, as JSON; its `name` says which it is.

        Raises:
            ConfigError: the world was made of something that no document can hold.
        """
        raise NotImplementedError

    def world_settings(self) -> dict[str, Any]:
        """The environment's other arguments that an episode depends on, as JSON."""
        raise NotImplementedError

    @classmethod
    def world_digest(cls, document: Mapping[str, Any]) -> str:
        """The short name of a world.

        Raises:
            CostGymError: the document describes no world of this environment.
        """
        raise NotImplementedError

    @classmethod
    def world_summary(cls, document: Mapping[str, Any]) -> dict[str, Any]:
        """What a leaderboard says of a world: `name`, `description`, `currency`, and what else is worth saying."""
        raise NotImplementedError

    @classmethod
    def world_arguments(
        cls, document: Mapping[str, Any], settings: Mapping[str, Any], data: str | None = None
    ) -> dict[str, Any]:
        """All that the environment is made from, as JSON.

        Args:
            document, settings: of the world, as they were recorded.
            data: where the files that the world is read from lie now.
        """
        raise NotImplementedError

    def check_world(self, document: Mapping[str, Any]) -> None:
        """Check that what this environment read is what a record was made with.

        Raises:
            DataError: it is not.
        """
        del document

    # -- what a run plays --------------------------------------------------------------------------------------------------

    def instance(self, index: int, seed: int) -> Instance:
        """The task and the world at an index of a run: the split's tasks in turn, each round of them with the next seed."""
        count = len(self.numbers)
        return Instance(self.numbers[index % count], seed + index // count)

    @property
    def instances(self) -> int | None:
        """How many instances a whole run has; None where every further round brings new ones."""
        return None

    def agent_seed(self, seed: int) -> int:
        """The seed of an agent's own chance in the episode that has begun, by default."""
        return stable_integer(seed, "agent", self.account().number) >> 1

    # -- the episode -------------------------------------------------------------------------------------------------------

    def opening(self) -> dict[str, Any]:
        """What a client learns once, when an episode begins, besides the observation; as JSON."""
        return {}

    def account(self) -> EpisodeView:
        """The episode being played, as it stands.

        Raises:
            EpisodeOver: none has begun.
        """
        raise NotImplementedError

    def give_up(self) -> None:
        """End an episode that was cut off by its step limit; does nothing to one that has ended."""
        raise NotImplementedError

    @property
    def succeeded(self) -> bool:
        """The grade that counts was reached within the budget."""
        raise NotImplementedError

    def quality(self) -> float:
        """Quality of Plan so far."""
        raise NotImplementedError

    def figures(self) -> dict[str, Any]:
        """What a record's `final` holds beside the ledger and the grade, as JSON: the figures that only this world has."""
        return {}

    def optimum(self, budget: Budget | None = None) -> Optimum:
        """The best that can be done in the episode being played.

        Args:
            budget: what may be spent; None for the environment's.
        """
        raise NotImplementedError

    # -- views -------------------------------------------------------------------------------------------------------------

    def chart(self) -> Chart:
        """The episode being played as a Gantt chart, in data."""
        raise NotImplementedError

    def action_text(self, action: ActType) -> str:
        """What an action does, in words."""
        raise NotImplementedError

    def describe_episode(self, steps: Sequence[Any]) -> Told:
        """The parts of the episode's story that differ between worlds.

        Args:
            steps: what was done and seen (`experiments.trajectories.format.Step`), the reset first.
        """
        raise NotImplementedError

    def render(self) -> Any:
        """The episode so far: a table of calls as text, or a Gantt chart as an RGB image (height, width, 3)."""
        if self.render_mode is None:
            gym.logger.warn("render() needs a render_mode; make the env with render_mode='ansi' or 'rgb_array'")
            return None
        from .rendering.draw import chart_picture, episode_table

        if self.render_mode == "rgb_array":
            return chart_picture(self.chart(), height=FRAME_HEIGHT)
        text = episode_table(self.account(), self.chart().verdict)
        if self.render_mode == "human":
            print(text)
            return None
        return text


def no_episode() -> EpisodeOver:
    """The error of whoever asks for an episode before the first reset."""
    return EpisodeOver("no episode has begun; call reset() first")


def base_env(env: gym.Env[Any, Any]) -> BaseEnv[Any, Any]:
    """The environment of costgym under its wrappers.

    Raises:
        ConfigError: there is none.
    """
    world = env.unwrapped
    if not isinstance(world, BaseEnv):
        raise ConfigError("env", f"expected an environment of costgym, got {type(world).__name__}")
    return world

"""The base of every costgym environment: arguments, costs in `info`, budgets, rendering and recording.

An episode is identified by a task's number, a seed and further options of the reset: ``reset(seed=seed, options={"task":
number})`` and the same actions reproduce it bit for bit. Records hold the world as a JSON document with a digest, or, if it is
too large for that, the digest of the files it was read from.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from functools import wraps
from math import inf
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NamedTuple, ParamSpec, Self, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from costgym.envs.world_spec import WorldSpec
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import ConfigError, CostGymError, DataError, EpisodeOver, check_known
from costgym.simulators.ledger import RESOURCES, Budget
from costgym.simulators.world.episode import Episode

if TYPE_CHECKING:
    from costgym.envs.rendering.chart import Chart
    from costgym.envs.rendering.choice import Choice, Picture
    from costgym.envs.rendering.story import EpisodeStory
    from costgym.envs.seats import Seat
    from costgym.simulators.opencatp.scoring.table import OutcomeTable
    from costgym.simulators.oracle.optimum import Optimum
    from costgym.simulators.world import World

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")
P = ParamSpec("P")
S = TypeVar("S")
RENDER_MODES = ("human", "ansi", "rgb_array", "svg")
FRAME_HEIGHT = 640  # pixels; frames of a video must be of one size, whatever was called
WITHOUT_INFLUENCE = frozenset({"cost", "render_mode", "disable_env_checker", "compiled"})
"""Arguments of an environment that do not change its episodes."""
FILE_PLACES = frozenset({"data", "outcomes"})  # arguments that hold paths of files; records hold a digest of their content
NO_OPTIONS: Mapping[str, Any] = {}


def columns(env: gym.Env[Any, Any]) -> dict[str, dict[str, int]]:
    """The columns of an environment's observation by name, so that no program needs their numbers.

    Args:
        env: an environment of `costgym.make`, wrapped or not. The environments of a vector have its columns.

    Returns:
        For each array of the observation, the index in its last axis for each name. Arrays without named columns, such as an
        embedding, are left out; environments that observe text have none.

    >>> import costgym
    >>> columns(costgym.make("costgym/Marketplace-v0"))["needs"]
    {'wanted': 0, 'known': 1, 'ready': 2}
    """
    names: Mapping[str, Sequence[str]] = env.get_wrapper_attr("column_names")
    arrays = getattr(env.unwrapped.observation_space, "spaces", {})
    return {array: {name: index for index, name in enumerate(names[array])} for array in arrays if array in names}


class Instance(NamedTuple):
    """An episode of a run before it is played: a task in a world."""

    number: int  # number of the task, for `options["task"]` of a reset
    seed: int
    options: Mapping[str, Any] = NO_OPTIONS  # further options of the reset, as JSON


def takes(settings: Callable[P, S]) -> Callable[[Callable[[Any, S], None]], Callable[Concatenate[Any, P], None]]:
    """Let a constructor take the fields of a dataclass as its arguments, so that signature, help and editors show each of them;
    the decorated function is given the dataclass."""

    def decorate(set_up: Callable[[Any, S], None]) -> Callable[Concatenate[Any, P], None]:
        @wraps(set_up)
        def construct(self: Any, /, *args: P.args, **fields_given: P.kwargs) -> None:
            set_up(self, settings(*args, **fields_given))

        fields = inspect.signature(settings).parameters.values()
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        construct.settings = settings  # type: ignore[attr-defined]
        construct.__signature__ = inspect.Signature([itself, *fields])  # type: ignore[attr-defined]
        return construct

    return decorate


class LimitedSpec:
    """Part of an environment whose specification tells its own step limit."""

    _spec: EnvSpec | None = None

    @property
    def step_limit(self) -> int | None:
        """Steps after which an episode is truncated; None where none ever is."""
        return getattr(self, "max_steps", None)

    @property
    def spec(self) -> EnvSpec | None:
        """The specification from which the environment was made; `max_episode_steps` is its step limit."""
        return self._spec

    @spec.setter
    def spec(self, value: EnvSpec | None) -> None:
        self._spec = with_step_limit(value, self.step_limit)


class BaseEnv(LimitedSpec, gym.Env[ObsType, ActType], Generic[ObsType, ActType]):
    """Base of the environments.

    ## Information

    | key | type | meaning |
    | --- | --- | --- |
    | `cost` | float or int | What this step used of the resource chosen by the argument `cost`. |
    | `cost_price` | float | Money charged in this step. |
    | `cost_seconds` | float | Simulated seconds that passed in this step. |
    | `cost_tokens` | int | Tokens charged in this step, input and output. |
    | `cost_calls` | int | Executed tool calls that ended in this step. |
    | `cost_sum` | float or int | The sum of `cost` since the episode began. |
    | `budget_remaining_price` | float | Money left; negative once overspent, infinite without a limit. |
    | `budget_remaining_seconds` | float | Simulated seconds left, likewise. |
    | `budget_remaining_tokens` | float | Tokens left, likewise. |
    | `budget_remaining_calls` | float | Executed calls left, likewise. |
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 4}  # noqa: RUF012
    numbers: Sequence[int]  # numbers of the split's tasks, in the order in which runs play them
    split: str  # name of the split
    budget: Budget  # limits of the episode
    grading: str = "strict"  # grade that counts as success, ``strict`` or ``judge``
    cost: str  # resource that `info["cost"]` reports
    world: World | None = None  # the world of tools and tasks that episodes are played in; None where the tools are OpenCATP's
    world_kind: str  # environments of one kind are views of the same worlds
    gradings: tuple[str, ...] = ()  # what may count as success; empty where there is no choice
    worlds: tuple[int, ...] = (0,)  # versions of the world that the id plays, see `simulators.bounds.WORLDS`
    world_class: type[WorldSpec]  # of `world_spec()`
    reset_options: frozenset[str] = frozenset({"task"})  # names that `options` of a reset may have
    episode_state: tuple[str, ...] = ()
    """Attributes that an episode changes in place. A fork copies them, and shares the world and everything else."""
    mask_type: type[np.bool_ | np.int8] = np.bool_  # of `info["action_mask"]`; Gymnasium's `sample(mask)` takes int8
    calls_by_name = False
    """Actions call the task's tools by their names, with arguments, so protocols of tool calls can carry them."""
    column_names: Mapping[str, Sequence[str]] = {}  # names of the last axis of the observation's arrays; see `columns`
    computes_limits = False
    """Without a budget an episode has limits of its own, which are computed; the attribute `budget` holds what was given."""
    in_time = True  # actions are taken while tools run; otherwise a plan is written first, and then runs

    def _set_up(self, split: str, budget: Budget, cost: str, render_mode: str | None) -> None:
        """Check and store the arguments that all environments share."""
        check_known("cost resource", cost, RESOURCES)
        if render_mode is not None:
            check_known("render mode", render_mode, RENDER_MODES)
        self.split, self.cost, self.render_mode = split, cost, render_mode
        self._set_limits(budget)
        self._cost_index = RESOURCES.index(cost)
        self._spent: tuple[float, float, int, int] = (0.0, 0.0, 0, 0)

    def _set_limits(self, budget: Budget) -> None:
        limits = budget.as_dict()
        self.budget = budget
        self._limits = tuple(float(limits[name]) if name in limits else None for name in RESOURCES)
        self._ceilings = tuple(inf if limit is None else limit for limit in self._limits)

    def _check_options(self, options: Mapping[str, Any] | None) -> None:
        """Raise an error for reset options that this environment does not have."""
        for name in options or ():
            check_known("option of reset", name, self.reset_options)

    # -- figures -----------------------------------------------------------------------------------------------------------

    def _cost_info(self, spent: tuple[float, float, int, int]) -> dict[str, Any]:
        """The cost keys of `info`, for `spent` so far: price, seconds, tokens and calls."""
        last, self._spent = self._spent, spent
        price, seconds, tokens, calls = self._ceilings
        index = self._cost_index
        return {
            "cost": spent[index] - last[index],
            "cost_price": spent[0] - last[0],
            "cost_seconds": spent[1] - last[1],
            "cost_tokens": spent[2] - last[2],
            "cost_calls": spent[3] - last[3],
            "cost_sum": spent[index],
            "budget_remaining_price": price - spent[0],
            "budget_remaining_seconds": seconds - spent[1],
            "budget_remaining_tokens": tokens - spent[2],
            "budget_remaining_calls": calls - spent[3],
        }

    # -- the world ---------------------------------------------------------------------------------------------------------

    def world_spec(self) -> WorldSpec:
        """The world as records name it; raises ConfigError where JSON cannot hold it."""
        raise NotImplementedError

    def world_settings(self) -> dict[str, Any]:
        """The other arguments that change episodes, as JSON."""
        raise NotImplementedError

    @property
    def world_version(self) -> int:
        """The version of the world that is played."""
        return self.worlds[0]

    def check_world(self, document: Mapping[str, Any]) -> None:
        """Check that this environment plays the version of the world and read the data of the one that made a record; raises
        DataError where not."""
        if (recorded := self.world_class(document).version) not in self.worlds:
            wanted = " or ".join(map(str, self.worlds))
            raise DataError("header", f"expected version {wanted} of the world, got {recorded}", "scenario")

    # -- what a run plays --------------------------------------------------------------------------------------------------

    def _draw_number(self) -> int:
        """Draw the number that gives an episode its task and its seed: what ``np_random.integers(1 << 62)`` draws."""
        # read off the generator, so that a compiled reset takes 4.9 instead of 5.7 microseconds
        return int(self.np_random.bit_generator.random_raw()) >> 2

    def instance(self, index: int, seed: int) -> Instance:
        """The task and seed at an index of a run: the split's tasks in turn, with the next seed in each round."""
        count = len(self.numbers)
        return Instance(self.numbers[index % count], seed + index // count)

    @property
    def instances(self) -> int | None:
        """The number of instances of a whole run, or None if every round brings new ones."""
        return None

    def agent_seed(self, seed: int) -> int:
        """The default seed of an agent's own randomness in the present episode."""
        return stable_integer(seed, "agent", self.account().number) >> 1

    # -- the episode -------------------------------------------------------------------------------------------------------

    def opening(self) -> dict[str, Any]:
        """Return, as JSON, what a client learns once besides the observation, when an episode begins."""
        return {}

    def seat(self, env_id: str, examples: int = 0) -> Seat:
        """What an agent may know in this episode besides observations and `info`.

        `examples` past decisions come along where one decides whether a query needs a tool. Raises ConfigError where no agent
        can sit.
        """
        raise ConfigError("env", f"no agent has a seat in {type(self).__name__}")

    def seat_parts(self, env_id: str) -> dict[str, Any]:
        """Return the parts that every seat holds."""
        return {
            "env_id": env_id,
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "budget": self.budget.as_dict(),
        }

    def visible_info(self, info: dict[str, Any]) -> dict[str, Any]:
        """Return the part of an `info` that an agent is told."""
        return info

    def account(self) -> Episode:
        """The present episode: task, calls, ledger, clock and grade; raises EpisodeOver where none has begun."""
        return self._playing()  # type: ignore[no-any-return]

    def _playing(self) -> Any:
        """Return the episode in play; raises EpisodeOver before the first reset."""
        raise NotImplementedError

    def give_up(self) -> None:
        """End an episode that reached its step limit; an episode that has ended is left unchanged."""
        if not (episode := self._playing()).over:
            episode.finish("", gave_up=True)

    @property
    def succeeded(self) -> bool:
        """Return whether the episode is a success: its grade is a pass and no limit was passed."""
        raise NotImplementedError

    def quality(self) -> float:
        """Quality of Plan so far."""
        raise NotImplementedError

    def figures(self) -> dict[str, Any]:
        """The figures of a record's `final` that only this world has, as JSON; the ledger and the grade are not among them."""
        return {}

    def outcome_table(self) -> OutcomeTable | None:
        """The table that tells what the tools make of images; None for a world without images, or one that runs its tools."""
        return None

    def optimum(self, budget: Budget | None = None) -> Optimum:
        """The optimum of the present episode under `budget`, or the environment's own limits where that is None."""
        raise NotImplementedError

    # -- forks ------------------------------------------------------------------------------------------------------------

    def fork(self, seed: int | None = None) -> Self:
        """An independent copy in the middle of the same episode, for planning; it shares the immutable world.

        Args:
            seed: None shares the future: what follows is the same in both for the same actions, and in later episodes too, so a
                search over such forks knows the episode's luck. A number keeps the past and draws the future again, which
                honest planning needs; see `Episode.redraw`. `copy.deepcopy` shares the future.
        """
        twin = copy(self)
        # a shallow copy shares everything; only what an episode changes in place is copied, or a fork would cost a world
        for name in self.episode_state:
            value = self.__dict__.get(name)
            if value is not None:
                twin.__dict__[name] = value.fork() if hasattr(value, "fork") else value.copy()
        twin._np_random = deepcopy(self._np_random)
        twin.action_space = deepcopy(self.action_space)
        if seed is not None:
            twin._np_random = np.random.Generator(np.random.Philox(seed))
            twin._redraw(seed)
        return twin

    def _redraw(self, seed: int) -> None:
        """Draw again what has not happened in the present episode; nothing to do where there is no chance."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.fork()

    # -- views -------------------------------------------------------------------------------------------------------------

    def chart(self) -> Chart:
        """The data of a Gantt chart of the present episode."""
        from costgym.envs.rendering.chart import chart_of

        return chart_of(self._playing())

    def action_text(self, action: ActType) -> str:
        """A description of an action, such as ``wait``."""
        raise NotImplementedError

    def describe_episode(self, steps: Sequence[Any]) -> EpisodeStory:
        """The parts of the episode's story that differ between worlds."""
        from costgym.envs.rendering.story import tool_story

        return tool_story(self._playing(), steps)

    def choice(self) -> Choice | None:
        """What the agent can do next; None where the episode is over."""
        return None

    def pictures(self) -> Sequence[Picture]:
        """The images and texts that tools read and made, where the tools are OpenCATP's."""
        return ()

    def render(self) -> Any:
        """Draw the episode so far: calls, budget, choice and images, as 80 columns of text, RGB (height, width, 3) or SVG."""
        if self.render_mode is None:
            gym.logger.warn("render() needs a render_mode; make the env with render_mode='ansi' or 'rgb_array'")
            return None
        if self.render_mode == "rgb_array":
            from costgym.envs.rendering.draw import chart_picture

            return chart_picture(self.chart(), height=FRAME_HEIGHT, choice=self.choice(), pictures=self.pictures())
        if self.render_mode == "svg":
            from costgym.envs.rendering.draw import chart_drawing

            name = f"Episode of task {self.account().task.id}"
            return chart_drawing(self.chart(), name, choice=self.choice(), pictures=self.pictures())
        from costgym.envs.rendering.terminal import choice_text, episode_table

        parts = (episode_table(self.account(), self.chart().verdict), choice_text(self.choice()))
        text = "\n\n".join(filter(None, parts))
        if self.render_mode == "human":
            print(text)
            return None
        return text


class InvalidAction(CostGymError, gym.error.InvalidAction):
    """An action is not in the action space. One that the mask forbids is, and is refused instead."""


_USUAL_ACTIONS = (int, np.int64)


def checked_action(action: Any, count: int) -> int:
    """A discrete action as an int; raises InvalidAction where it is not a whole number from 0 to `count` - 1."""
    if type(action) in _USUAL_ACTIONS:  # on the hot path of every step; a comparison of NumPy's integers takes twice as long
        number = int(action)
        if 0 <= number < count:
            return number
    if isinstance(action, np.ndarray) and action.ndim == 0:
        action = action[()]
    if isinstance(action, int | np.integer) and not isinstance(action, bool) and 0 <= action < count:
        return int(action)
    raise InvalidAction(f"action: expected a whole number from 0 to {count - 1}, got {action!r:.60}")


def with_step_limit(spec: EnvSpec | None, limit: int | None) -> EnvSpec | None:
    """A copy of a spec that tells the environment's own step limit."""
    if spec is not None:
        spec = copy(spec)
        spec.max_episode_steps = limit
    return spec


class NoEpisode(EpisodeOver, gym.error.ResetNeeded):
    """No episode has begun."""


def no_episode() -> NoEpisode:
    """The error for using an episode before the first reset."""
    return NoEpisode("no episode has begun; call reset() first")


def base_env(env: gym.Env[Any, Any]) -> BaseEnv[Any, Any]:
    """Unwrap the costgym environment inside wrappers."""
    world = env.unwrapped
    if not isinstance(world, BaseEnv):
        raise ConfigError("env", f"expected an environment of costgym, got {type(world).__name__}")
    return world

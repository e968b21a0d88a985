"""What an environment offers so that its episodes can be recorded, replayed, exported and shown.

An episode is named by a task's number and a seed: `reset(seed=seed, options={"task": number})` and the same actions bring it
back to the last bit. The world itself goes into the records whole, as a JSON document with a digest, or, where it is too large
for that, by the digest of what was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import gymnasium as gym

from ..simulators.episode_view import EpisodeView
from ..simulators.errors import ConfigError
from ..simulators.ledger import Budget

if TYPE_CHECKING:
    from ..simulators.oracle.optimum import Optimum
    from .rendering.chart import Chart

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")
WITHOUT_INFLUENCE = frozenset({"cost", "render_mode", "disable_env_checker"})
"""Arguments of an environment that no episode depends on."""


class Recordable(gym.Env[ObsType, ActType], Generic[ObsType, ActType]):
    """Base of the environments whose episodes can be recorded.

    Attributes:
        numbers: of the split's tasks; collections play them in turn.
        split, budget: as the environment was made.
        grading: what counts as success.
    """

    numbers: Sequence[int]
    split: str
    budget: Budget
    grading: str = "strict"
    WORLD_ARGUMENTS: frozenset[str]
    """Arguments that say which world it is; records hold the world's document instead."""

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
        """See that what this environment read is what a record was made with.

        Raises:
            DataError: it is not.
        """
        del document

    # -- the episode -------------------------------------------------------------------------------------------------------

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

    def plan_figures(self) -> dict[str, Any]:
        """What a record's `final` holds beside the ledger and the grade, if anything; as JSON."""
        return {}

    def plan_quality(self) -> float | None:
        """Quality of Plan, where it follows from more than success and price."""
        return None

    def optimum(self, budget: Budget | None = None) -> Optimum | None:
        """The best that can be done in the episode being played, where the environment knows better than the world.

        Args:
            budget: what may be spent; None for the environment's.
        """
        del budget
        return None

    def chart(self) -> Chart:
        """The episode being played as a Gantt chart, in data."""
        raise NotImplementedError


def recordable(env: gym.Env[Any, Any]) -> Recordable[Any, Any]:
    """The environment under its wrappers.

    Raises:
        ConfigError: it is none whose episodes can be recorded.
    """
    world = env.unwrapped
    if not isinstance(world, Recordable):
        raise ConfigError("env", f"expected an environment of costgym, got {type(world).__name__}")
    return world

"""The choice of where a single environment plays: in compiled code, or in the event-driven world in Python."""

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal

import numpy as np
from numpy.typing import NDArray

from costgym.envs.base import ActType, BaseEnv, ObsType
from costgym.simulators.batch.stamps import perhaps_stored
from costgym.simulators.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from costgym.envs.vector.single import CompiledEpisode

Compiled = bool | Literal["auto"]
AUTO_AFTER = 2_000
"""Steps in Python before `auto` looks for compiled code: what the start of compiled code takes, 0.1 s, is then earned back."""
_KERNELS = Path(__file__).parent / "vector" / "kernels"


class CompiledChoice(BaseEnv[ObsType, ActType], Generic[ObsType, ActType]):
    """Part of an environment that plays in compiled code where it is told to, or, by default, where that is worth it.

    With ``compiled="auto"`` the first `AUTO_AFTER` steps are played in Python. Later episodes are played in compiled code if it
    lies on disk, compiled for this very case, and if nobody has asked for what only the event-driven world knows, which would
    play the episode a second time. Both give the same bits, so the choice changes the speed alone.
    """

    kernels: ClassVar[str]  # name of the module in `vector.kernels` with the compiled steps
    _compiled: "CompiledEpisode | None" = None
    _auto = False
    _steps = 0
    _played = 0
    _episode: Any = None

    def _choose_engine(self, compiled: Compiled) -> None:
        """Check and follow the argument `compiled`; raises ConfigError for another value."""
        if compiled != "auto" and not isinstance(compiled, bool):
            raise ConfigError("compiled", f'expected true, false or "auto", got {compiled!r:.60}')
        self._auto = compiled == "auto" and len(getattr(self, "scenarios", (None,))) == 1
        if compiled is True:
            self._compiled = self._single().CompiledEpisode(self)

    @staticmethod
    def _single() -> Any:
        # by its name, as Gymnasium finds vector environments: it is made of these environments
        return import_module("..vector.single", __name__)

    def _begin(self, number: int, seed: int) -> tuple[ObsType, dict[str, Any]]:
        """Begin an episode where it is to be played."""
        if self._auto:
            self._reconsider()
        player: Any = self._compiled  # of an environment of this kind
        if player is None:
            return self.open_episode(number, seed)
        observation, info = player.begin(self, number, seed)
        return observation, info

    def _reconsider(self) -> None:
        if self._compiled is not None and self._compiled.handed_over:
            self._compiled, self._auto = None, False
            return
        if self._compiled is not None and self._compiled.loaded:
            return
        self._compiled = None  # a copy may have come to another machine
        self._played += self._steps
        self._steps = 0
        if self._played >= AUTO_AFTER:
            if perhaps_stored(_KERNELS / f"{self.kernels}.py", "play_one"):
                with suppress(MissingExtra):  # what an earlier installation left
                    self._compiled = self._single().stored_episode(self)
            self._auto = self._compiled is not None

    def action_masks(self) -> NDArray[np.bool_]:
        """The present action mask, (actions,) bool: what the argument `mask` lets through. `finish` or `next` always is."""
        if self._compiled is not None and self._compiled.goes_on:
            return self._compiled.action_masks()
        return self._possible(self._playing())

    def _possible(self, episode: Any) -> NDArray[np.bool_]:
        """The mask of an episode in the event-driven world."""
        raise NotImplementedError

    def open_episode(self, number: int, seed: int) -> tuple[ObsType, dict[str, Any]]:
        """Begin an episode of a task in the event-driven world."""
        raise NotImplementedError

    @property
    def episode(self) -> Any:
        """The episode in the event-driven world, which catches up first where compiled code has played it."""
        player: Any = self._compiled
        if player is not None:
            player.hand_over(self)
        return self._episode

    @episode.setter
    def episode(self, value: Any) -> None:
        self._episode = value

    def account(self) -> Any:
        self._auto = self._auto and self._compiled is not None  # whoever reads accounts will read the next ones too
        return self._playing()

"""The choice of `Marketplace-v0` and `MarketplaceSession-v0`: the event-driven world in Python, or compiled code."""

from typing import TYPE_CHECKING, Any, Generic, Self

from costgym.envs.base import ActType, BaseEnv, ObsType
from costgym.simulators.errors import ConfigError

if TYPE_CHECKING:
    from costgym.envs.vector.single import CompiledEpisode


class NumericEnv(BaseEnv[ObsType, ActType], Generic[ObsType, ActType]):
    """Part of an environment that may play in compiled code, as a native batch of one, with the same results to the last bit.

    Compiled code keeps no log, so whatever needs one is refused there.
    """

    keeps_log = True
    _compiled: "CompiledEpisode | None" = None
    _episode: Any = None

    def _choose_engine(self, compiled: bool) -> None:
        """Follow the argument `compiled`; raises ConfigError for another value than true or false."""
        if not isinstance(compiled, bool):
            raise ConfigError("compiled", f"expected true or false, got {compiled!r:.60}")
        if compiled:
            self._compiled, self.keeps_log = self._compiled_episode(), False
            self.metadata = {**self.metadata, "render_modes": []}

    def _compiled_episode(self) -> "CompiledEpisode":
        """Make the player of episodes in compiled code; raises MissingExtra without Numba."""
        raise NotImplementedError

    @property
    def episode(self) -> Any:
        """The present episode in the event-driven world; None before the first reset.

        Raises:
            ConfigError: the environment plays in compiled code, which keeps no log.
        """
        self._need_log()
        return self._episode

    @episode.setter
    def episode(self, value: Any) -> None:
        self._episode = value

    def fork(self, seed: int | None = None) -> Self:
        if self._compiled is not None:
            self._need_log()
        return super().fork(seed)

    def _need_log(self) -> None:
        if not self.keeps_log:
            problem = "compiled code keeps no log, so its episodes cannot be read, recorded, drawn or forked"
            remedy = 'make the environment with compiled=False, a vector with vectorization_mode="sync"'
            raise ConfigError("compiled", f"{problem}; {remedy}")

    def __getstate__(self) -> dict[str, Any]:
        if self._compiled is not None:
            self._need_log()
        return self.__dict__

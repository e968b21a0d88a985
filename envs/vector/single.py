"""One environment of the marketplace that plays in compiled code: `MarketplaceEnv(compiled=True)`.

It plays a native batch of one. The batch does not know an episode's log, nor can it draw it, fork it or find its optimum. Who
asks for one of these gets it from the event-driven world, in which the actions so far are played again and the episode goes on.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...simulators.batch.arguments import rebound
from ...simulators.errors import ConfigError
from ...simulators.ledger import RESOURCES
from ...simulators.world import Episode
from ..marketplace import MarketplaceEnv, Observation
from .info import COUNTS, FIGURES
from .kernels import marketplace as kernels
from .marketplace import MarketplaceVectorEnv

Info = dict[str, Any]
_WORD, _SIGN = 1 << 64, 1 << 63
_FIGURES = Struct(f"=d{len(FIGURES)}d{len(COUNTS)}q3?")
"""Reward, figures, counts, success and ends, as they lie in memory."""


class _Lane(MarketplaceVectorEnv):
    """The native batch of one environment, `env`, played one episode at a time by `begin` and `play`."""

    def __init__(self, env: MarketplaceEnv) -> None:
        super().__init__(1, env=env, copy=False)
        self._index = RESOURCES.index(env.cost)
        self._memory = memory = bytearray(_FIGURES.size)
        self._read = _FIGURES.unpack_from
        figures = 8 * (1 + len(FIGURES))
        ends = figures + 8 * len(COUNTS)
        self._out = out = self._fresh()._replace(
            rewards=np.ndarray(1, np.float64, memory),
            figures=np.ndarray((len(FIGURES), 1), np.float64, memory, 8),
            counts=np.ndarray((len(COUNTS), 1), np.int64, memory, figures),
            success=np.ndarray(1, np.bool_, memory, ends),
            terminated=np.ndarray(1, np.bool_, memory, ends + 1),
            truncated=np.ndarray(1, np.bool_, memory, ends + 2),
        )
        self._tools, self._needs, self._resources = out.tools[0], out.needs[0], out.resources[0]
        self.mask: NDArray[np.bool_] = out.mask[0]
        self._given = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.uint64)  # action, task and seed
        self._bind()

    def _make_scalar(self, settings: dict[str, Any]) -> MarketplaceEnv:
        found: MarketplaceEnv = settings["env"]
        return found

    def _bind(self) -> None:
        batch = self.batch
        steady = (batch.tables, batch.rules, batch.state, self._view, self._out, self._streams, *self._given)
        self._bound = rebound(self._bound, steady)

    def begin(self, number: int, seed: int) -> tuple[Observation, Info]:
        """Begin the episode of a task, with a seed."""
        row = self._row_of.get(number)
        if row is None:
            row = int(self._rows(np.array([number]))[0])
            self._bind()
        seed %= _WORD
        observation, _, _, _, info = self.play(-1, row, seed if seed < _SIGN else seed - _WORD)
        return observation, info

    def play(self, action: int, row: int = -1, seed: int = 0) -> tuple[Observation, float, bool, bool, Info]:
        """Play an action, or begin the episode of a task's row, and return what `step` does."""
        used = kernels.play_one(self._bound, action, row, seed)
        if self.batch.at_once is None:
            self.batch.make_room(used)
            self._bind()
        (
            reward, price, seconds, total, price_left, seconds_left, tokens_left, calls_left, at_s,
            tokens, calls, status, success, terminated, truncated,
        ) = self._read(self._memory)  # fmt: skip
        index = self._index
        info = {
            "cost": (price, seconds, tokens, calls)[index],
            "cost_price": price,
            "cost_seconds": seconds,
            "cost_tokens": tokens,
            "cost_calls": calls,
            "cost_sum": total if index < 2 else int(total),
            "budget_remaining_price": price_left,
            "budget_remaining_seconds": seconds_left,
            "budget_remaining_tokens": tokens_left,
            "budget_remaining_calls": calls_left,
            "at_s": at_s,
            "is_success": success,
            "status": status,
            "action_mask": self.mask.copy(),
        }
        observation = {"tools": self._tools.copy(), "needs": self._needs.copy(), "resources": self._resources.copy()}
        return observation, reward, terminated, truncated, info


class CompiledMarketplaceEnv(MarketplaceEnv):
    """`MarketplaceEnv` in compiled code; the arguments are the same.

    Raises:
        MissingExtra: Numba is not installed.
        ConfigError: an argument is invalid, or there are several scenarios.
    """

    episode_state = tuple("_episode" if name == "episode" else name for name in MarketplaceEnv.episode_state)

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self._played: list[int] | None = None  # the actions of this episode; None where the event-driven world plays it
        super().__init__(*arguments, **settings)
        if len(self.scenarios) > 1:
            raise ConfigError("compiled", f"expected one scenario to play in compiled code, got {len(self.scenarios)}")
        self._lane: _Lane | None = None
        self._begun = (0, 0)  # task and seed
        self._goes_on = False  # in compiled code

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, Info]:
        begun = self._choose(seed, options)
        if self.scenario is not self.scenarios[0]:
            self._played, self._goes_on = None, False
            return self._open(*begun)
        if self._lane is None:
            self._lane = _Lane(self)
        self._begun, self._played, self._goes_on, self.episode = begun, [], True, None
        return self._lane.begin(*begun)

    def step(self, action: int | np.integer[Any]) -> tuple[Observation, float, bool, bool, Info]:
        lane, played = self._lane, self._played
        if not self._goes_on or lane is None or played is None:
            return super().step(action)
        number = int(action)
        if not 0 <= number <= self.finish_action:
            number = -1
        played.append(number)
        result = lane.play(number)
        self._goes_on = not (result[2] or result[3])
        return result

    def action_masks(self) -> NDArray[np.bool_]:
        if self._played is None or self._lane is None:
            return super().action_masks()
        return self._lane.mask.copy()

    @property
    def episode(self) -> Episode | None:
        """The episode in the event-driven world, which catches up where compiled code has played it."""
        if self._played is not None:
            played, self._played, self._goes_on = self._played, None, False
            self._open(*self._begun)
            for action in played:
                super().step(action)
        return self._episode

    @episode.setter
    def episode(self, value: Episode | None) -> None:
        self._episode = value

    def __getstate__(self) -> dict[str, Any]:
        """The state for copies, which get no part of the compiled episode: what they play is played again first."""
        played = None if self._played is None else list(self._played)
        return {**self.__dict__, "_lane": None, "_played": played, "_goes_on": False}

"""One environment in compiled code, a native batch of one: `Marketplace-v0` and `MarketplaceSession-v0`."""

from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.envs.base import no_episode
from costgym.envs.vector.info import COUNTS, FIGURES
from costgym.envs.vector.kernels import marketplace as kernels
from costgym.envs.vector.marketplace import NativeVectorEnv
from costgym.envs.vector.sessions import NativeSessions
from costgym.simulators.batch.arguments import rebound
from costgym.simulators.errors import ConfigError
from costgym.simulators.ledger import RESOURCES
from costgym.simulators.world.writes import WriteFigures

Info = dict[str, Any]
Observation = dict[str, NDArray[np.float32]]
_WORD, _SIGN = 1 << 64, 1 << 63
_FIRST = np.zeros(1, np.int64)
_NUMBERS = (("rewards", "d", 1), ("figures", "d", len(FIGURES)), ("counts", "q", len(COUNTS)))
_ENDS = (("success", "?", 1), ("terminated", "?", 1), ("truncated", "?", 1))
_NOTHING_SPENT: Info = {"cost": 0.0, "cost_price": 0.0, "cost_seconds": 0.0, "cost_tokens": 0, "cost_calls": 0}


class SingleBatch(NativeVectorEnv):
    """The native batch of one environment, `env`, which `CompiledEpisode` plays one episode at a time."""

    make_scalar: Any = staticmethod(lambda env: env)  # the one that is there
    layout: tuple[tuple[str, str, int], ...] = (*_NUMBERS, *_ENDS)
    """What a step tells besides the observation and the mask, as it lies in memory: name, type and length."""
    second = "needs"  # the part of the observation between `tools` and `resources`

    def __init__(self, env: Any) -> None:
        super().__init__(1, env=env, copy=False)
        self.index = RESOURCES.index(env.cost)
        # one read of 15 numbers instead of 15 reads of arrays: 0.2 microseconds instead of 1.1, where a step takes 3 in all
        # (one core of a shared Xeon, 2026-11-25)
        whole = Struct("=" + "".join(f"{count}{kind}" for _, kind, count in self.layout))
        self.memory, self.read, offset = bytearray(whole.size), whole.unpack_from, 0
        parts: dict[str, NDArray[Any]] = {}
        for name, kind, count in self.layout:
            shape = (count, 1) if count > 1 else (1,)
            parts[name] = np.ndarray(shape, kind, self.memory, offset)
            offset += parts[name].nbytes
        self._out: Any = self.fresh()._replace(**parts)
        out = self._out
        self.tools, self.needs, self.resources = out.tools[0], getattr(out, self.second)[0], out.resources[0]
        self.grows = self.batch.at_once is None
        # effects and roles, which only worlds with writes show
        self.more = {name: array[0] for name, array in self.observations(out).items() if name in ("roles", "effects")}
        self.mask: NDArray[np.bool_] = out.mask[0]
        self.mask_type = env.mask_type
        # the next action, and the task and the seed of the next episode
        start = np.zeros(1, np.int64), np.zeros(1, np.uint64), np.ones(1, np.bool_)
        self._next = np.zeros(1, np.int64), kernels.Starts(*start, drawn=True)

    def _steady(self) -> tuple[Any, ...]:
        batch = self.batch
        return batch.tables, batch.rules, batch.state, self._view, self._out, self._streams, *self._next

    def bind(self) -> None:
        self._bound = rebound(self._bound, self._steady())

    def row(self, number: int) -> int:
        """The row of a task in the batch's tables, which are extended where it is new."""
        world = self.scalar._world_index
        if world is None:
            wanted = "expected one of the scenarios that the environment was made with, since compiled code plays no others"
            raise ConfigError('options["scenario"]', f"{wanted}; make it with compiled=False, or with this scenario")
        row = self._row_of.get((world, number))
        if row is None:
            row = int(self._rows(np.array([number]), _FIRST, np.array([world]))[0])
            self.bind()
        return row

    def make_room(self, used: int) -> None:
        """Make room for more calls in flight where a step used up what there was."""
        self.batch.make_room(used)
        self.bind()

    def written(self) -> dict[str, Any]:
        """The figures of the final state in a world with writes."""
        correct, duplicates, surplus, lost = self._out.written[:, 0].tolist()
        return WriteFigures(bool(correct), int(duplicates), int(surplus), lost)._asdict()


class SingleSession(SingleBatch, NativeSessions):
    """The native batch of one environment of sessions."""

    layout = (*_NUMBERS, ("queries", "q", 1), ("values", "d", 2), ("reported", "q", 1), *_ENDS)
    second = "query"
    first_kernel = NativeSessions.kernels.play_one

    def row(self, number: int) -> int:
        row = int(self._rows(np.array([number]), _FIRST)[0])
        self.bind()  # a session may have needed wider arrays
        return row


class CompiledEpisode:
    """The present episode of an environment that plays in compiled code.

    Compiled code knows neither an episode's log nor how to draw it, fork it or find its optimum; the environment refuses these.
    """

    def __init__(self, env: Any, kind: type[SingleBatch]) -> None:
        self._env, self._kind = env, kind
        self._batch: SingleBatch | None = None  # made at the first reset, since spaces and settings can be had without it
        self._end: tuple[Observation, Info] | None = None  # the last observation and `info` of an episode that is over

    def begin(self, number: int, seed: int) -> tuple[Observation, Info]:
        """Begin the episode of a task, with a seed."""
        if self._batch is None:
            self._batch = self._kind(self._env)
            self._batch.bind()
        self._end = None
        seed %= _WORD
        observation, _, _, _, info = self.play(-1, self._batch.row(number), seed if seed < _SIGN else seed - _WORD)
        return observation, info

    def play(self, action: int, row: int = -1, seed: int = 0) -> tuple[Observation, float, bool, bool, Info]:
        """Play an action, or begin the episode of a task's row, and return what the environment's `step` does."""
        batch = self._batch
        if batch is None:
            raise no_episode()
        if self._end is not None:  # a step after the end changes nothing
            observation, info = self._end
            again = {name: array.copy() for name, array in observation.items()}
            return again, 0.0, True, False, {**info, "action_mask": info["action_mask"].copy()}
        used = batch.kernels.play_one(batch._bound, action, row, seed)
        if batch.grows:
            batch.make_room(used)
        (
            reward, price, seconds, total, price_left, seconds_left, tokens_left, calls_left, at_s,
            tokens, calls, status, *session, success, terminated, truncated,
        ) = batch.read(batch.memory)  # fmt: skip
        index = batch.index
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
        }
        observation = {"tools": batch.tools.copy(), batch.second: batch.needs.copy(), "resources": batch.resources.copy()}
        if batch.more:
            info |= batch.written()
            for name, array in batch.more.items():
                observation[name] = array.copy()
        info["status"] = status
        if session:
            info["query"], info["value"], info["value_share"], info["tool"] = session
        info["action_mask"] = batch.mask.copy().view(batch.mask_type)
        if terminated:
            spent = {**_NOTHING_SPENT, "cost": 0.0 if index < 2 else 0, "action_mask": info["action_mask"].copy()}
            self._end = {name: array.copy() for name, array in observation.items()}, {**info, **spent}
        return observation, reward, terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """The present action mask, (actions,)."""
        if self._batch is None:
            raise no_episode()
        return self._batch.mask.copy()

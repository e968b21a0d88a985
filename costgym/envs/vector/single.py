"""One environment in compiled code, a native batch of one: `Marketplace-v0` and `MarketplaceSession-v0`."""

from copy import copy
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.envs.marketplace import MarketplaceEnv, Observation
from costgym.envs.sessions.session import MarketplaceSessionEnv
from costgym.envs.vector.info import COUNTS, FIGURES
from costgym.envs.vector.kernels import marketplace as kernels
from costgym.envs.vector.marketplace import MarketplaceVectorEnv
from costgym.envs.vector.sessions import SessionVectorEnv
from costgym.simulators.batch.arguments import BoundArgumentsType, rebound
from costgym.simulators.batch.rng import numba, stored
from costgym.simulators.ledger import RESOURCES
from costgym.simulators.writes import WriteFigures

Info = dict[str, Any]
_WORD, _SIGN = 1 << 64, 1 << 63
_FIRST = np.zeros(1, np.int64)
Playable = MarketplaceEnv | MarketplaceSessionEnv
_NUMBERS = (("rewards", "d", 1), ("figures", "d", len(FIGURES)), ("counts", "q", len(COUNTS)))
_ENDS = (("success", "?", 1), ("terminated", "?", 1), ("truncated", "?", 1))


class _Lane(MarketplaceVectorEnv):
    """The native batch of one environment, `env`, which `CompiledEpisode` plays one episode at a time."""

    scalar_class: Any = staticmethod(lambda env: env)  # the one that is there
    layout: tuple[tuple[str, str, int], ...] = (*_NUMBERS, *_ENDS)
    """What a step tells besides the observation and the mask, as it lies in memory: name, type and length."""
    second = "needs"  # the part of the observation between `tools` and `resources`

    def __init__(self, env: Playable) -> None:
        super().__init__(1, env=env, copy=False)
        self.index = RESOURCES.index(env.cost)
        # one read of 15 numbers instead of 15 reads of arrays: 0.2 microseconds instead of 1.1, where a step takes 3 in all
        # (`benchmarks/tricks.py`, one core of a shared Xeon, 2026-11-25)
        whole = Struct("=" + "".join(f"{count}{kind}" for _, kind, count in self.layout))
        self.memory, self.read, place = bytearray(whole.size), whole.unpack_from, 0
        parts: dict[str, NDArray[Any]] = {}
        for name, kind, count in self.layout:
            shape = (count, 1) if count > 1 else (1,)
            parts[name] = np.ndarray(shape, kind, self.memory, place)
            place += parts[name].nbytes
        self._out: Any = self.fresh()._replace(**parts)
        out = self._out
        self.tools, self.needs, self.resources = out.tools[0], getattr(out, self.second)[0], out.resources[0]
        self.grows = self.batch.at_once is None
        # effects and roles, which only worlds with writes show
        self.more = {name: array[0] for name, array in self.observations(out).items() if name in ("roles", "effects")}
        self.mask: NDArray[np.bool_] = out.mask[0]
        # the next action, and the task and the seed of the next episode
        start = np.zeros(1, np.int64), np.zeros(1, np.uint64), np.ones(1, np.bool_)
        self._given = np.zeros(1, np.int64), kernels.Starts(*start, drawn=True)

    def _steady(self) -> tuple[Any, ...]:
        batch = self.batch
        return batch.tables, batch.rules, batch.state, self._view, self._out, self._streams, *self._given

    def bind(self) -> None:
        self._bound = rebound(self._bound, self._steady())

    @property
    def stored(self) -> bool:
        """Nothing is left to compile for these arrays."""
        content, word = numba.typeof(self._steady()), numba.int64
        return stored(self.kernels.play_one, BoundArgumentsType(content), word, word, word)

    def row(self, number: int) -> int:
        """The row of a task in the batch's tables, which are extended where it is new."""
        world = self.scalar._place
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


class _SessionLane(_Lane, SessionVectorEnv):
    """The native batch of one environment of sessions."""

    layout = (*_NUMBERS, ("queries", "q", 1), ("values", "d", 2), ("reported", "q", 1), *_ENDS)
    second = "query"

    def row(self, number: int) -> int:
        self._rows(np.array([number]), _FIRST)
        self.bind()  # a session may have needed wider arrays
        return 0


def _lane_of(env: Playable) -> _Lane:
    return _Lane(env) if isinstance(env, MarketplaceEnv) else _SessionLane(env)


def stored_episode(env: Playable) -> "CompiledEpisode | None":
    """The episodes of an environment in compiled code, or None where something would have to be compiled first."""
    if not (lane := _lane_of(env)).stored:
        return None
    lane.bind()
    found = CompiledEpisode(env)
    found._lane = lane
    return found


class CompiledEpisode:
    """The present episode of an environment that plays in compiled code as long as it `goes_on`.

    The compiled code knows neither an episode's log nor how to draw it, fork it or find its optimum. Where one of these is
    asked for, the episode is handed over: the event-driven world plays the actions so far again, and goes on.
    """

    def __init__(self, env: Playable) -> None:
        self._lane: _Lane | None = None  # made at the first reset, so that copies need none
        self._begun = (0, 0)  # task and seed
        self._actions: list[int] | None = None  # None once the event-driven world has the episode
        self.goes_on = False

    def begin(self, env: Playable, number: int, seed: int) -> tuple[Observation, Info]:
        """Begin the episode of a task, with a seed."""
        self._actions = None  # whatever was played before is not to be handed over
        if self._lane is None:
            self._lane = _lane_of(env)
            self._lane.bind()
        env._episode = None
        self._begun, self._actions, self.goes_on = (number, seed), [], True
        seed %= _WORD
        observation, _, _, _, info = self.play(-1, self._lane.row(number), seed if seed < _SIGN else seed - _WORD)
        self._actions.clear()
        return observation, info

    def play(self, action: int, row: int = -1, seed: int = 0) -> tuple[Observation, float, bool, bool, Info]:
        """Play an action, or begin the episode of a task's row, and return what the environment's `step` does."""
        lane, actions = self._lane, self._actions
        assert lane is not None and actions is not None
        actions.append(action)
        used = lane.kernels.play_one(lane._bound, action, row, seed)
        if lane.grows:
            lane.make_room(used)
        (
            reward, price, seconds, total, price_left, seconds_left, tokens_left, calls_left, at_s,
            tokens, calls, status, *session, success, terminated, truncated,
        ) = lane.read(lane.memory)  # fmt: skip
        if terminated or truncated:
            self.goes_on = False
        index = lane.index
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
        observation = {"tools": lane.tools.copy(), lane.second: lane.needs.copy(), "resources": lane.resources.copy()}
        if lane.more:
            info |= lane.written()
            for name, array in lane.more.items():
                observation[name] = array.copy()
        info["status"] = status
        if session:
            info["query"], info["value"], info["value_share"], info["tool"] = session
        info["action_mask"] = lane.mask.copy()
        return observation, reward, terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """The present action mask, (actions,)."""
        assert self._lane is not None
        return self._lane.mask.copy()

    def hand_over(self, env: Playable) -> None:
        """Let the event-driven world play the episode again and go on with it, unless it has it already."""
        actions, self._actions, self.goes_on = self._actions, None, False
        if actions is not None:
            # all chance follows from seed and task, so the same actions lead to the same state
            env.open_episode(*self._begun)
            for action in actions:
                env.step(action)

    @property
    def handed_over(self) -> bool:
        """The event-driven world has the episode, or none has begun."""
        return self._actions is None

    @property
    def loaded(self) -> bool:
        """Its compiled state is here, which copies lack."""
        return self._lane is not None

    def copy(self) -> "CompiledEpisode":
        """A copy without compiled state, which hands the episode over when it is asked for."""
        return copy(self)

    def __getstate__(self) -> dict[str, Any]:
        actions = None if self._actions is None else list(self._actions)
        return {**self.__dict__, "_lane": None, "_actions": actions, "goes_on": False}

"""A policy that uses calls side by side: it does not wait for a call that takes long."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs.sessions.features import RUNNING
from ...simulators.status import Status
from ..seat import Seat
from .policies import OPTIMISM, IndexPolicy

PATIENCE = 1.5
"""Mean durations after which a call is no longer waited for."""


class Hedged(IndexPolicy):
    """`optimistic`, which gives a call up that takes long: it calls another tool beside it, or leaves the query.

    The first answer passes the query, whichever call brings it. Where a step is a call and its end, it plays as `optimistic`.

    Source: deferred hedged requests (Dean and Barroso, The Tail at Scale, 2013).
    """

    def __init__(self) -> None:
        super().__init__("hedged", memory=True, paced=True, optimism=OPTIMISM)

    def reset(self, seat: Seat, observation: dict[str, NDArray[np.float32]], info: dict[str, Any], seed: int) -> None:
        super().reset(seat, observation, info, seed)
        self._pause = self._seat.pause_action
        # calls in flight, these and those that have ended without a report, and whether the last action was to wait
        self._running, self._told, self._waited = 0, 0, False
        self._since_s = np.zeros(len(observation["tools"]))

    def act(self, observation: dict[str, NDArray[np.float32]], info: dict[str, Any]) -> int:
        if self._wait is None or self._pause is None:
            return super().act(observation, info)
        now, running = float(info["at_s"]), observation["tools"][:, -len(RUNNING) :]
        count = int(np.rint(4.0 * running[:, 0].sum()))  # no tool is called twice at once
        if self._called >= 0 and count > self._running:
            self._since_s[self._called], self._told = now, self._told + 1
        elif self._called >= 0:
            self._take(self._called, Status(info["status"]), now)
        elif self._waited and (self._told > self._running or count < self._running):
            self._take(int(info["tool"]), Status(info["status"]), now)
            self._told -= 1
        self._called, self._running, self._waited = -1, count, True
        if count < self._told:
            return self._wait  # the end of a call has not been reported
        mine = running[:, 1] > 0.0
        if (mine & (now - self._since_s < PATIENCE * self._beliefs.lasts_s)).any():
            return self._pause
        self._waited = False
        return self._choose(observation, info, running[:, 0] > 0.0)

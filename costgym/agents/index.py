"""An honest index policy: it plays the marketplace from what the catalogue advertises and what its own calls brought."""

from functools import lru_cache
from math import expm1
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.agents.base import Agent
from costgym.agents.classic import _KNOWN, _NEED, _READY, _ROUNDING, _RUNNING, _SUCCESS, _WANTED
from costgym.agents.seat import NumericSeat, Seat, expect_seat
from costgym.envs.features.templates import MAX_NEEDS, TOOL_FEATURES
from costgym.simulators.calls import latency_factors
from costgym.simulators.errors import ConfigError, check_known
from costgym.simulators.failures import PRESETS
from costgym.simulators.marketplace.catalogue import SIZE_FACTORS, SPREADS, TIMEOUT_S
from costgym.simulators.marketplace.tasks import SIZE_LEVELS
from costgym.simulators.oracle.expected_optimum import Offer, choose_call
from costgym.simulators.status import LIMITS, Status
from costgym.simulators.world.belief import Belief, states_given

_LATENCY = TOOL_FEATURES.index("latency_s")


class BayesIndexAgent(Agent):
    """Calls the tool with the lowest price over the chance that its next call brings the fact, by Bayes' rule.

    It reads observations and statuses alone. A tool's reliability is inferred from its advertised success, under the public
    rates of the preset `failures`; the chance that the time-out cuts it off from its advertised latency, under the public
    spread of durations. Every status updates the belief about the tool in this episode. It remembers nothing across episodes.
    """

    name = "bayes-index"

    def __init__(self, failures: str = "rapidapi-2023", alpha: float = 0.5) -> None:
        check_known("failure preset", failures, PRESETS)
        if not 0.0 < alpha < 1.0:
            raise ConfigError("alpha", f"expected a weight between 0 and 1, got {alpha!r}")
        self._failures, self._alpha = failures, alpha

    def reset(self, seat: Seat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._view = view = expect_seat(seat, NumericSeat, self)
        self._loss = (1.0 - self._alpha) / (view.max_price * self._alpha)
        self._beliefs: dict[int, Belief] = {}
        self._shut: set[int] = set()
        self._called: list[int] = []

    def act(self, observation: dict[str, NDArray[np.float32]], info: dict[str, Any]) -> int:
        tools, needs, resources = observation["tools"], observation["needs"], observation["resources"]
        mask, view = info["action_mask"], self._view
        if view.wait_action is not None and resources[_RUNNING] > 0 and mask[view.wait_action]:
            return view.wait_action
        self._learn(Status(info["status"]))
        missing = [need for need in range(MAX_NEEDS) if needs[need, _WANTED] > 0 and needs[need, _KNOWN] == 0]
        if not missing or info["budget_remaining_calls"] < len(missing):
            return view.finish_action
        prices = view.prices(tools)
        offers = []
        for row in range(view.max_tools):
            serves = tools[row, _NEED : _NEED + MAX_NEEDS]
            need = int(serves.argmax()) if serves.any() else -1
            # a call for a need whose arguments are missing is masked now, and possible later
            if need < 0 or row in self._shut or not (mask[row] or not needs[need, _READY]):
                continue
            price = float(prices[row])
            offers.append(Offer(row, need, price * (1.0 - _ROUNDING), price, self._belief(row, tools[row]).chance))
        ready = [bool(there) for there in needs[:, _READY]]
        chosen = choose_call(offers, missing, ready, info["budget_remaining_price"], self._loss)
        if chosen is None or not mask[chosen]:
            return view.finish_action
        self._called.append(chosen)
        return chosen

    def _belief(self, row: int, tool: NDArray[np.float32]) -> Belief:
        belief = self._beliefs.get(row)
        if belief is None:
            success, latency = round(float(tool[_SUCCESS]), 3), float(expm1(tool[_LATENCY]))
            states = _states_given(self._failures, success)
            belief = self._beliefs[row] = Belief(states, PRESETS[self._failures], cut=cut_given(round(latency, 2)))
        return belief

    def _learn(self, status: Status) -> None:
        """Take in how the last call ended."""
        if not self._called:
            return
        row = self._called.pop()
        if status in (*LIMITS, Status.BANNED, Status.OVER_BUDGET):
            self._shut.add(row)
        else:
            self._beliefs[row].learn(status)


@lru_cache(maxsize=65_536)
def _states_given(failures: str, advertised: float) -> tuple[float, float, float]:
    return states_given(PRESETS[failures], advertised)


@lru_cache(maxsize=65_536)
def cut_given(advertised_s: float) -> float:
    """Chance that the time-out cuts a call off, given the advertised latency.

    The median lies between 0.85 and 1.15 of it, times the factor of a size level and the spread of the tool's durations, which
    are not told.
    """
    if advertised_s * 1.15 * max(SIZE_FACTORS) * max(latency_factors(max(SPREADS))) < TIMEOUT_S:
        return 0.0
    total = sum(SIZE_LEVELS)
    cut = 0.0
    for share, factor in zip(SIZE_LEVELS, SIZE_FACTORS, strict=True):
        for ratio in (0.85, 0.925, 1.0, 1.075, 1.15):
            for spread in SPREADS:
                reached = np.searchsorted(
                    np.asarray(latency_factors(spread)), TIMEOUT_S * ratio / (advertised_s * factor), "right"
                )
                cut += share / total * (1.0 - reached / len(latency_factors(spread))) / (5 * len(SPREADS))
    return float(cut)

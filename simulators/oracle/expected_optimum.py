"""The best policy that knows the tools' reliabilities, but not the episode's luck.

Each tool's latent state (alive, degraded, dead) has a belief that starts from its reliability and is updated by Bayes' rule
after every call. Among the tools that serve a need the one with the lowest ``price / P(next call works)`` is called. A failure
only ever lowers the chance of a tool's next call, so this one-step index is its Gittins index, and calling by it has the least
expected cost for one need.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..calls import Candidate
from ..failures import state_chances
from ..tasks import needed
from ..tools import READ, WRITE
from ..world import World


class Belief:
    """The belief about one tool's latent state in one episode."""

    __slots__ = ("_chances", "_persistence", "last", "states")

    def __init__(self, reliability: float, slip: float, persistence: float) -> None:
        alive, degraded = state_chances(reliability, slip)
        self.states = [alive, degraded, max(0.0, 1.0 - alive - degraded)]
        self._chances = (1.0 - slip, 0.5, slip)
        self._persistence = persistence
        self.last: bool | None = None

    def _next(self, state: int) -> float:
        chance, pull = self._chances[state], self._persistence
        if self.last is None:
            return chance
        return chance + pull * (1.0 - chance) if self.last else chance - pull * chance

    @property
    def chance(self) -> float:
        """Chance that the next call works."""
        return sum(share * self._next(state) for state, share in enumerate(self.states))

    def learn(self, worked: bool) -> None:
        """Take a call's outcome into account."""
        weights = [share * (self._next(s) if worked else 1.0 - self._next(s)) for s, share in enumerate(self.states)]
        total = sum(weights)
        if total > 0:
            self.states = [weight / total for weight in weights]
        self.last = worked


class ExpectedOptimumPolicy:
    """Chooses the next call of one episode.

    Needs that are ready are tried in rising order of expected price over the chance that they cannot be had: needs that will
    probably fail are tried before money is spent on others. It gives up where no tool of a need is worth its price any more.

    Args:
        world: The world whose reliabilities and failure model are known.
        number: The task.
        multiplier: What a unit of price costs beyond its share of the Quality of Plan, as under a constraint on the mean price.
    """

    def __init__(self, world: World, number: int, multiplier: float = 0.0) -> None:
        self._slots = world.candidates(number)
        needs = world.tasks[number].needs
        self._after = [need.after for need in needs]
        self._needed = needed(needs)
        self._loss = (1.0 - world.alpha) / (world.max_price * world.alpha) + multiplier / world.alpha
        self.beliefs = [Belief(slot.profile.reliability, slot.slip, slot.persistence) for slot in self._slots]

    def learn(self, slot: int, worked: bool) -> None:
        """Take a call's outcome into account."""
        self.beliefs[slot].learn(worked)

    def choose(self, known: Sequence[bool], prices: Sequence[float], left: float, shut: Sequence[bool]) -> int | None:
        """Choose the slot to call next, or None to stop.

        Args:
            known: For each need whether its fact is known.
            prices: What a call of each slot costs now.
            left: Price that may still be spent.
            shut: Slots that cannot be called (banned, over quota).
        """
        best: tuple[float, int] | None = None
        for need, after in enumerate(self._after):
            if known[need] or not self._needed[need]:
                continue
            ranked = sorted(
                (prices[slot.index] / self.beliefs[slot.index].chance, slot.index)
                for slot in self._slots
                if need in slot.needs
                and slot.role in (READ, WRITE)
                and not shut[slot.index]
                and self._worth(slot, prices[slot.index], left)
            )
            if not ranked:
                return None
            if not all(known[before] for before in after):
                continue
            missed = 1.0
            for _, slot in ranked:
                missed *= 1.0 - self.beliefs[slot].chance
            urgency = ranked[0][0] / max(missed, 1e-12)
            if best is None or urgency < best[0]:
                best = (urgency, ranked[0][1])
        return None if best is None else best[1]

    def _worth(self, slot: Candidate, price: float, left: float) -> bool:
        chance = self.beliefs[slot.index].chance
        return price <= left and chance > 0 and price * self._loss <= chance


def expected_optimum_policy(world: World, number: int, multiplier: float = 0.0) -> ExpectedOptimumPolicy:
    """The policy for an episode of this task, which knows the world's reliabilities; see `ExpectedOptimumPolicy`."""
    return ExpectedOptimumPolicy(world, number, multiplier)

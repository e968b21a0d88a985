"""Mechanical alarms: signs that an entry's agent knew what it could not know.

None of them is proof. Each says how often it came up, and what is to be expected of an honest agent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from ....envs.actions import read_action
from ....simulators.episode_view import EpisodeView
from ....simulators.status import Status
from ....simulators.tasks import fact_in, normalise
from ...results import EpisodeResult

_WORKED = frozenset({Status.OK, Status.WRONG_ARGUMENTS, Status.NO_DATA})
_UNDECIDED = frozenset({Status.OUTAGE, Status.RATE_LIMITED, Status.QUOTA_EXCEEDED, Status.CANCELLED})
LUCKY_Z = 4.0
"""Standard deviations of luck that ring: of honest agents about one row in 30,000, were calls independent."""
MIN_CALLS = 50
"""First calls that a row must have before its luck is judged."""


class Signs(NamedTuple):
    """The signs of foreknowledge in one episode, or in many.

    Attributes:
        better: episodes that came out better than the optimum.
        unseen: facts in answers that nothing the agent had read held.
        worked, expected, variance: first calls of tools that worked; how many were to be expected of tools so reliable; and the
            variance of that number.
        calls: those first calls.
    """

    better: int = 0
    unseen: int = 0
    worked: float = 0.0
    expected: float = 0.0
    variance: float = 0.0
    calls: int = 0

    @property
    def z(self) -> float:
        """Standard deviations by which more calls worked than was to be expected."""
        return (self.worked - self.expected) / math.sqrt(self.variance) if self.variance > 0 else 0.0


def signs_of(world: Any, episode: EpisodeView, actions: list[Any], result: EpisodeResult) -> Signs:
    """The signs of an episode that has ended.

    Args:
        world: the environment, standing at its end.
        episode: as replay played it.
        actions: as recorded.
        result: of the episode.
    """
    better = int(result.regret is not None and result.regret < -1e-6)
    if world.world is None:
        return Signs(better)
    worked = expected = variance = 0.0
    met: set[str] = set()
    for call in episode.calls:
        if not call.status.executed or call.status in _UNDECIDED or call.tool in met:
            continue
        met.add(call.tool)
        reliability = world.world.catalog.get(call.tool).profile.reliability
        worked += call.status in _WORKED
        expected += reliability
        variance += reliability * (1.0 - reliability)
    unseen = _unseen_facts(world, actions) if world.calls_by_name else 0
    return Signs(better, unseen, worked, expected, variance, len(met))


def _unseen_facts(world: Any, actions: list[Any]) -> int:
    """Facts of the final answer that stand neither in the query nor in anything that a call returned."""
    answer = normalise(read_action(actions[-1]).answer or "") if actions else ""
    if not answer:
        return 0
    episode = world._playing()
    read = " ".join([normalise(world.query), *(normalise(episode.content(call)) for call in episode.calls)])
    return sum(fact_in(need.fact, answer) and not fact_in(need.fact, read) for need in episode.needs)


def total(signs: Iterable[Signs]) -> Signs:
    """The signs of many episodes together."""
    found = list(signs)
    return Signs(*(sum(column) for column in zip(*found, strict=True))) if found else Signs()


def alarms(signs: Signs) -> list[str]:
    """List the alarms that ring, in sentences."""
    found = []
    if signs.better:
        found.append(f"{signs.better} episodes came out better than the optimum of their world allows")
    if signs.unseen:
        found.append(f"{signs.unseen} right facts stand in answers although nothing that the agent had read held them")
    if signs.calls >= MIN_CALLS and signs.z > LUCKY_Z:
        found.append(
            f"{signs.worked:.0f} of {signs.calls} first calls worked where {signs.expected:.0f} were to be expected of these "
            f"tools: {signs.z:.1f} standard deviations"
        )
    return found

"""The informed policy: it knows how every tool behaves on average, but not the episode's luck.

Each tool has a `Belief` that starts from its true reliability, knows how often the time-out cuts its calls off, and is updated
by Bayes' rule after every call. Among the tools that serve a need the one with the lowest ``expected price / P(the next call
brings the answer)`` is called. A failure only ever lowers the chance of a tool's next call, so this one-step ratio is the
tool's Gittins index, and calling by it has the least expected cost for one need without limits.

Where it stands to the best policy with this knowledge:

* **Exact** for one need under a price per call, without limits that bind and without outages.
* **A lower bound** otherwise: it is a policy, so the best one is at least as good. With several needs, only their order and the
  moment to give up are rules of thumb; under a limit, it never makes a call after which the rest of the needs could not be
  paid any more, but does not plan which tools fit the limit best; outages are waited out by calling on.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

from costgym.simulators.calls import Candidate
from costgym.simulators.rules.calls import is_warm
from costgym.simulators.rules.gateway import admits
from costgym.simulators.tasks import needed
from costgym.simulators.tools import READ, WRITE
from costgym.simulators.world import World
from costgym.simulators.world.belief import Belief, cut_share, expected_price
from costgym.simulators.world.episode import Episode

_SLACK = 1e-9


class Offer(NamedTuple):
    """A call that could be made next."""

    slot: int
    need: int  # index of the need that it serves
    quote: float  # price in the catalogue
    price: float
    chance: float  # chance that the call brings the fact


def choose_call(offers: Iterable[Offer], missing: Sequence[int], ready: Sequence[bool], left: float, loss: float) -> int | None:
    """The slot to call next by the lowest expected price over chance, or None to stop.

    Needs that are ready are tried in rising order of expected price over the chance that they cannot be had: needs that will
    probably fail are tried before money is spent on others. `loss` is what a unit of price costs beside a pass.
    """
    by_need: dict[int, list[Offer]] = {need: [] for need in missing}
    for offer in offers:
        if offer.need in by_need and offer.quote <= left and offer.chance > 0.0 and offer.price * loss <= offer.chance:
            by_need[offer.need].append(offer)
    if not all(by_need.values()):
        return None
    cheapest = {need: min(offer.quote for offer in offers_of_need) for need, offers_of_need in by_need.items()}
    reserved = sum(cheapest.values())
    if reserved > left + _SLACK:
        return None
    best: tuple[float, int] | None = None
    for need, offers_of_need in by_need.items():
        if not ready[need]:
            continue
        # a call after which the other needs cannot be paid any more is worth nothing
        spare = left - (reserved - cheapest[need]) + _SLACK
        ranked = sorted(
            (offer.price / offer.chance, offer.slot, offer.chance) for offer in offers_of_need if offer.quote <= spare
        )
        missed = 1.0
        for _, _, chance in ranked:
            missed *= 1.0 - chance
        urgency = ranked[0][0] / max(missed, 1e-12)
        if best is None or urgency < best[0]:
            best = (urgency, ranked[0][1])
    return None if best is None else best[1]


class ExpectedOptimumPolicy:
    """Chooses the next call of one episode in a known world; see the module on how good that is.

    `multiplier` is what a unit of price costs beyond its share of the Quality of Plan, as under a constraint on the mean price.
    """

    def __init__(self, world: World, number: int, multiplier: float = 0.0) -> None:
        self._world = world
        self._slots = world.candidates(number)
        self._loss = (1.0 - world.alpha) / (world.max_price * world.alpha) + multiplier / world.alpha
        self._needed = needed(world.tasks[number].needs)
        self._serving = [spec for spec in self._slots if spec.needs and spec.role in (READ, WRITE)]
        self.beliefs = {spec.index: Belief.of(spec, world.failures) for spec in self._serving}
        self._seen = 0

    def learn(self, episode: Episode) -> None:
        """Take the calls that have ended since the last time into account."""
        calls = episode.calls
        for call in calls[self._seen :]:
            if call.k and call.slot in self.beliefs:
                self.beliefs[call.slot].learn(call.status)
        self._seen = len(calls)

    def choose(self, episode: Episode) -> int | None:
        """Choose the slot to call next in an episode with nothing in flight, or None to stop."""
        missing = [need for need, known in enumerate(episode.known) if self._needed[need] and not known]
        remaining = episode.remaining()
        if not missing or remaining.get("calls", inf) < len(missing):
            return None
        ready = [all(episode.known[before] for before in after) for after in (need.after for need in episode.needs)]
        seconds = remaining.get("seconds", inf)
        admitted = [spec for spec in self._serving if admits(episode, episode, 0, spec.index)]
        offers = (self._offer(episode, spec, need, seconds) for spec in admitted for need in spec.needs)
        return choose_call(offers, missing, ready, remaining.get("price", inf), self._loss)

    def _offer(self, episode: Episode, spec: Candidate, need: int, seconds: float) -> Offer:
        belief, world = self.beliefs[spec.index], self._world
        tool = episode.tools[spec.index]
        warm = tool is not None and tool.idle and is_warm(tool.idle[-1], episode.now_s, spec.profile.keep_alive_s)
        loads = bool(spec.profile.cold_start_s) and not warm
        load_s = spec.profile.cold_start_s if loads else 0.0
        chance = belief.chance
        if seconds - load_s < spec.profile.timeout_s:  # the limit ends the episode before the time-out would end the call
            chance = belief.works * (1.0 - cut_share(spec, seconds - load_s))
        quote = episode.quote(spec.index)
        price = expected_price(spec, belief, quote, world.bill_failures, load_s if world.bill_cold_start else 0.0)
        return Offer(spec.index, need, quote, price, chance)

"""An episode whose tools on offer grow as its agent searches the catalogue."""

from collections.abc import Sequence

from costgym.simulators.calls import Candidate
from costgym.simulators.draws import Draws, DrawSource, stable_integer
from costgym.simulators.world.episode import Episode


class OwnDraws(Draws):
    """The uniforms of one tool by itself. They depend on the tool and not on when, or by what search, it was found."""

    def __init__(self, source: DrawSource, seed: int, task: int, tool: int) -> None:
        self._tool_draws = Draws(source, seed, stable_integer(task, "found", tool), 0)
        self.seed, self.task, self.slots = seed, task, 0

    def at(self, k: int, slot: int) -> list[float]:
        return self._tool_draws.at(k, 0)

    def beyond(self, k: int, slot: int) -> list[float]:
        return self._tool_draws.beyond(k, 0)


class OpenEpisode(Episode):
    """A task whose tools on offer grow as its agent searches. Slots of found tools follow those that were there first."""

    __slots__ = ("_draws_by_slot",)
    _draws_by_slot: dict[int, OwnDraws]

    def offer(self, numbers: Sequence[int]) -> list[Candidate]:
        """Offer more tools by their numbers in the catalogue and return the new candidates; those on offer are left out."""
        self._alive()
        self.log.append(("offer", tuple(numbers)))
        known = {candidate.number for candidate in self.candidates}
        return [self._append(number) for number in dict.fromkeys(numbers) if number not in known]

    def _append(self, number: int) -> Candidate:
        world, slot = self.world, len(self.candidates)
        candidate = world.candidate(self.task, slot, world.catalog[number].name)
        if slot == self._draws.slots - 1:
            self._draws_by_slot = {}
        # by the tool and not by the slot: the order of searches must not change a tool's luck
        self._draws_by_slot[slot] = OwnDraws(world._source, self.seed, self.number, number)
        self.candidates = (*self.candidates, candidate)
        self.tools.append(None)
        self.factors.append(1.0)
        if world.events is not None:
            self._announce(candidate)
        return candidate

    def _announce(self, candidate: Candidate) -> None:
        """Let past events that concern a new tool show in it, and announce later ones."""
        assert self.world.events is not None
        for event in self.world.events(self.task, (candidate,)):
            if event.kind == "preference_change":
                continue  # it concerns the user, and is scheduled already
            if event.at_s > self.now_s:
                self.schedule(event.at_s - self.now_s, event)
            elif event.kind == "price_change":
                self.factors[candidate.index] *= event.factor
            elif event.kind == "ban":
                self.banned.add(candidate.index)
            else:
                self.banned.discard(candidate.index)

    def draws_of(self, slot: int) -> Draws:
        return self._draws_by_slot[slot] if slot >= self._draws.slots - 1 > 0 else self._draws

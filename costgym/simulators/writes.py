"""The store of an episode: which effects there are, what the agent has been told of them, and what they cost in the end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from costgym.simulators.status import AMBIGUOUS, Status
from costgym.simulators.tasks import arguments_match, normalise
from costgym.simulators.tools import CHECK, KEY, UNDO, WRITE

if TYPE_CHECKING:
    from costgym.simulators.calls import Call, Candidate
    from costgym.simulators.episode import Episode
    from costgym.simulators.tasks import Need
    from costgym.simulators.tools import Effect

Entity = int | str
"""What an effect is about: the need that wants it, or, for one that nobody wants, the capability and the arguments in words."""


class WriteFigures(NamedTuple):
    """The figures of an episode's final state."""

    state_correct: bool = True  # every wanted effect is there once, and no other is
    duplicates: int = 0  # effects that were made although the same was there already, taken back or not
    uncompensated: int = 0  # effects at the end that nobody wants: second ones of the same, and wrong ones
    money_lost: float = 0.0  # what those are worth, in the scenario's currency


@dataclass(slots=True)
class Record:
    """The effects on one entity."""

    count: int = 0  # effects that were made and not taken back
    since: float = inf  # time from which tools see them, simulated seconds; infinite where there are none
    seen: int = 0  # effects that the agent has been told of
    perhaps: bool = False  # a call has ended ambiguously since the agent last checked
    duplicates: int = 0  # effects made beside one that was there
    amount: float = 0.0

    def make(self, at_s: float) -> None:
        """Take note of a new effect, which tools see from a time on. The entity is visible from the first such time."""
        self.duplicates += self.count > 0
        self.since = min(self.since, at_s)
        self.count += 1

    def undo(self, now_s: float) -> bool:
        """Take one effect back; False where none is visible."""
        if not self.visible(now_s):
            return False
        self.count -= 1
        if not self.count:
            self.since = inf
        return True

    def visible(self, now_s: float) -> int:
        """The number of effects that tools see."""
        return self.count if now_s >= self.since else 0


class Store:
    """The effects of an episode's calls; needs that want a state have the first records."""

    def __init__(self, needs: Sequence[Need]) -> None:
        self.records: dict[Entity, Record] = {i: Record(amount=need.amount) for i, need in enumerate(needs) if need.state}
        self._used: set[tuple[int, str]] = set()

    # -- calls -----------------------------------------------------------------------------------------------------------

    def decide(self, episode: Episode, call: Call, spec: Candidate, luck: float) -> None:
        """Decide whether a call that starts now will take effect when it ends, and on what; see rule 13 of `world`."""
        effect = spec.effect
        assert effect is not None
        if call.status is Status.OK or (call.status in AMBIGUOUS and effect.role != CHECK and luck < effect.happens):
            call.effect = self._entity(episode, call, spec, effect)
        if effect.role != WRITE:
            call.need = -1  # what it tells is known when it ends

    def settle(self, episode: Episode, call: Call, spec: Candidate) -> None:
        """Let a call that ends now take its effect, and note what its end tells the agent."""
        entity, now, effect = call.effect, call.finished_s, spec.effect
        assert effect is not None
        if entity is not None:
            record = self.records.get(entity)
            if record is None:
                amount = max((r.amount for n, r in self.records.items() if n in spec.needs), default=0.0)
                record = self.records[entity] = Record(amount=amount)
            repeated = False
            if effect.role == WRITE:
                repeated = self._repeats(call, effect, entity)
                if not repeated:
                    record.make(now + effect.settles_s)
            elif effect.role == UNDO and not record.undo(now) and call.status is Status.OK:
                call.status = Status.NO_DATA
            if call.status is Status.OK:
                self._tell(call, effect, record, repeated)
                if effect.role == CHECK and isinstance(entity, int) and record.seen:
                    said = {"found": record.seen, effect.of: episode.needs[entity].fact}
                    call.answer = json.dumps(said, ensure_ascii=False)
        told = entity if isinstance(entity, int) else call.aim
        if told in self.records:
            wanted = self.records[told]
            if call.status in AMBIGUOUS and effect.role != CHECK:
                wanted.perhaps = True
            elif call.status is Status.OK and entity == told:
                episode.known[told] = wanted.seen > 0

    def _tell(self, call: Call, effect: Effect, record: Record, repeated: bool) -> None:
        """Note what a call that ended well tells the agent of an entity."""
        if effect.role == WRITE:
            record.seen = max(record.seen, 1) if repeated else record.seen + 1
        elif effect.role == UNDO:
            record.seen = max(0, record.seen - 1)
            call.answer = json.dumps({"status": "taken back"})
        else:
            record.seen, record.perhaps = record.visible(call.finished_s), False
            call.answer = json.dumps({"found": record.seen})

    def _repeats(self, call: Call, effect: Effect, entity: Entity) -> bool:
        """Return whether the tool has met the call's key; a call without arguments has a key of what it is about."""
        if not effect.idempotent:
            return False
        key = f"need {entity}" if call.arguments is None or effect.by_arguments else call.arguments.get(KEY)
        if key is None:
            return False
        place = (call.slot, str(key))
        met = place in self._used
        self._used.add(place)
        return met

    def _entity(self, episode: Episode, call: Call, spec: Candidate, effect: Effect) -> Entity | None:
        """What a call is about; None where the service rejects its arguments."""
        if call.arguments is None:
            ready = all(episode.known[before] for before in episode.needs[call.aim].after) if call.aim >= 0 else False
            return call.aim if ready else None
        world, asked = episode.world, {name: value for name, value in call.arguments.items() if name != KEY}
        for number in spec.needs:
            need = episode.needs[number]
            if arguments_match(asked, need.arguments) if effect.role == WRITE else about(need, asked):
                return number
        if world.answers.answer(world.catalog[spec.number], asked, episode.task) is None:
            return None
        return f"{effect.of} {normalise(asked)}"

    # -- the end ---------------------------------------------------------------------------------------------------------

    def once(self, need: int) -> bool:
        """Return whether a wanted effect is there exactly once."""
        return self.records[need].count == 1

    def clean(self) -> bool:
        """Return whether no effect is there twice, and none that nobody wants."""
        return all(record.count <= isinstance(entity, int) for entity, record in self.records.items())

    def met(self, needs: Sequence[Need], stated: Sequence[bool]) -> tuple[list[bool], bool]:
        """Return for each need whether state and, where asked, answer meet it, and whether nothing is there too much."""
        pairs = enumerate(zip(needs, stated, strict=True))
        return [(self.once(i) and (said or not need.asked)) if need.state else said for i, (need, said) in pairs], self.clean()

    def figures(self, needs: Sequence[Need]) -> WriteFigures:
        """The figures of the present state as if it were the final one; effects that settle later are among them."""
        surplus = {entity: max(0, record.count - isinstance(entity, int)) for entity, record in self.records.items()}
        lost = 0.0
        for entity, count in surplus.items():  # not `sum`, which compensates from Python 3.12 on: kernels add plainly
            lost += count * self.records[entity].amount
        return WriteFigures(
            self.clean() and all(self.once(i) for i, need in enumerate(needs) if need.state and need.required),
            sum(record.duplicates for record in self.records.values()),
            sum(surplus.values()),
            lost,
        )


def about(need: Need, asked: Mapping[str, Any]) -> bool:
    """Return whether a check or an undo is about a wanted effect: by arguments of its own, or by what making it returned."""
    wanted = need.arguments or {}
    return bool(asked) and all(normalise(value) == normalise(wanted.get(name, need.fact)) for name, value in asked.items())

"""The store of an episode: which effects there are, what the agent has been told of them, and what they cost in the end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from costgym.simulators.calls import Call, Candidate
from costgym.simulators.tasks import Need, arguments_match, normalise
from costgym.simulators.tools import CHECK, KEY, UNDO, WRITE

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


class Store:
    """The effects of an episode's calls; needs that want a state have the first records."""

    def __init__(self, needs: Sequence[Need]) -> None:
        self.records: dict[Entity, Record] = {i: Record(amount=need.amount) for i, need in enumerate(needs) if need.state}
        self._used: set[tuple[int, str]] = set()
        self._always: set[int] = set()  # slots of tools that need no key

    def entity_of(self, episode: Any, call: Call, spec: Candidate) -> Entity:
        """What a call is about; -1 where the service rejects its arguments."""
        effect = spec.effect
        assert effect is not None
        if effect.by_arguments:
            self._always.add(call.slot)
        if call.arguments is None:
            ready = all(episode.known[before] for before in episode.needs[call.aim].after) if call.aim >= 0 else False
            return call.aim if ready else -1
        world, arguments = episode.world, {name: value for name, value in call.arguments.items() if name != KEY}
        for number in spec.needs:
            need = episode.needs[number]
            if arguments_match(arguments, need.arguments) if effect.role == WRITE else about(need, arguments):
                return number
        if world.answers.answer(world.catalog[spec.number], arguments, episode.task) is None:
            return -1
        return f"{effect.of} {normalise(arguments)}"

    def record_of(self, entity: Entity, spec: Candidate) -> Record:
        """The effects on an entity; one that nobody wants is worth what the tool's effects are."""
        record = self.records.get(entity)
        if record is None:
            amount = max((r.amount for n, r in self.records.items() if n in spec.needs), default=0.0)
            record = self.records[entity] = Record(amount=amount)
        return record

    def repeats(self, call: Call, entity: Entity) -> bool:
        """Return whether the tool has met the call's key; a call without arguments, or of a tool whose repeats never have a
        second effect, has a key of what it is about."""
        key = f"need {entity}" if call.arguments is None or call.slot in self._always else call.arguments.get(KEY)
        if key is None:
            return False
        met = (call.slot, str(key)) in self._used
        self._used.add((call.slot, str(key)))
        return met

    def describe(self, call: Call, spec: Candidate, needs: Sequence[Need]) -> None:
        """Put into words what a call that ended well tells of an effect."""
        effect, entity = spec.effect, call.effect
        if effect is None or entity == -1:
            return
        if effect.role == UNDO:
            call.answer = json.dumps({"status": "taken back"})
        elif effect.role == CHECK:
            seen = self.records[entity].seen
            more = {effect.of: needs[entity].fact} if isinstance(entity, int) and seen else {}
            call.answer = json.dumps({"found": seen, **more}, ensure_ascii=False)


def about(need: Need, arguments: Mapping[str, Any]) -> bool:
    """Return whether a check or an undo is about a wanted effect: by arguments of its own, or by what making it returned."""
    wanted = need.arguments or {}
    return bool(arguments) and all(
        normalise(value) == normalise(wanted.get(name, need.fact)) for name, value in arguments.items()
    )

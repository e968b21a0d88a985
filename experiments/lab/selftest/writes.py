"""Rule 13, derived again from a log of calls: which effects an episode must have, and what its agent must know of them."""

from collections.abc import Iterator

from ....simulators.calls import Call
from ....simulators.draws import CONTENT
from ....simulators.episode import Episode
from ....simulators.status import Status

_OPEN_ENDS = {"timeout", "connection_error", "server_error", "empty", "irrelevant", "partial", "corrupt", "drifted"}
_WRITES, _CHECKS, _UNDOES = 1, 2, 3


def writes(episode: Episode) -> Iterator[str]:
    """Effects, duplicates, what is known of them, and the grade of the final state, from the calls alone."""
    if episode.store is None:
        return
    ended = [call for call in episode.calls if call.k and call.finished_s >= 0 and call.status is not Status.CANCELLED]
    ended = [call for call in ended if episode.candidates[call.slot].role]
    if any(one.finished_s == other.finished_s for i, one in enumerate(ended) for other in ended[:i]):
        return  # the log does not tell which came first
    wanted = [number for number, need in enumerate(episode.needs) if need.state]
    dependent = {number for number in wanted if episode.needs[number].after}
    made: dict[int, list[float]] = {number: [] for number in wanted}  # since when each effect is seen, of those that are left
    twice, said, keys = dict.fromkeys(wanted, 0), dict.fromkeys(wanted, 0), set[tuple[int, str]]()
    for call in sorted(ended, key=lambda call: call.finished_s):
        tool, number = episode.candidates[call.slot], _about(episode, call)
        if number is None or (effect := tool.effect) is None:
            continue
        if number in dependent:
            return  # whether the arguments could be known then is told by the rules of facts
        fine = call.status is Status.OK
        luck = episode.draws_of(call.slot).at(call.k, call.slot)[CONTENT]
        happened = fine or (call.status.label in _OPEN_ENDS and luck < effect.happens)
        there, seen = made[number], len(made[number]) if made[number] and min(made[number]) <= call.finished_s else 0
        if tool.role == _WRITES and happened:
            key = str(number) if call.arguments is None else call.arguments.get("idempotency_key")
            if effect.idempotent and key is not None and (call.slot, key) in keys:
                said[number] = max(said[number], 1) if fine else said[number]
                continue
            if effect.idempotent and key is not None:
                keys.add((call.slot, key))
            twice[number] += bool(there)
            there.append(call.finished_s + effect.settles_s)
            said[number] += fine
        elif tool.role == _UNDOES and happened:
            if seen:
                there.remove(max(there))
            elif fine:
                yield f"13: {call.tool} took back what was not there"
            said[number] = max(0, said[number] - 1) if fine else said[number]
        elif tool.role == _CHECKS and fine:
            said[number] = seen
    records = episode.store.records
    for number in wanted:
        record = records[number]
        if (record.count, record.duplicates) != (len(made[number]), twice[number]):
            yield f"13: need {number} has {record.count} effects, {record.duplicates} twice; its calls made {made[number]}"
        if episode.known[number] != (said[number] > 0):
            yield f"13: need {number} is {'known' if episode.known[number] else 'unknown'}, and {said[number]} were told of"
    once = all(len(made[number]) == 1 for number in wanted if not episode.needs[number].optional)
    unwanted = any(isinstance(entity, str) and record.count for entity, record in records.items())
    if episode.grade is not None and episode.grade.strict and (not once or unwanted):
        yield "13: an episode passed although its final state is wrong"


def _about(episode: Episode, call: Call) -> int | None:
    """The wanted effect that a call is about; None for another one, or where its arguments are not these."""
    tool = episode.candidates[call.slot]
    if call.arguments is None:
        return call.aim if call.aim >= 0 and episode.needs[call.aim].state else None
    given = {name: value for name, value in call.arguments.items() if name != "idempotency_key"}
    for number in tool.needs:
        arguments = dict(episode.needs[number].arguments or {})
        if given == arguments and episode.needs[number].state:
            return number
    return None

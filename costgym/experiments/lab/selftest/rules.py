"""The rules of `simulators.world`, checked on an episode from its calls, charges and luck alone.

Nothing here asks the simulator what it did in between: each rule is derived again from the world's document, the table of the
episode's uniforms and what the episode shows at its end.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from costgym.simulators.calls import CONNECTION_REFUSED_S, QUANTILES, Call, WorldEvent
from costgym.simulators.draws import CONTENT, DURATION, KIND, OUTCOME, DrawSource
from costgym.simulators.episode import Episode
from costgym.simulators.failures import pick, state_chances
from costgym.simulators.status import Status
from costgym.simulators.tasks import Need
from costgym.simulators.tools import UNDO

REFUSALS = frozenset(status for status in Status if 10 <= status <= 16 or 30 <= status <= 31)
_WHOLE = 1e-9  # relative tolerance where sums may be taken in another order


def close(a: float, b: float, scale: float = 0.0) -> bool:
    """Return whether two numbers are equal but for rounding; `scale` is the size of what they were computed from."""
    return abs(a - b) <= _WHOLE * max(1e-6, abs(a), abs(b), abs(scale))


class Luck:
    """The uniforms of an episode, drawn again, and what follows from them."""

    def __init__(self, episode: Episode) -> None:
        self._source, self._episode, self._slots = DrawSource(), episode, len(episode.candidates) + 1
        self._rows: dict[int, list[list[float]]] = {}
        self._outages: list[tuple[float, float]] = []

    def row(self, k: int, slot: int) -> list[float]:
        """Return the uniforms of the k-th call in a slot."""
        if k not in self._rows:
            self._rows[k] = self._source.rows(self._episode.seed, self._episode.number, self._slots, k, 1)[0]
        return self._rows[k][slot]

    def works(self, slot: int, count: int) -> list[bool]:
        """Return whether each of a tool's first calls finds it working."""
        tool = self._episode.candidates[slot]
        alive, degraded = state_chances(tool.profile.reliability, tool.slip)
        first = self.row(0, slot)[OUTCOME]
        base = 1 - tool.slip if first < alive else 0.5 if first < alive + degraded else tool.slip
        found: list[bool] = []
        for k in range(1, count + 1):
            chance = base
            if found:
                pull = tool.persistence
                chance = base + pull * (1 - base) if found[-1] else base - pull * base
            found.append(self.row(k, slot)[OUTCOME] < chance)
        return found

    def failure(self, slot: int, k: int) -> Status:
        """Return how a call fails if it does."""
        world, luck = self._episode.world, self.row(k, slot)[KIND]
        sticky = world.failures.sticky
        usual = self.row(0, slot)[KIND]
        return pick(world.kinds, usual if luck < sticky else (luck - sticky) / (1 - sticky))

    def outage(self, at_s: float, tool: str) -> bool:
        """Return whether the platform is down for a tool."""
        model, spans = self._episode.world.failures.bursts, self._outages
        if model is None or not model.concerns(tool):
            return False
        while not spans or spans[-1][1] <= at_s:
            row = self.row(len(spans), self._slots - 1)
            begin = spans[-1][1] if spans else 0.0
            if spans or row[DURATION] >= model.at_first:  # else an outage is under way
                gap = row[DURATION] if spans else (row[DURATION] - model.at_first) / (1 - model.at_first)
                begin -= model.every_s * math.log(1 - gap)
            spans.append((begin, begin - model.lasts_s * math.log(1 - row[CONTENT])))
        return any(begin <= at_s < end for begin, end in spans)

    def far(self, at_s: float) -> bool:
        """Return whether a time is too far to look for outages until then."""
        model = self._episode.world.failures.bursts
        return model is not None and at_s > 20_000 * model.every_s


def broken_rules(episode: Episode) -> Iterator[str]:
    """Say in words which rules an episode breaks; its number stands first."""
    luck = Luck(episode)
    yield from _money(episode)
    yield from _gateway(episode)
    for slot in range(len(episode.candidates)):
        calls = [call for call in episode.calls if call.slot == slot and call.k]
        yield from _limits(episode, slot, calls)
        yield from _slots(episode, slot, calls)
        yield from _instances(episode, slot, calls)
        yield from _outcomes(episode, slot, calls, luck)
    yield from _machine(episode)
    yield from _memory(episode)
    yield from _bans(episode)
    yield from _facts(episode)
    yield from _budgets(episode)
    yield from _grade(episode, luck)
    yield from writes(episode)


def _money(episode: Episode) -> Iterator[str]:
    ledger, begun = episode.ledger, [call for call in episode.calls if call.started_s >= 0 and call.finished_s >= 0]
    executed = [call for call in begun if call.ready_s <= call.finished_s]  # the others were cut off while they loaded
    charges = list(ledger)
    if any(a.at_s > b.at_s for a, b in pairwise(charges)):
        yield "1: charges run back in time"
    if not close(sum(charge.price for charge in charges), ledger.price):
        yield f"8: the charges sum up to {sum(charge.price for charge in charges)!r}, the ledger says {ledger.price!r}"
    if ledger.calls != len(executed) or sum(charge.calls for charge in charges) != ledger.calls:
        yield f"8: {len(executed)} calls ran, {ledger.calls} are charged"
    if ledger.attempts != len(episode.calls):
        yield f"2: {len(episode.calls)} calls were asked for, {ledger.attempts} counted"
    paid = [call for call in begun if call.ready_s <= call.finished_s or call.price]
    if sorted((call.finished_s, call.tool, call.price) for call in paid) != sorted(
        (charge.at_s, charge.what, charge.price) for charge in charges if charge.what != "think"
    ):
        yield "8: calls are not charged at their ends, at their prices"
    for call in begun:
        spec, world = episode.candidates[call.slot], episode.world
        if call.factor not in _factors(episode, call):
            yield f"8: {call.tool} is priced times {call.factor!r} at {call.started_s!r} s"
        begin = call.started_s if world.bill_cold_start else call.ready_s
        billed = max(0.0, call.finished_s - begin)
        price = call.factor * ((spec.fee if call.ready_s <= call.finished_s else 0.0) + spec.rate_per_s * billed)
        if not world.bill_failures and call.status >= 32 and call.status is not Status.CANCELLED:
            price = 0.0
        scale = call.factor * (spec.fee + spec.rate_per_s * call.finished_s)
        if not close(call.price, price, scale):
            yield f"8: {call.tool} ({call.status.label}) cost {call.price!r}, expected {price!r}"


def _factors(episode: Episode, call: Call) -> set[float]:
    """Return the factors that a call's price may have; events at the very time of its start may come before or after it."""
    found, factor = set(), 1.0
    for notice in _in_time(episode):
        if notice.at_s >= call.started_s:
            found.add(factor)
        if notice.at_s > call.started_s:
            break
        if notice.kind == "price_change" and call.slot in notice.slots:
            factor *= notice.factor
    return found | {factor}


def _gateway(episode: Episode) -> Iterator[str]:
    for call in episode.calls:
        if call.k:
            continue
        if call.status not in REFUSALS:
            yield f"2: {call.tool} was refused as {call.status.label}"
        if call.started_s >= 0 or call.price:
            yield f"2: {call.tool} was refused, and ran or cost something"
        took = call.finished_s - call.submitted_s
        if not close(took, episode.world.gateway_s, call.finished_s) and not (episode.over and took < episode.world.gateway_s):
            yield f"2: a refusal took {took!r} s"


def _limits(episode: Episode, slot: int, calls: Sequence[Call]) -> Iterator[str]:
    spec = episode.candidates[slot]
    if spec.profile.quota and len(calls) > spec.profile.quota:
        yield f"3: {spec.name} admitted {len(calls)} calls of a quota of {spec.profile.quota}"
    admitted: list[float] = []
    for call in (call for call in episode.calls if call.slot == slot):
        if spec.profile.rate_limit:
            recent = [at for at in admitted if at > call.submitted_s - spec.profile.window_s]
            if call.k and len(recent) >= spec.profile.rate_limit:
                yield f"3: {spec.name} admitted a call at {call.submitted_s!r} s beyond its rate limit"
            if call.status is Status.RATE_LIMITED and len(recent) < spec.profile.rate_limit:
                yield f"3: {spec.name} refused a call at {call.submitted_s!r} s within its rate limit"
        if call.k:
            admitted.append(call.submitted_s)
        if call.status is Status.QUOTA_EXCEEDED and len(admitted) < spec.profile.quota:
            yield f"3: {spec.name} refused a call within its quota"
    if [call.k for call in calls] != list(range(1, len(calls) + 1)):
        yield f"3: the calls of {spec.name} are not numbered in order"


def _slots(episode: Episode, slot: int, calls: Sequence[Call]) -> Iterator[str]:
    spec = episode.candidates[slot]
    started = [call for call in calls if call.started_s >= 0]
    for call in started:
        if call.started_s < call.submitted_s or (0 <= call.finished_s < call.started_s):
            yield f"1: a call of {spec.name} ran before it was asked for, or backwards"
        if spec.profile.concurrency:
            beside = [c for c in started if c.started_s <= call.started_s and c.k < call.k and _runs_at(c, call.started_s)]
            if len(beside) >= spec.profile.concurrency:
                yield f"4: {spec.name} ran {len(beside) + 1} calls at once, of {spec.profile.concurrency}"
    if any(a.started_s > b.started_s for a, b in pairwise(started)):
        yield f"4: calls of {spec.name} overtook each other"
    if not spec.profile.concurrency and episode.world.slots is None and episode.world.gpu_capacity_mb is None:
        for call in started:
            if call.started_s != call.submitted_s:
                yield f"4: a call of {spec.name} waited for nothing"


def _runs_at(call: Call, at_s: float) -> bool:
    return call.started_s <= at_s and (call.finished_s < 0 or call.finished_s > at_s)


def _machine(episode: Episode) -> Iterator[str]:
    slots = episode.world.slots
    if slots is None:
        return
    started = [call for call in episode.calls if call.k and call.started_s >= 0]
    for call in started:
        beside = [other for other in started if other is not call and _runs_at(other, call.started_s)]
        if len(beside) >= slots and call.finished_s != call.started_s:
            yield f"4: {len(beside) + 1} calls ran at once at {call.started_s!r} s, of {slots}"


def _memory(episode: Episode) -> Iterator[str]:
    capacity = episode.world.gpu_capacity_mb
    if capacity is None:
        return
    running = [call for call in episode.calls if call.started_s >= 0 and episode.candidates[call.slot].gpu_mb]
    for call in running:
        used = sum(episode.candidates[other.slot].gpu_mb for other in running if _runs_at(other, call.started_s))
        own = episode.candidates[call.slot].gpu_mb
        if used > capacity * (1 + _WHOLE) and used > own * (1 + _WHOLE) and call.finished_s != call.started_s:
            yield f"4: {used!r} MB are taken at {call.started_s!r} s, of {capacity!r}"


def _instances(episode: Episode, slot: int, calls: Sequence[Call]) -> Iterator[str]:
    spec = episode.candidates[slot]
    idle: list[float] = []
    ends = sorted(call.finished_s for call in calls if call.finished_s >= 0 and call.started_s >= 0)
    for call in sorted((call for call in calls if call.started_s >= 0), key=lambda call: (call.started_s, call.k)):
        while ends and ends[0] < call.started_s:
            idle.append(ends.pop(0))
        tied = bool(ends) and ends[0] == call.started_s
        warm = bool(idle) and call.started_s - idle[-1] <= spec.profile.keep_alive_s
        if not spec.profile.cold_start_s:
            if call.cold or call.ready_s != call.started_s:
                yield f"5: {spec.name} has no cold start, and started cold"
            continue
        if tied:
            return  # an instance became idle at this very moment: the order of causes decides, which is not seen from here
        if call.cold is warm:
            yield f"5: {spec.name} started {'cold' if call.cold else 'warm'} at {call.started_s!r} s"
        if warm:
            idle.pop()
        else:
            idle.clear()
        if call.ready_s != call.started_s + (spec.profile.cold_start_s if call.cold else 0.0):
            yield f"5: {spec.name} was ready at {call.ready_s!r} s"


def _outcomes(episode: Episode, slot: int, calls: Sequence[Call], luck: Luck) -> Iterator[str]:
    spec, started = episode.candidates[slot], [call for call in calls if call.started_s >= 0]
    works = luck.works(slot, max((call.k for call in started), default=0))
    for call in started:
        if call.finished_s < 0 or call.status is Status.CANCELLED:
            continue
        row = luck.row(call.k, slot)
        duration = spec.latency_s * spec.factors[int(row[DURATION] * QUANTILES)]
        if luck.far(call.ready_s):
            continue
        if luck.outage(call.ready_s, spec.name):
            expected = {Status.OUTAGE}
        elif not works[call.k - 1]:
            expected = {luck.failure(slot, call.k)}
        else:
            expected = {Status.OK, Status.WRONG_ARGUMENTS if row[CONTENT] < 0.5 else Status.NO_DATA}
            if spec.role == UNDO:
                expected.add(Status.NO_DATA)  # there was nothing to take back
        if expected == {Status.CONNECTION_ERROR}:
            duration = CONNECTION_REFUSED_S
        elif Status.TIMEOUT in expected or duration > spec.profile.timeout_s:
            expected, duration = {Status.TIMEOUT}, spec.profile.timeout_s
        if call.status not in expected:
            yield f"7: call {call.k} of {spec.name} ended as {call.status.label}, expected {[each.label for each in expected]}"
        if not close(call.finished_s - call.ready_s, duration, call.finished_s):
            yield f"6: call {call.k} of {spec.name} took {call.finished_s - call.ready_s!r} s, expected {duration!r}"


def _bans(episode: Episode) -> Iterator[str]:
    events = [each for each in _in_time(episode) if each.kind in ("ban", "unban")]
    for call in episode.calls:
        if call.slot < 0 or call.reason or any(each.at_s == call.submitted_s for each in events):
            continue  # refused for a reason of its own, or asked for at the very time of an event
        banned = False
        for each in events:
            if each.at_s < call.submitted_s and call.slot in each.slots:
                banned = each.kind == "ban"
        if banned != (call.status is Status.BANNED):
            yield f"7: {call.tool} was {'let through' if banned else 'refused'} {'in' if banned else 'outside'} a ban"


def _in_time(episode: Episode) -> list[WorldEvent]:
    return sorted(episode.world.notices(episode.number), key=lambda event: event.at_s)


class Wishes:
    """The user's wish for each need over time."""

    def __init__(self, episode: Episode) -> None:
        self._needs = episode.task.needs
        self._changes = [event for event in _in_time(episode) if event.kind == "preference_change" and event.need >= 0]

    def tied(self, *times: float) -> bool:
        """Return whether a wish may change at the very time of something else."""
        return any(event.at_s == at_s for event in self._changes for at_s in times)

    def at(self, number: int, at_s: float) -> tuple[Need, int]:
        """Return a need as it is at a time, and how often it has changed."""
        need, version = self._needs[number], 0
        for event in self._changes:
            if event.need == number and event.at_s < at_s and need.alternative is not None:
                need, version = need.alternative, version + 1
        return need, version


def _first_open(needs: Sequence[int], found: list[tuple[int, float, int]], wishes: Wishes, at_s: float, at: int) -> int:
    """The first need without its fact and with what it builds on, counting facts found at that very time or not (`at`)."""
    until = math.nextafter(at_s, math.inf) if at else at_s

    def known(number: int) -> bool:
        return any(need == number and end < until and version == wishes.at(number, at_s)[1] for need, end, version in found)

    for number in needs:
        if not known(number) and all(known(before) for before in wishes.at(number, at_s)[0].after):
            return number
    return needs[0]


def _facts(episode: Episode) -> Iterator[str]:
    """A working call gives the fact if it is asked for as the user wants it and what it builds on is known."""
    if any(need.state for need in episode.needs):
        return  # what is known of an effect follows from other rules; see `writes`
    wishes, found = Wishes(episode), list[tuple[int, float, int]]()  # need, time, version

    def known(number: int, at_s: float) -> bool:
        return any(need == number and end < at_s and version == wishes.at(number, at_s)[1] for need, end, version in found)

    ran = [call for call in episode.calls if call.started_s >= 0 and call.finished_s >= 0]
    useful = [call for call in ran if episode.candidates[call.slot].need >= 0]
    for call in sorted(useful, key=lambda call: call.finished_s):
        if wishes.tied(call.submitted_s, call.started_s, call.finished_s):
            return
        number, needs = call.aim, episode.candidates[call.slot].needs
        if call.arguments is None and number not in {_first_open(needs, found, wishes, call.submitted_s, at) for at in (0, 1)}:
            yield f"7: {call.tool} was asked for need {number}, which is not the first of {needs} that is open"
        need, version = wishes.at(number, call.started_s)
        if call.arguments is None:
            if any(end == call.started_s for _, end, _ in found):
                return
            right = all(known(before, call.started_s) for before in need.after)
        else:
            right = all(call.arguments.get(name) == value for name, value in (need.arguments or {}).items())
        if call.status is Status.OK and right:
            if version == wishes.at(number, call.submitted_s)[1]:
                found.append((number, call.finished_s, version))
        elif call.status is Status.OK and call.arguments is None:
            yield f"7: {call.tool} answered what builds on a fact that was not known"
        elif right and call.status in (Status.WRONG_ARGUMENTS, Status.NO_DATA):
            yield f"7: {call.tool} was asked for what the user wants and answered {call.status.label}"
    if wishes.tied(episode.now_s):
        return
    for number, said in enumerate(episode.known):
        if said != known(number, math.nextafter(episode.now_s, math.inf)):
            yield f"7: fact {number} is {'known' if said else 'unknown'}, and its calls say otherwise"


def _budgets(episode: Episode) -> Iterator[str]:
    budget, ledger, mode = episode.budget, episode.ledger, episode.enforcement
    ended_by_answer = any(entry[0] == "finish" for entry in episode.log)
    over = budget.exceeded(ledger.price, episode.now_s if episode.over else 0.0, ledger.tokens, ledger.calls)
    if mode == "record":
        if episode.over and not ended_by_answer:
            yield "11: an episode whose limits are only recorded was ended by one"
    elif budget.seconds is not None and episode.now_s > budget.seconds * (1 + _WHOLE):
        yield f"11: the clock stands at {episode.now_s!r} s beyond a limit of {budget.seconds!r}"
    if mode != "record" and not episode.over and over:
        yield f"11: the limit of {over} is passed and the episode goes on"
    spent = {"price": ledger.price, "seconds": episode.now_s, "tokens": ledger.tokens, "calls": ledger.calls}
    said = episode.exceeded  # the limit that ended it; calls that were cut off may then have passed another
    at_limit = said == "seconds" and mode != "record"
    if episode.over and (bool(said) != bool(over) or (said and spent[said] <= dict(budget.items())[said])) and not at_limit:
        yield f"11: {said} is said to be exceeded, and {over} is"
    fixed = episode.world.faas is None and not episode.world.notices(episode.number)
    if mode == "refuse" and fixed and not any(charge.what == "think" for charge in ledger):
        if budget.price is not None and ledger.price > budget.price * (1 + _WHOLE):
            yield f"11: {ledger.price!r} was spent of {budget.price!r} that cannot be overdrawn"
        if budget.calls is not None and ledger.calls > budget.calls:
            yield f"11: {ledger.calls} calls ran of {budget.calls!r}"


def _grade(episode: Episode, luck: Luck) -> Iterator[str]:
    grade, answers = episode.grade, [entry for entry in episode.log if entry[0] == "finish"]
    if episode.over != (grade is not None):
        yield "12: only an episode that has ended is graded"
    if not answers or grade is None:
        return
    _, answer, gave_up = answers[-1]
    if answer is None and not any(need.state for need in episode.needs):
        asked = [known for known, need in zip(episode.known, episode.needs, strict=True) if need.asked and not need.optional]
        share = sum(asked) / len(asked)
        if not close(grade.share, share) or grade.strict != (share == 1 and not gave_up):
            yield f"12: {sum(asked)} of {len(asked)} required facts were graded as {grade}"
    judge: Any = episode.world.judge
    chance = judge.chance(grade.share, episode.task.solvable)
    clean = episode.store is None or episode.store.clean()
    if grade.judged != (not gave_up and clean and luck.row(0, len(episode.candidates))[KIND] < chance):
        yield f"12: the judge's verdict is {grade.judged} at a chance of {chance!r}"


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
        if given == dict(episode.needs[number].arguments or {}) and episode.needs[number].state:
            return number
    return None

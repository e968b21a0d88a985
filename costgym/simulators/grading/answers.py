"""Grade a final answer: which facts it states, and how much of what it states was asked for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from costgym.simulators.grading.facts import TIMES, Fact, Span, comparable, fact_of, same_value, spans_of
from costgym.simulators.grading.values import MAX_CHARACTERS, Value, cleaned, values_in
from costgym.simulators.tasks import fact_in, normalise

if TYPE_CHECKING:
    from costgym.simulators.tasks import Need

OTHER_KINDS = 5  # values of other kinds that an answer may state before each further one counts as not asked for
_NOT = re.compile(r"(?:\bnot|n't|\bnever|\brather than|\binstead of)(?: (?:the|a|an|at|on|from|by))?\s\W?$")
_OR = re.compile(r"\W{0,3}\s?(?:and/)?or(?: (?:maybe|perhaps|possibly|else))?\s\W{0,3}")
_NAMES = re.compile(r"[A-ZÀ-Þ][\w'-]+(?: [A-ZÀ-Þ]\.)?(?: [A-ZÀ-Þ][\w'-]+)+")
_QUOTED = re.compile(r'["“]([^"“”\n]{0,300})["”](\s*:)?')
_SMALL = 10  # a plain number below it counts items or steps more often than it states a fact


@dataclass(frozen=True, slots=True)
class AnswerReading:
    """The facts that an answer states."""

    present: tuple[bool, ...]  # for each need, whether the answer states its fact
    stated: int  # number of present facts that were asked for
    wanted: int  # number of facts that were asked for
    stray: int  # number of values that the answer states and nobody asked for

    @property
    def precision(self) -> float:
        """Share of the values stated that were asked for, 0 to 1; 1 for an answer that states nothing."""
        return self.stated / (self.stated + self.stray) if self.stray else 1.0

    @property
    def precise(self) -> bool:
        """The answer states at most one value beside each fact that was asked for: it is not a dump of what was seen."""
        return self.stray <= self.wanted


def read_answer(needs: Sequence[Need], answer: str, query: str = "") -> AnswerReading:
    """Read a final answer under the needs as they are now.

    A fact that the answer denies ("not 11.2") or leaves open ("11.2 or 15.4") is not stated. Values that stand in the query, in
    a need's wish or arguments, or are facts of other needs, may be repeated.
    """
    if any(need.fact_type == "words" for need in needs):
        text = normalise(answer)
        present = tuple(any(fact_in(fact, text) for fact in (need.fact, *need.accept)) for need in needs)
        return AnswerReading(present, sum(present), len(present), 0)
    text = cleaned(answer)
    values = values_in(text)
    covered, asked_facts = [], []
    stated_at = []
    for need in needs:
        facts = facts_of(need)
        stated_at.append([span for fact in facts for span in spans_of(fact, text, values)])
        covered += stated_at[-1]
        if need.asked or need.optional:
            asked_facts += facts
    found_facts = [
        any(_asserted(span, text, values) for span in spans) and not (need.rivals and _open(need, text, spans, covered))
        for need, spans in zip(needs, stated_at, strict=True)
    ]
    stated = sum(present and (need.asked or need.optional) for present, need in zip(found_facts, needs, strict=True))
    query_values = _request_values(query, tuple(_request_texts(needs)))
    stray = _strays(answer, values, covered, asked_facts, query_values)
    if len(answer) > MAX_CHARACTERS:
        stray = max(stray, len(answer))
    wanted = sum(need.asked or need.optional for need in needs)
    return AnswerReading(tuple(found_facts), stated, wanted, stray)


def read_facts(needs: Sequence[Need], known: Sequence[bool], answer: str | None, query: str) -> tuple[list[bool], float]:
    """Return for each need whether the answer states its fact (never for a dump), and the precision.

    The answer None states every fact that is known and nothing else.
    """
    hits, precision = known, 1.0
    if answer is not None:
        reading = read_answer(needs, answer, query)
        hits, precision = reading.present if reading.precise else [False] * len(needs), reading.precision
    return list(hits), precision


def states(need: Need, text: str) -> bool:
    """Return whether a text states a need's fact, in any of the accepted forms."""
    if need.fact_type == "words":
        return fact_in(need.fact, normalise(text))
    plain = cleaned(text)
    values = values_in(plain)
    return any(True for fact in facts_of(need) for _ in spans_of(fact, plain, values))


def facts_of(need: Need) -> list[Fact]:
    """The fact of a need and what else is accepted in its place."""
    others = [fact_of(text) for text in need.accept]
    return [fact_of(need.fact, need.fact_type, need.tolerance), *others]


def _open(need: Need, text: str, spans: Sequence[Span], covered: Sequence[Span]) -> bool:
    """Return whether an answer leaves open what it says of a need: its fact stands only within another need's, or something
    stands beside it that could be meant as well."""
    apart = [span for span in spans if not any(_within(span, other) and span != other for other in covered)]
    rivals = [span for rival in need.rivals for span in spans_of(fact_of(rival), text, ())]
    return not apart or not all(any(_within(rival, span) for span in covered) for rival in rivals)


def _within(part: Span, whole: Span) -> bool:
    return whole[0] <= part[0] and part[1] <= whole[1]


def _asserted(span: Span, text: str, values: Sequence[Value]) -> bool:
    """Return whether a place states its value: it is neither denied nor one of several to choose from."""
    start, end = span
    if _NOT.search(text, max(0, start - 24), start):
        return False
    here = next((value for value in values if (value.start, value.end) == span), None)
    if here is None:
        return True
    after, before = _OR.match(text, end), None
    for value in values:
        rival = value.kind == here.kind and not same_value(here, value) and comparable(here, value)
        if rival and after is not None and value.start == after.end():
            return False
        if rival and value.end <= start and (before := _OR.match(text, value.end)) and before.end() == start:
            return False
    return True


# -- values that nobody asked for ----------------------------------------------------------------------------------------


def _request_texts(needs: Sequence[Need]) -> Iterator[str]:
    for need in needs:
        yield need.wish
        for value in (need.arguments or {}).values():
            yield str(value)
        if need.alternative is not None:
            yield need.alternative.wish


@lru_cache(maxsize=2048)
def _request_values(query: str, request_texts: tuple[str, ...]) -> tuple[tuple[Value, ...], str]:
    texts = [cleaned(text) for text in (query, *request_texts)]
    return tuple(value for text in texts for value in values_in(text)), " \n ".join(texts)


def _strays(
    answer: str,
    values: Sequence[Value],
    covered: Collection[Span],
    asked_facts: Sequence[Fact],
    query_values: tuple[Sequence[Value], str],
) -> int:
    """Count the values that are neither facts nor repeated from the request; equal ones once."""
    request_values, request_text = query_values
    rivals: set[Any] = set()
    others: set[Any] = set()
    numbers = [fact.value for fact in asked_facts if fact.type == "number" and fact.value is not None]
    codes = any(fact.type == "identifier" for fact in asked_facts)
    times = any(fact.type in TIMES for fact in asked_facts)
    for value in values:
        if any(start < value.end and value.start < end for start, end in covered):
            continue
        if any(same_value(value, other) or same_value(other, value) for other in request_values):
            continue
        if value.kind == "number":
            if not value.quantity and all(abs(reading) < _SMALL and reading == int(reading) for reading in value.readings):  # type: ignore[arg-type]
                continue
            counts = any(comparable(number, value) for number in numbers)
        else:
            counts = codes if value.kind == "code" else times
        (rivals if counts else others).add((value.kind, value.readings, value.unit))
    worded = any(fact.type in ("name", "text", "identifier") for fact in asked_facts)
    facts = [fact.plain for fact in asked_facts]
    head = answer[:MAX_CHARACTERS]
    quoted = [inner for inner, colon in _QUOTED.findall(head) if len(inner) > 1 and not colon]  # with a colon it is a key
    for written in (*_NAMES.findall(head), *quoted):
        plain = cleaned(written)
        valued = values_in(plain) if any(map(str.isdigit, plain)) else ()
        if plain in request_text or any(fact in plain or plain in fact for fact in facts) or valued:
            continue
        (rivals if worded else others).add(plain)
    return len(rivals) + max(0, len(others) - OTHER_KINDS)

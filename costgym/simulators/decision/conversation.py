"""Queries in users' words: some need no tool, and some ask for one fact in other words than the documentation's.

Queries of the first kind are small talk, knowledge, advice, writing, code and sums. They share subjects, openings and turns
of phrase with those of the second, so that no single word gives a query's kind away.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from costgym.simulators.marketplace.entities import words
from costgym.simulators.marketplace.tasks import Luck
from costgym.simulators.marketplace.vocabulary import vocabulary

_BLANK = re.compile(r"\{(\w+?)(?:_2)?\}")
OPENER_SHARE = 0.35  # share of the queries, of either kind, that begin with a sentence about the user's situation


TERSE_SHARE, LEAD_SHARE = 0.25, 0.4
"""Share of the queries for a fact that are keywords only, and share of the others that begin with a turn of phrase."""
REWORD_SHARE = 0.6  # chance that a phrase is replaced by the one that users have for it


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((Path(__file__).parent / "conversation.json").read_text(encoding="utf-8"))
    return document


@cache
def _phrases() -> re.Pattern[str]:
    longest_first = sorted(_document()["say"], key=lambda phrase: (-len(phrase), phrase))
    return re.compile(rf"(?<![\w{{])({'|'.join(map(re.escape, longest_first))})(?![\w}}])")


def _fillers(name: str) -> Sequence[str]:
    names = {"city": "cities", "country": "countries", "topic": "topics", "person": "first"}
    return words()[names[name]] if name in names else _document()[name + "s"]


def general_query(luck: Luck) -> str:
    """Make a query that can be answered without any tool."""
    template = luck.pick(_document()["ask"])
    blanks: dict[str, str] = {}
    for match in _BLANK.finditer(template):
        key = match.group(0)[1:-1]
        options = [word for word in _fillers(match.group(1)) if word not in blanks.values()]
        blanks[key] = luck.pick(options)
    text = template.format(**blanks)
    if luck.uniform() < LEAD_SHARE:
        text = f"{luck.pick(_document()['leads'])} {text[0].lower() if text[1] != ' ' else text[0]}{text[1:]}"
    return f"{luck.pick(vocabulary().categories).opener} {text}" if luck.uniform() < OPENER_SHARE else text


def arithmetic(luck: Luck) -> tuple[str, int]:
    """Make a query for a sum that has one whole number as its answer, which does not stand in the query."""
    one, two, some = 12 + luck.below(88), 13 + luck.below(87), 3 + luck.below(7)
    sums = (
        (f"{one} times {two}", one * two),
        (f"a {5 * some} percent tip on {20 * one}", some * one),
        (f"{some} to the power of 4", some**4),
        (f"the square root of {two * two}", two),
        (f"a third of {3 * one * some}", one * some),
        (f"the sum of the numbers from 1 to {one}", one * (one + 1) // 2),
    )
    text, answer = luck.pick(sums)
    asking = [template for template in _document()["ask"] if "{sum}" in template and "steps" not in template]
    return luck.pick(asking).format(sum=text), answer


def tool_query(wish: str, opener: str, luck: Luck) -> str:
    """Make a query for one fact."""
    if luck.uniform() < TERSE_SHARE:
        text = re.sub(r"\b[Tt]he ", "", wish) + "?"
        text = text[0].upper() + text[1:]
    else:
        text = luck.pick(_document()["want"]).format(wish=wish)
    return f"{opener} {text}" if luck.uniform() < OPENER_SHARE else text


def reword(wish: str, luck: Luck) -> str:
    """Put a wish (a noun phrase) into a user's words, in place of the documentation's; what stands in braces is left alone."""

    def other(match: re.Match[str]) -> str:
        phrase = match.group(1)
        return luck.pick(_document()["say"][phrase]) if luck.uniform() < REWORD_SHARE else phrase

    return _phrases().sub(other, wish)

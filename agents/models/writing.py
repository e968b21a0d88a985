"""Write facts in the forms in which people and models write them, so that a simulated model's answers have to be read."""

from collections.abc import Sequence
from datetime import datetime

from ...simulators.grading import type_of

PLAIN_SHARE = 0.4
"""Share of the facts that are written as they were read."""
_MOMENT = "%Y-%m-%d %H:%M"


def written(fact: str, fact_type: str, luck: float) -> str:
    """Write a fact in one of the forms of its type.

    Args:
        fact: The fact as a tool returned it.
        fact_type: Its type; empty for the one that its writing shows.
        luck: Uniform in [0, 1) that chooses the form.

    >>> [written("527911", "", luck) for luck in (0.1, 0.5, 0.7, 0.9)]
    ['527911', '527,911', '**527911**', '**527,911**']
    """
    if luck < PLAIN_SHARE:
        return fact
    forms = _forms(fact, fact_type or type_of(fact))
    return forms[int((luck - PLAIN_SHARE) / (1.0 - PLAIN_SHARE) * len(forms))]


def _forms(fact: str, fact_type: str) -> Sequence[str]:
    if fact_type == "number":
        grouped = _grouped(fact)
        return (grouped, f"**{fact}**", f"**{grouped}**")
    if fact_type == "identifier":
        return (f"`{fact}`", f"**{fact}**", fact)
    if fact_type in ("date", "moment"):
        return _days(fact, fact_type)
    return (f"**{fact}**", f'"{fact}"', f"“{fact}”")


def _grouped(number: str) -> str:
    """A number with commas between its thousands; whatever stands behind it, such as a unit, stays."""
    digits = len(number) - len(number.lstrip("0123456789"))
    return f"{int(number[:digits]):,}{number[digits:]}" if digits else number


def _days(fact: str, fact_type: str) -> Sequence[str]:
    try:
        moment = datetime.strptime(fact, _MOMENT if fact_type == "moment" else _MOMENT[:8])
    except ValueError:
        return (fact,)
    # without the platform's locale, which would translate the names
    month = MONTHS[moment.month - 1]
    days = (f"{month} {moment.day}, {moment.year}", f"{moment.day} {month[:3]} {moment.year}", f"{moment:%Y/%m/%d}")
    if fact_type == "date":
        return days
    half = f"{moment.hour % 12 or 12}:{moment.minute:02d} {'AM' if moment.hour < 12 else 'PM'}"
    return (f"{days[0]} at {half}", f"{days[1]}, {moment:%H:%M}", fact.replace(" ", "T"))


MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip

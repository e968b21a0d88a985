"""What scheduled events change: prices, what may be called, and what the user wants."""

from typing import Any


def change_terms(terms: Any, event: Any) -> bool:
    """Let an event change terms: `factors` on prices, slots that are `banned`, `needs` and their `versions`.

    Returns False where there is nothing that it could change: a changed wish that has no alternative.
    """
    if event.kind == "price_change":
        for slot in event.slots:
            terms.factors[slot] *= event.factor
    elif event.kind == "ban":
        terms.banned.update(event.slots)
    elif event.kind == "unban":
        terms.banned.difference_update(event.slots)
    elif event.need >= 0:
        alternative = terms.needs[event.need].alternative
        if alternative is None:
            return False
        terms.needs[event.need] = alternative
        terms.versions[event.need] += 1
    return True

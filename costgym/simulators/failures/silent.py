"""Silent faults: answers that look right and are cut off, hold a wrong value, or have changed their fields.

They work on any JSON text, so the world's own answers and those of real tools are spoilt alike. The same text and luck give
the same bytes.
"""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from costgym.simulators.grading.values import cleaned, values_in
from costgym.simulators.status import Status
from costgym.simulators.tasks import Task, fact_in, normalise

_DIGITS, _LETTERS = "0123456789", "abcdefghijklmnopqrstuvwxyz"
_REST = "..."


def spoilt(text: str, status: Status, task: Task, luck: float) -> str:
    """An answer with a silent fault, placed by `luck` in [0, 1); no fact that the task wants stands in it."""
    needs = [*task.needs, *(need.alternative for need in task.needs if need.alternative is not None)]
    wanted = {need.fact for need in needs}
    spoil = {Status.PARTIAL: cut_off, Status.CORRUPT: corrupted, Status.DRIFTED: drifted}[status]
    spoilt_text = spoil(text, luck, wanted)
    return cut_off(spoilt_text, luck, wanted) if _holds(spoilt_text, wanted) else spoilt_text


def cut_off(text: str, luck: float, wanted: Collection[str] = ()) -> str:
    """The beginning of a text, as where a connection breaks; shorter if a wanted fact would stand in it."""
    end = int((0.2 + 0.7 * luck) * len(text))
    # three quarters each time: the cut comes before the fact, and where it falls still depends on luck
    while end and _holds(text[:end], wanted):
        end = end * 3 // 4
    return text[:end]


def corrupted(text: str, luck: float, wanted: Collection[str] = ()) -> str:
    """The text with other digits and letters in the values that hold a wanted fact, or in one value if none does.

    A text that is not valid JSON counts as one value.
    """
    shift = 1 + int(luck * 8)
    document = _document(text)
    leaves = [value for _, value in _leaves(document)]
    wrongful = [value for value in leaves if _holds(str(value), wanted)]
    if not wrongful:
        changeable = [value for value in leaves if _shifted(str(value), shift) != str(value)]
        wrongful = changeable[int(luck * len(changeable)) :][:1]

    def changed(value: Any) -> Any:
        return _number(_shifted(str(value), shift), value) if value in wrongful and value is not None else value

    return _text(_mapped(document, changed))


def drifted(text: str, luck: float, wanted: Collection[str] = ()) -> str:
    """The text after a change of its schema: the fields are rows with short names, and a wanted value is taken apart."""
    rows = []
    for path, value in _leaves(_document(text)):
        name = "".join(part[:3] for part in str(path or "value").replace(".", "_").split("_"))
        rows.append({"f": name, "v": _parts(str(value)) if _holds(str(value), wanted) else value})
    return _text({"schema": f"{2 + int(luck * 8)}.0", "rows": rows})


def unsupported(answer: str, read: Sequence[str], facts: Collection[str] = ()) -> list[str]:
    """The values in an answer that stand in nothing that was `read` (the query and every observation), in their order.

    Values are numbers of two digits or more, dates, codes, and the given facts, such as names. A value that was computed from
    others counts as unsupported too.
    """
    known = {(value.kind, reading) for text in read for value in values_in(cleaned(text)) for reading in value.readings}
    # a moment that was read supports its date and its time
    known |= {(part, str(r).split(" ")[i]) for kind, r in known if kind == "moment" for i, part in enumerate(("date", "time"))}
    plain, spoken, sources = cleaned(answer), normalise(answer), [normalise(text) for text in read]
    stated = [
        str(value.readings[0]) if value.kind == "number" else plain[value.start : value.end]
        for value in values_in(plain)
        if sum(map(str.isdigit, plain[value.start : value.end])) > 1
        and not any((value.kind, reading) in known for reading in value.readings)
    ]
    worded = [fact for fact in facts if not any(map(str.isdigit, fact)) and fact_in(fact, spoken)]
    stated += [normalise(fact) for fact in worded if not any(fact_in(fact, text) for text in sources)]
    return list(dict.fromkeys(stated))


def _holds(text: str, wanted: Collection[str]) -> bool:
    normalised = normalise(text)
    return any(fact_in(fact, normalised) for fact in wanted)


def _parts(value: str) -> list[str]:
    """A value in two pieces, neither of which holds it whole."""
    middle = max(1, len(value) // 2)
    return [value[:middle] + _REST, _REST + value[middle:]]


def _shifted(value: str, shift: int) -> str:
    """The value with every digit moved on; with every letter, where it has no digits."""
    alphabet = _DIGITS if any(letter in _DIGITS for letter in value) else _LETTERS
    moved = []
    for letter in value:
        index = alphabet.find(letter.lower())
        other = alphabet[(index + shift) % len(alphabet)]
        moved.append(letter if index < 0 else other.upper() if letter.isupper() else other)
    return "".join(moved)


def _number(text: str, like: Any) -> Any:
    """A text as a number, where the value that it replaces is one."""
    if isinstance(like, bool) or not isinstance(like, int | float):
        return text
    try:
        return type(like)(text)
    except ValueError:
        return text


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(document: Any) -> str:
    return document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)


def _leaves(document: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(document, dict):
        for name, value in document.items():
            yield from _leaves(value, f"{path}.{name}" if path else str(name))
    elif isinstance(document, list):
        for value in document:
            yield from _leaves(value, path)
    else:
        yield path, document


def _mapped(document: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(document, dict):
        return {name: _mapped(value, change) for name, value in document.items()}
    if isinstance(document, list):
        return [_mapped(value, change) for value in document]
    return change(document)

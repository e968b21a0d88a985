"""The words for a fact: a noun phrase, or the participle of a time, out of the names that lead to a value."""

from costgym.simulators.forge.values import Spec
from costgym.simulators.forge.vocabulary import Vocabulary
from costgym.simulators.forge.words import is_plural, lexicon, mapped, singular

_WRAPS = lexicon("wraps")
_UNASKED = lexicon("unasked")
TIMES, WHEN = lexicon("times"), lexicon("when")
_TOGETHER = lexicon("together")  # plurals that are one text
_SMALL = lexicon("small")  # words for numbers that are small
_PEOPLE, _CLOCK = lexicon("people"), lexicon("clock")
_NUMBERS = lexicon("numeric") | lexicon("amounts") | lexicon("counts")
_ABOUT, _JOINTS = lexicon("about"), lexicon("joints")
NO_NOUN, NO_FIRST = lexicon("no noun"), lexicon("no first")  # no noun phrase ends in one, or begins with one
_GROUPS = {"category", "brand", "department", "genre", "breed", "manufacturer"}
_TURNED, _AS_NOUN, _ENDS = mapped("turned"), mapped("as a noun"), mapped("ends")


def is_past(word: str) -> bool:
    """Return whether a word is a participle or an adjective, and no noun."""
    if word.endswith(("able", "ible")):
        return word not in ("table", "variable", "cable")
    return word in lexicon("done") or (word.endswith("ed") and word not in ("feed", "seed", "speed", "bed", "need", "embed"))


def phrase(words: list[str], spec: Spec) -> list[str] | None:
    """The noun phrase, or the participle of a time, that a question asks for; None where the words are neither."""
    times = spec["form"] in TIMES
    if words[0] == "address" and len(words) > 1:
        words = words[1:]  # the city of an address is where it is
    if words[-2:] == ["date", "time"]:
        words = [*words[:-2], "time"]
    if len(words) > 1 and words[-1] in ("maximum", "minimum", "average", "total", "current"):
        words = [words[-1], *words[:-2], singular(words[-2])]
    if words[:1] == ["primary"] and words[-1] in ("color", "colour"):
        return None  # a figure of a design
    if words == ["close", "price"]:
        words = ["closing", "price"]
    if len(words) == 2 and words[0] in _GROUPS and words[1] == "name":
        words = words[:1]  # the name of its category is a pet's category
    if times:
        if words[-1] in _ENDS:
            words = [*words[:-1], _ENDS[words[-1]], "time"]
        elif words[-1] in WHEN and len(words) > 1:
            before = words[-2]
            if before in _TURNED and len(words) == 2 + (words[0] == "last"):
                words = [*words[:-2], _TURNED[before], words[-1]]
            elif before in _AS_NOUN and words[-1] not in ("at", "on"):
                words = [*words[:-2], _AS_NOUN[before], words[-1]]
            elif before in _ENDS and words[-1] in ("at", "on"):
                words = [*words[:-2], _ENDS[before], "time"]
        past = [word for word in words if is_past(word)]
        if past and all(word in past or word in WHEN or word in ("last", "is", "was") for word in words):
            return words if len(past) == 1 else None
    if set(words[:-1]) & _CLOCK and words[-1] in ("day", "month", "year", "hour", "minute", "second"):
        return None  # a part of a date
    if len(set(words) & _CLOCK) > 1 or len(words) > 3 or words == ["total"]:
        return None
    if any(is_plural(word) for word in words[:-1]) or (words[0] in ("maximum", "minimum") and is_plural(words[-1])):
        return None
    if len(words) > 1 and words[-1] in ("state", "status") and words[-2] in ("state", "status", "city", "description"):
        return None  # a city's state is a place, and a state's status a muddle
    if words[-1] in ("name", "title") and (len(words) > 2 or (words[-1] == "title" and len(words) > 1)):
        return None  # the name of something else
    if len(words) > 1 and words[-1] in ("key", "value"):
        return None  # nobody reads keys aloud, and a value is of anything
    if words == ["total", "count"] or words[-1] in NO_NOUN or words[0] in NO_FIRST:
        return None
    if is_past(words[-1]) or is_past(singular(words[-1])):
        return None
    if any(word in _JOINTS and word != "of" for word in words) or (times and words[-1] not in _CLOCK):
        return None
    if is_plural(words[-1]) and spec["form"] not in ("integer", "decimal", "money") and words[-1] not in _TOGETHER:
        return None
    if spec["form"] in ("integer", "decimal", "money") and (
        singular(words[-1]) in _SMALL or (singular(words[-1]) == words[-1] and words[-1] not in _NUMBERS)
    ):
        return None  # a number is no "type" or "status", and numbers that can be told apart are no ages
    return words


def field_words(path: tuple[str, ...], subject: list[str], known: Vocabulary) -> list[str] | None:
    """The words for a value in a response; None where nobody would ask for it."""
    parts = [part for part in path if part != "[]"]
    while len(parts) > 1 and (
        parts[0].lower() in _WRAPS or known.split(parts[0]) in (subject, [subject[-1]], [subject[-1] + "s"])
    ):
        parts = parts[1:]
    if not parts or len(parts) > 2:
        return None
    pieces = [known.split(part) for part in parts]
    if len(pieces) == 2:  # the source's source type is its type; no outer name ends in "info"
        outer = [word for word in pieces[0] if word not in _ABOUT]
        shared = next((n for n in range(min(map(len, (outer, pieces[1]))), 0, -1) if outer[-n:] == pieces[1][:n]), 0)
        if len(outer) + len(pieces[1]) - shared > 3 or outer[-1:] in (["url"], ["id"]):
            return None
        pieces = [outer[: len(outer) - shared], pieces[1]]
    words = [word for piece in pieces for word in piece]
    if len(words) > len(subject) and words[: len(subject)] == subject:
        words = words[len(subject) :]
    elif len(words) > 1 and words[0] == subject[-1]:
        words = words[1:]
    if len(set(words)) < len(words) or set(words[:-1]) & set(subject) or set(words) & _UNASKED or not known.readable(words):
        return None
    return None if words in (["first", "name"], ["last", "name"]) and not set(subject) & _PEOPLE else words

"""Queries in plain English, as a person would write them, and the rules that they have to keep."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from costgym.simulators.forge.phrases import TIMES, WHEN
from costgym.simulators.forge.words import article, is_plural, lexicon, plural, singular, split

if TYPE_CHECKING:
    from costgym.simulators.forge.source import ForgedCapability, ForgedEntity, ForgedFact

LONGEST = 900  # characters of a query
MOST_LINKS = 3  # times that a sentence says "of"
OWN = lexicon("own")
MONEY = lexicon("amounts") | {"cents"}
_SPOKEN_CODES = lexicon("currencies") | lexicon("tickers") | lexicon("country codes")
_PREPOSITIONS = {"reason": "for"}  # after a fact that is not "of" a thing
_NAMES, _KINDS_OF_NAMES = lexicon("names"), lexicon("kinds of names")
_DONE, _UNITS = lexicon("done"), lexicon("units")
_PLACES = lexicon("places")  # nouns of what other things are in
_LEFT = re.compile(r"[{}<>\[\]|\\]|\b(None|null|undefined|NaN|lorem|TODO|string)\b|\s{2,}|\b(the the|of of|a a)\b")
_OWNED = re.compile(
    r"(?:the )?(repository|project|account|profile|playlist|channel|board)( [\w.-]+) of (?:the )?user ([\w.-]*\w)"
)
_TWICE = re.compile(r"\b(\w+) \1\b", re.IGNORECASE)
_JOINED = re.compile(r"\b[A-Za-z]{21,}\b")
_ASK = ("What is {}?", "Could you tell me {}?", "I need {}.", "Please look up {}.", "Can you find out {} for me?")
_LEAD = ("And", "Also:", "Then,", "Finally,", "One more thing:")


def is_own_name(words: str, noun: set[str]) -> bool:
    """Return whether words for a fact mean the name of the thing itself: a comment's user name is another's."""
    *before, last = words.lower().split(" ")
    return last in _NAMES and set(before) <= noun | _KINDS_OF_NAMES


def called(known_as: str, value: str, noun: str) -> str:
    """How a person names an entity by what they know of it."""
    last = known_as.split(" ")[-1]
    if is_own_name(known_as, set(noun.lower().split(" "))) or last == "slug":
        return f'called "{value}"'
    if last in ("email", "phone"):
        return f"with the {known_as} {value}"
    return f'whose {known_as} is "{value}"'


class Part(NamedTuple):
    """An argument in words: its noun, its value, whether the query has named it before, and whether it is an entity's id."""

    noun: str
    value: str
    known: bool = False
    entity: bool = True


def context(parts: Sequence[Part]) -> str:
    """What comes after a noun: whose it is, where, when, and with which other values."""
    owners, containers, times, others = [], [], [], []
    for part in parts:
        last = part.noun.split(" ")[-1]
        if part.known or part.entity:
            owners.append(f"that {part.noun}" if part.known else f"{part.noun} {part.value}")
        elif last in ("city", "country", "place", "location", "region"):
            containers.append(f' in "{part.value}"')
        elif part.noun in ("date", "day"):
            times.append(f" on {part.value}")
        elif last in ("topic", "query", "keyword", "search", "term"):
            times.append(f' about "{part.value}"')
        else:
            others.append(f"{part.noun} {part.value}")
    within = bool(parts and parts[0].entity and parts[0].noun.split(" ")[-1] in _PLACES)
    first = f" {'in' if within else 'of'} {' and '.join(owners)}" if owners else ""
    return first + "".join(containers + times) + (f" with {' and '.join(others)}" if others else "")


def quoted(value: str) -> str:
    """A value as a query writes it: words in quotes, numbers, codes and addresses as they are."""
    if value in _SPOKEN_CODES:
        return value
    if value.isupper() and value.isalpha() and len(value) > 3:
        value = value.lower()  # PAYMENT; three letters are a currency, a country or an airport
    plain = any(c.isdigit() for c in value) and " " not in value
    return value if plain or "@" in value else f'"{value}"'


def thing(noun: str, key: str, value: str) -> str:
    """A thing by the id that a user knows of it."""
    return f"the {noun} {quoted(value)}" if key in ("name", "slug") else f"{noun} {value}"


def major_units(name: str, value: Any) -> str:
    """An amount in cents as people say it: 12419 is 124.19; "" where the name of the value does not end in cents."""
    return f"{int(value) / 100:.2f}" if split(name)[-1:] == ["cents"] and str(value).isdigit() else ""


def beside(parts: Sequence[Part], joint: str = "of") -> str:
    """What comes after a noun: whose it is, where, when, and with which values. Parts that are entities have their words."""
    owners = [part.value for part in parts if part.entity]
    containers, times, others = [], [], []
    named = {part.noun: part.value for part in parts if not part.entity}
    repository = f"{named['owner']}/{named['repository']}" if {"owner", "repository"} <= named.keys() else ""
    money = next((part for part in parts if not part.entity and part.noun.split(" ")[-1] in MONEY), None)
    if money is not None and "currency" in named:
        noun, value = money.noun.removesuffix(" cents"), major_units(money.noun, money.value) or money.value
        others.append(f"{article(noun)} {noun} of {value} {named['currency'].upper()}")
    for part in (part for part in parts if not part.entity):
        last = part.noun.split(" ")[-1]
        if "currency" in named and money is not None and (part is money or part.noun == "currency"):
            continue
        if repository and part.noun in ("owner", "repository"):
            continue
        if last in ("city", "country", "place", "location", "region"):
            containers.append(f" in {part.value}")
        elif part.noun in ("currency", "country code"):
            containers.append(f" in {part.value.upper()}")
        elif part.noun in ("date", "day"):
            times.append(f" on {part.value}")
        elif last in ("topic", "query", "keyword", "search", "term"):
            times.append(f' in a search for "{part.value}"')
        elif value := major_units(part.noun, part.value):
            noun = part.noun.removesuffix("cents").strip() or "amount"
            others.append(f"{article(noun)} {noun} of ${value}")
        elif part.noun in ("organization", "organisation"):
            containers.append(f" in the {part.noun} {part.value}")
        elif last in ("dollars", "euros"):
            others.append(f"{article(part.noun.split(' ')[0])} {part.noun.rsplit(' ', 1)[0]} of {part.value} {last}")
        elif last in MONEY:
            others.append(f"{article(part.noun)} {part.noun} of {part.value}")
        elif part.noun in ("title", "name"):
            others.insert(0, f"the {part.noun} {quoted(part.value)}")
        else:
            others.append(f"the {part.noun} {quoted(part.value)}")
    if repository:
        containers.append(f" in the repository {repository}")
    within = joint == "of" and bool(owners) and next(p for p in parts if p.entity).noun.split(" ")[-1] in _PLACES
    joined_by = " of " if joint == "of" else " and "
    joined_owners = _OWNED.sub(r"\3's \1\2", joined_by.join(owners[::-1]))
    first = f" {'in' if within else joint} {joined_owners}" if owners else ""
    with_them = f" with {', '.join(others[:-1]) + ' and ' + others[-1] if len(others) > 1 else others[0]}" if others else ""
    return first + "".join(containers + times) + with_them


def subject(capability: "ForgedCapability", named: Sequence[Part], target: Part | None) -> str:
    """The words for what is asked about: `named` are the arguments without the id of the entity itself, which is `target`."""
    if target is not None:
        # an entity that was named before is the same with or without what it is of
        return f"that {capability.noun}" if target.known else f"{capability.noun} {target.value}{context(named)}"
    if same := next((part for part in named if part.noun == capability.noun and not part.entity), None):
        return f'the {capability.noun} "{same.value}"{context([part for part in named if part is not same])}'
    mine = not named and capability.noun.split(" ")[-1] in OWN
    return f"{'my' if mine else 'the'} {capability.noun}{context(named)}"


def listed(entity: "ForgedEntity", value: str, named: Sequence[Part], again: bool) -> str:
    """The words for one entity of a list, by what a person knows of it, unless the query has called it so before."""
    if again:
        return f"that {entity.noun}"
    return f"the {entity.noun} {called(entity.known_as, value, entity.noun)}{context(named)}"


def wish(fact: "ForgedFact", about: str) -> str:
    """A fact as a noun phrase."""
    if about.startswith((f"the {fact.words} ", f"my {fact.words} ")) or about[4:] == fact.words:
        return about  # the weather in Oslo is the fact itself
    joint = "in" if about == "my profile" else _PREPOSITIONS.get(fact.words, "of")
    return f"the {fact.words} {joint} {about}"


def question(fact: "ForgedFact", about: str, luck: int) -> str:
    """A fact as a question or a request; `luck` chooses among ways to say it."""
    words = fact.words.split(" ")
    form = "" if fact.value is None else fact.value.form
    if form in TIMES:
        verbs = [w for w in words if w.endswith("ed") or w in _DONE]
        rest = [w for w in words if w not in verbs and w not in WHEN and w not in ("last", "is", "was", "previously")]
        if len(verbs) == 1 and not rest:
            return f"When was {about} {'last ' if 'last' in words else ''}{verbs[0]}?"
    if form == "integer" and words[-1] == "count" and len(words) > 1 and words[0] != "total":
        return f"How many {plural(' '.join(words[:-1]))} does {about} have?"
    several = form == "integer" and is_plural(words[-1]) and "in" not in words
    if several and "of" not in words and singular(words[-1]) not in _UNITS and words[0] != "total":
        return f"How many {fact.words} does {about} have?"
    if several and words[0] in ("total", "num") and len(words) > 1:
        return f"How many {' '.join(words[1:])} does {about} have?"
    if form == "person" and len(words) == 1 and words[0] in ("author", "owner", "assignee", "creator"):
        return f"Who is the {words[0]} of {about}?"
    if words[-3:-1] == ["number", "of"] or words[:2] == ["number", "of"]:
        return f"How many {' '.join(words[words.index('of') + 1 :])} does {about} have?"
    text = _ASK[luck % len(_ASK)].format(wish(fact, about))
    if " in " in fact.words:
        return text
    return text.replace("What is", "What are") if is_plural(words[-1]) else text


def joined(sentences: Sequence[str], luck: int) -> str:
    """The sentences of a query, one after the other."""
    parts = [sentences[0][:1].upper() + sentences[0][1:]]
    for index, sentence in enumerate(sentences[1:]):
        lead = _LEAD[0] if index == 0 else "Finally," if index == len(sentences) - 2 else _LEAD[(luck + index) % 3]
        plain = sentence if sentence.startswith("I ") else sentence[:1].lower() + sentence[1:]
        parts.append(f"{lead} {plain}")
    return " ".join(parts)


def problem_of(query: str, facts: Sequence[str]) -> str | None:
    """Say in words which rule a query breaks; None if it keeps all of them."""
    plain = query
    for fact in facts:
        plain = plain.replace(fact, "x")
    plain = re.sub(r'"[^"]*"', '""', plain)
    if not query.strip():
        return "empty"
    if len(query) > LONGEST:
        return f"longer than {LONGEST} characters"
    if match := _LEFT.search(plain):
        return f"has {match.group()!r} in it"
    if match := _TWICE.search(plain) or _JOINED.search(plain):
        return f"has the words {match.group()!r} in it"
    if any(sentence.count(" of ") > MOST_LINKS for sentence in re.split(r"[.?] ", plain)):
        return "links too many things with 'of'"
    if query[-1] not in "?.":
        return "does not end like a sentence"
    if re.search(r"\b[a-z]+[A-Z][a-z]+[A-Z]?\w*|\b[a-z]+_[a-z]+\b", plain):
        return "has an identifier in it"
    return None

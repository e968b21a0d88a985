"""The tasks of a forged world, version 1: what a person wants to know or to have done, with the calls that it takes.

A request asks for one fact or one change. What it is about is named as people name things, and the ids that calls take are
found by other calls of the same request, or stated. A task holds only what can be solved: `problem_of_task` says what cannot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from costgym.simulators.forge import queries
from costgym.simulators.forge.tasks import ATTEMPTS, Asked, ForgedTaskWriter, situation
from costgym.simulators.forge.values import distinctive
from costgym.simulators.forge.verbs import CHANGE, CREATE, REMOVE
from costgym.simulators.forge.words import article, lexicon, mapped
from costgym.simulators.marketplace.instructions import instructions
from costgym.simulators.marketplace.tasks import SIZE_LEVELS, Luck
from costgym.simulators.tasks import Need, Task, normalise
from costgym.simulators.tools import WRITE, Catalog

if TYPE_CHECKING:
    from costgym.simulators.forge.answers import ForgedAnswers
    from costgym.simulators.forge.source import ForgedArgument, ForgedCapability, ForgedSource

MOST_NEEDS, MOST_REQUESTS = 6, 3
_HOLDS_THINGS = {"watchlist", "wishlist", "cart", "basket", "playlist", "queue", "library", "list"}
MOST_OF = 2  # times that a sentence says "of"
_AGAIN = re.compile(r"\b(\w+) of (?:the )?\1\b")
DEEPEST = 2  # things that lead to one another in one request
WRITES_SHARE = 0.5  # of requests, where a world can write
AMOUNTS = (10, 300)  # lowest and highest worth of an effect that states no amount, in the scenario's currency
_SAID = mapped("verbs that people say")
_PEOPLE = lexicon("people")
_POSTED = {"tweet", "message", "comment", "reply", "review"}
_FREE_TEXT = ("phrase", "title", "file")
_BELONGS = " belongs to"
_TRAILING = re.compile(rf"{_BELONGS}(?! for me\?)[^.?]")  # nobody finds the end of such a clause


class Unfit(Exception):
    """A request cannot be made so."""


@dataclass(slots=True)
class Draft:
    """A task that is being composed."""

    name: str  # of the task, from which its user's things are drawn
    luck: Luck
    needs: list[Need] = field(default_factory=list)
    asks: list[Asked] = field(default_factory=list)  # one a need
    sentences: list[str] = field(default_factory=list)
    things: dict[str, tuple[str, int | None]] = field(
        default_factory=dict
    )  # entity -> its words, and the need that finds its id
    values: dict[Any, Any] = field(default_factory=dict)  # what the query has said
    listed: set[str] = field(default_factory=set)  # entities that the query has named without their ids
    changed: set[str] = field(default_factory=set)  # entities that an earlier request changes: what they are then is not known
    removed: set[str] = field(default_factory=set)  # and takes away
    made: set[str] = field(default_factory=set)  # nouns of what it makes: "that booking" would be two


class RequestWriter(ForgedTaskWriter):
    """Composes the tasks of a forged world of version 1, by the world's seed."""

    def __init__(self, source: ForgedSource, catalog: Catalog, answers: ForgedAnswers, seed: int) -> None:
        super().__init__(source, catalog, answers, seed)
        self._writes = [c for c in source.capabilities if c.writes and c.name in self.offers.names]
        self._finders: dict[str, list[Asked]] = {}  # by entity, what gives its id
        for capability in source.capabilities:
            if not capability.writes:
                for fact in capability.facts:
                    if fact.entity and not (capability.role == "record" and fact.entity == capability.entity):
                        self._finders.setdefault(fact.entity, []).append(Asked(capability, fact))

    def _asks_of(self, capability: ForgedCapability) -> list[Asked]:
        if capability.writes:
            return [Asked(capability, None)]
        known = self._source.entities.get(capability.entity)
        if capability.role == "list" and (known is None or not known.known_as):
            return []
        facts = [fact for fact in capability.facts if not fact.shown and not fact.entity and fact.value is not None]
        return [Asked(capability, fact) for fact in facts if fact.value is not None and distinctive(fact.value.spec())]

    def _attempt(self, split: str, index: int, number: int, attempt: int) -> Task | str:
        name = f"{split}-{index:05d}" + (f"-{attempt}" if attempt else "")
        draft = Draft(name, Luck("forged task", name, seed=self._seed))
        count = 1 + draft.luck.weighted(self._weights)
        simple = attempt > ATTEMPTS // 2  # a world of few distinct facts: one request is easier to tell apart
        names = [name for name in self._asks if not self._asks[name][0].capability.writes]
        try:
            for _ in range(1 if simple else MOST_REQUESTS):
                writes = bool(self._writes) and (not names or draft.luck.uniform() < WRITES_SHARE)
                if writes:
                    capability = self._writes[draft.luck.below(len(self._writes))]
                    self._write(draft, capability)
                else:
                    asks = self._asks[names[draft.luck.below(len(names))]]
                    self._ask(draft, asks[draft.luck.below(len(asks))])
                if len(draft.needs) >= count or len(draft.asks) >= len(self._asks):
                    break
        except Unfit as problem:
            return str(problem)
        return self._task(draft, number)

    # -- one request -------------------------------------------------------------------------------------------------------

    def _ask(self, draft: Draft, ask: Asked) -> None:
        """Ask for a fact."""
        capability, fact = ask.capability, ask.fact
        assert fact is not None
        if draft.changed & {capability.entity, *(argument.entity for argument in capability.arguments if argument.entity)}:
            raise Unfit("reads what it has changed")
        arguments, after, about = self._about(draft, capability, DEEPEST)
        if capability.role == "list":
            about = self._item(draft, capability, about, arguments)
            draft.listed.add(capability.entity)
        text = str(self._answers.value(draft.name, capability, fact, 0, self._key(capability, arguments)))
        if any(need.capability == capability.name for need in draft.needs):
            raise Unfit("asks the same operation twice")
        shown = {
            other.words for done in draft.asks for other in done.capability.facts if done.capability.entity == capability.entity
        }
        if capability.role == "record" and fact.words in shown and after:
            raise Unfit("asks for what an earlier answer shows")
        self._add(draft, ask, Need(text, self._tools(capability), arguments, tuple(sorted(after)), queries.wish(fact, about),
                                   capability.name))  # fmt: skip
        draft.sentences.append(queries.question(fact, about, draft.luck.below(1_000)))

    def _write(self, draft: Draft, capability: ForgedCapability) -> None:
        """Ask for a change."""
        touched = {capability.entity, *(argument.entity for argument in capability.arguments if argument.entity)}
        if draft.removed & touched or (capability.role == REMOVE and draft.changed & touched):
            raise Unfit("changes what it takes away")
        arguments, after, about = self._about(draft, capability, DEEPEST)
        if any(need.capability == capability.name for need in draft.needs):
            raise Unfit("asks for the same change twice")
        draft.changed |= touched
        draft.removed |= {capability.entity} if capability.role == REMOVE else set()
        draft.made |= {capability.noun} if capability.role == CREATE else set()
        if capability.role == CREATE:
            fact = self._identity_of_made(draft.name, capability, arguments)
        else:
            subject = next(a for a in capability.arguments if a.entity == capability.entity)
            fact = str(subject.of(arguments))
        amount, text = self._worth(draft, capability, arguments), self._sentence(capability, about, arguments)
        wish = text[:1].lower() + text[1:].rstrip(".")
        tools, before = self._tools(capability), tuple(sorted(after))
        need = Need(fact, tools, arguments, before, wish, capability.name, asked=False, state=True, amount=amount)
        self._add(draft, Asked(capability, None), need)
        draft.sentences.append(text)

    def _identity_of_made(self, name: str, capability: ForgedCapability, arguments: Mapping[str, Any]) -> str:
        """What tells the thing that a call makes from others: a key that the call gives it, else one that it gets."""
        if capability.entity not in self._source.entities:
            return capability.noun
        keys = {fact.words for fact in capability.facts if fact.entity == capability.entity and fact.shown}
        chosen = (argument.of(arguments) for argument in capability.arguments if not argument.entity and argument.words in keys)
        made = self._answers.created(name, capability, arguments)
        return str(next(chosen, None) or self._answers.identity(name, capability.entity, made))

    def _add(self, draft: Draft, ask: Asked, need: Need) -> None:
        if len(draft.needs) == MOST_NEEDS:
            raise Unfit("takes too many calls")
        draft.asks.append(ask)
        draft.needs.append(need)

    def _about(self, draft: Draft, capability: ForgedCapability, depth: int) -> tuple[dict[str, Any], set[int], str]:
        """The arguments of a call, the needs that it waits for, and the words for what it is about."""
        arguments: dict[str, Any] = {}
        after: set[int] = set()
        parts: list[queries.Part] = []
        subject = ""
        for argument in capability.arguments:
            if argument.entity:
                avoid = capability.entity if capability.role == CREATE else ""
                phrase, need = self._thing(draft, argument.entity, depth, avoid)
                if need is not None:
                    after.add(need)
                value: Any = self._answers.identity(draft.name, argument.entity, 0)
                if argument.entity == capability.entity and capability.role not in ("list", CREATE):
                    subject = phrase
                else:
                    parts.append(queries.Part(argument.words, phrase))
            else:
                searched = _is_search(capability, argument)
                value = self._answers.known(draft.name, capability.entity, 0) if searched else self._user_value(draft, argument)
                if not argument.changes and not _is_search(capability, argument):
                    parts.append(queries.Part(argument.words, str(value), entity=False))
            if not argument.number and isinstance(value, int | float) and not isinstance(value, bool):
                value = str(value)
            argument.put(arguments, value)
        if subject:
            for part in [part for part in parts if part.entity and f"that {part.noun}" in subject]:
                subject = subject.replace(f"that {part.noun}", part.value, 1)  # the words that found it say whose it is
                parts.remove(part)
            if subject.startswith("that "):  # an entity that was named before is the same with or without what it is of
                parts = [part for part in parts if not (part.entity and part.value.startswith("that "))]
            about = subject + queries.beside(parts)
        elif capability.role == "list":
            about = queries.beside(parts)
        elif capability.role == CREATE:
            named = next(
                (p for p in parts if not p.entity and p.noun in (capability.noun, "name", f"{capability.noun} name")), None
            )
            about = f" {queries.called('name', named.value, '')}" if named else ""
            if any(p.entity and p.value.startswith("that ") for p in parts):  # it is where it is
                parts = [part for part in parts if part.entity or part.noun not in ("owner", "repository")]
            joint = "to" if capability.verb == "add" else "for"
            about += queries.beside([part for part in parts if part is not named], joint)
        else:
            same = next((part for part in parts if part.noun == capability.noun and not part.entity), None)
            mine = not parts and capability.noun.split(" ")[-1] in queries.OWN
            about = f"{'my' if mine else 'the'} {capability.noun}"
            about += f' "{same.value}"' if same else ""
            about += queries.beside([part for part in parts if part is not same])
        return arguments, after, about

    def _thing(self, draft: Draft, entity: str, depth: int, avoid: str = "") -> tuple[str, int | None]:
        """The words for the user's thing of a kind, and the need that finds its id; None where the query states the id. It is
        not found by a thing of the kind to `avoid`, which is about to be made."""
        if entity in draft.things:
            if self._source.entities[entity].noun in draft.made:
                raise Unfit("means one of two things")
            return f"that {self._source.entities[entity].noun}", draft.things[entity][1]
        if entity in draft.listed:
            raise Unfit("names a thing in two ways")
        kind = self._source.entities[entity]
        finders = [
            ask for ask in self._finders.get(entity, ()) if ask.capability.entity != avoid and self._can_find(draft, ask)
        ]
        if depth and kind.key == "id" and finders and draft.luck.uniform() < self._source.chain_share:
            phrase, need = self._described_thing(draft, entity, finders[draft.luck.below(len(finders))], depth)
        else:
            phrase, need = queries.thing(kind.noun, kind.key, str(self._answers.identity(draft.name, entity, 0))), None
        draft.things[entity] = phrase, need
        return phrase, need

    @staticmethod
    def _can_find(draft: Draft, ask: Asked) -> bool:
        return not any(need.capability == ask.capability.name for need in draft.needs)

    def _described_thing(self, draft: Draft, entity: str, ask: Asked, depth: int) -> tuple[str, int]:
        """A thing by what a list calls it, or by what refers to it: the owner of the pet called "Rex"."""
        capability, fact = ask.capability, ask.fact
        assert fact is not None
        if any(argument.entity == entity for argument in capability.arguments):
            raise Unfit("finds a thing by itself")
        arguments, after, about = self._about(draft, capability, depth - 1)
        if capability.role == "list":
            about = self._item(draft, capability, about, arguments)
        noun = self._source.entities[entity].noun
        if capability.role == "list" and capability.entity == entity:
            phrase = about
        elif _PEOPLE & set(noun.split(" ")):
            phrase = f"the {noun} of {about}"
        elif _BELONGS in about or noun in about:
            raise Unfit("names too many things in one sentence")
        else:
            phrase = f"the {noun} that {about}{_BELONGS}"
        text = str(self._answers.value(draft.name, capability, fact, 0, self._key(capability, arguments)))
        self._add(draft, ask, Need(text, self._tools(capability), arguments, tuple(sorted(after)), queries.wish(fact, about),
                                   capability.name, asked=False))  # fmt: skip
        return phrase, len(draft.needs) - 1

    def _item(self, draft: Draft, capability: ForgedCapability, beside: str, arguments: Mapping[str, Any]) -> str:
        """The user's item of a list, by what the list shows of it."""
        entity = self._source.entities[capability.entity]
        if capability.entity in draft.things:
            raise Unfit("names a thing in two ways")
        named = next((fact for fact in capability.facts if fact.words == entity.known_as), None)
        if named is None:
            value = self._answers.known(draft.name, capability.entity, 0)
        else:
            value = str(self._answers.value(draft.name, capability, named, 0, self._key(capability, arguments)))
        return f"the {entity.noun} {queries.called(entity.known_as, value, entity.noun)}{beside}"

    def _user_value(self, draft: Draft, argument: ForgedArgument) -> Any:
        key = argument.words, argument.value
        if argument.value is not None and argument.value.form in _FREE_TEXT:
            draft.values.pop(key, None)  # two texts are not the same
        if key not in draft.values:
            value = self._value(draft.luck, draft.name, argument, draft.values)
            person = next((str(v) for (_, form), v in draft.values.items() if form is not None and form.form == "person"), "")
            if person and argument.value is not None and argument.value.form == "email":
                draft.values[key] = f"{'.'.join(person.lower().split())}@{str(value).rpartition('@')[2]}"
        return draft.values[key]

    @staticmethod
    def _key(capability: ForgedCapability, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        plain = (argument for argument in capability.arguments if not argument.entity and not _is_search(capability, argument))
        return tuple(normalise(argument.of(arguments)) for argument in plain)

    def _tools(self, capability: ForgedCapability) -> tuple[str, ...]:
        """The tools that give what a capability gives; not those that check or take back its effects."""
        catalog = self.offers.catalog
        names = self.offers.names[capability.name]
        return tuple(n for n in names if (effect := catalog.get(n).effect) is None or effect.role == WRITE)

    def _worth(self, draft: Draft, capability: ForgedCapability, arguments: Mapping[str, Any]) -> float:
        """What an effect is worth: the amount that it states, or one that the task's luck gives."""
        for argument in capability.arguments:
            words, value = argument.words.lower().split(" "), argument.of(arguments)
            if not argument.entity and set(words) & queries.MONEY and argument.number:
                return float(value) / (100.0 if "cents" in words else 1.0)
        return float(AMOUNTS[0] + draft.luck.below(AMOUNTS[1] - AMOUNTS[0]))

    @staticmethod
    def _sentence(capability: ForgedCapability, about: str, arguments: Mapping[str, Any]) -> str:
        """A change as a request."""
        noun = capability.noun
        posted = capability.verb == "post" and noun.split(" ")[-1] in _POSTED
        verb = "post" if posted else _SAID.get(capability.verb, capability.verb)
        if capability.role == CREATE:
            for argument in capability.arguments:  # a comment to an issue is no issue comment
                noun = noun.removeprefix(f"{argument.words} ") if argument.entity else noun
            what = about.removeprefix(" to ").removeprefix(" with ")
            if verb == "add" and noun.split(" ")[-1] in _HOLDS_THINGS and what != about:
                return f"Add {what} to my {noun}."
            return f"{verb.capitalize()} {article(noun)} {noun}{about}."
        if capability.role == CHANGE and verb != "move":
            changes = [
                f"the {a.words} of {{}} to {queries.quoted(str(a.of(arguments)))}" for a in capability.arguments if a.changes
            ]
            first, *rest = changes
            others = "".join(f" and {change.format('it').replace(' of it', '')}" for change in rest)
            return f"Change {first.format(about)}{others}."
        return f"{verb.capitalize()} {about}."

    # -- the task ----------------------------------------------------------------------------------------------------------

    def _task(self, draft: Draft, number: int) -> Task | str:
        query = queries.joined(_shorter(draft.sentences), draft.luck.below(1_000))
        facts = [normalise(need.fact) for need in draft.needs if need.asked]
        if any(fact in query.casefold() for fact in facts):
            return "names a fact that it asks for"
        if any(a != b and facts[a] in facts[b] for a in range(len(facts)) for b in range(len(facts))):
            return "asks for two facts that cannot be told apart"
        if problem := problem_of_words(query, draft.needs):
            return problem
        if any(
            sentence.count(" of ") > MOST_OF or _AGAIN.search(sentence) or _TRAILING.search(sentence)
            for sentence in draft.sentences
        ):
            return "names too many things in one sentence"
        catalog = self.offers.catalog
        gold = [catalog.get(need.tools[0]) for need in draft.needs]
        categories, providers = dict.fromkeys(tool.category for tool in gold), {tool.provider for tool in gold}
        task = Task(
            id=draft.name,
            number=number,
            query=query,
            needs=tuple(draft.needs),
            candidates=self._candidates(draft.luck, draft.asks),
            group="G3" if len(categories) > 1 else "G2" if len(providers) > 1 else "G1",
            instructions=instructions(query, situation(categories), draft.needs, gold),
            size_level=draft.luck.weighted(SIZE_LEVELS),
            named=tuple(tool.name for tool in gold),
        )
        return problem_of_task(task) or task


def _shorter(sentences: Sequence[str]) -> list[str]:
    """Sentences that name a repository once."""
    named: set[str] = set()
    another = any("repository called" in sentence for sentence in sentences)  # "that repository" would be two

    def short(match: re.Match[str]) -> str:
        again = match[1] in named and not another
        named.add(match[1])
        return " in that repository" if again else match[0]

    return [re.sub(r" in the repository ([\w.-]+/[\w.-]*\w)", short, sentence) for sentence in sentences]


def _is_search(capability: ForgedCapability, argument: ForgedArgument) -> bool:
    """Return whether an argument says what to search a list for: what the user calls the thing."""
    return capability.role == "list" and argument.value is not None and argument.value.form == "topic"


def stated_values(arguments: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The plain values of a call's arguments, each with its name, however deep they stand."""
    if isinstance(arguments, Mapping):
        for key, value in arguments.items():
            yield from stated_values(value, f"{name}.{key}" if name else str(key))
    elif isinstance(arguments, list | tuple):
        for value in arguments:
            yield from stated_values(value, name)
    elif arguments is not None:
        yield name, arguments


def problem_of_words(query: str, needs: Sequence[Need]) -> str | None:
    """Say in words which rule of queries one breaks, whatever values it states; None if it keeps all of them."""
    values = [str(value) for need in needs for _, value in stated_values(need.arguments)]
    side_by_side = [pair for a in values for b in values if (pair := f"{a} {b.upper()}") in query]  # a sum and its currency
    return queries.problem_of(query, [*side_by_side, *values])


def problem_of_task(task: Task) -> str | None:
    """Say in words why a task cannot be solved or contradicts itself; None if it can, and does not. Every argument is stated in
    the query, or is a fact that an earlier need finds; and no fact is asked for that tells things apart."""
    query = normalise(task.query)
    for index, need in enumerate(task.needs):
        before = {normalise(task.needs[number].fact) for number in need.after if number < index}
        for name, value in stated_values(need.arguments):
            text = normalise(value)
            if text not in before and text not in query and (queries.major_units(name, value) or text) not in query:
                return f"nothing says the {name} of {need.capability}"
        if need.asked and any(normalise(value) == normalise(need.fact) for _, value in stated_values(need.arguments)):
            return f"asks for what it states: {need.wish}"
    seen: dict[str, str] = {}
    for need in task.needs:
        if need.asked and seen.setdefault(need.wish, need.fact) != need.fact:
            return f"{need.wish} has two values"
    return None

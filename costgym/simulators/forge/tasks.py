"""The tasks of a forged world, each composed when it is first asked for: operations whose answers feed each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from costgym.simulators.errors import ConfigError
from costgym.simulators.forge import queries
from costgym.simulators.forge.values import distinctive, draw
from costgym.simulators.marketplace.instructions import instructions
from costgym.simulators.marketplace.tasks import NEEDS, SIZE_LEVELS, Luck
from costgym.simulators.tasks import Need, Task, normalise
from costgym.simulators.tools import Catalog

if TYPE_CHECKING:
    from costgym.simulators.forge.answers import ForgedAnswers
    from costgym.simulators.forge.source import ForgedArgument, ForgedCapability, ForgedFact, ForgedSource

ATTEMPTS = 100  # times that a task is composed until its facts are distinct and its query keeps the rules


@dataclass(frozen=True, slots=True)
class Asked:
    """A fact that is asked of an operation."""

    capability: ForgedCapability
    fact: ForgedFact | None  # none of a change

    @property
    def takes(self) -> set[str]:
        return {argument.entity for argument in self.capability.arguments if argument.entity}


class Offered:
    """The tools on offer, by capability."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.names: dict[str, list[str]] = {}
        for tool in catalog:
            self.names.setdefault(tool.capability, []).append(tool.name)


class ForgedTaskWriter:
    """Composes the tasks of a forged world, by the world's seed."""

    def __init__(self, source: ForgedSource, catalog: Catalog, answers: ForgedAnswers, seed: int) -> None:
        self.offers, self.candidates = Offered(catalog), (source.candidates, source.candidates)
        self._source, self._answers, self._seed = source, answers, seed
        self._asks = {capability.name: asks for capability in source.capabilities if (asks := self._asks_of(capability))}
        if not self._asks:
            raise ConfigError("source.capabilities", "no capability has a fact that can be asked for")
        gives = [(ask, ask.fact.entity) for asks in self._asks.values() for ask in asks if ask.fact and ask.fact.entity]
        self._links = [
            (ask, name) for ask, entity in gives for name, others in self._asks.items()
            if name != ask.capability.name and entity in others[0].takes
        ]  # fmt: skip
        low, high = source.needs
        self._weights = [weight if low <= count <= high else 0 for count, weight in enumerate(NEEDS, 1)]

    @property
    def most_candidates(self) -> int:
        """The largest number of tools on offer in a task."""
        return min(self.candidates[1], len(self.offers.catalog))

    def _asks_of(self, capability: ForgedCapability) -> list[Asked]:
        entity = self._source.entities.get(capability.entity)
        naming = entity.known_as if entity is not None and capability.role == "list" else None
        if capability.role == "list" and not naming:
            return []
        facts = [fact for fact in capability.facts if fact.words != naming]
        return [Asked(capability, f) for f in facts if f.entity or (f.value is not None and distinctive(f.value.spec()))]

    def write(self, split: str, index: int, number: int) -> Task:
        """Compose the task at a place of a split."""
        problem = ""
        for attempt in range(ATTEMPTS):
            attempted = self._attempt(split, index, number, attempt)
            if isinstance(attempted, Task):
                return attempted
            problem = attempted
        raise ConfigError("source", f"no task can be composed at {split} {index}: the query {problem}; choose another seed")

    def _attempt(self, split: str, index: int, number: int, attempt: int) -> Task | str:
        name = f"{split}-{index:05d}" + (f"-{attempt}" if attempt else "")
        luck = Luck("forged task", name, seed=self._seed)
        count = min(1 + luck.weighted(self._weights), len(self._asks))
        if attempt > ATTEMPTS // 2:  # a world with few distinct facts: fewer needs are easier to tell apart
            count = 1
        chosen = self._choose(luck, count)
        needs, sentences = self._needs(luck, name, chosen)
        query = queries.joined(sentences, luck.below(1_000))
        facts = [normalise(need.fact) for need in needs]
        text = query.casefold()
        if any(fact in text for fact in facts):
            return "names a fact that it asks for"
        if any(a != b and facts[a] in facts[b] for a in range(len(facts)) for b in range(len(facts))):
            return "asks for two facts that cannot be told apart"
        if problem := queries.problem_of(query, [str(v) for need in needs for v in (need.arguments or {}).values()]):
            return problem
        catalog = self.offers.catalog
        gold = [catalog.get(self.offers.names[ask.capability.name][0]) for ask in chosen]
        categories, providers = dict.fromkeys(tool.category for tool in gold), {tool.provider for tool in gold}
        return Task(
            id=name,
            number=number,
            query=query,
            needs=tuple(needs),
            candidates=self._candidates(luck, chosen),
            group="G3" if len(categories) > 1 else "G2" if len(providers) > 1 else "G1",
            instructions=instructions(query, situation(categories), needs, gold),
            size_level=luck.weighted(SIZE_LEVELS),
            named=tuple(tool.name for tool in gold),
        )

    # -- what is asked -----------------------------------------------------------------------------------------------------

    def _choose(self, luck: Luck, count: int) -> list[Asked]:
        """Choose what is asked, with what a call needs before the call."""
        chosen: list[Asked] = []
        taken: set[str] = set()
        if count > 1 and self._links and luck.uniform() < self._source.chain_share:
            first, name = self._links[luck.below(len(self._links))]
            chosen = [first]
            taken = {first.capability.name}
            while name and len(chosen) < count:
                following = [(ask, other) for ask, other in self._links if ask.capability.name == name and other not in taken]
                ask, after = following[luck.below(len(following))] if following and len(chosen) + 1 < count else (None, "")
                asks = self._asks[name]
                chosen.append(ask or asks[luck.below(len(asks))])
                taken.add(name)
                name = after
        while len(chosen) < count:
            rest = [name for name in self._asks if name not in taken]
            asks = self._asks[rest[luck.below(len(rest))]]
            chosen.append(asks[luck.below(len(asks))])
            taken.add(chosen[-1].capability.name)
        return self._sorted(chosen)

    @staticmethod
    def _sorted(chosen: list[Asked]) -> list[Asked]:
        """Put what gives an id before what takes it; in a circle, whatever comes first stays first."""
        left, done = list(chosen), []
        while left:
            ask = next(
                (ask for ask in left if not ask.takes & {o.fact.entity for o in left if o is not ask and o.fact}), left[0]
            )
            done.append(ask)
            left.remove(ask)
        return done

    def _needs(self, luck: Luck, task: str, chosen: Sequence[Asked]) -> tuple[list[Need], list[str]]:
        needs: list[Need] = []
        sentences: list[str] = []
        needs_of_ids: dict[str, int] = {}  # entity -> the need that finds its id
        named: set[str] = set()  # entities that the query has named
        shown: dict[str, str] = {}  # entity -> what it was called
        shared: dict[Any, str | int | float | bool] = {}
        for ask in chosen:
            capability, fact = ask.capability, ask.fact
            assert fact is not None
            arguments: dict[str, Any] = {}
            parts: list[queries.Part] = []
            target: queries.Part | None = None
            key: list[str] = []
            after: set[int] = set()
            for argument in capability.arguments:
                value = self._value(luck, task, argument, shared)
                if argument.entity:
                    known = argument.entity in needs_of_ids or argument.entity in named
                    if argument.entity in needs_of_ids:
                        after.add(needs_of_ids[argument.entity])
                    named.add(argument.entity)
                    if argument.entity == capability.entity and capability.role == "record":
                        target = queries.Part(capability.noun, str(value), known)
                    else:
                        parts.append(queries.Part(self._source.entities[argument.entity].noun, str(value), known))
                else:
                    parts.append(queries.Part(argument.words, str(value), entity=False))
                    key.append(normalise(value))
                if not argument.number and isinstance(value, int | float) and not isinstance(value, bool):
                    value = str(value)
                arguments[argument.name] = value
            if capability.role == "list":
                called = self._named(task, capability, tuple(key))
                again = shown.setdefault(capability.entity, called) == called and capability.entity in named
                about = queries.listed(self._source.entities[capability.entity], called, parts, again)
                named.add(capability.entity)
            else:
                about = queries.subject(capability, parts, target)
            text = str(self._answers.value(task, capability, fact, 0, tuple(key)))
            wish = queries.wish(fact, about)
            needs.append(
                Need(text, tuple(self.offers.names[capability.name]), arguments, tuple(sorted(after)), wish, capability.name)
            )
            if fact.entity:
                needs_of_ids.setdefault(fact.entity, len(needs) - 1)
                named.add(fact.entity)
            sentences.append(queries.question(fact, about, luck.below(1_000)))
        return needs, sentences

    def _named(self, task: str, capability: ForgedCapability, key: tuple[str, ...]) -> str:
        """What the user knows an entity of a list by, as the list shows it."""
        known_as = self._source.entities[capability.entity].known_as
        fact = next((candidate for candidate in capability.facts if candidate.words == known_as), None)
        if fact is None:
            return self._answers.known(task, capability.entity, 0)
        return str(self._answers.value(task, capability, fact, 0, key))

    def _value(self, luck: Luck, task: str, argument: ForgedArgument, shared: dict[Any, Any]) -> str | int | float | bool:
        """The value of an argument: the id of the user's entity, a value that the query names already, or a new one."""
        if argument.entity:
            return self._answers.identity(task, argument.entity, 0)
        assert argument.value is not None
        key = argument.words, argument.value  # an argument of the same name may have other choices elsewhere
        if key not in shared:
            shared[key] = draw(argument.value.spec(), self._seed, task, argument.words, luck.below(1 << 30))
        value: str | int | float | bool = shared[key]
        return value

    def _candidates(self, luck: Luck, chosen: Sequence[Asked]) -> tuple[str, ...]:
        """Choose the tools on offer: up to three quarters serve the needs, in turns; others fill the rest."""
        catalog, slots = self.offers.catalog, min(self.candidates[1], len(self.offers.catalog))
        orders = [luck.order(self.offers.names[ask.capability.name]) for ask in chosen]
        room = max(slots - slots // 4, min(slots, 2 * len(chosen)))
        turns = [order[lap] for lap in range(max(map(len, orders))) for order in orders if lap < len(order)]
        picked = turns[:room]
        serving = set(turns)
        picked += luck.order([tool.name for tool in catalog if tool.name not in serving])[: slots - len(picked)]
        picked += turns[room : room + slots - len(picked)]
        return tuple(luck.order(picked))


def situation(categories: Iterable[str]) -> str:
    """Return what a user says of themselves without asking for anything; a document of an API tells no more."""
    return f"I have some questions about {' and '.join(name.replace('_', ' ') for name in categories)}."

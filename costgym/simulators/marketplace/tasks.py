"""The tasks of a generated marketplace, each written when it is first asked for.

A task follows from the seed, its split and its place in it, so more tasks in one split change nothing in another, and the
number of candidates changes nothing but the candidates.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, repeat
from typing import Any, TypeVar

from costgym.simulators.draws import stable_generator
from costgym.simulators.errors import ConfigError
from costgym.simulators.marketplace.answers import GeneratedAnswers
from costgym.simulators.marketplace.instructions import MOST_SITUATIONS, instructions, solved_with
from costgym.simulators.marketplace.vocabulary import Capability, MarketVocabulary
from costgym.simulators.tasks import KeptTasks, Need, Task, normalise
from costgym.simulators.tools import Catalog, Tool

GROUPS = {"G1": 0.4, "G2": 0.3, "G3": 0.3}
NEEDS = (27, 525, 152, 42, 16, 3)
"""Weights of tasks with 1, 2, ... 6 needs. Source: relevant APIs of StableToolBench's 765 solvable queries."""
MAX_CHAIN = 4  # most calls of a chain
SIZE_LEVELS = (0.4, 0.3, 0.2, 0.1)  # weights of the four size levels of a task's input
ALTERNATIVE_SHARE = 0.3  # share of the needs about which the user may change their mind, among those that nothing depends on
_ASKS = ("Please find {}.", "I would like to know {}.", "Tell me {}.", "Could you look up {}?")
_MORE = ("I also need {}.", "Then find out {}.", "On top of that, tell me {}.", "Please also look up {}.", "And what is {}?")

LARGE_SPLIT, LARGE = "train-large", 20_000
LEARNING_SPLITS = ("train", LARGE_SPLIT)  # a split with more tasks than `train`, and how many it has

T = TypeVar("T")
Pool = tuple[str, list[Capability], list[tuple[Capability, ...]]]  # a name, what is on offer there, and the chains of it


class Luck:
    """A stream of choices from one generator."""

    def __init__(self, *names: object, seed: int) -> None:
        generator = self._generator = stable_generator(seed, *names)
        self._uniforms: Iterator[float] = (value for _ in repeat(None) for value in generator.random(64).tolist())

    def uniform(self) -> float:
        """A number in [0, 1)."""
        return next(self._uniforms)

    def below(self, bound: int) -> int:
        """A whole number in [0, bound)."""
        return int(self.uniform() * bound)

    def pick(self, items: Sequence[T]) -> T:
        """One of the items, each with the same chance."""
        return items[self.below(len(items))]

    def weighted(self, weights: Sequence[float]) -> int:
        """An index, by weight."""
        luck = self.uniform() * sum(weights)
        return next((index for index, edge in enumerate(accumulate(weights)) if luck < edge), len(weights) - 1)

    def order(self, items: Sequence[T]) -> list[T]:
        """The items in random order."""
        return [items[index] for index in self._generator.permutation(len(items)).tolist()]


class Offers:
    """The capabilities that a catalog's providers and categories offer, from which tasks choose."""

    def __init__(self, catalog: Catalog, capabilities: Mapping[str, Capability]) -> None:
        self.tools: dict[str, list[Tool]] = {}  # by capability
        self.by_category: dict[str, list[Tool]] = {}
        providers: dict[str, dict[str, None]] = {}
        for tool in catalog:
            self.tools.setdefault(tool.capability, []).append(tool)
            self.by_category.setdefault(tool.category, []).append(tool)
            providers.setdefault(tool.provider, {})[tool.capability] = None
        self.capabilities = capabilities
        self.catalog = catalog
        self.names = {name: tuple(tool.name for tool in tools) for name, tools in self.tools.items()}
        offered = [capabilities[name] for name in self.tools]
        categories = {name: [c for c in offered if c.category == name] for name in self.by_category}
        self._pools = {
            "G1": [_pool(name, [capabilities[c] for c in members]) for name, members in providers.items()],
            "G2": [_pool(name, members) for name, members in categories.items()],
            "G3": [_pool("", offered)],
        }
        self._across = [pair for pair in self._pools["G3"][0][2] if pair[0].category != pair[1].category]
        self._eligible: dict[tuple[str, int, int], list[Pool]] = {}

    def pools(self, group: str, needs: int, length: int = 1) -> list[Pool]:
        """Providers (G1), categories (G2) or the whole market (G3) that can serve this many needs.

        From a `length` of 2 on, they have a chain of so many calls.
        """
        key = (group, needs, length)
        if key not in self._eligible:
            groups = [
                (name, members, chains(pairs, length)) for name, members, pairs in self._pools[group] if len(members) >= needs
            ]
            self._eligible[key] = [entry for entry in groups if entry[2] or length < 2]
        return self._eligible[key]

    def choose(self, luck: Luck, group: str, needs: int, chained: bool) -> tuple[str, list[Capability], bool]:
        """Choose a task's provider, if it has one, the capabilities of its needs, and whether they form a chain."""
        chained = chained and bool(self.pools(group, needs, 2))
        # a small market may have no provider with so many capabilities: then the task asks for less
        while not self.pools(group, needs):
            needs -= 1
        chained = chained and needs > 1
        eligible = self.pools(group, needs, 2 if chained else 1)
        name, members, pairs = luck.pick(eligible)
        if group == "G3" and needs == 2:
            pairs = self._across
            chained = chained and bool(pairs)
        chosen: list[Capability] = list(luck.pick(pairs)) if chained else []
        while len(chosen) < needs:
            names = {c.name for c in chosen}  # equality of capabilities compares all their fields
            chosen.append(_next(luck, group, chosen, [c for c in members if c.name not in names]))
        chosen = luck.order(chosen)
        provided = {c.gives for c in chosen if c.gives} if chained else set()
        chosen.sort(key=lambda c: any(c.takes(kind) for kind in provided))  # what a call needs is asked for before it
        return (name if group == "G1" else ""), chosen, chained

    def choose_long(self, luck: Luck, group: str, needs: int, length: int) -> tuple[str, list[Capability]]:
        """Choose a task's provider, if it has one, and the capabilities of its needs, with one chain of this length."""
        eligible = self.pools(group, needs, length)
        name, members, eligible_chains = luck.pick(eligible)
        chosen = list(luck.pick(eligible_chains))
        end = chosen[-1].gives
        provided = {c.gives for c in chosen} - {""}
        taken = {kind.name for c in chosen for kind in c.parameters}
        # a need beside the chain must neither feed it nor be fed by it, or the chain would be longer than asked for
        free = [c for c in members if c not in chosen and c.gives not in provided | taken and not c.takes(end)]
        while len(chosen) < needs and free:
            chosen.append(_next(luck, group, chosen, free))
            free = [c for c in free if c is not chosen[-1] and not (c.gives and c.gives == chosen[-1].gives)]
        chosen = luck.order(chosen)
        return (name if group == "G1" else ""), sorted(chosen, key=lambda c: _depth(c, chosen))


def _next(luck: Luck, group: str, chosen: Sequence[Capability], free: list[Capability]) -> Capability:
    # a task of G3 crosses categories, so with one category so far the next need comes from another
    if group == "G3" and len({c.category for c in chosen}) == 1:
        free = [c for c in free if c.category != chosen[0].category] or free
    return luck.pick(free)


def _depth(capability: Capability, chosen: Sequence[Capability]) -> int:
    """The number of calls that have to come before a capability's, one after the other."""
    return max((1 + _depth(other, chosen) for other in chosen if other.gives and capability.takes(other.gives)), default=0)


def chains(pairs: Sequence[tuple[Capability, ...]], length: int) -> list[tuple[Capability, ...]]:
    """All chains of a length in which each capability's answer is the next one's argument."""
    following: dict[str, list[Capability]] = {}
    for head, tail in pairs:
        following.setdefault(head.name, []).append(tail)
    grown: list[tuple[Capability, ...]] = list(pairs)
    for _ in range(length - 2):
        grown = [(*chain, tail) for chain in grown for tail in following.get(chain[-1].name, ()) if tail not in chain]
    return grown


def _pool(name: str, capabilities: list[Capability]) -> Pool:
    """A place to choose needs from, with the pairs in which one capability's answer is the other's argument."""
    taking: dict[str, list[Capability]] = {}
    for capability in capabilities:
        for kind in {parameter.name for parameter in capability.parameters}:
            taking.setdefault(kind, []).append(capability)
    return name, capabilities, [(head, tail) for head in capabilities if head.gives for tail in taking.get(head.gives, ())]


@dataclass(frozen=True, slots=True)
class TaskRules:
    """How tasks are composed."""

    chain_share: float = 0.35  # share of the tasks with several needs in which one call's answer is another's argument
    # number of needs of a task, or its lowest and highest value; None for 1 to 6, as in StableToolBench
    needs: int | tuple[int, int] | None = None
    # number of calls in a chain, or its lowest and highest value; no more than the task has needs
    chain_length: int | tuple[int, int] = 2
    # share of the tools on offer that serve a need, one for each need at least; the others are then those of the same
    # categories whose capabilities share most words with the needs'. None for three quarters, and any others.
    serving: float | None = None

    def __post_init__(self) -> None:
        low, high = self.chain
        if not 2 <= low <= high <= MAX_CHAIN:
            raise ConfigError(
                "marketplace.chain_length", f"expected 2 to {MAX_CHAIN}, or such a range, got {self.chain_length}"
            )
        low, high = self.bounds
        if not 1 <= low <= high <= len(NEEDS):
            raise ConfigError("marketplace.needs", f"expected 1 to {len(NEEDS)}, or such a range, got {self.needs}")

    @property
    def chain(self) -> tuple[int, int]:
        """Lowest and highest number of calls in a chain."""
        return (self.chain_length, self.chain_length) if isinstance(self.chain_length, int) else self.chain_length

    @property
    def bounds(self) -> tuple[int, int]:
        """Lowest and highest number of needs."""
        return (self.needs, self.needs) if isinstance(self.needs, int) else self.needs or (1, len(NEEDS))


class TaskWriter:
    """Writes a marketplace's tasks; splits divide the entities between them."""

    def __init__(
        self,
        seed: int,
        offers: Offers,
        answers: GeneratedAnswers,
        vocabulary: MarketVocabulary,
        splits: Sequence[str],
        candidates: tuple[int, int],
        rules: TaskRules,
    ) -> None:
        self.seed, self.offers, self.splits, self.candidates = seed, offers, tuple(splits), candidates
        self.rules, self._database = rules, answers.database
        self._openers = {category.name: category.opener for category in vocabulary.categories}
        low, high = rules.bounds
        self._need_weights = [weight if low <= count <= high else 0 for count, weight in enumerate(NEEDS, 1)]
        across = len(offers.by_category) > 1 and high > 1  # G3 is about two categories at least
        self._groups = {name: share for name, share in GROUPS.items() if across or name != "G3"}

    @property
    def most_candidates(self) -> int:
        """The largest number of tools that a task can have on offer."""
        return min(self.candidates[1], len(self.offers.catalog))

    def opener(self, capability: Capability) -> str:
        """A sentence about the situation of a user who asks for a capability."""
        return self._openers[capability.category]

    def one_need(self, luck: Luck, split: str, capability: Capability) -> Need:
        """A need for a capability, about values that belong to a split."""
        return self._need(capability, self._arguments(luck, split, capability, {}, {}), {})

    def offered(self, split: str, index: int, chosen: Sequence[Capability]) -> tuple[str, ...]:
        """The tools on offer in a task at a place of a split that needs these capabilities."""
        return self._candidates(split, index, self._slots(split, index), chosen, ())

    def write(self, split: str, index: int, number: int) -> Task:
        """Write the task at a place of a split."""
        slots = self._slots(split, index)
        luck = Luck("task", split, index, seed=self.seed)
        group = list(self._groups)[luck.weighted(tuple(self._groups.values()))]
        count = min(slots, max(1 + luck.weighted(self._need_weights), 2 if group == "G3" else 1))
        if self.rules.needs is not None and not self.offers.pools(group, count):
            group = next((other for other in reversed(self._groups) if self.offers.pools(other, count)), group)
        chained = luck.uniform() < self.rules.chain_share
        size_level = luck.weighted(SIZE_LEVELS)
        length = self._length(luck, group, count) if chained else 2
        if length > 2:
            group = group if self.offers.pools(group, count, length) else "G3"
            provider, chosen = self.offers.choose_long(luck, group, count, length)
        else:
            provider, chosen, chained = self.offers.choose(luck, group, count, chained)
        needs, query = self._needs(luck, split, chosen, chained)
        tools = [self._of_provider(capability, provider) for capability in chosen]
        candidates = self._candidates(split, index, slots, chosen, [tool for tool in tools if tool is not None])
        solving = Luck("solved path", split, index, seed=self.seed)
        gold = [one or self._solving(solving, capability, candidates) for one, capability in zip(tools, chosen, strict=True)]
        situations = [self._openers[name] for name in dict.fromkeys(c.category for c in chosen)]
        return Task(
            id=f"{split}-{index:05d}",
            number=number,
            query=query,
            needs=tuple(needs),
            candidates=candidates,
            group=group,
            instructions=instructions(query, " ".join(situations[:MOST_SITUATIONS]), needs, gold),
            size_level=size_level,
            named=tuple(tool.name for tool in gold),
        )

    def _length(self, luck: Luck, group: str, count: int) -> int:
        """Choose the length of a task's chain, as long as its needs and what is on offer allow."""
        low, high = self.rules.chain
        if high == 2:
            return 2
        wanted = min(count, low + luck.below(high - low + 1))
        across = ("G3",) if "G3" in self._groups else ()
        return next((n for n in range(wanted, 2, -1) if any(self.offers.pools(g, count, n) for g in (group, *across))), 2)

    def _slots(self, split: str, index: int) -> int:
        low, high = self.candidates
        wanted = low + Luck("slots", split, index, seed=self.seed).below(high - low + 1)
        return min(wanted, len(self.offers.catalog))

    def _needs(self, luck: Luck, split: str, chosen: Sequence[Capability], chained: bool) -> tuple[list[Need], str]:
        for _ in range(200):
            needs = self._draw_needs(luck, split, chosen, chained)
            query = self._query(luck, chosen[0], needs)
            facts = [need.fact for need in needs] + [need.alternative.fact for need in needs if need.alternative]
            text = query.casefold()
            alone = all(normalise(fact) not in text for fact in facts)
            if alone and not any(a is not b and normalise(a) in normalise(b) for a in facts for b in facts):
                return needs, query
        raise ConfigError("marketplace", f"no distinct facts for {', '.join(c.name for c in chosen)}; choose another seed")

    def _draw_needs(self, luck: Luck, split: str, chosen: Sequence[Capability], chained: bool) -> list[Need]:
        needs: list[Need] = []
        known: dict[str, tuple[int, str]] = {}  # kind of code -> the need that finds it, and what it finds
        shared: dict[str, str | int] = {}
        awaited = {kind for c in chosen if chained and (kind := c.gives) and any(d.takes(kind) for d in chosen)}
        for index, capability in enumerate(chosen):
            chain = {k.name: known[k.name] for k in capability.parameters if k.name in known}
            codes = {name: code for name, (_, code) in chain.items()}
            arguments = self._arguments(luck, split, capability, codes, shared)
            need = self._need(capability, arguments, chain)
            if capability.gives in awaited:
                known[capability.gives] = (index, need.fact)
            elif len(chain) < len(capability.parameters) and luck.uniform() < ALTERNATIVE_SHARE:
                other = self._need(capability, self._arguments(luck, split, capability, codes, {}), chain)
                need = replace(need, alternative=other) if other.fact != need.fact else need
            needs.append(need)
        return needs

    def _arguments(
        self, luck: Luck, split: str, capability: Capability, fixed: Mapping[str, str], shared: dict[str, str | int]
    ) -> dict[str, str | int]:
        """Choose values for the arguments: facts of earlier needs, values that the query names already, or new ones."""
        share, shares = self.splits.index(split), len(self.splits)
        arguments: dict[str, str | int] = {}
        for kind in capability.parameters:
            if kind.name in fixed:
                arguments[kind.name] = fixed[kind.name]
            elif kind.name in shared and luck.uniform() < 0.5:
                arguments[kind.name] = shared[kind.name]
            else:
                size = kind.size
                number = luck.below(-(-(size - share) // shares)) * shares + share if kind.entity else luck.below(size)
                arguments[kind.name] = shared[kind.name] = kind.value(number, self.seed)
        return arguments

    def _need(self, capability: Capability, arguments: Mapping[str, Any], chain: Mapping[str, tuple[int, str]]) -> Need:
        numbers = self._database.numbers(capability, arguments)
        assert numbers is not None
        phrases = {k.name: k.reference if k.name in chain else k.phrase(arguments[k.name]) for k in capability.parameters}
        return Need(
            fact=str(self._database.fact(capability, numbers)),
            tools=self.offers.names[capability.name],
            arguments=dict(arguments),
            after=tuple(sorted({index for index, _ in chain.values()})),
            wish=capability.wish.format(**phrases),
            capability=capability.name,
        )

    def _query(self, luck: Luck, first: Capability, needs: Sequence[Need]) -> str:
        sentences = [self._openers[first.category], luck.pick(_ASKS).format(needs[0].wish)]
        start = luck.below(len(_MORE))
        sentences += [_MORE[(start + i) % len(_MORE)].format(need.wish) for i, need in enumerate(needs[1:])]
        return " ".join(sentences)

    def _of_provider(self, capability: Capability, provider: str) -> Tool | None:
        tools = self.offers.tools[capability.name]
        return next((tool for tool in tools if provider and tool.provider == provider), None)

    def _solving(self, luck: Luck, capability: Capability, candidates: Sequence[str]) -> Tool:
        """The tool that a solved path calls for a capability, of those on offer where any of them serves."""
        tools = luck.order(self.offers.tools[capability.name])
        return solved_with([tool for tool in tools if tool.name in candidates] or tools, luck.uniform)

    def _candidates(
        self, split: str, index: int, slots: int, chosen: Sequence[Capability], first: Sequence[Tool]
    ) -> tuple[str, ...]:
        """Choose the tools on offer: some serve the needs, in turns; the others are of the same categories."""
        luck = Luck("candidates", split, index, seed=self.seed)
        if slots >= len(self.offers.catalog):
            return tuple(luck.order([tool.name for tool in self.offers.catalog]))
        queues = []
        for capability in chosen:
            names = luck.order(self.offers.names[capability.name])
            queues.append(sorted(names, key=lambda name: all(name != tool.name for tool in first)))
        serving = self.rules.serving
        room = max(slots - slots // 4, min(slots, 2 * len(chosen)))
        if serving is not None:
            room = min(slots, max(len(chosen), round(serving * slots)))
        turns = (queue[lap] for lap in range(max(map(len, queues))) for queue in queues if lap < len(queue))
        picked = [name for name, _ in zip(turns, range(room), strict=False)]
        needed = {capability.name for capability in chosen}
        near = {capability.category: None for capability in chosen}
        beside = luck.order([t for c in near for t in self.offers.by_category[c] if t.capability not in needed])
        if serving is not None:
            known = self.offers.capabilities
            beside.sort(key=lambda tool: -max(_likeness(known[tool.capability], capability) for capability in chosen))
        others = [tool.name for tool in beside]
        if len(picked) + len(others) < slots:
            others += luck.order([tool.name for tool in self.offers.catalog if tool.category not in near])
        picked += others[: slots - len(picked)]
        if len(picked) < slots:  # a small catalog: the rest of what serves the needs
            rest = [name for queue in queues for name in queue if name not in set(picked)]
            picked += rest[: slots - len(picked)]
        return tuple(luck.order(picked))


def _likeness(one: Capability, other: Capability) -> float:
    """The share of words that the names and wishes of two capabilities have in common."""
    ours, theirs = _words(f"{one.name} {one.wish}"), _words(f"{other.name} {other.wish}")
    return len(ours & theirs) / len(ours | theirs)


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    return frozenset(text.casefold().replace("_", " ").split())


class LazyTaskSet(KeptTasks):
    """Tasks that are written when they are asked for.

    With `on_demand` there is also ``train-large``, `LARGE` tasks: those of ``train`` and more, whose numbers follow behind all
    others. They share the entities of ``train``, never those of another split.
    """

    def __init__(self, writer: TaskWriter, counts: Mapping[str, int], on_demand: bool = True) -> None:
        edges = list(accumulate(counts.values(), initial=0))
        splits = {name: range(start, start + count) for (name, count), start in zip(counts.items(), edges[:-1], strict=True)}
        super().__init__(splits)
        self.writer, self._ranges = writer, splits
        self._count = self._end = edges[-1]
        self._has_large = on_demand and "train" in splits
        if self._has_large:
            self._end += max(0, LARGE - len(splits["train"]))

    def __len__(self) -> int:
        return self._count

    def has(self, number: int) -> bool:
        return 0 <= number < self._end

    def numbers(self, split: str) -> Sequence[int]:
        if split == LARGE_SPLIT and self._has_large:
            return (*self._ranges["train"], *range(self._count, self._end))
        return super().numbers(split)

    def _written(self, number: int) -> Task:
        if not 0 <= number < self._end:
            raise IndexError(f"task {number} of {self._count}")
        split = next((name for name, numbers in self._ranges.items() if number in numbers), "train")
        index = number - self._ranges[split].start if number < self._count else number - self._count + len(self._ranges[split])
        return self.writer.write(split, index, number)

    @property
    def most_candidates(self) -> int:
        """The largest number of tools that a task can have on offer; known without writing the tasks."""
        return self.writer.most_candidates

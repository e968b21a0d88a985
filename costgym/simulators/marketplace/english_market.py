"""The marketplace of version 1: the same tools and tasks as in version 0, shown and asked in plain English.

Everything that numbers show follows from version 0, whose tools' names are the keys from which prices, latencies, reliabilities
and luck are drawn. Only what is read is written again: names, documentation, queries, arguments and facts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import ConfigError
from costgym.simulators.marketplace.answers import GeneratedAnswers
from costgym.simulators.marketplace.catalogue import false_promise
from costgym.simulators.marketplace.english import EnglishDatabase, EnglishKind, english
from costgym.simulators.marketplace.instructions import MOST_SITUATIONS, instructions
from costgym.simulators.marketplace.market import Marketplace
from costgym.simulators.marketplace.tasks import LazyTaskSet, Luck, Offers, TaskWriter
from costgym.simulators.marketplace.vocabulary import Capability, MarketVocabulary
from costgym.simulators.tasks import Need, Task, normalise
from costgym.simulators.tools import Catalog, Tool

MAX_NAME = 64  # characters of a function's name
_ASKS = (
    "Please look up {}.", "Can you tell me {}?", "Could you find out {}?", "I would like to know {}.", "What is {}?",
    "I need to know {}.",
)  # fmt: skip
_MORE = (
    "I also need {}.", "Could you also check {}?", "Please also look up {}.", "I would also like to know {}.",
    "And what is {}?", "Please also tell me {}.",
)  # fmt: skip
_TURNS = ("On another note, ", "Separately, ", "Apart from that, ", "Besides, ", "Also, ")  # before a situation of another kind
_NOTES = (
    "The response is a single JSON object.",
    "The data is refreshed several times a day.",
    "Results may be cached for up to a minute.",
    "Optional parameters only change how the result is presented.",
    "The data comes from public and licensed sources.",
    "Parameter values are not case-sensitive.",
    "Suitable for apps, websites and dashboards.",
)
_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {
        "locale": {
            "type": "string",
            "description": "The locale of labels.",
            "enum": ["en-GB", "de-DE", "fr-FR"],
            "default": "en-GB",
        }
    },
    {"verbose": {"type": "boolean", "description": "Whether to write labels in full.", "default": False}},
    {"limit": {"type": "integer", "description": "The maximum number of records.", "minimum": 1, "maximum": 50, "default": 1}},
    {"source": {"type": "string", "description": "The preferred source of the data, if any.", "default": "any"}},
)


def in_english(tools: Sequence[Tool], plain: TaskWriter, counts: dict[str, int]) -> Marketplace:
    """The marketplace of version 1 over the tools of version 0 and the writer of its tasks."""
    seed, known = plain.seed, english(links=plain.rules.chain[1] > 2)
    catalog = Catalog(translated(seed, tools, known), "marketplace")
    answers = GeneratedAnswers(EnglishDatabase(seed, known.kinds, len(counts)), known.capabilities)
    writer = EnglishTaskWriter(plain, Offers(catalog, known.capabilities), answers, known)
    return Marketplace(catalog, LazyTaskSet(writer, counts), answers)


def translated(seed: int, tools: Iterable[Tool], known: MarketVocabulary) -> list[Tool]:
    """The tools of version 0 as version 1 shows them, in the same order."""
    shown: list[Tool] = []
    names: set[str] = set()
    providers: dict[str, str] = {}
    for tool in tools:
        if tool.provider not in providers:
            providers[tool.provider] = _provider(tool.provider, set(providers.values()))
        provider, capability = providers[tool.provider], known.capabilities[tool.capability]
        title = known.capabilities[false_promise(tool) or tool.capability].title
        name = first = f"{re.sub('[^a-z0-9]+', '_', provider.lower())}_{title}"[:MAX_NAME]
        lap = 1
        while name in names:
            lap += 1
            name = f"{first[: MAX_NAME - 4]}_{lap}"
        names.add(name)
        shown.append(_shown(seed, tool, name, provider, title, capability))
    return shown


def _provider(plain: str, taken: set[str]) -> str:
    """The name of a provider without what version 0 adds to it, as far as that tells providers apart."""
    prefix, word, *rest = plain.split()
    forms = (f"{prefix} {word}", f"{prefix} {word} {rest[0]}", plain)
    return next((form for form in forms if form not in taken), plain)


def _shown(seed: int, tool: Tool, name: str, provider: str, title: str, capability: Capability) -> Tool:
    luck = stable_integer(seed, "documentation", tool.name)
    luck, note = divmod(luck, len(_NOTES))
    option = _OPTIONS[luck % len(_OPTIONS)]
    kinds = capability.parameters
    wish = capability.wish.format(**{kind.name: kind.blank for kind in kinds if isinstance(kind, EnglishKind)})
    parameters = {
        "type": "object",
        "properties": {kind.name: kind.schema() for kind in kinds} | option,
        "required": [kind.name for kind in kinds],
        "additionalProperties": False,
    }
    verb = "Finds" if capability.title.startswith("find_") else "Returns"
    return replace(
        tool,
        name=name,
        origin=tool.name,
        description=f"{verb} {wish}. {_NOTES[note]}",
        provider=provider,
        title=title,
        parameters=parameters,
    )


class EnglishTaskWriter(TaskWriter):
    """Writes the tasks of version 0 in other words: what depends on what, who is on offer and what may change stay the same."""

    def __init__(self, plain: TaskWriter, offers: Offers, answers: GeneratedAnswers, known: MarketVocabulary) -> None:
        super().__init__(plain.seed, offers, answers, known, plain.splits, plain.candidates, plain.rules)
        self._plain, self._known = plain, known
        self._names = {tool.key: tool.name for tool in offers.catalog}
        self._situations = {category.name: category.openers for category in known.categories}

    def write(self, split: str, index: int, number: int) -> Task:
        plain = self._plain.write(split, index, number)
        luck = Luck("english", split, index, seed=self.seed)
        chosen = [self._known.capabilities[need.capability] for need in plain.needs]
        categories = list(dict.fromkeys(capability.category for capability in chosen))
        situations = {name: luck.pick(self._situations[name]) for name in categories}
        needs, query = self._worded(luck, split, chosen, plain.needs, situations)
        named = tuple(self._names[key] for key in plain.named)
        gold = [self.offers.catalog.get(name) for name in named]
        return replace(
            plain,
            query=query,
            needs=tuple(needs),
            candidates=tuple(self._names[key] for key in plain.candidates),
            instructions=instructions(query, " ".join([*situations.values()][:MOST_SITUATIONS]), needs, gold),
            named=named,
        )

    def _worded(
        self, luck: Luck, split: str, chosen: Sequence[Capability], plain: Sequence[Need], situations: Mapping[str, str]
    ) -> tuple[list[Need], str]:
        """Needs with arguments and facts, and the query that asks for them; no fact stands in the query or in another fact."""
        for _ in range(200):
            needs = self._drawn(luck, split, chosen, plain)
            query = " ".join(_sentences(luck, needs, [capability.category for capability in chosen], situations))
            facts = [need.fact for need in needs] + [need.alternative.fact for need in needs if need.alternative]
            text, short = normalise(query), [normalise(fact) for fact in facts]
            alone = all(fact not in text for fact in short)
            if alone and not any(i != j and a in b for i, a in enumerate(short) for j, b in enumerate(short)):
                return needs, query
        raise ConfigError("marketplace", f"no distinct facts for {', '.join(c.name for c in chosen)}; choose another seed")

    def _drawn(self, luck: Luck, split: str, chosen: Sequence[Capability], plain: Sequence[Need]) -> list[Need]:
        needs: list[Need] = []
        shared: dict[str, str | int] = {}
        for capability, old in zip(chosen, plain, strict=True):
            chain = {chosen[before].gives: (before, needs[before].fact) for before in old.after}
            codes = {kind: code for kind, (_, code) in chain.items()}
            need = self._need(capability, self._arguments(luck, split, capability, codes, shared), chain)
            need = replace(need, wish=_again(need.wish, capability, need.arguments or {}, needs))
            if old.alternative is not None:
                other = self._need(capability, self._arguments(luck, split, capability, codes, {}), chain)
                need = replace(need, alternative=other)
            needs.append(need)
        return needs


def _again(wish: str, capability: Capability, arguments: Mapping[str, Any], before: Sequence[Need]) -> str:
    """A wish that calls "that company" what an earlier one has named by its code."""
    for kind in capability.parameters:
        if kind.form == "code" and any((one.arguments or {}).get(kind.name) == arguments[kind.name] for one in before):
            wish = wish.replace(kind.phrase(arguments[kind.name]), kind.reference)
    return wish


def _sentences(luck: Luck, needs: Sequence[Need], categories: Sequence[str], situations: Mapping[str, str]) -> Iterator[str]:
    """The sentences of a query: for each new kind of business the user's situation, and a request for each need."""
    start, met = luck.below(len(_MORE)), set[str]()
    for index, (need, category) in enumerate(zip(needs, categories, strict=True)):
        request = _MORE[(start + index) % len(_MORE)]
        if category not in met:
            situation, request = situations[category], luck.pick(_ASKS)
            turn = _TURNS[(start + len(met)) % len(_TURNS)]
            yield f"{turn}{_uncapitalised(situation)}" if met else situation
            met.add(category)
        yield request.format(need.wish)


def _uncapitalised(sentence: str) -> str:
    return sentence if sentence.startswith("I ") else sentence[0].lower() + sentence[1:]

"""The vocabulary of the marketplace: categories, their capabilities, and the kinds of their arguments and answers.

`vocabulary.json` holds one line per capability: ``name | wish | answer field``. The placeholders of the wish are the
capability's parameters. The answer is a format of `facts`, or ``code:KIND`` where it is a code that other capabilities take
as an argument; such answers make chains. Its `links` take a code and give another one, so that chains can be long.
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from costgym.simulators.marketplace.entities import Kind

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Capability:
    """Something that several providers can do."""

    name: str
    category: str  # field of business
    wish: str  # the fact that it gives, as a noun phrase with placeholders
    parameters: tuple[Kind, ...]  # kinds of its arguments
    answer: str  # format of the fact
    gives: str  # the kind of code that its answer is, or ""
    field: str  # name of the answer in JSON
    title: str = ""  # what version 1 calls a tool for it, after the provider's name

    def takes(self, kind: str) -> bool:
        """Return whether one of the parameters is of this kind."""
        return any(parameter.name == kind for parameter in self.parameters)


@dataclass(frozen=True, slots=True)
class Category:
    """A field of business: the opening of queries about it, words for its providers' names, and its capabilities."""

    name: str
    opener: str
    words: tuple[str, ...]
    capabilities: tuple[Capability, ...]
    openers: tuple[str, ...]  # all openings of queries; version 1 has several


@dataclass(frozen=True, slots=True)
class MarketVocabulary:
    """All categories, their capabilities, and the kinds of values by name."""

    categories: tuple[Category, ...]
    capabilities: dict[str, Capability]  # by name
    kinds: dict[str, Kind]


@cache
def vocabulary(links: bool = False) -> MarketVocabulary:
    """The vocabulary that comes with the package; `links` adds the capabilities that long chains are made of."""
    document = json.loads((Path(__file__).parent / "vocabulary.json").read_text(encoding="utf-8"))
    kinds = {name: Kind(name, "code", noun, prefix) for name, (noun, prefix) in document["codes"].items()}
    kinds |= {name: Kind.of_values(name, spec) for name, spec in document["values"].items()}
    categories = []
    for name, entry in document["categories"].items():
        capabilities = []
        for line in [*entry["capabilities"], *(document["links"].get(name, ()) if links else ())]:
            title, wish, result = line.split(" | ")
            answer, field = result.split()
            parameters = tuple(kinds.setdefault(kind, Kind(kind, "name")) for kind in _PLACEHOLDER.findall(wish))
            format_, _, gives = answer.partition(":")
            capabilities.append(Capability(title, name, wish, parameters, format_, gives, field))
        categories.append(Category(name, entry["opener"], tuple(entry["words"]), tuple(capabilities), (entry["opener"],)))
    by_name = {capability.name: capability for category in categories for capability in category.capabilities}
    return MarketVocabulary(tuple(categories), by_name, kinds)

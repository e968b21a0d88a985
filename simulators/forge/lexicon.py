"""The word lists of the forge: which nouns say nothing, which names mark an id, which parameters only a machine knows."""

import json
from functools import cache
from pathlib import Path


@cache
def _lists() -> dict[str, tuple[str, ...]]:
    document: dict[str, str] = json.loads((Path(__file__).parent / "lexicon.json").read_text(encoding="utf-8"))
    return {name: tuple(words.split()) for name, words in document.items()}


def listed(name: str) -> tuple[str, ...]:
    """A list of words, in order."""
    return _lists()[name]


def lexicon(name: str) -> frozenset[str]:
    """A list of words, to look words up in."""
    return frozenset(_lists()[name])


def mapped(name: str) -> dict[str, str]:
    """A list of pairs of words, such as "vms:vm", as a mapping."""
    return dict(pair.split(":") for pair in _lists()[name])

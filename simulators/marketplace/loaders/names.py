"""Standardise names of tools and functions as the whole ToolBench family does.

Source: ToolBench (its published naming rules): the function name is the last 64 characters of ``<api>_for_<tool>``.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

_FOREIGN = re.compile("[^一-龥^a-zA-Z0-9_]")
_RESERVED = frozenset({"from", "class", "return", "false", "true", "id", "and"})
LONGEST = 64


@lru_cache(maxsize=65536)
def standardize(name: str) -> str:
    """A name in lower case with single underscores. A leading digit gets ``get_``; the caret stays, as in the original."""
    plain = re.sub("_+", "_", _FOREIGN.sub("_", name)).lower().strip("_")
    return f"get_{plain}" if plain[:1].isdigit() else plain


def change_name(name: str) -> str:
    """Change a name that is a reserved word."""
    return f"is_{name}" if name in _RESERVED else name


def standardize_category(category: str) -> str:
    """The name of a category's folder."""
    return re.sub("[ ,/]", "_", category).replace("__", "_")


def function_name(api: str, tool: str) -> str:
    """The function's name, where no other function has the same."""
    return f"{change_name(standardize(api))}_for_{standardize(tool)}"[-LONGEST:]


def unique_names(keys: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str, str], str]:
    """Function names of (category, tool, api) keys. Of keys that collide, the first in sorted order keeps the plain name."""
    names: dict[tuple[str, str, str], str] = {}
    taken: set[str] = set()
    for key in sorted(keys):
        plain = name = function_name(key[2], key[1])
        lap = 1
        while name in taken:
            lap += 1
            suffix = f"_{lap}"
            name = plain[-(LONGEST - len(suffix)) :] + suffix
        taken.add(name)
        names[key] = name
    return names

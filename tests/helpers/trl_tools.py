"""The tools of an environment, as TRL finds them."""

import inspect
from collections.abc import Callable
from typing import Any


def tools_of(environment: Any) -> list[Callable[..., str]]:
    """Return the methods that TRL treats as tools, in TRL's order."""
    members = inspect.getmembers(type(environment), predicate=inspect.isfunction)
    return [getattr(environment, name) for name, _ in members if not name.startswith("_") and name != "reset"]

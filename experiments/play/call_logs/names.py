"""Names of logged tools as functions for a model."""

import re
from collections.abc import Sequence


def callable_names(tools: Sequence[str]) -> dict[str, str]:
    """Unique names that are valid as function names for a model."""
    found: dict[str, str] = {}
    for tool in tools:
        name = re.sub(r"[^A-Za-z0-9_.-]+", "_", tool).strip("_")[:60] or "tool"
        number = 2
        base = name
        while name in found.values():
            name, number = f"{base}_{number}", number + 1
        found[tool] = name
    return found

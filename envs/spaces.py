"""A text space for any Unicode text."""

from __future__ import annotations

from typing import Any

import gymnasium as gym


class UnicodeText(gym.spaces.Text):
    """The space of all strings up to a length.

    Gymnasium's own `Text` allows a fixed set of characters and checks each: 2 ms for 20,000 characters. This space checks the
    length only, and samples from printable ASCII.

    >>> UnicodeText(8).contains("caf\\u00e9")
    True
    """

    def __init__(self, max_length: int, *, min_length: int = 0, seed: Any = None) -> None:
        super().__init__(max_length, min_length=min_length, seed=seed)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and self.min_length <= len(x) <= self.max_length

    def __repr__(self) -> str:
        return f"UnicodeText({self.min_length}, {self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and self.max_length == other.max_length and self.min_length == other.min_length

    __hash__ = None  # type: ignore[assignment]

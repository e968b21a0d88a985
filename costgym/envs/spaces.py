"""A text space for any Unicode text."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces.utils import flatten, flatten_space, unflatten
from gymnasium.vector.utils.shared_memory import read_from_shared_memory, write_to_shared_memory
from numpy.typing import NDArray

_NOTHING = 0x110000  # stands behind the end of a text in an array of code points; the first number that is none


class UnicodeText(gym.spaces.Text):
    """The space of all strings up to a length.

    Gymnasium's own `Text` allows a fixed set of characters and checks each: 2 ms for 20,000 characters. This space checks the
    length only, and samples from printable ASCII. As an array, or in the shared memory of `AsyncVectorEnv`, a text is its code
    points.

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


def _text(codes: NDArray[np.int32]) -> str:
    # half a pair of surrogates is a text too, and must survive the array
    return codes[codes < _NOTHING].astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


@flatten.register(UnicodeText)
def _flatten(space: UnicodeText, x: str) -> NDArray[np.int32]:  # type: ignore[misc]
    codes = np.full(space.max_length, _NOTHING, np.int32)
    codes[: len(x)] = np.frombuffer(x.encode("utf-32-le", "surrogatepass"), "<u4")
    return codes


@unflatten.register(UnicodeText)
def _unflatten(space: UnicodeText, x: NDArray[np.int32]) -> str:  # type: ignore[misc]
    return _text(np.asarray(x))


@flatten_space.register(UnicodeText)
def _flatten_space(space: UnicodeText) -> gym.spaces.Box:
    return gym.spaces.Box(0, _NOTHING, (space.max_length,), np.int32)


@write_to_shared_memory.register(UnicodeText)
def _write(space: UnicodeText, index: int, value: str, shared_memory: Any) -> None:
    rows = np.frombuffer(shared_memory.get_obj(), np.int32).reshape(-1, space.max_length)
    rows[index] = _flatten(space, value)


class _SharedTexts(Sequence[str]):
    """The texts that stand in shared memory now.

    `AsyncVectorEnv` reads its memory once, at the start: what it gets must follow what the environments write. It hands out
    deep copies, which are plain tuples.
    """

    def __init__(self, codes: NDArray[np.int32]) -> None:
        self._codes = codes  # (environments, max_length)

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, index: Any) -> Any:
        rows = self._codes[index]
        return _text(rows) if rows.ndim == 1 else tuple(map(_text, rows))

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)


@read_from_shared_memory.register(UnicodeText)
def _read(space: UnicodeText, shared_memory: Any, n: int = 1) -> Sequence[str]:
    return _SharedTexts(np.frombuffer(shared_memory.get_obj(), np.int32).reshape(n, space.max_length))

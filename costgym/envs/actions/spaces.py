"""Text spaces: any Unicode text, and such texts of which most samples are calls that can be read."""

import json
from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, Self

import gymnasium as gym
import numpy as np
from gymnasium.spaces.utils import flatten, flatten_space, unflatten
from gymnasium.vector.utils.shared_memory import read_from_shared_memory, write_to_shared_memory
from numpy.typing import NDArray

if TYPE_CHECKING:
    from costgym.simulators.tools import ToolCard

NONSENSE_SHARE = 0.1  # of the samples of a space of calls
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


class CallText(UnicodeText):
    """The same space, whose samples are calls of the functions on offer, with some nonsense between.

    >>> json.loads(CallText(100, seed=0).sample())
    {'name': 'think', 'arguments': {}}
    """

    functions: "Sequence[ToolCard]" = ()  # on offer now; the environment sets them, and copies share them

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = copy(self)
        twin._np_random = deepcopy(self._np_random)
        return twin

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        if mask is not None or probability is not None or self._luck() < NONSENSE_SHARE:
            return self._nonsense() if mask is None and probability is None else super().sample(mask, probability)
        return json.dumps(self._call())[: self.max_length]

    def _call(self) -> Any:
        """What a sample says: a call of a function on offer with arguments that fit its schema, or an end."""
        choice = self._luck()
        if choice < 0.1 or not self.functions:
            return (
                {"name": "finish", "arguments": {"answer": self._words()}}
                if choice < 0.05
                else {"name": "think", "arguments": {}}
            )
        function = self.functions[int(self._luck() * len(self.functions))]
        properties = function.parameters.get("properties", {})
        required = [name for name in function.parameters.get("required", ()) if name in properties]
        return {"name": function.name, "arguments": {name: self._value(properties[name]) for name in required}}

    def _value(self, schema: Mapping[str, Any]) -> Any:
        if options := schema.get("enum"):
            return options[int(self._luck() * len(options))]
        match schema.get("type"):
            case "integer" | "number":
                low = int(schema.get("minimum", 0))
                return low + int(self._luck() * (int(schema.get("maximum", low + 10)) - low + 1))
            case "boolean":
                return self._luck() < 0.5
            case "array":
                return []
            case "object":
                return {}
        return self._words()

    def _words(self) -> str:
        return " ".join(_SYLLABLES[int(self._luck() * len(_SYLLABLES))] for _ in range(1 + int(self._luck() * 3)))

    def _nonsense(self) -> str:
        """A short text that is no action: a call cut off, or any characters."""
        call = json.dumps(self._call())
        cut = call[: int(self._luck() * len(call))]
        noise = "".join(chr(33 + int(self._luck() * 94)) for _ in range(1 + int(self._luck() * 60)))
        return (cut if self._luck() < 0.5 else noise)[: self.max_length].ljust(self.min_length)

    def _luck(self) -> float:
        return float(self.np_random.random())


_SYLLABLES = ("amber", "harbour", "lantern", "north", "quiet", "river", "seven", "stone", "velvet", "winter")


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

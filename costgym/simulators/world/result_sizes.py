"""How long the results of tools are: from 20 to 20,000 tokens by capability in generated worlds of version 1."""

import random
from collections.abc import Mapping
from functools import cache
from math import exp
from statistics import NormalDist
from typing import Any

from costgym.simulators.draws import stable_integer
from costgym.simulators.tasks import Answers, Task
from costgym.simulators.tools import Tool

LEAST, MOST = 20, 20_000  # tokens
_SPREAD = 0.3  # of a result's length around the tool's median: standard deviation of the logarithm
_SKEW = 2.0  # most capabilities answer briefly: half of them in 112 tokens, a tenth in more than 5,400
_CHARACTERS = 4  # of a token
_ROWS = 2048
_LETTERS = "bcdfghjklmnpqrstvwxz"  # without vowels, so that no row spells a fact


@cache  # made once somebody reads it, which most processes never do
def _filling() -> tuple[str, int]:
    """Twice `_ROWS` rows, and the length of one."""
    rng = random.Random(0)
    words = ["".join(rng.choices(_LETTERS, k=12)) for _ in range(3 * _ROWS)]
    rows = [f'{{"ref": "{a}", "etag": "{b}", "link": "/{c}"}}, ' for a, b, c in zip(*[iter(words)] * 3, strict=True)]
    return "".join(rows) * 2, len(rows[0])


class SizedAnswers:
    """Answers that are as long as the tools' results are in life: rows that nobody asked for stand behind the answer.

    A length follows from the tool's key and the answer alone, so all other chance stays what it is.

    Args:
        answers: as the world gives them.
        seed: of the world.
        by_capability: tools whose profile has no `result_tokens` have lengths by capability; otherwise theirs stay.
    """

    def __init__(self, answers: Answers, seed: int, by_capability: bool) -> None:
        self._answers, self._seed, self._by_capability = answers, seed, by_capability
        self._medians: dict[str, float] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._answers, name)

    def answer(self, tool: Tool, arguments: Mapping[str, Any], task: Task) -> str | None:
        """The answer as text, or None where an argument is missing or names nothing."""
        text = self._answers.answer(tool, arguments, task)
        return None if text is None else self._lengthened(tool, text)

    def irrelevant(self, tool: Tool, arguments: Mapping[str, Any], task: Task, luck: float) -> str:
        """An answer that never holds a fact that the task needs."""
        return self._lengthened(tool, self._answers.irrelevant(tool, arguments, task, luck))

    def median_tokens(self, tool: Tool) -> float:
        """The median length of a tool's results; 0 where they stay as they are."""
        if tool.profile.result_tokens or not self._by_capability:
            return tool.profile.result_tokens
        median = self._medians.get(tool.capability)
        if median is None:
            share = stable_integer(self._seed, "result size", tool.capability) / 2**64
            median = self._medians[tool.capability] = LEAST * (MOST / LEAST) ** (share**_SKEW)
        return median

    def _lengthened(self, tool: Tool, text: str) -> str:
        median = self.median_tokens(tool)
        if not median or not (text.startswith("{") and text.endswith("}")):
            return text
        luck = stable_integer(self._seed, "result size", tool.key, text)
        spread = tool.profile.result_spread if tool.profile.result_tokens else _SPREAD
        tokens = min(MOST, median * exp(spread * NormalDist().inv_cdf((luck % 4096 + 0.5) / 4096)))
        filling, length = _filling()
        rows = (int(tokens) * _CHARACTERS - len(text)) // length
        if rows < 1:
            return text
        first = (luck >> 12) % _ROWS * length
        return f'{text[:-1]}, "related": [{filling[first : first + rows * length - 2]}]}}'

"""Scores by a rule, for tests of the OpenCATP views."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RuleScores:
    """An image gains 0.2 per restorer; a text 0.1 per restorer on top of 0.5, less 0.3 where the language is the wrong one."""

    samples: int = 100

    def score(self, degradation: int, sample: int, chain: Sequence[str], output: str) -> float:
        return 0.2 * len(chain) if output == "image" else 0.5 + 0.1 * len(chain)

    def text_score(self, degradation: int, sample: int, chain: Sequence[str], route: Sequence[str], wanted: str) -> float:
        translated = "machine_translation" in route
        return 0.5 + 0.1 * len(chain) - (0.3 if translated != wanted.endswith("_de") else 0.0)

"""Scores with the shape of the real ones, by a rule: for tests of trained planners, without an outcome table."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from costgym.simulators.opencatp.scenes.degrade import COMBINATIONS
from costgym.simulators.opencatp.tools import OUTPUT_OF_READER
from tests.helpers.vision import REPAIRS

_ORDER = ("image_denoising", "image_super_resolution", "image_deblurring", "image_colorization")
_WEIGHT = {
    "image": (0.16, 0.10, 0.14, 0.20),
    "caption": (0.16, 0.06, 0.14, 0.03),
    "label": (0.20, 0.02, 0.12, 0.10),
    "object": (0.18, 0.09, 0.02, 0.02),
}


@dataclass(frozen=True)
class ShapedScores:
    """A restorer that the image needs adds, one that it does not need takes a little, a wrong order takes a little more."""

    samples: int = 20

    def score(self, degradation: int, sample: int, chain: Sequence[str], output: str) -> float:
        return self._score(degradation, sample, chain, "image")

    def text_score(self, degradation: int, sample: int, chain: Sequence[str], route: Sequence[str], wanted: str) -> float:
        kind = wanted.removesuffix("_de")
        if OUTPUT_OF_READER[route[0]] != kind:
            return 0.05
        score = self._score(degradation, sample, chain, kind)
        return score - 0.3 if ("machine_translation" in route) != wanted.endswith("_de") else score

    def _score(self, degradation: int, sample: int, chain: Sequence[str], kind: str) -> float:
        needed = {REPAIRS[combination] for combination in COMBINATIONS[degradation]}
        score = 0.9 - 0.02 * (sample % 5)
        for tool, weight in zip(_ORDER, _WEIGHT[kind], strict=True):
            if tool in needed and tool not in chain:
                score -= weight
            elif tool in chain and tool not in needed:
                score -= 0.03
        positions = [_ORDER.index(tool) for tool in chain]
        return score - 0.02 * sum(a > b for a, b in pairwise(positions))

"""The scores that may be known before a plan runs: those of the train split."""

from functools import lru_cache
from typing import Any

from ...errors import ConfigError
from ...tools import Same
from .evaluation import Evaluator, ScoreSource, split_samples


class KnownScores:
    """The scores of a table on the first `samples`, its train split; of the others it knows nothing."""

    def __init__(self, source: ScoreSource) -> None:
        self._source, self.samples = source, len(split_samples(source.samples, "train"))

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent to another process: of a table nothing but what is known."""
        head = getattr(self._source, "head", None)
        return {"_source": self._source if head is None else head(self.samples), "samples": self.samples}

    def score(self, degradation: int, sample: int, chain: Any, output: str) -> float:
        """As of the table."""
        self._check(sample)
        return self._source.score(degradation, sample, chain, output)

    def text_score(self, degradation: int, sample: int, chain: Any, route: Any, wanted: str) -> float:
        """As of the table."""
        self._check(sample)
        return self._source.text_score(degradation, sample, chain, route, wanted)

    def _check(self, sample: int) -> None:
        if not 0 <= sample < self.samples:
            raise ConfigError("sample", f"expected one of the train split, 0 to {self.samples - 1}, got {sample}")


def known_evaluator(evaluator: Evaluator) -> Evaluator:
    """The same prices and weights over what may be known of the scores."""
    return _known_evaluator(Same(evaluator))


@lru_cache(maxsize=16)
def _known_evaluator(evaluator: Same) -> Evaluator:
    whole: Evaluator = evaluator.value
    return Evaluator(_known_scores(Same(whole.scores)), whole.profile, whole.alpha, whole.max_price)


@lru_cache(maxsize=8)
def _known_scores(source: Same) -> KnownScores:
    return KnownScores(source.value)


def train_samples(evaluator: Evaluator) -> range:
    """The samples of the train split that an evaluator has."""
    scores = evaluator.scores
    return range(scores.samples) if isinstance(scores, KnownScores) else split_samples(scores.samples, "train")

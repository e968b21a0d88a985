"""Learners of DEER's policy on a sentence encoder: the right tool among the candidates, and among many tools."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from costgym.agents.deer.matching import Matcher, described
from costgym.agents.deer.settings import DeerSettings
from costgym.agents.networks import learning, trained_weights
from costgym.experiments.train.loop import Learner, Loss
from costgym.simulators.decision.samples import Example
from costgym.simulators.decision.toolsets import Embed
from costgym.simulators.draws import stable_generator


class _MatcherLearner(Learner):
    """Trains a matcher on known samples; `measure` computes the final metrics."""

    settings: DeerSettings

    def __init__(
        self, matcher: Matcher, settings: DeerSettings, known: Sequence[Example], measure: Callable[[], dict[str, float]]
    ) -> None:
        super().__init__(trained_weights(matcher), settings, weight_decay=0.0)
        self.matcher, self.known, self.measure = matcher, known, measure

    def drawn(self, step: int) -> Any:
        """Draw the samples of a step, as their places among the known ones."""
        chance = stable_generator(self.settings.seed, *self.random_key, step)
        return chance.choice(len(self.known), size=min(self.settings.batch_size, len(self.known)), replace=False)

    def check(self) -> dict[str, float]:
        return self.measure()


class MatchingLearner(_MatcherLearner):
    """Trains the maps by cross-entropy: over a sample's candidates and "none fits", and, of samples that a candidate fits, over
    all tools of the training set, since candidates alone are learnt by heart."""

    random_key = ("deer matching",)

    def __init__(
        self,
        matcher: Matcher,
        settings: DeerSettings,
        known: Sequence[Example],
        embed: Embed,
        measure: Callable[[], dict[str, float]],
    ) -> None:
        super().__init__(matcher, settings, known, measure)
        texts = list(dict.fromkeys(described(tool) for example in known for tool in example.candidates))
        rows = {text: row for row, text in enumerate(texts)}
        self.queries = torch.from_numpy(embed([example.query for example in known])).float()
        self.tools = torch.from_numpy(embed(texts)).float()
        self.candidates = torch.tensor([[rows[described(tool)] for tool in example.candidates] for example in known])
        none = self.candidates.shape[1]
        self.right = torch.tensor([none if example.gold is None else example.gold for example in known])

    def rate(self, step: int) -> float:
        return self.settings.peak(1e-3) * max(0.05, 1.0 - step / self.settings.steps)

    def loss(self, step: int) -> Loss:
        rows = torch.from_numpy(self.drawn(step))
        queries, candidates, right = self.queries[rows], self.candidates[rows], self.right[rows]
        return matching_loss(self.matcher, self.matcher.scores(queries, self.tools), candidates, right), {}


def matching_loss(matcher: Matcher, scores: Tensor, candidates: Tensor, right: Tensor) -> Tensor:
    """Cross-entropy over each row's candidates and "none fits", and, of rows that a candidate fits, over all tools.

    `scores` are (rows, tools), `candidates` (rows, k) are tools, and `right` (rows,) are places among the candidates, k where
    none fits.
    """
    among = torch.cat([scores.gather(1, candidates), matcher.none.expand(len(right), 1)], dim=1)
    loss = F.cross_entropy(among, right)
    fits = right < candidates.shape[1]
    if fits.any():
        loss = loss + F.cross_entropy(scores[fits], candidates[fits].gather(1, right[fits][:, None])[:, 0])
    return loss


_TOGETHER = 24
"""Texts of like length that the encoder reads at once."""
_SCALARS = 20.0
"""How much faster the scores' scale and that of "none fits" learn than the encoder."""


class EncoderLearner(_MatcherLearner):
    """Tunes the encoder by the same loss, over the tools that are candidates of the step. After the last step the vectors of
    the `remembered` queries are computed again."""

    random_key = ("deer encoder",)

    def __init__(
        self,
        matcher: Matcher,
        settings: DeerSettings,
        known: Sequence[Example],
        embed: Any,
        remembered: Sequence[str],
        measure: Callable[[], dict[str, float]],
    ) -> None:
        super().__init__(matcher, settings, known, measure)
        self.faster = {"sharpness": _SCALARS, "none": _SCALARS}
        self.embed, self.remembered = embed, remembered

    def rate(self, step: int) -> float:
        rising = self.settings.peak(1.5e-4) * min(1.0, (step + 1) / max(1, self.settings.warmup_steps))
        return rising * max(0.05, 1.0 - step / self.settings.steps)

    def loss(self, step: int) -> Loss:
        examples = [self.known[int(row)] for row in self.drawn(step)]
        tools = list(dict.fromkeys(described(tool) for example in examples for tool in example.candidates))
        rows = {text: row for row, text in enumerate(tools)}
        candidates = torch.tensor([[rows[described(tool)] for tool in example.candidates] for example in examples])
        right = torch.tensor([candidates.shape[1] if example.gold is None else example.gold for example in examples])
        with learning(self.settings, self.embed.network):
            queries, vectors = self._read([example.query for example in examples]), self._read(tools)
        return matching_loss(self.matcher, self.matcher.scores(queries, vectors), candidates, right), {}

    def complete(self) -> None:
        self.embed.forget()
        self.matcher.remember(self.embed(self.remembered))

    def _read(self, texts: Sequence[str]) -> Tensor:
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        parts = [order[start : start + _TOGETHER] for start in range(0, len(order), _TOGETHER)]
        vectors = torch.cat([self.embed.read([texts[index] for index in part]) for part in parts]).cpu()
        return vectors[torch.tensor(order).argsort()]

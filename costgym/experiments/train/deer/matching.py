"""The learner of DEER's policy on a sentence encoder: the right tool among the candidates, and among all tools."""

from collections.abc import Callable, Sequence

import torch
from torch.nn import functional as F

from costgym.agents.deer.matching import Matcher, described
from costgym.agents.deer.settings import DeerSettings
from costgym.agents.networks import trained_weights
from costgym.experiments.train.loop import Learner, Loss
from costgym.simulators.decision.samples import Example
from costgym.simulators.decision.toolsets import Embed
from costgym.simulators.draws import stable_generator


class MatchingLearner(Learner):
    """Trains a matcher by cross-entropy: over a sample's candidates and "none fits", and, of samples that a candidate fits,
    over all tools of the training set, since candidates alone are learnt by heart. `measure` computes the final metrics."""

    settings: DeerSettings
    random_key = ("deer matching",)

    def __init__(
        self,
        matcher: Matcher,
        settings: DeerSettings,
        known: Sequence[Example],
        embed: Embed,
        measure: Callable[[], dict[str, float]],
    ) -> None:
        super().__init__(trained_weights(matcher), settings, weight_decay=0.0)
        self.matcher, self.check = matcher, measure  # type: ignore[method-assign]
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
        size = min(self.settings.batch_size, len(self.right))
        chance = stable_generator(self.settings.seed, "deer matching", step)
        rows = torch.from_numpy(chance.choice(len(self.right), size=size, replace=False))
        queries, candidates, right = self.queries[rows], self.candidates[rows], self.right[rows]
        scores = self.matcher.scores(queries, self.tools)  # (rows, tools)
        among = torch.cat([scores.gather(1, candidates), self.matcher.none.expand(size, 1)], dim=1)
        loss = F.cross_entropy(among, right)
        fits = right < candidates.shape[1]
        if fits.any():
            loss = loss + F.cross_entropy(scores[fits], candidates[fits].gather(1, right[fits][:, None])[:, 0])
        return loss, {}

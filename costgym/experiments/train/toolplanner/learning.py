"""The learners of ToolPlanner's two stages: supervised on solved paths, then ranking of rounds from its own solution trees.

Source: ToolPlanner (arXiv 2409.14826), Section 4.4.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from costgym.agents.llm.session import LlmAgent
from costgym.agents.toolplanner import language_model
from costgym.agents.toolplanner.agent import ToolPlanner
from costgym.agents.toolplanner.language_model import PlannerModel, Tokens, ranking_loss, sequence_scores
from costgym.agents.toolplanner.learnt import LearntPlanner
from costgym.agents.toolplanner.settings import LearntSettings
from costgym.agents.toolplanner.tags import gold_tools
from costgym.agents.toolplanner.tree import called_tools, final_solution, match, passed
from costgym.agents.toolplanner.words import ROUND
from costgym.experiments.play.episodes import play
from costgym.experiments.train.loop import Learner, Loss
from costgym.experiments.train.toolplanner.data import Demonstration, RankedPair, text_env, training_scenario
from costgym.simulators.draws import stable_generator
from costgym.simulators.scenario import Scenario

CHECKED = 40
"""Number of train tasks on which a policy is evaluated at the end of a stage."""


class _StageLearner(Learner):
    """Base class of both stages' learners: the language model, the learning rate and the final evaluation."""

    settings: LearntSettings
    number = 1

    def __init__(self, model: PlannerModel, settings: LearntSettings, scenario: Scenario) -> None:
        super().__init__(model.weights(), settings, weight_decay=settings.weight_decay)
        self.model, self.scenario, self.stage = model, scenario, f"stage {self.number}"

    @property
    def steps(self) -> int:
        return self.settings.steps if self.number == 1 else self.settings.rank_steps

    def rate(self, step: int) -> float:
        return self.settings.rate(self.number, step)

    def check(self) -> dict[str, float]:
        """Compute match rate and pass rate on some train tasks with alternating instruction levels."""
        settings = self.settings
        self.model.network.eval()
        strategy = ToolPlanner(settings.planner())
        agent = LlmAgent(LearntPlanner(self.model, "in training"), strategy)
        world = training_scenario(self.scenario, settings)
        envs = {level: text_env(world, level, settings) for level in settings.levels}
        catalog = world.build().catalog
        matched, meaningful = [], []
        for index, number in enumerate(envs[settings.levels[0]].unwrapped.numbers[-CHECKED:]):
            level = settings.levels[index % len(settings.levels)]
            episode = play(envs[level], agent, number, settings.seed)
            path = final_solution(strategy.roots)
            matched.append(match(called_tools(path, catalog), gold_tools(episode.task, catalog), level))
            meaningful.append(passed(path[-1].answer if path and path[-1].end == "answer" else None))
        return {"train_match": sum(matched) / len(matched), "train_pass": sum(meaningful) / len(meaningful)}


class SupervisedLearner(_StageLearner):
    """Stage 1: trains a model on the tags, the path and the actions of solved paths."""

    random_key = ("dropout", 1)

    def __init__(
        self, model: PlannerModel, settings: LearntSettings, scenario: Scenario, shown: Sequence[Demonstration]
    ) -> None:
        super().__init__(model, settings, scenario)
        self._drawn = _batches([model.sequence(example.pieces(settings)) for example in shown], settings, "sft")

    def loss(self, step: int) -> Loss:
        self.model.network.train()
        return language_model.sft_loss(*self.model.log_probabilities(self._drawn(step))), {}


class RankingLearner(_StageLearner):
    """Stage 2: trains a model to rank the rounds that feedback prefers above others after the same text, and goes on with stage
    1's solved paths, which `shown` gives."""

    number = 2
    random_key = ("dropout", 2)

    def __init__(
        self,
        model: PlannerModel,
        settings: LearntSettings,
        scenario: Scenario,
        pairs: Sequence[RankedPair],
        shown: Callable[[], list[Demonstration]],
    ) -> None:
        super().__init__(model, settings, scenario)
        self._texts = [_choice(model, pair) for pair in pairs]
        self._rehearsed: Callable[[int], list[Tokens]] | None = None
        if settings.rehearsal:
            heeded = [model.sequence(example.heeded(settings.feedback).pieces(settings)) for example in shown()]
            self._rehearsed = _batches(heeded, settings, "rehearsal")
        # coarse instructions are followed more easily: uniform sampling would give mostly pairs of the coarsest levels
        levels = [[index for index, pair in enumerate(pairs) if pair.level == level] for level in settings.levels]
        self._levels = [indices for indices in levels if indices]

    def loss(self, step: int) -> Loss:
        settings, model, levels = self.settings, self.model, self._levels
        model.network.train()
        chance = stable_generator(settings.seed, "ranking", step)
        chosen = [levels[i] for i in chance.integers(len(levels), size=settings.rank_batch_size).tolist()]
        batch = [self._texts[indices[int(chance.integers(len(indices)))]] for indices in chosen]
        logs, real = model.log_probabilities(batch)
        second = _from(batch, 1, logs)
        better = sequence_scores(logs, real & _from(batch, 0, logs) & ~second)
        worse = sequence_scores(logs, real & second)
        ranking = ranking_loss(better, worse, settings.margin)
        sft = language_model.sft_loss(logs, real & ~second)
        in_order = (better > worse).float().mean()
        figures = {"sft": float(sft.detach()), "ranking": float(ranking.detach()), "in_order": float(in_order)}
        return sft + settings.beta * ranking, figures

    def losses(self, step: int) -> Iterator[Loss]:
        yield self.loss(step)
        if self._rehearsed is not None:
            again = language_model.sft_loss(*self.model.log_probabilities(self._rehearsed(step)))
            yield self.settings.rehearsal * again, {"rehearsal": float(again.detach())}


def _batches(sequences: Sequence[Tokens], settings: LearntSettings, name: str) -> Callable[[int], list[Tokens]]:
    """Return a function that draws the texts of a step; they have similar lengths, which saves padding."""
    # a batch is drawn from a window of neighbours in length, and the window at random: little padding, and no fixed batches
    order = sorted(range(len(sequences)), key=lambda index: (len(sequences[index].tokens), index))
    window = 4 * settings.batch_size

    def drawn(step: int) -> list[Tokens]:
        chance = stable_generator(settings.seed, name, step)
        start = int(chance.integers(max(1, len(order) - window + 1)))
        near = order[start : start + window]
        return [sequences[near[i]] for i in chance.permutation(len(near))[: settings.batch_size].tolist()]

    return drawn


def _choice(model: PlannerModel, pair: RankedPair) -> Tokens:
    """Return the text before a choice with both actions as its endings."""
    # the ranking says nothing about the earlier rounds, the tags and the path
    start = next(index for index, piece in enumerate(pair.before) if piece.text == ROUND)
    read, written = model.sequence(pair.before[:start]), model.sequence(pair.before[start:])
    before, better, worse = [*read.tokens, *written.tokens], model.option(pair.better), model.option(pair.worse)
    learnt = [*[False] * len(read.tokens), *written.learnt, *[True] * (len(better) + len(worse))]
    return Tokens([*before, *better, *worse], learnt, (len(before), len(before) + len(better)))


def _from(choices: Sequence[Tokens], ending: int, logs: Any) -> Any:
    """Return the mask of the log-probabilities from an ending of each text on.  # (B, L - 1)"""
    starts = torch.tensor([choice.endings[ending] for choice in choices if choice.endings], device=logs.device)
    return torch.arange(1, logs.shape[1] + 1, device=logs.device) >= starts[:, None]

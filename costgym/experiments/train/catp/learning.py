"""The learners of CATP-LLM and its baselines: offline from episodes, or on-policy from sampled plans."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from costgym.agents.catp.decoding import write_plans
from costgym.agents.catp.planner import price_table
from costgym.agents.catp.policy import CatpPolicy, choice_loss
from costgym.agents.catp.sequences import Batch, Record, batch_of
from costgym.agents.catp.settings import CatpSettings
from costgym.agents.networks import trained_weights
from costgym.experiments.train.catp.dataset import COMPOSED
from costgym.experiments.train.catp.measure import measure
from costgym.experiments.train.loop import Learner, Loss
from costgym.simulators.draws import stable_generator
from costgym.simulators.opencatp.scoring.evaluation import Evaluator, split_samples
from costgym.simulators.opencatp.tools import LEVELS
from costgym.simulators.quality import INVALID_PLAN_REWARD

ELITE_REGRET = 0.03


class OfflineLearner(Learner):
    """Trains a policy by cross-entropy on the actions in windows of recorded episodes. `evaluator` and `target_return`, on
    which the policy is conditioned, serve the metrics on the train tasks."""

    settings: CatpSettings

    def __init__(
        self, policy: CatpPolicy, records: Sequence[Record], evaluator: Evaluator, settings: CatpSettings, target_return: float
    ) -> None:
        super().__init__(trained_weights(policy), settings, weight_decay=settings.weight_decay)
        self.policy, self.records, self.evaluator, self.target_return = policy, list(records), evaluator, target_return
        self.tasks = tuple({record.task.task_id: record.task for record in records}.values())
        drawn_from = [
            [i for i, record in enumerate(records) if record.task.kind == kind] for kind in ("sequential", "nonsequential")
        ]
        self._pools = [
            (every, [i for i in every if records[i].regret <= ELITE_REGRET]) for every in drawn_from if every
        ]  # per kind of task: all plans, and the plans near the best

    def rate(self, step: int) -> float:
        return self.settings.rate(step)

    def loss(self, step: int) -> Loss:
        self.policy.train()
        batch = self.batch(step)
        return choice_loss(self.policy.log_probabilities(batch), batch), {}

    def batch(self, step: int) -> Batch:
        """Draw the training windows of a step; in a longer episode uniformly, the last window, which contains EOP, included."""
        settings = self.settings
        chance = stable_generator(settings.seed, "batch", step)
        several = round(settings.batch_size * settings.balance) if len(self._pools) == 2 else settings.batch_size
        drawn: list[int] = []
        counts = (settings.batch_size - several, several)[-len(self._pools) :]
        for (every, elite), count in zip(self._pools, counts, strict=True):
            best = round(count * settings.elite) if elite else 0
            drawn += [elite[i] for i in chance.integers(len(elite), size=best).tolist()] if best else []
            drawn += [every[i] for i in chance.integers(len(every), size=count - best).tolist()]
        chosen = [self.records[i] for i in drawn]
        windows = []
        for record in chosen:
            spare = max(0, len(record.choices) - settings.window)
            first = int(chance.integers(spare + 1)) if spare else 0
            windows.append((first, min(len(record.choices), first + settings.window) - 1))
        return batch_of(chosen, windows, settings)

    def check(self) -> dict[str, float]:
        """Return the mean quality of the policy's most likely plans on the train tasks, and the share of valid plans."""
        tasks = [task for task in self.tasks if task.task_id < COMPOSED]
        situations = [(task, level) for task in tasks for level in range(LEVELS)]
        written = write_plans(self.policy, situations, price_table(self.evaluator), self.target_return)
        plans = {(task.task_id, level): proposal.plan for (task, level), proposal in zip(situations, written, strict=True)}
        measured = measure(lambda task, _, level: plans[task.task_id, level], tasks, "train", self.evaluator)
        return {"train_quality": measured.quality, "train_valid": measured.valid}


class FeedbackLearner(OfflineLearner):
    """Trains a policy with supervision first, then by policy gradient on executed plans, with the group mean as baseline."""

    def loss(self, step: int) -> Loss:
        if step < self.settings.supervised_steps:
            return super().loss(step)
        settings, evaluator = self.settings, self.evaluator
        chance = stable_generator(settings.seed, "feedback", step)
        train = split_samples(evaluator.scores.samples, "train")
        situations = []
        for _ in range(max(1, settings.batch_size // settings.group)):
            task = self.tasks[int(chance.integers(len(self.tasks)))]
            sample = train[int(chance.integers(len(train)))]
            situations.append((task, sample, evaluator.level(task, sample)))
        repeated = [situation for situation in situations for _ in range(settings.group)]
        written = write_plans(self.policy, [(task, level) for task, _, level in repeated], price_table(evaluator), 0.0, chance)
        rewards = np.array(
            [
                INVALID_PLAN_REWARD if proposal.plan is None else evaluator.evaluate(proposal.plan, task, sample, level).quality
                for (task, sample, level), proposal in zip(repeated, written, strict=True)
            ]
        )
        grouped = rewards.reshape(-1, settings.group)
        gained = (grouped - grouped.mean(axis=1, keepdims=True)).reshape(-1)
        gained = gained / (gained.std() + 1e-3)
        self.policy.train()
        records = [proposal.record for proposal in written]
        windows = [(0, len(record.choices) - 1) for record in records]
        batch = batch_of(records, windows, settings)
        logs = self.policy.log_probabilities(batch)
        return gradient_loss(logs, batch, gained), {"reward": float(rewards.mean())}


def gradient_loss(log_probabilities: Any, batch: Batch, gained: np.ndarray[Any, Any]) -> Any:
    """The policy-gradient loss: minus the mean over plans of advantage `gained`, (B,), times log-probability of the plan's
    actions, of `log_probabilities` of every action among the legal ones, (B, W, N_ACTIONS)."""
    device = log_probabilities.device
    choice = torch.as_tensor(batch.choice, device=device)
    counts = torch.as_tensor(batch.counts, device=device)
    chosen = (log_probabilities.gather(-1, choice[..., None])[..., 0] * counts).sum(-1)
    return -(torch.as_tensor(gained, device=device, dtype=chosen.dtype) * chosen).mean()

"""A trained policy as a planner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from costgym.agents.catp.sequences import price_features
from costgym.agents.catp.settings import CatpConfig, CatpSettings
from costgym.agents.checkpoints import load_weights, newest
from costgym.agents.networks import trained_weights
from costgym.agents.opencatp.base import Proposal, Situation, generator
from costgym.agents.settings import read_config
from costgym.simulators.errors import UnknownName, require
from costgym.simulators.opencatp.profile import load_profile
from costgym.simulators.opencatp.scoring.evaluation import Evaluator
from costgym.simulators.opencatp.tasks import OpenCATPTask
from costgym.simulators.opencatp.tools import LEVELS, TOOLS
from costgym.simulators.plan import Plan

if TYPE_CHECKING:
    from costgym.agents.catp.policy import CatpPolicy

NOT_ADMITTED = "the policy chose a token that the planning language forbids there"


class CatpPlanner:
    """Plans with a policy that was trained by `train_catp`, `train_ift` or `train_rltf`.

    A plan depends on the task and the size level, so each is written once and remembered. `settings` are those that it was
    trained with, `policy` is the policy itself.

    Args:
        run: folder of the training run, or a folder with several (then name one).
        name: as results show it; the method and the folder by default.
        sample: draw plans by the policy's probabilities instead of taking the most likely choices.
        device: ``cpu``, ``cuda`` or ``auto``.

    Raises:
        DataError: there is no run, it has no checkpoint, or it is of another kind, version or environment.
        MissingExtra: torch or transformers is not installed.
    """

    def __init__(self, run: str | Path, name: str | None = None, sample: bool = False, device: str = "auto") -> None:
        folder = Path(run)
        config = read_config(folder, CatpConfig)
        self.settings, self.target_return = config.settings, config.target_return
        require("torch", "train")
        require("transformers", "train")
        self.name, self.model = name or f"{self.settings.method}:{run}", self.settings.model
        checkpoint = newest(folder)
        self.policy = ready_policy(self.settings, device)
        load_weights(checkpoint, trained_weights(self.policy))
        self._sample = sample or self.settings.sampled
        self._plans: dict[tuple[int, int], Plan | None] = {}
        self._evaluator: Evaluator | None = None

    def propose(self, situation: Situation) -> Proposal:
        if self._sample:
            plan = self.plans([(situation.task, situation.level)], situation.evaluator, situation.seed)[0]
        else:
            if self._evaluator is not situation.evaluator:
                self._evaluator = situation.evaluator
                self._plans.clear()
            key = situation.task.task_id, situation.level
            if key not in self._plans:
                situations = [(situation.task, level) for level in range(LEVELS)]
                for level, written in enumerate(self.plans(situations, situation.evaluator)):
                    self._plans[situation.task.task_id, level] = written
            plan = self._plans[key]
        return Proposal(plan, "" if plan is not None else NOT_ADMITTED)

    def plans(
        self, situations: Sequence[tuple[OpenCATPTask, int]], evaluator: Evaluator, seed: int | None = None
    ) -> list[Plan | None]:
        """Return the plans for many situations (task and size level) in one batch; with a `seed` they are drawn."""
        from costgym.agents.catp.decoding import write_plans

        tell_prices(self.policy, evaluator)
        chance = None if seed is None else generator(seed, self.settings.method)
        written = write_plans(self.policy, situations, price_table(evaluator), self.target_return, chance)
        return [proposal.plan for proposal in written]


def ready_policy(settings: CatpSettings, device: str = "auto") -> CatpPolicy:
    """Return a fresh policy on a device, told the prices of the profile it is trained with.

    Its weights depend on the settings alone, and the global random state is not touched.
    """
    import torch

    from costgym.agents.catp.policy import CatpPolicy

    if device not in ("auto", "cpu", "cuda"):
        raise UnknownName("device", device, ("auto", "cpu", "cuda"))
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    prices = torch.from_numpy(price_features(load_profile(settings.profile)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        policy: CatpPolicy = CatpPolicy(settings, prices).to(device)
    return policy


def tell_prices(policy: CatpPolicy, evaluator: Evaluator) -> None:
    """Gives the policy the prices of the profile that its plans are evaluated with."""
    import torch

    policy.prices.copy_(torch.from_numpy(price_features(evaluator.profile, evaluator.max_price)))


def prices_at(evaluator: Evaluator, level: int) -> tuple[float, ...]:
    """Return the price of one run of each tool at a size level, USD."""
    return tuple(evaluator.profile.price(tool, level) for tool in TOOLS)


def price_table(evaluator: Evaluator) -> list[tuple[float, ...]]:
    """Return the price of one run of each tool, USD, by size level and number in `TOOLS`.  # (LEVELS, 10)"""
    return [prices_at(evaluator, level) for level in range(LEVELS)]

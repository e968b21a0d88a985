"""A trained policy as a planner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...simulators.errors import require
from ...simulators.opencatp.scoring.evaluation import Evaluator
from ...simulators.opencatp.tasks import OpenCATPTask
from ...simulators.opencatp.tools import LEVELS, TOOLS
from ...simulators.plan import Plan
from ..opencatp.base import Proposal, Situation
from ..settings import read_config
from .settings import CatpConfig

if TYPE_CHECKING:
    from .policy import CatpPolicy
    from .settings import CatpSettings

NOT_ADMITTED = "the policy chose a token that the planning language forbids there"


class CatpPlanner:
    """Plans with a policy that was trained by `train_catp`, `train_ift` or `train_rltf`.

    A plan depends on the task and the size level, so each is written once and remembered.

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
        settings, self.target_return = config.settings, config.target_return
        require("torch", "train")
        require("transformers", "train")
        from ..checkpoints import load_weights, newest
        from ..networks import trained_weights

        self.name, self.model = name or f"{settings.method}:{run}", settings.model
        checkpoint = newest(folder)
        self._policy = ready_policy(settings, device)
        load_weights(checkpoint, trained_weights(self._policy))
        self._sample = sample or settings.sampled
        self._plans: dict[tuple[int, int], Plan | None] = {}
        self._evaluator: Evaluator | None = None

    @property
    def settings(self) -> CatpSettings:
        """The settings it was trained with."""
        return self._policy.settings

    @property
    def policy(self) -> CatpPolicy:
        """The policy itself."""
        return self._policy

    def propose(self, situation: Situation) -> Proposal:
        if self._sample:
            plan = self._write([(situation.task, situation.level)], situation.evaluator, situation.seed)[0]
        else:
            if self._evaluator is not situation.evaluator:
                self._evaluator = situation.evaluator
                self._plans.clear()
            key = situation.task.task_id, situation.level
            if key not in self._plans:
                asked = [(situation.task, level) for level in range(LEVELS)]
                for level, written in enumerate(self._write(asked, situation.evaluator, None)):
                    self._plans[situation.task.task_id, level] = written
            plan = self._plans[key]
        return Proposal(plan, "" if plan is not None else NOT_ADMITTED)

    def plans(self, situations: Sequence[tuple[OpenCATPTask, int]], evaluator: Evaluator) -> list[Plan | None]:
        """Return the plans for many situations (task and size level) in one batch."""
        return self._write(situations, evaluator, None)

    def _write(
        self, situations: Sequence[tuple[OpenCATPTask, int]], evaluator: Evaluator, seed: int | None
    ) -> list[Plan | None]:
        from ..opencatp.base import generator
        from .decoding import write_plans

        tell_prices(self._policy, evaluator)
        chance = None if seed is None else generator(seed, self.settings.method)
        written = write_plans(self._policy, situations, price_table(evaluator), self.target_return, chance)
        return [each.plan for each in written]


def ready_policy(settings: CatpSettings, device: str = "auto") -> CatpPolicy:
    """Return a fresh policy on a device, told the prices of the profile it is trained with."""
    import torch

    from ...simulators.errors import UnknownName
    from ...simulators.opencatp.profile import load_profile
    from .policy import new_policy
    from .sequences import price_features

    if device not in ("auto", "cpu", "cuda"):
        raise UnknownName("device", device, ("auto", "cpu", "cuda"))
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    policy: CatpPolicy = new_policy(settings, torch.from_numpy(price_features(load_profile(settings.profile)))).to(device)
    return policy


def tell_prices(policy: CatpPolicy, evaluator: Evaluator) -> None:
    """Gives the policy the prices of the profile that its plans are evaluated with."""
    import torch

    from .sequences import price_features

    policy.prices.copy_(torch.from_numpy(price_features(evaluator.profile, evaluator.max_price)))


def prices_at(evaluator: Evaluator, level: int) -> tuple[float, ...]:
    """Return the price of one run of each tool at a size level, USD."""
    return tuple(evaluator.profile.price(tool, level) for tool in TOOLS)


def price_table(evaluator: Evaluator) -> list[tuple[float, ...]]:
    """Return the price of one run of each tool, USD, by size level and number in `TOOLS`.  # (LEVELS, 10)"""
    return [prices_at(evaluator, level) for level in range(LEVELS)]

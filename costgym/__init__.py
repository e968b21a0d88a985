"""costgym: a simulated tool world, priced and failing like real APIs, for cost-aware tool-using agents.

>>> import costgym
>>> env = costgym.make("costgym/Marketplace-v0")
>>> observation, info = env.reset(seed=0)
"""

from typing import TYPE_CHECKING, Any

import gymnasium as gym

from costgym.simulators import __version__
from costgym.simulators.errors import (
    BudgetExceeded,
    ConfigError,
    CostGymError,
    DataError,
    EpisodeOver,
    InfrastructureError,
    InvalidPlan,
    InvalidProfile,
    MissingExtra,
    UnknownName,
)

if TYPE_CHECKING:
    from costgym.envs.registration import make, make_vec
    from costgym.envs.scores import normalized_score
    from costgym.experiments.play.result_set import Results
    from costgym.experiments.play.rollout import rollout

__all__ = [
    "ENV_IDS",
    "LEVEL_IDS",
    "BudgetExceeded",
    "ConfigError",
    "CostGymError",
    "DataError",
    "EpisodeOver",
    "InfrastructureError",
    "InvalidPlan",
    "InvalidProfile",
    "MissingExtra",
    "Results",
    "UnknownName",
    "__version__",
    "make",
    "make_vec",
    "normalized_score",
    "rollout",
]

_ENVS = {
    "costgym/Marketplace-v0": "costgym.envs.marketplace:MarketplaceEnv",
    "costgym/MarketplaceChat-v0": "costgym.envs.chat:MarketplaceChatEnv",
    "costgym/MarketplaceChat-v1": "costgym.envs.chat:MarketplaceChatEnvV1",
    "costgym/MarketplaceSession-v0": "costgym.envs.sessions.session:MarketplaceSessionEnv",
    "costgym/MarketplaceSession-v1": "costgym.envs.sessions.levels:MarketplaceSessionEnvV1",
    "costgym/MarketplaceSessionChat-v0": "costgym.envs.sessions.chat:SessionChatEnv",
    "costgym/MarketplaceSessionChat-v1": "costgym.envs.sessions.chat:SessionChatEnvV1",
    "costgym/OpenCATP-v0": "costgym.envs.opencatp.plans:OpenCATPEnv",
    "costgym/OpenCATP-v1": "costgym.envs.opencatp.plans:OpenCATPEnvV1",
    "costgym/OpenCATPChat-v0": "costgym.envs.opencatp.chat:OpenCATPChatEnv",
    "costgym/OpenCATPChat-v1": "costgym.envs.opencatp.chat:OpenCATPChatEnvV1",
    "costgym/OpenCATPCalls-v0": "costgym.envs.opencatp.calls:OpenCATPCallsEnv",
    "costgym/DecisionAware-v0": "costgym.envs.decision:DecisionAwareEnv",
}
_VECTOR_ENVS = {
    "costgym/Marketplace-v0": "costgym.envs.native:MarketplaceVectorEnv",
    "costgym/MarketplaceSession-v0": "costgym.envs.native:SessionVectorEnv",
    "costgym/MarketplaceSession-v1": "costgym.envs.native:SessionVectorEnvV1",
}
"""Ids with a native batch; `gymnasium.make_vec` takes it unless told `vectorization_mode="sync"`."""
ENV_IDS = tuple(_ENVS)
LEVEL_IDS = {f"costgym/MarketplaceSession{level.title()}-v1": level for level in ("easy", "medium", "hard", "extreme")}
"""Ids of `costgym/MarketplaceSession-v1` at one of its levels."""

for _id in (*ENV_IDS, *LEVEL_IDS):
    if _id not in gym.registry:
        _of, _level = ("costgym/MarketplaceSession-v1", {"level": LEVEL_IDS[_id]}) if _id in LEVEL_IDS else (_id, {})
        # without Gymnasium's wrappers `make` returns the environment itself, whose arguments `help` shows; it checks by itself
        # that an episode has begun, and tests check the rest
        gym.register(
            _id, _ENVS[_of], order_enforce=False, disable_env_checker=True, vector_entry_point=_VECTOR_ENVS.get(_of),
            kwargs=_level,
        )  # fmt: skip

_LAZY = {
    "make": "costgym.envs.registration",
    "make_vec": "costgym.envs.registration",
    "normalized_score": "costgym.envs.scores",
    "Results": "costgym.experiments.play.result_set",
    "rollout": "costgym.experiments.play.rollout",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'costgym' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, those that are imported on first use included."""
    return sorted(__all__)

"""An environment's id names a behaviour: the same arguments, seeds and actions give the same episodes in every release.

Where one of these tests fails, the behaviour has changed for everybody who changed nothing. Either that is a mistake, or the id
gets a new version (`docs/environments/versions.md`).
"""

import hashlib
from typing import Any

import numpy as np
import pytest

import costgym
from benchmarks.papers.fit import prior
from costgym.agents import make_agent
from costgym.agents.models.simulated import Simulated

BEHAVIOUR = {
    ("costgym/Marketplace-v0", ()): "8bb6f60cb6f6d25d",
    ("costgym/Marketplace-v0", ("concurrent",)): "d71aaed5262d649d",
    ("costgym/OpenCATP-v0", ()): "1a1bb9765b51bd93",
    ("costgym/OpenCATPCalls-v0", ()): "03d37e854a3854fd",
    ("costgym/OpenCATPCalls-v0", ("concurrent",)): "0180ebe346cabc70",
    ("costgym/DecisionAware-v0", ()): "4166f93eaa581146",
    ("costgym/OpenCATP-v1", ()): "7b1a5d42e44e8f37",
    ("costgym/MarketplaceSession-v1", ()): "e15c32c9b7f46656",
    ("costgym/MarketplaceSession-v1", ("concurrent",)): "a48c845aa6915e9d",
    ("costgym/MarketplaceSessionEasy-v1", ()): "0b0877776d022cf4",
    ("costgym/MarketplaceSessionHard-v1", ()): "a2bb73bacf3729c5",
}
"""By environment and the arguments that are true; both forms of an environment are held."""
CHAT = {"costgym/MarketplaceChat-v0": "42b3a188a14cc31b", "costgym/MarketplaceChat-v1": "75b0106c3837b622"}
STEPS = 600  # of an episode that are held; a session of version 1 may have tens of thousands


def digest(values: list[Any]) -> str:
    """Of numbers to six significant digits, so that the last bits of a platform's logarithm do not count."""
    return hashlib.sha256(" ".join(f"{float(value):.6g}" for value in values).encode()).hexdigest()[:16]


@pytest.mark.parametrize(("env_id", "form"), BEHAVIOUR)
def test_a_numeric_environment_behaves_as_its_version_says(env_id: str, form: tuple[str, ...]) -> None:
    env, outcomes = costgym.make(env_id, **dict.fromkeys(form, True)), []
    generator = np.random.default_rng(0)
    for seed in range(8):
        observation, info = env.reset(seed=seed)
        over, steps = False, 0
        while not over and (steps := steps + 1) <= STEPS:
            outcomes += [value for name in sorted(observation) for value in observation[name].ravel()]
            outcomes += [
                value for key, value in sorted(info.items()) if key.startswith(("cost", "budget")) or key == "is_success"
            ]
            action = int(generator.choice(np.flatnonzero(info["action_mask"])))
            observation, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            outcomes += [action, reward, terminated, truncated]
    assert digest(outcomes) == BEHAVIOUR[env_id, form]


@pytest.mark.parametrize("env_id", CHAT)
def test_the_text_environment_behaves_as_its_version_says(env_id: str) -> None:
    env = costgym.make(env_id, scenario="storm")
    model = Simulated(prior())  # with rates of its own, so that only the environment can change what is played
    results = costgym.rollout(env, make_agent("react", model=model), episodes=20, seed=0)
    figures = [value for r in results for value in (r.price, r.seconds, r.calls, r.attempts, r.strict, r.judged, r.share)]
    assert digest(figures) == CHAT[env_id]

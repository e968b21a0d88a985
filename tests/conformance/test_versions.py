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
}
"""By environment and the arguments that are true; both forms of an environment are held."""
CHAT = "42b3a188a14cc31b"


def digest(values: list[Any]) -> str:
    """Of numbers to six significant digits, so that the last bits of a platform's logarithm do not count."""
    return hashlib.sha256(" ".join(f"{float(value):.6g}" for value in values).encode()).hexdigest()[:16]


@pytest.mark.parametrize(("env_id", "form"), BEHAVIOUR)
def test_a_numeric_environment_behaves_as_its_version_says(env_id: str, form: tuple[str, ...]) -> None:
    env, told = costgym.make(env_id, **dict.fromkeys(form, True)), []
    generator = np.random.default_rng(0)
    for seed in range(8):
        observation, info = env.reset(seed=seed)
        over = False
        while not over:
            told += [value for name in sorted(observation) for value in observation[name].ravel()]
            told += [value for key, value in sorted(info.items()) if key.startswith(("cost", "budget")) or key == "is_success"]
            action = int(generator.choice(np.flatnonzero(info["action_mask"])))
            observation, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            told += [action, reward, terminated, truncated]
    assert digest(told) == BEHAVIOUR[env_id, form]


def test_the_text_environment_behaves_as_its_version_says() -> None:
    env = costgym.make("costgym/MarketplaceChat-v0", scenario="storm")
    model = Simulated(prior())  # with rates of its own, so that only the environment can change what is played
    results = costgym.rollout(env, make_agent("react", model=model), episodes=20, seed=0)
    told = [value for r in results for value in (r.price, r.seconds, r.calls, r.attempts, r.strict, r.judged, r.share)]
    assert digest(told) == CHAT

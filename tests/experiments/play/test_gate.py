"""A change that makes an agent dearer or worse fails the gate, and nothing else does."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costgym.agents.registry import find_agent
from costgym.envs.base import base_env
from costgym.experiments.play.costs.gate import EPISODES, BaselineEpisode, compare, contestants
from costgym.pytest_plugin import costgym_gate  # noqa: F401  (a fixture)
from costgym.simulators.scenario import load_scenario
from tests.helpers.command_line import invoke

AGENTS = """
from costgym.agents.llm.session import LlmAgent, ToolAccess
from costgym.agents.llm.strategies import ReAct
from costgym.agents.models.simulated import Simulated


class LongPrompt(ToolAccess):
    suffix = ""

    def system(self):
        return "Think about the costs of each of the tools before you call one. " * 40


def plain():
    return LlmAgent(Simulated(), ReAct())


def longer():
    return LlmAgent(Simulated(), ReAct(), access=[LongPrompt()])
"""
WORLD = ("--budget", "price=30", "--price-as", "gpt-5.4")


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("agents") / "mine.py"
    file.write_text(AGENTS)
    return file


@pytest.fixture(scope="module")
def baseline(agents: Path) -> Path:
    path = agents.with_name("baseline.json")
    result = invoke("gate", f"{agents}:plain", "--write-baseline", path, *WORLD)
    assert result.exit_code == 0 and "baseline: 192 episodes" in result.stdout
    return path


def test_a_baseline_is_compared_in_the_version_that_it_was_written_in(tmp_path: Path) -> None:
    for version, words in ((0, ("--env", "MarketplaceChat-v0")), (1, ())):
        path = tmp_path / f"{version}.json"
        assert invoke("gate", "react", "--write-baseline", path, "--episodes", "4", *words).exit_code == 0
        assert json.loads(path.read_text())["world"]["env"] == f"costgym/MarketplaceChat-v{version}"
        assert invoke("gate", "react", "--baseline", path).stdout.startswith("pass: costs +0.0%")
    other = invoke("gate", "react", "--baseline", tmp_path / "0.json", "--env", "MarketplaceChat-v1")
    assert other.exit_code == 2 and "was played in another world" in other.stderr


def test_an_unchanged_agent_passes_after_one_look_and_a_longer_prompt_fails(agents: Path, baseline: Path) -> None:
    same = invoke("gate", f"{agents}:plain", "--baseline", baseline, *WORLD)
    assert same.exit_code == 0 and same.stdout.startswith("pass: costs +0.0%") and "24 paired" in same.stdout
    longer = invoke("gate", f"{agents}:longer", "--baseline", baseline, "--max-cost", "+1%", *WORLD, "--json", "-")
    assert longer.exit_code == 1
    verdict = json.loads(longer.stdout)
    assert not verdict["passed"] and verdict["cost_change"] > 0.01 and verdict["sentence"].startswith("fail: costs +")


@pytest.mark.parametrize(("version", "price_as", "credits"), [(1, None, 200.0), (1, "gpt-5-mini", 25.0), (0, None, 25.0)])
def test_tokens_cost_what_the_world_says_or_a_named_model(version: int, price_as: str | None, credits: float) -> None:
    env_id = f"costgym/MarketplaceChat-v{version}"
    settings = {"scenario": load_scenario("marketplace").in_world(version)}
    env, _, _ = contestants(find_agent("react", env_id), env_id, settings, price_as)
    assert base_env(env).world.tokens.input == credits  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "expected either --baseline FILE or --write-baseline FILE"),
        (("--baseline", "BASELINE", "--budget", "price=10"), "was played in another world"),
        (("--baseline", "BASELINE", "--max-cost", "much", *WORLD), "expected a share such as"),
        (("--baseline", "BASELINE", "--max-drop", "-1", *WORLD), "expected a finite number of at least 0"),
        (("--baseline", "BROKEN", *WORLD), "episodes"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(
    agents: Path, baseline: Path, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps({**json.loads(baseline.read_text()), "episodes": []}))
    files = {"BASELINE": str(baseline), "BROKEN": str(broken)}
    result = invoke("gate", f"{agents}:plain", *(files.get(word, word) for word in words))
    assert result.exit_code == 2 and problem in result.stderr


def test_the_fixture_fails_a_test_with_the_sentence(agents: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = tmp_path / "baseline.json"
    assert invoke("gate", f"{agents}:plain", "--write-baseline", path, "--budget", "price=30", "--episodes", 48).exit_code == 0
    compare = request.getfixturevalue("costgym_gate")
    assert compare(f"{agents}:plain", path, budget="price=30").passed
    with pytest.raises(AssertionError, match="fail: costs"):
        compare("dfsdt", path, budget="price=30")


def looks(old: np.ndarray[Any, Any], new: np.ndarray[Any, Any]) -> bool:
    """Whether a change passes, from costs and successes of every episode, (n, 2) each."""
    before, after = (
        [BaselineEpisode(task="", cost=max(0.0, cost), success=bool(success)) for cost, success in side] for side in (old, new)
    )
    return compare(before, lambda episodes: after[episodes.start : episodes.stop]).passed


def test_an_unchanged_agent_with_chance_of_its_own_rarely_fails() -> None:
    rng = np.random.default_rng(0)

    def run(factor: float) -> np.ndarray[Any, Any]:
        task = np.random.default_rng(1).gamma(2.0, 8.0, EPISODES)
        return np.stack([factor * task * rng.gamma(10, 0.1, EPISODES), rng.random(EPISODES) < 0.6], axis=1)

    alarms = sum(not looks(run(1.0), run(1.0)) for _ in range(200))
    rings = sum(not looks(run(1.0), run(1.25)) for _ in range(50))
    assert alarms <= 10 and rings >= 45

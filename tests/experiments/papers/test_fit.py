"""The fit of the simulated model's rates: it finds rates that it was not told, and says which it cannot know."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers.fit import CEILINGS, FREE, PRIOR, TARGETS, Target, fit, fitted_rates, measure, sweep
from costgym.agents.base import TEXT
from costgym.agents.llm.strategies import SearchSettings
from costgym.agents.models.simulated import SimulatedRates
from costgym.agents.registry import make_agent, make_model
from costgym.envs.registration import make
from costgym.experiments.papers.btp import PROTOCOLS
from costgym.experiments.play.episodes import play_many
from costgym.simulators.errors import ConfigError, UnknownName

REPORT = Path(__file__).parents[3] / "benchmarks" / "results" / "fit.json"


def test_a_fit_finds_the_rates_behind_the_figures_and_leaves_the_others() -> None:
    targets = [Target("react", "PR", 40.0, 2.0), Target("react", "AC", 9.0, 0.5)]

    def play(rates: SimulatedRates) -> np.ndarray:
        return np.array([100.0 * rates.overlook, 100.0 * rates.tire * rates.overlook])

    report = fit(play, SimulatedRates(overlook=0.2, tire=0.2), targets, ["overlook", "tire", "forget"], rounds=8)
    after = {row["rate"]: row for row in report["rates"]}
    assert after["overlook"]["after"] == pytest.approx(0.4, abs=0.03)
    assert after["overlook"]["after"] * after["tire"]["after"] == pytest.approx(0.09, abs=0.02)
    assert after["overlook"]["determined"] > 0.9 and after["forget"]["determined"] == pytest.approx(0.0)
    assert after["forget"]["after"] == pytest.approx(after["forget"]["before"])
    assert report["loss"]["after"] < 0.05 * report["loss"]["before"]


def test_a_rate_stays_within_what_it_means() -> None:
    report = fit(lambda rates: np.array([100.0 * rates.wrong_vote]), None, [Target("tot-dfs", "PR", 90.0, 1.0)], ["wrong_vote"])
    assert report["rates"][0]["after"] == CEILINGS["wrong_vote"] == 0.5


def test_the_rates_that_ship_are_those_that_the_fit_found() -> None:
    """`python benchmarks/papers/fit.py --json benchmarks/results/fit.json` writes the report."""
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    rates_after = {row["rate"]: row["after"] for row in report["rates"]}
    assert rates_after.keys() == PRIOR.keys() == set(fitted_rates())
    assert rates_after == {name: getattr(SimulatedRates(), name) for name in rates_after}
    assert report["loss"]["after"] < 0.5 * report["loss"]["before"]


def test_figures_are_measured_on_plain_baselines_alone() -> None:
    assert {target.agent for target in TARGETS} == {"react", "dfsdt", "tot-dfs"}
    assert not FREE.keys() & set(fitted_rates())
    play = measure(4, targets=TARGETS[:4])
    usual = play(SimulatedRates())
    assert usual.shape == (4,) and np.array_equal(usual, play(SimulatedRates()))
    assert play(SimulatedRates(overlook=1.0))[1] < usual[1]  # who wants nothing calls nothing


def test_a_sweep_shows_an_effect_over_a_rate() -> None:
    rows = sweep("search", (0.0, 1.0), 6, scenario={"source": {"candidates": {"k": 2}}}, agents=("react", "react+search"))
    assert rows[0]["PR"] == 0.0 and rows[1]["tokens"] > 0.0


@pytest.mark.slow
def test_calls_of_tools_that_btp_took_away_are_refused_and_yet_cost_replies() -> None:
    never, always = sweep("forbidden", (0.0, 1.0), 12, agents=("react", "react+btp"), protocol=PROTOCOLS[0])
    assert always["tokens"] > never["tokens"] and always["PBC"] < never["PBC"]


def test_a_simulated_model_may_be_named_with_its_rates() -> None:
    model = make_model("simulated:notice=0.9,thought=0")
    assert model.name == "simulated:notice=0.9,thought=0" and make_model("simulated").name == "simulated"
    with pytest.raises(UnknownName, match="notice"):
        make_model("simulated:notise=0.9")
    for wrong in ("notice=much", "notice=2"):
        with pytest.raises(ConfigError):
            make_model(f"simulated:{wrong}")


def test_thoughts_are_as_rare_as_asked_for_and_count_as_nodes() -> None:
    scenario = {"extends": "marketplace", "name": "thoughts"}
    spoken = []
    for name in ("simulated:thought=0", "simulated"):
        env = make(
            "costgym/MarketplaceChat-v0", scenario=scenario, split="test", enforcement="record", disable_env_checker=True
        )
        agent = make_agent("react", model=name, search=SearchSettings(depth=8, unit="nodes"))
        spoken.append([result.attempts for result, _ in play_many(env, agent, TEXT, range(20), 0)])
    assert max(spoken[0]) == 4 and max(spoken[1]) == 3  # two and three nodes a call

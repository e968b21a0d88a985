"""The simulated model's rates are found in recorded episodes: hidden ones lie within their intervals, others are named."""

import hashlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import costgym
from costgym.agents.models.named import full_name
from costgym.agents.models.simulated import SimulatedRates, read_rates
from costgym.agents.registry import make_agent
from costgym.cli.app import app
from costgym.envs.registration import make
from costgym.experiments.fit.twin import GRID, KEPT, Trial, fit, held_out, posterior, read_evidence
from costgym.experiments.play.collect import collect

HIDDEN = (
    "simulated:early=0.3,give_up=0.5,misread=0.2,invalid=0.08,invented=0.05,stubborn=0.5,wrong_tool=0.1,forget=0.1",
    "simulated:guess=0.15,tire=0.3,grope=0.5,overlook=0.08,misunderstand=0.1,give_up_empty=0.4",
)


def recorded(folder: Path, model: str, episodes: int, agent: str = "react", seed: int = 6) -> Path:
    settings = {"scenario": "marketplace-small", "split": "test", "budget": "price=20"}
    env = make("costgym/MarketplaceChat-v0", disable_env_checker=True, **settings)
    return collect(env, make_agent(agent, model=model), episodes, folder, seed)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("react"), "simulated", 80)


@pytest.mark.parametrize(("taken", "missed"), [(0, 40), (10, 90), (30, 0)])
def test_a_rate_of_plain_opportunities_has_jeffreys_posterior(taken: int, missed: int) -> None:
    share = posterior([Trial(True)] * taken + [Trial(False)] * missed)
    mean = (taken + 0.5) / (taken + missed + 1)  # of Beta(taken + 1/2, missed + 1/2)
    variance = mean * (1 - mean) / (taken + missed + 2)
    assert share @ GRID == pytest.approx(mean, abs=1e-3)
    assert share @ (GRID - mean) ** 2 == pytest.approx(variance, rel=0.03)


@pytest.mark.parametrize("model", HIDDEN)
def test_a_rate_that_was_hidden_far_from_its_default_is_found_to_be_so(tmp_path: Path, model: str) -> None:
    fitted, truth, usual = fit(read_evidence(recorded(tmp_path, model, 120))), read_rates(model), SimulatedRates()
    changed = [name for name in fitted.rates if abs(getattr(truth, name) - getattr(usual, name)) > 0.04]
    assert len(changed) >= 4
    for name in changed:
        value = fitted.rates[name].value
        assert abs(value - getattr(truth, name)) < abs(value - getattr(usual, name)), name


@pytest.mark.slow
def test_intervals_hold_the_hidden_rates_about_as_often_as_they_say(tmp_path: Path) -> None:
    hits = []
    for number, model in enumerate(("simulated", *HIDDEN) * 3):
        rates = fit(read_evidence(recorded(tmp_path / str(number), model, 300, seed=number))).rates
        hits += [rate.low <= getattr(read_rates(model), name) <= rate.high for name, rate in rates.items()]
    assert len(hits) > 110 and sum(hits) / len(hits) > 0.8  # of 90 % intervals


def test_the_other_half_of_a_simulated_models_episodes_is_predicted(path: Path) -> None:
    rows = held_out(path, draws=8)
    assert [row["figure"] for row in rows] == ["passed", "judged", "price", "calls"]
    assert sum(row["hit"] for row in rows) >= 3, rows


def test_the_model_file_names_the_fitted_model_and_what_was_kept(path: Path, tmp_path: Path) -> None:
    out, predictions = tmp_path / "twin.yaml", tmp_path / "predictions.json"
    arguments = ["twin", str(path), "--out", str(out), "--predict", "react", "--budgets", "price=10", "--episodes", "5"]
    arguments += ["--failures", "reliable", "--predictions", str(predictions)]
    result = CliRunner().invoke(app, arguments, env={"NO_COLOR": "1", "COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    text = predictions.read_text()
    assert hashlib.sha256(text.encode()).hexdigest() in result.stdout
    (run,) = json.loads(text)["runs"]
    assert (run["agent"], run["budget"], run["failures"], run["episodes"]) == ("react", {"price": 10.0}, "reliable", 5)
    assert all(figure["low"] <= figure["value"] <= figure["high"] for figure in run["figures"].values())
    name = full_name(f"{out}:twin")
    rates, twin = read_rates(name), fit(read_evidence(path))
    fitted = SimulatedRates(**{name: round(rate.value, 5) for name, rate in twin.rates.items()})
    assert rates == fitted and set(KEPT) <= set(twin.defaulted) and not set(twin.defaulted) & set(twin.rates)
    assert all(getattr(rates, rate_name) == getattr(SimulatedRates(), rate_name) for rate_name in twin.defaulted)
    CliRunner().invoke(app, arguments)
    assert predictions.read_text() == text
    played = CliRunner().invoke(app, ["run", "--agent", "react", "--model", f"{out}:twin", "--episodes", "2", "--quiet"])
    assert played.exit_code == 0, played.output


def test_episodes_of_another_strategy_are_refused(tmp_path: Path) -> None:
    other = recorded(tmp_path, "simulated", 2, "dfsdt")
    with pytest.raises(costgym.DataError, match="expected episodes of react in the text environment, got some of dfsdt"):
        read_evidence(other)
    recorded(tmp_path / "more", "simulated", 1)
    refused = CliRunner().invoke(app, ["twin", str(tmp_path)])
    assert refused.exit_code == 2 and "expected one trajectory file, got 2" in refused.stderr

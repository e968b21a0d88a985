"""Forecasts of what a real model costs, and runs that stop at a limit of money, against a model server on loopback."""

import json

import pytest
import yaml

from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.leaderboard import run
from costgym.experiments.play.costs.spending import Spending
from costgym.simulators.errors import ConfigError, SpendLimitReached
from costgym.simulators.scenario import parse_scenario
from tests.helpers.command_line import invoke
from tests.helpers.model_server import wire_reply
from tests.helpers.playing import SMALL

EPISODES = 12
USD = 0.014  # of an episode: 1,000 tokens in at $10 a million, 100 out at $40
MODEL = "openai:acme/tiny"


@pytest.fixture
def server(server):
    server.answers = [wire_reply("", ("finish", {"answer": "?"}), prompt=1000, completion=100)] * 500
    return server


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_text("date: 2026-11-20\nmodels: {acme/tiny: {input: 10, output: 40}}\n")
    return path


def board(prices, **more):
    scenario = parse_scenario({"name": "small", **SMALL})
    settings = {"agents": ["react"], "budgets": "price=20", "episodes": EPISODES, "model": MODEL, "prices": prices}
    return make_run_config(scenario=scenario, **{**settings, **more})


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stopped(config, folder, prices, limit, jobs=1):
    with pytest.raises(SpendLimitReached) as caught:
        run(config, folder, jobs, spending=Spending(MODEL, prices, limit))
    return caught.value


def test_a_limit_that_no_episode_fits_into_asks_the_server_nothing(server, prices, tmp_path):
    error = stopped(board(prices), tmp_path / "run", prices, 1e-6)
    assert (error.played, error.spent_usd, server.requests) == (0, 0.0, [])
    assert error.next_usd > 0  # the simulated agent's tokens at the table's prices


def test_a_run_stops_at_its_limit_and_goes_on_to_the_same_bytes(server, prices, tmp_path):
    config, said_before = board(prices), []
    dearest = stopped(config, tmp_path / "part", prices, 1e-6).next_usd
    assert dearest > USD
    error = stopped(config, tmp_path / "part", prices, dearest + 3.5 * USD)
    assert error.played == len(server.requests) == 4
    assert error.spent_usd == pytest.approx(4 * USD) and error.spent_usd < error.limit_usd
    assert not (tmp_path / "part" / "leaderboard.json").exists()
    again = stopped(config, tmp_path / "part", prices, dearest + 3.5 * USD)
    assert again.spent_usd == pytest.approx(4 * USD) and len(server.requests) == 4
    more = stopped(config, tmp_path / "part", prices, dearest + 6.5 * USD)
    assert more.played == len(server.requests) == 7
    run(config, tmp_path / "part", spending=Spending(MODEL, prices, 100.0, said_before.append))
    assert len(server.requests) == EPISODES  # no episode was paid for twice
    assert said_before[0].startswith("$0.098 spent so far; forecast: about $") and "for 5 episodes" in said_before[0]
    assert "the limit is $100.00 in all" in said_before[0] and "prices of acme/tiny of 2026-11-20" in said_before[0]
    run(config, tmp_path / "whole")
    assert files(tmp_path / "part") == files(tmp_path / "whole")


@pytest.mark.slow
def test_episodes_under_way_in_several_processes_keep_to_the_limit(server, prices, tmp_path):
    config = board(prices)
    dearest = stopped(config, tmp_path / "run", prices, 1e-6).next_usd
    server.answers = [wire_reply("", ("finish", {"answer": "?"}), prompt=9000, completion=100)] * 500
    usd = 0.094  # of an episode now
    assert dearest > usd
    error = stopped(config, tmp_path / "run", prices, dearest * 2 + 3.5 * usd, jobs=2)
    assert error.played == len(server.requests) and 4 < error.played < EPISODES
    assert error.spent_usd == pytest.approx(error.played * usd) and error.spent_usd <= error.limit_usd
    assert error.spent_usd + error.next_usd > error.limit_usd


def test_an_episode_dearer_than_the_forecast_is_what_is_kept_free(server, prices, tmp_path):
    config = board(prices)
    dearest = stopped(config, tmp_path / "run", prices, 1e-6).next_usd
    tokens = int(2 * dearest / 10e-6)
    server.answers = [wire_reply("", ("finish", {"answer": "?"}), prompt=tokens, completion=0)] * 500
    error = stopped(config, tmp_path / "run", prices, 5 * dearest)
    assert error.next_usd == pytest.approx(2 * dearest, rel=1e-3)
    assert error.played == 2 and error.spent_usd <= error.limit_usd


def test_a_forecast_of_the_simulated_model_is_what_its_run_costs(prices, server, tmp_path):
    forecast = Spending(MODEL, prices, 1e-6)
    with pytest.raises(SpendLimitReached):
        run(board(prices, episodes=5), tmp_path / "run", spending=forecast)
    scenario = parse_scenario(board(prices).tracks[0].scenario, "run.json")
    simulated = make_run_config(scenario=scenario, agents=["react"], budgets="price=20", episodes=5)
    run(simulated, tmp_path / "simulated")
    lines = (tmp_path / "simulated" / "episodes.jsonl").read_text().splitlines()
    credits = sum(json.loads(line)["figures"]["token_cost"] for line in lines)
    assert forecast.forecast_usd == pytest.approx(credits / 100, rel=1e-12)


def test_agents_without_a_model_cost_nothing_and_unpriced_tracks_are_named(server, tmp_path):
    model, said_before = "openai:gpt-4o-mini-2024-07-18", []
    mixed = make_run_config("quick", agents=["react", "cheapest", "few-shot"], episodes=1, model=model)
    with pytest.raises(ConfigError, match="in the track plans, so nothing can be counted"):
        run(mixed, tmp_path / "mixed", spending=Spending(model, None, 1.0))
    assert server.requests == []
    priced = make_run_config("quick", agents=["react", "cheapest"], episodes=1, model=model)
    run(priced, tmp_path / "priced", spending=Spending(model, None, 1.0, said_before.append))
    assert len(said_before) == 1 and "for 3 episodes" in said_before[0]  # those of react, under three budgets


def test_without_a_price_there_is_no_forecast_and_no_limit(server, tmp_path):
    said_before = []
    config = board(None, episodes=2)  # a model on this machine that no table lists is free
    run(config, tmp_path / "run", spending=Spending(MODEL, None, None, said_before.append))
    assert said_before[0].startswith("no forecast of the cost: the table of") and len(server.requests) == 2
    with pytest.raises(ConfigError, match="pass the model's prices with --prices FILE"):
        run(config, tmp_path / "other", spending=Spending(MODEL, None, 1.0))
    assert len(server.requests) == 2


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf")])
def test_a_limit_is_above_nothing(limit):
    with pytest.raises(ConfigError, match="above 0"):
        Spending(MODEL, None, limit)


def test_the_commands_stop_with_an_exit_code_of_their_own(server, prices, tmp_path):
    (tmp_path / "small.yaml").write_text(yaml.safe_dump({"name": "small", **SMALL}))
    shared = ["--scenario", tmp_path / "small.yaml", "--budget", "price=20", "--episodes", EPISODES, "--model", MODEL]
    shared += ["--prices", prices]
    ranked = ["leaderboard", "--agents", "react", "--jobs", 1, "--out", tmp_path / "run", *shared]
    done = invoke(*ranked, "--spend-limit", "0.000001")
    assert done.exit_code == 3 and server.requests == []
    assert "forecast: about $" in done.stderr and "The same" not in done.stdout
    assert "Played episodes are kept; the same command with a higher --spend-limit continues" in done.stderr
    assert invoke(*ranked, "--spend-limit", 100).exit_code == 0
    server.requests.clear()

    played = ["run", "--agent", "react", *shared]
    refused = invoke(*played, "--spend-limit", 1)
    assert refused.exit_code == 2 and "expected --cache DIR too" in refused.stderr
    assert server.requests == []
    command = [*played, "--cache", tmp_path / "replies"]
    dearest = float(invoke(*command, "--spend-limit", "0.000001").stderr.split("may cost $")[1].split(". ")[0])
    part = invoke(*command, "--spend-limit", dearest + 3.5 * USD)
    assert part.exit_code == 3 and len(server.requests) == 4 and "Success %" in part.stdout
    whole = invoke(*command, "--spend-limit", 100)
    assert whole.exit_code == 0 and len(server.requests) == EPISODES  # the four of the first part were kept
    assert "is not a real model" in invoke("run", "--agent", "react", "--spend-limit", 1, "--cache", tmp_path / "r").stderr


def test_an_agent_without_a_model_has_no_forecast(server, prices):
    done = invoke("run", "--agent", "cheapest", "--episodes", 2, "--budget", "price=20", "--model", MODEL, "--prices", prices)
    assert done.exit_code == 0 and "forecast" not in done.stderr and server.requests == []

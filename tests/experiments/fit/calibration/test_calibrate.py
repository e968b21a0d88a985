"""A log made by a known world is fitted back to that world; a bad log says where it is bad."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("scipy", reason="the extra `train` is not installed")

import costgym
from costgym.cli.data.calibrate import calibrate as calibrate_command
from costgym.cli.setting_options import with_options
from costgym.experiments.fit.calibration import judge
from costgym.experiments.fit.calibration.calibrate import calibrate
from costgym.experiments.fit.calibration.fits import fit_latency, fit_price, fit_rate_limit, reliability_of
from costgym.experiments.fit.calibration.judge import figures
from costgym.experiments.play.call_logs.log import LoggedCall, read_log
from costgym.simulators.ledger import Budget
from costgym.simulators.scenario import load_scenario, parse_scenario
from costgym.simulators.status import Status
from tests.helpers.shared_data import shared

command = with_options(calibrate_command)

TOOLS: dict[str, dict[str, float]] = {
    "steady": {"latency_s": 0.4, "latency_spread": 0.3, "reliability": 1.0, "fee": 2.0},
    "shaky": {"latency_s": 1.2, "latency_spread": 0.5, "reliability": 0.6, "fee": 0.5},
    "slow": {"latency_s": 8.0, "latency_spread": 0.6, "reliability": 0.85, "fee": 1.0, "timeout_s": 20.0},
    "sleepy": {
        "latency_s": 0.5,
        "latency_spread": 0.2,
        "reliability": 0.9,
        "fee": 3.0,
        "cold_start_s": 2.0,
        "keep_alive_s": 30.0,
    },
}
FAILURES = {"slip": 0.05, "persistence": 0.4, "sticky": 0.8, "kinds": {"server_error": 0.6, "not_found": 0.3, "timeout": 0.1}}


def world_log(tools: dict[str, Any], failures: dict[str, Any], episodes: int, calls: int) -> list[dict[str, Any]]:
    """What a world of these tools does, as a log: every tool called again and again in many episodes."""
    scenario = parse_scenario(
        {
            "name": "known",
            "source": {
                "kind": "own",
                "tools": [{"name": name, "profile": profile} for name, profile in tools.items()],
                "tasks": [{"query": "all", "needs": [{"capability": name, "fact": name} for name in tools]}],
            },
            "failures": failures,
        }
    )
    world, records = scenario.build(), []
    for number in range(episodes):
        episode = world.episode(0, seed=number, budget=Budget(), enforcement="record")
        for turn in range(calls):
            for slot in range(len(tools)):
                call = episode.call(slot)
                record: dict[str, Any] = {
                    "tool": call.tool,
                    "started": 1e6 * number + call.submitted_s,
                    "latency_s": call.finished_s - call.submitted_s,
                    "status": call.status.label,
                    "price": call.price,
                    "episode": f"run-{number}",
                }
                if tools[call.tool].get("cold_start_s"):
                    record["cold"] = call.cold
                records.append(record)
            episode.advance(5.0 + 60.0 * (turn % 3 == 2))
    return records


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("log") / "calls.jsonl", world_log(TOOLS, FAILURES, episodes=120, calls=12))


@pytest.fixture(autouse=True, scope="module")
def brief() -> Iterator[None]:
    """Simulate fewer calls, which is most of a calibration; two thousand tell a rate to half a point."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge, "MAX_TOOL_CALLS", 2_000)
        yield


@pytest.fixture(scope="module")
def fitted(log: Path) -> Any:
    return calibrate(log)


@pytest.mark.parametrize("name", TOOLS)
def test_a_tools_parameters_are_found_again(fitted: Any, name: str) -> None:
    truth, profile = TOOLS[name], next(t for t in fitted.document["source"]["tools"] if t["name"] == name)["profile"]
    assert profile["latency_s"] == pytest.approx(truth["latency_s"], rel=0.05)
    assert profile["latency_spread"] == pytest.approx(truth["latency_spread"], rel=0.08)
    assert profile["reliability"] == pytest.approx(truth["reliability"], abs=0.08)
    assert profile["fee"] == truth["fee"]


def test_limits_and_cold_starts_are_found_again(fitted: Any) -> None:
    profiles = {tool["name"]: tool["profile"] for tool in fitted.document["source"]["tools"]}
    assert profiles["slow"]["timeout_s"] == pytest.approx(20.0)
    assert profiles["sleepy"]["cold_start_s"] == pytest.approx(2.0, abs=0.1)
    assert 5.0 < profiles["sleepy"]["keep_alive_s"] < 65.0
    assert "cold_start_s" not in profiles["steady"]


def test_the_failure_model_is_found_again(fitted: Any) -> None:
    failures = fitted.document["failures"]
    assert failures["slip"] == pytest.approx(FAILURES["slip"], abs=0.03)
    assert failures["persistence"] == pytest.approx(FAILURES["persistence"], abs=0.08)
    assert failures["sticky"] == pytest.approx(FAILURES["sticky"], abs=0.05)
    for name, weight in FAILURES["kinds"].items():  # type: ignore[attr-defined]
        assert failures["kinds"][name] == pytest.approx(weight, abs=0.08)


def test_the_report_says_how_good_the_fit_is(fitted: Any) -> None:
    unseen = fitted.report["unseen"]
    assert unseen["figures_as_predicted"] >= 0.9 * unseen["figures"]
    assert unseen["outcome_log_likelihood"]["chain"] > unseen["outcome_log_likelihood"]["independent"] + 0.05
    assert fitted.report["warnings"] == []  # its tools neither drift nor fail together
    row = fitted.report["tools"]["shaky"]
    assert row["success_ci95"][0] <= row["success"] <= row["success_ci95"][1]
    assert row["statuses"]["ok"]["ci95"][0] < row["statuses"]["ok"]["rate"] < row["statuses"]["ok"]["ci95"][1]


def test_the_fitted_scenario_can_be_played_from_its_file(fitted: Any, tmp_path: Path) -> None:
    path = tmp_path / "fitted.yaml"
    fitted.write(path, tmp_path / "report.json")
    assert load_scenario(path) == fitted.scenario
    env = costgym.make("costgym/MarketplaceChat-v0", scenario=str(path), split="test")
    query, _ = env.reset(seed=0)
    assert query.startswith("What does")
    assert json.loads((tmp_path / "report.json").read_text())["format"] == "costgym.calibration/1"


def test_the_fitted_world_fails_as_the_known_one_did(fitted: Any, log: Path) -> None:
    document = {**fitted.document, "source": {**fitted.document["source"]}}
    tools = {tool["name"]: tool["profile"] for tool in document["source"]["tools"]}
    again = world_log(tools, document["failures"], episodes=120, calls=12)

    def rates(records: list[dict[str, Any]]) -> dict[str, float]:
        return {
            name: sum(r["status"] == "ok" for r in records if r["tool"] == name) / sum(r["tool"] == name for r in records)
            for name in TOOLS
        }

    before, after = rates([json.loads(line) for line in log.read_text().splitlines()]), rates(again)
    assert after == pytest.approx(before, abs=0.07)  # a run of 120 episodes has a standard error of 0.02


@pytest.mark.slow
def test_same_log_same_bytes(log: Path, fitted: Any, tmp_path: Path) -> None:
    calibrate(log).write(tmp_path / "a.yaml", tmp_path / "a.json")
    fitted.write(tmp_path / "b.yaml", tmp_path / "b.json")
    assert (tmp_path / "a.yaml").read_bytes() == (tmp_path / "b.yaml").read_bytes()
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


# -- parts ----------------------------------------------------------------------------------------------------------------


def made(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [
        {"tool": "a", "started": i * 10, "latency_s": 1.0 + 0.1 * (i % 7), "status": 200, "price": 1.0, **fields}
        for i in range(count)
    ]


def test_prices_by_duration_become_pay_per_use(tmp_path: Path) -> None:
    records = [{**record, "price": 3e-5 * record["latency_s"]} for record in made(40)]
    calibration = calibrate(write(tmp_path / "log.jsonl", records))
    env = costgym.make("costgym/MarketplaceChat-v0", scenario=calibration.scenario, split="test")
    env.reset(seed=0)
    (price,) = env.unwrapped.quotes().values()  # type: ignore[attr-defined]
    assert calibration.document["pricing"] == "faas"
    assert price == pytest.approx(3e-5 * calibration.document["source"]["tools"][0]["profile"]["latency_s"], rel=0.01)


def test_prices_by_token_are_recognised_and_may_come_from_a_price_list(tmp_path: Path) -> None:
    counts = [(100 + 37 * (i % 11), 20 + 13 * (i % 5)) for i in range(40)]
    records = [
        {**record, "price": None, "input_tokens": i, "output_tokens": o}
        for record, (i, o) in zip(made(40), counts, strict=True)
    ]
    calibration = calibrate(write(tmp_path / "log.jsonl", records), token_price=(2.5, 10.0))
    price = calibration.report["tools"]["a"]["price"]
    assert price["model"] == "token"
    assert price["per_token"] == pytest.approx((2.5e-6, 1e-5))
    assert any("by token" in warning for warning in calibration.report["warnings"])


def test_failures_that_cost_nothing_are_not_billed(tmp_path: Path) -> None:
    records = [{**record, "status": 500, "price": 0.0} if i % 4 == 0 else record for i, record in enumerate(made(80))]
    assert calibrate(write(tmp_path / "log.jsonl", records)).document["bill_failures"] is False
    records = [{**record, "status": 500} if i % 4 == 0 else record for i, record in enumerate(made(80))]
    assert calibrate(write(tmp_path / "log.jsonl", records)).document["bill_failures"] is True


def test_a_rate_limit_is_found_with_its_window() -> None:
    calls, admitted = [], []
    for second in range(0, 2000, 7):
        while admitted and admitted[0] <= second - 60:
            admitted.pop(0)
        refused = len(admitted) >= 5
        if not refused:
            admitted.append(second)
        status = Status.RATE_LIMITED if refused else Status.OK
        calls.append(LoggedCall("a", float(second), 0.1, status))
    assert fit_rate_limit(calls) == (5, 60.0)


def test_durations_beyond_the_timeout_are_not_taken_for_failures() -> None:
    import numpy as np

    seconds = np.random.default_rng(0).lognormal(np.log(2.0), 1.0, 4000)
    calls = [
        LoggedCall("a", float(i), min(s, 5.0), Status.TIMEOUT if s > 5 else Status.OK)
        for i, s in enumerate(map(float, seconds))
    ]
    fit = fit_latency(calls)
    assert fit is not None and fit.timeout_s == 5.0
    assert (fit.median_s, fit.spread) == (pytest.approx(2.0, rel=0.06), pytest.approx(1.0, rel=0.06))
    assert fit.slow_timeouts == pytest.approx(np.mean(seconds > 5), abs=0.02)


def test_a_constant_duration_and_price_are_fitted_exactly() -> None:
    calls = [LoggedCall("a", float(i), 2.0, Status.OK, 3.0) for i in range(30)]
    latency, price = fit_latency(calls), fit_price(calls)
    assert latency is not None and (latency.median_s, latency.spread) == (2.0, 0.0)
    assert price is not None and (price.fee, price.model, price.flat_error) == (3.0, "flat", 0.0)


def test_reliability_undoes_the_slip() -> None:
    assert reliability_of(0.05 + 0.9 * 0.7, 0.05) == pytest.approx(0.7)
    assert (reliability_of(0.99, 0.05), reliability_of(0.01, 0.05)) == (1.0, 0.0)


def test_calls_of_one_episode_widen_the_interval() -> None:
    ok, bad = Status.OK, Status.SERVER_ERROR

    def success(chains: list[list[Status]]) -> Any:
        return figures([[LoggedCall("a", 0.0, 1.0, status) for status in chain] for chain in chains])["success"]

    together, apart = success([[ok] * 10, [bad] * 10] * 5), success([[ok, bad] * 5] * 10)
    assert together.value == apart.value == 0.5
    assert together.high - together.low > 1.5 * (apart.high - apart.low)


def test_names_become_callable_and_groups_are_kept(tmp_path: Path) -> None:
    records = made(30, tool="Weather API / v2", capability="forecast", category="Weather") + made(30, tool="Weather API: v2")
    tools = calibrate(write(tmp_path / "log.jsonl", records)).document["source"]["tools"]
    assert [tool["name"] for tool in tools] == ["Weather_API_v2", "Weather_API_v2_2"]
    assert (tools[0]["capability"], tools[0]["category"]) == ("forecast", "Weather")


def test_stabletoolbenchs_answers_are_read_and_fitted(tmp_path: Path) -> None:
    folder = shared("data/toolbench_family/stabletoolbench")
    calls = read_log(folder).calls
    assert {call.status for call in calls} == {Status.OK} and all(call.latency_s is None for call in calls)
    calibration = calibrate(folder, name="stable")
    assert calibration.document["source"] == {"kind": "toolbench"}
    assert calibration.document["failures"]["usable"] == 1.0
    older = calibrate(shared("data/toolbench_family/toolbench/answer"), name="older")
    assert 0.2 < older.document["failures"]["usable"] < 0.8
    older.write(tmp_path / "older.yaml")
    scenario = load_scenario(tmp_path / "older.yaml", shared("data/toolbench_family/toolbench"))
    assert len(scenario.build().catalog) > 10


@pytest.mark.parametrize(
    ("code", "observation", "status"),
    [
        (0, '{"error": "", "response": {"value": 3}}', "ok"),
        (0, '{"error": "", "response": "[]"} cut off', "ok"),
        (0, '{"error": "", "response": ""}', "empty"),
        (0, """{"error": "", "response": "{'message': 'Endpoint does not exist'}"}""", "not_found"),
        (0, """{"error": "", "response": "{'message': 'hello', 'data': [1]}"}""", "ok"),
        (0, '{"error": "", "response": "<html><h1>Forbidden</h1></html>"}', "unauthorized"),
        (11, """{"error": "Message error...", "response": "{'results': [1]}"}""", "ok"),
        (12, '{"error": "request invalid, data error. status_code=500", "response": ""}', "server_error"),
        (12, '{"error": "request invalid, data error. status_code=400", "response": ""}', "wrong_arguments"),
        (5, '{"error": "Timeout error", "response": ""}', "timeout"),
        (1, '{"error": "No such function name", "response": ""}', "unknown_tool"),
    ],
)
def test_what_an_answer_tree_holds_is_judged_by_its_words(tmp_path: Path, code: int, observation: str, status: str) -> None:
    call = {"node_type": "Action Input", "observation_code": code, "observation": observation, "children": []}
    root = {"node_type": "Action Input", "children": [{"node_type": "Action", "description": "a", "children": [call]}]}
    (tmp_path / "answer").mkdir()
    (tmp_path / "answer" / "1.json").write_text(json.dumps({"tree": {"tree": root}}))
    assert [logged.status.label for logged in read_log(tmp_path).calls] == [status]


# -- bad logs -------------------------------------------------------------------------------------------------------------

GOOD = '{"tool": "a", "started": 1, "latency_s": 1, "status": "ok"}'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2: is not valid JSON"),
        ("[1]", "line 2: expected a JSON object, got list"),
        ('{"started": 1, "latency_s": 1, "status": "ok"}', "line 2: the field 'tool' is missing"),
        ('{"tool": "a", "started": 1, "status": "ok"}', "line 2: the field 'latency_s' is missing"),
        ('{"tool": "a", "latency_s": 1, "status": "ok"}', "line 2: the field 'started' is missing"),
        ('{"tool": "a", "started": 1, "latency_s": 1}', "line 2: the field 'status' is missing"),
        ('{"tool": "", "started": 1, "latency_s": 1, "status": "ok"}', "line 2: tool: expected a name"),
        ('{"tool": "a", "started": 1, "latency_s": -1, "status": "ok"}', "line 2: latency_s: expected a finite number"),
        ('{"tool": "a", "started": 1, "latency_s": NaN, "status": "ok"}', "line 2: latency_s: expected a finite number"),
        ('{"tool": "a", "started": 1, "latency_s": "1", "status": "ok"}', "line 2: latency_s: expected a finite number"),
        ('{"tool": "a", "started": 1, "latency_s": 1, "status": "ok", "price": -2}', "line 2: price: expected"),
        ('{"tool": "a", "started": 1, "latency_s": 1, "status": "fine"}', "line 2: status: expected an HTTP status"),
        ('{"tool": "a", "started": 1, "latency_s": 1, "status": 42}', "line 2: status: expected an HTTP status"),
        ('{"tool": "a", "started": "yesterday", "latency_s": 1, "status": 200}', "line 2: started: expected ISO 8601"),
        ('{"tool": "a", "started": 1, "latency_s": 1, "status": 200, "cold": "yes"}', "line 2: cold: expected true or false"),
        (GOOD, "no tool has 20 executed calls"),
        ("\xff", "line 2: is not valid JSON"),
    ],
)
def test_a_bad_log_is_named_by_its_line_and_nothing_is_written(tmp_path: Path, line: str, words: str) -> None:
    (tmp_path / "log.jsonl").write_text(f"{GOOD}\n{line}\n", encoding="utf-8")
    with pytest.raises(costgym.DataError, match=words):
        command(tmp_path / "log.jsonl", tmp_path / "out.yaml", json_file=tmp_path / "report.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl"]


@pytest.mark.parametrize(("content", "words"), [(b"", "is empty"), (b"\n\n", "is empty"), (b"\xff\xfe\n", "not UTF-8")])
def test_an_empty_log_is_an_error(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "log.jsonl").write_bytes(content)
    with pytest.raises(costgym.DataError, match=words):
        calibrate(tmp_path / "log.jsonl")
    with pytest.raises(costgym.DataError, match="cannot be read"):
        calibrate(tmp_path / "none.jsonl")
    with pytest.raises(costgym.DataError, match="holds no answer trees"):
        calibrate(tmp_path)


def test_one_call_alone_can_be_fitted_if_one_insists(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(GOOD)  # without a newline at the end
    profile = calibrate(path, least_calls=1).document["source"]["tools"][0]["profile"]
    assert (profile["latency_s"], profile["latency_spread"], profile["reliability"]) == (1.0, 0.0, 1.0)


@pytest.mark.slow
def test_the_command_writes_and_says_what_it_found(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command(log, tmp_path / "out.yaml", json_file=tmp_path / "report.json")
    shown = capsys.readouterr().out
    assert "shaky" in shown and "figures within the log's 95 % intervals" in shown and "unseen calls" in shown
    assert yaml.safe_load((tmp_path / "out.yaml").read_text())["name"] == "out"
    with pytest.raises(costgym.ConfigError, match="ending in"):
        command(log, tmp_path / "out.txt")
    with pytest.raises(costgym.ConfigError, match="two numbers"):
        command(log, tmp_path / "out.yaml", token_price="1")

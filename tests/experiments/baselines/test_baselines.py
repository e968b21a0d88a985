"""Baselines: what a table is made of, that a killed command goes on, and that the statistics are what they are called."""

import json
from pathlib import Path

import numpy as np
import pytest

from costgym.agents import make_agent
from costgym.agents.base import DECISION, PLAN_CALLS, PLAN_CHAT, PLANS, SESSION_1, TEXT
from costgym.agents.registry import FunctionAgent
from costgym.experiments.baselines.methods import (
    LIMIT_SHARE,
    METHODS,
    OFFERS,
    BatchAgent,
    Unit,
    budget_of,
    learning_split,
    measure,
    open_env,
)
from costgym.experiments.baselines.report import curves, interval, iqm, rows, sentence, table, write
from costgym.experiments.baselines.run import BaselineSettings, left_out, run, units
from costgym.simulators.errors import ConfigError, DataError, UnknownName

ENV = "costgym/Marketplace-v0"
SMALL = BaselineSettings(minutes=1.0, steps=600, points=2, point_episodes=3, episodes=6, recorded=12, updates=5)
RULES = ("random", "greedy", "oracle-informed")


def record(method: str, seed: int, success: float, cost: float = 5.0, value: float = 0.0) -> dict[str, object]:
    figures = {"success": success, "return": value, "cost": cost, "calls": 3.0}
    settings = BaselineSettings().model_dump()
    return {
        "method": method, "env": ENV, "level": "marketplace", "seed": seed, "steps": 10, "seconds": 1.0, "settings": settings,
        "curve": [], "figures": figures, "cost_limit": 7.0, "split": None if METHODS[method].kind == "rule" else "train-large",
    }  # fmt: skip


def test_the_interquartile_mean_leaves_out_a_quarter_on_each_side() -> None:
    assert iqm([100.0, 2.0, 3.0, 4.0, -50.0]) == 3.0
    assert iqm([1.0, 2.0, 3.0, 50.0]) == 2.5
    assert iqm([7.0]) == 7.0


def test_an_interval_holds_the_mean_and_a_single_seed_has_none() -> None:
    low, high = interval([0.1, 0.2, 0.3, 0.4, 0.5], "x") or (1.0, 0.0)
    assert 0.1 <= low < 0.3 < high <= 0.5
    assert interval([0.1], "x") is None
    assert interval([0.1, 0.2, 0.3], "x") == interval([0.1, 0.2, 0.3], "x")


def test_rules_that_draw_nothing_run_once() -> None:
    rows_run = units(tuple(METHODS), [ENV], ["marketplace", "storm"], 3)
    assert sum(unit.method == "greedy" for unit in rows_run) == 2
    assert sum(unit.method == "ppo" for unit in rows_run) == 6
    assert len({unit.file for unit in rows_run}) == len(rows_run)


def test_wrong_names_and_numbers_are_refused() -> None:
    with pytest.raises(UnknownName, match="nearest: ppo"):
        units(["pppo"], [ENV], ["marketplace"], 1)
    with pytest.raises(ConfigError, match="--levels"):
        units(["greedy"], [ENV], ["storm", "storm"], 1)


def test_methods_learn_from_tasks_made_on_demand_where_a_world_has_them(tmp_path: Path) -> None:
    assert learning_split(ENV, "marketplace") == "train-large"
    assert (
        learning_split(PLAN_CALLS, "")
        == learning_split(DECISION, "decision")
        == learning_split(ENV, "examples/weather_desk.yaml")
        == "train"
    )
    assert learning_split(ENV, "marketplace", "train") == "train"
    for env, split in ((PLAN_CALLS, "train-large"), (DECISION, "train-large"), (ENV, "trian"), (ENV, "test")):
        with pytest.raises(ConfigError, match=rf"--train-split: expected a split .* got '{split}'"):
            run(tmp_path, SMALL.model_copy(update={"train_split": split}), ["greedy"], [env], seeds=1)
    assert not any(tmp_path.iterdir())


def test_a_table_names_the_split_that_was_learnt_from(tmp_path: Path) -> None:
    pytest.importorskip("sb3_contrib")
    few = SMALL.model_copy(update={"episodes": 2, "point_episodes": 1})
    large, small = (
        run(tmp_path / str(split), few.model_copy(update={"train_split": split}), ["greedy", "bc"], seeds=1)
        for split in (None, "train")
    )
    assert f"### `{ENV}`, `marketplace`; learnt from `train-large`\n" in table(rows(large))
    assert f"### `{ENV}`, `marketplace`; learnt from `train`\n" in table(rows(small))
    assert f"### `{ENV}`, `marketplace`\n" in table(rows(large[:1]))


def test_what_an_environment_lacks_is_left_out_and_said_before_anything_is_played(tmp_path: Path) -> None:
    planned = units(tuple(METHODS), [ENV, PLAN_CALLS, DECISION, PLANS], None, 1)
    assert {unit.level for unit in planned if unit.env == DECISION} == {"decision"}
    lacking = {"cheapest", "bayes-index", "paced", "optimistic", "tuned", "ppo-tools", "dt"}
    assert {unit.method for unit in planned if unit.env == PLAN_CALLS} == set(METHODS) - lacking
    assert left_out(tuple(METHODS), [ENV]) == []
    messages: list[str] = []
    run(
        tmp_path,
        SMALL.model_copy(update={"episodes": 1, "point_episodes": 1}),
        ("cheapest", "greedy"),
        [DECISION],
        say=messages.append,
    )
    assert messages == [f"{DECISION} is played without cheapest: there is no such rule there"]
    with pytest.raises(ConfigError, match="actions are texts"):
        units(["ppo"], [PLAN_CHAT], None, 1)
    with pytest.raises(ConfigError, match="no baselines"):
        units(tuple(METHODS), [TEXT], None, 1)
    with pytest.raises(UnknownName, match="environment"):
        units(["greedy"], ["costgym/Market-v0"], None, 1)


@pytest.mark.parametrize("env", [DECISION, PLAN_CALLS, PLANS])
@pytest.mark.slow
def test_the_rules_of_other_environments_stand_in_the_order_of_their_returns(env: str, tmp_path: Path) -> None:
    few = SMALL.model_copy(update={"episodes": 60, "point_episodes": 1})
    by_method = {row["method"]: row for row in rows(run(tmp_path, few, RULES, [env], seeds=1))}
    floor = max(by_method[name]["normalised_return"] for name in ("random", "do-nothing") if name in by_method)
    assert 0 == floor < by_method["greedy"]["normalised_return"]
    assert by_method["oracle-informed"]["normalised_return"] == 100
    assert by_method["greedy"]["cost_by_limit"] == by_method["greedy"]["cost"] / OFFERS[env].cost_limit


@pytest.mark.parametrize("env", sorted(OFFERS))
@pytest.mark.slow
def test_a_limit_is_a_share_of_what_the_greedy_rule_spends(env: str) -> None:
    level = {ENV: "marketplace", DECISION: "decision"}.get(env, "")
    spent = measure(open_env(env, level, "train"), make_agent(OFFERS[env].rules["greedy"], env), 400)["cost"]
    assert float(f"{LIMIT_SHARE * spent:.1g}") == OFFERS[env].cost_limit


@pytest.mark.parametrize(
    ("env", "method"),
    [
        pytest.param(DECISION, "pid-lagrangian", marks=pytest.mark.slow),
        (DECISION, "iql"),
        pytest.param(PLAN_CALLS, "pid-lagrangian", marks=pytest.mark.slow),
        (PLANS, "dqn"),
        (PLANS, "bc"),
    ],
)
def test_a_method_learns_in_other_environments(env: str, method: str, tmp_path: Path) -> None:
    pytest.importorskip("sb3_contrib")
    records = run(tmp_path, SMALL.model_copy(update={"steps": 300}), [method], [env], seeds=1)[0]
    assert records["steps"] > 0 and records["cost_limit"] == OFFERS[env].cost_limit
    settings = SMALL.model_copy(update={"episodes": 1, "point_episodes": 1, "cost_limit": 3.0})
    assert run(tmp_path / "given", settings, ["greedy"], [env], seeds=1)[0]["cost_limit"] == 3.0


def test_returns_are_normalised_by_random_and_the_informed_optimum() -> None:
    records = [record("random", 0, 0.3, value=0.1), record("oracle-informed", 0, 0.9, value=0.5)]
    records += [record("ppo", seed, 0.8, value=0.4) for seed in range(3)]
    by_name = {row["method"]: row for row in rows(records)}
    assert [round(by_name[name]["normalised_return"], 9) for name in ("random", "ppo", "oracle-informed")] == [0, 75, 100]
    records.append(record("do-nothing", 0, 0.0, value=0.3))  # which loses less than random actions do
    by_name = {row["method"]: row for row in rows(records)}
    assert [round(by_name[name]["normalised_return"], 9) for name in ("random", "do-nothing", "ppo")] == [-100, 0, 50]


def test_a_sentence_says_no_more_than_the_intervals() -> None:
    records = [record("greedy", 0, 0.7), record("cheapest", 0, 0.48), record("dqn", 0, 0.9)]
    records += [record("random", seed, 0.3) for seed in range(3)]
    records += [*(record("ppo", seed, 0.8 + seed / 100) for seed in range(3))]
    records += [record("bc", seed, 0.7 + seed / 100) for seed in range(3)]
    records += [record("iql", seed, 0.71 + seed / 100) for seed in range(3)]
    records += [record("ppo-lagrangian", seed, 0.6, cost=6.0 + seed) for seed in range(3)]
    by_method = {row["method"]: row for row in rows(records)}
    sentences = {name: sentence(row, by_method) for name, row in by_method.items()}
    assert "11.0 points more" in sentences["ppo"] and "`greedy`" in sentences["ppo"]
    assert "not told apart from `bc`" in sentences["iql"]
    assert "fewer test tasks" in sentences["ppo-lagrangian"] and "in 2 of 3 runs" in sentences["ppo-lagrangian"]
    assert sentences["greedy"] == "`greedy` passes 40.0 points more test tasks than `random`."
    assert "22.0 points fewer test tasks than `greedy`" in sentences["cheapest"]
    assert "supports no comparison" in sentences["dqn"]
    assert all(sentences.values())


def test_a_table_goes_on_where_it_was_and_refuses_other_settings(tmp_path: Path) -> None:
    first = run(tmp_path, SMALL, RULES, seeds=2)
    path = tmp_path / "runs" / Unit("greedy", ENV, "marketplace", 0).file
    document = json.loads(path.read_text())
    document["figures"]["success"] = 0.123
    path.write_text(json.dumps(document))
    (tmp_path / "runs" / Unit("random", ENV, "marketplace", 1).file).unlink()
    again = run(tmp_path, SMALL, RULES, seeds=2)
    assert [row["figures"]["success"] for row in again if row["method"] == "greedy"] == [0.123]
    assert [row for row in again if row["method"] == "random"] == [row for row in first if row["method"] == "random"]
    with pytest.raises(ConfigError, match="other settings"):
        run(tmp_path, SMALL.model_copy(update={"episodes": 7}), RULES, seeds=2)
    text = write(tmp_path, again, "costgym baselines", "2026-11-22", "here").read_text()
    assert table(rows(again)) in text


def test_curves_show_the_limit_where_a_method_is_held_to_it() -> None:
    learnt = [
        {**record(name, 0, 0.6), "curve": [{"steps": 2000, "success": 0.6, "cost": 6.0}]} for name in ("ppo", "pid-lagrangian")
    ]
    assert ">limit<" not in curves(learnt[:1]) and ">limit<" in curves(learnt)


def test_conservative_values_prefer_the_best_recorded_action_to_an_untried_one() -> None:
    torch = pytest.importorskip("torch")
    from costgym.experiments.baselines.offline import _conservative_q, _network
    from costgym.experiments.baselines.recorded import Transitions

    torch.manual_seed(0)
    count = 64
    seen, masks = np.ones((count, 2), np.float32), np.tile([True, True, True, False], (count, 1))
    actions = np.arange(count) % 2  # 0 brings 1, 1 brings nothing, 2 was never tried, 3 is forbidden
    rewards = (1.0 - actions).astype(np.float32)
    data = Transitions(seen, masks, actions, rewards, seen, np.zeros_like(masks), np.ones(count, np.bool_))
    network = _network(data, 4)
    update = _conservative_q(network, data)
    for _ in range(500):
        update([torch.from_numpy(part) for part in data.arrays])
    values = network(torch.ones(2)).tolist()
    assert values[0] > values[1] > values[2]


@pytest.mark.parametrize(
    "method",
    ["bc", "cql", "iql", "dqn", *(pytest.param(name, marks=pytest.mark.slow) for name in ("pid-lagrangian", "ppo-tools"))],
)
def test_a_method_learns_and_the_same_seed_gives_the_same_run(method: str, tmp_path: Path) -> None:
    pytest.importorskip("sb3_contrib")
    runs = [run(tmp_path / name, SMALL, [method], seeds=1)[0] for name in "ab"]
    for record in runs:
        record.pop("seconds")
        for point in record["curve"]:
            point.pop("seconds")
    assert runs[0] == runs[1]
    assert runs[0]["steps"] > 0 and np.isfinite(runs[0]["figures"]["return"])


def test_the_price_of_costs_rises_while_the_limit_is_broken_and_falls_after() -> None:
    pytest.importorskip("sb3_contrib")
    from costgym.experiments.baselines.online import controller_of

    dual, pid = controller_of("ppo-lagrangian", 7.0), controller_of("pid-lagrangian", 7.0)
    assert dual is not None and pid is not None and controller_of("ppo", 7.0) is None
    values = {limit.damping: [] for limit in (dual, pid)}
    for cost in (12.0, 14.0, 3.0, 3.0):
        for limit in (dual, pid):
            limit.update(cost)
            values[limit.damping].append(limit.value)
    slow, quick = values[dual.damping], values[pid.damping]
    assert 0 < slow[0] < slow[1] > slow[2] > slow[3]
    assert quick[0] > slow[0] and quick[1] > quick[0] and quick[2] == 0.0


def test_wrong_datasets_are_refused_before_anything_is_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    of_sessions = SMALL.model_copy(update={"dataset": "costgym/sessions-v1/medium-v0"})
    with pytest.raises(ConfigError, match=r"a method that learns from recorded episodes .*: bc, cql, iql, dt"):
        run(tmp_path / "a", of_sessions, ["greedy", "ppo"], [SESSION_1], seeds=1)
    with pytest.raises(ConfigError, match=rf"expected a dataset of {ENV}, got .* of {SESSION_1}; add --envs {SESSION_1}"):
        run(tmp_path / "b", of_sessions, ["bc"], [ENV], seeds=1)
    with pytest.raises(DataError, match="build it first"):
        run(tmp_path / "c", of_sessions, ["bc"], [SESSION_1], seeds=1)
    with pytest.raises(UnknownName, match="nearest: costgym/sessions-v1/medium-v0"):
        run(tmp_path / "d", SMALL.model_copy(update={"dataset": "costgym/sessions-v1/medum-v0"}), ["bc"], [SESSION_1], seeds=1)
    with pytest.raises(ConfigError, match="which tells the return so far"):
        units(["dt"], [ENV], None, 1)
    assert not any((tmp_path / name).exists() for name in "abcd")


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("minari")
    from costgym.experiments.play.named.build import build

    root = tmp_path_factory.mktemp("datasets")
    build("costgym/sessions-v1/medium-v0", root, episodes=3)
    build("costgym/sessions-v1/medium-flat-v0", root, episodes=3)
    return root


@pytest.mark.native
@pytest.mark.parametrize("method", ["cql", "dt", pytest.param("iql", marks=pytest.mark.slow)])
def test_methods_learn_sessions_from_a_named_dataset(
    method: str, datasets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sb3_contrib")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(datasets))
    results = []
    for name in ("medium-v0", "medium-flat-v0"):  # which hold the same episodes
        settings = SMALL.model_copy(update={"dataset": f"costgym/sessions-v1/{name}", "episodes": 3, "updates": 3})
        results.append(run(tmp_path / name, settings, [method], [SESSION_1], seeds=1)[0])
    assert results[0]["figures"] == results[1]["figures"] and results[0]["steps"] == results[1]["steps"] > 100
    assert 0.0 <= results[0]["figures"]["value_share"] <= 1.0
    assert "learnt from `costgym/sessions-v1/medium-v0`" in table(rows(results[:1]))


@pytest.mark.native
def test_sessions_side_by_side_are_measured_as_one_by_one() -> None:
    pytest.importorskip("numba")

    def act(observation: dict[str, np.ndarray], info: dict[str, np.ndarray], begins: np.ndarray) -> np.ndarray:
        calls = info["action_mask"][:, :24].astype(bool)
        worth = np.where(calls, observation["tools"][..., 2] / (observation["tools"][..., 0] + 0.01), 0.0)
        return np.where(worth.max(1) > 3.0, worth.argmax(1), 25)

    env, agent = open_env(SESSION_1, "", "valid", {"price": 60.0}), BatchAgent(act, SESSION_1)
    together = measure(env, agent, 3, limit=40.0)

    def choose(observation: dict[str, np.ndarray], info: dict[str, np.ndarray]) -> int:
        one = {name: part[None] for name, part in observation.items()}
        return int(act(one, {"action_mask": info["action_mask"][None]}, np.array([False]))[0])

    apart = measure(env, FunctionAgent(choose, SESSION_1), 3, limit=40.0)
    assert together.keys() == apart.keys()
    assert all(together[name] == pytest.approx(apart[name], abs=1e-9) for name in apart)
    assert 0.0 < together["cost"] <= 60.0 and together["over_limit"] > 0.0


def test_a_decision_transformer_looks_back_within_an_episode_and_learns_what_was_done() -> None:
    pytest.importorskip("transformers")
    from costgym.experiments.baselines.recorded import Transitions
    from costgym.experiments.baselines.transformer import STEPS, returns_to_go, windows

    ended = np.array([False, False, True, False, True])
    blank = np.zeros(5)
    data = Transitions(blank, blank, blank, np.array([1.0, 2.0, 4.0, 8.0, 16.0]), blank, blank, ended)  # type: ignore[arg-type]
    assert returns_to_go(data).tolist() == [7.0, 6.0, 4.0, 24.0, 16.0]
    index, present, steps = windows(data, np.array([2, 4]))
    assert index[0, -3:].tolist() == [0, 1, 2] and index[1, -2:].tolist() == [3, 4] and present.sum(1).tolist() == [3, 2]
    assert steps[:, -1].tolist() == [2, 1] and index.shape == (2, STEPS)


@pytest.mark.native
@pytest.mark.parametrize("method", ["ppo-lagrangian", pytest.param("pid-lagrangian", marks=pytest.mark.slow)])
def test_under_a_limit_learners_of_sessions_play_without_the_budget_and_rules_within_the_limit(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sb3_contrib")
    from costgym.experiments.baselines import online

    monkeypatch.setitem(online.OF_SESSIONS, "n_steps", 256)
    monkeypatch.setitem(online.OF_SESSIONS, "n_epochs", 1)
    monkeypatch.setattr(online, "SESSION_ENVS", 4)
    settings = SMALL.model_copy(update={"cost_limit": 50.0, "episodes": 3, "point_episodes": 2, "steps": 2_048})
    rule, learnt = run(tmp_path, settings, ["greedy", method], [SESSION_1], seeds=1)
    assert rule["figures"]["over_limit"] == 0.0 < rule["figures"]["cost"] <= 50.0
    assert learnt["cost_limit"] == 50.0 and learnt["steps"] == 2_048
    # what is played with: a policy that calls wherever it may spends more than the limit and than any session's own budget
    env = open_env(SESSION_1, "", "test", budget_of(method, SESSION_1, 50.0))
    caller = FunctionAgent(lambda _, info: int(np.flatnonzero(info["action_mask"])[0]), SESSION_1)
    assert measure(env, caller, 2, limit=50.0)["over_limit"] == 1.0

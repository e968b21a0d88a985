"""The OpenCATP leaderboard: its rows, its bytes, its page, and who is better than whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costgym.agents.opencatp.base import PlanAgent
from costgym.agents.registry import make_planner
from costgym.envs.registration import make
from costgym.experiments.leaderboard.plans import AGENTS, KINDS, PlanBoard, plan_run, run
from costgym.simulators.errors import ConfigError, DataError, UnknownName
from costgym.simulators.opencatp.scoring.evaluation import shipped_outcomes

AGENTS_HERE = ("oracle", "oracle-informed", "hydra", "zero-shot", "fixed-all", "random")
PLAN = {"agents": AGENTS_HERE, "alphas": (0.3, 0.6), "episodes": 36}


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> PlanBoard:
    try:
        shipped_outcomes()
    except DataError as missing:
        pytest.skip(str(missing))
    return run(plan_run(**PLAN), tmp_path_factory.mktemp("plans") / "run")


def rows_of(board: PlanBoard, kind: str, alpha: float) -> dict[str, dict[str, Any]]:
    return {row["agent"]: row for row in board.document["rows"] if (row["tasks"], row["alpha"]) == (kind, alpha)}


def test_there_is_a_row_for_every_planner_kind_and_alpha(board: PlanBoard) -> None:
    found = [(row["agent"], row["tasks"], row["alpha"]) for row in board.document["rows"]]
    assert sorted(found) == sorted((agent, kind, alpha) for agent in AGENTS_HERE for kind in KINDS for alpha in (0.3, 0.6))
    assert {row["episodes"] for row in board.document["rows"]} == {36}
    assert board.document["suite"] == "opencatp"


def test_a_row_is_the_mean_of_its_plans(board: PlanBoard) -> None:
    lines = [json.loads(line) for line in (board.folder / "plans.jsonl").read_text().splitlines()]
    own = [line for line in lines if (line["agent"], line["tasks"], line["alpha"]) == ("hydra", "nonsequential", 0.6)]
    row = rows_of(board, "nonsequential", 0.6)["hydra"]
    assert [line["episode"] for line in own] == list(range(36))
    for figure, entry in (
        ("quality_of_plan", "quality"),
        ("average_cost", "price"),
        ("score", "score"),
        ("average_seconds", "seconds"),
    ):
        assert row[figure] == pytest.approx(sum(line[entry] for line in own) / 36, abs=1e-11)
    assert row["plan_validity"] == pytest.approx(sum(line["plan"] is not None for line in own) / 36, abs=1e-11)


def test_the_same_run_gives_the_same_bytes(board: PlanBoard, tmp_path: Path) -> None:
    again = run(plan_run(**PLAN), tmp_path / "again")
    names = sorted(path.name for path in board.folder.iterdir() if path.is_file() and not path.name.startswith("."))
    assert {"run.json", "plans.jsonl", "leaderboard.json", "index.html"} <= set(names)
    for name in ("run.json", "plans.jsonl", "leaderboard.json", "index.html"):
        assert (board.folder / name).read_bytes() == (again.folder / name).read_bytes()


def test_nobody_does_better_than_the_clairvoyant_on_any_sample(board: PlanBoard) -> None:
    for line in (board.folder / "plans.jsonl").read_text().splitlines():
        record = json.loads(line)
        assert record["quality"] <= record["best"] + 1e-12
        if record["agent"] == "oracle":
            assert record["quality"] == pytest.approx(record["best"], abs=1e-12)


def test_the_oracles_answer_everything_where_the_planning_language_demands_it(board: PlanBoard) -> None:
    env = make("costgym/OpenCATP-v0", tasks="nonsequential", split="test", alpha=0.2)
    for name in ("oracle", "oracle-informed"):
        agent = PlanAgent(make_planner(name))
        for task in (203, 211, 215):
            observation, info = env.reset(seed=0, options={"task": task, "sample": 3, "level": 3})
            agent.reset(env, observation, info, seed=0)
            over = False
            while not over:
                _, _, over, _, info = env.step(agent.act(observation, info))
            assert info["plan_valid"]


def test_the_informed_oracle_stands_between_the_clairvoyant_and_the_prompted(board: PlanBoard) -> None:
    for kind in KINDS:
        for alpha in (0.3, 0.6):
            mean = {agent: row["quality_of_plan"] for agent, row in rows_of(board, kind, alpha).items()}
            assert mean["oracle"] >= mean["oracle-informed"] >= max(mean["hydra"], mean["zero-shot"])


def test_branches_at_once_make_the_oracles_plans_faster(board: PlanBoard) -> None:
    row = rows_of(board, "nonsequential", 0.6)["oracle"]
    assert row["average_seconds"] < row["average_seconds_one_by_one"]


def test_the_page_stands_alone_and_names_every_planner(board: PlanBoard) -> None:
    page = board.page.read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    for agent in AGENTS_HERE:
        assert agent in page
    assert page.count("<svg") >= 6


def test_a_folder_of_another_run_is_refused(board: PlanBoard) -> None:
    with pytest.raises(ConfigError):
        run(plan_run(**(PLAN | {"seed": 1})), board.folder)


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"agents": ("nobody",)}, UnknownName, "agent of costgym/OpenCATP-v0"),
        ({"alphas": (1.0,)}, ConfigError, "strictly between 0 and 1"),
        ({"alphas": (0.5, 0.5)}, ConfigError, "every value once"),
        ({"split": "all"}, UnknownName, "split"),
        ({"episodes": 0}, ConfigError, "positive whole number"),
    ],
)
def test_runs_that_make_no_sense_are_refused_before_they_begin(
    settings: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        plan_run(**settings)


def test_all_planners_run_by_default() -> None:
    assert plan_run().agents == AGENTS

"""The OpenCATP leaderboard: its rows, its bytes, its page, and who is better than whom."""

import json
from pathlib import Path
from typing import Any

import pytest

from costgym.agents.opencatp.base import PlanAgent
from costgym.agents.registry import make_planner
from costgym.agents.seat import begin
from costgym.envs.base import base_env
from costgym.envs.registration import make
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.suites import SUITES
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import Leaderboard, run
from costgym.experiments.play.metric_registry import brief
from costgym.simulators.errors import ConfigError, DataError, UnknownName
from costgym.simulators.opencatp import tasks
from costgym.simulators.opencatp.scoring.evaluation import shipped_outcomes, split_samples

AGENTS_HERE = ("oracle", "oracle-informed", "hydra", "zero-shot", "fixed-all", "random")
KINDS = ("sequential", "nonsequential")
EPISODES = 16
PLAN: dict[str, Any] = {"suite": "opencatp", "agents": AGENTS_HERE, "vary": {"alpha": (0.3, 0.6)}, "episodes": EPISODES}
FILES = ("run.json", "episodes.jsonl", "leaderboard.json", "index.html")


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Leaderboard:
    try:
        shipped_outcomes()
    except DataError as missing:
        pytest.skip(str(missing))
    return run(make_run_config(**PLAN), tmp_path_factory.mktemp("plans") / "run")


def rows_of(board: Leaderboard, kind: str, alpha: float) -> dict[str, dict[str, Any]]:
    return {row["agent"]: row for row in board.document["rows"] if (row["tasks"], row["alpha"]) == (kind, alpha)}


def results_of(board: Leaderboard) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (board.folder / "episodes.jsonl").read_text().splitlines()]


def test_there_is_a_row_for_every_planner_kind_and_alpha(board: Leaderboard) -> None:
    conditions = [(row["agent"], row["tasks"], row["alpha"]) for row in board.document["rows"]]
    assert sorted(conditions) == sorted((agent, kind, alpha) for agent in AGENTS_HERE for kind in KINDS for alpha in (0.3, 0.6))
    assert {row["episodes"] for row in board.document["rows"]} == {EPISODES}
    assert board.document["suite"] == "opencatp"


def test_a_row_is_the_mean_of_its_plans(board: Leaderboard) -> None:
    wanted = ("hydra", {"tasks": "nonsequential", "alpha": 0.6})
    lines = [line for line in results_of(board) if (line["agent"], line["settings"]) == wanted]
    row = rows_of(board, "nonsequential", 0.6)["hydra"]
    assert [line["episode"] for line in lines] == list(range(EPISODES))
    for figure, entry in (
        ("quality_of_plan", "quality"),
        ("average_cost", "price"),
        ("average_seconds", "seconds"),
    ):
        assert row[figure] == pytest.approx(sum(line[entry] for line in lines) / EPISODES, abs=1e-11)
    for figure, entry in (("score", "score"), ("plan_validity", "plan_valid")):
        assert row[figure] == pytest.approx(sum(line["figures"][entry] for line in lines) / EPISODES, abs=1e-11)


@pytest.mark.slow
def test_the_same_run_gives_the_same_bytes(board: Leaderboard, tmp_path: Path) -> None:
    again = run(make_run_config(**PLAN), tmp_path / "again")
    for name in (*FILES, *(f"trajectories/plans/{file.name}" for file in (board.folder / "trajectories/plans").iterdir())):
        assert (board.folder / name).read_bytes() == (again.folder / name).read_bytes()


def test_every_plan_is_verified_by_replay(board: Leaderboard) -> None:
    verdict = verify(board.folder)
    assert verdict.verified and verdict.episodes == EPISODES * len(AGENTS_HERE) * 4


def test_nobody_does_better_than_the_clairvoyant_on_any_sample(board: Leaderboard) -> None:
    for result in results_of(board):
        assert result["regret"] >= -1e-12
        if result["agent"] == "oracle":
            assert result["regret"] == pytest.approx(0.0, abs=1e-12)


def test_the_oracles_answer_everything_where_the_planning_language_demands_it(board: Leaderboard) -> None:
    env = make("costgym/OpenCATP-v0", tasks="nonsequential", split="test", alpha=0.2)
    for name in ("oracle", "oracle-informed"):
        agent = PlanAgent(make_planner(name))
        for task in (203, 211, 215):
            observation, info = env.reset(seed=0, options={"task": task, "sample": 3, "level": 3})
            begin(agent, env, observation, info, seed=0)
            over = False
            while not over:
                _, _, over, _, info = env.step(agent.act(observation, info))
            assert info["plan_valid"]


def test_the_informed_oracle_stands_between_the_clairvoyant_and_the_prompted(board: Leaderboard) -> None:
    for kind in KINDS:
        for alpha in (0.3, 0.6):
            mean = {agent: row["quality_of_plan"] for agent, row in rows_of(board, kind, alpha).items()}
            assert mean["oracle"] >= mean["oracle-informed"] >= max(mean["hydra"], mean["zero-shot"])


def test_branches_at_once_make_the_oracles_plans_faster(board: Leaderboard) -> None:
    row = rows_of(board, "nonsequential", 0.6)["oracle"]
    assert row["average_seconds"] < row["average_seconds_one_by_one"]


def test_the_page_stands_alone_and_names_every_planner(board: Leaderboard) -> None:
    page = board.page.read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert "http:" not in page and "https:" not in page.replace('<a href="https://arxiv.org/abs/', "")
    for agent in AGENTS_HERE:
        assert agent in page
    section = page.partition('id="section-quality_of_plan"')[2].partition("</section>")[0]
    assert "Plan score by the size of the input" in section and "size level 3" in section
    level = rows_of(board, "nonsequential", 0.6)["oracle"]["by_level"][0]["quality"]
    assert f">{brief(level)}<" in section


def test_a_folder_of_another_run_is_refused(board: Leaderboard) -> None:
    with pytest.raises(ConfigError):
        run(make_run_config(**(PLAN | {"seed": 1})), board.folder)


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"agents": ("nobody",)}, UnknownName, "unknown agent"),
        ({"vary": {"alpha": (1.0,)}}, ConfigError, "strictly between 0 and 1"),
        ({"vary": {"alpha": (0.5, 0.5)}}, ConfigError, "every value once"),
        ({"split": "all"}, ConfigError, "split"),
        ({"scenario": "storm"}, ConfigError, "no such choice"),
        ({"grading": "judge"}, ConfigError, "no such choice"),
        ({"episodes": 0}, ConfigError, "greater than or equal to 1"),
    ],
)
def test_runs_that_make_no_sense_are_refused_before_they_begin(
    settings: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        make_run_config(**({"suite": "opencatp"} | settings))


def test_a_whole_run_plays_every_sample_of_the_split_with_every_task_once() -> None:
    config = make_run_config("opencatp")
    assert config.agents == SUITES["opencatp"].worlds[0].agents
    samples = len(split_samples(shipped_outcomes().samples, "test"))
    (track,) = config.tracks
    assert [condition.episodes for condition in track.conditions] == [samples * len(tasks(kind, "test")) for kind in KINDS]
    world = base_env(track.make_env(track.env, track.conditions[0]))
    played = [world.instance(index, 0) for index in range(track.conditions[0].episodes)]
    assert len({(number, options["sample"]) for number, _, options in played}) == len(played)
    assert {seed for _, seed, _ in played} == {0} and world.instance(len(played), 0) == (*played[0][:1], 1, played[0].options)


def test_an_agent_of_ones_own_plays_in_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import json\nfrom costgym.agents import Agent\n\n"
        "class Blunt(Agent):\n"
        "    name, env_id = 'blunt', 'costgym/OpenCATPChat-v0'\n"
        "    def reset(self, seat, observation, info, seed): pass\n"
        "    def act(self, observation, info): return json.dumps(['image_captioning', ['input_of_query']])\n"
    )
    agent_name = f"{file}:Blunt"
    config = make_run_config("opencatp", agents=[agent_name, "random"], episodes=8, vary={"tasks": ["sequential"]})
    rows = {row["agent"]: row for row in run(config, tmp_path / "board").document["rows"]}
    assert rows[agent_name]["plan_validity"] == 1.0 and rows[agent_name]["average_seconds"] > 0

"""Nothing forged passes for a run that was played."""

import json
import shutil
from pathlib import Path

import pytest

from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.submission import pack
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import add, run
from costgym.simulators.errors import ConfigError, DataError
from costgym.simulators.scenario import load_scenario
from tests.helpers.forgeries import FORGERIES, edited, honest_run, judge
from tests.helpers.toolbench_folders import query, write


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return honest_run(tmp_path_factory.mktemp("honest"))


def test_an_honest_run_with_a_submission_passes(board: Path) -> None:
    assert judge(board) == ""


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_named(board: Path, tmp_path: Path, name: str) -> None:
    forge, expected = FORGERIES[name]
    forged = tmp_path / "board"
    shutil.copytree(board, forged)
    forge(forged)
    assert expected in judge(forged)


def test_no_random_edit_of_any_file_passes(board: Path, tmp_path: Path) -> None:
    mine = tmp_path / "board"
    shutil.copytree(board, mine)
    assert edited(mine, 20, seed=1) == []
    assert judge(mine) == ""


def toolbench(folder: Path, success: int) -> Path:
    """A ToolBench folder of eight queries whose only tool succeeds in so many of 100 calls."""
    apis = [
        {"name": name, "description": "", "required_parameters": [], "optional_parameters": [], "method": "GET"}
        for name in ("Forecast", "Wind")
    ]
    score = {"avgLatency": 200, "avgSuccessRate": success, "popularityScore": 9.0}
    document = {"tool_name": "Sky Watch", "title": "Sky Watch", "standardized_name": "sky_watch", "score": score}
    write(folder / "test_instruction/G1_instruction.json", [query(number) for number in range(1, 9)])
    write(folder / "tools/Weather/sky_watch.json", {**document, "api_list": apis})
    return folder


def test_a_board_is_judged_in_its_own_folder_whatever_the_submitter_s_holds(tmp_path: Path) -> None:
    ours, doctored = toolbench(tmp_path / "ours", 50), toolbench(tmp_path / "doctored", 100)
    assert load_scenario("toolbench", ours).digest != load_scenario("toolbench", doctored).digest
    boards = {}
    for entry in (ours, doctored):
        config = make_run_config("toolbench", data=entry, agents=["react"], episodes=8)
        boards[entry] = run(config, tmp_path / f"board of {entry.name}").folder
    packed = pack(boards[doctored], tmp_path / "packed", "B", "b@example.org")
    with pytest.raises(ConfigError, match="different: digest"):
        add(boards[ours], packed)
    # the same submission, said to be of our world: its own folder is not asked
    text = (packed / "manifest.json").read_text()
    digests = [json.loads((boards[data] / "run.json").read_text())["tracks"][0]["digest"] for data in (doctored, ours)]
    (packed / "manifest.json").write_text(text.replace(*digests))
    with pytest.raises(DataError, match="header, digest"):
        add(boards[ours], packed)
    # an honest one, whose folder is not on this machine
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(ours, elsewhere)
    config = make_run_config("toolbench", data=elsewhere, agents=["dfsdt"], episodes=8)
    honest = pack(run(config, tmp_path / "theirs").folder, tmp_path / "honest", "C", "c@example.org")
    shutil.rmtree(elsewhere)
    assert [row["agent"] for row in add(boards[ours], honest)] == ["dfsdt (C)"]
    assert verify(boards[ours]).verified
    assert verify(honest, str(ours)).verified
    shutil.move(ours, tmp_path / "moved")
    assert verify(boards[ours], str(tmp_path / "moved")).verified


def test_an_agent_that_reads_the_world_is_not_handed_in(tmp_path: Path) -> None:
    board = run(make_run_config(agents=["greedy", "oracle"], budgets="price=20", episodes=2), tmp_path / "board").folder
    with pytest.raises(ConfigError, match="oracle reads the world"):
        pack(board, tmp_path / "x", "A", "a", agents=["oracle"])
    packed = pack(board, tmp_path / "packed", "A", "a")
    manifest = json.loads((packed / "manifest.json").read_text())
    assert {file["agent"] for file in manifest["files"]} == {"greedy"}
    named = json.dumps(manifest).replace('"greedy"', '"oracle"').replace("/greedy.price", "/oracle.price")
    (packed / "manifest.json").write_text(named)
    assert "oracle reads the world" in verify(packed).problems[0]

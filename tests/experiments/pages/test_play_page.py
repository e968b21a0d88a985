"""The page that plays in a browser: its game in Python, and the files that it is made of."""

import json
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from costgym.cli.app import app
from costgym.envs.registration import make
from costgym.experiments.pages.play_page import COMPILED, CORE, world_archive
from costgym.experiments.play.game.browser import BrowserGame
from costgym.experiments.play.trajectories.format import Header

ENV = "costgym/MarketplaceChat-v1"
MOVES = [
    {"tool": "echo_play_get_experience", "arguments": {"gamer": "NightLynx5"}},
    {"tool": "tango_care_get_doctor_on_duty", "arguments": {"clinic_id": "CL-3032", "date": "2025-08-11", "limit": ""}},
    {"wait": 2.5},
    {"answer": "1766341 and Keiko I. Keller"},
]
LINES = ["4 gamer=NightLynx5", "8 clinic_id=CL-3032 date=2025-08-11", "wait 2.5", "answer 1766341 and Keiko I. Keller"]


@pytest.fixture(scope="module")
def header() -> str:
    return Header.of(make(ENV, disable_env_checker=True, split="test"), ENV).to_json()


def test_the_pages_record_is_that_of_the_same_moves_in_the_terminal(header: str, tmp_path: Path) -> None:
    game = BrowserGame(header, 0)
    states = [json.loads(game.move(json.dumps(move))) for move in MOVES]
    result = states[-1]["result"]
    typed = CliRunner().invoke(app, ["play", "--out", str(tmp_path)], input="\n".join(LINES) + "\n")
    assert typed.exit_code == 0 and result["record"] == (tmp_path / "trajectories.jsonl").read_text()
    assert [state["left"][0]["rest"] for state in states[:2]] == [pytest.approx(10.0, abs=0.1), pytest.approx(8.0, abs=0.1)]
    assert [(row["name"], row["success"]) for row in result["scores"]] == [
        ("you", True), ("the rule greedy", True), ("the optimum", True)
    ]  # fmt: skip
    assert result["line"].endswith("Play it: costgym play --task 0") and "It passed for 12 credits" in result["why"]


@pytest.mark.parametrize(
    ("move", "problem"),
    [
        ({"tool": MOVES[0]["tool"], "arguments": {"gamer": " "}}, "gamer: expected a value, since the tool needs it."),
        ({"wait": -1}, "move: expected a tool, an answer, or above 0 and at most 86,400 seconds to wait."),
        ({"wait": float("nan")}, "move: expected a tool, an answer, or above 0 and at most 86,400 seconds to wait."),
    ],
)
def test_a_move_that_cannot_be_made_changes_nothing_and_says_why(header: str, move: dict[str, object], problem: str) -> None:
    game = BrowserGame(header, 400)  # after the last of 400 tasks the first comes again
    before = json.loads(game.state())
    assert json.loads(game.move(json.dumps(move))) == {**before, "problem": problem} and before["index"] == 0


def test_the_archive_holds_all_that_a_game_needs_but_for_what_pyodide_brings(header: str, tmp_path: Path) -> None:
    (tmp_path / "world.zip").write_bytes(world_archive())
    zipfile.ZipFile(tmp_path / "world.zip").extractall(tmp_path / "world")
    (tmp_path / "brought").mkdir()
    needed = (*COMPILED, "pydantic_core", "typing_extensions", "annotated_types", "typing_inspection")
    for name in needed:
        origin = Path(str(getattr(find_spec(name), "origin", "")))
        origin = origin.parent if origin.name == "__init__.py" else origin
        (tmp_path / "brought" / origin.name).symlink_to(origin)
    libraries = next((file for file in Path(str(find_spec("numpy").origin)).parents[1].glob("numpy.libs")), None)  # type: ignore[union-attr]
    if libraries is not None:
        (tmp_path / "brought" / "numpy.libs").symlink_to(libraries)
    script = (
        "import sys; sys.path[:0] = sys.argv[1:3]; from costgym.experiments.play.game.browser import BrowserGame\n"
        "game = BrowserGame(sys.argv[3], 0)\n"
        "for move in sys.argv[4:]: state = game.move(move)\n"
        "print(state)"
    )
    command = [sys.executable, "-S", "-I", "-c", script, str(tmp_path / "world"), str(tmp_path / "brought"), header]
    played = subprocess.run([*command, *map(json.dumps, MOVES)], capture_output=True, text=True, timeout=120)
    assert played.returncode == 0, played.stderr[-2000:]
    assert json.loads(played.stdout)["result"]["scores"][0]["success"]


def test_the_page_copies_a_release_of_pyodide_or_names_what_it_lacks(tmp_path: Path) -> None:
    release = tmp_path / "release"
    release.mkdir()
    for name in CORE:
        (release / name).write_text(name)
    packages = {name: {"file_name": f"{name}.whl", "depends": []} for name in COMPILED}
    packages["pydantic"]["depends"] = ["pydantic_core"]
    packages["pydantic-core"] = {"file_name": "core.whl", "depends": []}
    (release / "pyodide-lock.json").write_text(json.dumps({"packages": packages}))
    command = ["play", "--browser", str(tmp_path / "page"), "--pyodide", str(release)]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2 and "not of the core alone: numpy.whl is missing" in refused.stderr
    assert not list((tmp_path / "page").glob("*"))
    for name in ("numpy.whl", "pydantic.whl", "core.whl"):
        (release / name).write_text(name)
    written = CliRunner().invoke(app, [*command, "--task", "3", "--budget", "price=15"])
    assert written.exit_code == 0, written.output
    start = json.loads((tmp_path / "page" / "start.json").read_text())
    assert (start["task"], start["again"], start["pyodide"]) == (3, "costgym play --budget price=15", "./pyodide/")
    assert {file.name for file in (tmp_path / "page" / "pyodide").iterdir()} == {*CORE, "numpy.whl", "pydantic.whl", "core.whl"}
    beside = CliRunner().invoke(app, ["play", "--pyodide", str(release)])
    assert beside.exit_code == 2 and "--pyodide: expected --browser DIR too" in beside.stderr

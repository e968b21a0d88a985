"""Recorded entries that ship: shown beside a run that does not play their agents, and nowhere else."""

import contextlib
import io
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from costgym.agents import registry
from costgym.experiments.board.rows import PLAYED as PLAYED_BLOCK
from costgym.experiments.board.rows import SIMULATED, UNMETERED, blocks
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.store.runs import read_ended
from costgym.experiments.board.submissions.informed import informed_of, play_informed
from costgym.experiments.board.submissions.manifest import RECORDED, Submission, manifest_text, read_manifest
from costgym.experiments.board.submissions.submission import add_shipped, pack, shipped_entries
from costgym.experiments.board.submissions.validation import validate
from costgym.experiments.board.suites import SUITES
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import run
from tests.helpers.command_line import invoke

SMALL: dict[str, Any] = {"budgets": "price=10,20", "episodes": 4}
PLAYED = {"zoo:catp", "zoo:deer", "zoo:lagrangian", "zoo:ppo", "zoo:sessions-v0"}


def manifest_of(entry: Path) -> Submission:
    manifest, problems = read_manifest(entry)
    assert manifest is not None and not problems
    return manifest


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one recorded entry, of `cheapest`."""
    folder = tmp_path_factory.mktemp("entries")
    board = run(make_run_config("quick", agents=["cheapest"], **SMALL), folder / "board").folder
    (folder / "recorded").mkdir()
    pack(board, folder / "recorded" / "replayed", "replayed", "costgym", description="Recorded.")
    return folder / "recorded"


def test_an_entry_is_replayed_beside_a_run_that_does_not_play_its_agents(entries: Path, tmp_path: Path) -> None:
    config = make_run_config("quick", agents=["greedy"], **SMALL)
    board = run(config, tmp_path / "board").folder
    assert add_shipped(board, folder=entries) == ["cheapest (replayed)"] * 2
    rows = [row for row in read_ended(board)["rows"] if "submission" in row]
    assert [row["verified"] for row in rows] == ["replayed"] * 2


def test_an_entry_that_replay_refuses_is_left_out_with_a_warning(entries: Path, tmp_path: Path) -> None:
    shutil.copytree(entries, tmp_path / "entries")
    path = next((tmp_path / "entries").rglob("*.jsonl"))
    path.write_text(path.read_text().replace('"agent":"cheapest"', '"agent":"dearest"', 1))
    config = make_run_config("quick", agents=["greedy"], **SMALL)
    board = run(config, tmp_path / "board").folder
    with pytest.warns(UserWarning, match="'replayed' is not shown"):
        assert add_shipped(board, folder=tmp_path / "entries") == []
    assert not [row for row in read_ended(board)["rows"] if "submission" in row]


def test_an_agent_that_is_played_is_not_shown_twice(entries: Path) -> None:
    config = make_run_config("quick", agents=["greedy", "cheapest"], **SMALL)
    assert shipped_entries(config, entries) == []


def test_an_agent_with_a_real_model_is_another_than_with_the_runs(entries: Path, tmp_path: Path) -> None:
    shutil.copytree(entries, tmp_path / "entries")
    path = next((tmp_path / "entries").rglob("manifest.json"))
    path.write_text(path.read_text().replace('"model": "simulated"', '"model": "local:small"', 1))
    config = make_run_config("quick", agents=["greedy", "cheapest"], **SMALL)
    assert [entry.name for entry in shipped_entries(config, tmp_path / "entries")] == ["replayed"]
    with_it = config.model_copy(update={"model": "local:small"})
    assert shipped_entries(with_it, tmp_path / "entries") == []


@pytest.mark.parametrize("other", [{"seed": 1}, {"episodes": 5}, {"budgets": "price=11"}])
def test_a_run_under_other_conditions_has_no_recorded_rows(entries: Path, other: dict[str, Any]) -> None:
    assert shipped_entries(make_run_config("quick", agents=["greedy"], **{**SMALL, **other}), entries) == []


def test_the_zoo_is_played_only_if_asked_for() -> None:
    pytest.importorskip("torch", reason="the train extra is not installed")
    config = make_run_config("quick", play_zoo=True)
    assert {name for name in config.agents if name.startswith("zoo:")} == PLAYED
    assert set(config.weights) == PLAYED
    assert [entry.name for entry in shipped_entries(make_run_config("quick", play_zoo=True, world=0))] == ["recorded"]
    assert "replayed 1" not in [entry.name for entry in shipped_entries(config)]


def test_rows_of_real_models_that_ship_lead_the_small_suite(tmp_path: Path) -> None:
    config = make_run_config("small", agents=["react", "toolplanner"])
    entries = shipped_entries(config)
    assert [entry.name for entry in entries] == [
        *("Qwen2.5-Coder-0.5B", "Qwen2.5-Coder-0.5B strategies", "Qwen2.5-Coder-1.5B", "Qwen2.5-Coder-1.5B strategies"),
        *("SmolLM2", "SmolLM2 GRPO", "SmolLM2 SFT", "SmolLM2 strategies"),
    ]
    assert {manifest_of(entry).run.model.partition(":")[0] for entry in entries} == {"local"}
    writing = shipped_entries(make_run_config("small-writes", agents=["react"]))
    assert [entry.name for entry in writing] == ["Qwen2.5-Coder-0.5B writes", "Qwen2.5-Coder-1.5B writes", "SmolLM2 writes"]
    assert not [entry for entry in entries if entry in shipped_entries(make_run_config("small", episodes=10))]
    board = run(config, tmp_path / "board").folder
    other = Path(shutil.copytree(board, tmp_path / "other"))
    shutil.copytree(RECORDED / "SmolLM2 GRPO", tmp_path / "entries" / "SmolLM2 GRPO")
    assert add_shipped(board, folder=tmp_path / "entries") == ["react (SmolLM2 GRPO)"]
    assert [name for name, _ in blocks(read_ended(board)["rows"])] == [PLAYED_BLOCK, SIMULATED]
    assert verify(board).verified
    # another's record of the same episodes: who counted its tokens?
    path = tmp_path / "entries" / "SmolLM2 GRPO" / "manifest.json"
    manifest = manifest_of(path.parent).model_copy(update={"contact": "another"})
    path.write_text(manifest_text(manifest))
    assert add_shipped(other, folder=tmp_path / "entries") == ["react (SmolLM2 GRPO)"]
    assert [name for name, _ in blocks(read_ended(other)["rows"])] == [SIMULATED, UNMETERED]


def test_the_default_leaderboard_shows_recorded_rows_whatever_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_run_config("quick")
    monkeypatch.setattr(registry, "find_spec", lambda module: None)
    assert make_run_config("quick") == config
    assert not any(name.startswith("zoo:") for name in config.agents)
    assert "replayed 1" in [entry.name for entry in shipped_entries(config)]
    assert [entry.name for entry in shipped_entries(make_run_config("quick", world=0))] == ["recorded", "replayed"]


WITHOUT_EXTRAS = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {extras}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
CONFIG = """
from costgym.experiments.board.submissions.informed import informed_of, play_informed
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.suites import SUITES
from costgym.experiments.board.submissions.submission import shipped_entries
for suite in {suites}:
    config = make_run_config(suite)
    print(config.to_json(), [entry.name for entry in shipped_entries(config)])
"""
COMMAND = """
from costgym.cli.app import main
sys.argv[0] = "costgym"
main()
"""


def without_extras(code: str, *arguments: str) -> str:
    """Run Python code in a process that can import no package of any extra; return what it prints."""
    about = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {re.split(r"[\[<>=;]", name)[0].strip() for extra in about.values() for name in extra}
    extras = sorted(({name.replace("-", "_") for name in named} | {"sklearn"}) - {"costgym", "numpy"})
    line = [sys.executable, "-c", WITHOUT_EXTRAS.format(extras=extras) + code, *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_a_suite_plays_and_shows_does_not_depend_on_the_extras_that_are_installed() -> None:
    suites = [name for name in SUITES if name != "toolbench"]  # which reads a folder of its own
    here = io.StringIO()
    with contextlib.redirect_stdout(here):
        exec(CONFIG.format(suites=suites), {})
    assert without_extras(CONFIG.format(suites=suites)) == here.getvalue()


@pytest.mark.slow
def test_a_board_is_the_same_whatever_extras_are_installed(tmp_path: Path) -> None:
    """`make leaderboard; make test; make leaderboard`: the first has no extras, the last has all that the tests need."""
    line = ["leaderboard", "--suite", "quick", "--episodes", "4", "--out", str(tmp_path / "board"), "--jobs", "2"]
    without_extras(COMMAND, *line)
    before = {path.name: path.read_bytes() for path in (tmp_path / "board").iterdir() if path.is_file()}
    second = invoke(*line)
    assert second.exit_code == 0, second.output
    assert {path.name: path.read_bytes() for path in (tmp_path / "board").iterdir() if path.is_file()} == before


@pytest.mark.slow
def test_what_ships_is_what_replay_finds() -> None:
    for entry in sorted(RECORDED.iterdir()):
        verdict = validate(entry)
        assert verdict.problems == () and verdict.verified


def test_a_run_that_played_the_informed_policy_spares_playing_it_again(tmp_path: Path) -> None:
    config = make_run_config("quick", agents=["oracle-informed"], **SMALL)
    known = informed_of(config, run(config, tmp_path / "board").results)
    spared = 0
    for track in make_run_config("quick", agents=["oracle-informed", "react"], **SMALL).tracks:
        for condition in track.conditions:
            played = play_informed(track, condition, config.seed)
            informed = play_informed(track, condition, config.seed, known=known)
            assert {index: result.to_json() for index, result in informed.items()} == {
                index: result.to_json() for index, result in played.items()
            }
            spared += any(informed is episodes for episodes in known.values())
    assert spared == 4  # two budgets of numbers and two of text, whose agents meet the same tasks

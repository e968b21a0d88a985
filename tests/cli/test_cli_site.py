"""Stores and sites on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from costgym.simulators.files import sole_writer
from tests.helpers.command_line import costgym, invoke

pytest.importorskip("sqlalchemy", reason="no SQLAlchemy here: install costgym[store]")
SMALL = ("--episodes", "3", "--agents", "greedy,react", "--budgets", "price=10,20", "--quiet", "--jobs", "1")


@pytest.mark.slow
def test_a_leaderboard_goes_into_a_store_and_a_site_comes_out(tmp_path: Path) -> None:
    store = tmp_path / "results.db"
    costgym("leaderboard", *SMALL, "--out", tmp_path / "run", "--store", f"sqlite:///{store}")
    shown = costgym("site", "--store", store, "--out", tmp_path / "site", "--verify")
    assert f"site: {tmp_path / 'site' / 'index.html'}" in shown.stdout
    pages = [(tmp_path / "site" / name).read_text(encoding="utf-8") for name in ("index.html", "text.html")]
    assert [page.count(", replayed</small>") for page in pages] == [2, 2]
    about = (tmp_path / "site" / "data" / "run.js").read_text()
    assert [entry["detailed"] for entry in json.loads(about.split(",", 1)[1].rstrip()[:-2])["entries"]] == [3] * 4
    costgym("site", "--store", store, "--out", tmp_path / "again", "--quiet")
    assert (tmp_path / "again" / "index.html").read_bytes() == (tmp_path / "site" / "index.html").read_bytes()


def test_a_run_that_differs_from_replay_is_not_published_as_verified(tmp_path: Path) -> None:
    invoke("leaderboard", *SMALL, "--out", tmp_path / "run")
    path = tmp_path / "run" / "episodes.jsonl"
    path.write_text(path.read_text().replace(',"price":', ',"price":1', 1))
    shown = invoke("site", "--run", tmp_path / "run", "--out", tmp_path / "site", "--verify", "--quiet")
    assert shown.exit_code == 2 and "differs from replay, so no site was built" in shown.stderr
    assert not (tmp_path / "site").exists()


def test_a_row_that_nobody_played_is_not_published_as_verified(tmp_path: Path) -> None:
    invoke("leaderboard", *SMALL, "--out", tmp_path / "run")
    path = tmp_path / "run" / "leaderboard.json"
    document = json.loads(path.read_text())
    document["rows"].insert(0, {**document["rows"][0], "agent": "gpt-9", "pass_rate": 1.0, "verified": "replayed"})
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    shown = invoke("site", "--run", tmp_path / "run", "--out", tmp_path / "site", "--verify", "--quiet")
    assert shown.exit_code == 2 and "gpt-9" in shown.stderr and not (tmp_path / "site").exists()


def test_a_board_that_is_being_written_is_neither_verified_nor_published(tmp_path: Path) -> None:
    invoke("leaderboard", *SMALL, "--out", tmp_path / "run")
    pack = ("submit", "pack", tmp_path / "run", "--out", tmp_path / "mine", "--name", "x", "--contact", "y")
    site = ("site", "--run", tmp_path / "run", "--out", tmp_path / "site", "--quiet")
    with sole_writer(tmp_path / "run"):
        for line in (("verify", tmp_path / "run"), site, pack):
            done = invoke(*line)
            assert done.exit_code == 2 and "another process writes to" in done.stderr
    assert invoke(*site).exit_code == invoke("verify", tmp_path / "run").exit_code == invoke(*pack).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "expected a store or a run"),
        (("--store", "nowhere.db"), "there is no nowhere.db"),
        (("--store", "oracle://host/db"), "expected sqlite or postgresql"),
        (("--run", "."), "holds no run"),
    ],
)
def test_what_makes_no_site_says_so_in_a_line(tmp_path: Path, arguments: tuple[str, ...], problem: str) -> None:
    done = invoke("site", *arguments, "--out", tmp_path / "site")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ") and problem in done.stderr and len(done.stderr.splitlines()) == 1

"""What a run has in each of its tracks: agents, and settings of their environments."""

import json
from pathlib import Path

import pytest

from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import merge, run
from costgym.simulators.errors import ConfigError, UnknownName
from costgym.simulators.scenario import parse_scenario


def test_a_real_model_leaves_out_the_agents_that_only_the_simulated_one_can_be_behind() -> None:
    simulated = make_run_config("quick").track("decisions").agents
    real = make_run_config("quick", model="openai:gpt-4o-mini-2024-07-18").track("decisions").agents
    assert [name for name in simulated if name not in real] == ["deer"]


def test_a_board_of_short_documents_says_so_and_verifies(tmp_path: Path) -> None:
    full, short = (
        run(make_run_config(agents=["react", "greedy"], budgets="price=20", episodes=3, documents=chosen), tmp_path / name)
        for name, chosen in (("full", None), ("short", "short"))
    )
    tokens = [[row["average_tokens"] for row in board.document["rows"]] for board in (full, short)]
    values = [track.get("documents") for track in short.document["tracks"]]
    assert values == [None, "short"] and "documents" not in json.dumps(full.document)
    assert tokens[1][1] < tokens[0][1] and tokens[1][0] == tokens[0][0] == 0  # react reads them, greedy does not
    assert "Tools’ documents" in (tmp_path / "short" / "index.html").read_text(encoding="utf-8")
    assert not verify(tmp_path / "short").problems


def test_documents_are_of_the_text_view_and_full_or_short() -> None:
    with pytest.raises(ConfigError, match="--documents: the suite opencatp"):
        make_run_config("opencatp", documents="short")
    with pytest.raises(UnknownName, match="known: full, short"):
        make_run_config(agents=["react"], documents="tiny")


def test_a_suite_is_played_in_the_version_of_the_world_that_is_asked_for() -> None:
    old, new = (make_run_config("quick", world=world) for world in (0, None))
    assert {track.name: track.world.version for track in old.tracks} == dict.fromkeys((track.name for track in new.tracks), 0)
    assert {track.name: track.world.version for track in new.tracks if track.world.version} == dict.fromkeys(
        ("numbers", "writes", "plans", "text"), 1
    )
    assert new.track("text").env == "costgym/MarketplaceChat-v1" and new.track("numbers").env == "costgym/Marketplace-v0"
    assert {track.world.version for suite in ("small", "small-writes") for track in make_run_config(suite).tracks} == {0}
    stated = parse_scenario({"name": "mine", "source": {"kind": "marketplace", "world": 0}})
    assert make_run_config("quick", agents=["react"], scenario=stated).tracks[0].world.version == 0
    with pytest.raises(ConfigError, match="scenario mine: expected version 1 of the world, got 0"):
        make_run_config("quick", agents=["react"], scenario=stated, world=1)


def test_boards_of_two_versions_are_not_merged(tmp_path: Path) -> None:
    chosen = {"agents": ["greedy", "react"], "budgets": "price=20", "episodes": 2}
    for world in (0, 1):
        assert not verify(run(make_run_config("quick", world=world, **chosen), tmp_path / str(world)).folder).problems
    with pytest.raises(ConfigError, match="in track 'numbers', got different scenario world, scenario digest in"):
        merge([tmp_path / "0", tmp_path / "1"], tmp_path / "both")

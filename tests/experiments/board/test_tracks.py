"""What a run has in each of its tracks: agents, and settings of their environments."""

import json
from pathlib import Path

import pytest

from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.submission import pack, validate
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
    named = [track.name for track in new.tracks]
    assert {track.name: track.world.version for track in old.tracks} == dict.fromkeys(set(named) - {"one-world"}, 0)
    assert [track.name for track in new.tracks if track.world.version] == ["numbers", "writes", "plans", "one-world", "text"]
    assert new.track("text").env == "costgym/MarketplaceChat-v1" and new.track("numbers").env == "costgym/Marketplace-v0"
    assert {track.world.version for suite in ("small", "small-writes") for track in make_run_config(suite).tracks} == {0}
    stated = parse_scenario({"name": "mine", "source": {"kind": "marketplace", "world": 0}})
    assert make_run_config("quick", agents=["react"], scenario=stated).tracks[0].world.version == 0
    with pytest.raises(ConfigError, match="scenario mine: expected version 1 of the world, got 0"):
        make_run_config("quick", agents=["react"], scenario=stated, world=1)
    with pytest.raises(
        ConfigError, match="--world: the suite one-world plays in costgym/MarketplaceChat-v0, which has no such"
    ):
        make_run_config("one-world", world=0)


def test_the_one_world_is_a_track_of_its_own_with_past_uses_and_prices_of_its_own(tmp_path: Path) -> None:
    config = make_run_config("quick", episodes=3)
    agents = {"text": ("react", "react+btp"), "one-world": ("react", "react+btp", "catp-plan+deer")}
    tracks = [
        track.model_copy(update={"agents": agents[track.name], "conditions": track.conditions[:1]})
        for track in config.tracks
        if track.name in agents
    ]
    board = run(config.model_copy(update={"tracks": tuple(tracks)}), tmp_path / "board")
    rows = board.document["rows"]
    assert {track: {row["agent"] for row in rows if row["track"] == track} for track in agents} == {
        track: set(names) for track, names in agents.items()
    }
    assert {track["name"]: track["experience"]["tools"] for track in board.document["tracks"]} == {
        "one-world": 1432 + 10,
        "text": 1432,
    }
    assert all(row["token_cost"] > 0 for row in rows if row["agent"] == "react")
    assert (board.folder / "one-world.html").is_file() and verify(board.folder).verified
    packed = validate(pack(board.folder, tmp_path / "mine", "A", "a@example.org", ["react"]))
    assert packed.verified and {row["track"] for row in packed.rows} == set(agents)
    assert [track.name for track in make_run_config("one-world", episodes=3).tracks] == ["numbers", "one-world"]


def test_boards_of_two_versions_are_not_merged(tmp_path: Path) -> None:
    chosen = {"agents": ["greedy", "react"], "budgets": "price=20", "episodes": 2}
    for world in (0, 1):
        assert not verify(run(make_run_config("quick", world=world, **chosen), tmp_path / str(world)).folder).problems
    with pytest.raises(ConfigError, match="in track 'numbers', got different scenario world, scenario digest in"):
        merge([tmp_path / "0", tmp_path / "1"], tmp_path / "both")

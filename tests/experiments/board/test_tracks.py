"""What a run has in each of its tracks: agents, and settings of their environments."""

import json
from pathlib import Path

import pytest

from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import run
from costgym.simulators.errors import ConfigError, UnknownName


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

"""Who pays twice: a track of its own in the default board, though its view is that of the track `numbers`."""

from pathlib import Path

import pytest

from costgym.agents.base import NUMERIC, TEXT
from costgym.experiments.board.run_config import RunConfig, make_run_config
from costgym.experiments.board.submissions.submission import pack, validate
from costgym.experiments.board.tracks import track_of
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import Leaderboard, run
from costgym.experiments.pages.sections import sections_of
from costgym.experiments.play.metric_registry import brief

AGENTS = ("retry", "check-then-retry", "idempotent", "oracle")


@pytest.fixture(scope="module")
def config() -> RunConfig:
    whole = make_run_config("quick", episodes=12)
    of = {"numbers": ("greedy", "retry"), "writes": AGENTS}
    tracks = [track.model_copy(update={"agents": of[track.name]}) for track in whole.tracks if track.name in of]
    assert [track.name for track in whole.tracks] == [
        "numbers",
        "writes",
        "plans",
        "decisions",
        "sessions",
        "one-world",
        "text",
    ]
    return whole.model_copy(update={"tracks": tuple(tracks), "experience": None})


@pytest.fixture(scope="module")
def board(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Leaderboard:
    return run(config, tmp_path_factory.mktemp("board") / "run")


def test_two_tracks_of_one_view_keep_their_rows_apart(config: RunConfig, board: Leaderboard) -> None:
    numbers, writes = config.track("numbers"), config.track("writes")
    assert numbers.env == writes.env == NUMERIC and numbers.digest != writes.digest
    rows = {(row["track"], row["agent"]) for row in board.document["rows"]}
    assert rows == {("numbers", "greedy"), ("numbers", "retry"), *(("writes", agent) for agent in AGENTS)}
    assert all(("money_lost" in row) == (row["track"] == "writes") for row in board.document["rows"])
    assert len(board.results) == 2 * 3 * 12 + 4 * 12
    named = {"scenario": "marketplace-writes"}
    assert [track_of(NUMERIC), track_of(NUMERIC, named), track_of(TEXT, named)] == ["numbers", "writes", "text"]
    assert track_of(NUMERIC, {"scenario": ["marketplace-writes"]}) == "numbers"  # settings may be somebody else's


def test_the_track_continues_verifies_and_can_be_handed_in(config: RunConfig, board: Leaderboard, tmp_path: Path) -> None:
    before = (board.folder / "leaderboard.json").read_bytes()
    assert run(config, board.folder).document == board.document
    assert (board.folder / "leaderboard.json").read_bytes() == before and verify(board.folder).verified
    packed = pack(board.folder, tmp_path / "mine", "A", "a@example.org", ["retry"])
    verdict = validate(packed)
    assert verdict.verified and {row["track"] for row in verdict.rows} == {"numbers", "writes"}


def test_the_section_states_what_the_rows_say(board: Leaderboard) -> None:
    page = (board.folder / "writes.html").read_text()
    section = page.partition('id="section-money_lost"')[2].partition("</section>")[0]
    assert "Who pays twice?" in page and "Money lost by double execution" in section
    rows = {row["agent"]: row for row in board.document["rows"] if row["track"] == "writes"}
    assert rows["retry"]["money_lost"] > 0 == rows["idempotent"]["money_lost"] == rows["oracle"]["money_lost"]
    for agent, row in rows.items():
        line = section.partition(f'<th scope="row">{agent}</th>')[2].partition("</tr>")[0]
        assert f">{brief(row['money_lost'])}<" in line and f">{brief(row['pass_rate_under_budget'], 'rate')}<" in line
    numbers = {**board.document, "rows": [row for row in board.document["rows"] if row["track"] == "numbers"]}
    assert not any("money_lost" in section for section in sections_of(numbers))

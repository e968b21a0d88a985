"""Any recorded episode can be looked at: who did what, side by side with what, at what price."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import costgym
from costgym.agents.registry import make_agent
from costgym.cli.play.show import show as show_command
from costgym.cli.setting_options import with_options
from costgym.envs.actions import spoken
from costgym.envs.registration import make
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.submission import pack
from costgym.experiments.leaderboard import run
from costgym.experiments.pages.episode_report import report_recorded
from costgym.experiments.play.collect import collect

show = with_options(show_command)

ENVS = {"cheapest": "costgym/Marketplace-v0", "react": "costgym/MarketplaceChat-v0", "deer": "costgym/DecisionAware-v0"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of each view."""
    folder = tmp_path_factory.mktemp("collections")
    for agent, env_id in ENVS.items():
        player = make_agent(agent)
        assert player.env_id == env_id
        settings: dict[str, Any] = {} if agent == "deer" else {"split": "test", "max_steps": 100}
        collect(make(env_id, disable_env_checker=True, **settings), player, 3, folder / agent, seed=2)
    return folder


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board") / "run"
    plan = make_run_config("quick", None, None, ["cheapest", "react"], "price=10,20", 2, "test", "strict", 3, "simulated")
    run(plan, folder, 1)
    return folder


@pytest.mark.parametrize("agent", ENVS)
def test_an_episode_of_every_view_is_told(folder: Path, agent: str) -> None:
    path = folder / agent / "trajectories.jsonl"
    text = report_recorded(path).text
    recorded = json.loads(path.read_text().splitlines()[1])
    assert f"line 2: episode 0 of {agent}" in text
    assert f"Task {recorded['task']}" in text and "does not replay" not in text
    for tool, status, *_ in recorded["calls"]:
        assert tool[:30] in text and status in text
    for heading in ("Ledger", "Grade at", "Calls", "Messages" if agent == "react" else "Actions"):
        assert heading in text
    assert max(map(len, text.splitlines()[1:])) <= 140


def test_a_text_episode_shows_what_was_said_and_seen(folder: Path) -> None:
    path = folder / "react" / "trajectories.jsonl"
    text = " ".join(report_recorded(path).text.split())
    actions = json.loads(path.read_text().splitlines()[1])["actions"]
    assert all(" ".join(spoken(action).split())[:80] in text for action in actions)
    assert max(map(len, report_recorded(path).text.splitlines()[1:])) <= 80  # the first has the path
    assert "user: " in text and "agent: " in text


def test_calls_side_by_side_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "two.jsonl"
    from costgym.agents import Agent
    from costgym.experiments.play.trajectories.format import Header
    from costgym.experiments.play.trajectories.record import record

    class Two(Agent):
        """Starts two calls at once, waits for both and finishes."""

        name, model, env_id = "two", "none", "costgym/Marketplace-v0"

        def reset(self, seat: Any, observation: Any, info: Any, seed: int) -> None:
            self._left = [0, 1, "wait", "wait", "finish"]
            self._last = seat.action_space.n - 1

        def act(self, observation: Any, info: Any) -> int:
            move = self._left.pop(0)
            mask = np.flatnonzero(info["action_mask"])
            last = self._last
            return int({"wait": last - 1, "finish": last}.get(move, mask[move] if isinstance(move, int) else 0))

        def observe(self, *args: Any) -> None:
            pass

    env = make("costgym/Marketplace-v0", scenario="marketplace-reliable", concurrent=True, disable_env_checker=True)
    recorded, episode = record(env, Two(), None, 1)  # type: ignore[arg-type]
    header = Header.of(env, "costgym/Marketplace-v0")
    path.write_text(header.to_json() + "\n" + recorded.sealed_json(header) + "\n")
    rows = [line for line in report_recorded(path).text.splitlines() if line.startswith(("    1 ", "    2 "))]
    assert [call.submitted_s for call in episode.calls] == [0.0, 0.0]
    assert [row.split()[-1] for row in rows] == ["2", "1"]


def test_episodes_of_a_leaderboard_and_a_submission_go_by_agent_budget_and_index(board: Path, tmp_path: Path) -> None:
    assert "episode 0 of cheapest" in report_recorded(board, "cheapest/0").text
    text = report_recorded(board, "react.price=20/1").text
    assert "episode 1 of react" in text and "budget: price 20" in text
    task = json.loads((board / "trajectories" / "text" / "react.price=10.jsonl").read_text().splitlines()[1])["task"]
    assert f"Task {task}" in report_recorded(board, f"react/{task}").text
    pack(board, tmp_path / "submission", "ours", "me@example.org")
    assert report_recorded(tmp_path / "submission", "react.price=20/1").text.splitlines()[2:] == text.splitlines()[2:]


@pytest.mark.parametrize(
    ("key", "known"),
    [
        ("react/99", "0 to 1, or a task's id$"),
        ("99", "0 to 1, or a task's id$"),
        ("nobody/0", "cheapest.price=10, "),
        ("react.price=15/0", "cheapest.price=10, "),
        ("test-99999", "test-00000$"),
    ],
)
def test_an_unknown_episode_is_named_with_those_there_are(board: Path, key: str, known: str) -> None:
    with pytest.raises(costgym.UnknownName, match=f"known: {known}"):
        report_recorded(board, key)


def test_a_record_that_was_edited_is_shown_with_a_warning(folder: Path, tmp_path: Path) -> None:
    header, first, *_ = (folder / "cheapest" / "trajectories.jsonl").read_text().splitlines()
    edited = json.loads(first)
    edited["rewards"][0] += 1.0
    path = tmp_path / "edited.jsonl"
    path.write_text(header + "\n" + json.dumps(edited) + "\n")
    assert "does not replay as it stands" in report_recorded(path).text
    edited["actions"] = ["nonsense"]
    path.write_text(header + "\n" + json.dumps(edited) + "\n")
    with pytest.raises(costgym.DataError, match="cannot be replayed"):
        report_recorded(path)


def test_a_plan_of_the_opencatp_leaderboard_is_shown_as_it_would_run(tmp_path: Path) -> None:
    run(make_run_config("opencatp", agents=["few-shot", "oracle"], episodes=3), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()]
    settings = {"alpha": 0.5, "tasks": "nonsequential"}
    record = next(line for line in lines if (line["agent"], line["settings"], line["episode"]) == ("oracle", settings, 1))
    shown = report_recorded(tmp_path / "run", "oracle/nonsequential/1")
    assert f"Task {record['task']}" in shown.text
    assert f"Quality of Plan {record['quality']:.3f}" in shown.text
    ends = [bar.end_s for row in shown.chart.rows for bar in row.bars]
    assert max(ends) == pytest.approx(record["seconds"])
    assert sum(float(bar.label) for row in shown.chart.rows for bar in row.bars) == pytest.approx(record["price"], rel=0.01)
    assert shown.png().shape[1:] == (1200, 3) and shown.svg().startswith("<svg ")
    with pytest.raises(costgym.UnknownName):
        report_recorded(tmp_path / "run", "oracle/99")


@pytest.mark.parametrize("format", ["png", "svg", "html", "text"])
def test_the_command_writes_pictures(folder: Path, tmp_path: Path, format: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / f"episode.{format}"
    show(what=[str(folder / "react")], episode="1", format=format, out=out)
    assert capsys.readouterr().out == (out.read_text() if format == "text" else f"{out}\n")
    if format == "png":
        with Image.open(out) as image:
            assert image.size[0] == 1200
    else:
        begins = {"svg": "<svg ", "html": "<!doctype html>", "text": str(folder)}
        assert out.read_text().startswith(begins[format])


def test_a_played_episode_is_told_too(capsys: pytest.CaptureFixture[str]) -> None:
    show(what=["cheapest"], task=1)
    assert "Task test-00001" in capsys.readouterr().out
    with pytest.raises(costgym.ConfigError, match="expected the path of a recording"):
        show(episode="3")
    with pytest.raises(costgym.UnknownName, match="unknown format"):
        show(format="bmp")


def test_nothing_recorded_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(costgym.DataError, match="holds no trajectory file"):
        report_recorded(tmp_path)
    with pytest.raises(costgym.DataError):
        report_recorded(tmp_path / "none.jsonl")

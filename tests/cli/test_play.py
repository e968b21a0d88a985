"""A person plays an episode in the terminal: what is typed is asked for again, recorded, replayed and explained."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from costgym.cli.app import app

RIGHT = ["4 gamer=NightLynx5", "8", "CL-3032", "2025-08-11", "answer 1766341 and Keiko I. Keller"]


def play(folder: Path, *lines: str, options: tuple[str, ...] = (), end: str = "\n") -> Result:
    """Type lines; nothing comes after them."""
    text = "".join(f"{line}{end}" for line in lines)
    return CliRunner().invoke(app, ["play", "--out", str(folder), *options], input=text, env={"NO_COLOR": "1", "COLUMNS": "80"})


def recorded(folder: Path) -> list[dict]:  # type: ignore[type-arg]
    return [json.loads(line) for line in (folder / "trajectories.jsonl").read_text().splitlines()[1:]]


def test_an_episode_that_a_person_played_is_recorded_verified_and_shown(tmp_path: Path) -> None:
    result = play(tmp_path / "mine", *RIGHT)
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "Left: 20 of 20 credits." in said and "Left: 7.92 of 20 credits." in said
    assert "100% of the facts, strict: pass" in said
    assert "It passed for 12 credits in calls where 10 would do: call 1 of echo_play_get_experience took 10" in said
    assert "\x1b" not in result.output
    assert max(len(line) for line in result.stdout.splitlines() if str(tmp_path) not in line) <= 80
    (episode,) = recorded(tmp_path / "mine")
    assert (episode["agent"], episode["episode"], episode["final"]["strict"]) == ("human", 0, True)
    assert [call[:2] for call in episode["calls"]] == [
        ["echo_play_get_experience", "ok"],
        ["tango_care_get_doctor_on_duty", "ok"],
    ]
    for command in (["verify", str(tmp_path / "mine")], ["show", str(tmp_path / "mine"), "--episode", "0"]):
        shown = CliRunner().invoke(app, command)
        assert shown.exit_code == 0, shown.output
    assert "episode 0 of human" in shown.stdout and "Why: It passed" in shown.stdout


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("99", "There is no tool or command '99'; tools are numbered 1 to 16"),
        ("nonsense", "There is no tool or command 'nonsense'"),
        ("", "Type a command, or `help`."),
        ("wait soon", "Expected seconds above 0 and at most 86,400 after `wait`, got 'soon'."),
        ("wait nan", "Expected seconds above 0"),
        ("answer", "Expected words after `answer`"),
        ("4 gamer='Night", "A quotation mark is open"),
        ("4 city=Oslo", "Expected NAME=VALUE with one of gamer"),
        ("3 game_id=gm-1 verbose=maybe", "verbose: expected true or false, got"),
        ("about 17", "There is no tool or command '17'"),
        ("x" * 9_000, "Expected at most 8,000 whole characters"),
    ],
)
def test_a_line_that_cannot_be_read_gets_a_sentence_and_is_asked_for_again(tmp_path: Path, line: str, sentence: str) -> None:
    result = play(tmp_path, line, *RIGHT)
    assert result.exit_code == 0 and sentence in " ".join(result.stdout.split())
    assert recorded(tmp_path)[0]["final"]["strict"] and len(recorded(tmp_path)[0]["actions"]) == 3


@pytest.mark.parametrize("lines", [(), ("4 gamer=NightLynx5",), ("8",), ("8", "CL-3032")])
def test_the_end_of_the_input_ends_the_episode_and_loses_nothing(tmp_path: Path, lines: tuple[str, ...]) -> None:
    result = play(tmp_path, *lines)
    assert result.exit_code == 0 and "It failed because it gave up: no tool was called for" in " ".join(result.stdout.split())
    (episode,) = recorded(tmp_path)
    assert json.loads(episode["actions"][-1])["arguments"] == {"answer": "", "give_up": True}
    assert len(episode["calls"]) == (1 if lines and lines[0].startswith("4") else 0)


def test_bytes_that_are_no_text_are_asked_for_again(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["play", "--out", str(tmp_path)], input=b"answer \xff\xfe\ngive up\n")
    assert result.exit_code == 0 and len(recorded(tmp_path)[0]["actions"]) == 1


def test_the_folder_goes_on_with_the_next_task_and_holds_one_world(tmp_path: Path) -> None:
    play(tmp_path, "give up")
    play(tmp_path, "give up")
    play(tmp_path, "give up", options=("--task", "7"))
    assert [(each["episode"], each["task"]) for each in recorded(tmp_path)] == [
        (0, "test-00000"), (1, "test-00001"), (2, "test-00007")
    ]  # fmt: skip
    for options in (("--budget", "price=5"), ("--env", "MarketplaceChat-v0")):
        other = play(tmp_path, "give up", options=options)
        assert other.exit_code == 2 and "holds a collection with another scenario or other settings" in other.stderr
    beyond = play(tmp_path, "give up", options=("--task", "9999"))
    assert "a person can play, got costgym/OpenCATP-v1" in play(tmp_path, options=("--env", "OpenCATP-v1")).stderr
    assert beyond.exit_code == 2 and "--task: expected a number from 0 to 399, got 9999" in beyond.stderr
    assert len(recorded(tmp_path)) == 3


def test_more_tools_can_be_searched_for_where_the_world_has_a_retriever(tmp_path: Path) -> None:
    result = play(tmp_path, "search weather", "about 6", "tools", "wait 2", options=("--scenario", "marketplace-retrieved"))
    assert result.exit_code == 0 and '{"waited_s": 2.0}' not in result.stderr
    assert " 10 " in result.stdout and len(recorded(tmp_path)[0]["actions"]) == 3

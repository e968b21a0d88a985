"""A person plays an episode in the terminal: what is typed is asked for again, recorded, replayed and explained."""

import fcntl
import io
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from costgym.cli.app import app
from costgym.cli.play.full_screen import FullScreen
from costgym.envs.base import base_env
from costgym.envs.registration import make
from costgym.experiments.play.game.human import Human
from costgym.experiments.play.trajectories.record import record

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
    output = " ".join(result.stdout.split())
    assert "Left: 20 of 20 credits." in output and "Left: 7.92 of 20 credits." in output
    assert "100% of the facts, strict: pass" in output
    assert "It passed for 12 credits in calls where 10 would do: call 1 of echo_play_get_experience took 10" in output
    assert "price, credits seconds calls you pass 12.1" in output and "the optimum pass 10" in output
    assert "To copy: costgym, task test-00000 of marketplace, seed 0, 20 credits: I passed for 12.1; " in output
    assert "the optimum passed for 10. Play it: costgym play --task 0" in output
    assert "\x1b" not in result.output
    laid_out = [line for line in result.stdout.splitlines() if str(tmp_path) not in line and "Play it:" not in line]
    assert max(map(len, laid_out)) <= 80
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
        ("tools weather", "No tool has the words 'weather'."),
        ("more", "There is no result yet."),
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
    assert [(line["episode"], line["task"]) for line in recorded(tmp_path)] == [
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


# -- the full screen ---------------------------------------------------------------------------------------------------------


def full_screen(*keys: str, task: int = 0, scenario: str = "marketplace") -> tuple[list[str], list[str], bool]:
    """Play with keys on a screen of 80 by 30; what stood on it before each key and at the end, the actions, and the success."""
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=30)
    left, pictures = iter(keys), list[str]()

    def next_key() -> str:
        paper = Console(file=io.StringIO(), width=80, height=30)
        paper.print(screen.picture())
        pictures.append(paper.file.getvalue())
        return next(left, "end")

    screen = FullScreen(console, next_key)
    env = make("costgym/MarketplaceChat-v1", disable_env_checker=True, split="test", scenario=scenario)
    world = base_env(env)
    recorded, _ = record(env, Human(world, screen), world.numbers[task], 0)
    return pictures, recorded.actions, world.succeeded


def test_on_the_full_screen_typing_filters_tools_and_arguments_are_asked_for() -> None:
    pictures, actions, success = full_screen(
        "experience", "enter", "NightLynx5", "enter", "escape", "doctor", "down", "enter", "CL-3032", "enter", "2025-08-11",
        "enter", "tab", "1766341 and Keiko I. Keller", "enter",
    )  # fmt: skip
    wanted = [json.loads(action)["name"].rpartition("_get_")[2] for action in actions]
    assert wanted == ["experience", "doctor_on_duty", "finish"] and success
    assert "Request" in pictures[0] and "20 of 20 credits left" in pictures[0] and "advertised success" in pictures[0]
    assert "Tools with “experience”: 4 of 16" in pictures[1] and "gamer (" in pictures[2]
    assert "1 ok" in pictures[4] and "1 ok" in pictures[-1] and "your answer: 1766341" in pictures[-1]
    assert all(max(map(len, picture.splitlines())) <= 80 and len(picture.splitlines()) <= 30 for picture in pictures)


def test_a_call_is_cancelled_at_its_argument_and_a_wrong_value_is_said_and_asked_for_again() -> None:
    pictures, actions, _ = full_screen(
        "experience", "enter", "x", "escape", "nothing has this", "enter", "escape", "wait", "soon", "enter", "backspace",
        "backspace", "backspace", "backspace", "2", "enter",
    )  # fmt: skip
    assert [json.loads(action)["name"] for action in actions] == ["wait", "finish"]
    assert "No tool has these words; Esc shows all." in pictures[6]
    assert "Expected seconds above 0 and at most 86,400." in pictures[10]


def test_more_tools_are_found_on_the_full_screen_where_the_world_has_a_retriever() -> None:
    pictures, actions, _ = full_screen("find", "weather", "enter", "end", scenario="marketplace-retrieved")
    assert json.loads(actions[0]) == {**json.loads(actions[0]), "name": "search_tools", "arguments": {"query": "weather"}}
    assert "Ctrl-F: find" in pictures[0] and "union_weather_get_temperature" in pictures[-1]


def test_a_terminal_gets_the_full_screen_and_its_keys_are_read_one_by_one(tmp_path: Path) -> None:
    keyboard, terminal = pty.openpty()
    # without PyTorch, whose import takes longer than all else, no policy plays the same episode
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(name='torch')")
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "30", "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "costgym", "play", "--out", str(tmp_path / "mine")]
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment) as process:
        os.close(terminal)
        shown = ""

        def until(words: Callable[[], bool]) -> None:
            nonlocal shown
            while not words():
                if not select.select([keyboard], [], [], 30)[0]:
                    process.kill()
                    pytest.fail(f"nothing more came after {shown[-2000:]!r}")
                shown += os.read(keyboard, 65536).decode("utf-8", "replace")

        until(lambda: "Ctrl-D: give up" in shown)
        os.write(keyboard, b"experience\r")
        until(lambda: "Esc: do not call" in shown)
        os.write(keyboard, b"\x1b")
        until(lambda: shown.rindex("Ctrl-D: give up") > shown.rindex("Esc: do not call"))
        os.write(keyboard, "\tJürgen".encode() + b"\r")
        until(lambda: "costgym show" in shown)
    os.close(keyboard)
    assert process.returncode == 0 and "\x1b[?1049h" in shown and "To copy:" in shown.rpartition("\x1b[?1049l")[2]
    assert json.loads(recorded(tmp_path / "mine")[0]["actions"][0])["arguments"] == {"answer": "Jürgen"}

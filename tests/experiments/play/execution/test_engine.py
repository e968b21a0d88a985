"""Wherever work is done, and whoever is lost doing it, the same comes out."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import indent

import pytest

import costgym
from costgym.agents import make_agent
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.submission import pack, validate
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import run
from costgym.experiments.play.collect import collect
from costgym.experiments.play.execution.engine import Engine, Local, open_engine
from costgym.simulators.errors import ConfigError, DataError, InfrastructureError, UnknownName
from tests.helpers.command_line import invoke
from tests.helpers.engine_work import die, die_once, refuse, squares
from tests.helpers.ray_here import needs_ray, sent_whole


def expected() -> list[int]:
    return [7 + number * number for task in range(40) for number in range(task)]


def test_one_job_hands_out_every_item_as_soon_as_it_is_there() -> None:
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for task in range(5):
            taken.append(task)
            yield task

    stream = Local().stream(squares, 7, tasks())
    assert next(stream) == 7
    assert taken == [0, 1]


def test_processes_give_the_items_of_every_task_in_order() -> None:
    assert list(Local(2).stream(squares, 7, range(40))) == expected() == list(Local(1).stream(squares, 7, range(40)))


def test_a_supply_without_end_is_taken_only_as_far_as_there_are_hands() -> None:
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        while True:
            taken.append(len(taken))
            yield 1

    stream = Local(2).stream(squares, 7, tasks())
    assert [next(stream) for _ in range(3)] == [7, 7, 7]
    assert len(taken) <= 8 + 3
    stream.close()  # type: ignore[attr-defined]


def test_a_lost_worker_changes_nothing(tmp_path: Path) -> None:
    assert list(Local(2).stream(die_once, str(tmp_path), range(12))) == list(range(12))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_command_that_started_them(number: signal.Signals, tmp_path: Path) -> None:
    code = (
        "from costgym.experiments.play.execution.engine import Local\n"
        "from tests.helpers.engine_work import work_for_ever\n"
        f"list(Local(2).stream(work_for_ever, {str(tmp_path)!r}, range(4)))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", f"if __name__ == '__main__':\n{indent(code, '    ')}"])
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    process.send_signal(number)
    assert process.wait(10) == -number
    until(lambda: not any(alive(int(path.name)) for path in tmp_path.iterdir()))


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_workers_that_are_lost_again_and_again_are_the_infrastructures_failure() -> None:
    with pytest.raises(InfrastructureError, match="lost in a row"):
        list(Local(2).stream(die, None, range(4)))


def test_an_error_comes_back_from_a_worker_as_it_was_raised() -> None:
    stream = Local(2).stream(refuse, None, range(4))
    assert [next(stream), next(stream)] == [0, 1]
    with pytest.raises(DataError, match="file, line 2: is no record"):
        next(stream)


@pytest.mark.parametrize("jobs", [0, -1, True])
def test_a_number_of_jobs_that_makes_no_sense_is_refused(jobs: int) -> None:
    with pytest.raises(ConfigError, match="--jobs"), open_engine("local", jobs):
        pass


def test_an_unknown_engine_is_refused_and_an_address_belongs_to_ray() -> None:
    with pytest.raises(UnknownName, match="ray"), open_engine("rya"):
        pass
    with pytest.raises(ConfigError, match="--ray-address"), open_engine("local", 1, "auto"):
        pass


def recorded(folder: Path, engine: Engine | None) -> bytes:
    agent = make_agent("react")
    env = costgym.make(agent.env_id, scenario="storm", budget={"price": 20}, disable_env_checker=True)
    return collect(env, agent, 60, folder, seed=3, engine=engine).read_bytes()


def results(engine: Engine | None) -> list[costgym.experiments.play.metrics.EpisodeResult]:
    agent = make_agent("greedy")
    env = costgym.make(agent.env_id, scenario="storm", budget={"price": 20}, disable_env_checker=True)
    return costgym.rollout(env, agent, 60, seed=3, engine=engine)


def tampered(path: Path) -> None:
    """A figure that is wrong, an episode that occurs twice, and a line that is no record."""
    lines = path.read_text().splitlines()
    lines[20] = lines[20].replace('"truncated":false', '"truncated":true')
    if len(lines) > 45:
        lines.insert(31, lines[30])
        lines[45] = lines[45][:-9]
    path.write_text("\n".join(lines) + "\n")


def check_engine(engine: Engine, folder: Path) -> None:
    """Collections, results and verdicts are those of this process."""
    assert recorded(folder / "there", engine) == recorded(folder / "here", None)
    assert results(engine) == results(None)
    path = folder / "there" / "trajectories.jsonl"
    assert verify(path, engine=engine).verified
    tampered(path)
    verdict = verify(path, engine=engine)
    assert verdict == verify(path)
    assert [problem.split(",")[0] for problem in verdict.problems] == ["line 21", "line 32", f"{path}"]
    assert verdict.episodes == 42
    board = run(
        make_run_config("quick", agents=["react", "cheapest"], budgets="price=10,20", episodes=30), folder / "board"
    ).folder
    assert verify(board, engine=engine) == verify(board)
    packed = pack(board, folder / "packed", "A", "a")
    tampered(packed / "trajectories" / "text" / "react.price=10.jsonl")
    submitted = validate(packed, engine=engine)
    assert submitted == validate(packed)
    assert len(submitted.problems) == 3 and submitted.episodes == 90 + 29


@pytest.mark.slow
def test_episodes_played_recorded_and_verified_in_processes_are_the_same(tmp_path: Path) -> None:
    check_engine(Local(2), tmp_path)


@pytest.fixture
def by_value() -> Iterator[None]:
    with sent_whole(__name__):
        yield


@needs_ray
@pytest.mark.slow
def test_a_command_on_ray_writes_the_same_bytes(tmp_path: Path) -> None:
    words = ["collect", "--agent", "react", "--scenario", "storm", "--budget", "price=20", "--episodes", "60", "--quiet"]
    assert invoke(*words, "--out", tmp_path / "here").exit_code == 0
    on_ray = [*words, "--out", str(tmp_path / "there"), "--engine", "ray", "--jobs", "1"]
    code = "import sys; from costgym.cli.app import main; sys.argv[0] = 'costgym'; main()"
    process = subprocess.Popen([sys.executable, "-c", code, *on_ray], stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        error_text = process.communicate(timeout=240)[1]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with all that Ray started
    if "no Ray cluster answers at this machine" in error_text:
        pytest.skip(f"Ray does not start here: {error_text[-300:]}")
    assert process.returncode == 0, error_text
    here, there = (tmp_path / name / "trajectories.jsonl" for name in ("here", "there"))
    assert there.read_bytes() == here.read_bytes()


@needs_ray
@pytest.mark.slow
@pytest.mark.usefixtures("by_value")
def test_whatever_is_played_and_verified_on_ray_is_the_same(tmp_path: Path) -> None:
    with open_engine("ray", 2) as engine:
        assert list(engine.stream(squares, 7, range(40))) == expected()
        check_engine(engine, tmp_path)
        assert list(engine.stream(die_once, str(tmp_path), range(12))) == list(range(12))
        with pytest.raises(DataError, match="file, line 2: is no record"):
            list(engine.stream(refuse, None, range(4)))

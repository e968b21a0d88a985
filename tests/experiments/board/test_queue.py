"""The maintainer's queue: every entry is judged once, whenever the queue is killed; hostile ones are refused in words."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from costgym.experiments.board.reruns import queue as queues
from costgym.experiments.board.reruns.queue import Verdict, judge_queue
from costgym.experiments.board.reruns.record import commitment_of_text
from costgym.experiments.board.reruns.sandbox import why_not
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import make_run_config, run
from costgym.simulators.errors import ConfigError
from costgym.simulators.files import snapshot
from tests.helpers.queue_entries import HOSTILE, fill

SANDBOX = not why_not()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text("the same in every run of the tests\n")
    return path


def start(folder: Path, secret: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "costgym", "submit", "rerun", "--queue", str(folder / "queue"), "--quiet", "--worlds", "1"]
    command += ["--board", str(folder / "board"), "--secret-seed", str(secret), "--site", str(folder / "site")]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def verdicts(folder: Path) -> dict[str, Verdict]:
    found = (folder / "queue.verdicts").glob("*.verdict.json")
    return {path.name.removesuffix(".verdict.json"): Verdict.model_validate_json(path.read_bytes()) for path in found}


def kill_and_finish(folder: Path, secret: Path, kills: int) -> int:
    """Run the queue, kill it so many times at random moments, and let it end; returns how often it was killed at work."""
    chance, journal, killed = np.random.default_rng(0), folder / "queue.verdicts/begun.jsonl", 0

    def begun() -> int:
        return journal.read_text().count("\n") if journal.exists() else 0

    for _ in range(kills):
        # counted in entries that are begun, since machines differ in their speed
        until = begun() + int(chance.integers(1, 5)) if kills > 1 else 1
        process = start(folder, secret)
        while process.poll() is None and begun() < until:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.5))
        killed += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert start(folder, secret).wait(1200) in (0, 1)  # 1: hostile entries were refused
    return killed


def check(folder: Path, wanted: dict[str, str]) -> None:
    found = verdicts(folder)
    assert sorted(found) == sorted(wanted)
    for name, words in wanted.items():
        assert found[name].accepted is not bool(words), found[name]
        assert words in found[name].words and found[name].words.isprintable() and found[name].judged == 1
    on_board = {path.name for path in (folder / "board/submissions").iterdir()}
    assert on_board == {f"Entry {name[:2]}" for name, words in wanted.items() if not words}
    assert verify(folder / "board").verified
    assert (folder / "site/index.html").is_file() and not (folder / "queue.verdicts/.work").exists()
    assert all(path.is_dir() for path in (folder / "queue").iterdir())  # nothing was written among the entries


@pytest.mark.parametrize(
    ("count", "kills"),
    [(3, 1), pytest.param(60, 20, marks=pytest.mark.slow)],
)
def test_a_queue_that_is_killed_judges_each_entry_once_and_loses_none(
    count: int, kills: int, secret: Path, tmp_path: Path
) -> None:
    wanted = fill(tmp_path, count, SANDBOX)
    assert kill_and_finish(tmp_path, secret, kills) > kills // 2
    check(tmp_path, wanted)
    # the commitment of every secret was written down before its first episode, and an entry has one secret, however often begun
    begun = [json.loads(line) for line in (tmp_path / "queue.verdicts/begun.jsonl").read_text().splitlines()]
    assert len({(line["entry"], line["commitment"]) for line in begun}) == len({line["entry"] for line in begun})
    for name, verdict in verdicts(tmp_path).items():
        if verdict.accepted:
            record = json.loads((tmp_path / f"board/submissions/{verdict.name}/rerun/rerun.json").read_text())
            assert {commitment_of_text(record["secret"])} == {each["commitment"] for each in begun if each["entry"] == name}
    # what was judged is not judged again
    before = (tmp_path / "board/leaderboard.json").read_bytes()
    assert start(tmp_path, secret).wait(120) == 0
    assert (tmp_path / "board/leaderboard.json").read_bytes() == before
    assert len((tmp_path / "queue.verdicts/begun.jsonl").read_text().splitlines()) == len(begun)


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("waiting")
    fill(folder, 2, own_code=False)
    return folder


def test_an_entry_that_changes_waits_again_and_no_other_folder_takes_its_name(
    waiting: Path, secret: Path, tmp_path: Path
) -> None:
    place = shutil.copytree(waiting, tmp_path / "place")
    first = judge_queue(place / "queue", place / "board", secret, worlds=2)
    assert [verdict.accepted for verdict in first.values()] == [True, True]
    records = [path.read_text() for path in (place / "board/submissions").glob("*/rerun/rerun.json")]
    assert [json.loads(text)["worlds"] for text in records] == [2, 2]
    assert judge_queue(place / "queue", place / "board", secret) == {}
    entry = place / "queue/00 honest"
    shutil.copytree(entry, place / "queue/02 thief")
    text = (entry / "manifest.json").read_text()
    (entry / "manifest.json").write_text(text.replace('"description": ""', '"description": "Mine again."'))
    again = judge_queue(place / "queue", place / "board", secret)
    assert (again["00 honest"].accepted, again["00 honest"].judged) == (True, 2)
    assert again["00 honest"].commitment != first["00 honest"].commitment
    assert not again["02 thief"].accepted and "came from another folder" in again["02 thief"].words
    assert verify(place / "board").verified


def test_the_queue_is_bounded_and_goes_on_with_the_next_run(
    waiting: Path, secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = shutil.copytree(waiting, tmp_path / "place")
    said: list[str] = []
    assert list(judge_queue(place / "queue", place / "board", secret, most=1, say=said.append)) == ["00 honest"]
    assert said[0].startswith("00 honest: accepted: 1 rows run again; numbers greedy (price 10.0): claimed ")
    slow = judge_queue(place / "queue", place / "board", secret, minutes=0.001)
    assert slow["01 honest"].words == "refused: was not judged within 0.001 minutes"
    shutil.copytree(place / "queue/00 honest", place / "queue/02 tried")
    monkeypatch.setattr(queues, "TRIES", 0)
    assert "was begun 0 times and never ended" in judge_queue(place / "queue", place / "board", secret)["02 tried"].words


def test_a_verdict_that_is_handed_in_beside_or_in_an_entry_is_not_believed(waiting: Path, secret: Path, tmp_path: Path) -> None:
    place = shutil.copytree(waiting, tmp_path / "place")
    shutil.copytree(place / "queue/00 honest", place / "queue/02 thief")
    # of an earlier judgement of the name's owner, so that the thief might replace it
    planted = Verdict(entry=snapshot(place / "queue/02 thief"), accepted=True, said=["trust me"], name="Entry 00")
    for folder in (place / "queue", place / "queue/.work/x", place / "queue/01 honest/code"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "02 thief.verdict.json").write_text(planted.model_dump_json())
    said: list[str] = []
    judged = judge_queue(place / "queue", place / "board", secret, say=said.append)
    assert [judged[name].accepted for name in sorted(judged)] == [True, False, False]
    assert "code/02 thief.verdict.json: has the name of a verdict" in judged["01 honest"].words
    assert "came from another folder" in judged["02 thief"].words
    assert any(line.startswith("02 thief.verdict.json: is ignored, because it is among the entries") for line in said)
    # verdicts outlive a change of the secret
    secret.write_text("another one, drawn after the first was published\n")
    assert judge_queue(place / "queue", place / "board", secret) == {}


def test_verdicts_lie_outside_of_the_entries(waiting: Path, secret: Path, tmp_path: Path) -> None:
    place = shutil.copytree(waiting, tmp_path / "place")
    for inside in (place / "queue", place / "queue/verdicts", place / "board/../queue/x"):
        with pytest.raises(ConfigError, match="is inside the queue"):
            judge_queue(place / "queue", place / "board", secret, verdicts=inside)
    judge_queue(place / "queue", place / "board", secret, most=1, verdicts=place / "mine")
    assert [path.name for path in (place / "mine").glob("*.json")] == ["00 honest.verdict.json"]


def test_a_queue_with_nothing_in_it_is_judged_and_one_that_is_missing_is_an_error(secret: Path, tmp_path: Path) -> None:
    board = run(make_run_config(agents=["cheapest"], budgets="price=10", episodes=1), tmp_path / "board").folder
    with pytest.raises(ConfigError, match="is not a folder"):
        judge_queue(tmp_path / "queue", board, secret)
    (tmp_path / "queue").mkdir()
    (tmp_path / "queue/file").write_text("not an entry")
    (tmp_path / "queue/a.verdict.json").mkdir()
    (tmp_path / "queue/a").mkdir()
    assert list(judge_queue(tmp_path / "queue", board, secret)) == ["a", "a.verdict.json"]
    assert judge_queue(tmp_path / "queue", board, secret) == {}


def test_without_a_sandbox_code_of_an_entry_goes_on_waiting(secret: Path, tmp_path: Path) -> None:
    fill(tmp_path, 4)
    said: list[str] = []
    judged = judge_queue(tmp_path / "queue", tmp_path / "board", secret, sandbox="none", worlds=1, say=said.append)
    assert "03 honest" not in judged and "00 honest" in judged
    assert any("03 honest: waits for a machine with a sandbox" in line for line in said)


def test_each_kind_of_hostile_entry_is_another_one() -> None:
    assert len(HOSTILE) >= 16 and len({words for _, words in HOSTILE.values()}) >= 12

"""Submissions: packed, checked by replay, added; and every forgery named."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import costgym
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.manifest import Submission
from costgym.experiments.board.submissions.submission import pack, validate
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import add, run
from costgym.experiments.play.execution.engine import Local
from costgym.experiments.play.trajectories.format import Header, Trajectory, seal_of
from tests.helpers.command_line import invoke

PLAN = {"agents": ["cheapest", "react", "oracle"], "budgets": "price=10,20", "episodes": 8, "seed": 3}


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(make_run_config("quick", **PLAN), tmp_path_factory.mktemp("boards") / "board").folder  # type: ignore[arg-type]


@pytest.fixture
def packed(board: Path, tmp_path: Path) -> Path:
    return pack(board, tmp_path / "packed", "Team A", "a@example.org", agents=["cheapest", "react"], url="https://example.org")


def edit(path: Path, change: Callable[[Any], None]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_a_run_keeps_a_trajectory_file_for_each_agent_and_budget(board: Path) -> None:
    files = sorted(path.name for path in (board / "trajectories").glob("*/*"))
    assert sorted(path.name for path in (board / "trajectories").iterdir()) == ["numbers", "text"]
    paths = {path.name: path for path in (board / "trajectories").glob("*/*")}
    assert files == sorted(f"{agent}.price={price}.jsonl" for agent in PLAN["agents"] for price in (10, 20))  # type: ignore[attr-defined]
    for name in files:
        verdict = verify(paths[name])
        assert verdict.verified and verdict.episodes == 8
    results = [json.loads(line) for line in (board / "episodes.jsonl").read_text().splitlines()]
    for name in files:
        agent, budget = name.split(".")[0], {"price": float(name.split("=")[1].split(".")[0])}
        recorded = [json.loads(line) for line in paths[name].read_text().splitlines()[1:]]
        mine = [result for result in results if result["agent"] == agent and result["budget"] == budget]
        assert [record["episode"] for record in recorded] == list(range(8)) == [result["episode"] for result in mine]
        assert [record["final"]["price"] for record in recorded] == [result["price"] for result in mine]
        assert [record["task"] for record in recorded] == [result["task"] for result in mine]


def test_an_honest_submission_is_verified(packed: Path, board: Path) -> None:
    verdict = validate(packed)
    assert verdict.problems == ()
    assert verdict.verified and verdict.episodes == 32
    rows = json.loads((board / "leaderboard.json").read_text())["rows"]
    expected = [row for row in rows if row["agent"] != "oracle"]
    assert sorted(json.dumps(row) for row in verdict.rows) == sorted(json.dumps(row) for row in expected)


def test_a_run_is_verified_as_it_lies_there(board: Path, packed: Path, tmp_path: Path) -> None:
    verdict = verify(board)
    assert verdict.verified and verdict.episodes == 48
    assert verify(packed).verified
    mine = tmp_path / "board"
    shutil.copytree(board, mine)
    lines = (mine / "episodes.jsonl").read_text().splitlines()
    forged = lines[4].replace('"tokens":', '"tokens":1')
    (mine / "episodes.jsonl").write_text("\n".join([*lines[:4], forged, *lines[5:]]) + "\n")
    assert verify(mine).problems[0].startswith("episodes.jsonl, cheapest episode 4: replay says")


def test_the_shipped_schema_is_the_models() -> None:
    path = Path(costgym.__file__).parent / "experiments" / "board" / "submissions" / "submission.json"
    assert json.loads(path.read_text()) == Submission.model_json_schema()


def test_added_rows_are_verified_and_stay(board: Path, packed: Path, tmp_path: Path) -> None:
    mine = tmp_path / "board"
    shutil.copytree(board, mine)
    rows = add(mine, packed)
    assert len(rows) == 4 and all(row["verified"] == "replayed" for row in rows)
    shown = json.loads((mine / "leaderboard.json").read_text())["rows"]
    assert len(shown) == 10
    verified = [row for row in shown if row.get("verified")]
    assert {row["agent"] for row in verified} == {"cheapest (Team A)", "react (Team A)"}
    about = {"name": "Team A", "contact": "a@example.org", "url": "https://example.org"}
    assert verified[0]["submission"] == {**about, "manifest": verified[1]["submission"]["manifest"]}
    assert "react (Team A)" in (mine / "index.html").read_text()
    before = (mine / "leaderboard.json").read_bytes()
    run(make_run_config("quick", **PLAN), mine)  # type: ignore[arg-type]
    assert (mine / "leaderboard.json").read_bytes() == before
    add(mine, packed)
    assert (mine / "leaderboard.json").read_bytes() == before
    assert validate(mine / "submissions" / "Team A").verified


def test_an_entry_is_replaced_by_its_own_contact_and_by_nobody_else(board: Path, packed: Path, tmp_path: Path) -> None:
    mine = tmp_path / "board"
    shutil.copytree(board, mine)
    add(mine, packed)
    before = {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()}
    other = pack(board, tmp_path / "other", "Team A", "b@example.org", agents=["cheapest"])
    with pytest.raises(costgym.ConfigError, match=r"'Team A' is an entry of a@example\.org .* under another --name"):
        add(mine, other)
    for twin in ("team a", "Team  A", "Team A ", "TEAM A"):
        with pytest.raises(
            costgym.ConfigError, match=r"differs from the entry 'Team A' .* in the case of letters or in spaces"
        ):
            add(mine, pack(board, tmp_path / twin, twin, "a@example.org", agents=["cheapest"]))
    assert {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()} == before
    assert verify(mine).verified
    add(mine, pack(board, tmp_path / "again", "Team A", "a@example.org", agents=["cheapest"]))
    rows = json.loads((mine / "leaderboard.json").read_text())["rows"]
    assert {row["agent"] for row in rows if "submission" in row} == {"cheapest (Team A)"}
    (mine / "submissions" / "Team A" / "manifest.json").unlink()
    with pytest.raises(costgym.ConfigError, match="an entry that cannot be read"):
        add(mine, packed)


def test_a_submission_of_another_run_is_not_added(board: Path, tmp_path: Path) -> None:
    other = run(make_run_config("quick", **{**PLAN, "seed": 4, "agents": ["cheapest"]}), tmp_path / "other").folder  # type: ignore[arg-type]
    packed = pack(other, tmp_path / "packed", "B", "b@example.org")
    assert validate(packed).verified
    with pytest.raises(costgym.ConfigError, match="different: seed"):
        add(board, packed)


def reseal(path: Path, line: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Forge a record as one who knows the code would: seal and digest are recomputed."""
    lines = path.read_text().splitlines()
    header = Header(**json.loads(lines[0]))
    document = json.loads(lines[line])
    change(document)
    lines[line] = Trajectory(**{**document, "seal": ""}).sealed_json(header)
    path.write_text("\n".join(lines) + "\n")
    redigest(path)


def redigest(path: Path) -> None:
    from costgym.experiments.board.submissions.replay import digest_of

    def change(manifest: dict[str, Any]) -> None:
        for file in manifest["files"]:
            if file["path"] == f"trajectories/{path.parent.name}/{path.name}":
                file["digest"] = digest_of(path)

    edit(path.parent.parent.parent / "manifest.json", change)


def put(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.update(values)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: d["final"].update(price=0.0), "final: price: replay says"),
        (lambda d: d["final"].update(strict=not d["final"]["strict"]), "final: strict: replay says"),
        (lambda d: d["rewards"].__setitem__(-1, 0.5), "rewards: entry"),
        (lambda d: d["actions"].pop(), "replay has"),
        (lambda d: d["actions"].__setitem__(0, 3), "actions: expected each to be of type str"),
        (put(seed=77), "number and seed"),
        (put(number=0, task="test-00000"), "number and seed"),
        (put(episode=5), "expected the episodes 0 to 7 in order"),
        (put(agent="mine"), "agent: expected"),
        (lambda d: d["observations"].__setitem__(1, "0" * 16), "observations: entry 1"),
        (lambda d: d["calls"].pop(), "calls: replay has"),
        (lambda d: d["charges"].pop(), "charges: replay has"),
    ],
)
def test_a_forged_record_with_a_fresh_seal_is_named(packed: Path, change: Callable[[Any], None], reason: str) -> None:
    path = packed / "trajectories" / "text" / "react.price=20.jsonl"
    reseal(path, 4, change)
    verdict = validate(packed)
    assert not verdict.verified
    assert verdict.problems[0].startswith("trajectories/text/react.price=20.jsonl: line 5") and reason in verdict.problems[0]


def test_other_settings_under_a_fresh_seal_are_named(packed: Path) -> None:
    path = packed / "trajectories" / "text" / "react.price=20.jsonl"
    lines = path.read_text().splitlines()
    document = json.loads(lines[0])
    document["settings"]["budget"] = {"price": 30.0}
    header = Header(**document)
    document["seal"] = seal_of(header)
    resealed = [Trajectory(**json.loads(line)).sealed_json(Header(**document)) for line in lines[1:]]
    path.write_text("\n".join([Header(**document).to_json(), *resealed]) + "\n")
    redigest(path)
    assert "header, budget: expected {'price': 20.0}, got {'price': 30.0}" in validate(packed).problems[0]


def conditions(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    return [condition for track in manifest["run"]["tracks"] for condition in track["conditions"]]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: d["rows"][0].update(pass_rate=1.0), "pass_rate: replay says"),
        (lambda d: d["rows"][0].update(rank=1), "rank: replay says None"),
        (lambda d: d["rows"].pop(), "expected one row for each of the 4 files"),
        (lambda d: d["rows"].reverse(), "not in the order"),
        (lambda d: d["run"].update(version="9.9"), "version: played with costgym 9.9"),
        (lambda d: d["run"].update(seed=4), "number and seed"),
        (lambda d: d["run"]["tracks"][0].update(digest="0"), "digest: the world's is"),
        (
            lambda d: [condition.update(episodes=7) for t in d["run"]["tracks"] for condition in t["conditions"]],
            "expected the episodes 0 to 6",
        ),
        (lambda d: [condition.update(episodes=9) for condition in conditions(d)], "8 of 9 episodes agree"),
        (
            lambda d: d["run"]["tracks"][0]["conditions"].append(d["run"]["tracks"][0]["conditions"][0]),
            "a condition is listed twice",
        ),
        (put(name=""), "manifest.json, name:"),
        (put(name="../../etc"), "manifest.json, name:"),
        (put(url="javascript:alert(1)"), "manifest.json, url:"),
        (put(extra=1), "manifest.json, extra:"),
        (lambda d: d["files"][0].update(path="trajectories/../../x.jsonl"), "manifest.json, files.0.path:"),
        (lambda d: d["files"][0].update(path="trajectories/text/none.jsonl"), "is not the file of cheapest"),
        (lambda d: d["files"][0].update(agent="nobody"), "the run has no such agent"),
        (lambda d: d["files"][0].update(condition=9), "the run has no such agent or condition"),
        (lambda d: d["files"][0].update(digest="0" * 32), "digest: the file is not the one"),
        (lambda d: d["files"].append(d["files"][0]), "is listed twice"),
        (lambda d: d["run"]["tracks"][0]["scenario"].update(failures="reliable"), "digest: the world's is"),
    ],
)
def test_a_forged_manifest_is_named(packed: Path, change: Callable[[Any], None], reason: str) -> None:
    edit(packed / "manifest.json", change)
    verdict = validate(packed)
    assert not verdict.verified
    assert reason in verdict.problems[0]


def test_a_manifest_that_names_its_submitter_twice_is_no_manifest(board: Path, packed: Path) -> None:
    path = packed / "manifest.json"
    text = path.read_text()
    path.write_text(text.replace('"name": "Team A"', '"name": "Team B", "name": "Team A"', 1))
    assert path.read_text() != text
    assert validate(packed).problems == ("manifest.json: is not valid JSON (an object has a duplicate name)",)
    with pytest.raises(costgym.DataError, match="duplicate name"):
        add(board, packed)


def test_what_replay_denies_is_not_added(board: Path, packed: Path, tmp_path: Path) -> None:
    mine = tmp_path / "board"
    shutil.copytree(board, mine)
    before = {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()}
    edit(packed / "manifest.json", lambda d: d["rows"][0].update(pass_rate=1.0))
    with pytest.raises(costgym.DataError, match="pass_rate: replay says"):
        add(mine, packed)
    assert {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()} == before


def test_an_entry_says_what_it_thinks_with_and_one_without_keeps_its_bytes(board: Path, packed: Path, tmp_path: Path) -> None:
    assert "model" not in json.loads((packed / "manifest.json").read_text())
    mine = tmp_path / "board"
    shutil.copytree(board, mine)
    words = ["submit", "pack", str(board), "--out", str(tmp_path / "told"), "--name", "T", "--contact", "t", "--model", "GPT-9"]
    result = invoke(*words, "--agents", "react")
    assert result.exit_code == 0
    rows = add(mine, tmp_path / "told")
    assert {row["submission"]["model"] for row in rows} == {"GPT-9"}
    assert "claims to use GPT-9" in (mine / "index.html").read_text()
    assert verify(mine).verified


def test_a_board_of_more_seeds_shows_every_k_and_verifies(tmp_path: Path) -> None:
    config = make_run_config("quick", agents=["react"], budgets="price=20", seeds=6, episodes=12)
    folder = run(config, tmp_path / "board").folder
    row = json.loads((folder / "leaderboard.json").read_text())["rows"][0]
    assert config.tracks[0].seeds == len(row["pass_hat_k"]) == 6
    page = (folder / "index.html").read_text()
    section = page.partition('id="section-pass_hat_k"')[2].partition("</section>")[0]
    assert re.findall(r"k = (\d)", section) == list("123456")
    line = section.partition("react (simulated)")[2].partition("</tr>")[0]
    assert re.findall(r">([\d.]+)</td>", line) == [f"{100 * share:.0f}" for share in row["pass_hat_k"]]
    assert verify(folder).verified
    assert validate(pack(folder, tmp_path / "packed", "A", "a@example.org")).verified
    assert [condition.episodes for condition in make_run_config("quick", agents=["react"], seeds=8).tracks[0].conditions] == [
        320
    ] * 3
    for wrong in (0, 1.5, True):
        with pytest.raises(costgym.ConfigError, match="seeds"):
            make_run_config("quick", agents=["react"], seeds=wrong)  # type: ignore[arg-type]
    with pytest.raises(costgym.ConfigError, match="--seeds"):
        make_run_config("opencatp", agents=["greedy"], seeds=2)


def test_packing_says_what_is_missing(board: Path, tmp_path: Path) -> None:
    with pytest.raises(costgym.ConfigError, match="is not a leaderboard run"):
        pack(tmp_path, tmp_path / "x", "A", "a")
    with pytest.raises(costgym.UnknownName, match="nearest: react"):
        pack(board, tmp_path / "x", "A", "a", agents=["reac"])
    with pytest.raises(costgym.ConfigError, match="contact"):
        pack(board, tmp_path / "x", "A", "")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(costgym.DataError, match="no such file"):
        validate(tmp_path)
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    assert "manifest.json" in validate(tmp_path).problems[0]


def forged_in_many_places(packed: Path) -> None:
    """One of each: a wrong figure, another player, broken JSON, a half file, a missing file, another world, a wrong digest."""
    react, cheapest = (packed / "trajectories" / f"{path}.price=10.jsonl" for path in ("text/react", "numbers/cheapest"))
    reseal(react, 3, lambda d: d["final"].update(price=0.0))
    reseal(react, 5, put(agent="mine"))
    reseal(react, 6, put(seed=77))
    text = react.read_text().splitlines()
    text[8] = text[8][:-20]
    react.write_text("\n".join(text) + "\n")
    cheapest.write_text("".join(f"{line}\n" for line in cheapest.read_text().splitlines()[:5]))
    (packed / "trajectories" / "numbers" / "cheapest.price=20.jsonl").unlink()


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_submission_is_judged_alike_by_any_number_of_processes(packed: Path, jobs: int) -> None:
    assert validate(packed, engine=Local(jobs)) == validate(packed)
    forged_in_many_places(packed)
    verdict = validate(packed, engine=Local(jobs))
    assert [problem.partition(": ")[2][:40] for problem in verdict.problems] == [
        "digest: the file is not the one that the",
        "4 of 8 episodes agree with replay",
        "there is no such file",
        "digest: the file is not the one that the",
        "line 4, episode 2: final: price: replay ",
        "line 6, episode 4: agent: expected ('rea",
        "line 7, episode 5: number and seed: epis",
        f"{packed}/trajectories/text/react.price=10.jsonl"[:40],
    ]
    assert verdict.episodes == 4 + 0 + 4 + 8 and len(verdict.rows) == 1
    assert verify(packed, engine=Local(jobs)).problems == verdict.problems


@pytest.mark.slow
def test_a_run_is_judged_and_a_submission_added_alike_by_two_processes(board: Path, packed: Path, tmp_path: Path) -> None:
    assert verify(board, engine=Local(2)) == verify(board)
    boards = []
    for jobs in (1, 2):
        boards.append(tmp_path / str(jobs))
        shutil.copytree(board, boards[-1])
        add(boards[-1], packed, engine=Local(jobs))
    assert (boards[0] / "leaderboard.json").read_bytes() == (boards[1] / "leaderboard.json").read_bytes()


@pytest.mark.slow
def test_no_more_than_twenty_problems_of_a_file_are_looked_for(tmp_path: Path) -> None:
    played = run(make_run_config("btp", agents=["cheapest"], budgets="price=20", episodes=230), tmp_path / "board").folder
    packed = pack(played, tmp_path / "packed", "A", "a")
    path = packed / "trajectories" / "numbers" / "cheapest.price=20.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("".join(f"{line}\n" for line in [lines[0], *(line.replace('"seed":0', '"seed":7') for line in lines[1:])]))
    for engine in (None, Local(2)):
        verdict = validate(packed, engine=engine)
        assert len(verdict.problems) == 20 and verdict.episodes == 0
        assert verdict.problems[-1].startswith(
            "trajectories/numbers/cheapest.price=20.jsonl: line 20, episode 18: number and seed"
        )


@pytest.mark.slow
def test_runs_and_submissions_are_verified_in_processes_by_command(board: Path, packed: Path, tmp_path: Path) -> None:
    mine = tmp_path / "board"
    shutil.copytree(board, mine)
    for command in (
        ["verify", str(board), "--jobs", "2"],
        ["submit", "validate", str(packed), "--jobs", "2"],
        ["leaderboard", "--out", str(mine), "--add", str(packed), "--jobs", "2"],
    ):
        ran = invoke(*command)
        assert ran.exit_code == 0, ran.output
    assert len(json.loads((mine / "leaderboard.json").read_text())["rows"]) == 10

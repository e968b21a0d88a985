"""Epochs: everybody is played on one secret, tries of one identity are pooled, and verdicts are a chain that can be checked."""

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import costgym
from costgym.agents.base import PLAN_CHAT, SESSION
from costgym.envs.base import base_env
from costgym.experiments.board.epochs import judging, playing
from costgym.experiments.board.epochs.chain import CHAIN, read_chain
from costgym.experiments.board.epochs.epoch import PUBLIC, SECRET, create, read_epoch, register, seed_of, today
from costgym.experiments.board.epochs.identities import same_name
from costgym.experiments.board.epochs.judging import judge, reveal, sign_entry
from costgym.experiments.board.epochs.options import EpochOptions
from costgym.experiments.board.epochs.playing import own_code
from costgym.experiments.board.reruns.process_agent import Limits, ProcessAgent
from costgym.experiments.board.reruns.sandbox import why_not
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.run_options import RunOptions
from costgym.experiments.board.verify import verify
from costgym.experiments.play.execution import engine
from costgym.experiments.play.execution.engine import Local
from costgym.simulators.errors import ConfigError, DataError, UnknownName
from tests.helpers.agent_processes import fork_agents
from tests.helpers.command_line import fork_workers, invoke, killed_after
from tests.helpers.epochs import board, entry, epoch, rows, with_secret

needs_sandbox = pytest.mark.skipif(bool(why_not()), reason=f"no sandbox here: {why_not()}")
needs_keys = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen here")
PASS = "pass_rate_under_budget"
OWN = """
from costgym.agents.classic import GreedyAgent


class Mine(GreedyAgent):
    pass
"""


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three honest entries."""
    folder = tmp_path_factory.mktemp("entries")
    for name, agent in (("Greedy", "greedy"), ("Cheap", "cheapest"), ("Random", "random")):
        entry(folder, name, [agent])
    return folder


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return epoch(tmp_path_factory.mktemp("begun") / "spring")


@pytest.fixture
def spring(begun: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(begun, tmp_path / "spring"))


@pytest.fixture(scope="module")
def judged(entries: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An epoch in the folder `spring`, in which the three were played, and its board in the folder `board`."""
    folder = tmp_path_factory.mktemp("judged")
    board([entries], epoch(folder / "spring"), folder / "board")
    return folder


@pytest.fixture(scope="module")
def revealed(judged: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same board once the secret is published, and the judge's own folder gone."""
    folder = Path(shutil.copytree(judged, tmp_path_factory.mktemp("revealed") / "epoch"))
    reveal(folder / "spring", folder / "board")
    shutil.rmtree(folder / "spring")
    return folder / "board"


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An entry of own code."""
    return entry(tmp_path_factory.mktemp("mine"), "Mine", ["own.py:Mine"], OWN)


def test_the_secret_is_the_judges_alone_and_its_hash_is_public_before_the_first_entry(tmp_path: Path) -> None:
    made = create(tmp_path / "x", RunOptions(agents=["greedy"], budgets="price=20"), terms=EpochOptions(tracks=("numbers",)))
    secret = (tmp_path / "x" / SECRET).read_text().strip()
    assert len(secret) == 64 and stat.S_IMODE((tmp_path / "x" / SECRET).stat().st_mode) == 0o600
    assert secret not in made.to_json() and str(seed_of(secret)) not in made.to_json()
    assert made == read_epoch(tmp_path / "x") and made.begin == made.end == today()
    with pytest.raises(ConfigError, match="a secret is used for one epoch"):
        create(tmp_path / "x", RunOptions())


def test_what_an_epoch_cannot_be_is_said_before_a_secret_is_drawn(tmp_path: Path) -> None:
    def made(**terms: Any) -> object:
        return create(tmp_path / "x", RunOptions(agents=["greedy"]), terms=EpochOptions(**terms))

    with pytest.raises(ConfigError, match="expected a day not before"):
        made(begin="2026-12-02", end="2026-12-01")
    with pytest.raises(UnknownName, match="track of the suite"):
        made(tracks=("nombers",))
    assert not (tmp_path / "x").exists()


def test_every_track_of_the_default_suite_has_worlds_that_nobody_knows(tmp_path: Path) -> None:
    made = create(tmp_path / "x", RunOptions(), terms=EpochOptions(tasks=1, worlds=2))
    public = make_run_config("quick")
    assert [track.name for track in made.run.tracks] == [track.name for track in public.tracks]
    secret = (tmp_path / "x" / SECRET).read_text().strip()
    for track in made.secret_run(secret, made.references).tracks:
        worlds = {track.world.varied(condition.settings)[0].digest for condition in track.conditions}
        assert len(worlds) == 2 and public.track(track.name).digest not in worlds


def test_what_draws_secret_sessions_is_not_told_to_agents() -> None:
    known, secret = (base_env(costgym.make(SESSION, queries=9, world_seed=seed)) for seed in (0, 5))
    numbers = [env.reset(seed=0, options={"task": 7})[0] for env in (known, secret)]
    assert known.seat(SESSION).rules == secret.seat(SESSION).rules
    assert (known.account().session.value != secret.account().session.value).any()
    assert not all(np.array_equal(numbers[0][name], numbers[1][name]) for name in numbers[0])


def test_secret_plans_meet_every_sample_once_in_an_order_of_each_tasks_own() -> None:
    known, secret = (base_env(costgym.make(PLAN_CHAT, split="test", samples="each", arrangement=seed)) for seed in (0, 5))
    count, tasks = secret.instances, len(secret.numbers)
    played = [secret.instance(index, 0) for index in range(count)]
    assert len({(one.number, one.options["sample"]) for one in played}) == count == known.instances
    orders = {tuple(one.options["sample"] for one in played[task::tasks]) for task in range(tasks)}
    assert len(orders) == tasks
    one, other = known.outcome_table(), secret.outcome_table()
    assert sorted(other.numbers) == list(range(100)) and known.outcome_table().digest != other.digest
    assert other.score(3, 80, (), "label") == one.score(3, int(other.numbers[80]), (), "label")
    assert secret.world_spec().document == {**known.world_spec().document, "arrangement": 5}


def test_rows_are_what_was_played_in_the_secret_worlds_with_the_claim_beside(entries: Path, judged: Path) -> None:
    document = json.loads((judged / "board/leaderboard.json").read_text())
    ranked = rows(document)
    assert sorted(ranked) == ["Cheap", "Greedy", "Random"]
    references = {row["agent"]: row for row in document["rows"] if "submission" not in row}
    assert ranked["Greedy"][PASS] == references["greedy"][PASS] == ranked["Greedy"]["rerun"]["played"]
    assert ranked["Greedy"]["rerun"]["claimed"] == json.loads((entries / "Greedy/manifest.json").read_text())["rows"][0][PASS]
    assert {row["verified"] for row in document["rows"]} == {"rerun"} and {row["episodes"] for row in document["rows"]} == {8}
    assert document["epoch"]["entries"] == 3 and document["epoch"]["refused"] == 0
    claim = f"claimed {100 * ranked['Cheap']['rerun']['claimed']:.1f} %, played {100 * ranked['Cheap'][PASS]:.1f} %"
    assert claim in (judged / "board/index.html").read_text()


def test_before_the_end_nothing_tells_of_a_task_a_seed_or_an_episode(judged: Path) -> None:
    spring, shown = judged / "spring", judged / "board"
    published = "".join(path.read_text() for path in shown.rglob("*") if path.is_file())
    config = read_epoch(spring).secret_run((spring / SECRET).read_text().strip(), {"numbers": ("greedy",)})
    recorded_text = "".join(path.read_text() for path in (spring / "records").rglob("*.jsonl"))
    tasks = {json.loads(line)["task"] for line in recorded_text.splitlines() if '"regret"' in line}
    assert tasks and not any(f'"{task}"' in published for task in tasks)
    assert str(config.seed) not in published and config.tracks[0].digest not in published and "by_episode" not in published
    assert {path.name for path in shown.iterdir()} == {
        ".lock", PUBLIC, CHAIN, "leaderboard.json", "leaderboard.csv", "index.html",
    }  # fmt: skip
    verdict = verify(shown)
    assert verdict.problems == (f"{SECRET}: is not published before 2026-01-01 is over; until then no episode can be replayed",)


def test_once_the_secret_is_published_everything_is_replayed_from_nothing(
    entries: Path, judged: Path, revealed: Path, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork_workers(monkeypatch)
    before, after = (json.loads((shown / "leaderboard.json").read_text()) for shown in (judged / "board", revealed))
    verdict = verify(revealed)
    assert verdict.verified and verdict.episodes == 8 * len(before["rows"])
    assert verify(revealed, engine=Local(jobs=2)) == verdict
    assert [row[PASS] for row in after["rows"]] == [row[PASS] for row in before["rows"]]
    assert all(len(row["by_episode"][PASS]) == 8 for row in after["rows"])  # so that rows can be compared in pairs
    with pytest.raises(ConfigError, match="is over, since its secret is published"):
        judge([entries], begun, revealed)


def _line(change: Callable[[list[str]], object]) -> Callable[[Path], None]:
    def edit(out: Path) -> None:
        lines = (out / CHAIN).read_text().splitlines()
        change(lines)
        (out / CHAIN).write_text("".join(f"{line}\n" for line in lines))

    return edit


def _figure(number: int) -> Callable[[Path], None]:
    return _line(lambda lines: lines.__setitem__(number, lines[number].replace('"average_cost":', '"average_cost":1', 1)))


def _text(pattern: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(out: Path) -> None:
        path = next(path for path in sorted(out.rglob(pattern)) if old in path.read_text())
        path.write_text(path.read_text().replace(old, new, 1))

    return edit


MOVED = "does not follow the line before"
FORGED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a figure": (_figure(1), f"line 3: {MOVED}"),
    "the last figure": (_figure(-1), "replay derives other rows"),
    "a verdict less": (_line(lambda lines: lines.pop(1)), MOVED),
    "verdicts in another order": (_line(lambda lines: lines.insert(1, lines.pop())), MOVED),
    "a verdict twice": (_line(lambda lines: lines.append(lines[-1])), MOVED),
    "a space": (_line(lambda lines: lines.__setitem__(-1, lines[-1] + " ")), "is not written as"),
    "another secret": (lambda out: (out / SECRET).write_text("x" * 64), "is not the secret whose hash"),
    "the terms": (lambda out: with_secret(out, "another secret, drawn when all had been played"), MOVED),
    "an action": (_text("trajectories/*/*", '"actions":[', '"actions":[0,'), "is not the record of the verdict"),
    "a record less": (lambda out: shutil.rmtree(next((out / "records").iterdir())), "cannot be read"),
    "the table": (_text("leaderboard.json", '"verified": "rerun"', '"verified": null'), "verified: replay says"),
    "a file more": (lambda out: (out / "records/x").write_text(""), "is unexpected"),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_was_changed_on_the_board_of_an_epoch_is_named(name: str, revealed: Path, tmp_path: Path) -> None:
    forge, words = FORGED[name]
    forge(Path(shutil.copytree(revealed, tmp_path / "board")))
    assert words in " ".join(verify(tmp_path / "board").problems)


def test_two_judges_with_one_secret_and_a_judge_that_was_killed_reach_the_same_bytes(
    entries: Path, judged: Path, spring: Path, tmp_path: Path
) -> None:
    arguments = ("submit", "rerun", entries, "--epoch", spring, "--out", tmp_path / "board", "--jobs", "1", "--quiet")
    assert killed_after("costgym.simulators.files:LineFile.append", 20, *arguments)
    for count in range(1, 4):
        assert killed_after("costgym.experiments.board.epochs.chain:Chain.add", 1, *arguments)
        assert len(read_chain(tmp_path / "board", read_epoch(spring))) == count
    assert invoke(*arguments).exit_code == 0
    for path in sorted((judged / "board").iterdir()):
        assert path.read_bytes() == (tmp_path / "board" / path.name).read_bytes(), path.name
    assert len(read_chain(tmp_path / "board", read_epoch(spring))) == 4


def test_an_epoch_is_judged_between_its_days_and_its_secret_is_published_after_them(entries: Path, tmp_path: Path) -> None:
    later = epoch(tmp_path / "later", references=["greedy"], begin=today() + timedelta(1), end=today() + timedelta(2))
    with pytest.raises(ConfigError, match="begins on"):
        judge([entries], later, tmp_path / "board")
    now = epoch(tmp_path / "now", references=["greedy"], begin=today(), end=today())
    judge([], now, tmp_path / "board")
    with pytest.raises(ConfigError, match="who knew its secret before would know its worlds"):
        reveal(now, tmp_path / "board")


# -- identities ------------------------------------------------------------------------------------------------------------


def key(folder: Path, name: str) -> Path:
    path = folder / f"key of {name}"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)], check=True)
    return path


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    (tmp_path / "keys").mkdir()
    lines = [key(tmp_path / "keys", name).with_suffix(".pub").read_text() for name in ("Ann", "Bob")]
    (tmp_path / "keys.txt").write_text("# who may enter\n" + "".join(lines))
    return tmp_path / "keys.txt"


@needs_keys
def test_the_tries_of_a_key_are_one_row_with_their_mean_whatever_name_each_gives_itself(keys: Path, tmp_path: Path) -> None:
    spring = epoch(tmp_path / "spring", keys, references=["greedy", "cheapest"])
    mine = [entry(tmp_path / "entries", name, [agent]) for name, agent in (("Ann", "greedy"), ("Other", "random"))]
    theirs = entry(tmp_path / "entries", "Bob", ["greedy", "cheapest"])
    for agent_name in mine:
        sign_entry(agent_name, spring / PUBLIC, tmp_path / "keys/key of Ann")
    sign_entry(theirs, spring / PUBLIC, tmp_path / "keys/key of Bob")
    document = board([tmp_path / "entries"], spring, tmp_path / "board")
    ranked, references = rows(document), {row["agent"]: row for row in document["rows"] if "submission" not in row}
    assert sorted(ranked) == ["Ann", "Bob"]
    ann, bob = ranked["Ann"], ranked["Bob"]
    assert (ann["agent"], ann["rerun"]["tries"], ann["episodes"]) == ("2 tries (Ann)", 2, 16)
    figures = {row["agent"]: row["played"] for row in ann["rerun"]["figures"]}
    assert ann[PASS] == ann["rerun"]["played"] == sum(figures.values()) / 2 and figures["greedy"] == references["greedy"][PASS]
    # agents of one entry are tries too: nobody enters the best of a hundred
    assert bob[PASS] == (references["greedy"][PASS] + references["cheapest"][PASS]) / 2
    assert "mean of 2 tries" in (tmp_path / "board/index.html").read_text()
    reveal(spring, tmp_path / "board")
    assert verify(tmp_path / "board").verified
    after = rows(json.loads((tmp_path / "board/leaderboard.json").read_text()))["Ann"]
    assert sum(after["by_episode"][PASS]) / 8 == pytest.approx(ann[PASS])


@needs_keys
def test_an_entry_is_signed_by_a_registered_key_for_this_epoch_and_for_these_bytes(keys: Path, tmp_path: Path) -> None:
    spring, other = (epoch(tmp_path / name, keys, references=["greedy"]) for name in ("spring", "other"))
    with_secret(other, "of another epoch, in which the same people enter")
    made = entry(tmp_path / "entries", "Ann", ["greedy"])
    outsider = key(tmp_path, "Eve")

    def judged(name: str, change: Callable[[Path], object]) -> str:
        copy = Path(shutil.copytree(made, tmp_path / name / "entry"))
        change(copy)
        [verdict] = judge([copy], spring, tmp_path / name / "board")
        return "; ".join(verdict.reasons)

    refused = "entry.sig: is not by a key that is registered"
    assert refused in judged("unsigned", lambda copy: None)
    assert refused in judged("outsider", lambda copy: sign_entry(copy, spring, outsider))
    assert refused in judged("for another epoch", lambda copy: sign_entry(copy, other, tmp_path / "keys/key of Ann"))

    def changed(copy: Path) -> None:
        sign_entry(copy, spring, tmp_path / "keys/key of Ann")
        (copy / "code").mkdir()
        (copy / "code/own.py").write_text("raise SystemExit")

    assert refused in judged("changed", changed)
    assert judged("signed", lambda copy: sign_entry(copy, spring, tmp_path / "keys/key of Ann")) == ""


@needs_keys
def test_a_name_and_a_key_are_registered_once_however_they_are_written(keys: Path, tmp_path: Path) -> None:
    assert same_name(" THRIFTY   two ") == same_name("thrifty two") == same_name("Ｔhrifty\ttwo")
    spring = epoch(tmp_path / "spring", keys)
    before = read_epoch(spring)
    for name, path in (("ann ", key(tmp_path, "x")), ("Third", tmp_path / "keys/key of Bob")):
        kind, text = path.with_name(f"{path.name}.pub").read_text().split()[:2]
        (tmp_path / "more").write_text(f"{kind} {text} {name}\n")
        with pytest.raises(ConfigError, match="have the same name or key"):
            register(spring, tmp_path / "more")
    assert read_epoch(spring) == before
    (tmp_path / "more").write_text(key(tmp_path, "Zoe").with_suffix(".pub").read_text())
    assert [identity.name for identity in register(spring, tmp_path / "more").identities] == ["Ann", "Bob", "Zoe"]
    assert read_epoch(spring).terms == before.terms  # the chain goes on


@needs_keys
def test_verdicts_are_signed_where_the_judge_has_a_key(entries: Path, tmp_path: Path) -> None:
    mine = key(tmp_path, "judge")
    spring = epoch(tmp_path / "spring", references=["greedy"], judge=mine)
    with pytest.raises(ConfigError, match="expected the key whose public part"):
        judge([entries / "Cheap"], spring, tmp_path / "board")
    board([entries / "Cheap"], spring, tmp_path / "board", key=mine)
    path = tmp_path / "board" / CHAIN
    forged = path.read_text().replace('"average_cost":', '"average_cost":1', 1)
    path.write_text(forged.splitlines()[0] + "\n")
    with pytest.raises(DataError, match="is not signed by the judge's key"):
        read_chain(tmp_path / "board", read_epoch(spring))


# -- entries that cannot be played ---------------------------------------------------------------------------------------------


def _manifest(**changes: Any) -> Callable[[Path], object]:
    def edit(folder: Path) -> None:
        document = json.loads((folder / "manifest.json").read_text())
        document["run"] |= changes
        (folder / "manifest.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")

    return edit


def _agent(name: str) -> Callable[[Path], object]:
    def edit(folder: Path) -> None:
        text = (
            (folder / "manifest.json")
            .read_text()
            .replace('"greedy"', f'"{name}"')
            .replace("/greedy.", f"/{name.replace(':', '%3A')}.")
        )
        (folder / "manifest.json").write_text(text)

    return edit


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no JSON": (lambda folder: (folder / "manifest.json").write_text("[" * 200_000), "is not valid JSON"),
    "a perfect model": (_manifest(model="simulated:overlook=0"), "different: model"),
    "another search": (_manifest(search={"width": 9}), "different: search"),
    "another version": (_manifest(version="9.0"), "different: version"),
    "an edited episode": (lambda folder: next(folder.rglob("*.jsonl")).write_text("{}\n"), "digest: the file is not the one"),
    "a bound": (_agent("oracle"), "reads the world"),
    "weights that are elsewhere": (_agent("sb3:runs"), "its weights are not here"),
    "junk": (lambda folder: (folder / "junk.sh").write_text("#!"), "is unexpected"),
}


def test_an_entry_that_cannot_be_played_is_refused_in_words(entries: Path, spring: Path, tmp_path: Path) -> None:
    for number, (change, _) in enumerate(REFUSED.values()):
        change(Path(shutil.copytree(entries / "Greedy", tmp_path / f"entries/{number}")))
    shutil.copytree(entries / "Cheap", tmp_path / "entries/honest")
    *refused, honest = judge([tmp_path / "entries"], spring, tmp_path / "board")
    assert honest.accepted and not any(verdict.accepted for verdict in refused)
    for verdict, (name, (_, words)) in zip(refused, REFUSED.items(), strict=True):
        assert words in " ".join(verdict.reasons), name
    assert judge([tmp_path / "entries"], spring, tmp_path / "board") == []  # one verdict each


def test_a_folder_with_links_or_pipes_is_no_entry_and_nothing_is_said_of_it(
    entries: Path, spring: Path, tmp_path: Path
) -> None:
    changes: dict[str, Callable[[Path], object]] = {
        "a link": lambda folder: (folder / "link").symlink_to("/etc/passwd"),
        "a pipe": lambda folder: os.mkfifo(folder / "pipe"),
        "a second name": lambda folder: os.link(folder / "manifest.json", folder / "second"),
    }
    for name, change in changes.items():
        change(Path(shutil.copytree(entries / "Greedy", tmp_path / "entries" / name)))
    messages: list[str] = []
    assert judge([tmp_path / "entries"], spring, tmp_path / "board", say=messages.append) == []
    assert [message.partition(" is no entry")[0] for message in messages] == [f"{name}:" for name in changes]


def test_without_a_sandbox_own_code_goes_on_waiting(mine: Path, spring: Path, tmp_path: Path) -> None:
    messages: list[str] = []
    assert judge([mine], spring, tmp_path / "board", sandbox="none", say=messages.append) == []
    assert messages == ["Mine: waits for a machine with a sandbox, because its agents have their own code"]


@needs_sandbox
def test_own_code_is_played_in_the_sandbox_and_what_is_left_after_its_minutes_fails(
    mine: Path, spring: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = board([mine], spring, tmp_path / "board")
    references = {row["agent"]: row for row in document["rows"] if "submission" not in row}
    assert rows(document)["Mine"][PASS] == references["greedy"][PASS]
    # the time is up once its first row has begun: what is left fails, and is not refused
    monkeypatch.setattr(Limits, "exceeded", property(lambda limits: "its time is up" if limits.begun else ""))
    row = rows(board([mine], spring, tmp_path / "other"))["Mine"]
    assert (row[PASS], row["crashed_episodes"], row["episodes"]) == (0.0, 8, 8)


def test_a_process_that_breaks_the_judges_own_code_has_failed_in_that_episode(
    spring: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = read_epoch(spring).secret_run("s" * 64, {"numbers": ("own.py:Mine",)})
    fork_agents(monkeypatch)
    (tmp_path / "own.py").write_text(OWN)
    play_many = playing.play_many

    def breaks(env: Any, agent: Any, *about: Any, **more: Any) -> Any:
        if isinstance(agent, ProcessAgent):
            raise ZeroDivisionError("in the world, by what the agent did")
        return play_many(env, agent, *about, **more)

    monkeypatch.setattr(playing, "play_many", breaks)
    outputs = list(own_code(config, next(config.rows()), tmp_path, "none", Limits()))
    assert [output.result.crash for output in outputs] == ["it broke its world (ZeroDivisionError)"] * 8


def test_the_command_line_begins_judges_and_ends_an_epoch(
    entries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def message_of(*words: str, code: int = 0) -> str:
        result = invoke("submit", *words)
        assert result.exit_code == code, result.output
        return result.output

    out, shown = str(tmp_path / "spring"), str(tmp_path / "board")
    terms = ("--budgets", "price=20", "--tracks", "numbers", "--tasks", "1", "--worlds", "1", "--name", "spring")
    rerun = ("--epoch", out, "--out", shown, "--jobs", "1")
    assert "SHA-256" in message_of("epoch", "--out", out, *terms)
    assert "Cheap: played: numbers cheapest" in message_of("rerun", str(entries / "Cheap"), *rerun)
    monkeypatch.setattr(judging, "today", lambda: today() + timedelta(1))
    monkeypatch.setattr(engine, "default_jobs", lambda: 1)
    assert "replays everything" in message_of("epoch", "--out", out, "--reveal", shown)
    assert verify(shown).verified

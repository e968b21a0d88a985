"""Agents that are run again on secret seeds, and the alarms that ring for those that knew too much."""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import costgym
from costgym.envs.base import base_env
from costgym.envs.registration import class_of
from costgym.experiments.board.reruns.configuration import rerun_config
from costgym.experiments.board.reruns.equivalence import WORLD_SD, Gap, tasks_needed, too_few
from costgym.experiments.board.reruns.process_agent import ProcessAgent
from costgym.experiments.board.reruns.record import read_record, read_secret, seed_of_text, world_seed_of_text
from costgym.experiments.board.reruns.rerun import _play, commitment_of_text, new_secret, rerun
from costgym.experiments.board.reruns.sandbox import NONE
from costgym.experiments.board.reruns.wire import Patience, receive, send
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.manifest import read_manifest
from costgym.experiments.board.submissions.submission import pack
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import add, run
from costgym.experiments.play.experience import ExperienceSettings
from costgym.simulators.errors import ConfigError, DataError
from costgym.simulators.opencatp.scoring.evaluation import known_evaluator
from costgym.simulators.opencatp.scoring.table import TABLE
from costgym.simulators.scenario import load_scenario

MEMO = """
import json
from pathlib import Path
from costgym.agents import Agent
from costgym.experiments.play.trajectories.record import digest


class Memo(Agent):
    def __init__(self):
        self.known, self.met = {}, {}
        for line in (Path(__file__).parent / "oracle.jsonl").read_text().splitlines()[1:]:
            record = json.loads(line)
            self.known.setdefault(record["observations"][0], []).append(record["actions"])

    def reset(self, seat, observation, info, seed):
        key = digest(observation)
        plans = self.known.get(key, [[]])
        self.met[key] = self.met.get(key, -1) + 1
        self.plan, self.finish = list(plans[self.met[key] % len(plans)]), seat.finish_action

    def act(self, observation, info):
        action = self.plan.pop(0) if self.plan else self.finish
        return action if info["action_mask"][action] else self.finish
"""

COUNTS = """
from costgym.agents import Agent


class Counts(Agent):
    def __init__(self):
        self.episodes = 0

    def reset(self, seat, observation, info, seed):
        self.episodes += 1
        self.left, self.finish = self.episodes, seat.finish_action

    def act(self, observation, info):
        self.left -= 1
        return 0 if self.left else self.finish
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for the test's own agents, in which the test runs."""
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text("the same in every run of the tests\n")
    return path


def test_a_secret_is_drawn_once_and_must_fit_what_was_published(secret: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="used once"):
        new_secret(secret)
    assert len(new_secret(tmp_path / "another")) == 64 and 0 <= seed_of_text(read_secret(secret)) < 2**60
    with pytest.raises(ConfigError, match="does not match the published hash"):
        rerun(tmp_path, secret, tmp_path / "out", commitment="0" * 64)


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "other"), [("quick", "deer-rule"), ("btp", "cheapest")])
def test_a_row_ranks_by_its_rerun_and_one_that_learnt_the_seeds_by_heart_is_refuted(
    suite: str, other: str, secret: Path, code: Path, tmp_path: Path
) -> None:
    # the default suite plays one decision a step, BTP's calls side by side
    terms = {"budgets": "price=20", "episodes": 60}
    oracle = run(make_run_config(suite, agents=["oracle"], **terms), tmp_path / "oracle").folder  # type: ignore[arg-type]
    shutil.copy(oracle / "trajectories/numbers/oracle.price=20.jsonl", code / "oracle.jsonl")
    (code / "memo.py").write_text(MEMO)
    names = ["memo.py:Memo", "greedy", "react", other]
    board = run(make_run_config(suite, agents=names, **terms), tmp_path / "board").folder  # type: ignore[arg-type]
    packed = pack(board, tmp_path / "packed", "A", "a@example.org")
    rows = {row.agent: row for row in rerun(packed, secret, tmp_path / "again", commitment_of_text(read_secret(secret)), code)}
    assert [rows[name].agrees for name in names] == [False, True, True, True]
    assert rows["memo.py:Memo"].claimed > 0.9 > rows["memo.py:Memo"].rerun + 0.2
    # greedy is a reference itself: beside it there is no gap, however hard the secret worlds are
    assert abs(rows["greedy"].gap.gap) < 1e-9 and rows["greedy"].claimed != rows["greedy"].rerun
    assert {row.worlds for row in rows.values()} == {3}
    assert verify(tmp_path / "again").verified
    config = json.loads((tmp_path / "again" / "run.json").read_text())
    assert config["seed"] == seed_of_text(read_secret(secret))
    # what it knew by heart shows in its luck, too
    added = {row["agent"]: row.get("alarms", []) for row in add(board, packed)}
    assert "standard deviations" in added["memo.py:Memo (A)"][0]
    assert [added[f"{name} (A)"] for name in names[1:]] == [[], [], []]
    assert "Alarm, memo.py:Memo (A)" in (board / "index.html").read_text()
    assert verify(board).verified
    # what the rerun found flows into the board, and is derived again when the board is verified
    rows = {row["agent"]: row for row in add(board, packed, rerun=tmp_path / "again")}
    assert {row["verified"] for row in rows.values()} == {"rerun"} and {row["episodes"] for row in rows.values()} == {180}
    fallen = rows["memo.py:Memo (A)"]
    assert "the claim falls in the rerun" in fallen["alarms"][-1] and fallen["rerun"]["claim"] == "refuted"
    ranked = [row["agent"] for row in json.loads((board / "leaderboard.json").read_text())["rows"] if row["track"] == "numbers"]
    assert ranked.index("memo.py:Memo") < ranked.index("greedy") < ranked.index("memo.py:Memo (A)")
    assert "simulated model, rerun" in (board / "text.html").read_text()
    assert verify(board).verified
    record = board / "submissions/A/rerun/rerun.json"
    text = record.read_text()
    record.write_text(text.replace('"episodes": null', '"episodes": 59'))
    assert any("rerun" in problem for problem in verify(board).problems)
    record.write_text(text)


BOOK = """
import json
from pathlib import Path

from costgym.agents.classic import GreedyAgent


class Book(GreedyAgent):
    def reset(self, seat, observation, info, seed):
        super().reset(seat, observation, info, seed)
        self.plan = json.loads(Path(__file__).with_name("book.json").read_text()).get(str(seed))
        self.finish = seat.finish_action

    def act(self, observation, info):
        if self.plan is None:
            return super().act(observation, info)
        return self.plan.pop(0) if self.plan else self.finish
"""


@pytest.mark.slow
def test_a_book_of_the_oracles_actions_is_of_no_use_in_a_rerun(secret: Path, code: Path, tmp_path: Path) -> None:
    terms = {"budgets": "price=30", "episodes": 160}
    agents = ["oracle", "greedy", "cheapest"]
    board = run(make_run_config("quick", agents=agents, **terms), tmp_path / "board")  # type: ignore[arg-type]
    failed = {(each.task, each.seed) for each in board.results if each.agent == "greedy" and not each.strict}
    lines = (board.folder / "trajectories/numbers/oracle.price=30.jsonl").read_text().splitlines()[1:]
    env = base_env(costgym.make("costgym/Marketplace-v0", scenario="marketplace", split="test"))
    book = {}
    for record in map(json.loads, lines):
        if (record["task"], record["seed"]) in failed and record["final"]["strict"]:
            env.reset(seed=record["seed"], options={"task": record["number"]})
            book[str(env.agent_seed(record["seed"]))] = record["actions"]
    (code / "book.json").write_text(json.dumps(book))
    (code / "book.py").write_text(BOOK)
    own = run(make_run_config("quick", agents=["book.py:Book"], **terms), tmp_path / "own").folder  # type: ignore[arg-type]
    packed = pack(own, tmp_path / "packed", "A", "a@example.org")
    [row] = rerun(packed, secret, tmp_path / "again", code=code)
    assert row.claimed > 0.95 and row.claim == "refuted"
    [added] = add(board.folder, packed, rerun=tmp_path / "again")
    rows = {each["agent"]: each for each in json.loads((board.folder / "leaderboard.json").read_text())["rows"]}
    # no seed of the book comes up: the row is greedy's, to the last digit
    assert added["pass_rate_under_budget"] == pytest.approx(rows["greedy"]["pass_rate_under_budget"])
    assert added["verified"] == "rerun" and "the claim falls" in added["alarms"][0]
    assert verify(board.folder).verified


HEARTS = """
import json
from functools import lru_cache

import costgym
from costgym.agents import Agent
from costgym.agents.classic import GreedyAgent
from costgym.simulators.decision.samples import examples


@lru_cache(1)
def labels():
    env = costgym.make("costgym/DecisionAware-v0", split="test", disable_env_checker=True).unwrapped
    return {example.query: example for example in examples(env.world, "test")}


class Decide(Agent):
    env_id = "costgym/DecisionAware-v0"

    def reset(self, seat, observation, info, seed):
        self.known, self.none = labels().get(seat.query), seat.none_action

    def act(self, observation, info):
        if not info["searched"]:
            return 0 if self.known is not None and self.known.kind == "NoSearch" else 1
        chosen = self.none if self.known is None or self.known.gold is None else 2 + self.known.gold
        return chosen if info["action_mask"][chosen] else self.none


@lru_cache(1)
def facts():
    world = costgym.make("costgym/MarketplaceChat-v0", split="test", disable_env_checker=True).unwrapped.world
    return {world.tasks[n].query: [need.fact for need in world.tasks[n].needs] for n in world.tasks.numbers("test")}


class Answer(Agent):
    env_id = "costgym/MarketplaceChat-v0"

    def reset(self, seat, observation, info, seed):
        self.facts = next((known for query, known in facts().items() if query in seat.query), [])

    def act(self, observation, info):
        return json.dumps({"name": "finish", "arguments": {"answer": " ".join(map(str, self.facts))}})


@lru_cache(1)
def reliabilities():
    env = costgym.make("costgym/Marketplace-v0", split="test", disable_env_checker=True).unwrapped
    found = {}
    for number in env.numbers:
        key = env.reset(seed=0, options={"task": number})[0]["tools"][:, :11].tobytes()
        found[key] = {env.action_of(slot.index): slot.profile.reliability for slot in env.world.candidates(number)}
    return found


class Reliable(GreedyAgent):
    def reset(self, seat, observation, info, seed):
        super().reset(seat, observation, info, seed)
        self.known = reliabilities().get(observation["tools"][:, :11].tobytes(), {})

    def act(self, observation, info):
        tools = observation["tools"].copy()
        for row, reliability in self.known.items():
            tools[row, 3] = reliability
        return super().act({**observation, "tools": tools}, info)
"""


@pytest.mark.slow
def test_an_agent_that_knows_the_public_world_by_heart_falls_in_another(secret: Path, code: Path, tmp_path: Path) -> None:
    (code / "hearts.py").write_text(HEARTS)
    hearts = [f"hearts.py:{name}" for name in ("Decide", "Answer", "Reliable")]
    honest = ["deer-rule", "react", "greedy"]
    ran = run(make_run_config("quick", agents=[*hearts, *honest], budgets="price=20"), tmp_path / "board")
    packed = pack(ran.folder, tmp_path / "packed", "A", "a@example.org")
    rows = {row.agent: row for row in rerun(packed, secret, tmp_path / "again", code=code)}
    assert [rows[name].agrees for name in [*hearts, *honest]] == [False] * 3 + [True] * 3
    assert all(row.unpublished for row in rows.values())
    decide, answer, reliable = (rows[name] for name in hearts)
    assert (decide.claimed, answer.claimed, answer.rerun) == (0.9975, 1.0, 0.0) and decide.rerun < 0.5
    # reliabilities show in the tools that are chosen, long before they show in the figure that ranks
    assert reliable.p_value > 0.01 > reliable.lead_p_value and reliable.lead is not None
    assert reliable.lead[0] > reliable.lead[1] + 0.1
    # the worlds and the seed follow from the secret, and the board replays the rerun in its own such worlds
    config = json.loads((tmp_path / "again" / "run.json").read_text())
    world_seed = world_seed_of_text(read_secret(secret))
    assert {track["scenario"]["seed"] for track in config["tracks"]} == {world_seed} != {config["seed"]}
    added = {row["agent"]: row for row in add(tmp_path / "board", packed, rerun=tmp_path / "again")}
    assert [added[f"{name} (A)"]["rerun"]["claim"] for name in hearts] == ["refuted"] * 3
    assert {row["verified"] for row in added.values()} == {"rerun"}
    rung = [" ".join(added[f"{name} (A)"]["alarms"]) for name in hearts]
    assert "399 of 400 tasks have no flaw" in rung[0] and "nothing that the agent had read contained them" in rung[1]
    assert "more reliable than their rivals" in rung[2] and all("the claim falls in the rerun" in each for each in rung)
    assert verify(tmp_path / "board").verified


def test_generated_worlds_have_others_of_their_kind_and_recorded_ones_have_none() -> None:
    chat = class_of("costgym/MarketplaceChat-v0").world_class
    generated, recorded = (chat(load_scenario(name).model_dump(mode="json")) for name in ("marketplace", "toolbench"))
    other = generated.another({}, 7)
    assert other == chat({**generated.document, "seed": 7}) and other.digest != generated.digest
    assert recorded.another({}, 7) is None
    samples = class_of("costgym/DecisionAware-v0").world_class(load_scenario("decision").model_dump(mode="json"))
    another = samples.another({}, 7)
    assert another is not None and another.document == {**samples.document, "seed": 7}
    assert samples.another({"data": "folder"}, 7) is None
    assert class_of("costgym/OpenCATPChat-v0").world_class({}).another({}, 7) is None


def test_a_rerun_may_play_more_episodes_than_were_handed_in_but_none_twice(tmp_path: Path) -> None:
    ran = run(make_run_config("quick", agents=["greedy"], budgets="price=20", episodes=4), tmp_path / "board")
    manifest, _ = read_manifest(pack(ran.folder, tmp_path / "packed", "A", "a@example.org"))
    assert manifest is not None
    (track,) = rerun_config(manifest, "s" * 32, 640).tracks
    assert [each.episodes for each in track.conditions] == [640]
    (track,) = rerun_config(manifest, "s" * 32, 10_000).tracks
    assert [each.episodes for each in track.conditions] == [1600]  # 400 tasks, each under four seeds


def test_a_rerun_of_an_older_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rerun.json").write_text('{"format": "costgym.rerun/2"}')
    with pytest.raises(DataError, match="is not a record of a rerun in this version's form"):
        read_record(tmp_path)


PRY = """
import os
from pathlib import Path
from costgym.agents import Agent


class Pry(Agent):
    def reset(self, seat, observation, info, seed):
        self.finish, found = seat.finish_action, []
        for place in Path(__file__).with_name("where.txt").read_text().splitlines():
            for path in [Path(place), *Path(place).rglob("*")]:
                if path.is_file() and path.name != ".lock":
                    try:
                        found.append(path.read_text())
                    except (OSError, UnicodeDecodeError):
                        pass
        for name in ("mem", "maps", "environ"):
            try:
                Path(f"/proc/{os.environ.get('PARENT', os.getppid())}/{name}").open("rb").read(1)
                found.append(name)
            except OSError:
                pass
        Path(__file__).with_name("found.txt").write_text("".join(found))

    def act(self, observation, info):
        return self.finish
"""


def test_without_a_sandbox_an_agent_that_looks_for_the_seed_finds_nothing_and_is_not_marked_as_rerun(
    secret: Path, code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code / "pry.py").write_text(PRY)
    (code / "where.txt").write_text(str(tmp_path / "again"))
    board = run(make_run_config("quick", agents=["pry.py:Pry"], budgets="price=20", episodes=2), tmp_path / "board").folder
    packed = pack(board, tmp_path / "packed", "A", "a@example.org")
    (code / "found.txt").unlink()
    monkeypatch.setattr(sys, "stdin", io.StringIO(secret.read_text()))
    [row] = rerun(packed, Path("-"), tmp_path / "again", code=code, sandbox="none", worlds=1)
    assert row.agrees and not row.sandboxed
    found = (code / "found.txt").read_text()
    assert str(seed_of_text(read_secret(secret))) not in found and secret.read_text().strip() not in found
    assert not found or os.geteuid() == 0  # root alone may look into other processes
    assert str(seed_of_text(read_secret(secret))) in (tmp_path / "again" / "run.json").read_text()
    base = run(make_run_config("quick", agents=["cheapest"], budgets="price=20", episodes=2), tmp_path / "base").folder
    [added] = add(base, packed, rerun=tmp_path / "again")
    assert (added["verified"], added["rerun"]["sandboxed"]) == ("replayed", False)


PLANNER = """
from functools import lru_cache

import costgym
from costgym.agents import Agent, make_agent
from costgym.agents.seat import begin

ENV = "costgym/OpenCATPChat-v0"


class Ordered(Agent):
    env_id = ENV

    def __init__(self):
        self.met = {}

    def reset(self, seat, observation, info, seed):
        assert "sample" not in info
        number = seat.task.task_id
        sample = self.met[number] = self.met.get(number, 59) + 1
        env = costgym.make(ENV, tasks=seat.task.kind, samples="each", split="test", alpha=0.5, disable_env_checker=True)
        self.oracle = make_agent("oracle", ENV)
        self.seen = env.reset(seed=0, options={"task": number, "sample": sample})
        begin(self.oracle, env, *self.seen, 0)

    def act(self, observation, info):
        return self.oracle.act(*self.seen)
"""


@pytest.mark.slow
def test_a_planner_that_counts_the_public_samples_stays_replayed_and_an_alarm_rings(
    secret: Path, code: Path, tmp_path: Path
) -> None:
    (code / "planner.py").write_text(PLANNER)
    config = make_run_config("opencatp", agents=["planner.py:Ordered"], episodes=18, vary={"tasks": ("sequential",)})
    packed = pack(run(config, tmp_path / "board").folder, tmp_path / "packed", "A", "a@example.org")
    (row,) = rerun(packed, secret, tmp_path / "again", code=code)
    assert row.agrees and not row.unpublished and row.said().endswith("(on the public tasks)")
    (added,) = add(tmp_path / "board", packed, rerun=tmp_path / "again")
    assert added["verified"] == "replayed" and "18 of 18 tasks have no flaw" in added["alarms"][0]


@pytest.mark.slow
def test_plans_are_run_again_and_say_that_their_samples_are_public(secret: Path, tmp_path: Path) -> None:
    config = make_run_config("opencatp", agents=["few-shot", "random"], episodes=24)
    packed = pack(run(config, tmp_path / "board").folder, tmp_path / "packed", "A", "a@example.org")
    rows = rerun(packed, secret, tmp_path / "again")
    assert len(rows) == 4 and all(row.agrees and not row.unpublished for row in rows)
    added = add(tmp_path / "board", packed, rerun=tmp_path / "again")
    assert {row["verified"] for row in added} == {"replayed"} and all(row["rerun"]["claim"] != "refuted" for row in added)
    assert "Run again on the public tasks" in (tmp_path / "board" / "index.html").read_text()
    assert verify(tmp_path / "board").verified


@pytest.mark.slow
def test_plans_are_run_again_on_scenes_that_nobody_knew(secret: Path, tmp_path: Path) -> None:
    with np.load(TABLE, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["image"] = arrays["image"][:, ::-1]  # other samples in other places
    np.savez(tmp_path / "own.npz", **arrays)
    config = make_run_config("opencatp", agents=["few-shot"], episodes=24)
    packed = pack(run(config, tmp_path / "board").folder, tmp_path / "packed", "A", "a@example.org")
    rerun(packed, secret, tmp_path / "again", outcomes=tmp_path / "own.npz")
    added = add(tmp_path / "board", packed, rerun=tmp_path / "again")
    assert {row["verified"] for row in added} == {"rerun"} and verify(tmp_path / "board").verified
    shutil.copy(TABLE, tmp_path / "board/submissions/A/rerun/outcomes.npz")
    assert any("outcomes.npz" in problem for problem in verify(tmp_path / "board").problems)


def test_what_is_sent_of_an_outcome_table_is_its_train_split() -> None:
    env = costgym.make("costgym/OpenCATPChat-v0", samples="each", split="test").unwrapped
    env.reset(seed=0)
    sent = pickle.loads(pickle.dumps(known_evaluator(env.evaluator)))
    whole = env.evaluator.scores
    assert sent.scores.samples == 60 and sent.scores._source.scores.shape[2] == 60 < whole.scores.shape[2]
    assert np.array_equal(sent.scores._source.scores, whole.scores[:, :, :60])


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise SystemError('no')\n")
    with pytest.raises(DataError, match="SystemError: no"):
        ProcessAgent("bad.py:Bad", "costgym/Marketplace-v0", tmp_path)


def test_own_code_meets_no_task_twice_in_a_process_of_its_rerun(code: Path) -> None:
    (code / "counts.py").write_text(COUNTS)
    config = make_run_config("quick", agents=["counts.py:Counts"], budgets="price=20", episodes=8)
    row = next(row for row in config.rows() if row.track.name == "numbers")
    outputs = {output.result.episode: output for output in _play(config, row, None, code, NONE)}
    assert sorted(outputs) == list(range(8))
    # the process of an episode has played those before it by steps of four: one of the first task
    played = [len(json.loads(outputs[index].line or "")["actions"]) for index in range(8)]
    assert played == [1, 1, 1, 1, 2, 2, 2, 2]


def test_half_an_answer_is_not_waited_for_beyond_the_deadline() -> None:
    inner, outer = os.pipe()
    with os.fdopen(inner, "rb") as pipe, os.fdopen(outer, "wb") as other:
        send(other, b"whole")
        assert receive(Patience(pipe, 5.0)) == b"whole"
        other.write((9).to_bytes(8, "big") + b"half")
        other.flush()
        with pytest.raises(TimeoutError):
            receive(Patience(pipe, 0.05))


def test_past_uses_are_collected_in_the_world_of_the_rerun_and_lie_in_no_file_meanwhile(
    secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    terms = {"budgets": "price=20", "episodes": 4, "experience": ExperienceSettings(uses=0.02)}
    ran = run(make_run_config("quick", agents=["react+btp"], **terms), tmp_path / "board")  # type: ignore[arg-type]
    packed = pack(ran.folder, tmp_path / "packed", "A", "a@example.org")
    (row,) = rerun(packed, secret, tmp_path / "again")
    assert row.agrees and not list((tmp_path / "cache").rglob("*.xz"))
    board, again = (json.loads((tmp_path / name / "leaderboard.json").read_text()) for name in ("board", "again"))
    assert board["tracks"][-1]["experience"]["digest"] != again["tracks"][-1]["experience"]["digest"]
    assert verify(tmp_path / "again").verified


def test_on_fewer_tasks_than_are_said_to_be_needed_no_claim_is_confirmed() -> None:
    for spread, per_task in ((0.0, 0.01), (0.012, 0.1), (0.02, 0.25)):
        needed = tasks_needed(per_task, spread, 3, False)
        assert needed is not None
        for tasks, confirmed in ((needed, True), (needed - 1, False)):
            error = math.sqrt((per_task / tasks + spread**2) * (1 + 1 / 3))
            assert Gap(0.0, error, 0.5, error).confirmed is confirmed
        assert too_few(needed, needed) == "" and f"about {needed} are needed" in too_few(needed - 1, needed)
    # worlds of decisions differ by more than five points allow, however many tasks there are
    assert tasks_needed(0.1, WORLD_SD["decisions"], 3, True) is None and "no number of tasks" in too_few(10**6, None)
    assert (tasks_needed(0.0, 0.0, 3, True) or 0) > 20  # on the 20 tasks of `quick` a share is never that certain

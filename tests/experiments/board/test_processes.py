"""The process of an agent's own code: what reaches it, what it may answer, and what it remembers."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import costgym
from costgym.envs.registration import class_of
from costgym.experiments.board.epochs.playing import own_code
from costgym.experiments.board.reruns.process_agent import Limits, ProcessAgent
from costgym.experiments.board.reruns.sandbox import NONE
from costgym.experiments.board.reruns.wire import Patience, receive, send
from costgym.experiments.board.run_config import make_run_config
from costgym.simulators.errors import DataError
from costgym.simulators.opencatp.scoring.evaluation import known_evaluator
from costgym.simulators.scenario import load_scenario
from tests.helpers.agent_processes import fork_agents

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
    plans = class_of("costgym/OpenCATPChat-v0").world_class({}).another({}, 7)
    assert plans is not None and plans.document == {"arrangement": 7}


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


def test_half_an_answer_is_not_waited_for_beyond_the_deadline() -> None:
    inner, outer = os.pipe()
    with os.fdopen(inner, "rb") as pipe, os.fdopen(outer, "wb") as other:
        send(other, b"whole")
        assert receive(Patience(pipe, 5.0)) == b"whole"
        other.write((9).to_bytes(8, "big") + b"half")
        other.flush()
        with pytest.raises(TimeoutError):
            receive(Patience(pipe, 0.05))


def test_own_code_meets_no_task_twice_in_a_process_of_its_rerun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fork_agents(monkeypatch)
    code = tmp_path
    monkeypatch.chdir(code)
    (code / "counts.py").write_text(COUNTS)
    config = make_run_config("quick", agents=["counts.py:Counts"], budgets="price=20", episodes=8)
    row = next(row for row in config.rows() if row.track.name == "numbers")
    outputs = {output.result.episode: output for output in own_code(config, row, code, NONE, Limits())}
    assert sorted(outputs) == list(range(8))
    # the process of an episode has played those before it by steps of four: one of the first task
    played = [len(json.loads(outputs[index].line or "")["actions"]) for index in range(8)]
    assert played == [1, 1, 1, 1, 2, 2, 2, 2]

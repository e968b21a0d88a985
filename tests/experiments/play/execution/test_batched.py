"""Episodes side by side at one model are the episodes that it plays alone."""

import threading

import pytest

import costgym
from costgym.agents.llm.session import LlmAgent
from costgym.agents.llm.strategies import ReAct
from costgym.agents.models.base import FunctionCall, Message, reply
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.leaderboard import run
from costgym.experiments.play.execution.concurrent import Batched
from costgym.simulators.errors import InfrastructureError
from tests.helpers.command_line import invoke
from tests.helpers.tiny_model import save_tiny_model

ENV = "costgym/MarketplaceChat-v0"


class Counting:
    """Calls the first function as often as the query has words, then finishes; notes how many asked together."""

    name = "counting"

    def __init__(self, broken_at: int = -1) -> None:
        self.sizes: list[int] = []
        self.broken_at = broken_at

    def reset(self, seed: int) -> None: ...

    def complete(self, messages, functions, purpose="act"):
        if not functions:
            return reply("A", (), messages, functions)
        turns = sum(message.role == "assistant" for message in messages)
        if turns < len(messages[1].content) % 4:
            return reply("", [FunctionCall(functions[0].name, {})], messages, functions)
        return reply("", [FunctionCall("finish", {"answer": "?"})], messages, functions)

    def side_by_side(self, seats):
        return Talks(self)


class Talks:
    """Replies take one, two or three steps."""

    def __init__(self, model):
        self.model, self.left, self.replies = model, {}, {}

    def begin(self, seat, messages, functions):
        self.replies[seat] = self.model.complete(messages, functions)
        self.left[seat] = len(messages) % 3

    def step(self):
        if len(self.model.sizes) == self.model.broken_at:
            self.model.broken_at = -1
            raise InfrastructureError("out of memory")
        self.model.sizes.append(len(self.left))
        done = [seat for seat, left in self.left.items() if not left]
        self.left = {seat: left - 1 for seat, left in self.left.items() if left}
        return {seat: self.replies.pop(seat) for seat in done}


def rolled(model, episodes, seed, engine=None, progress=None):
    return costgym.rollout(costgym.make(ENV, split="test"), LlmAgent(model, ReAct()), episodes, seed, progress, engine)


def test_results_are_those_of_a_rollout_and_replies_are_asked_for_together():
    alone = rolled(Counting(), 7, 3)
    model = Counting()
    done: list[int] = []
    assert rolled(model, 7, 3, Batched(model, 3), done.append) == alone
    assert max(model.sizes) == 3 and len(model.sizes) < sum(model.sizes)
    assert done == list(range(1, 8))
    again = Counting()
    rolled(again, 7, 3, Batched(again, 3))
    assert again.sizes == model.sizes  # who meets in a batch does not depend on the threads


def test_a_model_that_fails_once_is_asked_again():
    model = Counting(broken_at=0)
    assert not any(result.void for result in rolled(model, 2, 0, Batched(model, 2)))  # each is tried again


def test_an_error_leaves_no_thread_waiting_and_neither_does_a_reader_who_stops():
    model = Counting()
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        list(Batched(model, 2).stream(lambda shared, task: [1 / (2 - task)], model, range(4)))
    stream = Batched(model, 3).stream(ask_for_ever, [model], range(9))
    assert next(stream) == 0
    stream.close()
    assert threading.active_count() == before


def ask_for_ever(shared, task):
    """The first task ends after one question; every other asks without end."""
    (model,) = shared
    while True:
        model.complete([Message("system", "")], [])
        if task == 0:
            return [task]


def test_a_board_played_in_batches_has_the_bytes_of_one_played_alone(tmp_path):
    agents, model_name, uses = ["react", "greedy", "react+btp"], "local:counting", "dfsdt:2"
    config = make_run_config(agents=agents, budgets="price=20", episodes=6, model=model_name, experience=uses)
    alone = run(config, tmp_path / "alone", engine=Batched(Counting(), 1))
    model = Counting()
    batched = run(config, tmp_path / "batched", engine=Batched(model, 3))
    assert max(model.sizes) == 3
    for name in ("episodes.jsonl", "leaderboard.json"):
        assert (batched.folder / name).read_bytes() == (alone.folder / name).read_bytes()


@pytest.mark.slow
def test_the_command_plays_a_local_model_in_batches(tmp_path):
    pytest.importorskip("torch", reason="the extra `train` is not installed")
    model = f"local:{save_tiny_model(tmp_path / 'm')},max_tokens=2"
    common = ("run", "--agent", "react", "--model", model, "--documents", "short", "--episodes", 3, "--json")
    assert invoke(*common, tmp_path / "alone.json").exit_code == 0
    assert invoke(*common, tmp_path / "batch.json", "--batch", 2).exit_code == 0
    assert (tmp_path / "alone.json").read_text() == (tmp_path / "batch.json").read_text()
    refused = invoke("run", "--agent", "react", "--batch", 2)
    assert refused.exit_code == 2 and "--batch: expected --model local:FOLDER" in refused.stderr

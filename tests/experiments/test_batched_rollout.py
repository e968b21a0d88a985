"""Episodes side by side at one model are the episodes that it plays alone."""

from __future__ import annotations

import pytest

import costgym
from costgym.agents.llm.agent import LlmAgent
from costgym.agents.models.base import FunctionCall, reply
from costgym.agents.strategies import ReAct
from costgym.experiments.batched_rollout import rollout_batched
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
        turns = sum(message.role == "assistant" for message in messages)
        if turns < len(messages[1].content) % 4:
            return reply("", [FunctionCall(functions[0].name, {})], messages, functions)
        return reply("", [FunctionCall("finish", {"answer": "?"})], messages, functions)

    def complete_many(self, requests):
        if len(self.sizes) == self.broken_at:
            self.broken_at = -1
            raise InfrastructureError("out of memory")
        self.sizes.append(len(requests))
        return [self.complete(*request) for request in requests]


def player(model):
    return LlmAgent(model, ReAct()), costgym.make(ENV, split="test")


def test_results_are_those_of_a_rollout_and_replies_are_asked_for_together():
    agent, env = player(Counting())
    alone = costgym.rollout(env, agent, 7, seed=3)
    model = Counting()
    done: list[int] = []
    assert rollout_batched(player, model, 7, 3, 3, done.append) == alone
    assert max(model.sizes) == 3 and len(model.sizes) < sum(model.sizes)
    assert done == list(range(1, 8))
    again = Counting()
    rollout_batched(player, again, 7, 3, 3)
    assert again.sizes == model.sizes  # who meets in a batch does not depend on the threads


def test_a_model_that_fails_once_is_asked_again_and_an_error_leaves_no_thread_waiting():
    results = rollout_batched(player, Counting(broken_at=0), 2, 0, 2)
    assert not any(result.void for result in results)  # each is tried again
    with pytest.raises(ZeroDivisionError):
        rollout_batched(lambda member: 1 / 0, Counting(), 4, 0, 2)


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

"""Learnt policies of sessions: one at a time they play as side by side, and ask no tool again that has refused a call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import costgym
from costgym.agents import make_agent
from costgym.agents.base import SESSION
from costgym.experiments.play.rollout import play
from costgym.simulators.status import LIMITS
from tests.helpers.training import TRAINERS, one_thread

torch = pytest.importorskip("torch", reason="the train extra is not installed")


@pytest.mark.native
@pytest.mark.parametrize("memory", ["counts", "raw"])
def test_an_agent_plays_as_its_network_is_measured(memory: str, tmp_path: Path) -> None:
    from costgym.agents.checkpoints import load_weights, newest
    from costgym.agents.sessions.network import SessionNetwork
    from costgym.experiments.train.sessions.train import measure

    with one_thread():
        TRAINERS["sessions"].train(tmp_path / "run", memory=memory)
        network = SessionNetwork(memory)
        load_weights(newest(tmp_path / "run"), network.state_dict())
        env = costgym.make(SESSION, split="valid", memory=memory)
        agent = make_agent(f"sessions:{tmp_path / 'run'}", SESSION)
        alone = [play(env, agent, number, 0).value_share for number in env.unwrapped.numbers[:4]]  # type: ignore[attr-defined]
        assert alone == measure(network, "valid", 4).tolist()


@pytest.mark.native
def test_multipliers_price_the_shares_of_money_and_time_that_are_spent() -> None:
    from costgym.agents.sessions.network import SessionNetwork
    from costgym.experiments.train.sessions.settings import SessionSettings
    from costgym.experiments.train.sessions.train import Rollout

    def rewards(multipliers: list[float], rate: float) -> tuple[torch.Tensor, torch.Tensor]:
        settings = SessionSettings(n_envs=2, n_steps=400, lagrangian=True, multiplier_rate=rate)
        torch.manual_seed(0)
        kept = Rollout(settings, 0, multipliers).play(SessionNetwork())
        return kept["reward"], kept["end"]

    with one_thread():
        free, end = rewards([0.0, 0.0], rate=0.0)
        priced, _ = rewards([1.0, 0.0], rate=0.0)
        rewards(moved := [0.0, 0.0], rate=0.3)
    first = int(end[:, 0].nonzero()[0])  # the untrained policy spends several times the money of its first session
    assert float((free - priced)[: first + 1, 0].sum()) > 2.0
    assert moved[0] == pytest.approx(0.3)  # and an excess counts once at most
    assert 0.0 < moved[1] <= moved[0]


def test_a_policy_on_counts_wants_counts(tmp_path: Path) -> None:
    from costgym.agents.checkpoints import save_checkpoint
    from costgym.agents.sessions.learnt import SessionConfig
    from costgym.agents.sessions.network import SessionNetwork

    network = SessionNetwork("counts")
    save_checkpoint(tmp_path, 1, network.state_dict(), {}, {})
    (tmp_path / "config.json").write_text(SessionConfig(settings={}, network=network.describe()).model_dump_json())
    env = costgym.make(SESSION, split="valid", memory="raw")
    with pytest.raises(costgym.ConfigError, match='expected memory="counts"'):
        play(env, make_agent(f"sessions:{tmp_path}", SESSION), 100_000, 0)


def test_a_recurrent_policy_plays_alike_beside_counts_which_it_does_not_see(tmp_path: Path) -> None:
    from costgym.agents.checkpoints import save_checkpoint
    from costgym.agents.sessions.learnt import SessionConfig
    from costgym.agents.sessions.network import SessionNetwork

    with one_thread():
        torch.manual_seed(0)
        network = SessionNetwork("raw")
        torch.nn.init.constant_(network.others.bias, -5.0)  # rather calls than leaves a query
        save_checkpoint(tmp_path, 1, network.state_dict(), {}, {})
        (tmp_path / "config.json").write_text(SessionConfig(settings={}, network=network.describe()).model_dump_json())
        agent = make_agent(f"sessions:{tmp_path}", SESSION)
        logs = [
            play(costgym.make(SESSION, split="valid", memory=memory, queries=20), agent, 100_000, 0).log
            for memory in ("raw", "counts")
        ]
    assert len(logs[0]) > 20
    assert logs[0] == logs[1]


@pytest.mark.parametrize(("name", "env_id"), [("zoo:sessions", SESSION), ("zoo:lagrangian", "costgym/Marketplace-v0")])
def test_no_tool_that_refused_a_call_is_asked_again(name: str, env_id: str) -> None:
    env, agent = costgym.make(env_id, split="train"), make_agent(name, env_id)
    refusals = 0
    for number in (22, 30, 31) if env_id == SESSION else range(230, 240):
        observation, info = env.reset(seed=0, options={"task": number})
        agent.reset(env.unwrapped.seat(env_id), observation, info, 0)  # type: ignore[attr-defined]
        shut, query, over = set[int](), info.get("query"), False
        while not over:
            action = agent.act(observation, info)
            assert action not in shut
            observation, _, terminated, truncated, info = env.step(action)
            if info.get("query") != query:
                shut, query = set(), info.get("query")
            elif info["status"] in LIMITS:
                shut.add(int(np.asarray(action)))
                refusals += 1
            over = terminated or truncated
    assert refusals

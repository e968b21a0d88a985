"""Learnt policies of sessions: one at a time they play as side by side, and ask no tool again that has refused a call."""

from pathlib import Path

import numpy as np
import pytest

import costgym
from costgym.agents import make_agent
from costgym.agents.base import NUMERIC, SESSION, SESSION_1
from costgym.experiments.play.episodes import play
from costgym.simulators.status import LIMITS
from tests.helpers.training import TRAINERS, one_thread

torch = pytest.importorskip("torch", reason="the train extra is not installed")


@pytest.mark.native
def test_the_agent_plays_the_network_that_stable_baselines_trained(tmp_path: Path) -> None:
    with one_thread():
        TRAINERS["sessions"].train(tmp_path / "run")
        env = costgym.make(SESSION, split="valid", queries=20)
        logs = [play(env, make_agent(f"sessions:{tmp_path / 'run'}", SESSION), 100_000, 0).log for _ in range(2)]
    assert logs[0] == logs[1] and len(logs[0]) >= 20


@pytest.mark.native
def test_a_policy_of_a_level_plays_that_level_as_the_native_batch_does_and_no_other(tmp_path: Path) -> None:
    from costgym.agents.sessions.learnt import SessionAgent

    with one_thread():
        TRAINERS["sessions-1"].train(tmp_path / "run")
        agent, easy = SessionAgent(tmp_path / "run"), "costgym/MarketplaceSessionEasy-v1"
        played = play(costgym.make(easy, split="valid"), agent, 100_003, 0)
        envs = costgym.make_vec(easy, 1, split="valid")
        seen, info = envs.reset(seed=0, options={"task": 100_003})
        over = False
        while not over:
            shown = {name: torch.from_numpy(part) for name, part in seen.items()}
            with torch.inference_mode():  # version 1's network reads nothing but the observation and the mask
                actions = agent._network(shown, None, torch.from_numpy(envs.action_masks()))[0].argmax(-1)
            seen, _, ended, cut, info = envs.step(actions.numpy())
            over = bool(ended[0] | cut[0])
        assert played.value_share == info["value_share"][0]
    problem = (
        'expected memory="counts", 2 capabilities and 4 to 8 tools, as in training in costgym/MarketplaceSessionEasy-v1, got'
    )
    with pytest.raises(costgym.ConfigError, match=problem):
        play(costgym.make(SESSION_1, split="valid"), agent, 100_000, 0)
    with pytest.raises(costgym.ConfigError, match=f"which it was trained in, got {SESSION}"):
        play(costgym.make(SESSION, split="valid"), agent, 100_000, 0)


@pytest.mark.native
def test_a_batch_of_sessions_shows_what_is_left_and_masks_tools_that_refused(tmp_path: Path) -> None:
    from costgym.experiments.train.sb3.decisions import LEFT, ToolVecEnv

    env = ToolVecEnv(8, env_id=SESSION, split="train")
    env.seed(0)
    seen, refusals = env.reset(), 0
    for _ in range(300):
        queries = env.info["query"].copy()
        actions = env.action_masks().argmax(1)  # the same tool again and again, until it refuses
        seen, rewards, ended, _ = env.step(actions)
        left = np.stack([env.info["budget_remaining_price"], env.info["budget_remaining_seconds"]], -1)
        assert np.allclose(seen[LEFT], left, rtol=1e-6) and np.abs(rewards).max() < 1.0
        for i in np.flatnonzero(np.isin(env.statuses, LIMITS) & ~ended & (queries == env.info["query"])):
            assert not env.action_masks()[i, actions[i]]
            refusals += 1
    assert refusals


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"scenario": "storm"}, "draws its own tools"), ({"split": "train-large"}, "expected train in"),
        ({"hidden_size": 8}, "hidden_size.*is a setting of"), ({"algorithm": "dqn"}, "train PPO"),
        ({"env": "CartPole-v1"}, "CartPole"), ({"env": "costgym/MarketplaceSessionHrad-v1"}, "MarketplaceSessionHard-v1"),
    ],
)  # fmt: skip
def test_what_sessions_cannot_be_trained_with_is_refused(options: dict[str, object], problem: str, tmp_path: Path) -> None:
    from costgym.experiments.train.sb3.train import train_ppo

    with pytest.raises(costgym.CostGymError, match=problem):
        train_ppo(tmp_path / "run", **{"env": SESSION, "steps": 8, **options})  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


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


@pytest.mark.parametrize(
    ("name", "env_id"), [("zoo:sessions-v0", SESSION), ("zoo:sessions", SESSION_1), ("zoo:lagrangian", NUMERIC)]
)
def test_no_tool_that_refused_a_call_is_asked_again(name: str, env_id: str) -> None:
    env, agent = costgym.make(env_id, split="train"), make_agent(name, env_id)
    refusals = 0
    for number in {NUMERIC: range(230, 240), SESSION: (22, 30, 31), SESSION_1: (6, 7, 11)}[env_id]:
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

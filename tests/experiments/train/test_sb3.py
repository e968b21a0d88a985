"""Reinforcement learning: the environment it sees, its arithmetic, its checkpoints."""

import importlib.util
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import costgym
from costgym.agents.checkpoints import newest, read_state
from costgym.agents.sb3 import Sb3Config
from costgym.agents.settings import NetworkSettings, read_config
from costgym.experiments.train.run import open_run, read_curve
from costgym.experiments.train.sb3.settings import Lagrangian
from costgym.experiments.train.sb3.train import train_dqn, train_ppo
from costgym.simulators.errors import ConfigError, UnknownName
from tests.helpers.training import DQN, PPO, StopAt

torch = pytest.importorskip("torch", reason="reinforcement learning needs torch (the train extra)")
for module in ("stable_baselines3", "sb3_contrib", "safetensors", "numba"):
    pytest.importorskip(module, reason=f"reinforcement learning needs {module} (the train extra)")

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


# -- what is seen --------------------------------------------------------------------------------------------------------------


@pytest.mark.native
def test_a_decision_is_a_step_of_the_public_environment() -> None:
    from costgym.experiments.train.sb3.decisions import ToolVecEnv

    settings: dict[str, Any] = {"scenario": "marketplace", "split": "train", "budget": {"price": 20}, "enforcement": "refuse"}
    batch = ToolVecEnv(1, **settings)
    scalar = costgym.make("costgym/Marketplace-v0", **settings)
    batch.seed(5)
    seen = batch.reset()
    observation, info = scalar.reset(seed=5)
    generator = np.random.default_rng(0)
    done, total, steps = False, 0.0, 0
    while not done:
        assert all(np.array_equal(seen[name][0], observation[name]) for name in observation)
        action = int(generator.choice(np.flatnonzero(batch.action_masks()[0])))
        observation, reward, done, _, info = scalar.step(action)
        seen, rewards, dones, _ = batch.step(np.array([action]))
        assert (rewards[0], bool(dones[0])) == (np.float32(reward), done)
        total, steps = total + reward, steps + 1
    finished = batch.finished[0]
    assert (finished.reward, finished.costs["price"], finished.success, finished.steps) == pytest.approx(
        (total, info["cost_sum"], info["is_success"], steps)
    )


@pytest.mark.native
def test_the_multiplier_takes_from_the_reward_what_the_cost_is_worth() -> None:
    from costgym.experiments.train.sb3.decisions import ToolVecEnv

    plain, priced = (ToolVecEnv(4, scenario="marketplace", budget={"price": 20}) for _ in range(2))
    priced.multipliers = {"price": 0.25}
    for env in (plain, priced):
        env.seed(1)
        env.reset()
    actions = plain.action_masks().argmax(1)
    world = plain.env.scalar.world
    rewards, priced_rewards = plain.step(actions)[1], priced.step(actions)[1]
    costs = -rewards * world.max_price / (1 - world.alpha)
    assert costs.min() >= 1.0
    assert priced_rewards == pytest.approx(rewards - 0.25 * costs, rel=1e-5)


@pytest.mark.native
def test_in_sessions_reward_and_penalty_keep_their_scale_under_any_multiplier() -> None:
    from costgym.experiments.train.sb3.decisions import SESSION_SCALE, ToolVecEnv

    plain, priced = (ToolVecEnv(8, env_id="costgym/MarketplaceSession-v1", budget={}) for _ in range(2))
    priced.multipliers = {"price": 3.0}
    for env in (plain, priced):
        env.seed(1)
        env.reset()
    earned = False
    for _ in range(30):
        actions = plain.action_masks().argmax(1)
        rewards, priced_rewards = plain.step(actions)[1], priced.step(actions)[1]
        costs = SESSION_SCALE / plain.env.scalar.rules.queries * plain.costs["price"]
        np.testing.assert_allclose(4.0 * priced_rewards, rewards - 3.0 * costs, atol=1e-6)
        earned |= bool(rewards.any() and costs.any())
    assert earned


@pytest.mark.native
def test_only_calls_that_can_bring_a_missing_fact_are_allowed() -> None:
    from costgym.experiments.train.sb3.decisions import ToolVecEnv

    free, narrow = (ToolVecEnv(16, mask=mask, scenario="marketplace") for mask in ("legal", "useful"))
    for env in (free, narrow):
        env.seed(0)
        env.reset()
    allowed = narrow.action_masks()
    assert (allowed & ~free.action_masks()).sum() == 0
    assert allowed[:, -1].all() and 0 < allowed[:, :-1].sum() < free.action_masks()[:, :-1].sum()


def observation(count: int = 3) -> dict[str, Any]:
    from costgym.experiments.train.sb3.decisions import ToolVecEnv

    env = ToolVecEnv(count, scenario="marketplace")
    env.seed(0)
    return {name: torch.from_numpy(part.copy()) for name, part in env.reset().items()}


@pytest.mark.native
def test_the_order_of_tools_and_needs_does_not_matter() -> None:
    from costgym.agents.tool_network import ToolNetwork
    from costgym.envs.features.templates import TOOL_FEATURES

    torch.manual_seed(0)
    network, seen = ToolNetwork(NetworkSettings(hidden_size=16)), observation()
    logits, value = network(seen)
    tools, needs = torch.randperm(16), torch.randperm(6)
    first = TOOL_FEATURES.index("need_1")
    moved = {**seen, "tools": seen["tools"][:, tools].clone(), "needs": seen["needs"][:, needs]}
    moved["tools"][..., first : first + 6] = moved["tools"][..., first : first + 6][..., needs]
    moved_logits, moved_value = network(moved)
    assert torch.allclose(moved_logits[:, :16], logits[:, tools], atol=1e-6)
    assert torch.allclose(moved_logits[:, 16:], logits[:, 16:], atol=1e-6)
    assert torch.allclose(moved_value, value, atol=1e-6)


@pytest.mark.native
def test_the_number_of_steps_so_far_is_not_read() -> None:
    from costgym.agents.tool_network import ToolNetwork
    from costgym.envs.features.templates import RESOURCE_FEATURES

    network, seen = ToolNetwork(), observation()
    later = {**seen, "resources": seen["resources"].clone()}
    later["resources"][:, RESOURCE_FEATURES.index("step")] = 0.9
    assert torch.equal(network(seen)[0], network(later)[0])


# -- arithmetic ----------------------------------------------------------------------------------------------------------------


def test_dual_ascent_moves_the_multiplier_by_rate_times_overspending() -> None:
    constraint = Lagrangian(limit=10.0, rate=0.01, gain=0.1, margin=0.1)
    assert constraint.update(0.5, 12.0) == pytest.approx((0.5 + 0.01 * 3.0, 0.53 + 0.1 * 3.0))
    assert constraint.update(0.5, 6.0) == pytest.approx((0.5 - 0.01 * 3.0, 0.47 - 0.1 * 3.0))
    assert constraint.update(0.01, 0.0) == (0.0, 0.0)
    # a policy that spends many times the limit winds up no more than spending nothing takes back
    assert constraint.update(0.5, 100.0) == pytest.approx((0.5 + 0.01 * 9.0, 0.59 + 0.1 * 9.0))


def example(name: str) -> Any:
    sys.path.insert(0, str(EXAMPLES))
    try:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        assert spec is not None and spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[name] = loaded
        spec.loader.exec_module(loaded)
        return loaded
    finally:
        sys.path.remove(str(EXAMPLES))


def test_advantages_are_those_worked_out_by_hand() -> None:
    rewards, values = torch.tensor([[1.0], [0.0], [2.0]]), torch.tensor([[0.5], [1.0], [0.25]])
    ends = torch.tensor([[False], [True], [False]])
    advantages = example("ppo_marketplace").advantages(rewards, values, ends, torch.tensor([3.0]), 0.5)
    # step 2: 2 + 3 - 0.25; step 1 ends an episode: 0 - 1; step 0: 1 + 1 - 0.5 and half of step 1's
    assert advantages.flatten().tolist() == [1.5 + 0.5 * -1.0, -1.0, 4.75]


def test_the_buffer_of_sb3_agrees() -> None:
    from gymnasium import spaces
    from sb3_contrib.common.maskable.buffers import MaskableRolloutBuffer

    buffer = MaskableRolloutBuffer(3, spaces.Box(0, 1, (1,)), spaces.Discrete(2), gamma=1.0, gae_lambda=0.5)
    starts = [True, False, True]
    for reward, value, start in zip((1.0, 0.0, 2.0), (0.5, 1.0, 0.25), starts, strict=True):
        step = np.array([[0.0]]), np.array([[0]]), np.array([reward]), np.array([start])
        buffer.add(*step, torch.tensor([value]), torch.tensor([0.0]), action_masks=np.ones((1, 2)))
    buffer.compute_returns_and_advantage(torch.tensor([3.0]), np.array([False]))
    assert buffer.advantages.flatten().tolist() == [1.0, -1.0, 4.75]


@pytest.mark.native
def test_constraints_on_several_resources_are_held_side_by_side(tmp_path: Path) -> None:
    assert train_ppo(tmp_path, steps=256, lagrangian={"price": 5.0, "calls": 2.0, "seconds": 3.0}, **PPO).finished
    last = read_curve(tmp_path)[-1]
    names = [f"{figure}{ending}" for figure in ("cost", "limit", "multiplier") for ending in ("", "_calls", "_seconds")]
    assert set(names) <= set(last) and (last["limit"], last["limit_calls"], last["limit_seconds"]) == (5.0, 2.0, 3.0)
    assert min(last[name] for name in names) > 0.0
    with pytest.raises(ConfigError, match="one constraint for each resource"):
        train_ppo(tmp_path / "twice", steps=64, lagrangian=[Lagrangian(limit=5.0), Lagrangian(limit=6.0)], **PPO)


def test_a_constraint_is_the_same_whatever_unit_its_cost_is_counted_in() -> None:
    dollars, cents = Lagrangian.holding("price", 7.0), Lagrangian.holding("price", 700.0)
    assert (dollars.rate, dollars.gain) == (Lagrangian(limit=7.0).rate, Lagrangian(limit=7.0).gain)
    (_, one), (_, other) = dollars.update(0.0, 9.0), cents.update(0.0, 900.0)
    assert one == pytest.approx(100.0 * other)


def test_the_examples_multiplier_is_the_same_dual_ascent() -> None:
    lagrangian = example("lagrangian")
    multiplier = lagrangian.Multiplier(lagrangian.ConstrainedArgs(limit=10.0, rate=0.01, gain=0.1, margin=0.1))
    assert [multiplier(12.0), multiplier(9.0), multiplier(0.0)] == pytest.approx([0.03 + 0.3, 0.03, 0.0])


@pytest.mark.native
def test_forbidden_actions_have_no_value_and_are_never_explored() -> None:
    from costgym.experiments.train.sb3.decisions import MASK, ToolVecEnv
    from costgym.experiments.train.sb3.policies import MaskedDQN, ToolValuePolicy

    env = ToolVecEnv(64, show_mask=True, scenario="marketplace")
    env.seed(0)
    seen = env.reset()
    model = MaskedDQN(
        ToolValuePolicy, env, buffer_size=64, policy_kwargs={"network": NetworkSettings(hidden_size=8, rounds=1)}, seed=0
    )
    allowed = seen[MASK] > 0.5
    model.exploration_rate = 1.0
    drawn = np.stack([model.predict(seen)[0] for _ in range(200)])
    assert allowed[np.arange(64), drawn].all()
    assert all(set(drawn[:, i]) == set(np.flatnonzero(allowed[i])) for i in range(64))
    values = model.q_net({name: torch.from_numpy(part) for name, part in seen.items()}).detach().numpy()
    assert (values[~allowed] == -1e8).all() and (values[allowed] > -1e3).all()
    assert (model.predict(seen, deterministic=True)[0] == values.argmax(1)).all()


# -- runs ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.native
def test_a_run_may_be_prolonged(tmp_path: Path) -> None:
    for steps in (128, 512):
        train_ppo(tmp_path / "run", steps=steps, **PPO)
    # its learning rate fell further in the first part than that of a run that was as long from the start
    assert [line["step"] for line in read_curve(tmp_path / "run")] == list(range(64, 513, 64))
    assert read_state(newest(tmp_path / "run"))["segments"] == 4


@pytest.mark.native
def test_a_constraint_is_gone_on_with(tmp_path: Path) -> None:
    constraint = Lagrangian(limit=5.0, rate=0.01)
    assert not train_ppo(tmp_path, steps=384, lagrangian=constraint, callback=StopAt(64), **PPO).finished
    before = read_state(newest(tmp_path))
    train_ppo(tmp_path, steps=384, lagrangian=constraint, **PPO)
    after = read_state(newest(tmp_path))
    assert (before["step"], after["step"]) == (128, 384) and after["multipliers"][0] > before["multipliers"][0] > 0.0


@pytest.mark.native
def test_dqn_learns_resumes_and_plays(tmp_path: Path) -> None:
    train_dqn(tmp_path, steps=128, **DQN)
    assert train_dqn(tmp_path, steps=256, **DQN).steps == 256
    agent = costgym.agents.make_agent(f"sb3:{tmp_path}")
    played = costgym.rollout(costgym.make("costgym/Marketplace-v0", split="test"), agent, episodes=3)
    assert len(played) == 3


@pytest.mark.native
def test_a_config_says_what_was_trained(tmp_path: Path) -> None:
    result = train_ppo(tmp_path, "storm", 4, steps=128, budget={"price": 15}, **PPO)
    config = read_config(tmp_path, Sb3Config)
    assert (config.trainer, config.env, config.version) == ("ppo", "costgym/Marketplace-v0", costgym.__version__)
    assert config.scenario is not None and config.scenario.name == "storm"
    assert (config.env_settings["budget"], config.env_settings["split"]) == ({"price": 15}, "train")
    assert (config.settings["seed"], config.settings["n_steps"], config.network["hidden_size"]) == (4, 8, 8)
    assert result.metrics == {name: value for name, value in read_curve(tmp_path)[-1].items() if name != "step"}


@pytest.mark.native
def test_minutes_count_from_when_the_kernels_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from costgym.experiments.train.sb3 import segments
    from costgym.experiments.train.sb3.decisions import ToolVecEnv

    whole, clock = ToolVecEnv.step, [0.0]

    def slow(self: Any, actions: Any) -> Any:  # compiles for half a minute at first, then takes a second
        clock[0] += 30.0 if clock[0] == 0.0 else 1.0
        return whole(self, actions)

    monkeypatch.setattr(ToolVecEnv, "step", slow)
    monkeypatch.setattr(segments.time, "monotonic", lambda: clock[0])
    result = train_ppo(tmp_path, minutes=0.5, **PPO)
    assert 30.0 <= result.metrics["seconds"] < 40.0 and result.steps >= 30 * 8


def test_a_slow_beginning_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from costgym.experiments.train.sb3 import segments

    patient, hasty = StopAt(), StopAt()
    with open_run(tmp_path / "run", Sb3Config(trainer="ppo", settings={}, env_settings={}, lagrangian=None)) as run:
        for callback, after_s in ((patient, 60.0), (hasty, 0.0)):
            run.callback = callback
            with segments._message_if_slow(run, segments.COMPILING, after_s):
                time.sleep(0.2)
    assert (patient.said, hasty.said) == ([], [segments.COMPILING])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": 10, "minutes": 1}, "got both"),
        ({"steps": 0}, "positive whole number, got 0"),
        ({"minutes": float("nan")}, "positive number"),
        ({"lagrangian": -3.0}, "limit: expected a number greater than 0, got -3.0"),
        ({"batch_size": 1}, "batch_size: expected a number greater than or equal to 2, got 1"),
        ({"rollout": 8}, "rollout: no such setting"),
        ({"epochs": 8}, r"epochs: no such setting; did you mean n_epochs\?"),
    ],
)
def test_bad_input_is_named(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        train_ppo(tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_an_unknown_resource_is_named() -> None:
    with pytest.raises(UnknownName, match="cost resource"):
        Lagrangian(limit=5.0, resource="money")


@pytest.mark.native
def test_another_algorithm_is_refused(tmp_path: Path) -> None:
    train_ppo(tmp_path, steps=64, **PPO)
    with pytest.raises(ConfigError, match=r"holds another run \(trainer 'ppo' there, 'dqn' asked"):
        train_dqn(tmp_path, steps=128, **DQN)

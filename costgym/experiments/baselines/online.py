"""Methods that learn in the environment, with Stable-Baselines3 and sb3-contrib."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

from costgym.agents.base import SESSION_1, Agent
from costgym.agents.checkpoints import checkpoints, read_state
from costgym.agents.sb3 import Sb3Agent
from costgym.experiments.baselines.methods import BatchAgent, Budget, Unit, open_env
from costgym.experiments.train.run import Callback, TrainingStep
from costgym.experiments.train.sb3.decisions import ToolVecEnv
from costgym.experiments.train.sb3.settings import Lagrangian, PpoSettings
from costgym.experiments.train.sb3.train import train_ppo
from costgym.experiments.train.sb3.vec_env import NativeVecEnv

PPO_ENVS, DQN_ENVS = 8, 4
CONSTRAINED_STEPS = 256  # per environment between two updates, each of which moves the price of costs once
OF_SESSIONS: dict[str, Any] = {
    "n_steps": 32, "batch_size": 2048, "n_epochs": 4, "learning_rate": 1e-3, "gae_lambda": 0.97, "ent_coef": 0.01,
}  # fmt: skip
"""Settings of constrained methods in sessions of version 1, on `SESSION_ENVS` native environments."""
SESSION_ENVS = 256
DQN_SETTINGS: dict[str, Any] = {
    "gamma": 0.9, "learning_rate": 5e-4, "buffer_size": 100_000, "batch_size": 128, "learning_starts": 1_000,
    "target_update_interval": 1_000, "exploration_fraction": 0.4, "train_freq": 1,
}  # fmt: skip
"""Compared on tasks of the train split by `benchmarks/learning/standard.py choose`. A step of `DQN_ENVS` environments and an
update take turns, which is the library's default of an update for every four decisions."""
Watch = Callable[[int, float, Agent], None]  # told of decisions and seconds of processor time so far, and the policy


@dataclass
class Controller:
    """The price of a unit of cost under PID control. Source: Stooke, Achiam and Abbeel 2020, algorithm 2."""

    law: Lagrangian  # limit, rate of the integral, and gain of the proportional term; a gain of 0 is dual ascent
    damping: float = 0.0  # gain of the derivative term, on rising costs only
    integral: float = 0.0
    last_cost: float | None = None
    value: float = 0.0

    def update(self, mean_cost: float) -> None:
        """Follow the mean cost of the episodes since the last update."""
        self.integral, proportional = self.law.update(self.integral, mean_cost)
        rise = 0.0 if self.last_cost is None else max(0.0, mean_cost - self.last_cost)
        self.last_cost, self.value = mean_cost, proportional + self.damping * rise


def controller_of(method: str, limit: float, env_id: str = "") -> Controller | None:
    """Return the controller of a constrained method; None for the others."""
    law = Lagrangian.holding("price", limit, env_id == SESSION_1)
    if method == "ppo-lagrangian":
        return Controller(law.model_copy(update={"gain": 0.0}))
    return Controller(law, damping=law.gain) if method == "pid-lagrangian" else None


class PricedVecEnv(VecEnvWrapper):  # type: ignore[misc]
    """A vector environment whose reward loses a `price` for each unit of `info["cost"]`; `costs` are those of the episodes that
    have ended since the list was last cleared."""

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        self.price, self.costs = 0.0, list[float]()
        self._sums = np.zeros(self.num_envs)

    def reset(self) -> Any:
        self._sums[:] = 0.0
        return self.venv.reset()

    def step_wait(self) -> Any:
        observations, rewards, dones, infos = self.venv.step_wait()
        costs = np.array([info["cost"] for info in infos])
        self._sums += costs
        self.costs += self._sums[dones].tolist()
        self._sums[dones] = 0.0
        return observations, (rewards - self.price * costs).astype(np.float32), dones, infos


class Follow(BaseCallback):  # type: ignore[misc]
    """Ends training after `limit_s` seconds of processor time (measuring does not count), measures the policy `every` so many
    decisions, and lets the price of costs follow the controller of a constrained method."""

    def __init__(self, limit_s: float, every: int, watch: Watch, agent: Agent, controller: Controller | None) -> None:
        super().__init__()
        self._limit_s, self._every, self._watch, self._agent, self._controller = limit_s, every, watch, agent, controller
        self._next, self._paused_s, self._began_s = every, 0.0, time.process_time()

    @property
    def seconds(self) -> float:
        """Processor time of training so far."""
        return time.process_time() - self._began_s - self._paused_s

    def _on_training_start(self) -> None:
        self._began_s, self._paused_s = time.process_time(), 0.0

    def _on_step(self) -> bool:
        return self.seconds < self._limit_s

    def _on_rollout_start(self) -> None:
        # measured between rollouts, where the policy is whole; its time is taken off the training's
        if self.num_timesteps >= self._next:
            self._next = (self.num_timesteps // self._every + 1) * self._every
            spent, begin = self.seconds, time.process_time()
            self._watch(self.num_timesteps, spent, self._agent)
            self._paused_s += time.process_time() - begin

    def _on_rollout_end(self) -> None:
        env = self.training_env
        if self._controller is not None and isinstance(env, ToolVecEnv) and env.finished:
            self._controller.update(float(np.mean([episode.costs["price"] for episode in env.finished])))
            env.multipliers, env.finished = {"price": self._controller.value}, []
        if self._controller is not None and isinstance(env, PricedVecEnv) and env.costs:
            self._controller.update(float(np.mean(env.costs)))
            env.price, env.costs = self._controller.value, []


def learn(
    unit: Unit, split: str, steps: int, limit_s: float, every: int, limit: float, watch: Watch, budget: Budget | None = None
) -> tuple[int, float, Agent]:
    """Train an online method for at most so many decisions and seconds of processor time, under a limit on the mean price of an
    episode where it is constrained, and within a budget of one's own; returns the decisions, the seconds and the policy."""
    import torch

    torch.set_num_threads(1)  # seconds of processor time are compared
    if unit.method == "ppo-tools":
        return _train_ppo(unit, split, steps, limit_s, every, watch)
    masked = unit.method != "dqn"
    model = _ppo(unit, split, budget) if masked else _dqn(unit, split)

    def act(observation: Any, info: Any, begins: Any) -> Any:
        mask = {"action_masks": info["action_mask"]} if masked else {}
        return model.predict(observation, deterministic=True, **mask)[0]

    agent, controller = BatchAgent(act, unit.env), controller_of(unit.method, limit, unit.env)
    follow = Follow(limit_s, every, watch, agent, controller)
    model.learn(steps, callback=follow)
    return int(model.num_timesteps), follow.seconds, agent


def _ppo(unit: Unit, split: str, budget: Budget | None) -> Any:
    from sb3_contrib import MaskablePPO

    constrained = unit.method != "ppo"
    if constrained and unit.env == SESSION_1:
        return _ppo_of_sessions(unit, split, budget)
    env = make_vec_env(lambda: open_env(unit.env, unit.level, split, budget), PPO_ENVS, unit.seed)
    more: dict[str, Any] = {"n_steps": CONSTRAINED_STEPS, "ent_coef": 0.01} if constrained else {}
    priced = PricedVecEnv(env) if constrained else env
    return MaskablePPO("MultiInputPolicy", priced, gamma=1.0, seed=unit.seed, device="cpu", **more)


def _ppo_of_sessions(unit: Unit, split: str, budget: Budget | None) -> Any:
    """The same with the network of sessions, on the native batch."""
    from sb3_contrib import MaskablePPO

    from costgym.experiments.train.sb3.policies import SessionPolicy

    limits: dict[str, Any] = {} if budget is None else {"budget": dict(budget)}
    env = ToolVecEnv(SESSION_ENVS, env_id=unit.env, split=split, **limits)
    env.reset()
    env.step(env.action_masks().argmax(1))  # compiles the kernels, which does not count as training
    env.seed(unit.seed)
    network = {"network": env.env.scalar.rules}
    return MaskablePPO(SessionPolicy, env, gamma=1.0, seed=unit.seed, device="cpu", policy_kwargs=network, **OF_SESSIONS)


def _dqn(unit: Unit, split: str) -> Any:
    from stable_baselines3 import DQN

    env = make_vec_env(lambda: open_env(unit.env, unit.level, split), DQN_ENVS, unit.seed)
    return DQN("MultiInputPolicy", env, seed=unit.seed, device="cpu", **DQN_SETTINGS)


class _Checkpoints(Callback):
    """Measures the checkpoints of a training run, and stops it after `limit_s` seconds of processor time without measuring."""

    def __init__(self, run: Path, limit_s: float, watch: Watch) -> None:
        self._run, self._limit_s, self._watch = run, limit_s, watch
        self._measured, self._paused_s, self._began_s = 0, 0.0, time.process_time()
        self._seconds_at = {0: 0.0}

    @property
    def seconds(self) -> float:
        """Processor time of training so far."""
        return time.process_time() - self._began_s - self._paused_s

    def on_step(self, step: TrainingStep) -> bool:
        spent, begin = self.seconds, time.process_time()
        self._seconds_at[step.step] = spent
        self.measure()
        self._paused_s += time.process_time() - begin
        return spent >= self._limit_s

    def measure(self) -> None:
        """Measure the newest checkpoint, unless it was."""
        newest = checkpoints(self._run)[-1:]
        at = read_state(newest[0])["step"] if newest else 0
        if at > self._measured:
            self._measured = at
            self._watch(at, self._seconds_at[at], Sb3Agent(self._run))


def _train_ppo(unit: Unit, split: str, steps: int, limit_s: float, every: int, watch: Watch) -> tuple[int, float, Agent]:
    """`costgym train ppo` with its default settings, but for the checkpoints that are measured."""
    updates = max(1, round(every / (PpoSettings().n_envs * PpoSettings().n_steps)))
    env = NativeVecEnv(1, scenario=unit.level)
    env.reset()
    env.step(env.action_masks().argmax(1))  # compiles the kernels, which does not count as training
    env.close()
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        follow = _Checkpoints(run, limit_s, watch)
        result = train_ppo(
            run, unit.level, unit.seed, steps=steps, split=split, callback=follow, updates_per_checkpoint=updates
        )
        seconds = follow.seconds
        follow.measure()
        return result.steps, seconds, Sb3Agent(run)

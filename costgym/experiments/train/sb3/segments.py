"""A training run of Stable-Baselines3 in segments, each from one checkpoint to the next.

Every segment starts with new episodes, seeded by the run's seed and the segment's number, so a resumed PPO run ends with the
same weights as an uninterrupted one. DQN's replay buffer is not saved; a resumed run fills a new one first. TensorBoard files
are written if tensorboard is installed.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger, configure
from stable_baselines3.common.utils import set_random_seed

from costgym.agents.base import SESSION, view_of
from costgym.agents.checkpoints import OPTIMIZER, load_weights, read_state, read_tensors
from costgym.agents.networks import not_finite
from costgym.agents.settings import NetworkSettings
from costgym.experiments.train.loop import load_moments, moments
from costgym.experiments.train.run import TrainingResult, TrainingRun, TrainingStep
from costgym.experiments.train.sb3.decisions import ToolVecEnv
from costgym.experiments.train.sb3.policies import MaskedDQN, SessionPolicy, ToolPolicy, ToolValuePolicy, network_of
from costgym.experiments.train.sb3.settings import DqnSettings, Lagrangian, PpoSettings
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import TrainingFailed
from costgym.simulators.ledger import RESOURCES

COMPILING = "compiling the environment's kernels, once per machine: about half a minute"
DQN_LINE_STEPS = 4096
"""Decisions between two lines of DQN's learning curve; PPO writes one line per update."""


class Sb3Run:
    """A training run of Stable-Baselines3 in segments between checkpoints, for `target_steps` decisions or, where that is None,
    for `minutes`."""

    def __init__(
        self,
        run: TrainingRun,
        algorithm: str,
        settings: PpoSettings | DqnSettings,
        constraints: tuple[Lagrangian, ...],
        target_steps: int | None,
        minutes: float | None,
    ) -> None:
        self.run, self.algorithm, self.settings, self.constraints = run, algorithm, settings, constraints
        self.target_steps, self._target_s = target_steps, None if minutes is None else 60.0 * minutes
        self.steps = self.segments = 0
        self.cost = constraints[0].resource if constraints else "price"
        self.integrals = [constraint.start for constraint in constraints]
        self.multipliers = list(self.integrals)
        self.metrics: dict[str, float] = {}
        self._before_s, self._began = 0.0, time.monotonic()
        self.checkpoint = run.checkpoint
        if self.checkpoint is not None:
            state = read_state(self.checkpoint)
            self.steps, self.segments, self._before_s = state["step"], state["segments"], state["seconds"]
            self.integrals, self.multipliers = list(state["integrals"]), list(state["multipliers"])
            self.metrics = state["metrics"]

    # -- progress -----------------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Seconds of training, wall clock."""
        return self._before_s + time.monotonic() - self._began

    def share(self, steps: int) -> float:
        """Return the completed share of the run after a number of decisions, from 0 to 1."""
        if self.target_steps is not None:
            return min(1.0, steps / self.target_steps)
        assert self._target_s is not None
        return min(1.0, self.seconds / self._target_s)

    def out_of_time(self, steps: int) -> bool:
        """Return whether the run has a time limit and has reached it."""
        return self._target_s is not None and self.share(steps) >= 1.0

    def learning_rate(self, steps: int) -> float:
        """Return the learning rate after a number of decisions."""
        settings, rest = self.settings, 1.0 - self.share(steps)
        return float(settings.learning_rate * (settings.final_lr_fraction + (1.0 - settings.final_lr_fraction) * rest))

    @property
    def prices(self) -> dict[str, float]:
        """Return what the reward loses per unit of each constrained resource."""
        return {constraint.resource: value for constraint, value in zip(self.constraints, self.multipliers, strict=True)}

    def follow(self, costs: Mapping[str, float]) -> None:
        """Let the multipliers follow what episodes cost on average, by resource."""
        for number, constraint in enumerate(self.constraints):
            moved = constraint.update(self.integrals[number], costs[constraint.resource])
            self.integrals[number], self.multipliers[number] = moved

    def report(self, steps: int, figures: Mapping[str, float]) -> bool:
        """Add a line to the learning curve; return True if the callback asks to stop."""
        done, total = (steps, self.target_steps) if self.target_steps is not None else (self.seconds, self._target_s)
        assert total is not None
        return self.run.report(TrainingStep("", steps, min(done, total), total, figures))

    # -- segments ----------------------------------------------------------------------------------------------------------

    def go(self) -> TrainingResult:
        """Train to the end, or to the next checkpoint after the callback asks to stop."""
        self._began = time.monotonic()
        if self.share(self.steps) < 1.0:
            env = self._environment()
            try:
                model = self._model(env)
                self._began = time.monotonic()
                while self.share(self.steps) < 1.0:
                    if self._segment(model, env) and self.share(self.steps) < 1.0:
                        return TrainingResult(self.run.folder, self.steps, {}, finished=False)
            finally:
                env.close()
        return self.run.finish(self.steps, self.metrics)

    def _environment(self) -> ToolVecEnv:
        config: Any = self.run.config
        settings = {"scenario": config.scenario, **config.env_settings}
        env = ToolVecEnv(self.settings.n_envs, show_mask=self.algorithm == "dqn", env_id=config.env, **settings)
        with _message_if_slow(self.run, COMPILING):
            env.seed(0)
            env.reset()
            env.step(env.action_masks().argmax(1))
        return env

    def _model(self, env: ToolVecEnv) -> Any:
        settings, config = self.settings, self.run.config
        set_random_seed(stable_integer(settings.seed, "weights") % 2**31)
        in_sessions = view_of(config.env) == SESSION
        of_tools = NetworkSettings(hidden_size=settings.hidden_size, rounds=settings.rounds)
        network_settings = env.env.scalar.rules if in_sessions else of_tools
        # the learning rate is replaced by our own schedule, and so is DQN's exploration rate
        usual: dict[str, Any] = {"learning_rate": 1.0, "policy_kwargs": {"network": network_settings}, **settings.of_sb3()}
        if isinstance(settings, DqnSettings):
            model: Any = MaskedDQN(ToolValuePolicy, env, **usual)
            model.exploration_schedule = lambda _: settings.exploration(self.share(model.num_timesteps))
        else:
            model = MaskablePPO(SessionPolicy if in_sessions else ToolPolicy, env, **usual)
        model.lr_schedule = lambda _: self.learning_rate(model.num_timesteps)
        model.set_logger(_logger(self.run.folder))
        network = network_of(model)
        self.run.update(network=network.describe())
        self.run.cut_curve(self.steps)
        if self.checkpoint is not None:
            model.num_timesteps = self.steps
            load_weights(self.checkpoint, network.state_dict())
            tensors = read_tensors(self.checkpoint / OPTIMIZER)
            target = {name.removeprefix("target/"): tensors.pop(name) for name in list(tensors) if name.startswith("target/")}
            load_moments(tensors, dict(network.named_parameters()), model.policy.optimizer, self.checkpoint / OPTIMIZER)
            if target:
                model.q_net_target.load_state_dict(target)
        return model

    def _segment(self, model: Any, env: Any) -> bool:
        """Train up to the next checkpoint; return True if the callback asks to stop."""
        seed = stable_integer(self.settings.seed, "leg", self.segments) % 2**31
        set_random_seed(seed)
        env.seed(seed)
        env.multipliers = self.prices
        env.finished.clear()
        model._last_obs = None  # SB3 then resets the environment, which begins the segment's own episodes
        steps = self.settings.checkpoint_steps
        if self.target_steps is not None:
            steps = min(steps, self.target_steps - self.steps)
        follower = SegmentCallback(self, env)
        every = 1 if self.algorithm == "ppo" else 10**9
        try:
            model.learn(steps, callback=follower, reset_num_timesteps=False, log_interval=every)
        except ValueError as error:
            if "invalid values" not in str(error):  # torch's distributions raise this error for NaN
                raise
            follower.broken = True
        network = network_of(model)
        if follower.broken or not_finite(dict(network.named_parameters())):
            raise TrainingFailed(int(model.num_timesteps), "the loss became NaN", self.checkpoint)
        self.steps, self.segments = int(model.num_timesteps), self.segments + 1
        self.metrics = follower.metrics or self.metrics
        training = moments(dict(network.named_parameters()), model.policy.optimizer)
        if hasattr(model, "q_net_target"):
            training |= {f"target/{name}": value for name, value in model.q_net_target.state_dict().items()}
        state = {"segments": self.segments, "seconds": round(self.seconds, 3), "metrics": self.metrics}
        state |= {"integrals": self.integrals, "multipliers": self.multipliers}
        self.run.save(self.steps, network.state_dict(), training, state)
        self.checkpoint = self.run.checkpoint
        return follower.stopped


@contextmanager
def _message_if_slow(run: TrainingRun, text: str, after_s: float = 1.5) -> Iterator[None]:
    """Send a message to the run's callback if the block takes longer than `after_s` seconds."""
    timer = threading.Timer(after_s, run.say, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _logger(folder: Path) -> Any:
    try:
        import tensorboard  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    except ImportError:
        return Logger(str(folder), [])
    return configure(str(folder), ["tensorboard"])


class SegmentCallback(BaseCallback):  # type: ignore[misc]
    """Writes the learning curve of a segment, whose last line is `metrics`, and ends the segment when the run is over, is
    `stopped` by its callback, or `broken`: the loss or a weight is not finite."""

    def __init__(self, training: Sb3Run, env: ToolVecEnv) -> None:
        super().__init__()
        self.training, self.env = training, env
        self.metrics: dict[str, float] = {}
        self.stopped = self.broken = False
        self._noted = training.steps

    def _on_step(self) -> bool:
        if self.training.algorithm == "dqn" and self.num_timesteps - self._noted >= DQN_LINE_STEPS:
            self._note()
        return not (self.broken or self.training.out_of_time(self.num_timesteps))

    def _on_rollout_start(self) -> None:
        # SB3 updates after a rollout, so the logged values of an update are available when the next rollout starts
        if self.training.algorithm == "ppo" and self.num_timesteps > self._noted:
            self._note()

    def _on_training_end(self) -> None:
        if self.num_timesteps > self._noted:
            self._note()

    def _note(self) -> None:
        training = self.training
        finished, self.env.finished = self.env.finished, []
        logged = self.logger.name_to_value
        figures: dict[str, float | None] = {
            "seconds": round(training.seconds, 2),
            "episodes": len(finished),
            "return": _mean([episode.reward for episode in finished]),
            "success": _mean([float(episode.success) for episode in finished]),
            "cost": _mean([episode.costs[training.cost] for episode in finished]),
            "decisions": _mean([float(episode.steps) for episode in finished]),
            "multiplier": training.multipliers[0] if training.multipliers else 0.0,
            "loss": _number(logged.get("train/loss")),
            "value_loss": _number(logged.get("train/value_loss")),
            "entropy": _number(logged.get("train/entropy_loss"), -1.0),
        }
        for constraint, multiplier in zip(training.constraints, training.multipliers, strict=True):
            ending = "" if constraint.resource == training.cost else f"_{constraint.resource}"
            figures[f"cost{ending}"] = _mean([episode.costs[constraint.resource] for episode in finished])
            figures[f"limit{ending}"], figures[f"multiplier{ending}"] = constraint.limit, multiplier
        line = {name: value for name, value in figures.items() if value is not None}
        self._noted = self.num_timesteps
        weights = dict(network_of(self.model).named_parameters())
        if not all(math.isfinite(value) for value in line.values()) or not_finite(weights):
            self.broken = True
            return
        self.metrics = line
        self.stopped |= training.report(self.num_timesteps, line)
        for name in line:
            if name in ("return", "success") or name.startswith(("cost", "multiplier")):
                self.logger.record(f"rollout/{name}", line[name])
        if training.algorithm == "dqn":
            self.logger.dump(self.num_timesteps)
        if finished:
            training.follow({name: sum(episode.costs[name] for episode in finished) / len(finished) for name in RESOURCES})
            self.env.multipliers = training.prices


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _number(value: Any, factor: float = 1.0) -> float | None:
    return None if value is None else factor * float(value)

"""Reinforcement learning in the marketplace: MaskablePPO and DQN of Stable-Baselines3 on the native vector view.

A run lives in a folder: `checkpoint.json` and its weights (`agents.checkpoints`), `curve.jsonl` with a line per update, and
TensorBoard files where tensorboard is installed. Training goes in segments, from checkpoint to checkpoint. Every segment begins
with fresh episodes and with seeds made of the run's seed and its number, so a PPO run that was killed and resumed ends with
the same weights as one that was not. (DQN's memory of transitions is not kept: a resumed run collects a new one first.)
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....agents.checkpoints import MANIFEST, Checkpoint, load_network, load_training, read_checkpoint, save_checkpoint
from ....simulators.draws import stable_integer
from ....simulators.errors import ConfigError, require
from ....simulators.ledger import Budget
from ....simulators.scenario import Scenario, load_scenario
from ....simulators.version import __version__
from ...files import iter_lines, keep_lines, sole_writer
from .settings import DqnSettings, Lagrangian, PpoSettings, as_document

CURVE = "curve.jsonl"
TRAIN_STEP_LIMIT = 200
"""Steps of a training episode; no sensible one comes near, so it only ends those of a policy that has not learnt to finish."""

Progress = Callable[[int, int], None]
Log = Callable[[Mapping[str, float | None]], None]


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A finished run.

    Attributes:
        run: its folder; ``sb3:FOLDER`` is the agent.
        steps: decisions taken.
        seconds: of training, wall clock.
        metrics: of the last update.
    """

    run: Path
    steps: int
    seconds: float
    metrics: dict[str, float | None]


def train_ppo(
    out: str | Path,
    scenario: str | Path | Scenario = "marketplace",
    seed: int = 0,
    *,
    steps: int | None = None,
    minutes: float | None = None,
    budget: Mapping[str, float] | None = None,
    lagrangian: Lagrangian | float | None = None,
    resume: bool = True,
    settings: PpoSettings | None = None,
    progress: Progress | None = None,
    log: Log | None = None,
) -> TrainingResult:
    """Train MaskablePPO on the train split.

    Args:
        out: folder of the run; created if need be.
        scenario: the world.
        seed: same seed and steps, same weights.
        steps: decisions to take, or
        minutes: of training, wall clock; 5 where neither is given.
        budget: limits; None takes the scenario's. What cannot be afforded is masked, here and when the policy plays.
        lagrangian: a constraint on the mean cost, or a limit on the mean price.
        resume: go on from the folder's checkpoint; else the folder must hold none.
        settings: of the algorithm.
        progress: called with what is done and what is to do, in decisions or seconds.
        log: called with every line of the learning curve.

    Raises:
        ConfigError: a number makes no sense, the folder belongs to another run, or the loss became NaN (the message names the
            last good checkpoint, which stays).
        DataError: the checkpoint to resume from cannot be read.
        MissingExtra: Stable-Baselines3, sb3-contrib or torch is not installed.
    """
    chosen = settings or PpoSettings()
    run = _Run(out, "ppo", scenario, seed, steps, minutes, budget, lagrangian, chosen, progress, log)
    return run.go(resume, _make_ppo, chosen.envs * chosen.rollout * chosen.updates_per_checkpoint)


def train_dqn(
    out: str | Path,
    scenario: str | Path | Scenario = "marketplace",
    seed: int = 0,
    *,
    steps: int | None = None,
    minutes: float | None = None,
    budget: Mapping[str, float] | None = None,
    resume: bool = True,
    settings: DqnSettings | None = None,
    progress: Progress | None = None,
    log: Log | None = None,
) -> TrainingResult:
    """Train DQN on the train split. SB3's DQN knows no masks: here they are part of the observation, and the network gives
    forbidden actions a value far below any allowed one, when it acts, when it explores and in the target. Arguments and errors
    as for `train_ppo`."""
    chosen = settings or DqnSettings()
    run = _Run(out, "dqn", scenario, seed, steps, minutes, budget, None, chosen, progress, log)
    return run.go(resume, _make_dqn, chosen.decisions_per_checkpoint)


class _Run:
    """One training run and its folder."""

    def __init__(
        self,
        out: str | Path,
        algorithm: str,
        scenario: str | Path | Scenario,
        seed: int,
        steps: int | None,
        minutes: float | None,
        budget: Mapping[str, float] | None,
        lagrangian: Lagrangian | float | None,
        settings: Any,
        progress: Progress | None,
        log: Log | None,
    ) -> None:
        for module in ("torch", "stable_baselines3", "sb3_contrib", "safetensors"):
            require(module, "train")
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**62:
            raise ConfigError("--seed", f"expected a whole number from 0 to 2**62, got {seed!r}")
        if steps is not None and minutes is not None:
            raise ConfigError("--steps", "expected steps or minutes, got both")
        if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 1):
            raise ConfigError("--steps", f"expected a positive whole number, got {steps!r}")
        if steps is None:
            minutes = 5.0 if minutes is None else minutes
            if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not 0 < minutes < math.inf:
                raise ConfigError("--minutes", f"expected a positive number, got {minutes!r}")
        if isinstance(lagrangian, int | float):
            lagrangian = Lagrangian(lagrangian)
        self.lagrangian: Lagrangian | None = lagrangian
        self.scenario = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
        limits = self.scenario.limits() if budget is None else Budget.from_mapping(budget)
        self.folder, self.algorithm, self.seed, self.settings = Path(out), algorithm, seed, settings
        self.target_steps, self.target_s = steps, None if minutes is None else 60.0 * minutes
        self._progress, self._log = progress, log
        self.env_settings: dict[str, Any] = {
            "split": "train",
            "budget": limits.as_dict(),
            "enforcement": "refuse",
            "cost": "price" if lagrangian is None else lagrangian.resource,
            "max_steps": TRAIN_STEP_LIMIT,
        }
        self.steps, self.segments, self.before_s = 0, 0, 0.0
        self.integral = self.multiplier = 0.0 if lagrangian is None else lagrangian.start
        self.metrics: dict[str, float | None] = {}
        self._began = time.monotonic()

    # -- how far ------------------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        return self.before_s + time.monotonic() - self._began

    def share(self, steps: int) -> float:
        """How much of the run is done, 0 to 1."""
        if self.target_steps is not None:
            return min(1.0, steps / self.target_steps)
        assert self.target_s is not None
        return min(1.0, self.seconds / self.target_s)

    def learning_rate(self, steps: int) -> float:
        rest = 1.0 - self.share(steps)
        settings = self.settings
        return float(settings.learning_rate * (settings.final_lr_fraction + (1.0 - settings.final_lr_fraction) * rest))

    def report(self, steps: int) -> None:
        if self._progress is not None:
            done, total = (steps, self.target_steps) if self.target_steps is not None else (self.seconds, self.target_s)
            assert total is not None
            self._progress(min(int(done), int(total)), int(total))

    # -- segments ----------------------------------------------------------------------------------------------------------

    def go(self, resume: bool, make: Callable[[_Run, Any], Any], leg_steps: int) -> TrainingResult:
        from .decisions import ToolVecEnv

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError("--out", f"{self.folder} cannot be a folder: {error.strerror}") from error
        with sole_writer(self.folder):
            found = self._found(resume)
            env = ToolVecEnv(
                self.settings.envs,
                needed_only=self.settings.needed_only,
                show_mask=self.algorithm == "dqn",
                scenario=self.scenario,
                **self.env_settings,
            )
            try:
                model = self._model(make, env, found)
                while self.share(self.steps) < 1.0:
                    self._leg(model, env, leg_steps)
                self.report(self.steps)
            finally:
                env.close()
        return TrainingResult(self.folder, self.steps, round(self.seconds, 3), self.metrics)

    def _found(self, resume: bool) -> Checkpoint | None:
        """The checkpoint to go on from."""
        if not (self.folder / MANIFEST).exists():
            keep_lines(self.folder / CURVE, 0)
            return None
        if not resume:
            raise ConfigError("--out", f"{self.folder} holds a run already; resume it or choose another folder")
        found = read_checkpoint(self.folder, (self.algorithm,))
        mine = self._checkpoint({})
        differing = [
            name for name in ("seed", "settings", "scenario", "training") if getattr(found, name) != getattr(mine, name)
        ]
        if differing:
            raise ConfigError("--out", f"{self.folder} belongs to another run (different: {', '.join(differing)})")
        self.steps, self.segments, self.before_s = found.steps, found.segments, found.seconds
        self.integral, self.multiplier = found.state.get("integral", 0.0), found.state.get("multiplier", 0.0)
        self.metrics = dict(found.metrics)
        keep_lines(self.folder / CURVE, _lines_until(self.folder / CURVE, found.steps))
        return found

    def _model(self, make: Callable[[_Run, Any], Any], env: Any, found: Checkpoint | None) -> Any:
        from stable_baselines3.common.utils import set_random_seed

        set_random_seed(stable_integer(self.seed, "weights") % 2**31)
        model = make(self, env)
        model.set_logger(_logger(self.folder))
        if found is not None:
            model.num_timesteps = found.steps
            network = network_of(model)
            network.load_state_dict(load_network(self.folder, found).state_dict())
            _restore(model, load_training(self.folder, found))
        self._began = time.monotonic()
        return model

    def _leg(self, model: Any, env: Any, leg_steps: int) -> None:
        from stable_baselines3.common.utils import set_random_seed

        from .callback import Watch

        seed = stable_integer(self.seed, "leg", self.segments) % 2**31
        set_random_seed(seed)
        env.seed(seed)
        env.multiplier = self.multiplier
        env.finished.clear()
        model._last_obs = None
        if self.target_steps is not None:
            leg_steps = min(leg_steps, self.target_steps - self.steps)
        watch = Watch(self, env)
        every = 1 if self.algorithm == "ppo" else 10**9
        try:
            model.learn(leg_steps, callback=watch, reset_num_timesteps=False, log_interval=every)
        except ValueError as error:
            if "invalid values" not in str(error):  # torch's distributions say this of numbers that are none
                raise
            watch.broken = True
        if watch.broken or not finite(network_of(model)):
            good = (
                f"the last good checkpoint, after {self.steps} decisions, stays" if self.segments else "there is no checkpoint"
            )
            raise ConfigError("learning_rate", f"the loss became NaN; {good}; lower the learning rate")
        self.steps, self.segments = int(model.num_timesteps), self.segments + 1
        self.metrics = watch.metrics or self.metrics
        network = network_of(model)
        save_checkpoint(self.folder, self._checkpoint(network.describe()), network.state_dict(), _keep(model))

    def _checkpoint(self, network: dict[str, Any]) -> Checkpoint:
        training = as_document(self.settings, self.lagrangian)
        return Checkpoint(
            version=__version__,
            algorithm=self.algorithm,
            settings=self.env_settings,
            scenario=self.scenario,
            network=network,
            training=training,
            seed=self.seed,
            steps=self.steps,
            segments=self.segments,
            seconds=round(self.seconds, 3),
            state={"integral": self.integral, "multiplier": self.multiplier},
            metrics=self.metrics,
        )

    def note(self, line: dict[str, float | None]) -> None:
        """Append to the learning curve."""
        with (self.folder / CURVE).open("a", encoding="utf-8") as curve:
            curve.write(json.dumps(line) + "\n")
        if self._log is not None:
            self._log(line)


def _lines_until(path: Path, steps: int) -> int:
    """How many lines of a learning curve are not later than that."""
    return sum(json.loads(line)["steps"] <= steps for line in iter_lines(path)) if path.exists() else 0


def _make_ppo(run: _Run, env: Any) -> Any:
    from sb3_contrib import MaskablePPO

    from ....agents.tool_network import NetworkSettings
    from .policies import ToolPolicy

    s = run.settings
    model = MaskablePPO(
        ToolPolicy,
        env,
        learning_rate=1.0,
        n_steps=s.rollout,
        batch_size=s.batch,
        n_epochs=s.epochs,
        gamma=s.gamma,
        gae_lambda=s.gae_lambda,
        clip_range=s.clip,
        ent_coef=s.entropy,
        vf_coef=s.value,
        policy_kwargs={"network": NetworkSettings(s.hidden, s.rounds)},
        device="auto",
    )
    model.lr_schedule = lambda _: run.learning_rate(model.num_timesteps)
    return model


def _make_dqn(run: _Run, env: Any) -> Any:
    from ....agents.tool_network import NetworkSettings
    from .policies import MaskedDQN, ToolValuePolicy

    s = run.settings
    model = MaskedDQN(
        ToolValuePolicy,
        env,
        learning_rate=1.0,
        buffer_size=s.buffer,
        learning_starts=s.warm_up,
        batch_size=s.batch,
        gamma=s.gamma,
        train_freq=1,
        gradient_steps=s.gradient_steps,
        target_update_interval=max(s.target_interval, s.envs),
        policy_kwargs={"network": NetworkSettings(s.hidden, s.rounds)},
        device="auto",
    )
    model.lr_schedule = lambda _: run.learning_rate(model.num_timesteps)

    def explore(_: float) -> float:
        done = run.share(model.num_timesteps)
        return float(max(s.explore_final, 1.0 - (1.0 - s.explore_final) * done / max(s.explore_share, 1e-9)))

    model.exploration_schedule = explore
    return model


def network_of(model: Any) -> Any:
    """The `ToolNetwork` that a model trains."""
    return model.q_net.network if hasattr(model, "q_net") else model.policy.network


def finite(network: Any) -> bool:
    """Every weight is a finite number."""
    return all(bool(parameter.isfinite().all()) for parameter in network.parameters())


def _logger(folder: Path) -> Any:
    from stable_baselines3.common.logger import Logger, configure

    try:
        import tensorboard  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    except ImportError:
        return Logger(str(folder), [])
    return configure(str(folder), ["tensorboard"])


def _keep(model: Any) -> dict[str, Any]:
    """What training needs beside the weights: the optimiser's moments, and DQN's target network."""
    state = model.policy.optimizer.state_dict()["state"]
    kept = {f"optimizer/{index}/{name}": value for index, each in state.items() for name, value in each.items()}
    if hasattr(model, "q_net_target"):
        kept.update({f"target/{name}": value for name, value in model.q_net_target.state_dict().items()})
    return kept


def _restore(model: Any, kept: dict[str, Any]) -> None:
    optimizer = model.policy.optimizer
    state: dict[int, dict[str, Any]] = {}
    target = {}
    for name, value in kept.items():
        kind, rest = name.split("/", 1)
        if kind == "optimizer":
            index, key = rest.split("/")
            state.setdefault(int(index), {})[key] = value
        else:
            target[rest] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    if target:
        model.q_net_target.load_state_dict(target)

"""Train MaskablePPO and DQN of Stable-Baselines3 in the marketplace, on the native vector view.

A run consists of segments, each from one checkpoint to the next. Every segment starts with new episodes, seeded by the run's
seed and the segment's number, so a resumed PPO run ends with the same weights as an uninterrupted one. DQN's replay buffer is
not saved; a resumed run fills a new one first. TensorBoard files are written if tensorboard is installed.
"""

import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from costgym.agents.checkpoints import OPTIMIZER, read_state, read_tensors
from costgym.agents.sb3 import Sb3Config, load_network
from costgym.agents.settings import NetworkSettings
from costgym.experiments.train.run import (
    Callback,
    TrainingResult,
    TrainingRun,
    TrainingStep,
    check_steps,
    open_run,
    require_modules,
)
from costgym.experiments.train.sb3.settings import DqnSettings, Lagrangian, PpoSettings
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import ConfigError, TrainingFailed, check_known
from costgym.simulators.forge.folder import INDEX, WorldFolder, is_folder
from costgym.simulators.ledger import Budget
from costgym.simulators.marketplace.tasks import LEARNING_SPLITS
from costgym.simulators.scenario import Scenario, load_scenario, parse_scenario

Constraints = Lagrangian | Sequence[Lagrangian] | Mapping[str, float] | float | None
COMPILING = "compiling the environment's kernels, once per machine: about half a minute"


def train_ppo(
    out: str | Path,
    scenario: str | Path | Scenario = "marketplace",
    seed: int = 0,
    *,
    steps: int | None = None,
    minutes: float | None = None,
    split: str = "train",
    budget: Mapping[str, float] | None = None,
    lagrangian: Constraints = None,
    resume: bool = True,
    callback: Callback | None = None,
    algorithm: Literal["ppo", "dqn"] = "ppo",
    **settings: Any,
) -> TrainingResult:
    """Train MaskablePPO into the folder of a run, the agent ``sb3:OUT``; the same seed and steps give the same weights.

    `scenario` may be a folder of worlds, such as ``worlds/train``: every segment then plays other worlds of it. Give `steps`,
    decisions, or `minutes` of wall-clock time after compilation; 5 minutes if neither is given. `split` is ``train``, or
    ``train-large`` of generated worlds. `budget` limits resources, None for the scenario's; unaffordable calls are masked in
    training and evaluation. `lagrangian` constrains the mean cost per episode: one constraint, several, limits by resource such
    as ``{"price": 7, "seconds": 20}``, or a number, which limits the mean price. `callback` receives steps and messages; if it
    asks to stop, the run ends at the next checkpoint. With `resume` False the run starts again; `settings` are further fields
    of `PpoSettings`, or of `DqnSettings` if `train_dqn` passes ``dqn``.

    Returns the metrics of the last update. Raises ConfigError or UnknownName if a setting is invalid, the world has no such
    split, or the folder holds another run; TrainingFailed if the loss is NaN (the last good checkpoint is kept); DataError for
    a damaged checkpoint.
    """
    kind: type[PpoSettings | DqnSettings] = PpoSettings if algorithm == "ppo" else DqnSettings
    chosen = kind(**{"seed": seed, **settings})
    require_modules("torch", "stable_baselines3", "sb3_contrib", "safetensors")
    if steps is not None and minutes is not None:
        raise ConfigError("--steps", "expected steps or minutes, got both")
    check_steps("--steps", steps)
    if steps is None:
        minutes = 5.0 if minutes is None else minutes
        if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not 0 < minutes < math.inf:
            raise ConfigError("--minutes", f"expected a positive number, got {minutes!r}")
    if lagrangian is not None and algorithm == "dqn":
        raise ConfigError("lagrangian", "DQN has no constraints on costs; train PPO")
    constraints = _constraints(lagrangian)
    check_known("split to learn from", split, LEARNING_SPLITS)
    worlds: tuple[str, ...] = ()
    world: Scenario | None = None
    if is_folder(scenario):
        place = Path(str(scenario))
        if algorithm == "dqn":
            raise ConfigError("scenario", "DQN learns in one world; train PPO in a folder of worlds")
        first = WorldFolder(place, parse_scenario)[0]
        worlds = (f"{place.as_posix()}: {stable_integer(0, (place / INDEX).read_text(encoding='utf-8')):016x}",)
    else:
        first = world = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    first.build().tasks.numbers(split)  # before the folder is made: not every world has `train-large`
    limits = first.limits() if budget is None else Budget.from_mapping(budget)
    config = Sb3Config(
        trainer=algorithm,
        scenario=world,
        data=worlds,
        settings=chosen.model_dump(),
        lagrangian=[each.model_dump() for each in constraints] or None,
        env_settings={
            "split": split,
            "budget": limits.as_dict(),
            "enforcement": "refuse",
            "mask": "useful" if chosen.needed_only else "legal",
            "cost": constraints[0].resource if constraints else "price",
            **({"scenario": place.as_posix(), "worlds": chosen.model_dump()["worlds"]} if worlds else {}),
        },
    )
    with open_run(out, config, resume=resume, callback=callback) as run:
        return Sb3Run(run, algorithm, chosen, constraints, steps, minutes).go()


def train_dqn(
    out: str | Path, scenario: str | Path | Scenario = "marketplace", seed: int = 0, **options: Any
) -> TrainingResult:
    """Train DQN, with the options of `train_ppo` except `lagrangian`, and fields of `DqnSettings`.

    SB3's DQN has no action masking. Here the mask is part of the observation, and illegal actions are excluded in acting, in
    exploration and in the target.
    """
    return train_ppo(out, scenario, seed, algorithm="dqn", **options)


def _constraints(given: Constraints) -> tuple[Lagrangian, ...]:
    """Constraints, each of another resource; raises ConfigError if two hold the same resource, or a limit makes no sense."""
    if given is None:
        return ()
    if isinstance(given, int | float):
        given = {"price": given}
    if isinstance(given, Mapping):
        found = tuple(Lagrangian.holding(resource, limit) for resource, limit in given.items())
    else:
        found = (given,) if isinstance(given, Lagrangian) else tuple(given)
    resources = [each.resource for each in found]
    if len(set(resources)) < len(resources):
        raise ConfigError("lagrangian", f"expected one constraint for each resource, got {', '.join(resources)}")
    return found


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
        self.integrals = [each.start for each in constraints]
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
        return {each.resource: value for each, value in zip(self.constraints, self.multipliers, strict=True)}

    def follow(self, costs: Mapping[str, float]) -> None:
        """Let the multipliers follow what episodes cost on average, by resource."""
        for number, each in enumerate(self.constraints):
            moved = each.update(self.integrals[number], costs[each.resource])
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

    def _environment(self) -> Any:
        from costgym.experiments.train.sb3.decisions import ToolVecEnv

        config = self.run.config
        assert isinstance(config, Sb3Config)
        settings = {"scenario": config.scenario, **config.env_settings}
        env = ToolVecEnv(self.settings.n_envs, show_mask=self.algorithm == "dqn", **settings)
        with _message_if_slow(self.run, COMPILING):
            env.seed(0)
            env.reset()
            env.step(env.action_masks().argmax(1))
        return env

    def _model(self, env: Any) -> Any:
        from stable_baselines3.common.utils import set_random_seed

        from costgym.experiments.train.loop import load_moments

        settings = self.settings
        set_random_seed(stable_integer(settings.seed, "weights") % 2**31)
        network_settings = NetworkSettings(hidden_size=settings.hidden_size, rounds=settings.rounds)
        # the learning rate is replaced by our own schedule, and so is DQN's exploration rate
        usual: dict[str, Any] = {"learning_rate": 1.0, "policy_kwargs": {"network": network_settings}, **settings.of_sb3()}
        if isinstance(settings, DqnSettings):
            from costgym.experiments.train.sb3.policies import MaskedDQN, ToolValuePolicy

            model: Any = MaskedDQN(ToolValuePolicy, env, **usual)
            model.exploration_schedule = lambda _: settings.exploration(self.share(model.num_timesteps))
        else:
            from sb3_contrib import MaskablePPO

            from costgym.experiments.train.sb3.policies import ToolPolicy

            model = MaskablePPO(ToolPolicy, env, **usual)
        model.lr_schedule = lambda _: self.learning_rate(model.num_timesteps)
        model.set_logger(_logger(self.run.folder))
        network = network_of(model)
        self.run.update(network=network.describe())
        self.run.cut_curve(self.steps)
        if self.checkpoint is not None:
            config = self.run.config
            assert isinstance(config, Sb3Config)
            model.num_timesteps = self.steps
            network.load_state_dict(load_network(self.run.folder, config).state_dict())
            kept = read_tensors(self.checkpoint / OPTIMIZER)
            target = {name.removeprefix("target/"): kept.pop(name) for name in list(kept) if name.startswith("target/")}
            load_moments(kept, dict(network.named_parameters()), model.policy.optimizer, self.checkpoint / OPTIMIZER)
            if target:
                model.q_net_target.load_state_dict(target)
        return model

    def _segment(self, model: Any, env: Any) -> bool:
        """Train up to the next checkpoint; return True if the callback asks to stop."""
        from stable_baselines3.common.utils import set_random_seed

        from costgym.agents.networks import not_finite
        from costgym.experiments.train.loop import moments
        from costgym.experiments.train.sb3.decisions import SegmentCallback

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


def network_of(model: Any) -> Any:
    """Return the `ToolNetwork` that a model trains."""
    return model.q_net.network if hasattr(model, "q_net") else model.policy.network


def _logger(folder: Path) -> Any:
    from stable_baselines3.common.logger import Logger, configure

    try:
        import tensorboard  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    except ImportError:
        return Logger(str(folder), [])
    return configure(str(folder), ["tensorboard"])

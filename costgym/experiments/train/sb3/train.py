"""Train MaskablePPO and DQN of Stable-Baselines3 in the marketplace and in sessions, on the native vector view."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from costgym.agents.base import NUMERIC, SESSION, SESSIONS_1, view_of
from costgym.agents.sb3 import Sb3Config
from costgym.agents.sessions.learnt import SessionConfig
from costgym.experiments.train.run import Callback, TrainingResult, check_steps, open_run, require_modules
from costgym.experiments.train.sb3.settings import OF_SESSIONS, OF_THE_MARKETPLACE, DqnSettings, Lagrangian, PpoSettings
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import ConfigError, check_known
from costgym.simulators.forge.folder import INDEX, WorldFolder, is_folder
from costgym.simulators.ledger import Budget
from costgym.simulators.marketplace.tasks import LEARNING_SPLITS
from costgym.simulators.scenario import Scenario, load_scenario, parse_scenario

Constraints = Lagrangian | Sequence[Lagrangian] | Mapping[str, float] | float | None


def train_ppo(
    out: str | Path,
    scenario: str | Path | Scenario | None = None,
    seed: int = 0,
    *,
    env: str = NUMERIC,
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
    """Train MaskablePPO into the folder of a run, the agent ``sb3:OUT``; the same seed and steps give the same weights on the
    same kind of processor, whose instructions decide how PyTorch rounds sums.

    `env` is ``costgym/Marketplace-v0``, or sessions, whose agent is ``sessions:OUT``: ``costgym/MarketplaceSession-v1``, one of
    its levels' ids, or version 0. `scenario`, None for ``marketplace``, may be a folder of worlds, such as ``worlds/train``:
    every segment then plays other worlds of it. Give `steps`, decisions, or `minutes` of wall-clock time after compilation; 5
    minutes if neither is given. `split` is ``train``, or ``train-large`` of generated worlds. `budget` limits resources, None
    for the scenario's; unaffordable calls are masked in training and evaluation. `lagrangian` constrains the mean cost per
    episode: one constraint, several, limits by resource such as ``{"price": 7, "seconds": 20}``, or a number, which limits the
    mean price. `callback` receives steps and messages; if it asks to stop, the run ends at the next checkpoint. With `resume`
    False the run starts again; `settings` are further fields of `PpoSettings`, or of `DqnSettings` if `train_dqn` passes
    ``dqn``.

    Returns the metrics of the last update. Raises ConfigError or UnknownName if a setting is invalid, the world has no such
    split, or the folder holds another run; TrainingFailed if the loss is NaN (the last good checkpoint is kept); DataError for
    a damaged checkpoint.
    """
    kind: type[PpoSettings | DqnSettings] = PpoSettings if algorithm == "ppo" else DqnSettings
    in_sessions = view_of(env) == SESSION
    check_known("environment to learn in", env, (NUMERIC, *SESSIONS_1, SESSION))
    if in_sessions and algorithm == "dqn":
        raise ConfigError("env", f"DQN learns in {NUMERIC}; train PPO in {env}")
    chosen = kind(**{"seed": seed, **(OF_SESSIONS if in_sessions else {}), **settings})
    require_modules("torch", "stable_baselines3", "sb3_contrib", "safetensors", "numba")
    if steps is not None and minutes is not None:
        raise ConfigError("--steps", "expected steps or minutes, got both")
    check_steps("--steps", steps)
    if steps is None:
        minutes = 5.0 if minutes is None else minutes
        if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not 0 < minutes < math.inf:
            raise ConfigError("--minutes", f"expected a positive number, got {minutes!r}")
    if lagrangian is not None and algorithm == "dqn":
        raise ConfigError("lagrangian", "DQN has no constraints on costs; train PPO")
    constraints = _constraints(lagrangian, in_sessions)
    check_known("split to learn from", split, LEARNING_SPLITS)
    shared: dict[str, Any] = {
        "settings": chosen.model_dump(),
        "lagrangian": [constraint.model_dump() for constraint in constraints] or None,
        "env_settings": {"split": split, "enforcement": "refuse", "cost": constraints[0].resource if constraints else "price"},
    }
    if in_sessions:
        config: Sb3Config | SessionConfig = _session_config(env, scenario, budget, settings, shared)
    else:
        config = _marketplace_config(algorithm, scenario or "marketplace", budget, chosen, shared)
    with open_run(out, config, resume=resume, callback=callback) as run:
        from costgym.experiments.train.sb3.segments import Sb3Run

        return Sb3Run(run, algorithm, chosen, constraints, steps, minutes).go()


def _marketplace_config(
    algorithm: Literal["ppo", "dqn"],
    scenario: str | Path | Scenario,
    budget: Mapping[str, float] | None,
    chosen: PpoSettings | DqnSettings,
    shared: dict[str, Any],
) -> Sb3Config:
    """The configuration of a run in a scenario or in a folder of worlds; see `train_ppo` for errors."""
    worlds: tuple[str, ...] = ()
    world: Scenario | None = None
    several: dict[str, Any] = {}
    if is_folder(scenario):
        folder = Path(str(scenario))
        if algorithm == "dqn":
            raise ConfigError("scenario", "DQN learns in one world; train PPO in a folder of worlds")
        first = WorldFolder(folder, parse_scenario)[0]
        worlds = (f"{folder.as_posix()}: {stable_integer(0, (folder / INDEX).read_text(encoding='utf-8')):016x}",)
        several = {"scenario": folder.as_posix(), "worlds": chosen.model_dump()["worlds"]}
    else:
        first = world = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    env_settings = shared["env_settings"]
    first.build().tasks.numbers(env_settings["split"])  # before the folder is made: not every world has `train-large`
    limits = first.limits() if budget is None else Budget.from_mapping(budget)
    mask = "useful" if chosen.needed_only else "legal"
    env_settings = {**env_settings, "budget": limits.as_dict(), "mask": mask, **several}
    return Sb3Config(trainer=algorithm, scenario=world, data=worlds, **{**shared, "env_settings": env_settings})


def _session_config(
    env: str,
    scenario: str | Path | Scenario | None,
    budget: Mapping[str, float] | None,
    settings: Mapping[str, Any],
    shared: dict[str, Any],
) -> SessionConfig:
    """The configuration of a run in sessions; see `train_ppo` for errors."""
    if scenario is not None:
        raise ConfigError("scenario", f"{env} draws its own tools; leave the scenario out")
    if of_others := [name for name in OF_THE_MARKETPLACE if name in settings]:
        raise ConfigError(of_others[0], f"is a setting of {NUMERIC}; leave it out in {env}")
    env_settings = shared["env_settings"]
    if env_settings["split"] != "train":
        raise ConfigError("split", f"expected train in {env}, got {env_settings['split']}")
    limits = {} if budget is None else {"budget": Budget.from_mapping(budget).as_dict()}
    return SessionConfig(env=env, **{**shared, "env_settings": {**env_settings, "memory": "counts", **limits}})


def train_dqn(out: str | Path, scenario: str | Path | Scenario | None = None, seed: int = 0, **options: Any) -> TrainingResult:
    """Train DQN, with the options of `train_ppo` except `lagrangian`, and fields of `DqnSettings`.

    SB3's DQN has no action masking. Here the mask is part of the observation, and illegal actions are excluded in acting, in
    exploration and in the target.
    """
    return train_ppo(out, scenario, seed, algorithm="dqn", **options)


def _constraints(lagrangian: Constraints, in_sessions: bool) -> tuple[Lagrangian, ...]:
    """Constraints, each of another resource; raises ConfigError if two hold the same resource, or a limit makes no sense."""
    if lagrangian is None:
        return ()
    if isinstance(lagrangian, int | float):
        lagrangian = {"price": lagrangian}
    if isinstance(lagrangian, Mapping):
        constraints = tuple(Lagrangian.holding(resource, limit, in_sessions) for resource, limit in lagrangian.items())
    else:
        constraints = (lagrangian,) if isinstance(lagrangian, Lagrangian) else tuple(lagrangian)
    resources = [constraint.resource for constraint in constraints]
    if len(set(resources)) < len(resources):
        raise ConfigError("lagrangian", f"expected one constraint for each resource, got {', '.join(resources)}")
    return constraints

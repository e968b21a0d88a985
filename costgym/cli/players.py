"""Environments, and agents in them, from the options of the command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..simulators.errors import ConfigError
from ..simulators.ledger import Budget

if TYPE_CHECKING:
    from ..agents.models.base import LanguageModel
    from ..experiments.spending import Spending

WORLD_CHOICES = ("grading", "enforcement", "max_steps", "tasks", "alpha", "profile", "documents")
"""Options that are arguments of an environment under the same name."""
USES_WITH_A_CLASSIFIER = 5.0
"""Past uses a tool where a trained classifier judges each."""


@dataclass(frozen=True, slots=True)
class WorldOptions:
    """Options of the command line about the world; None for options that were not given."""

    scenario: str | None = None
    data: Path | None = None
    budget: str | None = None
    split: str = "test"
    grading: str | None = None
    enforcement: str | None = None
    max_steps: int | None = None
    tasks: str | None = None
    alpha: float | None = None
    profile: str | None = None
    prices: Path | None = None
    documents: str | None = None

    def arguments(self, env_id: str, model: str = "simulated") -> dict[str, Any]:
        """The arguments of an environment.

        Args:
            env_id: id of the environment.
            model: name of the model whose tokens the world prices.

        Raises:
            ConfigError: the environment does not have an option that was given.
        """
        from ..agents.models.named import priced_for
        from ..envs.registration import parameters_of
        from ..simulators.scenario import load_scenario

        known = parameters_of(env_id)
        made: dict[str, Any] = {
            "split": self.split,
            "budget": None if self.budget is None else Budget.one(self.budget).as_dict(),
        }
        given = {name: getattr(self, name) for name in WORLD_CHOICES}
        made |= {name: value for name, value in given.items() if value is not None}
        if "scenario" in known:
            scenario = load_scenario(self.scenario or known["scenario"], self.data)
            made = {**made, "scenario": priced_for(scenario, model, self.prices)}
        else:
            made |= {name: str(value) for name in ("scenario", "prices") if (value := getattr(self, name)) is not None}
            made = {"tasks": "all", **made, "outcomes": None if self.data is None else str(self.data)}
        for name in made:
            if name not in known:
                others = f"has no such choice; --env names another environment: {env_id} takes {', '.join(sorted(known))}"
                raise ConfigError(f"--{name.replace('_', '-')}", f"{env_id} {others}")
        return made


def make_player(
    agent: str,
    env: str | None,
    options: WorldOptions,
    seed: int,
    model: str,
    usefulness: Path | None = None,
    experience: str | None = None,
    at_hand: LanguageModel | None = None,
) -> tuple[Any, Any]:
    """Make an agent and the environment that it plays in.

    Args:
        agent: a name of `costgym agents`.
        env: an environment's id, `costgym/` may be left out; by default the agent's own.
        options: options about the world.
        seed: seed of the past uses that are collected for a trained classifier; others are shared by all seeds.
        model: language model of agents that need one.
        usefulness: folder of a trained classifier that judges results for BTP.
        experience: what BTP plans from, as ``EXPLORER:USES``, or a file.
        at_hand: what `model` names, where it is loaded already.

    Raises:
        UnknownName: no such agent, environment or scenario.
        ConfigError: options that do not go together.
    """
    from ..agents.btp.experience import Experience
    from ..agents.btp.usefulness_model import load_usefulness
    from ..agents.registry import find_agent, make_agent
    from ..envs.registration import class_of, make
    from ..experiments.execution.engine import Local, default_jobs
    from ..experiments.training.data.experience import ExperienceSettings, collect_experience, past_uses

    env_id = env if env is None or "/" in env else f"costgym/{env}"
    if env_id is not None:
        class_of(env_id)  # says which environments there are
    entry = find_agent(agent, env_id)
    env_id = env_id or entry.env_id
    if usefulness is not None and not entry.needs_experience:
        raise ConfigError("--usefulness", f"{agent} judges no results; only agents with +btp do")
    arguments = options.arguments(env_id, model)
    if experience is not None and not entry.needs_experience:
        raise ConfigError("--experience", f"{agent} plans from no past uses; only agents with +btp do")
    past: Experience | None = None
    judge = None if usefulness is None else load_usefulness(usefulness)
    if entry.needs_experience and experience is not None and Path(experience).is_file():
        past = Experience.load(experience)
    elif entry.needs_experience:
        wanted = ExperienceSettings() if experience is None else ExperienceSettings.parse(experience)
        if judge is None:
            past = Experience.from_jsonl(past_uses(arguments["scenario"], wanted, Local(default_jobs())))
        else:  # its labels are its own, and cost more: fewer of them
            few = wanted if experience is not None else wanted.model_copy(update={"uses": USES_WITH_A_CLASSIFIER})
            past = collect_experience(arguments["scenario"], few.model_copy(update={"seed": seed}), usefulness=judge)
    player = make_agent(agent, env_id, model=at_hand or model, experience=past, usefulness=judge)
    return player, make(env_id, disable_env_checker=True, **arguments)


def keep_replies(cache: Path | None, model: str) -> None:
    """Make every process of this run cache a real model's replies in a folder."""
    from ..agents.models.named import CACHE_VARIABLE, read_model_name

    if cache is None:
        return
    if read_model_name(model) is None:
        raise ConfigError("--cache", f"{model} is no real model; there is nothing to keep")
    os.environ[CACHE_VARIABLE] = str(cache.resolve())


def make_spending(model: str, prices: Path | None, limit_usd: float | None, announce: Callable[[str], None]) -> Spending | None:
    """Count the dollars that a real model costs; None for a model that costs none and has no limit.

    Raises:
        ConfigError: the limit is not above 0, or is one for a model that is not real.
        DataError: the price table cannot be read.
    """
    from ..agents.models.named import read_model_name
    from ..experiments.spending import Spending

    if limit_usd is None and read_model_name(model) is None:
        return None
    return Spending(model, prices, limit_usd, announce)

"""Planners by name."""

from __future__ import annotations

from collections.abc import Callable

from ...simulators.errors import UnknownName
from ..base import Agent
from ..models.base import LanguageModel
from .base import CHAT_ENV, ENV_ID, PlanAgent, Planner, PlanSpeaker
from .calling import CALLS_ENV, PlanCaller, RandomCaller
from .planners import PromptPlanner
from .rules import Clairvoyant, Fixed, Greedy, Informed, Random
from .simulated import SimulatedPlanner

_RULES: dict[str, tuple[str, Callable[[], Planner]]] = {
    "oracle": ("the best plan for each sample, known after execution", Clairvoyant),
    "oracle-informed": ("the best fixed plan for each task and size level on the train samples", Informed),
    "greedy": ("adds the restorer that gains most on the train samples, until none gains", Greedy),
    "fixed-all": ("every restorer that the description suggests", lambda: Fixed("fixed-all")),
    "fixed-none": ("no restorer", lambda: Fixed("fixed-none", restore=False)),
    "random": ("a random walk through the planning language", Random),
}
_PROMPTS = {
    "zero-shot": "a language model asked for the plan",
    "few-shot": "the same after worked examples",
    "hugginggpt": "the same after finding the steps",
    "hydra": "the same, choosing among several plans by what they cost",
}
_TRAINED = ("catp", "ift", "rltf")
"""Planners trained by `costgym train`, named with the folder of their run: ``catp:runs/x``."""


def planner_names() -> list[str]:
    """Names of all planners."""
    return [*_RULES, *_PROMPTS]


def is_planner(name: str) -> bool:
    """The name is a planner's, trained ones included."""
    return name in _RULES or name in _PROMPTS or (":" in name and name.split(":", 1)[0] in _TRAINED)


def make_plan_agent(name: str, env_id: str = ENV_ID, model: str | LanguageModel = "simulated") -> Agent:
    """A planner as an agent that plays its plans.

    Args:
        name, model: as in `make_planner`; in the view of calls, ``random`` calls at random.
        env_id: `costgym/OpenCATPChat-v0`, where the plan is given whole, `costgym/OpenCATP-v0`, where it is written token by
            token, or `costgym/OpenCATPCalls-v0`.

    Raises:
        UnknownName: no such planner, model or view.
        DataError: the folder holds no training run that can be read.
    """
    if env_id == ENV_ID:
        return PlanAgent(make_planner(name, model))
    if env_id == CHAT_ENV:
        return PlanSpeaker(make_planner(name, model))
    if env_id != CALLS_ENV:
        raise UnknownName("view of OpenCATP", env_id, (ENV_ID, CHAT_ENV, CALLS_ENV))
    return RandomCaller() if name == "random" else PlanCaller(make_planner(name, model))


def describe_planner(name: str) -> str:
    """One line about a planner."""
    return _RULES[name][0] if name in _RULES else _PROMPTS[name]


def make_planner(name: str, model: str | LanguageModel = "simulated") -> Planner:
    """A planner by name.

    Args:
        name: one of `planner_names()`, or the kind and the folder of a training run: ``catp:RUN``.
        model: a language model, or its name; only the prompted planners ask one.

    Raises:
        UnknownName: no such planner or model; names the nearest.
        DataError: the folder holds no training run that can be read.
    """
    if name in _RULES:
        return _RULES[name][1]()
    if name.split(":", 1)[0] in _TRAINED and ":" in name:
        from ..catp.planner import CatpPlanner

        return CatpPlanner(name.split(":", 1)[1])
    if name not in _PROMPTS:
        raise UnknownName("planner", name, planner_names())
    if model == "simulated":
        return PromptPlanner(name, SimulatedPlanner())
    if isinstance(model, str):
        from ..registry import make_model

        return PromptPlanner(name, make_model(model))
    return PromptPlanner(name, model)

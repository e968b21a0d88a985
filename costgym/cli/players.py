"""Environments, and agents in them, from the options of the command line."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from costgym.cli.options import WorldOptions, whole_id
from costgym.simulators.errors import ConfigError

if TYPE_CHECKING:
    from costgym.agents.models.base import LanguageModel
    from costgym.agents.registry import AgentEntry

USES_WITH_A_CLASSIFIER = 5.0  # past uses a tool where a trained classifier judges each


def find_player(agent: str, env: str | None) -> "AgentEntry":
    """The entry of an agent; raises UnknownName where there is none, or no such environment, and imports none."""
    from costgym.agents.registry import find_agent

    return find_agent(agent, None if env is None else whole_id(env))


def entry_and_id(agent: str, env: str | None, options: WorldOptions) -> tuple["AgentEntry", str]:
    """The entry of an agent, and the id of the environment that it plays in; by default its own."""
    entry = find_player(agent, env)
    return entry, options.env_id(env, entry.env_id, entry.trained_in)


def make_player(
    agent: str,
    env: str | None,
    options: WorldOptions,
    seed: int,
    model: str,
    prices: Path | None = None,
    usefulness: Path | None = None,
    experience: str | None = None,
    at_hand: "LanguageModel | None" = None,
) -> tuple[Any, Any]:
    """Make an agent and the environment that it plays in; by default its own. `usefulness` is a folder of a trained classifier
    that judges results for BTP, which plans from `experience` (EXPLORER:USES, or a file); those uses have a seed only with a
    classifier. `at_hand` is the model, where it is loaded already."""
    # names and options are checked before the modules that play are imported, which takes a second
    entry, env_id = entry_and_id(agent, env, options)
    if usefulness is not None and not entry.needs_experience:
        raise ConfigError("--usefulness", f"{agent} does not judge results; only agents with +btp do, outside sessions")
    arguments = options.arguments(env_id, model, prices)
    if experience is not None and not entry.needs_experience:
        raise ConfigError("--experience", f"{agent} does not plan from past uses; only agents with +btp do, outside sessions")
    from costgym.agents.btp.experience import Experience
    from costgym.agents.btp.usefulness import load_usefulness
    from costgym.agents.registry import make_agent
    from costgym.envs.registration import make
    from costgym.experiments.play.execution.engine import Local, default_jobs
    from costgym.experiments.play.experience import ExperienceSettings, collect_experience, past_uses

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

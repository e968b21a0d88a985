"""Forecast what language agents cost with models of a price table, offline."""

from collections.abc import Callable, Sequence
from typing import Any

from costgym.agents.base import TEXT
from costgym.agents.btp.experience import Experience
from costgym.agents.registry import find_agent, make_agent
from costgym.envs.base import base_env
from costgym.envs.registration import class_of, default_id, make
from costgym.experiments.play.costs.bills import Bills, play_billed
from costgym.experiments.play.costs.price_list import AS_LISTED, PriceList
from costgym.experiments.play.execution.engine import Local
from costgym.experiments.play.experience import ExperienceSettings, past_uses
from costgym.simulators.errors import ConfigError


def forecast(
    agents: Sequence[str],
    models: Sequence[str],
    arguments: Callable[[str], dict[str, Any]],
    tasks_per_month: int = 10_000,
    price_list: PriceList = AS_LISTED,
    episodes: int = 60,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
    say: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Play agents in a scenario whose tokens have a model's prices, and bill each with and without the cache of prompts.

    Args:
        agents: names of language agents; the simulated language model decides for them.
        models: names of the price list.
        arguments: of the environment, by its id.
        episodes: of each agent and model; the same tasks and luck for all.

    Returns:
        A row for each agent, model and cache ("none", "prefix"), with costs in US dollars; from the second agent on with the
        relative `change` from the first.

    Raises:
        ConfigError: an agent asks no language model, or a model is not in the price list.
    """
    tables = {model: price_list.table(model) for model in models}
    rows: list[dict[str, Any]] = []
    firsts: dict[tuple[str, bool], Bills] = {}
    total = len(agents) * len(models) * episodes
    for agent_name in agents:
        entry = find_agent(agent_name, TEXT)
        settings = arguments(TEXT)
        env_id = default_id(TEXT, settings["scenario"])
        unpriced = settings["scenario"].in_world(*class_of(env_id).worlds)
        past = None
        if entry.needs_experience:
            say(f"{agent_name} plans from past uses")
            past = Experience.from_jsonl(past_uses(unpriced, ExperienceSettings(), Local()))
        for model, (table, listed) in tables.items():
            tokens = table.in_currency(listed, unpriced.currency, world=1)  # with the cache, whatever the version
            scenario = unpriced.model_copy(update={"tokens": tokens})
            env = make(env_id, disable_env_checker=True, **{**settings, "scenario": scenario})
            agent = make_agent(agent_name, env_id, model="simulated", experience=past)
            if not agent.model:
                raise ConfigError("--agents", f"{agent_name} asks no language model, so no model's tokens are billed")
            played = []
            for episode in play_billed(env, agent, env_id, episodes, seed):
                played.append(episode)
                progress((len(rows) // 2) * episodes + len(played), total)
            world = base_env(env)
            per_dollar = table.per_dollar[scenario.currency]
            for cached in (False, True):
                bills = Bills(played, table.models[listed], per_dollar, cached)
                first = firsts.setdefault((model, cached), bills)
                row = bills.summary(tasks_per_month, world.grading or "strict", seed)
                change = {} if first is bills else {"change": {"from": agents[0], **bills.change(first, seed)}}
                rows.append({"agent": agent_name, "model": model, "prices": table.date.isoformat(), **row, **change})
    return rows

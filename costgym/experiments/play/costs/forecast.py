"""Forecast what language agents cost with models of a price table, offline."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym

from costgym.agents.base import TEXT, Agent
from costgym.agents.btp.experience import Experience
from costgym.agents.models.named import full_name
from costgym.agents.models.prices import PriceTable
from costgym.agents.models.simulated import SIMULATED, is_simulated
from costgym.agents.registry import find_agent, make_agent
from costgym.envs.base import base_env
from costgym.envs.registration import class_of, default_id, make
from costgym.experiments.play.costs.bills import CACHES, MONTH_S, SHARED, Bills, play_billed
from costgym.experiments.play.costs.price_list import AS_LISTED, PriceList
from costgym.experiments.play.execution.engine import Local
from costgym.experiments.play.experience import ExperienceSettings, past_uses
from costgym.simulators.errors import ConfigError
from costgym.simulators.scenario import Scenario


def forecast(
    agents: Sequence[str],
    models: Sequence[str],
    arguments: Callable[[str], dict[str, Any]],
    tasks_per_month: int = 10_000,
    price_list: PriceList = AS_LISTED,
    episodes: int = 60,
    seed: int = 0,
    decisions: str = SIMULATED,
    shared: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    say: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Play agents in a scenario whose tokens have a model's prices, and bill each with and without the cache of prompts.

    Args:
        agents: names of language agents.
        models: names of the price list.
        arguments: of the environment, by its id.
        episodes: of each agent and model; the same tasks and luck for all.
        decisions: the simulated language model that decides, perhaps with the rates of a twin (`FILE.yaml:twin`).
        shared: bill also what a cache serves that all tasks of an agent share.

    Returns:
        A row for each agent, model and cache ("none", "prefix", and "shared" where asked for), with costs in US dollars; from
        the second agent on with the relative `change` from the first.

    Raises:
        ConfigError: an agent asks no language model, `decisions` is not the simulated one, or a model is not in the price list.
    """
    tables = {model: price_list.table(model) for model in models}
    rows: list[dict[str, Any]] = []
    firsts: dict[tuple[str, str], Bills] = {}
    total = len(agents) * len(models) * episodes
    done = 0
    settings = arguments(TEXT)
    contests = {name: Contest(name, default_id(TEXT, settings["scenario"]), settings, say) for name in agents}
    # all before the first is played, so that a mistake is said at once
    billed = {
        (name, model): contest.billed_by(table, listed, decisions)
        for name, contest in contests.items()
        for model, (table, listed) in tables.items()
    }
    for agent_name, contest in contests.items():
        for model, (table, listed) in tables.items():
            env, agent, per_dollar = billed[agent_name, model]
            played = []
            for episode in play_billed(env, agent, contest.env_id, episodes, seed):
                played.append(episode)
                progress(done + len(played), total)
            done += episodes
            interval_s = MONTH_S / tasks_per_month
            for cache in (*CACHES, *((SHARED,) if shared else ())):
                bills = Bills(played, table.models[listed], per_dollar, cache, interval_s)
                first = firsts.setdefault((model, cache), bills)
                row = bills.summary(tasks_per_month, base_env(env).grading or "strict", seed)
                change = {} if first is bills else {"change": {"from": agents[0], **bills.change(first, seed)}}
                rows.append({"agent": agent_name, "model": model, "prices": table.date.isoformat(), **row, **change})
    return rows


class Contest:
    """An agent in a world whose tokens have the prices of one model or another.

    Args:
        env_id: of the environment.
        settings: its other arguments.

    Raises:
        ConfigError: there is no such agent, or its world is not that of the environment.
    """

    def __init__(
        self, agent: str, env_id: str, settings: Mapping[str, Any], say: Callable[[str], None] = lambda text: None
    ) -> None:
        self.agent, self.env_id, self._settings = agent, env_id, dict(settings)
        self._scenario: Scenario = settings["scenario"].in_world(*class_of(env_id).worlds)
        self._past = None
        if find_agent(agent, TEXT).needs_experience:
            say(f"{agent} plans from past uses")
            self._past = Experience.from_jsonl(past_uses(self._scenario, ExperienceSettings(), Local()))

    def billed_by(self, table: PriceTable, listed: str, decisions: str) -> tuple[gym.Env[Any, Any], Agent, float]:
        """The environment with a model's prices, the agent with the model that decides, and the units of the world's currency
        that are a US dollar.

        Raises:
            ConfigError: the agent asks no language model, or `decisions` is not the simulated one.
        """
        if not is_simulated(name := full_name(decisions)):
            raise ConfigError(
                "--decisions", f"expected simulated, simulated:RATE=..., or FILE.yaml:twin, got {decisions!r:.80}"
            )
        tokens = table.in_currency(listed, self._scenario.currency, world=1)  # with the cache, whatever the version
        scenario = self._scenario.model_copy(update={"tokens": tokens})
        env = make(self.env_id, disable_env_checker=True, **{**self._settings, "scenario": scenario})
        agent = make_agent(self.agent, self.env_id, model=name, experience=self._past)
        if not agent.model:
            raise ConfigError("--agents", f"{self.agent} asks no language model, so no model's tokens are billed")
        return env, agent, table.per_dollar[scenario.currency]

"""Play an agent in an environment, and return the results."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium as gym

from costgym.agents.base import Agent
from costgym.agents.btp.experience import Experience
from costgym.agents.registry import Policy, as_agent, find_agent, make_agent
from costgym.envs.base import base_env
from costgym.experiments.play.costs.spending import Spending, sample_episodes
from costgym.experiments.play.episodes import RolloutContext, chunks, play_many
from costgym.experiments.play.execution.engine import Engine, Local
from costgym.experiments.play.experience import past_uses
from costgym.experiments.play.result_set import Results
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.trajectories.record import Crashes
from costgym.simulators.errors import ConfigError
from costgym.simulators.scenario import parse_scenario


def rollout(
    env: gym.Env[Any, Any],
    agent: Agent | str | Policy | Sequence[Agent | str | Policy],
    episodes: int,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
    engine: Engine | None = None,
    spending: Spending | None = None,
    crashes: Crashes = "raise",
) -> Results:
    """Play an agent in an environment and record every episode.

    Args:
        env: an environment of costgym; its split, budget and grading hold.
        agent: any agent for that view, its name, or a function ``(observation, info) -> action``; or several, which play the
            same episodes. An agent named with ``+btp`` plans from the past uses that `costgym run` gives it.
        episodes: how many, at least 1.
        seed: same seed, same results.
        progress: called with the number of finished episodes.
        engine: where episodes are played; by default here. The results do not depend on it.
        spending: counts what a real model costs. At its limit, fewer episodes are played.
        crashes: "count" lets an exception of the agent's code end that episode as a failure; "raise" lets it pass.

    Returns:
        The episodes' results in order, a sequence that also has summaries, comparisons, frames and figures.

    >>> import costgym
    >>> from costgym.agents import make_agent
    >>> env = costgym.make("costgym/Marketplace-v0", scenario="marketplace")
    >>> results = costgym.rollout(env, make_agent("cheapest"), episodes=5, seed=0)
    >>> len(results), results.split
    (5, 'train')
    >>> list(costgym.rollout(env, ["cheapest", "greedy"], episodes=5).summary())
    ['cheapest, 20 credits', 'greedy, 20 credits']
    """
    if isinstance(episodes, bool) or not isinstance(episodes, int) or episodes < 1:
        raise ConfigError("episodes", f"expected a positive whole number, got {episodes!r:.60}")
    if isinstance(agent, Sequence) and not isinstance(agent, str):
        if not agent:
            raise ConfigError("agent", "expected at least one agent")
        played_by = [rollout(env, one, episodes, seed, progress, engine, spending, crashes) for one in agent]
        return sum(played_by[1:], start=played_by[0])
    results: list[EpisodeResult] = []
    agent = _with_past_uses(agent, env, engine) if isinstance(agent, str) else as_agent(agent, env)
    workers, shared = engine or Local(), (RolloutContext(env, agent), seed, crashes)
    if spending is None:
        played = workers.stream(_results, shared, chunks(0, episodes, workers))
    else:
        singles = ((agent.name, range(index, index + 1)) for index in range(episodes))
        played = spending.stream(workers, _results, shared, singles, lambda result: result)
    for result in played:
        results.append(result)
        if progress is not None:
            progress(len(results))
    world = base_env(env)
    try:
        currency = str(world.world_spec().summary().get("currency") or "")
    except ConfigError:  # the world was made from an object that no document can hold
        currency = ""
    return Results(results, split=world.split, grading=world.grading, currency=currency, seed=seed)


def _with_past_uses(name: str, env: gym.Env[Any, Any], engine: Engine | None) -> Agent:
    """The agent of a name; one that plans from past uses of the tools gets those that `costgym run` gives it."""
    agent = as_agent(name, env)
    if not find_agent(name, agent.env_id).needs_experience:
        return agent
    scenario = parse_scenario(dict(base_env(env).world_spec().document), "env")
    return make_agent(name, agent.env_id, experience=Experience.from_jsonl(past_uses(scenario, engine=engine)))


def expect_spending(spending: Spending, env: gym.Env[Any, Any], simulated: Agent, episodes: int, seed: int = 0) -> None:
    """Forecast what a roll-out costs, and say so; raises ConfigError if there is a limit and the tokens have no price."""
    usd_per_unit = spending.usd_per_unit(base_env(env).world_spec().document)
    if usd_per_unit is None:
        spending.unpriced()
        return
    played = play_many(env, simulated, RolloutContext(env, simulated).env_id, sample_episodes(episodes), seed)
    spending.expect(simulated.name, usd_per_unit, [result for result, _ in played], episodes)
    spending.announce(episodes)


def _results(shared: tuple[RolloutContext, int, Crashes], indices: range) -> Iterator[EpisodeResult]:
    context, seed, crashes = shared
    for result, _ in play_many(context.env, context.agent, context.env_id, indices, seed, recorded=False, crashes=crashes):
        yield result

"""Does a change make an agent dearer or worse? A paired test on the same tasks and luck, for continuous integration.

A baseline file has what each episode cost and whether it was a success. The changed agent plays the same episodes, as few as
the answer needs: after each look it fails if the rise is over the limit and not chance, and passes if it is surely below.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from costgym.agents.base import SESSION_CHAT, TEXT, Agent, view_of
from costgym.agents.btp.experience import Experience
from costgym.agents.models.prices import shipped_prices
from costgym.agents.registry import AgentEntry, make_agent
from costgym.envs.registration import class_of, make
from costgym.experiments.play.episodes import RolloutContext, play_many
from costgym.experiments.play.execution.engine import Local
from costgym.experiments.play.experience import ExperienceSettings, past_uses
from costgym.experiments.play.results import outcome
from costgym.experiments.play.statistics import sign_flip_p_values
from costgym.simulators.bounds import what_is_wrong
from costgym.simulators.errors import ConfigError, DataError
from costgym.simulators.files import json_text, read_json, write_atomically
from costgym.simulators.scenario import Scenario

TEXT_ENVS = (TEXT, SESSION_CHAT)
FIRST_LOOK, EPISODES = 24, 192  # episodes after which the changed agent is first compared, and of a baseline by default
USUAL_MODEL = "gpt-5-mini"  # whose prices tokens have in a world where they are free
MAX_CHANCE = 0.05  # of failing an agent that has not changed, over both tests and all looks
Progress = Callable[[int, int], None]


class BaselineEpisode(BaseModel):
    """An episode of the agent as it was."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    task: str
    cost: float = Field(ge=0, allow_inf_nan=False)
    success: bool


class Baseline(BaseModel):
    """What an agent cost and how often it succeeded before a change; `world` is what was played."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    format: Literal["costgym.gate/1"] = "costgym.gate/1"
    agent: str
    world: dict[str, Any]
    seed: int
    currency: str
    episodes: tuple[BaselineEpisode, ...] = Field(min_length=1)

    @property
    def env_id(self) -> str | None:
        """The environment that was played, as far as the file says."""
        return env_id if isinstance(env_id := self.world.get("env"), str) else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of a gate.

    Attributes:
        passed: whether the change is let through.
        sentence: the answer in words.
        episodes: how many were played.
        cost_change: relative change of the cost; `success_change`: of the share of successes, in points.
        p_cost, p_success: p-values of these changes.
    """

    passed: bool
    sentence: str
    episodes: int
    cost_change: float
    success_change: float
    p_cost: float
    p_success: float


def contestants(
    entry: AgentEntry, env_id: str, settings: Mapping[str, Any], price_as: str | None = None
) -> tuple[gym.Env[Any, Any], Agent, str]:
    """Make the environment of a gate, the agent and the currency of its costs.

    Args:
        entry: of the agent, one's own or one of the registry.
        env_id: the environment.
        settings: arguments of the environment.
        price_as: the model whose prices the tokens of a text environment have where its scenario prices none; by default
            those of the world, and of `USUAL_MODEL` where they are free there.
    """
    scenario, priced = settings.get("scenario"), dict(settings)
    if isinstance(scenario, Scenario) and scenario.tokens is None and view_of(env_id) in TEXT_ENVS:
        free = scenario.in_world(*class_of(env_id).worlds).token_prices() is None
        if model := price_as or (USUAL_MODEL if free else ""):
            priced["scenario"] = shipped_prices(model).price(scenario, model)
    past = None
    if entry.needs_experience:
        past = Experience.from_jsonl(past_uses(settings["scenario"], ExperienceSettings(), Local()))
    agent = make_agent(entry.name, env_id, experience=past)
    currency = scenario.currency if isinstance(scenario, Scenario) else "USD"
    return make(env_id, disable_env_checker=True, **priced), agent, currency


def write_baseline(
    path: Path,
    env: gym.Env[Any, Any],
    agent: Agent,
    seed: int,
    currency: str,
    episodes: int = EPISODES,
    progress: Progress = lambda done, total: None,
) -> Baseline:
    """Play the agent as it is and write its episodes to a file."""
    played = []
    for episode in _play(env, agent, seed, range(episodes)):
        played.append(episode)
        progress(len(played), episodes)
    baseline = Baseline(agent=agent.name, world=_world(env, agent), seed=seed, currency=currency, episodes=tuple(played))
    write_atomically(path, json_text(baseline.model_dump(mode="json")))
    return baseline


def read_baseline(path: Path) -> Baseline:
    """Read a baseline file; raises DataError, which names the field, where it is none."""
    try:
        return Baseline.model_validate(read_json(path))
    except ValidationError as error:
        field, problem = what_is_wrong(error)
        raise DataError(path, f"{problem}; write it again with --write-baseline", field) from None


def gate(
    baseline: Baseline,
    env: gym.Env[Any, Any],
    agent: Agent,
    max_cost: float = 0.05,
    max_drop: float = 2.0,
    progress: Progress = lambda done, total: None,
) -> Verdict:
    """Compare an agent with its baseline.

    Args:
        max_cost: the largest relative rise of the cost that passes.
        max_drop: the largest fall of the share of successes that passes, in points.

    Raises:
        ConfigError: the environment is not that of the baseline, or a limit is not a finite number of at least 0.
    """
    for name, limit in (("--max-cost", max_cost), ("--max-drop", max_drop)):
        if not (np.isfinite(limit) and limit >= 0):
            raise ConfigError(name, f"expected a finite number of at least 0, got {limit:g}")
    if _world(env, agent) != baseline.world:
        raise ConfigError("--baseline", "was played in another world; give the same options, or write it again")
    return compare(baseline.episodes, lambda episodes: _play(env, agent, baseline.seed, episodes), max_cost, max_drop, progress)


def compare(
    before: Sequence[BaselineEpisode],
    play: Callable[[range], Iterable[BaselineEpisode]],
    max_cost: float = 0.05,
    max_drop: float = 2.0,
    progress: Progress = lambda done, total: None,
) -> Verdict:
    """Compare episodes with those before a change, of which `play` makes the next ones until the answer is clear."""
    looks = _looks(len(before))
    after: list[BaselineEpisode] = []
    for number, look in enumerate(looks, 1):
        for episode in play(range(len(after), look)):
            after.append(episode)
            progress(len(after), looks[-1])
        verdict = _verdict(before[:look], after, max_cost, max_drop, MAX_CHANCE / (2 * len(looks)), number == len(looks))
        if verdict is not None:
            return verdict
    raise AssertionError("the last look always has an answer")


def _looks(episodes: int) -> list[int]:
    """The numbers of episodes after which an answer is looked for: each twice the one before, and all."""
    looks = [FIRST_LOOK]
    while looks[-1] < episodes:
        looks.append(2 * looks[-1])
    return [*looks[:-1], episodes]


def _verdict(
    before: Sequence[BaselineEpisode],
    after: Sequence[BaselineEpisode],
    max_cost: float,
    max_drop: float,
    chance: float,
    last: bool,
) -> Verdict | None:
    """The answer after a look, or None where more episodes are needed."""
    old, new = (np.array([[episode.cost, episode.success] for episode in side], dtype=np.float64) for side in (before, after))
    total, count = float(old[:, 0].sum()), len(old)
    rise, drop = new[:, 0] - old[:, 0], old[:, 1] - new[:, 1]
    over = np.stack([new[:, 0] - (1 + max_cost) * old[:, 0], drop - max_drop / 100])
    p_cost, p_success, *p_below = sign_flip_p_values(np.concatenate([np.stack([rise, drop]), over])).tolist()
    cost_change = float(rise.sum()) / total if total else float(np.sign(rise.sum())) * np.inf if rise.any() else 0.0
    points = 0.0 - 100.0 * float(drop.mean())
    dearer = cost_change > max_cost and p_cost / 2 < chance
    worse = -points > max_drop and p_success / 2 < chance
    surely_below = all(
        (p / 2 < chance and margin.sum() < 0) or not change.any()
        for p, margin, change in zip(p_below, over, (rise, drop), strict=True)
    )
    if not (dearer or worse or surely_below or last):
        return None
    changes = f"costs {cost_change:+.1%} (limit +{max_cost:.0%}), succeeds {points:+.1f} points (limit −{max_drop:g})"
    answer = "fail" if dearer or worse else "pass"
    words = f"{answer}: {changes}, over {count} paired episodes; p = {p_cost:.2g} and {p_success:.2g}"
    return Verdict(not (dearer or worse), words, count, cost_change, points, p_cost, p_success)


def _play(env: gym.Env[Any, Any], agent: Agent, seed: int, episodes: range) -> list[BaselineEpisode]:
    grading = getattr(env.unwrapped, "grading", None) or "strict"
    env_id = RolloutContext(env, agent).env_id
    return [
        BaselineEpisode(task=str(result.task), cost=result.price, success=outcome(result, grading) == "passed")
        for result, _ in play_many(env, agent, env_id, episodes, seed, recorded=False, crashes="count")
    ]


def _world(env: gym.Env[Any, Any], agent: Agent) -> dict[str, Any]:
    """What is played: the environment, the digest of its world and its other arguments."""
    header = RolloutContext(env, agent).header
    document: dict[str, Any] = json.loads(json_text({"env": header.env, "digest": header.digest, "settings": header.settings}))
    return document

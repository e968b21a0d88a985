"""Build the named datasets and their cards, measure the reference scores that they hold, and sum them up."""

import statistics
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from costgym.agents.base import Agent
from costgym.envs.base import base_env
from costgym.envs.registration import make
from costgym.experiments.play.collect import collect
from costgym.experiments.play.execution.engine import Engine
from costgym.experiments.play.export.minari import LOG_PROBABILITIES, Contents, datasets_in, to_minari
from costgym.experiments.play.named.catalogue import Family, Part, Recipe, family_of, recipe_of
from costgym.experiments.play.trajectories.record import record
from costgym.simulators import __version__
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import ConfigError, DataError, require

INFOS = ("action_mask", "is_success", "costs", "costs_seconds", "costs_calls", LOG_PROBABILITIES)
"""Infos of the named datasets; see `export.minari` for their alignment."""
Progress = Callable[[str, int, int], None]


class Reference(NamedTuple):
    """The figures of a policy on the split `test`."""

    score: float  # mean return, which is the Quality of Plan
    cost: float  # mean price of an episode
    success: float  # share of episodes that succeed


def build(
    dataset_id: str,
    root: str | Path | None = None,
    episodes: int | None = None,
    seed: int = 0,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Path:
    """Build a named dataset, such as `costgym/marketplace/expert-v0`, below `root` (by default Minari's own), or a trial of so
    many episodes. The same name, seed and number of episodes give the same bytes; published figures are of seed 0."""
    recipe = recipe_of(dataset_id)
    target = folder_of(dataset_id, root)
    if target.exists():
        raise ConfigError("dataset", f"{dataset_id} is in {target} already; `minari delete {dataset_id}` removes it")
    parts = _shortened(recipe.parts, episodes)
    report = progress or (lambda what, done, total: None)
    family = recipe.family
    env = make(family.env_id, disable_env_checker=True, **family.arguments)
    behaviours: dict[str, Agent] = {}
    total = sum(part.episodes for part in parts)
    with tempfile.TemporaryDirectory() as folder:
        done = 0
        for number, part in enumerate(parts):
            agent = part.make()
            behaviours[agent.name] = agent
            dataset_seed = stable_integer(seed, "dataset", dataset_id.replace("-flat", ""), number) >> 33

            def recorded(count: int, _: int, before: int = done) -> None:
                report("play", before + count, total)

            collect(env, agent, part.episodes, Path(folder) / f"{number:02}", dataset_seed, recorded, engine)
            done += part.episodes
        metadata = _metadata(recipe, seed, total)
        contents = Contents(recipe.flat, (*INFOS, *family.infos), behaviours, metadata)
        return to_minari(folder, dataset_id, root=root, progress=lambda count: report("write", count, total), contents=contents)


def folder_of(dataset_id: str, root: str | Path | None = None) -> Path:
    """Folder of a dataset, which need not exist, below `root`; by default Minari's own."""
    minari = require("minari", "data")
    with datasets_in(root):
        return Path(minari.storage.get_dataset_path(dataset_id))


def _shortened(parts: tuple[Part, ...], episodes: int | None) -> tuple[Part, ...]:
    if episodes is None:
        return parts
    whole = sum(part.episodes for part in parts)
    if isinstance(episodes, bool) or not isinstance(episodes, int) or not len(parts) <= episodes <= whole:
        raise ConfigError("episodes", f"expected a whole number from {len(parts)} to {whole}, got {episodes!r}")
    share, rest = divmod(episodes, len(parts))
    return tuple(Part(part.make, share + (number < rest)) for number, part in enumerate(parts))


def _metadata(recipe: Recipe, seed: int, episodes: int) -> dict[str, Any]:
    """The entries of Minari's metadata that a named dataset sets."""
    family = recipe.family
    random, expert = references(family.name)
    metadata: dict[str, Any] = {
        "algorithm_name": recipe.summary,
        "author": ["The costgym developers"],
        "code_permalink": f"experiments/play/named/build.py in costgym {__version__}",
        "license": "Apache-2.0",
        "ref_min_score": random.score,
        "ref_max_score": expert.score,
        "num_episodes_average_score": family.references,
        "ref_random_cost": random.cost,
        "ref_expert_cost": expert.cost,
        "seed": seed,
        "description": card(recipe, episodes, seed),
    }
    if family.cost_limit is not None:
        metadata["cost_limit"] = family.cost_limit
    return metadata


@lru_cache(maxsize=8)
def references(world: str) -> tuple[Reference, Reference]:
    """Measure random actions and the expert on the split `test` of a world of the named datasets. The mean return of random
    actions is the normalised score 0, the expert's 100."""
    family = family_of(world)
    random, expert = recipe_of(f"costgym/{world}/random-v0").parts[0].make(), family.expert()
    env = evaluation_environment(family)
    return measure(env, random, family.references), measure(env, expert, family.references)


def evaluation_environment(family: Family) -> gym.Env[Any, Any]:
    """The environment in which policies for a world of the named datasets are evaluated."""
    return make(family.env_id, disable_env_checker=True, **{**family.arguments, "split": "test"})


def measure(env: gym.Env[Any, Any], agent: Agent, episodes: int, seed: int = 0) -> Reference:
    """Measure an agent as the reference scores are: the tasks of the split in turn, each round under the next seed."""
    world = base_env(env)
    scores, costs, passes = [], [], []
    for index in range(episodes):
        number, world_seed, options = world.instance(index, seed)
        recorded, _ = record(env, agent, number, world_seed, options=options)
        scores.append(sum(recorded.rewards))
        costs.append(float(recorded.final["price"]))
        passes.append(world.succeeded)
    return Reference(statistics.fmean(scores), statistics.fmean(costs), statistics.fmean(passes))


def card(recipe: Recipe, episodes: int, seed: int) -> str:
    """The card of a dataset in Markdown; Minari's `description`."""
    family = recipe.family
    command = f"costgym datasets build {recipe.dataset_id}"
    command += f" --episodes {episodes}" if episodes != family.episodes else ""
    command += f" --seed {seed}" if seed else ""
    shape = (
        "one float32 vector, the environment's arrays one after the other" if recipe.flat else "a dictionary of float32 arrays"
    )
    lines = [
        f"**World.** {family.summary}",
        f"**Behaviour.** {recipe.summary}",
        f"**Evaluation.** `recover_environment(eval_env=True)` is `{family.env_id}` on the split `test`, whose tasks are "
        "not in the data. Normalised scores are 0 for random actions and 100 for the expert there.",
        f"**Observations.** {shape[0].upper()}{shape[1:]}.",
        "**Alignment.** `infos['costs'][t]`, `infos['log_probabilities'][t]` and `infos['action_mask'][t]` belong to "
        "`actions[t]` and `rewards[t]`. Terminations are the ends of tasks; truncations those at the step limit.",
        f"**Made by** `{command}` with costgym {__version__}; the same command makes the same bytes.",
    ]
    if family.cost_limit is not None:
        lines.insert(
            1, f"**Constraint.** A mean price of at most {family.cost_limit:g} credits an episode; `costs` are prices."
        )
    return "\n\n".join(lines)


def load(dataset_id: str, root: str | Path | None = None) -> Any:
    """Load a Minari dataset from a folder of datasets."""
    minari = require("minari", "data")
    with datasets_in(root):
        try:
            return minari.load_dataset(dataset_id)
        except FileNotFoundError:
            raise DataError(folder_of(dataset_id, root), f"holds no dataset {dataset_id}; build it first") from None


def summarise(dataset_id: str, root: str | Path | None = None) -> dict[str, Any]:
    """Compute the figures of a named dataset that was built below `root`, by default Minari's own: its size, and the means of
    return, normalised score (100 is the expert on the test tasks), success, cost and coverage of its episodes on the train
    tasks. Coverage is the share of the actions allowed at some step of an episode that are taken in it; `unlikeliest` is the
    lowest probability with which a policy took the action that it took."""
    minari = require("minari", "data")
    dataset = load(dataset_id, root)
    returns, costs, passed, covered, unlikeliest = [], [], [], [], 1.0
    for episode in dataset.iterate_episodes():
        allowed = episode.infos["action_mask"][:-1].astype(np.bool_).any(axis=0)
        covered.append(len(np.unique(episode.actions)) / int(allowed.sum()))
        unlikeliest = min(unlikeliest, float(np.exp(episode.infos[LOG_PROBABILITIES].min())))
        returns.append(float(np.sum(episode.rewards)))
        costs.append(float(np.sum(episode.infos["costs"])))
        passed.append(bool(episode.infos["is_success"][-1]))
    scores = 100.0 * minari.get_normalized_score(dataset, np.asarray(returns))
    files = folder_of(dataset_id, root).rglob("*")
    return {
        "dataset": dataset_id,
        "episodes": len(returns),
        "steps": int(dataset.total_steps),
        "mean_return": float(np.mean(returns)),
        "normalised_score": float(np.mean(scores)),
        "success": float(np.mean(passed)),
        "mean_cost": float(np.mean(costs)),
        "coverage": float(np.mean(covered)),
        "unlikeliest": unlikeliest,
        "size_mb": sum(file.stat().st_size for file in files if file.is_file()) / 1e6,
    }

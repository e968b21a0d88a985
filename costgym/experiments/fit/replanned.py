"""What recorded episodes would have cost in another condition: the world answers again, and a twin of their model decides.

The simulated model is fitted to the recorded episodes of `react`, and plays their tasks with another agent, budget or price
list. Nothing of the record's decisions is kept, since the first request that differs leads elsewhere; so the costs have an
interval, which holds what the fit leaves open and the model's own chance.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costgym.agents.models.simulated import Simulated
from costgym.envs.base import base_env
from costgym.experiments.fit.twin import LEVEL, fit, read_evidence
from costgym.experiments.play.costs.bills import PREFIX, Bills, PlayedEpisode
from costgym.experiments.play.costs.forecast import Contest
from costgym.experiments.play.costs.price_list import AS_LISTED, PriceList
from costgym.experiments.play.episodes import instance_of, play, result_of
from costgym.experiments.play.trajectories.format import Header, read_trajectories
from costgym.experiments.play.trajectories.replay import trajectory_files
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import ConfigError, CostGymError, DataError
from costgym.simulators.scenario import parse_scenario

REPLANNED = "replanned"
DRAWS = 20  # of the twin's rates


def replanned_costs(
    path: Path,
    agents: Sequence[str],
    models: Sequence[str],
    budget: Mapping[str, float] | None = None,
    tasks_per_month: int = 10_000,
    price_list: PriceList = AS_LISTED,
    episodes: int = 60,
    draws: int = DRAWS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[dict[str, Any]]:
    """Forecast what agents cost on the tasks of recorded episodes of `react`, with their model's twin.

    Args:
        path: a trajectory file, or a folder with one.
        models: of the price list, whose prices the tokens have.
        budget: instead of that of the record.
        episodes: of the record that are played, each once for each draw of the twin's rates.

    Returns:
        A row for each agent and model, with means in US dollars and the 5 and 95 % quantiles of them.

    Raises:
        DataError: the file holds no episodes of `react` that can be played again.
        ConfigError: as for `forecast`.
    """
    header, indices, seed = _record(path)
    twin = fit(read_evidence(path))
    settings = {**header.arguments(), **({} if budget is None else {"budget": budget})}
    settings["scenario"] = parse_scenario(dict(settings["scenario"]))
    indices = indices[:episodes]
    rows: list[dict[str, Any]] = []
    total = len(agents) * len(models) * draws
    for agent in agents:
        contest = Contest(agent, header.env, settings)
        for model in models:
            table, listed = price_list.table(model)
            runs = []
            for draw, rates in enumerate(twin.draws(draws, seed)):
                env, player, per_dollar = contest.billed_by(table, listed, Simulated(rates).name)
                played = [_played(env, player, header.env, index, seed, draw) for index in indices]
                bills = Bills(played, table.models[listed], per_dollar, PREFIX)
                runs.append(bills.summary(tasks_per_month, base_env(env).grading or "strict", seed))
                progress(len(rows) * draws + len(runs), total)
            rows.append({
                "agent": agent, "model": model, "mode": REPLANNED, "prices": table.date.isoformat(),
                "episodes": len(indices), "draws": draws, "fitted_to": twin.episodes, **_summary(runs),
            })  # fmt: skip
    return rows


def _record(path: Path) -> tuple[Header, list[int], int]:
    """The header of the recorded episodes, their indices and the seed of their run."""
    try:
        files = trajectory_files(path)
        if len(files) != 1:
            raise DataError(path, f"expected one trajectory file, got {len(files)}")
        header, trajectories = read_trajectories(files[0])
        recorded = list(trajectories)
        return header, [trajectory.episode for trajectory in recorded], recorded[0].seed
    except (CostGymError, IndexError) as error:
        advice = "a log has no world that could answer other calls: make one with `costgym forge --traces`, and forecast there"
        raise ConfigError("--mode", f"{REPLANNED} needs recorded episodes of `react` ({error}); {advice}") from None


def _played(env: Any, agent: Any, env_id: str, index: int, seed: int, draw: int) -> PlayedEpisode:
    """Play an episode of the record with a chance of the model's own in each draw."""
    world = base_env(env)
    number, world_seed, _ = instance_of(world, index, seed)
    episode = play(env, agent, number, world_seed, stable_integer(seed, "twin", draw, index) >> 1)
    return PlayedEpisode(result_of(world, agent, env_id, index), tuple(episode.ledger.usages))


def _summary(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Medians over the draws of figures that every run has, and intervals of the main ones."""
    row = {
        name: None if any(run[name] is None for run in runs) else float(np.median([run[name] for run in runs]))
        for name, value in runs[0].items()
        if name not in ("cache", "episodes", "usd_per_task_ci95") and not isinstance(value, str)
    }
    ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    for name in ("usd_per_task", "usd_per_month", "success"):
        row[f"{name}_interval"] = np.quantile([run[name] for run in runs], ends).tolist()
    return {"cache": PREFIX, **row}

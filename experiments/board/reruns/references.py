"""Reference agents of a rerun: rules and bounds of ours, played in the very episodes of a row, to measure its gap against."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....agents.registry import make_agent
from ...play.results import EpisodeResult
from ...play.rollout import play_many
from ..conditions import PASS_RATE, Condition
from ..run_config import TrackConfig, entry_of

REFERENCES = {
    "text": ("react", "plan-act", "dfsdt+ecoact"),
    "numbers": ("cheapest", "greedy", "oracle-informed"),
    "writes": ("retry", "check-then-retry"),
    "decisions": ("deer-rule", "deer"),
    "plans": ("few-shot", "greedy"),
}
"""Of each track; none needs an extra, a server or past uses, so anybody who verifies a board plays the same."""


def play_references(track: TrackConfig, condition: Condition, seed: int, data: str | None = None) -> list[list[EpisodeResult]]:
    """Play the episodes of a condition with the references of its track: the results of each, in order.

    Args:
        track: in whose world they play.
        condition: with the number of episodes.
        seed: of the run.
        data: folder or file that the world is read from, where it lies elsewhere now.
    """
    where = None if track.data is None else data
    found = []
    for name in REFERENCES.get(track.name, ()):
        env_id = entry_of(name, track.name).env_id
        env, agent = track.make_env(env_id, condition, where), make_agent(name, env_id)
        about = env, agent, env_id, range(condition.episodes), seed, condition.settings, track.seeds
        found.append([result for result, _ in play_many(*about, recorded=False)])
    return found


def value_of(result: EpisodeResult, metric: str) -> float:
    """The value of an episode by the figure that ranks: passed within its budget or not, or a score; NaN where it is void."""
    if result.void:
        return float("nan")
    if metric == PASS_RATE:
        return float(result.strict and result.within_budget)
    return float(result.figures.get(metric, result.quality))


def best_of(result: EpisodeResult) -> float:
    """The plan score of the episode's optimum, which is a reference too."""
    return result.quality + (result.regret or 0.0)


def columns(results: list[EpisodeResult], references: list[list[EpisodeResult]], metric: str) -> NDArray[np.float64]:
    """The references' values in some episodes, the optimum's last, (n_episodes, n_references).

    Args:
        results: of the agent in those episodes.
        references: as `play_references` returns them for the condition.
        metric: the figure that ranks.
    """
    rows = [[value_of(each[result.episode], metric) for each in references] + [best_of(result)] for result in results]
    return np.array(rows, dtype=np.float64).reshape(len(results), len(references) + 1)

"""The informed policy beside an entry's rows, in the very same episodes: whoever beats it again and again knew their luck."""

import json
from collections.abc import Iterable, Mapping

from costgym.agents.base import NUMERIC, PLAN_CHAT
from costgym.agents.registry import make_agent
from costgym.experiments.board.conditions import Condition, condition_key
from costgym.experiments.board.run_config import RunConfig, TrackConfig
from costgym.experiments.board.suites import ALL_VIEWS
from costgym.experiments.board.tracks import track_of
from costgym.experiments.play.episodes import play_many
from costgym.experiments.play.results import EpisodeResult

INFORMED = "oracle-informed"
"""The policy that knows how every tool behaves on average, but not the luck of the episode."""
_INFORMED_VIEWS = {"text": NUMERIC, "one-world": NUMERIC, "numbers": NUMERIC, "plans": PLAN_CHAT}
"""Tracks that have it, and the view in which it plays their episodes."""


Informed = Mapping[tuple[str, str], Mapping[int, EpisodeResult]]
"""Episodes of the informed policy by their world and condition, and by their index."""


def informed_of(run: RunConfig, results: Iterable[EpisodeResult]) -> Informed:
    """The informed policy's episodes among the results of a run, which `play_informed` need not play again."""
    episodes: dict[tuple[str, str], dict[int, EpisodeResult]] = {}
    for result in results:
        if result.agent == INFORMED:
            track = run.track(track_of(result.env, result.settings))
            key = _world_key(track, result.env), condition_key(result.budget, result.settings)
            episodes.setdefault(key, {})[result.episode] = result
    return episodes


def play_informed(
    track: TrackConfig, condition: Condition, seed: int, data: str | None = None, known: Informed | None = None
) -> Mapping[int, EpisodeResult]:
    """Play the episodes of a condition with the informed policy; empty where the track has none.

    Args:
        known: episodes of a run with this seed; a condition that is whole there is not played again.
    """
    env_id = _INFORMED_VIEWS.get(track.name)
    if env_id is None:
        return {}
    known_results = (known or {}).get((_world_key(track, env_id), condition.key), {})
    if len(known_results) == condition.episodes:
        return known_results
    # chat agents meet the same tasks and the same luck as those that see numbers
    seen = track.model_copy(update={"name": "numbers", "env": NUMERIC}) if env_id == NUMERIC else track
    return {result.episode: result for result in _play(seen, env_id, INFORMED, condition, seed, data)}


def _world_key(track: TrackConfig, env_id: str) -> str:
    settings = {**track.settings.get(ALL_VIEWS, {}), **track.settings.get(env_id, {})}
    return json.dumps([env_id, track.digest, track.split, track.seeds, settings], sort_keys=True)


def _play(track: TrackConfig, env_id: str, name: str, condition: Condition, seed: int, data: str | None) -> list[EpisodeResult]:
    env = track.make_env(env_id, condition, None if track.data is None else data)
    about = env, make_agent(name, env_id), env_id, range(condition.episodes), seed, condition.settings, track.seeds
    return [result for result, _ in play_many(*about, recorded=False)]

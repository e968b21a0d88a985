"""The conditions that rows are played under, and the order of rows within them."""

import itertools
import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from costgym.experiments.board.tracks import TRACKS, track_of
from costgym.experiments.play.metric_registry import with_unit
from costgym.experiments.play.metrics import GRADINGS
from costgym.experiments.play.results import EpisodeResult
from costgym.simulators.ledger import RESOURCES

PASS_RATE = "pass_rate_under_budget"
_SETTING_LABELS = {
    "tasks": "{} tasks",
    "alpha": "α = {:g}",
    "failures": "failures × {:g}",
    "rate_limits": "rate limits × {:g}",
    "latency": "latency × {:g}",
}
CALM = {"failures": 0.0, "rate_limits": 0.0, "latency": 1.0}
"""The stress of a world without faults, where it varies; see `simulators.stress`."""
OWN_LIMITS = "a budget of its own for each episode"
Item = TypeVar("Item")
Group = TypeVar("Group", bound=Hashable)


class Condition(BaseModel):
    """The condition of an entry: a budget, with the limit of each limited resource, and settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    budget: dict[str, float] = {}  # pydantic copies it
    settings: dict[str, Any] = {}  # arguments of the environment that vary within the run
    episodes: int  # number of episodes

    @property
    def key(self) -> str:
        """Names the condition within its track."""
        return condition_key(self.budget, self.settings)

    @property
    def calm(self) -> "Condition | None":
        """The same condition in a world without faults; None where it is that itself, or where no stress varies."""
        settings = {name: CALM.get(name, value) for name, value in self.settings.items()}
        return None if settings == self.settings else self.model_copy(update={"settings": settings})

    def document(self) -> dict[str, Any]:
        """Budget and settings, as `leaderboard.json` lists its conditions."""
        return {"budget": dict(self.budget), "settings": dict(self.settings)}


def condition_key(budget: Mapping[str, float], settings: Mapping[str, Any], track: str = "") -> str:
    """The same text for the same condition of the same track."""
    return json.dumps([track, dict(budget), dict(settings)], sort_keys=True)


def row_of(result: EpisodeResult) -> tuple[str, str, str]:
    """The row of an episode, as `RowConfig.identity`."""
    return track_of(result.env, result.settings), result.agent, condition_key(result.budget, result.settings)


def grouped(items: Iterable[Item], key: Callable[[Item], Group]) -> dict[Group, list[Item]]:
    """Items by their keys, in the order of first use."""
    groups: dict[Group, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def settings_of(row: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a row of a leaderboard was played with; its document says which ones vary in its track."""
    track = row.get("track", "")
    conditions = [condition for condition in document.get("conditions") or () if condition.get("track", track) == track]
    return {name: row[name] for name in (conditions[0].get("settings") or {} if conditions else {}) if name in row}


def row_key(row: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """`condition_key` of a row."""
    return condition_key(row.get("budget") or {}, settings_of(row, document), str(row.get("track", "")))


def grading_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """The grading of a leaderboard's rows."""
    return next((row["grading"] for row in rows if row.get("grading") in GRADINGS), GRADINGS[0])


def seeds_of(document: Mapping[str, Any], track: str | None = None) -> int:
    """The episodes of one task in a row, of a leaderboard or of one of its tracks."""
    return int(_of_track(document, track).get("seeds") or 1)


def _of_track(document: Mapping[str, Any], track: str | None) -> Mapping[str, Any]:
    return next((candidate for candidate in document.get("tracks") or () if candidate.get("name") == track), document)


def currency_of(document: Mapping[str, Any], track: str | None = None) -> str:
    """The currency of a leaderboard's world, or of one of its tracks; "" where it is not stated."""
    scenario = _of_track(document, track).get("scenario")
    return str(scenario.get("currency") or "") if isinstance(scenario, Mapping) else ""


def budget_label(budget: Mapping[str, float] | None, currency: str = "") -> str:
    """A budget as text, for example ``20 ¢, 60 s``."""
    units = {"price": currency, "seconds": "s"}
    limits = budget or {}
    named = [name for name in RESOURCES if name in limits] + sorted(name for name in limits if name not in RESOURCES)
    texts = (
        with_unit(f"{limits[name]:,g}", unit) if (unit := units.get(name, name)) else f"{name} {limits[name]:,g}"
        for name in named
    )
    return ", ".join(texts) or "unlimited"


def settings_label(row: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """The settings of a row that vary within the leaderboard, as text; "" where none does. Rows with the same settings played
    the same tasks with the same luck, whatever their budget."""
    settings = settings_of(row, document)
    settings.pop("scenario", None)  # it names the track's world
    names = sorted(settings, key=lambda name: list(_SETTING_LABELS).index(name) if name in _SETTING_LABELS else len(settings))
    return ", ".join(_SETTING_LABELS.get(name, f"{name} {{}}").format(settings[name]) for name in names)


def condition_label(row: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """A row's condition as text: its budget and the settings that vary within the leaderboard."""
    settings = settings_label(row, document)
    budget = row.get("budget") or {}
    limits = budget_label(budget, currency_of(document, row.get("track")))
    track = TRACKS.get(str(row.get("track")))
    if not budget and track is not None and track.computes_limits:
        limits = OWN_LIMITS
    return ", ".join(filter(None, (settings, limits if budget or not settings else "")))


def budget_order(budget: Mapping[str, float]) -> tuple[float, ...]:
    """A sort key: the tightest budget first, no limit last."""
    return tuple(budget.get(name, math.inf) for name in RESOURCES)


def condition_ranks(document: Mapping[str, Any]) -> dict[str, int]:
    """The place of every condition of a leaderboard, by its key."""
    listed = document.get("conditions")
    if listed is None:
        rows = sorted(document.get("rows") or [], key=lambda row: budget_order(row.get("budget") or {}))
        listed = [{"budget": row.get("budget"), "settings": {}, "track": row.get("track", "")} for row in rows]
    ranks: dict[str, int] = {}
    for condition in listed:
        key = condition.get("budget") or {}, condition.get("settings") or {}, condition.get("track", "")
        ranks.setdefault(condition_key(*key), len(ranks))
    return ranks


def shown_first(groups: Sequence[Sequence[Mapping[str, Any]]]) -> int:
    """The place of the condition that tells most: where stress varies the world as it is, otherwise the one in the middle."""
    as_it_is = [index for index, group in enumerate(groups) if all(group[0].get(name) == 1.0 for name in CALM)]
    return as_it_is[0] if as_it_is else len(groups) // 2


def ranking_metric(document: Mapping[str, Any], grading: str | None = None, track: str | None = None) -> str:
    """The figure that ranks the rows of a leaderboard, or of one of its tracks."""
    chosen = grading or document.get("grading") or GRADINGS[0]
    metric = str(_of_track(document, track).get("ranked_by") or PASS_RATE)
    return f"judged_{metric}" if chosen == "judge" and metric == PASS_RATE else metric


def rank_rows(
    rows: Sequence[Mapping[str, Any]], document: Mapping[str, Any], grading: str | None = None
) -> list[Mapping[str, Any]]:
    """Rows in the order of the leaderboard: by track and condition, metered ones first, then the best by the figure that ranks,
    then the cheapest. A row without a figure, since the infrastructure broke all its episodes, comes last."""
    ranks = condition_ranks({**document, "rows": rows})
    metrics = {track: ranking_metric(document, grading, track) for track in {row.get("track") for row in rows}}

    def sort_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
        figure, cost = row.get(metrics[row.get("track")]), row.get("average_cost")
        return (
            ranks.get(row_key(row, document), len(ranks)),
            # a board of 0.2 keeps its order
            row.get("metered") is False and ("submission" in row or str(document.get("version")).startswith("0.2.")),
            math.inf if figure is None else -figure,
            math.inf if cost is None else cost,
            str(row.get("agent")),
            str(row.get("model")),
            str(row.get("env")),
        )

    return sorted(rows, key=sort_key)


def by_condition(
    rows: Sequence[Mapping[str, Any]], document: Mapping[str, Any], grading: str | None = None
) -> list[list[Mapping[str, Any]]]:
    """`rank_rows` in one list for each condition."""
    ranked = rank_rows(rows, document, grading)
    return [list(group) for _, group in itertools.groupby(ranked, key=lambda row: row_key(row, document))]

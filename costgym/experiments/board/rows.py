"""Rows of a leaderboard: which metrics they show, which of them are ranked, what is best, and which rows differ.

One test decides which figures are bold, which ranks an agent may have, and whether another agent is as good: the sign-flip test
at 5 %, adjusted after Holm, over the episodes that all of the rows that are compared played.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.agents.custom import is_custom
from costgym.agents.models.base import MISHAPS, REQUESTS, SERVER_NOTES
from costgym.agents.registry import CLIENT, agents
from costgym.experiments.board.conditions import PASS_RATE
from costgym.experiments.board.run_config import RowConfig
from costgym.experiments.board.tracks import TRACKS, track_documents
from costgym.experiments.play.metric_registry import REGISTRY, Metric, Row, figure, plain, written
from costgym.experiments.play.metrics import JUDGE_FIGURES
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.statistics import holm, sign_flip_p_values

SHIPPED_NAMES = ("replayed", "recorded", "replayed 1", "recorded 1")  # entries of the zoo in the package, shown with a badge
FIRST_TRACK = "text"
MAX_REASONS = 3  # of void episodes, on a board
BY_EPISODE = "by_episode"  # the key of a row's figures of each episode, by metric; see `play.metrics.episode_figures`
PLAYED, SIMULATED, UNMETERED = BLOCKS = ("played", "simulated", "unmetered")
"""Rows that are ranked apart: those of a simulated language model, and those whose tokens only the agent counted."""
_MISHAPS = ("void_episodes", "crashed_episodes", *MISHAPS, "unread_calls", *SERVER_NOTES)
"""Numbers of episodes in which something went wrong, shown where it did."""
CACHE_FIGURES = ("cached_share", "cost_without_cache")
_SHOWN = {
    PASS_RATE: (
        PASS_RATE, "pass_hat_k", "cost_per_success", "budget_failure_rate", "fault_robustness", "pass_rate", "average_cost",
        "tool_cost", "token_cost", *CACHE_FIGURES, "quality_of_plan", "regret", "average_seconds", "average_tokens",
        "tool_error_rate", "state_correct", "duplicates", "uncompensated", "money_lost", "unsupported_answers",
        *JUDGE_FIGURES, *_MISHAPS,
    ),
    "quality_of_plan": (
        "quality_of_plan", "score", "average_cost", "average_seconds", "average_seconds_one_by_one", "plan_validity",
        "pass_rate", "regret", "average_tokens", *_MISHAPS,
    ),
    "value_share": ("value_share", "average_cost", "average_seconds", "tool_error_rate"),
}  # fmt: skip
"""The metrics of a leaderboard by the one that ranks, which comes first."""


def columns_of(document: Mapping[str, Any]) -> tuple[Metric, ...]:
    """The metrics of a leaderboard or of a track that say something about its rows, the one that ranks first."""
    rows = document.get("rows") or []
    ranks = str(document.get("ranked_by"))
    keys = _SHOWN.get(ranks, _SHOWN[PASS_RATE])
    priced_tokens = any(figure(row, "token_cost") for row in rows)
    silent = {
        "pass_hat_k": all(len(row.get("pass_hat_k") or ()) < 2 for row in rows),
        "tool_cost": not priced_tokens,
        "token_cost": not priced_tokens,
        # without overspending, both pass rates are one
        "pass_rate": keys[0] == PASS_RATE and all(not figure(row, "budget_failure_rate") for row in rows),
    }
    writes = ("state_correct", "duplicates", "uncompensated", "money_lost")
    absent = (*CACHE_FIGURES, "unsupported_answers", JUDGE_FIGURES[0], "cost_per_success", "fault_robustness", *writes)
    silent |= {key: all(figure(row, key) is None for row in rows) for key in absent}
    silent |= {key: not any(figure(row, key) for row in rows) for key in (*JUDGE_FIGURES[1:], *_MISHAPS)}
    return tuple(REGISTRY[key] for key in keys if not silent.get(key, False))


def metrics_of(row: Row) -> list[Metric]:
    """All metrics of a single row, those left out that say nothing about it."""
    columns = {metric.key for metric in columns_of({"rows": [row]})}
    return [metric for metric in REGISTRY.values() if metric.key in columns or metric.key not in _SHOWN[PASS_RATE]]


def is_simulated(row: Row) -> bool:
    """Whether the row's language model is simulated, so that its figures say nothing about a real model."""
    return str(row.get("model") or "").lower().startswith("simulated")


def is_reference(row: Row) -> bool:
    """Whether the row is a bound instead of a competitor: its agent is one of ours that reads the world."""
    return str(row.get("agent") or "") in _privileged()


@lru_cache(maxsize=1)
def _privileged() -> frozenset[str]:
    return frozenset(entry.name for entry in agents() if entry.privileged)


def is_void(row: Row) -> bool:
    """Whether the infrastructure broke every episode of the row: nothing can be said of its agent."""
    return bool(row.get("void_episodes")) and row.get("void_episodes") == row.get("episodes")


def is_metered(row: Row) -> bool:
    """Whether the row's tokens were counted where its model answered, or play no part in its track. Others are ranked apart,
    but for those of one's own agent on one's own board: there nobody else needs to believe them."""
    return row.get("metered") is not False or "submission" not in row


def by_the_floor(row: Row) -> bool:
    """Whether the row is of one's own agent, whose tokens are at least what it was shown and wrote."""
    return row.get("metered") is False and is_metered(row)


def block_of(row: Row) -> str:
    """Which of `BLOCKS` a row is ranked in."""
    if not is_metered(row):
        return UNMETERED
    beside_simulated = is_simulated(row) or (by_the_floor(row) and not row.get("model"))
    return SIMULATED if beside_simulated and not is_reference(row) else PLAYED


def blocks(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """The rows of a condition by their block, in the order of `BLOCKS`; each block is ranked by itself, and none is empty."""
    by_name = {name: [row for row in rows if block_of(row) == name] for name in BLOCKS}
    if all(map(by_the_floor, by_name[SIMULATED])):  # one's own agent plays beside whatever models the board has
        by_name[PLAYED] = [row for row in rows if block_of(row) != UNMETERED]
        by_name[SIMULATED] = []
    return [(name, block) for name, block in by_name.items() if block]


def block_by_row(groups: Iterable[Sequence[Row]]) -> dict[int, str]:
    """The block of every row, by its identity, from groups of one condition each."""
    return {id(row): name for group in groups for name, block in blocks(group) for row in block}


def tokens_counted(row: RowConfig, results: Iterable[EpisodeResult]) -> bool:
    """Whether the tokens that a row pays for were counted by us, where its model answered, or where none are paid for."""
    counts_itself = is_custom(row.agent) or row.agent.startswith(CLIENT)
    if not TRACKS[row.track.name].charges_tokens or not counts_itself:
        return True
    # in this process it has models of its own; in a rerun ours counts what it is asked for
    return all(result.replies.get(REQUESTS) for result in results if not result.void)


def is_ranked(row: Row) -> bool:
    """Whether the row has a rank: it is not a bound, and some of its episodes were played."""
    return not is_reference(row) and not is_void(row)


def reasons(rows: Iterable[Row], key: str = "void_reasons") -> list[str]:
    """The error messages of the rows' void or, with `crash_reasons`, crashed episodes, the most frequent first."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update({str(reason): int(count) for reason, count in (row.get(key) or {}).items()})
    return [plain(reason) for reason, _ in counts.most_common()]


def tracks_in_order(leaderboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A leaderboard's tracks as they are shown: chat agents first, and last those without a ranked row."""
    return sorted(
        track_documents(leaderboard),
        key=lambda track: (not any(map(is_ranked, track.get("rows") or ())), track.get("track") != FIRST_TRACK),
    )


def track_files(leaderboard: Mapping[str, Any]) -> dict[str, str]:
    """Return the file of each track's page, in the order of the tracks."""
    tracks = [str(track.get("track", "")) for track in tracks_in_order(leaderboard)]
    return {track: f"{track}.html" if number else "index.html" for number, track in enumerate(tracks)}


def best(rows: Iterable[Row], metric: Metric, key: str) -> float | None:
    """The best figure of the competitors under a key; None for a metric in which achieving nothing would win."""
    if not metric.compares:
        return None
    rivals = [row for row in rows if not is_reference(row) and is_metered(row)]
    figures = [value for row in rivals if (value := figure(row, key)) is not None]
    return (max if metric.higher_is_better else min)(figures, default=None)


def own_name(row: Row) -> str:
    """The agent's name without the name of the submission that it was added with."""
    name, submission = str(row.get("agent")), row.get("submission")
    return name.removesuffix(f" ({submission['name']})") if isinstance(submission, Mapping) else name


def badge(row: Row) -> str:
    """``replayed`` for a trained agent of the package whose recorded episodes were replayed instead of played; else ""."""
    submission = row.get("submission")
    return "replayed" if isinstance(submission, Mapping) and submission.get("name") in SHIPPED_NAMES else ""


def shown_name(row: Row) -> str:
    """The agent's name as it is shown, beside `badge` where it has one."""
    return own_name(row) if badge(row) else str(row.get("agent"))


def claim_text(rerun: Mapping[str, Any]) -> str:
    """What an entry claimed, beside what the judge played, such as ``claimed 97.0 %, played 77.0 %``."""
    metric = REGISTRY[str(rerun.get("metric"))]
    unit = f" {metric.unit}" if metric.unit == "%" else ""
    claimed, played = (figure(rerun, key) for key in ("claimed", "played"))
    tries = int(rerun.get("tries") or 1)
    claim = "nothing claimed" if claimed is None else f"claimed {written(claimed, metric.kind)}{unit}"
    mean = f", mean of {tries} tries" if tries > 1 else ""
    return f"{claim}, played {written(played, metric.kind)}{unit}{mean}"


LEVEL = 0.05
_POWER = 1.96 + 0.84  # standard errors that a difference must have to be found at this level in 80 % of runs
MAX_NAMES = 4  # of agents that are as good
ONLY = "No other agent stays within this budget."
ALONE = "Significantly better than every other agent within the budget."
Pair = tuple[int, int]


def rank_bands(rows: Sequence[Row], metric: str, seeds: int = 1) -> list[tuple[int, int] | None]:
    """The best and the worst rank that each row may have, by a figure that is better if higher: one more than the number of
    rows that are significantly better, and the number of those not significantly worse; None without figures by episode."""
    pairs = list(combinations(range(len(rows)), 2))
    best, worst = [1] * len(rows), [len(rows)] * len(rows)
    for (a, b), lead in zip(pairs, _leads(rows, metric, pairs, seeds), strict=True):
        if lead:
            ahead, behind = (a, b) if lead > 0 else (b, a)
            best[behind] += 1
            worst[ahead] -= 1
    tested = [_values(row, metric) is not None for row in rows]
    return [band if known else None for known, band in zip(tested, zip(best, worst, strict=True), strict=True)]


def as_good(leader: Row, others: Sequence[Row], metric: str, seeds: int = 1) -> list[bool | None]:
    """Whether the leader is not significantly better than each of the others, adjusted for all of their pairs, as in
    `rank_bands`; None without figures by episode."""
    pairs = list(combinations(range(len(others) + 1), 2))
    leads = _leads([leader, *others], metric, pairs, seeds)[: len(others)]
    return [None if lead is None else lead <= 0 for lead in leads]


def episodes_to_tell_apart(leader: Row, other: Row, metric: str, seeds: int = 1) -> int | None:
    """About how many episodes would show, in four of five runs, that a row is better than another, if it is so by as much as
    it seems; None where they do not differ, or were not played in the same worlds."""
    one, two = _values(leader, metric), _values(other, metric)
    if one is None or two is None or len(one) != len(two) or len(one) % seeds or len(one) <= seeds:
        return None
    differences = np.nan_to_num(one - two).reshape(-1, seeds).mean(axis=1)
    mean = float(differences.mean())
    if mean <= 0:
        return None
    return max(len(one), seeds * math.ceil((_POWER * float(differences.std(ddof=1)) / mean) ** 2))


def rivals_text(others: Sequence[tuple[str, bool | None]]) -> str:
    """Write which other agents within a budget are as good as the leader."""
    if not others:
        return ONLY
    names = [name for name, alike in others if alike]
    if not names:
        return ALONE if all(alike is not None for _, alike in others) else ""
    if len(names) > MAX_NAMES + 1:
        names[MAX_NAMES:] = [f"{len(names) - MAX_NAMES} more"]
    *first, last = names
    return f"Not significantly better than {', '.join(first)}{' and ' if first else ''}{last}."


def differences(rows: Sequence[Row], metric: str, pairs: Sequence[Pair], seeds: int = 1) -> list[tuple[float, float] | None]:
    """The mean difference of each pair's figures, first less second, and its p-value, adjusted for all of these pairs; None for
    a pair without figures of the same episodes."""
    values = [_values(row, metric) for row in rows]
    count = max((len(series) for series in values if series is not None), default=0)
    tested: list[tuple[float, float] | None] = [None] * len(pairs)
    gaps = {
        number: one - other
        for number, (a, b) in enumerate(pairs)
        if (one := values[a]) is not None and (other := values[b]) is not None and len(one) == len(other) == count
    }
    if gaps:
        # an episode that is void for one of a pair tells nothing: its difference is 0
        stacked = np.nan_to_num(np.stack(list(gaps.values())))  # (n_pairs, n_episodes)
        if count % seeds == 0:
            stacked = stacked.reshape(len(stacked), -1, seeds).sum(axis=2)
        for number, gap, p in zip(gaps, stacked, holm(sign_flip_p_values(stacked).tolist()), strict=True):
            tested[number] = float(gap.sum()) / count, p
    return tested


def _leads(rows: Sequence[Row], metric: str, pairs: Sequence[Pair], seeds: int) -> list[int | None]:
    """Return 1 or -1 for each pair whose first or second row is significantly better, 0 for others, None if not paired."""
    return [
        None if difference is None else int(np.sign(difference[0])) if difference[1] < LEVEL else 0
        for difference in differences(rows, metric, pairs, seeds)
    ]


def _values(row: Row, metric: str) -> NDArray[np.float64] | None:
    figures = (row.get(BY_EPISODE) or {}).get(metric)
    if isinstance(figures, str):
        return np.array([np.nan if figure == "-" else float(figure == "1") for figure in figures])
    return None if figures is None else np.array(figures, dtype=np.float64)

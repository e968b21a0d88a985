"""Metrics over many episodes.

`summarise` turns the records of one agent under one condition into a row of the leaderboard; `paired_difference` compares two
agents in the same worlds. Every metric is a ratio of two sums over episodes, so one bootstrap gives all intervals.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from costgym.agents.models.base import FORMS, MISHAPS, REQUESTS, SERVER_NOTES, UNREAD
from costgym.experiments.play.metric_registry import REGISTRY, plain, signed, span
from costgym.experiments.play.results import COST_WITHOUT_CACHE, ORIGINS, TOKEN_COST, EpisodeResult
from costgym.experiments.play.statistics import LEVEL, FloatArray, all_of_k, independent_trials, intervals, swap_test, wilson
from costgym.simulators.errors import ConfigError, check_known
from costgym.simulators.ledger import TOKEN_CLASSES
from costgym.simulators.opencatp.tools import LEVELS

GRADINGS = ("strict", "judge")
RESAMPLES = 2000


# Each figure is (sum of the first) / (sum of the second) over the episodes that count; None leaves an episode out.
_PER_EPISODE: dict[str, Callable[[EpisodeResult], float | None]] = {
    "pass_rate": lambda r: r.strict,
    "pass_rate_under_budget": lambda r: r.strict and r.within_budget,
    "judged_pass_rate": lambda r: r.judged,
    "judged_pass_rate_under_budget": lambda r: r.judged and r.within_budget,
    "average_cost": lambda r: r.price,
    "budget_failure_rate": lambda r: not r.within_budget,
    "quality_of_plan": lambda r: r.quality,
    "average_seconds": lambda r: r.seconds,
    "average_tokens": lambda r: r.tokens,
    "regret": lambda r: r.regret,
    "tool_cost": lambda r: r.price - token_cost(r),
    "token_cost": lambda r: token_cost(r),
}
_SHARES = frozenset(
    {
        "pass_rate", "pass_rate_under_budget", "judged_pass_rate", "judged_pass_rate_under_budget", "budget_failure_rate",
        "model_judge_pass_rate",
    }
)  # fmt: skip
"""Figures that are shares of episodes, whose intervals are Wilson's."""
_PER_SUCCESS: dict[str, Callable[[EpisodeResult], float]] = {
    "cost_per_success": lambda r: r.strict and r.within_budget,
    "judged_cost_per_success": lambda r: r.judged and r.within_budget,
}
"""Price of all episodes over the number of these."""
_PER_ATTEMPT: dict[str, Callable[[EpisodeResult], float]] = {
    f"{origin}_error_rate": lambda r, origin=origin: r.errors[origin]  # type: ignore[misc]
    for origin in ORIGINS
}
METRICS = (*_PER_EPISODE, *_PER_ATTEMPT, *_PER_SUCCESS)  # the figures of a row that are measured, and so have an interval
_WORLD_FIGURES = {
    "score": "score",
    "value_share": "value_share",
    "plan_validity": "plan_valid",
    "average_seconds_one_by_one": "seconds_one_by_one",
    "unsupported_answers": "unsupported_answer",
    "state_correct": "state_correct",
    "duplicates": "duplicates",
    "uncompensated": "uncompensated",
    "money_lost": "money_lost",
    "model_judge_pass_rate": "model_judge",
    "unparsable_verdicts": "judge_unparsable",
    "void_verdicts": "judge_void",
    "average_requests": REQUESTS,
    **{f"average_{name}": name for name in TOKEN_CLASSES},
    COST_WITHOUT_CACHE: COST_WITHOUT_CACHE,
}
"""Figures of a row that only some worlds have, and the figure of an episode (`EpisodeResult.figures`) that each averages."""
JUDGE_FIGURES = ("model_judge_pass_rate", "unparsable_verdicts", "void_verdicts")  # of a model that judges answers
_LEVEL = "size_level"


def summarise(
    results: Iterable[EpisodeResult],
    grading: str = "strict",
    *,
    episodes: int | None = None,
    seed: int = 0,
    seeds: int = 1,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """Summarise one agent in one environment under one budget as a row of the leaderboard.

    The denominator is the number of episodes asked for, less the void ones, which `void_episodes` counts. An episode without
    a record counts as a failure that cost nothing. `pass_rate` ignores the budget; `pass_rate_under_budget` (PBC) counts a pass
    only when no limit was overspent; `budget_failure_rate` (RFBC) is the share of episodes that overspent one. Error rates are
    errors per attempted call. A figure without any episode to stand on is None.

    Args:
        results: records of one agent, model, env and budget, in any order, at most one an episode.
        grading: `strict` or `judge`, the grading that ranks; both are reported.
        episodes: how many were asked for, numbered from 0; by default exactly those recorded.
        seeds: episodes of one task in a row; they are resampled together, and `pass_hat_k` says how often k of them pass.
        seed: of the bootstrap. Rows over the same episodes share its resamples, whoever played them.

    Raises:
        ConfigError: there are no records, two of one episode, some of different agents or budgets, or one beyond `episodes`.
        UnknownName: the grading is unknown.

    Source: BTP, section 3.1 (metrics).
    """
    check_known("grading", grading, GRADINGS)
    records = _of_one_row(results)
    first = records[0]
    wanted = tuple(r.episode for r in records) if episodes is None else tuple(range(episodes))
    by_episode = _by_episode(records)
    if not by_episode.keys() <= set(wanted):
        raise ConfigError("summary", f"expected episodes below {episodes}, got {records[-1].episode}")
    extra = {name: figure for name, figure in _WORLD_FIGURES.items() if any(figure in record.figures for record in records)}
    names = (*METRICS, *extra)
    played = [by_episode.get(index) for index in wanted]
    numerators, denominators = _sums(played, extra)
    figures = [_ratio(numerators[:, m], denominators[:, m]) for m in range(len(names))]
    bounds = intervals(numerators, denominators, wanted, seed, resamples, group=seeds)
    counted = [record for record in records if not record.void]
    read, cached = (math.fsum(record.figures.get(name, 0.0) for record in counted) for name in TOKEN_CLASSES[:2])
    return {
        "agent": first.agent,
        "model": first.model,
        "env": first.env,
        "budget": dict(first.budget),
        **first.settings,
        "episodes": len(wanted),
        "grading": grading,
        **{name: _tidy(figure) for name, figure in zip(names, figures, strict=True)},
        **({"cached_share": _tidy(cached / read)} if COST_WITHOUT_CACHE in extra and read else {}),
        "void_episodes": len(records) - len(counted),
        "missing_episodes": len(wanted) - len(records),
        **_reasons("void_reasons", [record.void_reason for record in records if record.void]),
        **_outcomes(counted),
        "pass_hat_k": pass_hat_k(played, seeds),
        "judged_pass_hat_k": pass_hat_k(played, seeds, "judge"),
        "fault_robustness": None,
        "verified": None,
        "errors": {origin: sum(r.errors[origin] for r in counted) for origin in ORIGINS},
        **({"by_level": _by_level(counted)} if _LEVEL in first.figures else {}),
        "ci95": _ci95(names, figures, bounds, numerators, denominators, seeds),
    }


def _ci95(
    names: Sequence[str],
    figures: Sequence[float | None],
    bounds: tuple[FloatArray, FloatArray],
    numerators: FloatArray,
    denominators: FloatArray,
    seeds: int,
) -> dict[str, list[float | None]]:
    """The intervals of the figures that are there: Wilson's for shares, and the bootstrap's `bounds` for all others."""
    ends = {}
    for m, (name, figure) in enumerate(zip(names, figures, strict=True)):
        low, high = bounds[0][m], bounds[1][m]
        if figure is None:
            continue
        if name in _SHARES:
            trials = independent_trials(_grouped(numerators[:, m], seeds), _grouped(denominators[:, m], seeds))
            low, high = wilson(figure, trials)
        ends[name] = [_tidy(float(low)), _tidy(float(high))]
    return ends


def _of_one_row(results: Iterable[EpisodeResult]) -> list[EpisodeResult]:
    """The records in the order of their episodes; ConfigError where there are none or two differ in what makes a row."""
    records = sorted(results, key=lambda r: r.episode)
    if not records:
        raise ConfigError("summary", "expected at least one episode record, got none")
    first = records[0]
    for record in records:
        for name in ("agent", "model", "env", "budget", "settings"):
            if getattr(record, name) != getattr(first, name):
                raise ConfigError(
                    "summary", f"expected records of one {name}, got {getattr(first, name)!r} and {getattr(record, name)!r}"
                )
    return records


def _reasons(name: str, messages: Iterable[str]) -> dict[str, dict[str, int]]:
    """Count messages; empty where there is none."""
    counts = Counter(filter(None, messages))
    return {name: dict(sorted(counts.items()))} if counts else {}


def _outcomes(records: Sequence[EpisodeResult]) -> dict[str, Any]:
    """Numbers, where not 0, of episodes that crashed or met a mishap with a reply, and of calls by form."""
    crashed = [record for record in records if record.crash]
    counts: dict[str, Any] = {"crashed_episodes": len(crashed), **dict.fromkeys(MISHAPS, 0)}
    calls: Counter[str] = Counter()
    unread: Counter[str] = Counter()
    form_of = {count: form for form, count in UNREAD.items()}
    for record in records:
        for name, count in record.replies.items():
            if name in MISHAPS:
                counts[name] += 1
            elif name in FORMS:
                calls[name] += count
            elif name in form_of:
                unread[form_of[name]] += count
    counts["calls_by_form"] = dict(sorted(calls.items()))
    counts["unread_calls"] = sum(not form_of.keys().isdisjoint(record.replies) for record in records)
    counts["unread_by_form"] = dict(sorted(unread.items()))
    counts |= {name: sum(name in record.replies for record in records) for name in SERVER_NOTES}
    counts |= _reasons("crash_reasons", [record.crash for record in crashed])
    return {name: value for name, value in counts.items() if value}


def token_cost(result: EpisodeResult) -> float:
    """Return the cost of the model's tokens in an episode, in the scenario's currency; 0 where they are free."""
    return float(result.figures.get(TOKEN_COST, 0.0))


def pass_hat_k(results: Sequence[EpisodeResult | None], seeds: int, grading: str = "strict") -> list[float]:
    """The share of tasks that pass in all of k episodes within the budget, for k from 1 to `seeds`; a task that passes c of n
    times counts as the share of ways to choose k passes. Source: tau-bench (arXiv 2406.12045), section 4 (pass^k)."""
    tasks = [results[start : start + seeds] for start in range(0, len(results), seeds)]
    whole = [task for task in tasks if len(task) == seeds and not any(r is not None and r.void for r in task)]
    if not whole:
        return []
    passes = [
        sum(r is not None and r.within_budget and (r.strict if grading == "strict" else r.judged) for r in task)
        for task in whole
    ]
    return [_tidy(math.fsum(all_of_k(c, seeds, k) for c in passes) / len(whole)) or 0.0 for k in range(1, seeds + 1)]


def _grouped(values: FloatArray, group: int) -> FloatArray:
    """A column with a row for each group; what is left over at the end is filled up with zeros."""
    filled = np.zeros(-(-len(values) // group) * group)
    filled[: len(values)] = values
    return filled.reshape(-1, group)


def with_budget_areas(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with `budget_area`: the area under the agent's pass rate within the budget over the logarithm of its price budgets,
    0 to 1. An agent with one price budget, or with other limits, has no area."""
    curves: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        budget = row.get("budget") or {}
        if set(budget) == {"price"} and row.get("pass_rate_under_budget") is not None:
            key = f"{row.get('track')} {row.get('agent')}"
            shares = row["pass_rate_under_budget"], row["judged_pass_rate_under_budget"]
            curves.setdefault(key, []).append((math.log(budget["price"]), *shares))
    with_areas = []
    for row in rows:
        curve = sorted(curves.get(f"{row.get('track')} {row.get('agent')}", []))
        areas = [_area([(point[0], point[side]) for point in curve]) for side in (1, 2)]
        with_areas.append({**row, "budget_area": areas[0], "judged_budget_area": areas[1]})
    return with_areas


def _area(points: Sequence[tuple[float, float]]) -> float | None:
    width = points[-1][0] - points[0][0] if points else 0.0
    if not width:
        return None
    parts = [(b[0] - a[0]) * (a[1] + b[1]) / 2.0 for a, b in itertools.pairwise(points)]
    return _tidy(math.fsum(parts) / width)


def with_fault_robustness(
    row: Mapping[str, Any], faulty: Sequence[EpisodeResult], calm: Sequence[EpisodeResult], *, seed: int = 0, seeds: int = 1
) -> dict[str, Any]:
    """A row with `fault_robustness`: success with faults over success without, of one agent on the same tasks and seeds. Both
    are pass rates within the budget. An episode that is void in either world is left out of both; a figure without any success
    in the world without faults is None. Its interval is the wider of the paired bootstrap's and Wilson's for a share of the
    successes without faults."""
    left, right = _by_episode(faulty), _by_episode(calm)
    common = [i for i in sorted(left.keys() & right.keys()) if not left[i].void and not right[i].void]
    with_faults, without = (
        np.array([[float(passes(side[i])) for passes in _PER_SUCCESS.values()] for i in common]) for side in (left, right)
    )
    shares, ends = dict[str, float | None](), dict[str, list[float | None]]()
    if common:
        lows, highs = intervals(with_faults, without, common, seed, RESAMPLES, group=seeds)
        for column, name in enumerate(("fault_robustness", "judged_fault_robustness")):
            above, below = with_faults[:, column], without[:, column]
            shares[name] = share = _tidy(_ratio(above, below))
            if share is None:
                continue
            low, high = float(lows[column]), float(highs[column])
            if share <= 1.0:  # a share of the successes without faults: few of them must not look certain
                surely, at_most = wilson(share, independent_trials(_grouped(above, seeds), _grouped(below, seeds)))
                low, high = min(low, surely), max(high, at_most)
            ends[name] = [_tidy(low), _tidy(high)]
    return {**row, **shares, "ci95": {**row["ci95"], **ends}}


def episode_figures(results: Iterable[EpisodeResult], metric: str, episodes: int) -> str | list[float | None]:
    """A figure of each episode of a row, with which anyone can compare rows episode by episode; an episode without a record
    counts 0. Of a share it is a text with a `1` for each episode that counts, `0` for one that does not and `-` for a void one;
    of another figure its values, None for a void episode."""
    by_episode = _by_episode(results)
    measure = _PER_EPISODE.get(metric) or (lambda r: float(r.figures[_WORLD_FIGURES[metric]]))
    values: list[float | None] = []
    for index in range(episodes):
        record = by_episode.get(index)
        values.append(None if record and record.void else 0.0 if record is None else float(measure(record) or 0.0))
    if metric in _SHARES:
        return "".join("-" if value is None else "1" if value else "0" for value in values)
    return [None if value is None else round(value, 6) for value in values]


@dataclass(frozen=True, slots=True, repr=False)
class PairedDifference:
    """The difference between agents `a` and `b` in the worlds that both played; printed, it is a sentence.

    Attributes:
        metric: its name.
        episodes: number of common episodes, void ones left out.
        difference: figure of `a` less figure of `b`.
        ci95: all differences that the test does not reject at 5 %; it holds 0 exactly where `p_value` is at least 0.05. An end
            is infinite where episodes are too few to say anything.
        p_value: of the hypothesis that the two are exchangeable within each episode, two-sided.
        a, b: the names of the agents.
    """

    metric: str
    episodes: int
    difference: float
    ci95: tuple[float, float]
    p_value: float
    a: str = ""
    b: str = ""

    def __str__(self) -> str:
        """Say who is ahead, by how much, and whether that may be chance."""
        metric = next(metric for metric in REGISTRY.values() if self.metric in (metric.key, metric.judge))
        scale, unit = (100.0, " points") if metric.kind == "rate" else (1.0, "")
        size, low, high = (scale * value for value in (self.difference, *self.ci95))
        if math.inf in (-low, high) or (metric.kind == "rate" and self.ci95 == (-1.0, 1.0)):
            ends = f"; {self.episodes} episodes are too few for an interval"
        else:
            ends = f" {span(signed(low), signed(high))}"
        verdict = "" if self.p_value < LEVEL else ": it may be chance"
        p = "p < 0.001" if self.p_value < 0.001 else f"p = {self.p_value:.3f}"
        return (
            f"{plain(self.a)} less {plain(self.b)}, {metric.name.lower()}: {signed(size)}{unit}{ends}, {p}, "
            f"{self.episodes} episodes{verdict}"
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The sentence as a paragraph of a notebook; names are escaped."""
        return str(Markup("<p>{}</p>").format(str(self)))


def paired_difference(
    a: Iterable[EpisodeResult],
    b: Iterable[EpisodeResult],
    metric: str,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    seeds: int = 1,
) -> PairedDifference:
    """Compare two agents episode by episode, so that differences between worlds cancel out.

    Interval and p-value are of one test: the two records are exchanged within episodes at random, which for a mean is the
    sign-flip test.

    Args:
        resamples: how many exchanges are drawn.
        seeds: episodes of one task in a row, which are exchanged together.

    Raises:
        ConfigError: no episode is in both, or a common one was another world (task or seed) for the two.
    """
    check_known("metric", metric, METRICS)
    left, right = _by_episode(a), _by_episode(b)
    common = tuple(i for i in sorted(left.keys() & right.keys()) if not left[i].void and not right[i].void)
    for index in common:
        worlds = [(r.task, r.seed) for r in (left[index], right[index])]
        if worlds[0] != worlds[1]:
            raise ConfigError(f"episode {index}", f"expected one world for both, got {worlds[0]} and {worlds[1]}")
    column = METRICS.index(metric)
    sums = [_sums([side[i] for i in common]) for side in (left, right)]
    (a_num, a_den), (b_num, b_den) = ((above[:, column], below[:, column]) for above, below in sums)
    figures = _ratio(a_num, a_den), _ratio(b_num, b_den)
    if figures[0] is None or figures[1] is None:
        raise ConfigError("comparison", f"expected a common episode with a {metric} for both, got none")
    p_value, (low, high) = swap_test((a_num, a_den), (b_num, b_den), common, seed, resamples, seeds)
    if metric in _SHARES:
        low, high = max(-1.0, low), min(1.0, high)
    return PairedDifference(
        metric=metric,
        episodes=len(common),
        difference=_tidy(figures[0] - figures[1]) or 0.0,
        ci95=(float(f"{low:.12g}") + 0.0, float(f"{high:.12g}") + 0.0),
        p_value=p_value,
        a=left[common[0]].agent,
        b=right[common[0]].agent,
    )


def _by_episode(results: Iterable[EpisodeResult]) -> dict[int, EpisodeResult]:
    by_episode: dict[int, EpisodeResult] = {}
    for result in results:
        if result.episode in by_episode:
            raise ConfigError(f"episode {result.episode}", f"expected one record of {result.agent!r}, got two")
        by_episode[result.episode] = result
    return by_episode


def _by_level(records: Sequence[EpisodeResult]) -> list[dict[str, Any]]:
    """Mean figures of the episodes at each size level of their input."""
    rows = []
    for level in range(LEVELS):
        of_level = [record for record in records if record.figures[_LEVEL] == level]
        means = {
            "score": [record.figures["score"] for record in of_level],
            "price": [record.price for record in of_level],
            "seconds": [record.seconds for record in of_level],
            "quality": [record.quality for record in of_level],
        }
        figures = {name: _tidy(math.fsum(values) / len(of_level)) if of_level else None for name, values in means.items()}
        rows.append({"level": level, "episodes": len(of_level), **figures})
    return rows


def _sums(results: Sequence[EpisodeResult | None], extra: Mapping[str, str] | None = None) -> tuple[FloatArray, FloatArray]:
    """Numerators and denominators of every metric, those of the world last, (n_episodes, n_metrics) each."""
    extra = extra or {}
    numerators = np.zeros((len(results), len(METRICS) + len(extra)))
    denominators = np.zeros_like(numerators)
    for i, result in enumerate(results):
        if result is None:
            denominators[i, : len(_PER_EPISODE)] = [name != "regret" for name in _PER_EPISODE]  # and no success to pay for
        elif not result.void:
            values = [measure(result) for measure in _PER_EPISODE.values()]
            errors = [measure(result) for measure in _PER_ATTEMPT.values()]
            of_world = [result.figures.get(figure) for figure in extra.values()]
            successes = [float(measure(result)) for measure in _PER_SUCCESS.values()]
            measured = values + errors + [result.price] * len(successes) + of_world
            numerators[i] = [value or 0.0 for value in measured]
            counts = [float(value is not None) for value in values] + [float(result.attempts)] * len(errors)
            denominators[i] = counts + successes + [float(value is not None) for value in of_world]
    return numerators, denominators


def _ratio(numerators: FloatArray, denominators: FloatArray) -> float | None:
    # fsum: the exact sum, so that a figure does not depend on how a machine adds
    below = math.fsum(denominators)
    return math.fsum(numerators) / below if below else None


def _tidy(value: float | None) -> float | None:
    """Round to twelve significant digits, to which different machines agree; None if the value is not a number."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.12g}") + 0.0

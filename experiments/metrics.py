"""What an episode amounted to, and what many amount to.

An `EpisodeResult` is the record of one episode. `summarise` turns the records of one agent under one budget into a row of
the leaderboard; `paired_difference` compares two agents that met the same worlds. Every figure is a ratio of two sums
over episodes, so one bootstrap serves them all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from ..simulators.errors import ConfigError, DataError, UnknownName
from ..simulators.ledger import RESOURCES
from .statistics import FloatArray, intervals, swap_p_value

GRADINGS = ("strict", "judge")
ORIGINS = ("agent", "tool", "infrastructure")
RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """The record of one episode. Numbers are coerced to plain Python ones, so equal records have equal bytes.

    Attributes:
        agent, model, env: who played what; `model` is None for agents without a language model.
        task: the task's id.
        episode: index of the episode in the run; episodes of one index are paired between agents.
        seed: seed of the world.
        budget: limit of each limited resource (`price`, `seconds`, `tokens`, `calls`); empty means unlimited.
        strict, judged: passed under the strict grading, and before the lenient judge, irrespective of the budget.
        share: share of the needed facts in the answer, 0 to 1.
        price: spent, in the scenario's currency.
        seconds: simulated time spent.
        tokens, calls: spent.
        attempts: every call asked for, refused ones included.
        errors: number of errors by origin, `agent`, `tool` and `infrastructure`.
        errors_by_status: number of errors by the name of the status.
        exceeded: the first resource over its limit, or None.
        void: the infrastructure failed; nobody's failure, left out of every figure and counted apart.
        optimum_price: price of the optimal episode in this world, or None where it is unknown.
        quality: quality of plan (QoP).
        regret: quality of the optimum less `quality`, or None where the optimum is unknown.

    Raises:
        DataError: a number is no number, negative or outside its range, or a name is unknown.
    """

    agent: str
    model: str | None
    env: str
    task: str
    episode: int
    seed: int
    budget: Mapping[str, float]
    strict: bool
    judged: bool
    share: float
    price: float
    seconds: float
    tokens: int
    calls: int
    attempts: int
    errors: Mapping[str, int]
    errors_by_status: Mapping[str, int]
    exceeded: str | None = None
    void: bool = False
    optimum_price: float | None = None
    quality: float = 0.0
    regret: float | None = None

    def __post_init__(self) -> None:
        def put(name: str, convert: Callable[[Any], Any], accept: Callable[[Any], bool], expected: str) -> None:
            value = getattr(self, name)
            try:
                plain = convert(value)
                fine = bool(plain == value) and accept(plain)
            except (TypeError, ValueError, OverflowError, AttributeError):
                fine = False
            if not fine:
                raise DataError("episode record", f"expected {expected}, got {value!r}", name)
            object.__setattr__(self, name, plain)

        for name in ("agent", "env", "task"):
            put(name, str, lambda text: True, "a text")
        put("model", lambda v: None if v is None else str(v), lambda text: True, "a text or None")
        for name in ("episode", "seed", "tokens", "calls", "attempts"):
            put(name, int, lambda n: n >= 0, "a whole number of at least 0")
        for name in ("strict", "judged", "void"):
            put(name, bool, lambda flag: True, "true or false")
        put("share", float, lambda x: 0 <= x <= 1, "a number from 0 to 1")
        for name in ("price", "seconds"):
            put(name, float, lambda x: math.isfinite(x) and x >= 0, "a finite number of at least 0")
        put("quality", float, math.isfinite, "a finite number")
        put("optimum_price", _optional_float, lambda x: x is None or (math.isfinite(x) and x >= 0), "a finite price or None")
        put("regret", _optional_float, lambda x: x is None or math.isfinite(x), "a finite number or None")
        put("exceeded", lambda v: v, lambda v: v is None or v in RESOURCES, f"one of {', '.join(RESOURCES)}, or None")
        put(
            "budget",
            lambda limits: {name: float(limits[name]) for name in RESOURCES if name in limits},
            lambda limits: all(math.isfinite(x) and x > 0 for x in limits.values()),
            f"positive limits of {', '.join(RESOURCES)}",
        )
        if isinstance(self.errors, Mapping):
            object.__setattr__(self, "errors", {**dict.fromkeys(ORIGINS, 0), **self.errors})
        put("errors", lambda counts: {o: int(counts[o]) for o in ORIGINS}, _counts, f"counts by {', '.join(ORIGINS)}")
        put("errors_by_status", lambda counts: {str(k): int(counts[k]) for k in sorted(counts)}, _counts, "counts by status")

    @property
    def within_budget(self) -> bool:
        """Nothing limited was overspent."""
        return self.exceeded is None and all(getattr(self, name) <= limit for name, limit in self.budget.items())

    def to_json(self) -> str:
        """One line of JSON; equal records give equal bytes."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> EpisodeResult:
        """The record that `to_json` wrote.

        Raises:
            DataError: the line is no JSON object, or lacks a field, has one too many or a wrong value in one.
        """
        try:
            record = json.loads(line)
        except ValueError as error:
            raise DataError("episode record", f"expected one line of JSON: {error}") from error
        known = [field.name for field in fields(cls)]
        if not isinstance(record, dict) or sorted(record) != sorted(known):
            got = sorted(record) if isinstance(record, dict) else type(record).__name__
            raise DataError("episode record", f"expected an object with the fields {', '.join(known)}; got {got}")
        return cls(**record)


def _optional_float(value: Any) -> float | None:
    return None if value is None else float(value)


def _counts(counts: Mapping[str, int]) -> bool:
    return all(n >= 0 for n in counts.values())


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
}
_PER_ATTEMPT: dict[str, Callable[[EpisodeResult], float]] = {
    f"{origin}_error_rate": lambda r, origin=origin: r.errors[origin]  # type: ignore[misc]
    for origin in ORIGINS
}
METRICS = (*_PER_EPISODE, *_PER_ATTEMPT)
"""The figures of a row that are measured, and so have an interval."""


def summarise(
    results: Iterable[EpisodeResult],
    grading: str = "strict",
    *,
    episodes: int | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """One row of the leaderboard: the figures of one agent in one env under one budget.

    The denominator is the number of episodes asked for, less the void ones, which `void_episodes` counts. An episode without
    a record counts as a failure that cost nothing. `pass_rate` ignores the budget; `pass_rate_under_budget` (PBC) counts a pass
    only when no limit was overspent; `budget_failure_rate` (RFBC) is the share of episodes that overspent one. Error rates are
    errors per attempted call. A figure without any episode to stand on is None.

    Args:
        results: records of one agent, model, env and budget, in any order, at most one an episode.
        grading: `strict` or `judge`, the grading that ranks; both are reported.
        episodes: how many were asked for, numbered from 0; by default exactly those recorded.
        seed: of the bootstrap. Rows over the same episodes share its resamples, whoever played them.
        resamples: of the bootstrap.

    Raises:
        ConfigError: there are no records, two of one episode, some of different agents or budgets, or one beyond `episodes`.
        UnknownName: the grading is none.

    Source: BTP, section 3.1 (metrics).
    """
    if grading not in GRADINGS:
        raise UnknownName("grading", grading, GRADINGS)
    records = sorted(results, key=lambda r: r.episode)
    if not records:
        raise ConfigError("summary", "expected at least one episode record, got none")
    first = records[0]
    for record in records:
        for name in ("agent", "model", "env", "budget"):
            if getattr(record, name) != getattr(first, name):
                raise ConfigError(
                    "summary", f"expected records of one {name}, got {getattr(first, name)!r} and {getattr(record, name)!r}"
                )
    asked = tuple(r.episode for r in records) if episodes is None else tuple(range(episodes))
    by_episode = _by_episode(records)
    if not by_episode.keys() <= set(asked):
        raise ConfigError("summary", f"expected episodes below {episodes}, got {records[-1].episode}")
    numerators, denominators = _sums([by_episode.get(index) for index in asked])
    figures = [_ratio(numerators[:, m], denominators[:, m]) for m in range(len(METRICS))]
    lows, highs = intervals(numerators, denominators, asked, seed, resamples)
    counted = [record for record in records if not record.void]
    return {
        "agent": first.agent,
        "model": first.model,
        "env": first.env,
        "budget": dict(first.budget),
        "episodes": len(asked),
        "grading": grading,
        **{name: _tidy(figure) for name, figure in zip(METRICS, figures, strict=True)},
        "void_episodes": len(records) - len(counted),
        "missing_episodes": len(asked) - len(records),
        "errors": {origin: sum(r.errors[origin] for r in counted) for origin in ORIGINS},
        "ci95": {
            name: [_tidy(float(low)), _tidy(float(high))]
            for name, low, high, figure in zip(METRICS, lows, highs, figures, strict=True)
            if figure is not None
        },
    }


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """How far `a` is from `b` on the worlds that both met.

    Attributes:
        metric: its name.
        episodes: number of common episodes, void ones left out.
        difference: figure of `a` less figure of `b`.
        ci95: paired bootstrap interval of the difference.
        p_value: of the hypothesis that the two are exchangeable within each episode, two-sided.
    """

    metric: str
    episodes: int
    difference: float
    ci95: tuple[float, float]
    p_value: float


def paired_difference(
    a: Iterable[EpisodeResult], b: Iterable[EpisodeResult], metric: str, *, seed: int = 0, resamples: int = RESAMPLES
) -> PairedDifference:
    """Compare two agents episode by episode; what the worlds had in common cancels out.

    The p-value comes from exchanging the two records within episodes at random, which for a mean is the sign-flip test.

    Raises:
        UnknownName: no such metric.
        ConfigError: no episode is in both, or a common one was another world (task or seed) for the two.
    """
    if metric not in METRICS:
        raise UnknownName("metric", metric, METRICS)
    left, right = _by_episode(a), _by_episode(b)
    common = tuple(i for i in sorted(left.keys() & right.keys()) if not left[i].void and not right[i].void)
    for index in common:
        worlds = [(r.task, r.seed) for r in (left[index], right[index])]
        if worlds[0] != worlds[1]:
            raise ConfigError(f"episode {index}", f"expected one world for both, got {worlds[0]} and {worlds[1]}")
    column = METRICS.index(metric)
    sums = [_sums([side[i] for i in common]) for side in (left, right)] if common else []
    (a_num, a_den), (b_num, b_den) = ((n[:, column], d[:, column]) for n, d in sums) if sums else ((np.zeros(0),) * 2,) * 2
    figures = _ratio(a_num, a_den), _ratio(b_num, b_den)
    if figures[0] is None or figures[1] is None:
        raise ConfigError("comparison", f"expected a common episode with a {metric} for both, got none")
    low, high = intervals(np.stack([a_num, b_num], 1), np.stack([a_den, b_den], 1), common, seed, resamples, difference=True)
    return PairedDifference(
        metric=metric,
        episodes=len(common),
        difference=_tidy(figures[0] - figures[1]) or 0.0,
        ci95=(_tidy(float(low[0])) or 0.0, _tidy(float(high[0])) or 0.0),
        p_value=swap_p_value((a_num, a_den), (b_num, b_den), common, seed, resamples),
    )


def rank_rows(rows: Iterable[Mapping[str, Any]], grading: str = "strict") -> list[Mapping[str, Any]]:
    """Rows in the order of the leaderboard: by budget, then the best pass rate under the budget, then the cheapest.

    Raises:
        UnknownName: the grading is none.
    """
    if grading not in GRADINGS:
        raise UnknownName("grading", grading, GRADINGS)
    metric = "pass_rate_under_budget" if grading == "strict" else "judged_pass_rate_under_budget"

    def place(row: Mapping[str, Any]) -> tuple[Any, ...]:
        passed, cost = row.get(metric), row.get("average_cost")
        return (
            budget_order(row.get("budget") or {}),
            math.inf if passed is None else -passed,
            math.inf if cost is None else cost,
            str(row.get("agent")),
            str(row.get("model")),
            str(row.get("env")),
        )

    return sorted(rows, key=place)


def budget_order(budget: Mapping[str, float]) -> tuple[float, ...]:
    """A sort key: the tightest budget first, no limit last."""
    return tuple(budget.get(name, math.inf) for name in RESOURCES)


def btp_metrics(queries: Sequence[Mapping[str, Any]], budget: float) -> dict[str, float]:
    """AC, RFBC, PBC and PR of recorded runs of BTP's evaluation.

    Only executed calls of known functions cost anything. A query is solved by more passing than failing votes, unless the only
    step was to finish; one judged unsolvable counts as solved.

    Args:
        queries: each with `costs` by function, `calls` (`function`, `result`), `votes_passed`, `votes_failed`,
            `only_finish_step`, `unsolvable_votes`, `solvable_votes`.
        budget: limit of the summed cost of a query.

    Source: BTP, section 3.1.
    """
    results = []
    for index, query in enumerate(queries):
        paid = [query["costs"].get(call["function"], 0) for call in query["calls"] if call["result"] == "executed"]
        solved = query["votes_passed"] > query["votes_failed"] and not query["only_finish_step"]
        solved = solved or query["unsolvable_votes"] > query["solvable_votes"]
        results.append(
            EpisodeResult(
                agent="recorded", model=None, env="recorded", task=str(index), episode=index, seed=0, budget={"price": budget},
                strict=solved, judged=solved, share=float(solved), price=sum(paid), seconds=0.0, tokens=0, calls=len(paid),
                attempts=len(query["calls"]), errors={}, errors_by_status={}, exceeded="price" if sum(paid) > budget else None,
            )
        )  # fmt: skip
    row = summarise(results, resamples=1)
    names = {"AC": "average_cost", "RFBC": "budget_failure_rate", "PBC": "pass_rate_under_budget", "PR": "pass_rate"}
    return {short: row[name] for short, name in names.items()}


def _by_episode(results: Iterable[EpisodeResult]) -> dict[int, EpisodeResult]:
    found: dict[int, EpisodeResult] = {}
    for result in results:
        if result.episode in found:
            raise ConfigError(f"episode {result.episode}", f"expected one record of {result.agent!r}, got two")
        found[result.episode] = result
    return found


def _sums(results: Sequence[EpisodeResult | None]) -> tuple[FloatArray, FloatArray]:
    """Numerators and denominators of every metric, (n_episodes, n_metrics) each."""
    numerators = np.zeros((len(results), len(METRICS)))
    denominators = np.zeros_like(numerators)
    for i, result in enumerate(results):
        if result is None:
            denominators[i, : len(_PER_EPISODE)] = [name != "regret" for name in _PER_EPISODE]
        elif not result.void:
            values = [measure(result) for measure in _PER_EPISODE.values()]
            errors = [measure(result) for measure in _PER_ATTEMPT.values()]
            numerators[i] = [value or 0.0 for value in values] + errors
            denominators[i] = [float(value is not None) for value in values] + [float(result.attempts)] * len(errors)
    return numerators, denominators


def _ratio(numerators: FloatArray, denominators: FloatArray) -> float | None:
    # fsum: the exact sum, so that a figure does not depend on how a machine adds
    below = math.fsum(denominators)
    return math.fsum(numerators) / below if below else None


def _tidy(value: float | None) -> float | None:
    """Twelve significant digits, where different machines still agree; None for what is no number."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.12g}") + 0.0

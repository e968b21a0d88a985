"""Fit the world's models of latency, price and failures to logged calls, with SciPy's distributions and optimisers."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.experiments.play.call_logs.log import LoggedCall
from costgym.simulators.errors import require
from costgym.simulators.failures import KINDS, SILENT_KINDS, state_chances
from costgym.simulators.status import Status

FloatArray = NDArray[np.float64]
WORKS = frozenset({Status.OK, Status.WRONG_ARGUMENTS, Status.NO_DATA})
"""Statuses of calls that the tool itself served correctly."""
FAILS = frozenset(Status[name.upper()] for name in (*KINDS, *SILENT_KINDS))
SHORTEST_S = 1e-6
MAX_SLIP = 0.45
OWN_FIT_GAIN = 9.21
"""Twice the log-likelihood that a tool's own slip and persistence must gain: the 99 % point of a chi-squared of two degrees."""
MAX_SLOW = 0.01
"""Greatest share of timeouts by duration of a tool whose outcomes are fitted on their own."""
LEAST_WORKING = 8
"""Calls that worked from which on they alone show a tool's speed; failures often come sooner or later than answers."""
MAX_MISFIT = 1.44
"""Greatest distance of durations from a lognormal, by Anderson and Darling's A²: the 0.1 % point of a fitted normal (D'Agostino
and Stephens, 1986, table 4.7)."""
LEAST_LISTED, CALLS_A_STEP, MOST_STEPS = 100, 5, 100
"""Durations from which on a table may replace the lognormal, and how many of them each of its steps takes at least."""
ROUNDS = 30
"""Greatest number of rounds of fitting a tail and assigning timeouts by it."""
WINDOWS_S = (1.0, 10.0, 60.0, 600.0, 3600.0)
"""Candidate lengths of a rate limit's sliding window, seconds."""


def _stats() -> Any:
    return require("scipy.stats", "train")


# -- latency --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LatencyFit:
    """A lognormal of a tool's durations, or a table of their quantiles, cut off at its timeout, after a cold start."""

    median_s: float
    spread: float
    timeout_s: float | None  # where durations are cut off; None where the log shows no timeout
    slow_timeouts: float  # share of the calls whose duration alone goes beyond the timeout
    cold_start_s: float | None  # None where the log does not flag cold starts
    keep_alive_s: float | None  # None where the log does not flag cold starts
    quantiles: tuple[float, ...] = ()  # as in `ToolProfile.latency_quantiles`, where the durations are not lognormal


def fit_latency(calls: Sequence[LoggedCall]) -> LatencyFit | None:
    """The world's latency model of one tool's calls, by maximum likelihood; None where no duration was logged.

    A timeout is a duration beyond the limit (censored) or a failure of its own; the log does not say which. As many count as
    censored as the fitted tail leads to expect, and the rest are left to the failure model.
    """
    stats = _stats()
    warm = durations(calls)
    if len(warm) == 0:
        return None
    limits = [call.latency_s for call in calls if call.status is Status.TIMEOUT and call.latency_s]
    timeout_s = float(np.median(limits)) if limits else None
    if timeout_s is not None and timeout_s < warm.max():
        timeout_s = None  # other calls took longer: no common limit
    beyond = 0 if timeout_s is None else len(limits)
    spread, median = _lognormal(warm, beyond, timeout_s or 0.0)
    slow = 0.0
    if timeout_s is not None:
        for _ in range(ROUNDS):
            slow = float(stats.lognorm.sf(timeout_s, spread, 0, median))
            expected = min(len(limits), round(len(warm) * slow / max(1e-9, 1.0 - slow)))
            if expected == beyond:
                break
            beyond = expected
            spread, median = _lognormal(warm, beyond, timeout_s)
    quantiles: tuple[float, ...] = ()
    if len(warm) >= LEAST_LISTED and spread > 0.0 and _misfit(warm, spread, median, slow) > MAX_MISFIT:
        # where the tail is not known, every timeout is a failure of its own
        median, slow = float(np.median(warm)), 0.0
        steps = min(MOST_STEPS, len(warm) // CALLS_A_STEP)
        quantiles = tuple((np.quantile(warm, np.linspace(0.0, 1.0, steps + 1)) / median).tolist())
    return LatencyFit(median, spread, timeout_s, slow, *_cold(calls, median), quantiles)


def _misfit(seconds: FloatArray, spread: float, median: float, beyond: float) -> float:
    """Anderson and Darling's A² of durations under a lognormal of which so large a share is cut off at the top."""
    below = np.clip(_stats().lognorm.cdf(np.sort(seconds), spread, 0, median) / (1.0 - beyond), 1e-12, 1.0 - 1e-12)
    weights = 2.0 * np.arange(len(below)) + 1.0
    return float(-len(below) - np.mean(weights * (np.log(below) + np.log1p(-below[::-1]))))


def durations(calls: Sequence[LoggedCall]) -> FloatArray:
    """Durations that show a tool's own speed, seconds, (n,): executed, warm, neither cut off nor refused at the door. Where
    enough calls worked, only theirs count."""
    working = sum(call.status in WORKS and not call.cold and call.latency_s is not None for call in calls)
    counted = WORKS if working >= LEAST_WORKING else WORKS | FAILS - {Status.TIMEOUT, Status.CONNECTION_ERROR}
    seconds = [call.latency_s for call in calls if call.status in counted and not call.cold and call.latency_s is not None]
    return np.maximum(np.array(seconds, dtype=np.float64), SHORTEST_S)


def _lognormal(seconds: FloatArray, censored: int = 0, limit_s: float = 0.0) -> tuple[float, float]:
    """Spread and median; with so many further durations that are only known to lie beyond a limit."""
    stats = _stats()
    if len(seconds) == 1 or seconds.min() == seconds.max():
        return 0.0, float(seconds[0])
    data: Any = seconds
    if censored:
        data = stats.CensoredData(uncensored=seconds, right=np.full(censored, limit_s))
    spread, _, median = stats.lognorm.fit(data, floc=0)
    return float(spread), float(median)


def _cold(calls: Sequence[LoggedCall], median_s: float) -> tuple[float | None, float | None]:
    """Time of a cold start, and how long an idle instance stays warm."""
    flagged = [call for call in calls if call.cold is not None and call.latency_s is not None]
    cold = [call.latency_s for call in flagged if call.cold and call.status in WORKS]
    if not cold:
        return (None if not flagged else 0.0), None
    extra = max(0.0, float(np.median(np.array(cold, dtype=np.float64))) - median_s)
    gaps: list[tuple[float, bool]] = []
    ended: dict[str | None, float] = {}  # the world's instances live as long as an episode
    for call in flagged:
        if call.episode in ended and call.started_s >= ended[call.episode]:
            gaps.append((call.started_s - ended[call.episode], bool(call.cold)))
        ended[call.episode] = max(ended.get(call.episode, 0.0), call.started_s + (call.latency_s or 0.0))
    warm_gaps, cold_gaps = [gap for gap, was in gaps if not was], [gap for gap, was in gaps if was]
    if not warm_gaps or not cold_gaps:
        return extra, None
    edges = sorted(gap for gap, _ in gaps)
    middles = [(a + b) / 2 for a, b in pairwise(edges)] or [edges[0]]
    wrong = [sum(gap > edge for gap in warm_gaps) + sum(gap <= edge for gap in cold_gaps) for edge in middles]
    return extra, middles[int(np.argmin(wrong))]


# -- price ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PriceFit:
    """The price of a call: a flat fee, or by duration, or by token."""

    fee: float  # mean price of an executed call
    flat_error: float  # root mean squared error of the flat fee, relative to it
    per_s: float  # price = base + per_s * seconds
    base: float
    duration_error: float  # relative to the mean price
    per_token: tuple[float, float] | None  # price = input * per_token[0] + output * per_token[1]; None without tokens
    token_error: float | None
    failures_free: bool  # executed calls that failed cost nothing, others do

    @property
    def model(self) -> str:
        """The simplest model that leaves less than half of the next simpler one's error."""
        best, error = "flat", self.flat_error
        if self.per_s > 0 and self.duration_error < 0.5 * error:
            best, error = "duration", self.duration_error
        if self.token_error is not None and self.token_error < 0.5 * error:
            best = "token"
        return best


def fit_price(calls: Sequence[LoggedCall]) -> PriceFit | None:
    """Return the price models of one tool's executed calls, by least squares; None where no price was logged."""
    optimize = require("scipy.optimize", "train")
    executed = [call for call in calls if call.price is not None and (call.status in WORKS or call.status in FAILS)]
    if not executed:
        return None
    failed = [call.price or 0.0 for call in executed if call.status in FAILS]
    worked = [call for call in executed if call.status in WORKS]
    free = bool(failed) and bool(worked) and max(failed) == 0.0 and min(call.price or 0.0 for call in worked) > 0.0
    billed = worked if free else executed
    prices = np.array([call.price for call in billed], dtype=np.float64)
    fee = float(prices.mean())
    unit = fee or 1.0
    seconds = np.array([call.latency_s or 0.0 for call in billed])
    base, per_s, duration_error = fee, 0.0, float(prices.std()) / unit
    if len(billed) > 2 and seconds.std() > 0:
        line = _stats().linregress(seconds, prices)
        if line.slope > 0:
            base, per_s = float(line.intercept), float(line.slope)
            duration_error = float(np.sqrt(np.mean((prices - base - per_s * seconds) ** 2))) / unit
    per_token, token_error = None, None
    if len(billed) > 2 and all(call.tokens is not None for call in billed):
        counts = np.array([call.tokens for call in billed], dtype=np.float64)  # (n, 2)
        weights, left = optimize.nnls(counts, prices)
        per_token, token_error = (float(weights[0]), float(weights[1])), float(left) / math.sqrt(len(billed)) / unit
    return PriceFit(fee, float(prices.std()) / unit, per_s, base, duration_error, per_token, token_error, free)


# -- failures -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FailureFit:
    """The parameters that all tools of a world share, and each tool's own."""

    slip: float
    persistence: float
    sticky: float
    kinds: dict[str, float]
    reliability: dict[str, float]
    # slip and persistence by tool, where they are not those that all share
    by_tool: dict[str, tuple[float, float]] = field(default_factory=dict)

    def of(self, tool: str) -> tuple[float, float]:
        """Slip and persistence of a tool."""
        return self.by_tool.get(tool, (self.slip, self.persistence))


def chains(calls: Sequence[LoggedCall], gap_s: float) -> Iterator[list[Status]]:
    """Cut one tool's outcomes into episodes: by the log's own, else wherever nothing was called for `gap_s`."""
    for episode in episodes_of(calls, gap_s):
        statuses: list[Status] = [call.status for call in episode if call.status is not Status.RATE_LIMITED]
        if statuses:
            yield statuses


def episodes_of(calls: Sequence[LoggedCall], gap_s: float) -> list[list[LoggedCall]]:
    """Split one tool's calls that ran or were refused for their rate into episodes: the log's own, else wherever
    nothing was called for `gap_s`."""
    groups: dict[tuple[str | None, int], list[LoggedCall]] = defaultdict(list)
    part, last = 0, None
    for call in calls:
        if call.status not in WORKS and call.status not in FAILS and call.status is not Status.RATE_LIMITED:
            continue  # the agent's error, cancelled, or a platform's outage: says nothing of the tool
        if call.episode is None and last is not None and call.started_s - last > gap_s:
            part += 1
        last = call.started_s + (call.latency_s or 0.0)
        groups[(call.episode, part if call.episode is None else 0)].append(call)
    return list(groups.values())


Counts = tuple[int, int, int, int, int, int]
"""Counts of a chain: begins well, begins badly, then well after well, badly after well, well after badly, badly after badly."""


def _counts(chain: Sequence[Status]) -> Counts:
    well = [status in WORKS for status in chain]
    pairs = Counter(pairwise(well))
    first = (1, 0) if well[0] else (0, 1)
    return (*first, pairs[True, True], pairs[True, False], pairs[False, True], pairs[False, False])


def fit_failures(tools: dict[str, list[list[Status]]], slow: dict[str, float]) -> FailureFit:
    """The world's failure model, by maximum likelihood; `slow` is, by tool, the share of calls that time out by duration alone.

    On average a tool of reliability r works in slip + (1 - 2 slip) r of its calls, whatever its persistence; so each tool's
    reliability follows from its success rate, and slip and persistence from how outcomes follow each other. A slip larger than
    the share of a tool's failures, or of its successes, would keep it from its rate, so such a tool has a smaller one of its
    own. A tool also has its own slip and persistence where they explain its outcomes better (likelihood ratio, 1 %).
    """
    optimize = require("scipy.optimize", "train")
    rates = {name: success_rate(chains, slow.get(name, 0.0)) for name, chains in tools.items()}
    counted = {name: Counter(map(_counts, chains)) for name, chains in tools.items()}
    if all(rate == 1.0 for rate in rates.values()):
        return FailureFit(0.0, 0.0, 1.0, {"server_error": 1.0}, dict.fromkeys(rates, 1.0))

    def cost(name: str, slip: float, persistence: float) -> float:
        slip = min(slip, most[name])
        weights = _state_weights(reliability_of(rates[name], slip), slip)
        return -sum(n * _chain_log_likelihood(counts, weights, slip, persistence) for counts, n in counted[name].items())

    def best(names: Sequence[str], bound: float) -> tuple[float, float, float]:
        """Least cost of some tools with a common slip and persistence, and these."""
        # several starts and no gradients: the likelihood has a kink wherever a tool's slip reaches its own limit
        starts = [(0.1 * bound, 0.1), (0.4 * bound, 0.5), (0.9 * bound, 0.1)]
        bounds = [(1e-4 * bound, bound), (0.0, 0.95)]
        chains = [
            optimize.minimize(
                lambda point: sum(cost(name, float(point[0]), float(point[1])) for name in names),
                start,
                bounds=bounds,
                method="Nelder-Mead",
            )
            for start in starts
        ]
        least = min(chains, key=lambda result: float(result.fun))
        return float(least.fun), float(least.x[0]), float(least.x[1])

    most = {name: min(MAX_SLIP, rate, 1.0 - rate) for name, rate in rates.items()}
    _, slip, persistence = best(list(rates), MAX_SLIP)
    by_tool = {name: (limit, persistence) for name, limit in most.items() if limit < slip}
    for name, limit in most.items():
        if limit > 0 and slow.get(name, 0.0) < MAX_SLOW:  # timeouts by duration would pass for slips
            least, *point = best([name], limit)
            if 2.0 * (cost(name, slip, persistence) - least) > OWN_FIT_GAIN:
                by_tool[name] = (point[0], point[1])
    kinds = _kinds(tools, slow)
    sticky = _sticky(tools, kinds, optimize)
    reliability = {name: reliability_of(rate, by_tool.get(name, (slip,))[0]) for name, rate in rates.items()}
    return FailureFit(slip, persistence, sticky, kinds, reliability, by_tool)


def success_rate(chains_of_tool: Sequence[Sequence[Status]], slow: float = 0.0) -> float:
    """Return the share of calls that succeed in the tool's Markov chain; timeouts by duration are left out."""
    statuses = Counter(status for chain in chains_of_tool for status in chain)
    well, total = sum(statuses[status] for status in WORKS), sum(statuses.values())
    slow_calls = min(float(statuses[Status.TIMEOUT]), slow * total)
    return min(1.0, well / max(1e-9, total - slow_calls)) if total else 1.0


def reliability_of(rate: float, slip: float) -> float:
    """Return the reliability with which a tool works in `rate` of its calls."""
    return min(1.0, max(0.0, (rate - slip) / (1.0 - 2.0 * slip)))


def _state_weights(reliability: float, slip: float) -> tuple[float, float, float]:
    alive, degraded = state_chances(reliability, slip)
    return max(0.0, alive), degraded, max(0.0, 1.0 - alive - degraded)


def _chain_log_likelihood(counts: Counts, weights: tuple[float, float, float], slip: float, persistence: float) -> float:
    """Return the log-likelihood of a chain's outcomes, summed over the tool's hidden state in that episode."""
    total = []
    for weight, chance in zip(weights, (1.0 - slip, 0.5, slip), strict=True):
        if weight > 0:
            after_well, after_badly = chance + persistence * (1.0 - chance), chance * (1.0 - persistence)
            factors = (chance, 1 - chance, after_well, 1 - after_well, after_badly, 1 - after_badly)
            likely = (n * math.log(max(factor, 1e-300)) for n, factor in zip(counts, factors, strict=True) if n)
            total.append(math.log(weight) + sum(likely))
    # log-sum-exp over the hidden states, since a long chain's likelihood underflows
    top = max(total)
    return top + math.log(sum(math.exp(part - top) for part in total))


def _kinds(tools: dict[str, list[list[Status]]], slow: dict[str, float]) -> dict[str, float]:
    """Return the shares of the ways to fail; every failure of the chain is drawn from them, the usual ones too."""
    counts: Counter[str] = Counter()
    for name, chains in tools.items():
        statuses = Counter(status for chain in chains for status in chain if status in FAILS)
        beyond = round(slow.get(name, 0.0) * sum(map(len, chains)))
        statuses[Status.TIMEOUT] = max(0, statuses[Status.TIMEOUT] - beyond)
        counts.update({status.label: count for status, count in statuses.items() if count})
    shares = {name: round(counts[name] / counts.total(), 4) for name in (*KINDS, *SILENT_KINDS) if counts[name]}
    return shares or {"server_error": 1.0}


def _sticky(tools: dict[str, list[list[Status]]], kinds: dict[str, float], optimize: Any) -> float:
    failures = [[s.label for s in chain if s in FAILS and s.label in kinds] for tool in tools.values() for chain in tool]
    failures = [chain for chain in failures if len(chain) > 1]
    if not failures or len(kinds) < 2:
        return 0.9 if len(kinds) > 1 else 1.0

    def cost(sticky: float) -> float:
        total = 0.0
        for chain in failures:
            usual = [
                math.log(weight)
                + sum(math.log((sticky if label == name else 0.0) + (1 - sticky) * kinds[label]) for label in chain)
                for name, weight in kinds.items()
            ]
            top = max(usual)
            total -= top + math.log(sum(math.exp(part - top) for part in usual))
        return total

    return float(optimize.minimize_scalar(cost, bounds=(1e-6, 1 - 1e-6), method="bounded").x)


def outcome_log_likelihood(
    chains: Sequence[Sequence[Status]], rate: float, slip: float, persistence: float
) -> tuple[float, float]:
    """Log-likelihood a call of unseen outcomes: under the fitted chain, and under independent failures of the same rate."""
    slip = min(slip, max(1e-6, min(rate, 1.0 - rate)))
    weights = _state_weights(reliability_of(rate, slip), slip)
    chance = min(1 - 1e-3, max(1e-3, rate))
    calls = sum(map(len, chains))
    chained = sum(_chain_log_likelihood(_counts(chain), weights, slip, persistence) for chain in chains)
    alone = sum(math.log(chance if status in WORKS else 1 - chance) for chain in chains for status in chain)
    return chained / max(1, calls), alone / max(1, calls)


# -- rate limits ----------------------------------------------------------------------------------------------------------


def fit_rate_limit(calls: Sequence[LoggedCall]) -> tuple[int, float] | None:
    """Calls admitted per sliding window, and its length; None where nothing was refused for its rate. Of the windows tried, the
    one is taken under which the fewest admissions and refusals are out of place."""
    refused = [call.started_s for call in calls if call.status is Status.RATE_LIMITED]
    admitted = np.array([call.started_s for call in calls if call.status in WORKS or call.status in FAILS])
    if not refused or len(admitted) == 0:
        return None
    wrong: dict[tuple[int, float], int] = {}
    for window_s in WINDOWS_S:
        before, among_admitted = _within(admitted, np.array(refused), window_s), _within(admitted, admitted, window_s)
        for limit in sorted({int(count) for count in before if count > 0}):
            wrong[limit, window_s] = int((before < limit).sum() + (among_admitted >= limit).sum())
    return min(wrong, key=wrong.__getitem__, default=None)


def _within(admitted: FloatArray, at: FloatArray, window_s: float) -> NDArray[np.int64]:
    """Count the calls admitted in the window before each moment."""
    # call times are sorted, so two binary searches count a window of each moment
    last = np.searchsorted(admitted, at, side="left")
    first = np.searchsorted(admitted, at - window_s, side="right")
    return np.asarray(np.maximum(0, last - first), dtype=np.int64)

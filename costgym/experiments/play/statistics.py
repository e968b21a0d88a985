"""Paired bootstrap and permutation over episodes.

Figures are ratios of sums, so a resample is a vector of weights over episodes. The weights depend on the seed and on the
set of episodes alone: agents that played the same episodes are resampled alike, and their common luck cancels out.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def intervals(
    numerators: FloatArray,
    denominators: FloatArray,
    episodes: Sequence[int],
    seed: int,
    resamples: int,
    *,
    difference: bool = False,
    group: int = 1,
) -> tuple[FloatArray, FloatArray]:
    """Percentile intervals at 95 % of column-wise ratios of sums, (n_episodes, n_figures); the lower and upper ends,
    (n_figures,) each, NaN for a figure whose denominator is always 0. `difference` takes the first figure less the second, and
    `group` draws so many consecutive episodes, of one task, together."""
    weights = _weights(tuple(episodes), seed, resamples, group)
    # einsum without BLAS: the order of the additions must not depend on the number of threads
    above = np.einsum("re,ef->rf", weights, numerators)
    below = np.einsum("re,ef->rf", weights, denominators)
    figures = np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)  # (resamples, n_figures)
    if difference:
        figures = figures[:, :1] - figures[:, 1:]
    low, high = np.full(figures.shape[1], np.nan), np.full(figures.shape[1], np.nan)
    for f in range(figures.shape[1]):
        known = figures[~np.isnan(figures[:, f]), f]
        if known.size:
            low[f], high[f] = np.percentile(known, (2.5, 97.5))
    return low, high


Z = 1.959963984540054  # of the standard normal distribution, for 95 %


def wilson(share: float, count: float) -> tuple[float, float]:
    """Wilson's interval at 95 % of a share, 0 to 1, of a number of independent trials, which may be a fraction. Unlike a
    bootstrap it has a width where nothing or everything passed. Source: Wilson (1927), Probable inference, the law of
    succession, and statistical inference."""
    if count <= 0:
        return 0.0, 1.0
    spread = Z * Z / count
    centre = (share + spread / 2.0) / (1.0 + spread)
    half = Z / (1.0 + spread) * math.sqrt(share * (1.0 - share) / count + spread / (4.0 * count))
    return max(0.0, centre - half), min(1.0, centre + half)


def all_of_k(passed: int, trials: int, k: int) -> float:
    """The share of the ways to choose k of some trials that choose only passes: an estimate of P(k trials all pass)."""
    return math.comb(passed, k) / math.comb(trials, k)


def independent_trials(passed: FloatArray, counted: FloatArray) -> float:
    """Estimate how many independent trials the trials of some groups are worth, from numerators and denominators, (n_groups,
    n_trials). Trials of one group (one task under several seeds) are alike, so they tell less than as many tasks would. The
    number of trials is divided by the ratio of the variance between groups to that of independent trials, which is 1 or
    more."""
    total = float(counted.sum())
    if not total or counted.shape[1] == 1:
        return total
    groups = counted.sum(axis=1)
    used = int((groups > 0).sum())
    share = float(passed.sum()) / total
    if share in (0.0, 1.0) or used < 2:
        return float(used)
    between = float(((passed.sum(axis=1) - share * groups) ** 2).sum()) * used / (used - 1)
    design = between / (total * share * (1.0 - share))
    return total / min(max(design, 1.0), total / used)


LEVEL = 0.05
STEPS = 40  # halvings of the distance to the end of an interval


def swap_test(
    a: tuple[FloatArray, FloatArray],
    b: tuple[FloatArray, FloatArray],
    episodes: Sequence[int],
    seed: int,
    permutations: int,
    group: int = 1,
) -> tuple[float, tuple[float, float]]:
    """Test the difference of two ratios of sums, (n_episodes,) numerators and denominators each, by swapping the pair in random
    episodes; `group` swaps so many consecutive episodes, of one task, together.

    Returns:
        The two-sided p-value, at least 1 / (permutations + 1), and the interval of all differences that the same test does not
        reject at 5 %: it holds 0 exactly where the p-value is at least 0.05. An end is infinite where no difference is
        rejected, as with fewer than six episodes.
    """
    rng = _rng("swap", tuple(episodes), seed)
    firsts = {first: number for number, first in enumerate(dict.fromkeys(episode // group for episode in episodes))}
    drawn = rng.integers(0, 2, size=(permutations, len(firsts)))
    swapped = drawn[:, [firsts[episode // group] for episode in episodes]].astype(np.float64)  # (permutations, n_episodes)
    (a_above, a_below), (b_above, b_below) = a, b
    # a shifted difference takes `shift` times the denominators from the numerators of `a`: all that swaps move is linear in it
    moved = np.einsum("pe,ef->pf", swapped, np.stack([a_above - b_above, a_below, a_below - b_below], axis=1))
    a_total, a_count, b_total, b_count = (float(side.sum()) for side in (a_above, a_below, b_above, b_below))
    counts = a_count - moved[:, 2], b_count + moved[:, 2]
    valid = (counts[0] > 0) & (counts[1] > 0)
    moved, counts = moved[valid], (counts[0][valid], counts[1][valid])

    def p_value(shift: float) -> float:
        """The p-value of the hypothesis that the difference is `shift`."""
        total, gone = a_total - shift * a_count, moved[:, 0] - shift * moved[:, 1]
        shuffled = np.abs((total - gone) / counts[0] - (b_total + gone) / counts[1])
        observed = abs(total / a_count - b_total / b_count)
        # a permutation that only reorders the sum must count as equal
        return (int(np.count_nonzero(shuffled >= observed - 1e-12 * max(1.0, observed))) + 1) / (len(moved) + 1)

    difference = a_total / a_count - b_total / b_count
    scale = max(abs(difference), float(np.abs(np.concatenate([a_above, b_above])).max(initial=0.0)), 1e-9)
    ends = [_end(p_value, difference, way * scale) for way in (-1.0, 1.0)]
    p = p_value(0.0)
    # ties make the test accept 0 and reject all that lies beyond: halving comes close to such an end, and never reaches it
    low, high = (0.0 if p >= LEVEL and abs(end) < 1e-9 * scale else end for end in ends)
    return p, (low, high)


def _end(p_value: Callable[[float], float], inside: float, step: float) -> float:
    """Find where a test begins to reject, from a value that it does not reject, in the direction of a step."""
    outside = inside + step
    for _ in range(12):
        if p_value(outside) < LEVEL:
            break
        inside, outside, step = outside, outside + 2 * step, 2 * step
    else:
        return math.copysign(math.inf, step)
    # 0 is asked for first, so that interval and p-value never disagree about it
    for middle in [0.0] if min(inside, outside) < 0.0 < max(inside, outside) else []:
        inside, outside = (inside, middle) if p_value(middle) < LEVEL else (middle, outside)
    for _ in range(STEPS):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if p_value(middle) < LEVEL else (middle, outside)
    return inside


def sign_flip_p_values(differences: FloatArray) -> FloatArray:
    """Two-sided p-values, (n_pairs,), of the sign-flip test: whether the two of a pair could be swapped in any episode, from
    their differences in every independent trial, (n_pairs, n_trials). Under that hypothesis the sum of the differences has mean
    0 and variance sum(d²). Its normal approximation needs no draws and has no smallest value; the continuity correction is half
    a flip. For passes it is McNemar's test."""
    size = np.abs(differences)
    flip = size.sum(axis=1) / np.maximum(1, np.count_nonzero(size, axis=1))
    spread = np.sqrt((size * size).sum(axis=1))
    lead = np.maximum(0.0, np.abs(differences.sum(axis=1)) - flip)
    scores = np.divide(lead, spread, out=np.zeros_like(lead), where=spread > 0)
    return np.array([math.erfc(score / math.sqrt(2.0)) for score in scores.tolist()])


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for all of them. Source: Holm (1979), A simple sequentially rejective multiple test procedure."""
    adjusted, highest = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


@lru_cache(maxsize=2)
def _weights(episodes: tuple[int, ...], seed: int, resamples: int, group: int = 1) -> FloatArray:
    """Draw how often each episode is taken in each resample, (resamples, n_episodes)."""
    if group > 1:
        # groups are resampled as if each were one episode, and its weight holds for all of its episodes
        firsts = tuple(dict.fromkeys(episode // group for episode in episodes))
        row = {first: number for number, first in enumerate(firsts)}
        drawn_groups = _weights(firsts, seed, resamples)
        return np.ascontiguousarray(drawn_groups[:, [row[episode // group] for episode in episodes]])
    n = len(episodes)
    drawn = _rng("bootstrap", episodes, seed).integers(0, n, size=(resamples, n)) if n else np.zeros((resamples, 0), np.int64)
    # one count over all resamples, each with its own range of numbers, in place of a loop over them
    flat = drawn + n * np.arange(resamples)[:, None]
    weights = np.bincount(flat.ravel(), minlength=resamples * n).reshape(resamples, n).astype(np.float64)
    weights.flags.writeable = False
    return weights


def _rng(purpose: str, episodes: tuple[int, ...], seed: int) -> np.random.Generator:
    digest = hashlib.sha256(repr((purpose, seed, episodes)).encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))

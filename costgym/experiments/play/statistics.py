"""Paired bootstrap and permutation over episodes.

Figures are ratios of sums, so a resample is a vector of weights over episodes. The weights depend on the seed and on the
set of episodes alone: agents that played the same episodes are resampled alike, and their common luck cancels out.
"""

import hashlib
import math
from collections.abc import Sequence
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


def swap_p_value(
    a: tuple[FloatArray, FloatArray], b: tuple[FloatArray, FloatArray], episodes: Sequence[int], seed: int, permutations: int
) -> float:
    """Two-sided p-value of the difference of two ratios of sums, (n_episodes,) each, when the pair is swapped in random
    episodes; at least 1 / (permutations + 1)."""
    rng = _rng("swap", tuple(episodes), seed)
    swapped = rng.integers(0, 2, size=(permutations, len(episodes))).astype(np.float64)  # (permutations, n_episodes)
    moved = np.einsum("pe,ef->pf", swapped, np.stack([a[0] - b[0], a[1] - b[1]], axis=1))
    a_above, a_below = a[0].sum() - moved[:, 0], a[1].sum() - moved[:, 1]
    b_above, b_below = b[0].sum() + moved[:, 0], b[1].sum() + moved[:, 1]
    valid = (a_below > 0) & (b_below > 0)
    shuffled = np.abs(a_above[valid] / a_below[valid] - b_above[valid] / b_below[valid])
    observed = abs(a[0].sum() / a[1].sum() - b[0].sum() / b[1].sum())
    # a permutation that only reorders the sum must count as equal
    reached = int(np.count_nonzero(shuffled >= observed - 1e-12 * max(1.0, observed)))
    return (reached + 1) / (int(valid.sum()) + 1)


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

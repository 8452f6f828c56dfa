"""How many workers each hot key needs, and may have from now on: FISH's Algorithm 2 (CHK).

`key_frequencies` finds the hot keys of the recent past. `candidate_rows` holds the workers that
each was granted.

References
----------
FISH, Alg. 2 (section 4.1.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from skewless.arrays import F64, I64, U64, Floats, Ints
from skewless.kernels.fewest_choices import fewest_choices
from skewless.kernels.sorting import sort_descending
from skewless.plumbing.compiling import kernel
from skewless.state import fixed, require_within
from skewless.strategies.fish.candidate_rows import (
    CandidateRows,
    fill_row,
    forget_rows,
    headers,
    refill_rows,
    words_per_row,
)
from skewless.strategies.fish.key_frequencies import KeyFrequencies, list_hot
from skewless.strategies.fish.worker_estimation import WorkerEstimates

# What `classify` may be.
CHK, ALL_WORKERS, D_CHOICES = 0, 1, 2


@fixed("growth", "classify", "every_prefix", "epsilon")
class FishState(NamedTuple):
    """The state of a source: recent hot keys with their candidates, and the workers' backlog."""

    recent: KeyFrequencies
    rows: CandidateRows  # by entry of the summary; M_k is the number of candidates in the row
    growth: Floats  # by M_k: the key needs more workers when count · growth > top
    backlog: WorkerEstimates
    d_min: Ints
    classify: Ints  # [1]
    every_prefix: Ints  # [1 if d_min is D-Choices' d]
    epsilon: Floats
    shares: Floats  # scratch

    def check(self, fresh: FishState) -> None:
        """Refuse fewer candidates than a key must have."""
        require_within("d_min", self.d_min, 1, self.rows.members.size)


@kernel
def _fewest_for_all(shares: Floats, n_hot: I64, n_workers: I64, epsilon: F64) -> I64:
    """Return the fewest candidates per key with which all hot keys together fit.

    The last of D-Choices' inequalities: the workers that `n_hot` keys cover with d candidates each
    must be enough for the hot keys' share and for what lands on them of the rest.
    """
    hot_share = 0.0
    miss = 1.0
    for i in range(n_hot):
        hot_share += shares[i]
        miss *= (n_workers - 1.0) / n_workers
    rest = max(0.0, 1.0 - hot_share)
    d = 2
    uncovered = miss * miss
    while d < n_workers:
        covered = 1.0 - uncovered
        if hot_share + covered * covered * rest <= covered * (1.0 + n_workers * epsilon):
            break
        d += 1
        uncovered *= miss
    return d


@kernel
def review(state: FishState) -> None:
    """Find f_top, and d_min from the shares of the hot keys."""
    n_workers = state.rows.members.size
    n_hot = list_hot(state.recent, state.shares)
    if state.classify[0] == ALL_WORKERS:
        fewest = n_workers
    elif state.every_prefix[0] == 1:
        sort_descending(state.shares, n_hot)
        fewest = fewest_choices(state.shares, n_hot, n_workers, state.epsilon[0])
    else:
        fewest = _fewest_for_all(state.shares, n_hot, n_workers, state.epsilon[0])
    fewest = min(fewest, n_workers)
    if state.classify[0] == D_CHOICES and fewest < state.d_min[0]:
        # D-Choices has no M_k: candidates are found again, and they are fewer.
        forget_rows(state.rows, state.recent.summary.size[0])
    state.d_min[0] = fewest


@kernel
def grant(state: FishState, entry: I64, key: U64, count: F64) -> None:
    """Give a hot key the candidates that it needs, and never fewer than it had (Alg. 2, l. 3–10).

    Halving n while the frequency can be doubled is n / 2^⌊log2(f_top / f_k)⌋ without a logarithm.
    """
    rows = state.rows
    begin = entry * words_per_row(rows.n_workers[0])
    fewest = state.d_min[0]
    if rows.rows[begin] == key:
        fewest = max(fewest, np.int64(rows.rows[begin + 1]))
    d = rows.members.size if state.classify[0] == CHK else fewest
    doubled = 2.0 * count
    while d > fewest and doubled <= state.recent.top[0]:
        d >>= 1
        doubled *= 2.0
    fill_row(rows, entry, key, max(d, fewest))


def growth(n_workers: int) -> Floats:
    """Return by M_k the least power of two 2^j with n / 2^j ≤ M_k; 0 for n, where nothing grows."""
    factors = np.zeros(n_workers + 1)
    for granted in range(1, n_workers):
        factors[granted] = 2.0 ** next(j for j in range(64) if n_workers >> j <= granted)
    return factors


def complete(state: FishState) -> None:
    """Compute f_top, d_min and candidates after counts and M_k were replaced."""
    review(state)
    refill_rows(state.rows, state.recent.summary.size[0])


def grant_largest(state: FishState, sources: Iterable[FishState]) -> None:
    """Give each key of `state` the largest M_k that any of `sources` has for it."""
    largest: dict[int, int] = {}
    for source in sources:
        keys = source.recent.summary.keys[: source.recent.summary.size[0]]
        rows = headers(source.rows)[: keys.size]
        for key, m_k in rows[rows[:, 0] == keys].tolist():
            largest[key] = max(m_k, largest.get(key, 0))
    keys = state.recent.summary.keys[: state.recent.summary.size[0]]
    headers(state.rows)[: keys.size, 0] = keys
    headers(state.rows)[: keys.size, 1] = [largest.get(key, 0) for key in keys.tolist()]

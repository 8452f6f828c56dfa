"""How many workers each hot key needs, and which ones it has: FISH's Algorithm 2 (CHK).

`key_frequencies` finds the hot keys of the recent past. Their candidates come from the ring of
section 5, and are remembered: one row for each place of the summary. A row holds a key, the number
of its candidates, and the candidates as a set of workers. Without it, every record would walk round
the ring. A row lasts as long as its key keeps the place, so memory is bounded. A row is valid only
for the key that it holds.

References
----------
FISH, Alg. 2 (section 4.1.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from skewless.arrays import F64, I32, I64, U64, Floats, Ints, Keys, Words, Workers
from skewless.kernels.bits import add_worker, words_for
from skewless.kernels.fewest_choices import fewest_choices
from skewless.kernels.hashing import nth_hash, seeded
from skewless.kernels.ring import Ring, candidates, find_point, ring
from skewless.kernels.sorting import sort_descending
from skewless.plumbing.compiling import kernel
from skewless.state import fixed, require_that, require_within, require_workers
from skewless.strategies.fish.key_frequencies import KeyFrequencies, list_hot
from skewless.strategies.fish.worker_estimation import WorkerEstimates

# What `classify` may be.
CHK, ALL_WORKERS, D_CHOICES = 0, 1, 2
#: Words of a row before the set: the key, and how many candidates it has.
HEADER = 2
_ZERO = np.uint64(0)


@kernel
def words_per_row(n_workers: I64) -> I64:
    """Return the words of one row: its header, and the set of candidates."""
    return HEADER + words_for(n_workers)


@fixed("seeds", "n_workers", "members", "by_ring")
class CandidateRows(NamedTuple):
    """How candidates are found, and those that were found so far."""

    seeds: Words  # of the hash, of the ring
    n_workers: Ints  # [including those that have left]
    members: Workers  # workers that have not left, in ascending order
    by_ring: Ints  # [0: by hashing modulo n]
    ring: Ring  # of one point when it is not used
    rows: Words
    walked: Workers  # scratch

    def check(self, fresh: CandidateRows) -> None:
        """Refuse candidates that do not exist, and keys that have none."""
        n_workers = int(self.n_workers[0])
        rows = self.rows.reshape(-1, HEADER + words_for(n_workers))
        sets = np.ascontiguousarray(rows[:, HEADER:])
        require_within("rows", rows[:, 1], 0, self.members.size)
        require_workers("rows", sets, n_workers)
        require_that(
            sets[rows[:, 1] > 0].any(axis=1).all(), "rows must hold a candidate of each key"
        )


def candidate_rows(
    n_rows: int, capacities: Floats, seeds: Words, *, by_ring: bool, virtual_nodes: int
) -> CandidateRows:
    """Return `n_rows` empty rows; all workers have equally many points, those that left none."""
    n_workers = capacities.size
    stays = (capacities > 0).astype(np.float64)
    return CandidateRows(
        seeds=seeds.copy(),
        n_workers=np.array([n_workers]),
        members=np.flatnonzero(stays).astype(np.int32),
        by_ring=np.array([int(by_ring)]),
        ring=ring(n_workers, int(seeds[1]), virtual_nodes, stays)
        if by_ring
        else ring(1, int(seeds[1]), virtual_nodes=1),
        rows=np.zeros(n_rows * words_per_row(n_workers), np.uint64),
        walked=np.zeros(n_workers, np.int32),
    )


@kernel
def _by_modulo(rows: CandidateRows, hashed: U64, j: I64) -> I32:
    """Return candidate j of a key without the ring: a hash of its own, modulo n."""
    own = hashed if j == 0 else nth_hash(hashed, j)
    return rows.members[np.int64(own % np.uint64(rows.members.size))]


def headers(rows: CandidateRows) -> Words:
    """Return a view of all rows' keys and numbers of candidates."""
    stride = words_per_row(int(rows.n_workers[0]))
    return rows.rows.reshape(-1, stride)[:, :HEADER]


@kernel
def fill_row(rows: CandidateRows, place: I64, key: U64, d: I64) -> None:
    """Write the first d candidates of `key` to the row at `place`."""
    stride = words_per_row(rows.n_workers[0])
    row = rows.rows[place * stride : (place + 1) * stride]
    row[0] = key
    row[1] = np.uint64(d)
    row = row[HEADER:]
    row[:] = _ZERO
    hashed = seeded(key, rows.seeds[0])
    if d >= rows.members.size:
        for worker in rows.members:
            add_worker(row, np.int64(worker))
    elif rows.by_ring[0] == 1:
        n_found = candidates(rows.ring, hashed, d, rows.walked)
        for j in range(n_found):
            add_worker(row, np.int64(rows.walked[j]))
    else:
        for j in range(d):
            add_worker(row, np.int64(_by_modulo(rows, hashed, j)))


@kernel
def refill_rows(rows: CandidateRows, n_rows: I64) -> None:
    """Find the candidates of the first `n_rows` rows again, after their headers were written."""
    stride = words_per_row(rows.n_workers[0])
    for place in range(n_rows):
        d = np.int64(rows.rows[place * stride + 1])
        if d > 0:
            fill_row(rows, place, rows.rows[place * stride], min(d, rows.members.size))


@kernel
def forget_rows(rows: CandidateRows, n_rows: I64) -> None:
    """Empty the first `n_rows` rows."""
    stride = words_per_row(rows.n_workers[0])
    for place in range(n_rows):
        rows.rows[place * stride + 1] = _ZERO


@kernel
def two_candidates(rows: CandidateRows, key: U64) -> tuple[I32, I32]:
    """Return the first two candidates of `key`; on the ring they differ if there are two workers.

    They are not remembered: most keys that need only two come once.
    """
    hashed = seeded(key, rows.seeds[0])
    if rows.by_ring[0] == 0:
        return _by_modulo(rows, hashed, 0), _by_modulo(rows, hashed, 1)
    workers = rows.ring.workers
    n_points = workers.size - 1
    point = find_point(rows.ring, hashed)
    first = workers[point]
    for _ in range(n_points):
        point = point + 1 if point + 1 < n_points else point + 1 - n_points
        if workers[point] != first:
            break
    return first, workers[point]


@kernel
def first_candidates(rows: CandidateRows, keys: Keys, out: Workers) -> None:
    """Fill `out` with the first candidate of each key."""
    for i in range(keys.size):
        out[i] = two_candidates(rows, keys[i])[0]


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
    uncovered = miss
    for d in range(2, n_workers):
        uncovered *= miss
        covered = 1.0 - uncovered
        if hot_share + covered * covered * rest <= covered * (1.0 + n_workers * epsilon):
            return d
    return max(2, n_workers)


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

"""The candidates of hot keys, remembered: one row for each place of a summary.

A row holds a key, the number of its candidates, and the candidates as a set of workers. Without
it, every record would walk round the ring. A row lasts as long as its key keeps the place, so
memory is bounded. A row is valid only for the key that it holds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import I32, I64, U64, Floats, Ints, Keys, Words, Workers
from skewless.kernels.bits import add_worker, words_for
from skewless.kernels.hashing import nth_hash, seeded
from skewless.kernels.ring import Ring, candidates, find_point, ring
from skewless.plumbing.compiling import kernel
from skewless.state import fixed, require_that, require_within, require_workers

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
    members = np.flatnonzero(capacities > 0).astype(np.int32)
    stays = (capacities > 0).astype(np.float64)
    return CandidateRows(
        seeds=seeds.copy(),
        n_workers=np.array([n_workers]),
        members=members,
        by_ring=np.array([int(by_ring)]),
        ring=ring(n_workers, int(seeds[1]), virtual_nodes=virtual_nodes, capacities=stays)
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
    n_workers = rows.n_workers[0]
    n_words = words_for(n_workers)
    begin = place * (HEADER + n_words)
    row = rows.rows[begin + HEADER : begin + HEADER + n_words]
    rows.rows[begin] = key
    rows.rows[begin + 1] = np.uint64(d)
    for j in range(n_words):
        row[j] = _ZERO
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
        point += 1
        if point >= n_points:
            point -= n_points
        if workers[point] != first:
            break
    return first, workers[point]


@kernel
def first_candidates(rows: CandidateRows, keys: Keys, out: Workers) -> None:
    """Fill `out` with the first candidate of each key."""
    for i in range(keys.size):
        out[i] = two_candidates(rows, keys[i])[0]

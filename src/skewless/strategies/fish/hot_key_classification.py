"""Routing that grants each hot key the workers it needs, and sends to the shortest waiting time.

FISH's Algorithms 1 to 3 put together: `key_frequencies` finds the hot keys of the recent past,
`candidate_rows` holds the workers that each was granted, and `worker_estimation` has the waiting
times. `strategies.fish` has the overview.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import F64, I64, U64, Floats, Ints, Keys, Workers
from skewless.kernels.fewest_choices import fewest_choices
from skewless.kernels.key_table import ABSENT, find_slot
from skewless.kernels.sorting import sort_descending
from skewless.kernels.space_saving import admit
from skewless.sound import require_same, require_within
from skewless.strategies.fish.candidate_rows import (
    HEADER,
    CandidateRows,
    fill_row,
    forget_rows,
    headers,
    refill_rows,
    two_candidates,
    words_per_row,
)
from skewless.strategies.fish.key_frequencies import THETA, WEIGHT, Fading, fade, list_hot
from skewless.strategies.fish.worker_estimation import SINCE, UNTIL, Backlog, estimate
from skewless.strategies.fish.worker_selection import send, send_to_least

# Positions in `modes`, and what `modes[CLASSIFY]` may be.
CLASSIFY = 0
EVERY_PREFIX = 1  # d_min is D-Choices' d
CHK, ALL_WORKERS, D_CHOICES = 0, 1, 2


class Grants(NamedTuple):
    """Recent hot keys with their candidates, and how long every worker will be busy."""

    recent: Fading
    rows: CandidateRows  # by entry of the summary; M_k is the number of candidates in the row
    growth: Floats  # by M_k: the key needs more workers when count · growth > top
    backlog: Backlog
    d_min: Ints
    modes: Ints
    epsilon: Floats
    shares: Floats  # scratch

    def check(self, fresh: Grants) -> None:
        """Refuse other settings, and fewer candidates than a key must have."""
        for name in ("growth", "modes", "epsilon"):
            require_same(name, getattr(self, name), getattr(fresh, name))
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
def review(state: Grants) -> None:
    """Find f_top, and d_min from the shares of the hot keys."""
    n_workers = state.rows.members.size
    n_hot = list_hot(state.recent, state.shares)
    if state.modes[CLASSIFY] == ALL_WORKERS:
        fewest = n_workers
    elif state.modes[EVERY_PREFIX] == 1:
        sort_descending(state.shares, n_hot)
        fewest = fewest_choices(state.shares, n_hot, n_workers, state.epsilon[0])
    else:
        fewest = _fewest_for_all(state.shares, n_hot, n_workers, state.epsilon[0])
    fewest = min(fewest, n_workers)
    if state.modes[CLASSIFY] == D_CHOICES and fewest < state.d_min[0]:
        # D-Choices has no M_k: candidates are found again, and they are fewer.
        forget_rows(state.rows, state.recent.summary.size[0])
    state.d_min[0] = fewest


@kernel
def _grant(state: Grants, entry: I64, key: U64, count: F64) -> None:
    """Give a hot key the candidates that it needs, and never fewer than it had (Alg. 2, l. 3–10).

    Halving n while the frequency can be doubled is n / 2^⌊log2(f_top / f_k)⌋ without a logarithm.
    """
    rows = state.rows
    begin = entry * words_per_row(rows.n_workers[0])
    fewest = state.d_min[0]
    if rows.rows[begin] == key:
        fewest = max(fewest, np.int64(rows.rows[begin + 1]))
    d = rows.members.size if state.modes[CLASSIFY] == CHK else fewest
    doubled = 2.0 * count
    while d > fewest and doubled <= state.recent.top[0]:
        d >>= 1
        doubled *= 2.0
    fill_row(rows, entry, key, max(d, fewest))


@kernel
def _send_cold(state: Grants, key: U64) -> I64:
    """Send to the candidate of two with the shorter queue, the first on a tie."""
    waiting = state.backlog.waiting
    first, second = two_candidates(state.rows, key)
    worker = np.int64(second if waiting.ticks[second] < waiting.ticks[first] else first)
    send(waiting, worker)
    return worker


@kernel
def route(keys: Keys, state: Grants, out: Workers) -> None:
    """Fill `out` with the worker of each record: Alg. 1, 2 and 3 in one pass."""
    recent, records, rows = state.recent, state.backlog.records, state.rows.rows
    summary = recent.summary
    stride = words_per_row(state.rows.n_workers[0])
    i = 0
    while i < keys.size:
        if recent.n_in_epoch[0] >= recent.epoch[0]:
            review(state)
            fade(recent)
        if records[SINCE] >= records[UNTIL]:
            estimate(state.backlog)
        # Neither is due again before record `end`.
        end = i + min(recent.epoch[0] - recent.n_in_epoch[0], records[UNTIL] - records[SINCE])
        end = min(end, keys.size)
        recent.n_in_epoch[0] += end - i
        recent.n_since_merge[0] += end - i
        records[SINCE] += end - i
        weight = recent.settings[WEIGHT] * summary.unit[0]
        theta = recent.settings[THETA]
        d_min = state.d_min[0]
        top = recent.top[0]
        unit = summary.unit[0]
        # Kept in registers: otherwise each record would wait until the one before it is stored.
        total = summary.total[0]
        clock = summary.clock[0]
        while i < end:
            key = keys[i]
            total += unit  # what follows is `offer`
            clock += 1
            slot = find_slot(summary.table, key)
            entry = np.int64(summary.table.values[slot])
            if entry == ABSENT:
                summary.clock[0] = clock
                entry = np.int64(admit(summary, key, slot, unit))
            else:
                summary.counts[entry] += unit
                summary.stamps[entry] = clock
            count = summary.counts[entry]
            top = max(top, count)
            if count > theta * max(total, weight):  # Alg. 2, l. 1
                row = entry * stride
                granted = np.int64(rows[row + 1])
                if (rows[row] != key) | (granted < d_min) | (count * state.growth[granted] > top):
                    recent.top[0] = top
                    _grant(state, entry, key, count)
                worker = send_to_least(state.backlog.waiting, rows, row + HEADER)
            else:
                worker = _send_cold(state, key)
            out[i] = worker
            i += 1
        recent.top[0] = top
        summary.total[0] = total
        summary.clock[0] = clock


def growth(n_workers: int) -> Floats:
    """Return by M_k the least power of two 2^j with n / 2^j ≤ M_k; 0 for n, where nothing grows."""
    factors = np.zeros(n_workers + 1)
    for granted in range(1, n_workers):
        factors[granted] = 2.0 ** next(j for j in range(64) if n_workers >> j <= granted)
    return factors


def complete(state: Grants) -> None:
    """Compute f_top, d_min and candidates after counts and M_k were replaced."""
    review(state)
    refill_rows(state.rows, state.recent.summary.size[0])


def grant_largest(state: Grants, sources: Iterable[Grants]) -> None:
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

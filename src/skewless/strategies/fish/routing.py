"""The loop over records: FISH's Algorithms 1 to 3 in one pass.

`key_frequencies` counts the key of a record (Alg. 1), `hot_key_classification` gives a hot key its
candidates (Alg. 2), and the record goes to the candidate with the shortest waiting time (Alg. 3).
"""

from __future__ import annotations

import numpy as np

from skewless.arrays import I64, U64, Keys, Workers
from skewless.kernels.key_table import ABSENT, find_slot
from skewless.kernels.space_saving import admit
from skewless.plumbing.compiling import kernel
from skewless.strategies.fish.candidate_rows import HEADER, two_candidates, words_per_row
from skewless.strategies.fish.hot_key_classification import FishState, grant, review
from skewless.strategies.fish.key_frequencies import fade
from skewless.strategies.fish.worker_estimation import estimate
from skewless.strategies.fish.worker_selection import send, send_to_least


@kernel
def _send_cold(state: FishState, key: U64) -> I64:
    """Send to the candidate of two with the shorter queue, the first on a tie."""
    waiting = state.backlog.waiting
    first, second = two_candidates(state.rows, key)
    worker = np.int64(second if waiting.ticks[second] < waiting.ticks[first] else first)
    send(waiting, worker)
    return worker


@kernel
def route(keys: Keys, state: FishState, out: Workers) -> None:
    """Fill `out` with the worker of each record: Alg. 1, 2 and 3 in one pass."""
    recent, times, rows = state.recent, state.backlog.clock[0], state.rows.rows
    summary = recent.summary
    stride = words_per_row(state.rows.n_workers[0])
    i = 0
    while i < keys.size:
        if recent.n_in_epoch[0] >= recent.epoch[0]:
            review(state)
            fade(recent)
        if times["since"] >= times["until"]:
            estimate(state.backlog)
        # Neither is due again before record `end`.
        end = i + min(recent.epoch[0] - recent.n_in_epoch[0], times["until"] - times["since"])
        end = min(end, keys.size)
        recent.n_in_epoch[0] += end - i
        recent.n_since_merge[0] += end - i
        times["since"] += end - i
        weight = recent.settings[0]["weight"] * summary.unit[0]
        theta = recent.settings[0]["theta"]
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
                    grant(state, entry, key, count)
                worker = send_to_least(state.backlog.waiting, rows, row + HEADER)
            else:
                worker = _send_cold(state, key)
            out[i] = worker
            i += 1
        recent.top[0] = top
        summary.total[0] = total
        summary.clock[0] = clock

"""How a source of Dalton continues with another number of workers. The paper has none of this."""

from __future__ import annotations

import numpy as np

from skewless.state import copy_state
from skewless.strategies.dalton import slides
from skewless.strategies.dalton.bandit import Bandit, home_of, next_window
from skewless.strategies.dalton.q_table import row_values, set_values
from skewless.strategies.dalton.slides import is_on, place_on
from skewless.strategies.dalton.watched_keys import owned_rows, take_row

_COUNTERS = ("window", "before", "draws", "told", "in_message", "waiting")
_ROW = ("before", "untold", "frequent", "until", "shared", "deadline")


def rescale_into(fresh: Bandit, state: Bandit, *, hybrid: bool) -> None:
    """Fill `fresh`, a new state for other workers, with what `state` has learned.

    A new statistics window begins. Values, rewards and replicas of hot keys at workers that stay
    are kept. The window of loads has those of workers that stay.
    """
    state = copy_state(state)
    next_window(state)
    n_workers = fresh.sent.size
    n_same = min(n_workers, state.sent.size)
    fresh.seeds[:] = state.seeds
    fresh.counts.sketch.seeds[:] = state.counts.sketch.seeds
    for name in _COUNTERS:
        fresh.counters[name] = state.counters[name]
    grown = min(int(state.counters[0]["split_limit"]), int(fresh.counters[0]["most_splits"]))
    fresh.counters["split_limit"] = max(grown, int(fresh.counters[0]["split_limit"]))
    fresh.levels["scale"] = state.levels["scale"]
    if hybrid:
        fresh.levels["hot_above"] *= state.levels["scale"]
    fresh.merges.times[:] = state.merges.times
    fresh.merges.sums[:] = state.merges.sums
    fresh.of_all[:n_same] = state.of_all[:n_same]
    fresh.sent[:n_same] = state.sent[:n_same]
    loads = np.zeros(n_workers, np.int64)
    loads[:n_same] = state.window.loads[:n_same]
    slides.fill(fresh.window, loads, int(state.window.counters[0]["slide"]))
    rows = owned_rows(state.hot)
    # There may be fewer rows than before: those of keys that are hot for longest come first.
    for key in sorted(rows, key=lambda key: (-int(state.hot.until[rows[key]]), key)):
        if fresh.hot.n_free[0] > 0:
            _keep_row(fresh, state, np.uint64(key), rows[key], n_same)


def _keep_row(fresh: Bandit, state: Bandit, key: np.uint64, old: int, n_same: int) -> None:
    """Copy the row of a key; its places begin with its new hash worker."""
    n_workers, n_before = fresh.sent.size, state.sent.size
    home = int(home_of(key, fresh.seeds[0], n_workers))
    row = int(take_row(fresh.hot, key, np.int32(home), float(state.hot.counts[old])))
    for name in _ROW:
        getattr(fresh.hot, name)[row] = getattr(state.hot, name)[old]
    workers = np.arange(n_same)
    before = (workers - int(state.hot.homes[old])) % n_before
    now = (workers - home) % n_workers
    values = row_values(fresh.q, row).copy()
    values[now] = row_values(state.q, old)[before]
    set_values(fresh.q, row, values)
    first, first_before = row * int(fresh.q.shape[1]), old * int(state.q.shape[1])
    fresh.q.kept[first + now] = state.q.kept[first_before + before]
    fresh.q.n_kept[first + now] = state.q.n_kept[first_before + before]
    for worker in workers.tolist():
        if is_on(state.replicas, old, worker):
            place_on(fresh.replicas, row, worker)

"""How sources of Dalton merge: what each sends, the merged state, and how each continues.

This is Dalton's section 4.1 for merges at any time. A state has a part that is the same at all
sources since the last merge, and a part that is new at one source since its last message. A merge
adds each new part once, and multiplies the older part by horizon / (horizon + new records). So the
result does not depend on where a statistics window ends, how many records there are between two
merges, or which sources took part. A merge without records changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skewless.arrays import Floats
from skewless.kernels.key_table import ABSENT, get
from skewless.kernels.merge_history import OWN, RECENT, add_merge, follow, scale_of
from skewless.strategies.dalton import slides
from skewless.strategies.dalton.bandit import Bandit, home_of
from skewless.strategies.dalton.key_counts import KeyCounts, count_of
from skewless.strategies.dalton.q_table import (
    averaged,
    clear_row,
    forget_kept,
    learned_by_all,
    row_values,
    set_values,
    with_kept,
)
from skewless.strategies.dalton.slides import clear_replicas, place_on
from skewless.strategies.dalton.watched_keys import ALWAYS, NEVER, owned_rows, take_row

_TOO_FEW = 8  # with at most this many records, a key is no candidate


def send_off(state: Bandit) -> None:
    """Note that everything new so far has been sent: only what follows is new."""
    counters = state.counters[0]
    counters["in_message"] = counters["draws"] - counters["told"]
    counters["told"] = counters["draws"]
    counters["waiting"] = 1
    state.hot.untold[:] = -state.hot.counts
    state.sent[:] = 0
    forget_kept(state.q)


@dataclass(frozen=True)
class _Message:
    """The message of one source, with its part of the recent records of all."""

    state: Bandit
    counts: KeyCounts
    rows: dict[int, int]
    part: float  # faded

    def candidates(self, n_workers: int) -> set[int]:
        """Return the keys that may be hot: those with a row, and the top keys of this window.

        A key that is hot over all sources has at least that share at one of them. In the first
        batches, all sources together may have counted enough for a row although none of them has.
        """
        table = self.counts.table
        enough = max(_TOO_FEW, float(self.state.counters[0]["records"]) / n_workers)
        return self.rows.keys() | set(table.keys[table.values > enough].tolist())

    def share(self, key: int) -> float:
        """Return the estimated number of recent records of `key` at this source.

        It is the key's share of the last one or two statistics windows, times the recent records
        of the source.
        """
        counters, hot = self.state.counters[0], self.state.hot
        n_counted = float(counters["records"])
        if key in self.rows:
            row = self.rows[key]
            count = float(hot.counts[row])
            if hot.before[row] >= 0:
                count += float(hot.before[row])
                n_counted += float(counters["before"])
        else:
            count = float(count_of(self.counts, np.uint64(key)))
        # A short window counts as if the rest of it had no record of the key.
        n_expected = min(self.part, float(counters["stats_window"]))
        return self.part * count / max(n_counted, n_expected, 1)

    def new(self, key: int) -> float:
        """Count the new records of a key that is hot over all."""
        row = self.rows.get(key)
        hot = self.state.hot
        return 0.0 if row is None else float(hot.counts[row] + hot.untold[row])

    def learned(self, key: int, *, is_common: bool) -> bool:
        """Return whether this source has values for the key that began as those of the others."""
        row = self.rows.get(key)
        if row is None:
            return False
        hot = self.state.hot
        return bool(hot.shared[row] > 0 if is_common else hot.until[row] != NEVER)


def merge_into(
    merged: Bandit, states: Sequence[Bandit], *, hybrid: bool, window: int, averaging: str
) -> None:
    """Fill `merged`, a fresh state, from `states`; `window` is the length of the load window."""
    new = [int(state.counters[0]["draws"] - state.counters[0]["told"]) for state in states]
    n_new = sum(new)
    n_workers = merged.sent.size
    stats_window = int(merged.counters[0]["stats_window"])
    fading = stats_window / (stats_window + n_new)
    merged.seeds[0] = states[0].seeds[0]
    merged.seeds[1] = min(state.seeds[1] for state in states)
    merged.counts.sketch.seeds[:] = states[0].counts.sketch.seeds
    for name in ("split_limit", "draws"):
        merged.counters[name] = max(int(state.counters[0][name]) for state in states)
    merged.counters["told"] = merged.counters["draws"]
    add_merge(merged.merges, [state.merges for state in states], n_new, stats_window)
    recent, clock = float(merged.merges.sums[RECENT]), int(merged.merges.times[-1])
    older = np.max([state.of_all for state in states], axis=0)
    merged.of_all[:] = window / (window + n_new) * older + np.sum([s.sent for s in states], axis=0)

    parts = fading * np.array([state.merges.sums[OWN] for state in states]) + new
    messages = [
        _Message(state, _for_reading(state.counts), owned_rows(state.hot), part)
        for state, part in zip(states, parts.tolist(), strict=True)
    ]
    found = []
    candidates = set().union(*(message.candidates(n_workers) for message in messages))
    for key in sorted(candidates):
        rows = [
            (message.state.hot, message.rows[key]) for message in messages if key in message.rows
        ]
        # The faded records of the key at all sources, 0 if it was not hot, and its deadline.
        known = [(float(hot.shared[row]), int(hot.deadline[row])) for hot, row in rows]
        shared, deadline = max(known, default=(0.0, 0))
        if shared > 0:
            frequency = fading * shared + sum(sorted(message.new(key) for message in messages))
        else:
            frequency = sum(sorted(message.share(key) for message in messages))
        # Definition 3.3 over all sources, and a window longer, as the paper's next window.
        if frequency > (recent / n_workers if hybrid else 0.0):
            found.append((-frequency, key, clock + stats_window, shared > 0))
        elif shared > 0 and clock <= deadline:
            found.append((-frequency, key, deadline, True))
    most = merged.hot.keys.size // 2 if hybrid else merged.hot.keys.size
    for negative, key, deadline, is_common in sorted(found)[:most]:
        home = home_of(np.uint64(key), merged.seeds[0], n_workers)
        row = int(take_row(merged.hot, np.uint64(key), home, 0.0))
        merged.hot.until[row] = ALWAYS
        merged.hot.shared[row] = max(-negative, np.finfo(float).tiny)
        merged.hot.deadline[row] = deadline
        learned = [
            (message.state.q, message.rows[key])
            for message in messages
            if message.learned(key, is_common=is_common)
        ]
        if learned and averaging == "rewards":
            set_values(merged.q, row, learned_by_all(learned, float(merged.levels[0]["rate"])))
        elif learned:
            set_values(merged.q, row, averaged(learned, weighted=averaging == "weighted"))


def take_over(state: Bandit, merged: Bandit, *, hybrid: bool) -> None:
    """Update a source, whose message was sent, with the merged state (Alg. 2, l. 17–20)."""
    counters, levels = state.counters[0], state.levels[0]
    counters["waiting"] = 0
    counters["split_limit"] = max(counters["split_limit"], merged.counters[0]["split_limit"])
    n_sent, horizon = int(counters["in_message"]), int(counters["stats_window"])
    follow(state.merges, merged.merges, n_sent, horizon)
    counters["in_message"] = 0
    levels["scale"] = scale_of(state.merges)
    if hybrid:
        share = float(counters["stats_window"]) / state.sent.size
        levels["hot_above"], levels["watch_above"] = levels["scale"] * share, share
    state.of_all[:] = merged.of_all
    common = owned_rows(merged.hot)
    for key, row in owned_rows(state.hot).items():
        if key not in common:  # it stays watched: its records count for the next merge
            state.hot.until[row] = NEVER
            state.hot.shared[row] = 0.0
            clear_row(state.q, row)
    for key, source_row in common.items():
        _take_row_over(state, merged, np.uint64(key), source_row)


def share_loads(state: Bandit, slide: int) -> None:
    """Fill the window with the loads of all sources, on the scale of this one.

    The smaller the part of this source, the shorter its slides become, but they stay long enough
    that the work at the end of a slide is O(1) per record.
    """
    scale = float(state.levels[0]["scale"])
    loads = np.rint(state.of_all / scale).astype(np.int64) + state.sent
    n_workers = loads.size
    slides.fill(state.window, loads, max(min(slide, n_workers), round(slide / scale)))


def _take_row_over(state: Bandit, merged: Bandit, key: np.uint64, source_row: int) -> None:
    """Copy the row of `key` from the common table; the key may be new to this source."""
    hot = state.hot
    values: Floats = row_values(merged.q, source_row)
    row = int(get(hot.table, key))
    if row == ABSENT:
        home = home_of(key, state.seeds[0], state.sent.size)
        counts = float(count_of(_for_reading(state.counts), key))
        row = int(take_row(hot, key, home, counts))
        if row == ABSENT:
            return
        hot.untold[row] = -counts
        clear_replicas(state.replicas, row)
        clear_row(state.q, row)
        if counts > 0 and not state.counters[0]["by_batch"]:
            place_on(state.replicas, row, int(home))
    hot.until[row] = ALWAYS
    hot.shared[row] = merged.hot.shared[source_row]
    hot.deadline[row] = merged.hot.deadline[source_row]
    set_values(state.q, row, with_kept(state.q, row, values, float(state.levels[0]["rate"])))


def _for_reading(counts: KeyCounts) -> KeyCounts:
    """Return the same counts with separate scratch memory: reading a sketch writes there."""
    columns = counts.sketch.columns.copy()
    return counts._replace(sketch=counts.sketch._replace(columns=columns))

"""Algorithm 2: the state of a source, and how it routes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import I32, I64, U64, Ints, Keys, Rows, SmallInts, Words, Workers
from skewless.kernels.hashing import seeded, two_workers
from skewless.kernels.least_loaded import send_to_lighter
from skewless.plumbing.compiling import kernel
from skewless.state import (
    MOST_COUNTED,
    fixed,
    named_arrays,
    require_same,
    require_that,
    require_within,
    require_workers,
    within,
)
from skewless.strategies.pd_stream.floor_set import (
    LEVEL,
    NO_WORKER,
    FloorSet,
    add_to,
    floor_set,
    follow,
    lightest,
    take_lightest,
)
from skewless.strategies.pd_stream.sampling_window import (
    N_FREE,
    NO_ROW,
    PLACE,
    SIZE,
    SamplingWindow,
    admit,
    enter,
    find,
    leave,
)

CONTROL = np.dtype(
    [
        ("stage", "i8"),  # the window is 2 ** `stage` times as long as at first
        ("until", "i8"),  # records until the balance is looked at again
        ("n_pending", "i8"),  # records since the window was moved on
        ("fresh", "i8"),  # of the records in the window, those of this source since the last merge
        ("incoming", "i8"),  # 1 when the record to be routed is counted as well
        ("slack", "i8"),  # records from the emptiest to the fullest worker that count as balanced
        ("step", "i8"),  # records after which the window moves on
    ]
)

NEVER = 2**62
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@fixed("seed", "lengths", "hot_from", "needed")
@within(0, MOST_COUNTED, "loads")
class PdStreamState(NamedTuple):
    """The sampling window, the routing table by its rows, and the loads."""

    seed: Words
    loads: Ints
    floor: FloorSet
    window: SamplingWindow
    sizes: SmallInts  # per row: candidates in the table; 0 when the key has no entry
    candidates: Words  # per row: the candidates, a set of as many words as n workers take
    lengths: Ints  # per stage: records of the window
    hot_from: Ints  # per stage: the count in the window that makes a key hot
    needed: SmallInts  # per stage and count: how many workers the count may mean
    pending: Words  # records that enter the window with its next step
    control: Rows  # [1]

    def check(self, fresh: PdStreamState) -> None:
        """Refuse another hash or setting, wrong sets of workers, and keys without workers."""
        control, n_workers = self.control, self.loads.size
        same = ["incoming", "slack", "step"]
        require_same("control", control[same], fresh.control[same])
        require_within("control", control["stage"], 0, self.lengths.size - 1)
        require_within("control", control["until"], 0, NEVER)
        require_within("control", control["n_pending"], 0, self.pending.size - 1)
        require_within("control", control["fresh"], 0, int(self.lengths[-1]))
        for name, wanted in named_arrays(floor_set(self.loads)):
            require_same(f"floor.{name}", getattr(self.floor, name), wanted)
        length = int(self.lengths[int(control[0]["stage"])])
        require_within("window.counters", self.window.counters[[SIZE]], 0, length)
        require_within("sizes", self.sizes, 0, n_workers)
        require_workers("candidates", self.candidates, n_workers)
        sets = self.candidates.reshape(self.sizes.size, -1)
        require_that(
            sets[self.sizes > 0].any(axis=1).all(),
            "candidates must not be empty where sizes is above 0",
        )


@kernel
def _choose(state: PdStreamState, row: U64, needed: I32, first: U64, second: U64) -> U64:
    """Return the worker of a hot record; the key gets one more worker if it needs it."""
    n_words = np.uint64(state.floor.lightest.size)
    begin = np.uint64(row) * n_words
    if state.sizes[row] == 0:  # Alg. 2, l. 7–10
        for w in range(n_words):
            state.candidates[begin + w] = _ZERO
        add_to(state.candidates, begin, first)
        add_to(state.candidates, begin, second)
        state.sizes[row] = 2 if first != second else 1
    # l. 13–17: its own lightest worker, unless it may have one more and another is lighter.
    may_grow = needed > state.sizes[row]
    worker = take_lightest(state.floor, state.loads, state.candidates, begin, first, may_grow)
    if worker == NO_WORKER:
        worker = lightest(state.floor, first)
        state.loads[worker] += 1
        follow(state.floor, state.loads, worker, state.loads[worker] - 1)
        add_to(state.candidates, begin, worker)
        state.sizes[row] += 1
    return worker


@kernel
def _settings(state: PdStreamState) -> tuple[U64, I64, U64]:
    """Return the window's length, the count that makes a key hot, and where `needed` begins."""
    stage = state.control[0]["stage"]
    table = np.uint64(stage) * np.uint64(state.lengths[state.lengths.size - 1] + 1)
    return np.uint64(state.lengths[stage]), state.hot_from[stage], table


@kernel
def _next_stage(state: PdStreamState) -> I64:
    """Return the next longer window while the workers are balanced, else the shortest."""
    fullest = 0
    for worker in range(state.loads.size):
        fullest = max(fullest, state.loads[worker])
    if fullest - state.floor.counters[LEVEL] > state.control[0]["slack"]:
        return 0
    return min(state.control[0]["stage"] + 1, state.lengths.size - 1)


@kernel
def _find_and_enter(
    state: PdStreamState, hashed: U64, length: U64, place: U64, size: U64, n_free: U64
) -> tuple[U64, U64, U64]:
    """Let a record enter the window whose row is not known yet."""
    window = state.window
    slot = find(window, hashed)
    row = np.uint64(window.rows[slot])
    if row == NO_ROW:
        row = np.uint64(admit(window, hashed, slot, n_free))
        n_free -= _ONE
        state.sizes[row] = 0
    oldest = np.uint64(window.ring[(place - length) & np.uint64(window.ring.size - 1)])
    return enter(window, row, oldest, length, place, size, n_free)


@kernel
def route(keys: Keys, state: PdStreamState, out: Workers) -> None:
    """Fill `out` with the worker of each record."""
    seed, loads, window, control = state.seed[0], state.loads, state.window, state.control[0]
    mask = np.uint64(window.ring.size - 1)
    place, size, n_free = window.counters[PLACE], window.counters[SIZE], window.counters[N_FREE]
    incoming, step = control["incoming"], control["step"]
    until, n_pending = control["until"], control["n_pending"]
    length, hot_from, table = _settings(state)
    # The next key is hashed one record ahead: a mispredicted branch below then costs only what
    # comes after the hash.
    upcoming = seeded(keys[0], seed) if keys.size > 0 else seed
    for i in range(keys.size):
        hashed = upcoming
        upcoming = seeded(keys[i + 1], seed) if i + 1 < keys.size else seed
        if until == 0:
            control["stage"] = _next_stage(state)
            length, hot_from, table = _settings(state)
            while size > length:
                n_free = leave(window, window.ring[(place - size) & mask], n_free)
                size -= _ONE
            until = np.int64(length)
        until -= 1

        slot = find(window, hashed)
        row = window.rows[slot]
        oldest = window.ring[(place - length) & mask] if size == length else NO_ROW
        # l. 1; the paper's text counts the incoming record, its pseudo-code does not.
        count = np.int64(window.counts[row])
        if incoming > 0:
            # This record enters and the oldest one leaves: if both have the same key, its count
            # stays as it is.
            leaves_too = (oldest == row) & (row != NO_ROW) & (step == 1)
            count = min(count + 1 - np.int64(leaves_too), np.int64(length))
        one, other = two_workers(hashed, loads.size)
        first, second = np.uint64(one), np.uint64(other)
        if count >= hot_from:
            worker = _choose(state, row, state.needed[table + np.uint64(count)], first, second)
        else:  # l. 2–4
            before = min(loads[first], loads[second])
            worker = send_to_lighter(loads, first, second)
            follow(state.floor, loads, worker, before)
            if (row == NO_ROW) & (step == 1):
                row = admit(window, hashed, slot, n_free)
                n_free -= _ONE
                state.sizes[row] = 0
        out[i] = worker

        if step > 1:
            state.pending[n_pending] = hashed
            n_pending += 1
            if n_pending == step:
                for j in range(step):
                    place, size, n_free = _find_and_enter(
                        state, state.pending[j], length, place, size, n_free
                    )
                n_pending = 0
            continue
        place, size, n_free = enter(
            window, np.uint64(row), np.uint64(oldest), length, place, size, n_free
        )
    window.counters[PLACE] = place
    window.counters[SIZE] = size
    window.counters[N_FREE] = n_free
    control["until"] = until
    n_entered = control["n_pending"] + keys.size - n_pending
    control["n_pending"] = n_pending
    control["fresh"] = min(control["fresh"] + n_entered, state.lengths[state.lengths.size - 1])

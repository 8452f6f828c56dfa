"""Pd-Stream: as many workers for a key as its count in a short sampling window may mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import betaincinv

from skewless._jit import kernel
from skewless.arrays import I32, I64, U64, Floats, Ints, Keys, SmallInts, Words, Workers
from skewless.kernels.bits import words_for
from skewless.kernels.hashing import seed_array, seeded, two_workers
from skewless.kernels.two_choices import send_to_lighter
from skewless.parameters import check_types, require, require_count
from skewless.sound import MOST_COUNTED, require_same, require_that, require_within, require_workers
from skewless.state import copy_state
from skewless.strategies.pd_stream.floor_set import (
    LEVEL,
    NOBODY,
    FloorSet,
    add_to,
    floor_set,
    follow,
    lightest,
    members,
    take_lightest,
)
from skewless.strategies.pd_stream.sampling_window import (
    N_FREE,
    NO_ROW,
    PLACE,
    SIZE,
    SamplingWindow,
    admit,
    append,
    find,
    leave,
    row_of,
    sampling_window,
    window_keys,
)
from skewless.strategy import Traits

# Positions in `control`.
STAGE = 0  # the window is 2 ** STAGE times as long as at first
UNTIL = 1  # records until the balance is looked at again
N_PENDING = 2  # records since the window was moved on
FRESH = 3  # of the records in the window, those of this source since the last merge
INCOMING = 4  # 1 when the record to be routed is counted as well
SLACK = 5  # records between the fullest and the emptiest worker that count as balanced
STEP = 6  # records after which the window moves on
_NEVER = 2**62
_N_STAGES = 3
_SLACK = 4
_MOST_STEP = 1 << 20
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


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
    control: Ints

    def check(self, fresh: PdStreamState) -> None:
        """Refuse another hash or setting, wrong sets of workers, and keys without workers."""
        for name in ("seed", "lengths", "hot_from", "needed"):
            require_same(name, getattr(self, name), getattr(fresh, name))
        require_same("control", self.control[INCOMING:], fresh.control[INCOMING:])
        require_within("control", self.control[[STAGE]], 0, self.lengths.size - 1)
        require_within("control", self.control[[UNTIL]], 0, _NEVER)
        require_within("control", self.control[[N_PENDING]], 0, self.pending.size - 1)
        require_within("control", self.control[[FRESH]], 0, int(self.lengths[-1]))
        require_within("loads", self.loads, 0, MOST_COUNTED)
        n_workers = self.loads.size
        wanted = floor_set(self.loads)
        for name in ("counters", "lightest", "following"):
            require_same(f"floor.{name}", getattr(self.floor, name), getattr(wanted, name))
        length = int(self.lengths[int(self.control[STAGE])])
        require_within("window.counters", self.window.counters[[SIZE]], 0, length)
        require_within("sizes", self.sizes, 0, n_workers)
        require_workers("candidates", self.candidates, n_workers)
        sets = self.candidates.reshape(self.sizes.size, -1)
        require_that(
            sets[self.sizes > 0].any(axis=1).all(), "candidates must be as many as sizes says"
        )


def probability_table(length: int, confidence: float) -> Floats:
    """Return, for a key seen 0 … `length` times in so many records, how probable it may be.

    It is the share p of the stream at which the key would be seen at least that often with a
    probability of `confidence`. The chance of at least k successes is a regularised incomplete
    beta function, I_p(k, N − k + 1), so p is its inverse and needs no search (Alg. 1, eq. 14–15).

    >>> probability_table(16, 0.99)[[1, 2, 6, 16]].round(3).tolist()
    [0.25, 0.349, 0.63, 0.999]
    """
    counts = np.arange(1, length + 1)
    return np.concatenate([[0.0], betaincinv(counts, length - counts + 1, confidence)])


@kernel
def _choose(state: PdStreamState, row: U64, needed: I32, first: U64, second: U64) -> U64:
    """Return the worker of a hot record, one more than the key has had if it must."""
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
    if worker == NOBODY:
        worker = lightest(state.floor, first)
        state.loads[worker] += 1
        follow(state.floor, state.loads, worker, state.loads[worker] - 1)
        add_to(state.candidates, begin, worker)
        state.sizes[row] += 1
    return worker


@kernel
def _settings(state: PdStreamState) -> tuple[U64, I64, U64]:
    """Return the window's length, the count of hot keys, and where their needs are listed."""
    stage = state.control[STAGE]
    table = np.uint64(stage) * np.uint64(state.lengths[state.lengths.size - 1] + 1)
    return np.uint64(state.lengths[stage]), state.hot_from[stage], table


@kernel
def _next_stage(state: PdStreamState) -> I64:
    """Return the next longer window while the workers are balanced, else the shortest."""
    fullest = 0
    for worker in range(state.loads.size):
        fullest = max(fullest, state.loads[worker])
    if fullest - state.floor.counters[LEVEL] > state.control[SLACK]:
        return 0
    return min(state.control[STAGE] + 1, state.lengths.size - 1)


@kernel
def _enter(
    state: PdStreamState, hashed: U64, length: U64, place: U64, size: U64, n_free: U64
) -> tuple[U64, U64, U64]:
    """Let a record enter the window, and the oldest leave one that is full (l. 18–22)."""
    window = state.window
    mask = np.uint64(window.ring.size - 1)
    slot = find(window, hashed)
    row = np.uint64(window.rows[slot])
    if row == NO_ROW:
        row = np.uint64(admit(window, hashed, slot, n_free))
        n_free -= _ONE
        state.sizes[row] = 0
    window.counts[row] += 1
    oldest = np.uint64(window.ring[(place - length) & mask])
    window.ring[place] = row
    place = (place + _ONE) & mask
    if size == length:
        n_free = leave(window, oldest, n_free)
    else:
        size += _ONE
    return place, size, n_free


@kernel
def _route(keys: Keys, state: PdStreamState, out: Workers) -> None:
    seed = state.seed[0]
    loads = state.loads
    window = state.window
    control = state.control
    incoming = control[INCOMING]
    mask = np.uint64(window.ring.size - 1)
    place = window.counters[PLACE]
    size = window.counters[SIZE]
    n_free = window.counters[N_FREE]
    until = control[UNTIL]
    step = control[STEP]
    n_pending = control[N_PENDING]
    length, hot_from, table = _settings(state)
    # The next key is hashed one record ahead: a wrong guess of the processor below then costs only
    # what comes after the hash.
    upcoming = seeded(keys[0], seed) if keys.size > 0 else seed
    for i in range(keys.size):
        hashed = upcoming
        upcoming = seeded(keys[i + 1], seed) if i + 1 < keys.size else seed
        if until == 0:
            control[STAGE] = _next_stage(state)
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
                    place, size, n_free = _enter(
                        state, state.pending[j], length, place, size, n_free
                    )
                n_pending = 0
            continue
        window.counts[row] += 1  # l. 18
        window.ring[place] = row
        place = (place + _ONE) & mask
        if size == length:
            n_free = leave(window, oldest, n_free)  # l. 19–22
        else:
            size += _ONE
    window.counters[PLACE] = place
    window.counters[SIZE] = size
    window.counters[N_FREE] = n_free
    control[UNTIL] = until
    n_entered = control[N_PENDING] + keys.size - n_pending
    control[N_PENDING] = n_pending
    control[FRESH] = min(control[FRESH] + n_entered, state.lengths[state.lengths.size - 1])


def _merge_entry(merged: PdStreamState, states: Sequence[PdStreamState], hashed: np.uint64) -> None:
    """Give a key the workers that most of `states` give it, its two hashed ones before all."""
    votes = np.zeros(merged.loads.size, np.int64)
    n_words = merged.floor.lightest.size
    size = 0
    for state in states:
        row = row_of(state.window, hashed)
        if row != NO_ROW and state.sizes[row] > 0:
            size = max(size, int(state.sizes[row]))
            votes += members(state.candidates[row * n_words : (row + 1) * n_words], votes.size)
    row = row_of(merged.window, hashed)
    votes[list(two_workers(hashed, votes.size))] = len(states) + 1
    for worker in np.argsort(-votes, kind="stable")[:size]:
        add_to(merged.candidates, np.uint64(row * n_words), np.uint64(worker))
    merged.sizes[row] = size


@dataclass(frozen=True)
class PdStream:
    """Give a key that recurs among the last 2n records as many workers as its count may mean.

    A key seen twice in the sampling window is hot. Its count gives the largest share of the stream
    that the key may have, and the share gives a number of workers. While the key has fewer, and
    all of them are heavier than the lightest worker of all, that worker joins. Other keys have two
    candidates.

    **Guarantee**: an entry of the routing table never has more workers than ⌊p̂·n⌋, p̂ for the
    largest count since it was made, or 2. The table has an entry only for keys in the window, so
    N · (n bits) bound it. A key that is never twice in the window has at most two workers.

    Parameters
    ----------
    alpha
        α: how often a key at the threshold is expected in the window, whose length is
        N = α / θ = `alpha` · n / `theta`.
    theta
        θ = `theta` / n, the share from which two workers are too few for a key. It sets the length
        of the window and nothing else: whether a key is hot depends on its count in the window.
    step
        The window moves on after so many records, all of them at a time. Until then, counts and
        hot keys are those of the last step.
    confidence
        P̂: how sure it must be that a key with the share p̂ had occurred at least that often.
    count_incoming
        Count the record to be routed too, as the paper's Fig. 3 does.
    adaptive
        Adjust α and θ, which the paper leaves for later. After every window in which the fullest
        worker is within 4 records of the emptiest, the window doubles, up to 4 times α; otherwise
        it is α again at once. In longer windows p̂ is closer to the truth, and a key is hot from
        α − √α occurrences on instead of 2: at α = 4 that is the same, at 16 it is 12. Both save
        replicas of keys that only seemed hot. If they save too much, imbalance shows it.

    **Deviations from the paper**: where it can be read in several ways, the default is the reading
    nearest to its Fig. 10. The complete list, with reasons, is in `docs/strategies/pd-stream.md`.

    Examples
    --------
    >>> out = np.empty(8, np.int32)
    >>> strategy = PdStream()
    >>> strategy.route(np.ones(8, np.uint64), strategy.start(8, seed=0), out)
    >>> out.tolist()
    [0, 4, 0, 1, 2, 1, 3, 2]

    References
    ----------
    Sun, Wu, Wen, Gao, Buyya, "A popularity-aware discriminative grouping strategy in distributed
    stream computing systems": section V, Alg. 1 and 2, eq. 14–16, Table III, Fig. 3.
    """

    name: ClassVar[str] = "pd-stream"

    alpha: float = 4.0
    theta: float = 2.0
    step: int = 1
    confidence: float = 0.99
    count_incoming: bool = False
    adaptive: bool = False

    def __post_init__(self) -> None:  # noqa: D105
        check_types(self)
        require(self, "alpha", 0 < self.alpha <= 1_000, "above 0 and at most 1,000")
        require(self, "theta", self.theta > 0, "above 0")
        require(self, "theta", self.theta >= 0.001, "at least 0.001")
        require_count(self, "step", most=_MOST_STEP)
        require(self, "confidence", 0 < self.confidence < 1, "above 0 and below 1")

    @property
    def traits(self) -> Traits:
        """A hot key may be anywhere."""
        return Traits(family="splitting")

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> PdStreamState:
        """Return the state of a source that has sent nothing."""
        n_stages = _N_STAGES if self.adaptive else 1
        shortest = max(1, round(self.alpha * n_workers / self.theta))
        lengths = shortest * 2 ** np.arange(n_stages)
        needed = np.zeros((n_stages, lengths[-1] + 1), np.int32)
        for stage, length in enumerate(lengths):
            shares = probability_table(int(length), self.confidence)
            needed[stage, : length + 1] = np.floor(shares * n_workers)  # eq. 16
        window = sampling_window(int(lengths[-1]))
        n_rows = window.slots.size
        loads = np.zeros(n_workers, np.int64)
        expected = self.alpha * 2 ** np.arange(n_stages)
        hot_from = np.maximum(2, np.ceil(expected - np.sqrt(expected))) if self.adaptive else [2]
        until = shortest if self.adaptive else _NEVER
        return PdStreamState(
            seed=seed_array(seed, 1),
            loads=loads,
            floor=floor_set(loads),
            window=window,
            sizes=np.zeros(n_rows, np.int32),
            candidates=np.zeros(n_rows * words_for(n_workers), np.uint64),
            lengths=lengths,
            hot_from=np.array(hot_from, np.int64),
            needed=needed.ravel(),
            pending=np.zeros(self.step, np.uint64),
            control=np.array([0, until, 0, 0, int(self.count_incoming), _SLACK, self.step]),
        )

    def route(self, keys: Keys, state: PdStreamState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        _route(keys, state, out)

    def merge(self, states: Sequence[PdStreamState]) -> PdStreamState:
        """Return the plan of all sources: one window, and one entry for each hot key in it.

        The window holds the latest records of all: those that each source has had since the last
        merge, dealt in turn, and before them those that all had then. An entry is as large as the
        largest of its key's, and holds the workers that most sources have, so that they stop
        spreading the key over different ones.
        """
        # In an order of their own, so that the order of `states` does not matter.
        states = sorted(states, key=lambda s: (s.loads.tobytes(), window_keys(s.window).tobytes()))
        loads = np.sum([state.loads for state in states], axis=0)
        control = states[0].control.copy()
        control[STAGE] = min(state.control[STAGE] for state in states)
        control[UNTIL] = min(state.control[UNTIL] for state in states)
        control[[N_PENDING, FRESH]] = 0
        merged = states[0]._replace(
            loads=loads,
            floor=floor_set(loads),
            window=sampling_window(int(states[0].lengths[-1])),
            sizes=np.zeros_like(states[0].sizes),
            candidates=np.zeros_like(states[0].candidates),
            pending=np.zeros_like(states[0].pending),
            control=control,
        )
        length = int(merged.lengths[control[STAGE]])
        recent = [window_keys(state.window)[::-1] for state in states]
        fresh = [keys[: state.control[FRESH]] for keys, state in zip(recent, states, strict=True)]
        turns = range(max(keys.size for keys in fresh))
        in_turn = [keys[turn] for turn in turns for keys in fresh if turn < keys.size]
        # All have what is left of one window; who had the fewest records since has most of it.
        older = [keys[state.control[FRESH] :] for keys, state in zip(recent, states, strict=True)]
        in_turn.extend(max(older, key=len))
        for hashed in in_turn[:length][::-1]:
            append(merged.window, hashed)
        for hashed in np.unique(np.array(in_turn[:length], np.uint64)):
            _merge_entry(merged, states, hashed)
        return merged

    def fork(self, merged: PdStreamState, own: PdStreamState, source: int) -> PdStreamState:
        """Return the merged plan with the loads of this source: it knows what it sent itself."""
        plan = copy_state(merged)
        plan.control[N_PENDING] = own.control[N_PENDING]
        return plan._replace(
            loads=own.loads.copy(), floor=copy_state(own.floor), pending=own.pending.copy()
        )

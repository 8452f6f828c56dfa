"""CM and cAM: two candidates per key, chosen by how many distinct keys each worker holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from skewless.arrays import I64, Ints, Keys, Rows, Words, Workers, read_only
from skewless.kernels.hashing import seed_array, seeded, two_workers
from skewless.kernels.key_table import ABSENT, KeyTable, clear, find_slot, key_table
from skewless.parameters import MOST_PLACES, check_types, require_count
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED, fixed, require_that, require_within, within, zeros
from skewless.strategies.rescaling import HashedAnew
from skewless.strategy import Traits

_AT_FIRST, _AT_SECOND = 1, 2
_FEWER_KEYS, _FEWER_RECORDS, _SMALLER_SUM = 0, 1, 2
TOTALS = np.dtype([("records", "i8"), ("pairs", "i8")])  # (key, worker), in this window
SETTINGS = np.dtype([("affinity", "i8"), ("rule", "i8"), ("window", "i8")])
_RULES = {"keys": _FEWER_KEYS, "records": _FEWER_RECORDS, "sum": _SMALLER_SUM}


@fixed("seed", "settings")
@within(0, MOST_COUNTED, "n_keys", "window_loads", "totals")
class CardinalityState(NamedTuple):
    """What this source has sent in the current window."""

    seed: Words
    seen: KeyTable  # key -> which of its two candidates have it, as bits
    n_keys: Ints  # distinct keys per worker
    window_loads: Ints  # records per worker
    totals: Rows  # [1]
    settings: Rows  # [1]

    def check(self, fresh: CardinalityState) -> None:
        """Refuse more keys than the window has records."""
        records = self.totals["records"]
        require_within("totals", records, 0, int(self.settings["window"][0]))
        n_seen = np.count_nonzero(self.seen.values != ABSENT)
        require_that(n_seen <= records[0], "seen must have no more keys than there were records")


@kernel
def _second_is_better(state: CardinalityState, first: I64, second: I64) -> bool:
    """Compare two candidates by the rule. Ties go to the second."""
    rule = state.settings[0]["rule"]
    if rule == _FEWER_KEYS:
        return bool(state.n_keys[second] <= state.n_keys[first])
    if rule == _FEWER_RECORDS:
        return bool(state.window_loads[second] <= state.window_loads[first])
    # Both measures in units of their mean, multiplied out to whole numbers, so that it stays exact.
    records, pairs = state.totals[0]["records"], state.totals[0]["pairs"]
    score_1 = state.n_keys[first] * records + state.window_loads[first] * pairs
    score_2 = state.n_keys[second] * records + state.window_loads[second] * pairs
    return bool(score_2 <= score_1)


@kernel
def _route(keys: Keys, state: CardinalityState, out: Workers) -> None:
    seed, n_workers, totals = state.seed[0], state.window_loads.size, state.totals[0]
    affinity, window = state.settings[0]["affinity"], state.settings[0]["window"]
    for i in range(keys.size):
        if totals["records"] == window:
            clear(state.seen)
            state.n_keys[:] = 0
            state.window_loads[:] = 0
            totals["records"] = totals["pairs"] = 0
        first, second = two_workers(seeded(keys[i], seed), n_workers)
        slot = find_slot(state.seen, keys[i])
        bits = np.int64(state.seen.values[slot])
        if bits == ABSENT:
            state.seen.keys[slot] = keys[i]
            bits = np.int64(0)
        if affinity and bits:
            take_second = bits & _AT_FIRST == 0
        else:
            take_second = _second_is_better(state, first, second)
        worker = second if take_second else first
        bit = _AT_SECOND if take_second else _AT_FIRST
        if bits & bit == 0:
            state.n_keys[worker] += 1
            totals["pairs"] += 1
        state.seen.values[slot] = bits | bit
        state.window_loads[worker] += 1
        totals["records"] += 1
        out[i] = worker


@dataclass(frozen=True)
class _TwoCandidates(HashedAnew):
    """What both share: two candidates per key, and windows in which everything is counted."""

    affinity: ClassVar[bool]
    traits: ClassVar[Traits] = Traits(family="splitting", fan_out=2, ignores_speeds=True)

    measure: str = "keys"
    window: int = 100_000

    def __post_init__(self) -> None:
        check_types(self)
        require_count(self, "window", most=MOST_PLACES)

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> CardinalityState:
        """Return the state of a source that has sent nothing."""
        settings = (int(self.affinity), _RULES[self.measure], self.window)
        return zeros(
            CardinalityState,
            n_workers,
            seed=seed_array(seed, 1),
            seen=key_table(self.window),
            totals=np.zeros(1, TOTALS),
            settings=np.array([settings], SETTINGS),
        )

    def route(self, keys: Keys, state: CardinalityState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        _route(read_only(keys), state, out)


@dataclass(frozen=True)
class CardinalityMinimal(_TwoCandidates):
    """Send each record to the one of its key's two workers that holds fewer distinct keys (CM).

    The cost of a stateful worker often comes not from records but from keys: memory, and merging
    at the end of a window. So this strategy balances keys.

    **Guarantee**: at most two workers per key.

    Parameters
    ----------
    measure
        `"keys"` compares distinct keys (CM), `"sum"` the sum of keys and records, each in units
        of its mean (the paper's LM).
    window
        Records of this source after which all counts begin again.

    **Deviations from the paper**: windows are counted in records, not in seconds; a window of W
    records has at most W distinct keys, so they are counted exactly in bounded memory and
    HyperLogLog is not needed. The two candidates are the halves of one hash.

    Examples
    --------
    >>> out = np.empty(4, np.int32)
    >>> strategy = CardinalityMinimal()
    >>> strategy.route(np.ones(4, np.uint64), strategy.start(8, seed=0), out)
    >>> out.tolist()
    [4, 0, 4, 4]

    References
    ----------
    Katsipoulakis, Labrinidis, Chrysanthis, "A holistic view of stream partitioning costs",
    PVLDB 10(11), 2017.
    """

    name: ClassVar[str] = "cm"
    affinity: ClassVar[bool] = False

    measure: Literal["keys", "sum"] = "keys"


@dataclass(frozen=True)
class CountAffinity(_TwoCandidates):
    """Keep a key where it is; send a new one to its lighter candidate (cAM).

    The first record of a key in a window goes to the less loaded of two workers, and all further
    ones of that window follow it. There is no replica inside a window, but a hot key is not split.

    **Guarantee**: at most two workers per key, one per window and source.

    Parameters
    ----------
    measure
        How the candidates of a new key are compared: by `"records"` (cAM) or by distinct `"keys"`
        (the paper's AN).
    window
        Records of this source after which all counts, and the affinities, begin again.

    **Deviations from the paper**: windows are counted in records, as in `cm`. It counts as
    splitting here, because sources choose independently, and the worker may change with the window
    without a move.

    Examples
    --------
    >>> out = np.empty(4, np.int32)
    >>> strategy = CountAffinity()
    >>> strategy.route(np.ones(4, np.uint64), strategy.start(8, seed=0), out)
    >>> out.tolist()
    [4, 4, 4, 4]

    References
    ----------
    Katsipoulakis, Labrinidis, Chrysanthis, "A holistic view of stream partitioning costs",
    PVLDB 10(11), 2017.
    """

    name: ClassVar[str] = "cam"
    affinity: ClassVar[bool] = True

    measure: Literal["records", "keys"] = "records"

"""What PStream's figures count: hot keys and what finds them, coins, and results to be merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.records import Row
from experiments.reproduction.cells import keys_of, seconds_per_record
from experiments.reproduction.figure import cell
from experiments.reproduction.papers.pstream import rivals
from skewless import registry, workloads
from skewless.arrays import I64, U64, Bytes, Ints, Keys
from skewless.kernels.hashing import seed_array
from skewless.plumbing.compiling import kernel
from skewless.strategies.pstream.coin_synopsis import heads
from skewless.strategy import Rebalances

R = 7  # a long run has so many heads
_LENGTH = 16
#: Parts of the keys, the most frequent first.
PARTS = (0.01, 0.03, 0.08, 0.2, 0.24, 0.5)
_OF_ONE_KEY = 100  # records that a key with a share of f has in a window
_NEAR = 0.25  # of f: keys above it are neither clearly hot nor clearly rare


@cell
def predicted_hot_keys(
    kind: str, workload: str, of: Mapping[str, Any], f: float = 0.01, memory: int = 0, seed: int = 1
) -> Row:
    """One predictor of hot keys on one stream.

    In each window, a key is *hot* if its share of the records is above f, and *found* if at least
    one of its records was called hot when it came. The first window is for learning.

    `memory`: bytes; 0: as many as PStream's synopsis takes by Theorem 4.
    """
    keys = keys_of(workload, of, seed)
    window = round(_OF_ONE_KEY / f)
    memory = memory or rivals.synopsis_bytes(f)
    finder = rivals.predictor(kind, f, memory, window, seed)
    called = np.zeros(keys.size, np.uint8)
    counts = np.zeros((2, 4), np.int64)
    for begin in range(0, keys.size, window):
        part = slice(begin, begin + window)
        finder.observe(keys[part], called[part])
        if begin or keys.size <= window:
            counts += _count(keys[part], called[part], f)
    steps = finder.steps(keys.size)
    row: Row = {}
    for unit, (found, hot, both, near) in zip(("key", "record"), counts.tolist(), strict=True):
        row[f"{unit}_precision"] = both / found if found else 1.0
        row[f"{unit}_recall"] = both / hot if hot else 1.0
        row[f"{unit}_precision_near"] = near / found if found else 1.0
    row["steps"] = None if steps is None else steps / keys.size
    return row


def _count(keys: Keys, called: Bytes, f: float) -> Ints:
    """Count keys and records: found, hot, both, and found and near."""
    _, index, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    is_found = np.bincount(index, called, sizes.size) > 0
    rows = []
    for hot, near, found in (
        (sizes > f * keys.size, sizes > _NEAR * f * keys.size, is_found),
        (sizes[index] > f * keys.size, sizes[index] > _NEAR * f * keys.size, called != 0),
    ):
        rows.append([found.sum(), hot.sum(), (found & hot).sum(), (found & near).sum()])
    return np.array(rows, np.int64)


@cell
def clocked_predictors(
    kinds: list[str], of: Mapping[str, Any], hot_alone: bool, f: float = 0.01, seed: int = 1
) -> Row:
    """Seconds per record of each predictor, after it has learned from the first half of a stream.

    `hot_alone`: of records of hot keys alone, as figure 35 times them.
    """
    keys = keys_of("zipf", of, seed)
    first, later = np.array_split(keys, 2)
    known, counts = np.unique(first, return_counts=True)
    if hot_alone:
        later = later[np.isin(later, known[counts > f * first.size])]
    hot = np.zeros(keys.size, np.uint8)

    def observer(kind: str) -> Callable[[Keys], object]:
        finder = rivals.predictor(kind, f, rivals.synopsis_bytes(f), round(_OF_ONE_KEY / f), seed)
        finder.observe(first, hot[: first.size])
        return lambda piece: finder.observe(piece, hot[: piece.size])

    return seconds_per_record({kind: observer(kind) for kind in kinds}, later)


@cell
def weighed_thresholds(distribution: str, n_keys: int, n_thresholds: int, seed: int) -> Row:
    """The cost C(f) of thresholds by section 4.4: rare records and hot keys, both from 0 to 1.

    Its row has where the cost is least and where both parts are equal, as parts of the range of
    thresholds, the cost there, and at both ends, relative to the least.
    """
    places = np.linspace(-3.0, 3.0, n_keys)
    shares = {
        "zipf": np.arange(1, n_keys + 1) ** -1.2,
        "normal": np.exp(-(places**2) / 2),
        "random": np.random.default_rng(seed).random(n_keys),
    }[distribution]
    shares = np.sort(shares / shares.sum())
    thresholds = np.linspace(shares[0], shares[-1], n_thresholds)
    n_rare = np.searchsorted(shares, thresholds, side="right")
    rare, hot = np.append(0.0, np.cumsum(shares))[n_rare], n_keys - n_rare.astype(np.float64)
    rare, hot = ((part - part.min()) / (part.max() - part.min()) for part in (rare, hot))
    cost = rare + hot
    best, equal = int(cost.argmin()), int(np.abs(rare - hot).argmin())
    return {
        "apart": abs(best - equal) / n_thresholds,
        "at_equal": float(cost[equal] / cost[best]),
        "at_ends": float(min(cost[0], cost[-1]) / cost[best]),
    }


@cell
def time_hot(share: float, n_records: int, f: float = 0.01, seed: int = 1) -> Row:
    """How much of the time PStream's coins call one key hot, by its share of the records.

    All other records are of keys that come once. The first quarter of the stream is for learning.
    """
    is_named = np.random.default_rng(seed).random(n_records) < share
    keys = np.where(is_named, 0, np.arange(1, n_records + 1)).astype(np.uint64)
    hot = np.zeros(keys.size, np.uint8)
    memory = rivals.synopsis_bytes(f)
    rivals.predictor("coins", f, memory, 1, seed).observe(keys, hot)
    settled = is_named & (np.arange(keys.size) >= keys.size // 4)
    return {"hot": float(hot[settled].mean()) if settled.any() else 0.0}


@cell
def top_shares(z: float, n_keys: int, n_records: int, seed: int = 1) -> Row:
    """Which part of the records of a trace's stand-in the most frequent keys have."""
    stream = workloads.Zipf(z=z, n_keys=n_keys, n_records=n_records)
    counts = dict.fromkeys(PARTS, 0)
    for ranks in stream.ranks(seed):
        for part in PARTS:
            counts[part] += int((ranks <= round(part * n_keys)).sum())
    return {f"top {part}": count / n_records for part, count in counts.items()}


@kernel
def _toss(seed: U64, n_trials: I64, n_keys: I64, n_each: I64, long_run: I64, found: Ints) -> None:
    """Count the trials in which a key has two long runs, and in which one has two bits."""
    record = 0
    for _ in range(n_trials):
        two_runs = 0
        two_bits = 0
        for _ in range(n_keys):
            n_long = 0
            bits = 0
            for _ in range(n_each):
                n_heads = heads(seed, record)
                record += 1
                if n_heads >= long_run:
                    n_long += 1
                    bits |= 1 << min(n_heads - long_run, _LENGTH - 1)
            two_runs |= np.int64(n_long >= 2)
            two_bits |= np.int64(bits & (bits - 1) != 0)
        found[0] += two_runs
        found[1] += two_bits


@cell
def coin_trials(
    n_each: int, n_trials: int, n_keys: int = 1, long_run: int = R, seed: int = 1
) -> Row:
    """Trials in which `n_keys` keys toss `n_each` times each, and nothing declines.

    Its row has the share of trials in which at least one key is found: by two long runs, which is
    what the theorems count, and by two bits, which is what Algorithm 1 asks for.

    `long_run`: r.
    """
    found = np.zeros(2, np.int64)
    _toss(seed_array(seed, 1)[0], n_trials, n_keys, n_each, long_run, found)
    return {"two_runs": float(found[0] / n_trials), "two_bits": float(found[1] / n_trials)}


@cell
def aggregation(
    strategy: str,
    workload: str,
    of: Mapping[str, Any],
    n_workers: int = 16,
    window: int = 10_000,
    forwarding: bool = True,
    merge: float = 1e-4,
    reducers: int = 64,
    seed: int = 1,
) -> Row:
    """One strategy with one source on one stream, whose results are merged after each window.

    With `forwarding`, a result is final where one worker has all records of its key; others are
    partial and go to the reducer of their key. Without it, a worker cannot know that it has all
    records of a key, so all results are partial. Reducers share the partial results evenly.

    Its row has, per record: the partial results, the part of the records whose key has any, and
    the mean time that a record waits for the merge of its key, with `merge` seconds per result.
    """
    own: Any = registry.make(strategy)
    if isinstance(own, Rebalances):
        raise ValueError(f"{strategy} moves keys: it has no partial results")
    keys = keys_of(workload, of, seed)
    workers = np.empty(keys.size, np.int32)
    own.route(keys, own.start(n_workers, seed), workers)
    n_partial = n_waiting = 0
    seconds = 0.0
    for begin in range(0, keys.size, window):
        part = slice(begin, begin + window)
        _, index = np.unique(keys[part], return_inverse=True)
        pairs = np.unique(index * np.int64(n_workers) + workers[part])
        replicas = np.bincount(pairs // n_workers)
        split = (replicas > 1) | (not forwarding)
        partial = int(replicas[split].sum())
        waiting = int(split[index].sum())
        n_partial += partial
        n_waiting += waiting
        seconds += waiting * partial * merge / reducers
    return {
        "partial_results": n_partial / keys.size,
        "waiting_share": n_waiting / keys.size,
        "merge_seconds": seconds / keys.size,
    }

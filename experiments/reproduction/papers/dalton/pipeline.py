"""Dalton's dataflow as a cell: partitioners, combiners of a sliding window, and reducers.

Dalton's evaluation uses sliding windows: at the end of every slide, each combiner passes on a
partial result for every key of the window, unless the key needs no merging (key forwarding, section
4.2). What limits the throughput is counted here, slide by slide, and the slowest stage decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.records import Row
from experiments.reproduction.cells import keys_of
from skewless import registry
from skewless.arrays import F64, I64, Floats, Ints, Keys, SmallInts, Workers
from skewless.kernels.hashing import mix
from skewless.parameters import MOST_PLACES
from skewless.plumbing.compiling import kernel
from skewless.simulator.records import Records, decide
from skewless.simulator.starting import start_sources
from skewless.simulator.syncing import merge_and_fork
from skewless.strategy import AnyStrategy

#: Seconds of one update of a key in one window. It sets the scale: 64 workers then process some
#: 40,000 records per second, the rate that none of the paper's systems sustains (section 5.3).
UPDATE = 25e-6
#: Seconds to send a partial result to a reducer and to add it up. The one fitted number: with five
#: updates, key forwarding on T4SA pays threefold, as the paper's Figure 11 says.
MERGE = 5 * UPDATE
#: Seconds in which a partitioner reads a record and chooses its worker. With 64 workers and slides
#: of 20 seconds one partitioner is then the bottleneck and two are not (section 5.4).
EMIT = 3e-6
#: Seconds of one comparison more, for algorithms that need several for a record: DAGreedy scores
#: all combiners (section 2), and Prompt sorts its batch: log2 of the batch for each record.
SCORE = 50e-9

#: Algorithms that give a key to one worker: no final aggregation.
_ONE_WORKER = ("hash", "cam")
#: Algorithms that split a few keys and hash the others: the others are forwarded.
_FORWARDING = ("dagreedy", "dalton", "cascade", "cascade-ahead")

Merging = Literal["none", "split", "all"]
_SHIFT = np.uint64(40)  # leaves 24 bits of a hash


def service(windows_per_record: int) -> float:
    """Return the seconds that a record takes a combiner: parsing, and an update per window.

    >>> round(service(60) * 1000, 3)
    1.525
    """
    return (windows_per_record + 1) * UPDATE


# Columns of the counts of a slide.
PEAK = 0  # records of the busiest worker over the last `recent` slides
MERGED_PEAK = 1  # pairs (key, worker) that the busiest reducer merges at the end of the slide
MERGED = 2
PAIRS = 3  # of the window
KEYS = 4
WATCHED = 5  # workers that hold the watched key
SQUARES_PEAK = 6  # the most, over workers, of the sum over keys of records in the window, squared
COLUMNS = 7


class Shape(NamedTuple):
    """The sizes of a window; all count records or slides."""

    slide: int
    n_slides: int
    recent: int
    n_workers: int
    split_only: int  # 1: only keys on two workers or more are merged
    watched: int  # a key


class Held(NamedTuple):
    """What the window holds."""

    records: SmallInts  # by pair, flat: key · workers + worker
    widths: SmallInts  # by key: workers that hold it
    reducers: SmallInts  # by key: which reducer merges it
    merged: Ints  # by reducer: pairs
    loads: Ints  # by worker, over the recent slides
    squares: Floats  # by worker
    totals: Ints  # pairs, keys, merged pairs


def held(n_keys: int, n_workers: int, reducers: SmallInts) -> Held:
    """Return an empty window; `reducers` says for each key which reducer merges it."""
    return Held(
        np.zeros(n_keys * n_workers, np.int32),
        np.zeros(n_keys, np.int32),
        reducers,
        np.zeros(int(reducers.max(initial=0)) + 1, np.int64),
        np.zeros(n_workers, np.int64),
        np.zeros(n_workers),
        np.zeros(3, np.int64),
    )


@kernel
def _most(values: NDArray[Any]) -> F64:
    most = values[0]
    for i in range(1, values.size):
        most = max(most, values[i])
    return most


@kernel
def _merges(width: I64, split_only: I64) -> I64:
    """Count the merged pairs of a key on this many workers."""
    return np.int64(0) if split_only and width < 2 else np.int64(width)


@kernel
def _widen(window: Held, shape: Shape, key: I64, by: I64) -> None:
    """Add or remove one worker of `key`."""
    width = np.int64(window.widths[key])
    window.widths[key] += by
    window.totals[0] += by
    window.totals[1] += np.int64(width + by == 1 and by == 1) - np.int64(width == 1 and by == -1)
    more = _merges(width + by, shape.split_only) - _merges(width, shape.split_only)
    window.merged[window.reducers[key]] += more
    window.totals[2] += more


@kernel
def count_slides(keys: Ints, workers: Workers, shape: Shape, window: Held, out: Ints) -> None:
    """Fill one row of `out` per whole slide; `keys` are numbers from 0."""
    size = shape.slide
    for slide in range(out.shape[0]):
        old = max(0, slide - shape.n_slides + 1) * size
        for i in range(max(0, old - size), old):
            pair = keys[i] * shape.n_workers + workers[i]
            window.records[pair] -= 1
            window.squares[workers[i]] -= 2.0 * window.records[pair] + 1.0
            if window.records[pair] == 0:
                _widen(window, shape, keys[i], -1)
        old = max(0, slide - shape.recent + 1) * size
        for i in range(max(0, old - size), old):
            window.loads[workers[i]] -= 1
        for i in range(slide * size, slide * size + size):
            pair = keys[i] * shape.n_workers + workers[i]
            window.squares[workers[i]] += 2.0 * window.records[pair] + 1.0
            window.records[pair] += 1
            window.loads[workers[i]] += 1
            if window.records[pair] == 1:
                _widen(window, shape, keys[i], 1)
        out[slide, PEAK] = _most(window.loads)
        out[slide, MERGED_PEAK] = _most(window.merged)
        out[slide, MERGED] = window.totals[2]
        out[slide, PAIRS] = window.totals[0]
        out[slide, KEYS] = window.totals[1]
        out[slide, WATCHED] = window.widths[shape.watched]
        out[slide, SQUARES_PEAK] = np.int64(_most(window.squares))


@dataclass(frozen=True)
class Pipeline:
    """One strategy on one stream, and what its partitioners, combiners and reducers do.

    Most fields are as in `Simulation`; the workers are the combiners, the sources the partitioners.
    """

    strategy: str
    workload: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    of: Mapping[str, Any] = field(default_factory=dict)
    n_workers: int = 16
    n_sources: int = 1
    seed: int = 1
    slide: int = 2_000  # records, over all sources
    n_slides: int = 60  # of a window
    # Slides over which the load of a combiner counts, because queues even out less; 0: the window,
    # as in the paper's equation 1.
    recent: int = 0
    sync: int = 0  # records from one exchange of the sources to the next; 0: never
    # Which partial results the reducers get: none (all records of a key have one worker), split
    # (those of keys on several workers: key forwarding), or all.
    merging: Merging = "split"
    reducers: int = 1  # a key belongs to one of them by hash
    # Micro-batches of one slide: partial results are those of the slide, not of the window. Batches
    # follow each other without a barrier, so that loads count as otherwise.
    batches: bool = False
    quadratic: bool = False  # a combiner compares the records of a key in its window, pair by pair
    service: float = service(60)  # seconds per record, or per comparison, at a combiner
    merge: float = MERGE  # seconds per partial result at a reducer
    emit: float = EMIT  # seconds per record at a partitioner
    exchange: float = 0.0  # seconds of a partitioner for each exchange

    def run(self) -> Row:
        """Route the stream, and return what each slide took, and what it was limited by."""
        strategy = registry.make(self.strategy, **self.settings)
        keys, numbers, reducers, watched = _stream(
            self.workload, tuple(sorted(self.of.items())), self.seed
        )
        workers = self.routed(strategy, keys)
        return self.counted(numbers, workers, reducers % self.reducers, watched)

    def routed(self, strategy: AnyStrategy, keys: Keys) -> Workers:
        """Return the worker of each record."""
        states = start_sources(strategy, self.n_workers, self.n_sources, self.seed)
        out = np.full(keys.size, -1, np.int32)
        by_batch = strategy.traits.decides == "batch"
        step = self.slide if by_batch else self.sync or keys.size
        next_exchange = self.sync
        for begin in range(0, keys.size, step):
            if by_batch and hasattr(strategy, "begin"):
                for state in states:
                    strategy.begin(state, -(-self.slide // self.n_sources))
            for source, state in enumerate(states):
                # Record i belongs to source i mod n.
                first = begin + (source - begin) % self.n_sources
                own = slice(first, min(begin + step, keys.size), self.n_sources)
                records = Records(np.ascontiguousarray(keys[own]), None)
                chosen = np.full(records.keys.size, -1, np.int32)
                decide(strategy, records, state, chosen)
                out[own] = chosen
            if self.sync and begin + step >= next_exchange:
                states = merge_and_fork(strategy, states)
                next_exchange += self.sync
        return out

    def counted(self, keys: Ints, workers: Workers, reducers: SmallInts, watched: int) -> Row:
        """Count the work of each stage by slide; build the row of rates, balance and replicas."""
        n = keys.size // self.slide
        counts = np.zeros((n, COLUMNS), np.int64)
        recent = self.recent or self.n_slides
        shape = Shape(
            self.slide,
            1 if self.batches else self.n_slides,
            recent,
            self.n_workers,
            int(self.merging == "split"),
            watched,
        )
        window = held(int(keys.max()) + 1, self.n_workers, reducers.astype(np.int32))
        count_slides(keys, workers, shape, window, counts)
        covered = np.minimum(np.arange(n) + 1, recent)
        work = counts[:, SQUARES_PEAK if self.quadratic else PEAK].astype(np.float64)
        combiners: Floats = work * self.service / (1 if self.quadratic else covered)
        merged = 0 if self.merging == "none" else counts[:, MERGED_PEAK]
        at_reducers = merged * self.merge + np.zeros(n)
        exchanges = self.slide / self.sync if self.sync else 0.0
        partitioners = self.slide / self.n_sources * self.emit + exchanges * self.exchange
        seconds = np.maximum(np.maximum(combiners, at_reducers), partitioners)
        stable = slice(max(n // 2, n - self.n_slides), None)  # the last window
        fair = covered * self.slide / self.n_workers
        return {
            "throughput": float(self.slide / seconds[stable].mean()),
            "combiner_limit": _rate(self.slide, combiners[stable]),
            "reducer_limit": _rate(self.slide, at_reducers[stable]),
            "partitioner_limit": self.slide / partitioners,
            "imbalance": float((counts[stable, PEAK] / fair[stable]).mean() - 1.0),
            "replication": float((counts[stable, PAIRS] / counts[stable, KEYS]).mean()),
            "merged_pairs": float(counts[stable, MERGED].mean()),
            "slide_throughput": (self.slide / seconds).tolist(),
            "slide_load_difference": (counts[:, PEAK] - fair).tolist(),
            "slide_watched_width": counts[:, WATCHED].tolist(),
        }


def _rate(records: int, seconds: Floats) -> float:
    """Return records per second; a number too large to be a limit if there is nothing to do."""
    return float(records / max(float(seconds.mean()), 1e-12))


@lru_cache(maxsize=4)
def _stream(
    workload: str, of: tuple[tuple[str, Any], ...], seed: int
) -> tuple[Keys, Ints, SmallInts, int]:
    """Return the keys, their numbers from 0, a hash of each number's key, and the top number."""
    keys = keys_of(workload, dict(of), seed)
    known, numbers, counts = np.unique(keys, return_inverse=True, return_counts=True)
    reducers = np.empty(known.size, np.int32)
    _hash(known, reducers)
    return keys, numbers.astype(np.int64), reducers, int(counts.argmax())


@kernel
def _hash(keys: Keys, out: SmallInts) -> None:
    for i in range(keys.size):
        out[i] = np.int32(mix(keys[i]) >> _SHIFT)


def _merging_of(system: str, n_sources: int) -> Merging:
    """Return which partial results are merged by key.

    With several partitioners without exchange, a key that one of them hashes may be split by
    another, so DAGreedy cannot forward (section 4.2). Dalton exchanges its table in every slide;
    Cascade's sources tell the first worker of a key when they use another one.
    """
    if system in _ONE_WORKER:
        return "none"
    if system == "dagreedy" and n_sources > 1:
        return "all"
    return "split" if system in _FORWARDING else "all"


def cell(
    system: str,
    workload: str,
    of: Mapping[str, Any],
    *,
    parallelism: int,
    slide: int,
    n_slides: int = 60,
    n_sources: int = 1,
    sync: int = 0,
    batches: bool = False,
    **others: Any,
) -> Pipeline:
    """Return the cell of a system on a stream, with this many workers for both stages.

    STATS_WIN is one slide (section 5). DAGreedy and CM count over the window. cAM gives a key one
    worker for good, because windows that slide have no beginning; or for as many records as it can.
    """
    settings: dict[str, Mapping[str, Any]] = {
        "dalton": {
            "slide": slide,
            "n_slides": n_slides,
            "stats_window": slide,
            "by_batch": batches,
        },
        "dagreedy": {"interval": slide * n_slides},
        "cm": {"window": slide * n_slides},
        "cam": {"window": min(int(of["n_records"]), MOST_PLACES)},
    }
    merging = "all" if batches else _merging_of(system, n_sources)
    if system == "dalton" and n_sources > 1 and not 0 < sync <= slide:
        merging = "all"  # forwarding needs an exchange in every slide (section 4.2)
    # Of workers for both stages, an eighth merges (section 5.1).
    reducers = 1 if merging == "none" else max(1, parallelism // 8)
    n_workers = parallelism if merging == "none" else parallelism - reducers
    fields: dict[str, Any] = {
        "settings": settings.get(system, {}),
        "n_workers": n_workers,
        "merging": merging,
        "reducers": reducers,
        "emit": EMIT + SCORE * {"dagreedy": n_workers, "prompt": math.log2(slide)}.get(system, 0),
        **{"slide": slide, "n_slides": n_slides, "n_sources": n_sources, "sync": sync},
    }
    return Pipeline(system, workload, of=of, batches=batches, **{**fields, **others})

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
from typing import Any, Literal

import numpy as np

from benchmarks.records import Row
from experiments.reproduction.papers.dalton import slides
from skewless import registry, workloads
from skewless.arrays import Floats, Ints, Keys, SmallInts, Workers
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
        keys, numbers, reducers, watched = _stream(self.workload, _items(self.of), self.seed)
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
            _route(strategy, states, keys, out, begin, min(begin + step, keys.size))
            if self.sync and begin + step >= next_exchange:
                states = merge_and_fork(strategy, states)
                next_exchange += self.sync
        return out

    def counted(self, keys: Ints, workers: Workers, reducers: SmallInts, watched: int) -> Row:
        """Count the work of each stage by slide; build the row of rates, balance and replicas."""
        n = keys.size // self.slide
        counts = np.zeros((n, slides.COLUMNS), np.int64)
        recent = self.recent or self.n_slides
        window = 1 if self.batches else self.n_slides
        shape = slides.Shape(
            self.slide, window, recent, self.n_workers, int(self.merging == "split"), watched
        )
        held = slides.held(int(keys.max()) + 1, self.n_workers, reducers.astype(np.int32))
        slides.count_slides(keys, workers, shape, held, counts)
        covered = np.minimum(np.arange(n) + 1, recent)
        work = counts[:, slides.SQUARES_PEAK if self.quadratic else slides.PEAK].astype(np.float64)
        combiners: Floats = work * self.service / (1 if self.quadratic else covered)
        merged = 0 if self.merging == "none" else counts[:, slides.MERGED_PEAK]
        at_reducers = merged * self.merge + np.zeros(n)
        exchanges = self.slide / self.sync if self.sync else 0.0
        partitioners = self.slide / self.n_sources * self.emit + exchanges * self.exchange
        seconds = np.maximum(np.maximum(combiners, at_reducers), partitioners)
        stable = slice(max(n // 2, n - self.n_slides), None)  # the last window
        fair = counts[:, slides.TOTAL] / self.n_workers
        return {
            "throughput": float(self.slide / seconds[stable].mean()),
            "combiner_limit": _rate(self.slide, combiners[stable]),
            "reducer_limit": _rate(self.slide, at_reducers[stable]),
            "partitioner_limit": self.slide / partitioners,
            "imbalance": float((counts[stable, slides.PEAK] / fair[stable]).mean() - 1.0),
            "replication": float(
                (counts[stable, slides.PAIRS] / counts[stable, slides.KEYS]).mean()
            ),
            "merged_pairs": float(counts[stable, slides.MERGED].mean()),
            "slide_throughput": (self.slide / seconds).tolist(),
            "slide_load_difference": (counts[:, slides.PEAK] - fair).tolist(),
            "slide_watched_width": counts[:, slides.WATCHED].tolist(),
        }


def _rate(records: int, seconds: Floats) -> float:
    """Return records per second; a number too large to be a limit if there is nothing to do."""
    return float(records / max(float(seconds.mean()), 1e-12))


def _route(
    strategy: AnyStrategy, states: list[Any], keys: Keys, out: Workers, begin: int, end: int
) -> None:
    """Let each source route its records of this stretch: record i belongs to source i mod n."""
    n_sources = len(states)
    for source, state in enumerate(states):
        own = slice(begin + (source - begin) % n_sources, end, n_sources)
        records = Records(np.ascontiguousarray(keys[own]), None)
        chosen = np.full(records.keys.size, -1, np.int32)
        decide(strategy, records, state, chosen)
        out[own] = chosen


def _items(of: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(of.items()))


@lru_cache(maxsize=4)
def _stream(
    workload: str, of: tuple[tuple[str, Any], ...], seed: int
) -> tuple[Keys, Ints, SmallInts, int]:
    """Return the keys, their numbers from 0, a hash of each number's key, and the top number."""
    keys = np.concatenate(list(workloads.make(workload, **dict(of)).chunks(seed)))
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


def _settings_of(
    system: str, slide: int, n_slides: int, n_records: int, batches: bool
) -> Mapping[str, Any]:
    """Return the parameters of a strategy for these windows.

    STATS_WIN is one slide (section 5). DAGreedy and CM count over the window. cAM gives a key one
    worker for good, because windows that slide have no beginning; or for as many records as it can.
    """
    window = slide * n_slides
    if system == "dalton":
        return {"slide": slide, "n_slides": n_slides, "stats_window": slide, "by_batch": batches}
    if system == "dagreedy":
        return {"interval": window}
    if system == "cm":
        return {"window": window}
    if system == "cam":
        return {"window": min(n_records, MOST_PLACES)}
    return {}


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
    """Return the cell of a system on a stream, with this many workers for both stages."""
    merging = "all" if batches else _merging_of(system, n_sources)
    if system == "dalton" and n_sources > 1 and not 0 < sync <= slide:
        merging = "all"  # forwarding needs an exchange in every slide (section 4.2)
    # Of workers for both stages, an eighth merges (section 5.1).
    reducers = 1 if merging == "none" else max(1, parallelism // 8)
    n_workers = parallelism if merging == "none" else parallelism - reducers
    fields: dict[str, Any] = {
        "settings": _settings_of(system, slide, n_slides, int(of["n_records"]), batches),
        "n_workers": n_workers,
        "merging": merging,
        "reducers": reducers,
        "emit": EMIT + SCORE * {"dagreedy": n_workers, "prompt": math.log2(slide)}.get(system, 0),
        **{"slide": slide, "n_slides": n_slides, "n_sources": n_sources, "sync": sync},
        "batches": batches,
    }
    return Pipeline(system, workload, of=of, **{**fields, **others})

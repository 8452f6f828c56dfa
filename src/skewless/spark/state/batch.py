"""Batch DataFrames: keys are counted and planned first, and one micro-batch does all the work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from skewless.planning.packing import first_homes
from skewless.spark.records import Records
from skewless.spark.routing.planned.counting import count_keys
from skewless.spark.routing.planned.placing import with_worker
from skewless.spark.routing.planned.plan_keys import made_plan
from skewless.spark.routing.seeds import hash_seed
from skewless.spark.state.arguments import WORKER, Placed, Sending
from skewless.spark.state.grouping import received
from skewless.spark.state.planning.placing import Placing, speeds_of, unlearned
from skewless.spark.state.planning.spread_keys import MOST_KEYS, all_parts, warn_of_left_out
from skewless.spark.state.spread_records import Parts
from skewless.spark.state.versions.held_state import HeldState
from skewless.spark.state.versions.state_tables import FOREVER, LIVE, until_of
from skewless.spark.state.worker_step import Work
from skewless.strategy import Rebalances, Report

_HEAVY_KEYS = 1 << 12


def planned(
    df: DataFrame, hashed: Sequence[Column], place: Placed, parts: Parts | None = None
) -> pa.RecordBatch:
    """Return the row by which the JVM routes for a strategy that the user named, or for a join.

    Unless keys go by hash, this reads all keys once.

    `hashed` are the columns that are hashed together with the seed. With `parts`, hot keys are
    spread.
    """
    strategy, n_workers, seed = place.strategy, place.workers, place.query.seed
    speeds = speeds_of(place.capacities, n_workers)
    placing = Placing(strategy, unlearned(strategy, n_workers, seed, speeds), n_workers)
    moves = isinstance(strategy, Rebalances)
    if n_workers == 1 or not (moves or (parts is not None and parts.detects)):
        return placing.row(hash_seed(seed))
    whole = F.xxhash64(*hashed, F.lit(hash_seed(seed)).cast("bigint"))
    if parts is None:
        counts = count_keys(df, whole, first_homes(n_workers).size).counts
        total = float(counts.buckets.sum())
        heaviest = np.lexsort((counts.hashes, -counts.loads))[:_HEAVY_KEYS]
        hashes, loads = counts.hashes[heaviest], counts.loads[heaviest]
    else:
        sides = df.groupBy(whole.alias("hash")).agg(*parts.counts(df))
        of_key = F.col("first") + F.col("second")
        observed = Observation()
        counted = sides.observe(observed, F.sum(of_key).alias("records"))
        heavy = counted.orderBy(F.desc(of_key), "hash").limit(_HEAVY_KEYS).collect()
        total = float(observed.get["records"] or 0)
        hashes = np.array([row["hash"] for row in heavy], np.int64).view(np.uint64)
        loads = np.array([sum(row[1:]) for row in heavy], np.float64)
    # Hashing spreads the light keys evenly, or in proportion to the speeds.
    shares = np.ones(n_workers) if speeds is None else speeds
    rest = max(0.0, total - float(loads.sum())) * shares / shares.sum()
    spread: list[tuple[int, int]] = []
    if parts is not None:
        n_left_out, mean = 0, total / n_workers
        for number, row in enumerate(heavy):
            n_parts = parts.rule.parts_of(row["first"], row["second"], mean, n_workers)
            if n_parts == 1 or len(spread) == MOST_KEYS:
                n_left_out += n_parts != 1
                continue
            spread.append((row["hash"], n_parts))
            once, everywhere = row["first"], row["second"]
            if n_parts < 0:
                once, everywhere = everywhere, once
            others = all_parts(hashes[number], abs(n_parts))[1:]
            loads[number] = once / abs(n_parts) + everywhere
            hashes = np.concatenate([hashes, others])
            loads = np.concatenate([loads, np.full(others.size, loads[number])])
        if n_left_out:
            warn_of_left_out(n_left_out)
    if moves:
        keys = placing.keys_of(hashes)
        order = np.argsort(keys)
        report = Report(keys[order], loads[order], np.ones(keys.size), rest if rest.any() else None)
        state = strategy.rebalance(report, placing.state)[0]  # type: ignore[attr-defined]
        placing = Placing(strategy, state, n_workers)
    return placing.row(hash_seed(seed), spread)


def planned_first(records: Records, sends: Sending, place: Placed) -> DataFrame:
    """Return the records in the partitions of their workers by a plan that keeps keys whole."""
    speeds = speeds_of(place.capacities, place.workers)
    plan = made_plan(
        records,
        place.workers,
        place.query.seed,
        capacities=None if speeds is None else tuple(speeds.tolist()),
        untrusted=place.untrusted,
        whole_keys=True,
    )
    sent = records.df.select(*sends.columns)
    key = replace(records.key, columns=tuple(sends.key))
    found = with_worker(Records(sent, sent.schema, key), plan, WORKER)
    return found.select(*sends.sent.schema.names).repartitionById(place.workers, F.col(WORKER))


@dataclass(frozen=True, eq=False)
class BatchTasks:
    """What the tasks of a batch DataFrame do."""

    work: Work
    row: pa.RecordBatch | None = None  # None: the records are routed by a plan of keys

    def publish(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the one row by which the JVM routes; the input is ignored."""
        for _ in batches:
            pass
        if self.row is not None:
            yield self.row

    def process(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the results of one worker; states that can expire do so after its last record."""
        work = self.work
        worked = work.do(received(batches, work.sent), HeldState(work.layout), None, None)
        yield from work.rows(worked.results, 0)
        live = worked.changed.filter(worked.changed.column(LIVE))
        live = live.filter(pa.array(until_of(live) < FOREVER)).combine_chunks()
        for results, _ in work.expired(live, FOREVER - 1):
            yield from work.rows(results, 0)

"""`hot_keys`: is a job skewed, and what would each strategy do about it?"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.listener import StreamingQueryProgress

from skewless.arrays import Keys
from skewless.diagnosis import advice, ways
from skewless.diagnosis.advice import HotKey
from skewless.diagnosis.costs import given_costs
from skewless.diagnosis.ways import Job, SampledKeys, chosen_strategies, predict
from skewless.kernels.hashing import keyed, seed_array
from skewless.planning.packing import KeyCounts, Packed, Piece, buckets_of, first_homes
from skewless.plumbing.arguments import LARGEST, MOST_WORKERS, seed_number, shown, text, whole
from skewless.spark.columns import quoted
from skewless.spark.diagnosis.measuring import Work, measure
from skewless.spark.key_texts import key_text
from skewless.spark.records import GroupingKey, Key, Records
from skewless.spark.routing.arguments import given_workers, number_of_workers
from skewless.spark.routing.planned.placing import dealing, placed
from skewless.spark.routing.planned.plan_keys import is_whole, made_plan
from skewless.spark.routing.route import require_new, route
from skewless.spark.worker_python import is_local
from skewless.strategy import AnyStrategy

#: The most keys that Spark's sketch can return.
MOST_KEYS = 10_000
_RECORDS, _TOP, _TOP_JSON = "records", "top", "top_json"
_PARTITION, _HASH, _PLAIN = "partition", "hash", "plain"
#: The types that Spark's `approx_top_k` takes. Keys of other types are given to it as JSON.
_TIMES = T.DateType | T.TimestampType | T.TimestampNTZType
_COUNTED_AS_THEY_ARE = T.NumericType | T.BooleanType | T.StringType | _TIMES
_LOGGER = logging.getLogger("skewless")


@dataclass(frozen=True)
class HotKeys(advice.HotKeys):
    """The heaviest keys, heaviest first, and what each way of partitioning would do about them."""

    key: Key = field(default=(), compare=False, repr=False)
    seed: int = 0

    def apply(
        self, df: DataFrame, *, whole_keys: bool = False, column: str = "worker"
    ) -> DataFrame:
        """Return `df` partitioned in the way that is predicted to be the fastest.

        The columns are the same whatever is chosen: those of `df`, and the worker. Without costs,
        a skewed job is planned, and another one is hashed. If the fastest is to leave the
        partitions as they are, the worker is the number of the partition.

        Parameters
        ----------
        df
            The records, or similar ones with the same key.
        whole_keys
            Whether only ways that keep each key on one worker are admitted.
        column
            The name of the new column.
        """
        records = Records.of(df).by(self.key)
        require_new(text(column, "column"), records)
        name = self.best(whole_keys=is_whole(whole_keys)).strategy
        _LOGGER.info("hot_keys: partitions by %s", name)
        base, _, number = name.rpartition("-")
        n, seed, key = self.workers, self.seed, records.key.columns
        assert n is not None  # predictions are for a number of workers
        if name == ways.LOCAL:
            return df.withColumn(column, F.spark_partition_id())
        if name in (ways.PLAN, ways.WHOLE_PLAN):
            per_key = self.costs.pair_in_records if self.costs else 0.0
            is_kept = name == ways.WHOLE_PLAN
            plan = made_plan(records, n, seed, per_key=per_key, whole_keys=is_kept)
            return placed(records, plan, column)
        if base == ways.HOT_SALT:
            salts = partial(_salted, n_workers=n, n_salts=int(number), seed=seed)
            return placed(records, made_plan(records, n, seed, packing=salts), column)
        if name == ways.BASELINE:
            hashed = F.hash(*key)
        elif name == ways.ROUND_ROBIN:
            hashed = dealing(records, seed)
        elif base == ways.SALT:
            salt = F.pmod(dealing(records, seed), F.lit(int(number)).cast("bigint"))
            hashed = F.hash(*key, salt)
        else:
            return route(df, list(key), strategy=name, workers=n, seed=seed, column=column)
        worker = F.pmod(hashed, F.lit(n)).cast("int")  # as Spark's own partitioning
        return df.withColumn(column, worker).repartitionById(n, F.col(quoted(column)))


def _salted(counts: KeyCounts, n_workers: int, n_salts: int, seed: int) -> Packed:
    """Return a packing that deals hot keys to the workers of their salts, and leaves all others."""
    homes = first_homes(n_workers)
    loads = np.bincount(homes, counts.buckets, n_workers).astype(np.float64)
    places = homes[buckets_of(counts.hashes, homes.size)]
    salts, salted = np.arange(n_salts, dtype=np.uint64), np.empty(n_salts, np.uint64)
    placed_keys = []
    for key in np.flatnonzero(counts.loads > ways.HOT * counts.buckets.sum() / n_workers).tolist():
        keyed(np.repeat(counts.hashes[key], n_salts), salts, seed_array(seed, 2), salted)
        workers, each = np.unique(salted % np.uint64(n_workers), return_counts=True)
        shares = each / n_salts
        placed_keys.append((key, tuple(map(Piece, workers.tolist(), shares.tolist()))))
        loads[places[key]] -= counts.loads[key]
        loads[workers] += shares * counts.loads[key]
    return Packed(homes, tuple(placed_keys), loads)


def hot_keys(
    df: DataFrame,
    key: Key,
    *,
    workers: int | None = None,
    strategies: str | Iterable[str | AnyStrategy] | None = None,
    sample: int = 8_000_000,
    top: int = 20,
    seed: int = 0,
    per_record: float | None = None,
    per_pair: float | None = None,
    work: Work | None = None,
    slots: int | None = None,
) -> HotKeys:
    """Return the heaviest keys of a batch DataFrame, and how each strategy would balance them.

    Reads `df` twice: for the heaviest keys, with Spark's `approx_top_k`, and for a sample of key
    hashes in the order of the records. The driver routes the sample as `route` would. With `work`,
    it reads `df` three more times. Cache `df` if it is expensive to compute.

    It also predicts what needs no strategy: Spark's hash, a round-robin `repartition(n)`, salting
    of all keys or of hot keys only, and no shuffle at all; and a plan of the keys. With costs, it
    predicts seconds, and `fastest` is the prediction with the least. That may be plain Spark.
    `apply` partitions records in that way.

    Parameters
    ----------
    df
        The records. For a stream, see `observe_hot_keys`.
    key
        The name of a column, a Column, or several of them.
    workers
        As for `route`.
    strategies
        Names or strategy objects, or "all". None: a selection. `hash`, which is what plain Spark
        does, is always included.
    sample
        About how many records are routed for the predictions: 12 bytes each on the driver. If `df`
        has no more than this, all its records are routed.
    top
        How many keys to list, at most 10,000. Their counts are exact if there are fewer than about
        10,000 keys. Otherwise they are approximate, and keys that are too light to rank are left
        out.
    seed
        The seed of the sample and of the routing. The same seed gives the same answer if Spark
        reads the same records in the same order. `spark.skewless.seed` is not used: a job with a
        random seed can be predicted with any seed.
    per_record, per_pair
        What the work costs, in seconds: for each record, and for each key on each worker that has
        it (loading a model, opening a file, merging a partial result).
    work
        Instead of the costs, the function itself, as for `mapInArrow`. It is timed in a Spark task,
        on a few thousand records of `df`, repeated, in batches of Spark's size. Its set-up, once
        per task, counts neither as `per_record` nor as `per_pair`.
    slots
        How many tasks run at the same time. None: as many as this session can run. A local session
        that runs more than this machine has cores is reported in the log.

    Examples
    --------
    >>> orders = spark.range(1000).selectExpr("id", "if(id % 2 = 0, 0, id) AS customer")
    >>> found = hot_keys(orders, "customer", workers=4, per_record=2e-5, per_pair=5e-3)
    >>> found.skewed, found.keys[0].key, found.keys[0].share
    (True, '0', 0.5)

    `found.advice` says what to do, and `found.apply(orders)` does it.
    """
    records = Records.of(df)
    if df.isStreaming:
        raise ValueError(
            "df is a stream, which cannot be read beforehand: put observe_hot_keys(df, key) into "
            "the query and read observed_hot_keys(query.lastProgress), or give a batch DataFrame "
            "of the same records"
        )
    sample = whole(sample, "sample", least=1)
    top = whole(top, "top", least=1, most=MOST_KEYS)
    chosen = chosen_strategies(strategies)
    n_workers = number_of_workers(df, given_workers(workers, df.sparkSession))
    seeded = seed_number(seed)
    n_slots = _slots(df, slots)
    if work is not None and (per_record is not None or per_pair is not None):
        raise ValueError("give per_record and per_pair, or work (which measures them), not both")
    if work is not None and not callable(work):
        raise ValueError(f"work must be a function as mapInArrow takes it, not {shown(work)}")
    costs = given_costs(per_record, per_pair)
    by = records.by(key).key
    columns = by.grouped
    batch_size = int(df.sparkSession.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 0)
    batch_size = batch_size if batch_size > 0 else LARGEST  # for Spark, 0 and less mean no limit
    if work is not None:
        costs = measure(df, F.xxhash64(*columns), work, batch_size)
    (counted,) = df.agg(*_counts(by, top)).collect()
    n_records, heaviest = _read_counts(counted)
    keys = _sample(df, columns, n_records, n_workers, sample, seeded)
    is_too_heavy = np.bincount(keys.distinct[1]) > keys.n_records / n_workers
    job = Job(keys, n_workers, n_slots, n_records, costs, seeded, batch_size)
    return HotKeys(
        records=n_records,
        keys=heaviest,
        workers=n_workers,
        sampled=keys.n_records,
        predictions=predict(job, chosen),
        slots=n_slots,
        partitions=len(keys.partitions or ()),
        costs=costs,
        n_too_heavy=int(is_too_heavy.sum()),
        key=key,
        seed=seeded,
    )


def observe_hot_keys(
    df: DataFrame, key: Key, *, name: str = "hot_keys", top: int = 20
) -> DataFrame:
    """Return `df` with an observation of the heaviest keys in each micro-batch.

    The records do not change. Spark puts the observation into the progress of the query, and
    `observed_hot_keys` reads it there: from `query.lastProgress`, or from `event.progress` in the
    `onQueryProgress` of a listener.

    Parameters
    ----------
    df
        A stream. A batch DataFrame works too, but `hot_keys` reports more.
    key
        The name of a column, a Column, or several of them.
    name
        The name of the observation; no other observation of the query may have it.
    top
        How many keys to list, at most 10,000.

    Examples
    --------
    >>> stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    >>> observed = observe_hot_keys(stream.selectExpr("value % 2 as customer"), "customer")
    >>> query = observed.writeStream.format("noop").trigger(availableNow=True).start()
    >>> query.awaitTermination()
    >>> observed_hot_keys(query.lastProgress, workers=8).keys[0].share
    0.5
    """
    records = Records.of(df)
    text(name, "name", "a name for the observation")
    top = whole(top, "top", least=1, most=MOST_KEYS)
    return df.observe(name, *_counts(records.by(key).key, top))


def observed_hot_keys(
    progress: Any, *, name: str = "hot_keys", workers: int | None = None
) -> HotKeys:
    """Return the heaviest keys of the micro-batch of `progress`.

    Parameters
    ----------
    progress
        A StreamingQueryProgress.
    name
        The name that `observe_hot_keys` was given.
    workers
        The number of workers, for the advice.
    """
    if progress is None:
        raise ValueError("progress is None: the query has completed no batch yet")
    text(name, "name", "the name of an observation")
    if workers is not None:
        workers = whole(workers, "workers", least=1, most=MOST_WORKERS)
    if not isinstance(progress, Mapping | StreamingQueryProgress):
        raise ValueError(f"progress must be a StreamingQueryProgress, not {shown(progress)}")
    if isinstance(progress, Mapping) and "observedMetrics" not in progress:
        raise ValueError("progress has no observedMetrics: give query.lastProgress")
    found = progress["observedMetrics"]
    if name not in found:
        names = ", ".join(found) or "none"
        raise ValueError(f"name: the query has no observation {name!r}; it has: {names}")
    n_records, heaviest = _read_counts(found[name])
    return HotKeys(records=n_records, keys=heaviest, workers=workers)


def _counts(key: GroupingKey, top: int) -> list[Column]:
    """Return the aggregates: how many records, and the heaviest keys."""
    columns, kind = key.grouped, key.fields[0].dataType
    name, item = _TOP, columns[0]
    if len(columns) > 1 or not isinstance(kind, _COUNTED_AS_THEY_ARE):
        parts = [column.alias(str(place)) for place, column in enumerate(columns)]
        name, item = _TOP_JSON, F.to_json(F.struct(*parts), {"ignoreNullFields": "false"})
    heaviest = F.call_function("approx_top_k", item, F.lit(top))
    if name == _TOP and isinstance(kind, _TIMES):  # Python has no dates beyond the year 9999

        def with_text(one: Column) -> Column:
            key = one.getField("item").cast("string")
            return F.struct(key.alias("item"), one.getField("count").alias("count"))

        heaviest = F.transform(heaviest, with_text)
    return [F.count(F.lit(1)).alias(_RECORDS), heaviest.alias(name)]


def _read_counts(row: Any) -> tuple[int, tuple[HotKey, ...]]:
    found = row.asDict(recursive=True) if isinstance(row, T.Row) else row
    n_records, is_json = int(found[_RECORDS]), _TOP_JSON in found
    counts = []
    for one in found[_TOP_JSON if is_json else _TOP]:
        item = one.get("item")  # progress in JSON leaves out nulls
        # Numbers stay as they are written: a decimal may have more digits than a float.
        parts = json.loads(item, parse_float=str).values() if is_json else [item]
        counts.append((key_text(parts), int(one["count"])))  # as the workers' reports spell it
    counts.sort(key=lambda pair: (-pair[1], pair[0]))
    return n_records, tuple(HotKey(key, count, count / n_records) for key, count in counts)


def _sample(
    df: DataFrame, columns: list[Column], n_records: int, n_workers: int, wanted: int, seed: int
) -> SampledKeys:
    """Return about this many keys, of a uniform sample of records, in the order of `df`."""
    hashes = df.select(
        F.spark_partition_id().alias(_PARTITION),
        F.xxhash64(*columns).alias(_HASH),
        F.pmod(F.hash(*columns), F.lit(n_workers)).alias(_PLAIN),
    )
    if n_records > wanted:
        # Spark's seeds have a sign.
        hashes = hashes.sample(fraction=wanted / n_records, seed=seed & LARGEST)
    table = hashes.toArrow()
    keys: Keys = np.ascontiguousarray(table.column(_HASH).to_numpy()).view(np.uint64)
    sizes = np.bincount(table.column(_PARTITION).to_numpy())
    return SampledKeys(keys, tuple(sizes.tolist()), table.column(_PLAIN).to_numpy())


def _slots(df: DataFrame, slots: object) -> int:
    if slots is not None:
        return whole(slots, "slots", least=1, most=MOST_WORKERS)
    try:
        context = df.sparkSession.sparkContext
    except PySparkException:  # Spark Connect has no context: use a setting instead
        return whole(df.sparkSession.conf.get("spark.sql.shuffle.partitions"), "slots", least=1)
    n_slots, n_cores = int(context.defaultParallelism), _cores()
    if is_local(context.master or "") and n_slots > n_cores:
        _LOGGER.warning(
            "hot_keys: this session runs %d tasks at the same time on %d cores, so they take "
            "longer than predicted: give slots=%d, or as many as your cluster has",
            *(n_slots, n_cores, n_cores),
        )
    return n_slots


def _cores() -> int:
    """Return how many cores of this machine the process may use."""
    usable = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(usable(0)) if usable else os.cpu_count() or 1

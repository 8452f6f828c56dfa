"""`process`: keyed Python state that is balanced over workers and moves between them by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from time import time_ns
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.planning.packing import first_homes
from skewless.plumbing.arguments import whole
from skewless.spark.columns import internal
from skewless.spark.records import Key, Records
from skewless.spark.routing.key_hashes import hashed_key
from skewless.spark.routing.planned.counting import count_keys, seeded_hash
from skewless.spark.routing.planned.placing import with_worker
from skewless.spark.routing.planned.plan_keys import made_plan
from skewless.spark.routing.query_ledger import as_operator, operator_name
from skewless.spark.routing.seeds import hash_seed
from skewless.spark.state import arguments
from skewless.spark.state.arguments import HASH, WORKER, Placed, Placement, Sending
from skewless.spark.state.closing import closed
from skewless.spark.state.grouping import received
from skewless.spark.state.initial_states import checked
from skewless.spark.state.planning.placing import PLACES, Placing, worker_column
from skewless.spark.state.planning.spread_keys import SpreadKeys, all_parts, next_spread
from skewless.spark.state.planning.spread_records import Parts
from skewless.spark.state.planning.worker_reports import WorkerReport
from skewless.spark.state.processor import Processor
from skewless.spark.state.schemas import shape_of
from skewless.spark.state.tasks import StateTasks
from skewless.spark.state.versions.held_state import HeldState
from skewless.spark.state.versions.offset_log import CHECKPOINT_SETTINGS
from skewless.spark.state.versions.state_tables import FOREVER, UNTIL, values_of
from skewless.spark.state.worker_step import Cost, Work
from skewless.spark.worker_python import require_skewless
from skewless.strategy import AnyStrategy, Rebalances

_PLAN = internal("plan_")
#: The most keys of a batch that a named strategy, or a join, places one by one.
_HEAVY_KEYS = 1 << 12
_RETAINED = "spark.sql.streaming.minBatchesToRetain"


def process(
    df: DataFrame,
    key: Key,
    processor: Processor,
    *,
    strategy: str | AnyStrategy = "auto",
    workers: int | None = None,
    max_workers: int | None = None,
    watermark: tuple[str, str] | None = None,
    order_by: str | Sequence[str] | None = None,
    interval: int = 1,
    cost: Cost = "records",
    seed: int | None = None,
    ledger: str | None = None,
    untrusted_keys: bool | None = None,
    batch_column: str | None = None,
    closes_without_data: bool = False,
    initial_state: DataFrame | None = None,
    late_column: str | None = None,
    errors_column: str | None = None,
) -> DataFrame:
    """Return the results of a processor that keeps a state for every key.

    Each key lives on one worker. When loads drift, `strategy` moves keys and their states between
    two micro-batches of the running query. The result of a stream is a stream in append mode. The
    result of a batch DataFrame is a batch DataFrame: all its records are one micro-batch, and at
    the end all states that can expire do.

    Parameters
    ----------
    df
        The records.
    key
        The name of a column, a Column, or several of them.
    processor
        What to compute: an object of your class derived from `Processor` or `KeyProcessor`.
    strategy
        How keys are placed: "mixed", "min-table", "min-mig", "readj", "hash", or a strategy object
        with other parameters, such as `Mixed(tolerance=0.2, max_entries=500)`. "auto" is "mixed"
        for a stream. A batch is planned first, as by `plan_keys(…, whole_keys=True)`.
    workers
        The number of workers. None: `spark.skewless.workers`; else the number before the restart;
        else `spark.sql.shuffle.partitions`. A restart may give another number. If the ledger is a
        subfolder of `spark.skewless.ledger`, it is found after the query has started: then the
        query has room for the workers of every query there with the same key.
    max_workers
        The most workers that `scale_to` may ask for while the query runs. None: the number at the
        start. A larger number is cut to this, with a warning in the log.
    watermark
        The column of event time, and how late a record may be: ("ts", "10 minutes"). Later records
        are dropped. States expire by the watermark. As in Spark, it follows the latest time in the
        micro-batches before.
    order_by
        Columns that order the records of a key within a micro-batch. Without them, and among
        equal values, records are in source order: by source partition, then as they were read.
    interval
        Keys may move in every `interval`-th micro-batch.
    cost
        What a key costs: its "records", or the "seconds" that the processor took for it.
    seed
        As for `route`.
    ledger
        The folder for states, plans and reports: one for each `process`, for example beside the
        checkpoint. None: a subfolder of `spark.skewless.ledger` named by the query's id, and by the
        place of this `process` if another comes before it in the query. A stream needs a ledger.
    untrusted_keys
        Whether strangers choose the keys, as for `route`.
    batch_column
        The name of one more column of the result, the last one: the number of the micro-batch, so
        that a sink can tell which of two results of a key is the later one. 0 on a batch DataFrame.
    closes_without_data
        Whether states expire as soon as the watermark passes them, even if no record follows. Spark
        then runs a micro-batch without data after the last one, with `availableNow` too. Every
        micro-batch has one small task more for each of `spark.sql.shuffle.partitions`, and the
        time column is read a second time, at the same offsets. `df` must have no `withWatermark`.
        It cannot be changed at a restart.
    initial_state
        The states that a stream begins with: a batch DataFrame with the columns of the key and the
        fields of the state, one row for each key. A null is a key like any other. Numbers may be
        narrower. If the processor has `ttl`, it must also have the watermark's column: the time of
        the key's last record. If it follows the clock, the ttl counts from now. The states are
        written into `ledger` when `process` is called. Once the first micro-batch has begun, the
        argument is no longer read: a restart may give it again or leave it out. A query that has
        begun without it is refused.
    late_column
        The name of one more column of the result, with late records as structs. It is null in the
        rows that the processor returns. Each late record is a row of its own, in which all columns
        of the processor are null. None: late records are dropped.
    errors_column
        The name of one more column of the result, with errors as structs: the `key`, the class of
        the `error`, and its `message`. If `update` fails for a key in a micro-batch, the key's
        state stays as it was, its records are left out, and there is a row with the error, as for
        a late record. Other keys are not affected. None: an error ends the query. So does any
        error when states expire, or a timer fires.

    Examples
    --------
    >>> from skewless.spark import KeyProcessor
    >>> class Visits(KeyProcessor):
    ...     state_schema = "clicks bigint"
    ...     result_schema = "user string, clicks bigint"
    ...
    ...     def update_key(self, key, records, state, watermark):
    ...         clicks = sum(1 for _ in records) + (state["clicks"] if state else 0)
    ...         return [{"clicks": clicks}], {"clicks": clicks}
    >>> clicks = spark.createDataFrame([("a",), ("b",), ("a",)], "user string")
    >>> sorted(tuple(row) for row in process(clicks, "user", Visits(), workers=2).collect())
    [('a', 2), ('b', 1)]

    A stream needs `ledger=` as well, the folder that holds the states.
    """
    given = locals()
    placement: Any = {name: given[name] for name in Placement.__annotations__}
    records = Records.with_names(df).by(key)
    return processed(
        records,
        processor,
        placement,
        watermark,
        order_by,
        initial=initial_state,
        late_column=late_column,
        errors_column=errors_column,
    )


def processed(
    records: Records,
    processor: Processor,
    placement: Placement,
    watermark: tuple[str, str] | None = None,
    order_by: str | Sequence[str] | None = None,
    parts: Parts | None = None,
    clocks: Sequence[DataFrame] = (),
    initial: Any = None,
    late_column: str | None = None,
    errors_column: str | None = None,
) -> DataFrame:
    """Return the results of `process`; with `parts`, plans may spread a key over several parts.

    The last column of the key is then the part, 0 for every record. The columns of the records
    must have different names. `clocks` are the event times of several streams, a column each, if
    the slowest one sets the watermark.
    """
    shape, batch_column = shape_of(processor), placement.get("batch_column")
    times = None if watermark is None else arguments.event_time(records, watermark)
    columns = late_column, errors_column, batch_column
    result = arguments.result_schema(shape.result, records, times is not None, *columns)
    arguments.check_streams(records, shape, times is not None)
    ordered = arguments.ordering(records, order_by)
    states = None
    if initial is not None:
        has_ledger = placement.get("ledger") is not None
        states = checked(initial, records, shape, times and times[0], has_ledger=has_ledger)
    delay, rule = times and times[1], None if parts is None else parts.rule
    place = arguments.placed(records, placement, shape, delay, rule)
    sends = arguments.sending(records, times, ordered)
    work = Work(shape, sends.sent, place.cost, batch_column, late_column, errors_column)
    hash_columns = hashed_key(records.key, untrusted=True) if place.untrusted else None
    spark, is_spread = records.spark, records.is_stream
    require_skewless(spark)
    if states is not None:
        states.write(place, work)
    at_once = BatchTasks(work, time_ns() // 1000 if shape.follows_clock else None)
    if not records.is_stream and parts is None and placement.get("strategy", "auto") == "auto":
        return planned_first(records, sends, place).mapInArrow(at_once.process, result)
    if records.is_stream:
        folders = (spark.conf.get(name, None) for name in CHECKPOINT_SETTINGS)
        checkpoints = tuple(str(folder) for folder in folders if folder)
        n_kept = _n_kept(spark.conf)
        tasks: Any = StateTasks(place.query, place.controller, work, n_kept, checkpoints)
        # This is the time of the micro-batch: a micro-batch that is repeated keeps it.
        now = spark.range(0, 1, 1, 1).select(F.current_timestamp())
        plan = now.mapInArrow(tasks.publish, PLACES)
    else:
        tasks = at_once
        row = planned(records, place, parts)
        is_spread = len(row.column("spread")[0]) > 0
        plan = spark.createDataFrame(pa.Table.from_batches([row]))
    plan = plan.toDF(*[_PLAN + name for name in plan.columns])
    spread = f"{_PLAN}spread" if is_spread else None
    df, no_rows = records.df, None
    if place.closes and times:
        df, no_rows = closed(records, clocks, *times, result)
    routed = _routed(df, sends, plan, hash_columns, parts, spread)
    # The column of the worker is not dropped. With a step between the shuffle and the Python
    # function, Spark would leave out all tasks of a micro-batch without records, and the version
    # of that micro-batch would be missing.
    sent = routed.repartitionById(place.controller.most, F.col(WORKER))
    name = operator_name(shape.name, records.key.names)
    results = sent.mapInArrow(as_operator(tasks.process, name), result)
    # The results come first, so that the number of a partition is that of its worker.
    return results if no_rows is None else results.union(no_rows)


def _n_kept(conf: Any) -> int:
    """Read how many versions are kept; Spark does not check every way in which it can be set."""
    return whole(conf.get(_RETAINED), _RETAINED, least=1)


def _routed(
    df: DataFrame,
    sends: Sending,
    plan: DataFrame,
    digests: list[Column] | None,
    parts: Parts | None,
    spread: str | None,
) -> DataFrame:
    """Return the records with their workers, which the JVM looks up.

    `spread` is the column of the keys in several parts; None: there are none.
    """
    names = [name for name in sends.sent.schema.names if name not in (HASH, WORKER)]
    keys, chosen = sends.key, list(sends.columns)
    if digests is not None:
        keys = [F.col(internal(f"digest_{number}")) for number in range(len(digests))]
        chosen += [one.alias(internal(f"digest_{number}")) for number, one in enumerate(digests)]
    joined = df.select(*chosen).crossJoin(F.broadcast(plan))
    hashed = joined.withColumn(HASH, F.xxhash64(*keys, F.col(f"{_PLAN}seed")))
    if parts is not None:
        inputs = dict(zip(sends.sent.names, names[-len(sends.sent.names) :], strict=True))
        hashed = parts.taken(hashed, inputs, HASH, spread)
    worker = worker_column(F.col(HASH), _PLAN).cast("int")
    return hashed.select(HASH, worker.alias(WORKER), *names)


def planned(records: Records, place: Placed, parts: Parts | None = None) -> pa.RecordBatch:
    """Return the row by which the JVM routes for a strategy that the user named, or for a join.

    Unless keys go by hash, this reads all keys once. With `parts`, hot keys are spread.
    """
    by, seed = place.controller, place.query.seed
    strategy, n_workers = by.strategy, by.workers
    placing = Placing.unlearned(strategy, n_workers, seed)
    moves = isinstance(strategy, Rebalances)
    if n_workers == 1 or not (moves or (parts is not None and any(parts.rule.may))):
        return placing.row(hash_seed(seed))
    whole = seeded_hash(records.key, seed, untrusted=place.untrusted)
    df = records.df
    weight, second = (None, None) if parts is None else parts.counts(df)
    counted = count_keys(df, whole, first_homes(n_workers).size, weight=weight, part=second)
    counts, total = counted.counts, float(counted.counts.buckets.sum())
    heaviest = np.lexsort((counts.hashes, -counts.loads))[:_HEAVY_KEYS]
    hashes, loads = counts.hashes[heaviest], counts.loads[heaviest]
    # Hashing spreads the light keys evenly.
    rest = np.full(n_workers, max(0.0, total - float(loads.sum())) / n_workers)
    spread: list[tuple[int, int]] = []
    if parts is not None and counted.parts is not None:
        of_second = counted.parts[heaviest].astype(np.int64)
        of_first, nothing = loads.astype(np.int64) - of_second, np.zeros(hashes.size, np.int64)
        told = WorkerReport(
            hashes, loads, loads, total, None, None, int(total), None, of_first, of_second, nothing
        )
        found = next_spread(parts.rule, SpreadKeys(), [told], n_workers, None, latest=0)
        spread = list(zip(found.hashes.view(np.int64).tolist(), found.parts.tolist(), strict=True))
        for whole_key, n_parts in zip(found.hashes, found.parts.tolist(), strict=True):
            at = np.flatnonzero(hashes == whole_key)[0]
            sides = of_first, of_second
            once, everywhere = sides if n_parts > 0 else sides[::-1]
            loads[at] = once[at] / abs(n_parts) + everywhere[at]
            others = all_parts(whole_key, abs(n_parts))[1:]
            hashes = np.concatenate([hashes, others])
            loads = np.concatenate([loads, np.full(others.size, loads[at])])
    if moves:
        placing = placing.rebalanced(hashes, loads, np.ones(hashes.size), rest)
    return placing.row(hash_seed(seed), spread)


def planned_first(records: Records, sends: Sending, place: Placed) -> DataFrame:
    """Return the records in the partitions of their workers by a plan that keeps keys whole."""
    n_workers, seed, untrusted = place.controller.workers, place.query.seed, place.untrusted
    plan = made_plan(records, n_workers, seed, untrusted=untrusted, whole_keys=True)
    sent = records.df.select(*sends.columns)
    key = replace(records.key, columns=tuple(sends.key))
    hashed = seeded_hash(key, plan.made.seed, untrusted=untrusted)
    found = with_worker(Records(sent, sent.schema, key), plan, WORKER).withColumn(HASH, hashed)
    return found.select(*sends.sent.schema.names).repartitionById(n_workers, F.col(WORKER))


@dataclass(frozen=True, eq=False)
class BatchTasks:
    """What the tasks of a batch DataFrame do."""

    work: Work
    now: int | None = None  # the time of the call in microseconds, if states end by it

    def process(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the results of one worker; states that can expire do so after its last record."""
        work = self.work
        worked = work.do(received(batches, work.sent), HeldState(work.layout), None, self.now)
        yield from work.rows(worked.results, 0)
        live = work.layout.live(worked.changed)
        if not work.layout.growing:  # items have no end, and are needed
            live = live.filter(pa.array(values_of(live, UNTIL) < FOREVER))
        for results, _ in work.expired(live.combine_chunks(), FOREVER - 1):
            yield from work.rows(results, 0)

"""What can be found out cheaply about the source of a batch: its partitions, and a timed sample."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Row

from skewless.keys import hash_keys
from skewless.spark.aggregation.asked import Asked
from skewless.spark.aggregation.combining import chunks
from skewless.spark.aggregation.partials import Partials
from skewless.spark.worker_python import require_skewless

#: Records of a partition that the sample combines.
_SAMPLED = 1 << 14
#: Keys that a partition lists with their counts. A hot key is among them.
_N_TOLD = 256
_TALLY = (
    "records bigint, keys bigint, new double, heaviest array<bigint>, counts array<bigint>, "
    "update_s double, merge_s double"
)
#: Bytes below which no form saves as much as a sample takes, if no slot is idle.
_SMALL_BYTES = 1 << 26
#: Operators that read a partition from its beginning and cost nothing before its first record.
#: Others, such as joins, would be computed twice, and their partitions are not known before.
_NARROW = frozenset(
    {
        "DataSourceV2ScanRelation",
        "Filter",
        "Generate",
        "LocalRelation",
        "LogicalRelation",
        "Project",
        "Range",
        "Relation",
        "RelationV2",
        "SubqueryAlias",
    }
)


class Sample(NamedTuple):
    """What a sample tells: shares are those of its records, times are seconds."""

    keys_per_record: float
    new_keys: float  # share of records with a key that did not come before, at the end
    top_share: float  # of the heaviest key
    update_s: float  # to combine a record
    merge_s: float  # to merge a partial result


@dataclass(frozen=True)
class Source:
    """What is known about the records before they are read."""

    partitions: int
    slots: int  # tasks that can run at once
    records: float = 0.0  # about, and rather too few
    sample: Sample | None = None


def known_source(asked: Asked, workers: int) -> Source | None:
    """Build the `Source` of a batch, from a sample if needed; None if finding out costs too much.

    The sample is one job of at most two tasks, and each combines at most 16,384 records. There is
    none if every slot has a partition and there are few bytes: then no form is better than "local".
    """
    df = asked.records.df
    if not hasattr(df, "_jdf"):  # Spark Connect has no plans here
        return None
    query = df._jdf.queryExecution()
    plan = query.optimizedPlan()
    if not _is_narrow(plan):
        return None
    context = df.sparkSession.sparkContext
    partitions = int(query.toRdd().getNumPartitions())
    n_bytes = int(str(plan.stats().sizeInBytes()))
    # Files are compressed, so there are more records than this.
    records = n_bytes / max(1, int(query.optimizedPlan().schema().defaultSize()))
    source = Source(partitions, context.defaultParallelism, records)
    is_busy = partitions >= min(workers, source.slots)
    if partitions == 0 or (is_busy and n_bytes < _SMALL_BYTES):
        return source
    require_skewless(df.sparkSession)
    sent = df.select(*asked.sent(asked.records.key.grouped))
    partials = asked.partials

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from tally(batches, partials)

    tallies = sent.mapInArrow(read, _TALLY)
    chosen = sorted({0, partitions // 2})
    rows: list[Row] = context.runJob(tallies.rdd, list, chosen)
    return source if not rows else Source(partitions, source.slots, records, _together(rows))


def _together(rows: list[Row]) -> Sample:
    n_records = sum(row["records"] for row in rows)
    # Partitions may be sorted by key, so their heaviest keys may differ.
    together: Counter[int] = Counter()
    for row in rows:
        together.update(dict(zip(row["heaviest"], row["counts"], strict=True)))
    return Sample(
        sum(row["keys"] for row in rows) / n_records,
        sum(row["new"] for row in rows) / len(rows),
        max(together.values()) / n_records,
        # The first task of a Python worker is slower: the better of both is nearer to the truth.
        min(row["update_s"] for row in rows),
        min(row["merge_s"] for row in rows),
    )


def tally(batches: Iterator[pa.RecordBatch], partials: Partials) -> Iterator[pa.RecordBatch]:
    """Yield what the first records of a partition tell: their keys, and what they cost."""
    table = next(chunks(batches, partials.schema, _SAMPLED), None)
    if table is None:
        return
    table = table.slice(0, _SAMPLED)
    keys = hash_keys(*[table.column(name) for name in partials.key])
    distinct, first, counts = np.unique(keys, return_index=True, return_counts=True)
    heaviest = np.argsort(-counts, kind="stable")[:_N_TOLD]
    half = keys.size // 2
    partials.update(table.slice(0, 64))  # what a class sets up once is not a cost of each record
    begin = time.perf_counter()
    partial = partials.update(table)
    updated = time.perf_counter()
    merged = updated
    if partials.merges:
        partials.merge([partial, partial])
        merged = time.perf_counter()
    told: dict[str, Any] = {
        "records": keys.size,
        "keys": distinct.size,
        "new": float((first >= half).sum() / max(1, keys.size - half)),
        "heaviest": distinct[heaviest].view(np.int64).tolist(),
        "counts": counts[heaviest].tolist(),
        "update_s": (updated - begin) / keys.size,
        "merge_s": (merged - updated) / (2 * max(1, partial.num_rows)),
    }
    yield pa.RecordBatch.from_pydict({name: [value] for name, value in told.items()})


def _is_narrow(plan: Any) -> bool:
    """Return whether a plan reads its source partition by partition, without a shuffle."""
    if plan.nodeName().split(" ")[0] not in _NARROW:
        return False
    children = plan.children()
    return all(_is_narrow(children.apply(number)) for number in range(children.length()))

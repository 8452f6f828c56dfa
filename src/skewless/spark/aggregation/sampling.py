"""What can be found out cheaply about the source of a batch: its partitions, a sample of keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql import functions as F

from skewless.spark.records import Records
from skewless.spark.worker_python import require_skewless

#: Records of a partition that the sample reads: one column of hashes.
_SAMPLED = 1 << 18
#: Keys that a partition lists with their counts. A hot key is among them.
_N_TOLD = 256
_TALLY = "records bigint, keys bigint, heaviest array<bigint>, counts array<bigint>"
#: Bytes below which a sample would take longer than combining the source in any form.
_SMALL_BYTES = 1 << 23
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


@dataclass(frozen=True)
class Source:
    """What is known about the records before they are read."""

    partitions: int
    slots: int  # tasks that can run at once
    records_per_key: float | None = None  # in the first records of a partition; None: not known
    top_share: float | None = None  # of the heaviest key in the sample

    def leaves_idle(self, workers: int) -> bool:
        """Return whether at least half of the tasks that could run at once have no partition."""
        return 2 * self.partitions <= min(workers, self.slots)


def known_source(records: Records, workers: int) -> Source | None:
    """Build the `Source` of a batch, from a sample if needed; None if finding out costs too much.

    The sample is one job of at most two tasks, and each reads at most 262,144 records.
    """
    df = records.df
    if not hasattr(df, "_jdf"):  # Spark Connect has no plans here
        return None
    query = df._jdf.queryExecution()
    plan = query.optimizedPlan()
    if not _is_narrow(plan):
        return None
    context = df.sparkSession.sparkContext
    partitions = int(query.toRdd().getNumPartitions())
    source = Source(partitions, context.defaultParallelism)
    is_small = int(str(plan.stats().sizeInBytes())) < _SMALL_BYTES
    if partitions == 0 or (is_small and not source.leaves_idle(workers)):
        return source
    require_skewless(df.sparkSession)
    hashes = df.select(F.xxhash64(*records.key.grouped).alias("key"))
    tallies = hashes.mapInArrow(tally, _TALLY)
    chosen = sorted({0, partitions // 2})
    rows: list[Row] = context.runJob(tallies.rdd, list, chosen)
    n_records = sum(row["records"] for row in rows)
    if n_records == 0:
        return source
    n_keys = sum(row["keys"] for row in rows)
    # Partitions may be sorted by key, so their heaviest keys may differ.
    together: Counter[int] = Counter()
    for row in rows:
        together.update(dict(zip(row["heaviest"], row["counts"], strict=True)))
    top = max(together.values())
    return Source(partitions, source.slots, n_records / n_keys, top / n_records)


def tally(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the number of records read, the number of their keys, and the heaviest keys."""
    read: list[Any] = []
    n_records = 0
    for batch in batches:
        read.append(batch.column(0).to_numpy(zero_copy_only=False))
        n_records += batch.num_rows
        if n_records >= _SAMPLED:
            break
    if n_records == 0:
        return
    keys, counts = np.unique(np.concatenate(read), return_counts=True)
    first = np.argsort(-counts, kind="stable")[:_N_TOLD]
    yield pa.RecordBatch.from_pydict(
        {
            "records": [n_records],
            "keys": [keys.size],
            "heaviest": [keys[first].tolist()],
            "counts": [counts[first].tolist()],
        }
    )


def _is_narrow(plan: Any) -> bool:
    """Return whether a plan reads its source partition by partition, without a shuffle."""
    if plan.nodeName().split(" ")[0] not in _NARROW:
        return False
    children = plan.children()
    return all(_is_narrow(children.apply(number)) for number in range(children.length()))

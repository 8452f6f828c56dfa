"""What can be found out cheaply about the source of a batch: its partitions, and a timed sample."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from skewless.keys import hash_keys
from skewless.spark.aggregation.asked import Asked
from skewless.spark.aggregation.partials import Partials
from skewless.spark.routing.planned.inputs import input_of

#: Records of the sample.
_SAMPLED = 1 << 14
#: Records on which the aggregators are timed: more of them, until it takes long enough.
_STEPS = (1 << 8, 1 << 11, _SAMPLED)
_ENOUGH_S = 0.05
#: Bytes below which no form saves as much as a sample takes, if no slot is idle.
_SMALL_BYTES = 1 << 26
_LOGGER = logging.getLogger("skewless")


class Sample(NamedTuple):
    """What a sample tells: shares are those of its records, times are seconds."""

    records: int
    keys_per_record: float
    new_keys: float  # share of records with a key that did not come before, at the end
    top_share: float  # of the heaviest key
    update_s: float  # to combine a record
    merge_s: float  # to merge a partial result
    partial_bytes: float  # of a partial result


@dataclass(frozen=True)
class Source:
    """What is known about the records before they are read."""

    partitions: int
    slots: int  # tasks that can run at once
    records: float = 0.0  # about, and rather too few
    sample: Sample | None = None


def known_source(asked: Asked, workers: int) -> Source | None:
    """Build the `Source` of a batch, from a sample if needed; None if finding out costs too much.

    The sample is the first 16,384 records. They come to the driver, which needs no Python process
    of Spark's for that. There is none if every slot has a partition, there are few bytes, and no
    state can grow large: then no form is better than "local".
    """
    df = asked.records.df
    # Spark Connect has no partitions here. What is not cheap would be computed twice.
    if not hasattr(df, "_jdf") or not input_of(df).is_cheap:
        return None
    query = df._jdf.queryExecution()
    plan = query.optimizedPlan()
    partitions = int(query.toRdd().getNumPartitions())
    n_bytes = int(str(plan.stats().sizeInBytes()))
    # Files are compressed, so there are more records than this.
    records = n_bytes / max(1, int(plan.schema().defaultSize()))
    source = Source(partitions, df.sparkSession.sparkContext.defaultParallelism, records)
    is_busy = partitions >= min(workers, source.slots)
    partials = asked.partials
    is_small = n_bytes < _SMALL_BYTES and all(
        _is_fixed(field.type) for fields in partials.states.values() for field in fields
    )
    if partitions == 0 or (is_busy and is_small):
        return source
    sent = df.select(*asked.sent(asked.records.key.grouped))
    table = sent.limit(_SAMPLED).toArrow().rename_columns(partials.schema.names)
    if not table.num_rows:
        return source
    try:
        return replace(source, sample=sample_of(table.cast(partials.schema), partials))
    except (
        Exception
    ) as error:  # of the user's class: the job will say where, and with which records
        _LOGGER.info("aggregate: the aggregators could not be timed on the driver: %s", error)
        return source


def _is_fixed(kind: pa.DataType) -> bool:
    """Return whether all values of a type take the same few bytes."""
    if pa.types.is_struct(kind):
        return all(_is_fixed(field.type) for field in kind)
    return pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)


def sample_of(table: pa.Table, partials: Partials) -> Sample:
    """Return what the first records tell: their keys, and what they cost."""
    keys = hash_keys(*[table.column(name) for name in partials.key])
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    half = keys.size // 2
    partials.update(table.slice(0, 64))  # what a class sets up once is not a cost of each record
    for n_records in _STEPS:
        part = table.slice(0, n_records)
        begin = time.perf_counter()
        partial = partials.update(part)
        updated = time.perf_counter()
        if updated - begin >= _ENOUGH_S or part.num_rows == table.num_rows:
            break
    merged = updated
    if partials.merges:
        partials.merge([partial, partial])
        merged = time.perf_counter()
    return Sample(
        records=keys.size,
        keys_per_record=counts.size / keys.size,
        new_keys=float((first >= half).sum() / max(1, keys.size - half)),
        top_share=float(counts.max() / keys.size),
        update_s=(updated - begin) / part.num_rows,
        merge_s=(merged - updated) / (2 * max(1, partial.num_rows)),
        partial_bytes=partial.nbytes / max(1, partial.num_rows),
    )

"""`deduplicate`: the first record of each key within a span of event time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from skewless.aggregations.columns import in_order
from skewless.arrays import Ints, Words
from skewless.plumbing.compiling import kernel
from skewless.spark.records import Key, Records
from skewless.spark.state.arguments import Placement, event_time, span
from skewless.spark.state.operators import held_rows
from skewless.spark.state.operators.held_rows import ByKeyAndTime, held
from skewless.spark.state.process import processed
from skewless.spark.state.processor import KeyedRecords, Processor, Update
from skewless.spark.state.versions.state_tables import NO_TIME, Flags, earlier, later, micros_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


def deduplicate(
    df: DataFrame,
    key: Key,
    *,
    within: str,
    watermark: tuple[str, str] | None = None,
    late_column: str | None = None,
    **placement: Unpack[Placement],
) -> DataFrame:
    """Return the records without those that repeat a key within a span of event time.

    A record is left out if a returned record of the same key is at most `within` before or after
    it. Micro-batches are taken in order, and the records of a micro-batch, or of a batch DataFrame,
    in the order of their times. Null is a key like any other. A record without a time is always
    returned.

    A time is remembered until the watermark is `within` later. Spark's
    `dropDuplicatesWithinWatermark` leaves out the same records if duplicates are never further
    apart than the delay. Otherwise it also leaves out some that are further apart, depending on how
    the stream is cut into micro-batches.

    Parameters
    ----------
    df
        The records, a stream or a batch DataFrame.
    key
        The name of a column, a Column, or several of them.
    within
        How far apart two records of a key may be to count as one: "1 hour".
    watermark
        The column of event time, and how late a record may be: ("ts", "10 minutes"). Later records
        are dropped.
    late_column
        The name of one more column of the result, with late records as structs: as for `process`.
    placement
        How keys are placed, the `ledger`, `batch_column` etc.: as for `process`.

    Examples
    --------
    >>> orders = spark.range(3).selectExpr("id % 2 as order", "timestamp_seconds(600 * id) as ts")
    >>> found = deduplicate(orders, "order", within="1 day", watermark=("ts", "1 hour"), workers=2)
    >>> [row.order for row in found.sort("ts").collect()]
    [0, 1]
    """
    records = Records.with_names(df)
    time, _ = event_time(records, watermark, "deduplicate")
    processor = Deduplicate(records.schema, time, span(within, "within"))
    return processed(records.by(key), processor, placement, watermark, late_column=late_column)


class Deduplicate(Processor):
    """Keeps the times of returned records for as long as another record may be too near."""

    state_schema = "times array<bigint>, expires timestamp"

    def __init__(self, schema: StructType, time: str, within: int) -> None:
        self.result_schema = schema
        self.time = time
        self.within = within

    def update(self, keyed: KeyedRecords) -> Update:
        """Return the records that are not near a returned one."""
        codes, times = keyed.positions, micros_of(keyed.records[self.time])
        before, owners = held(keyed, "times")
        before = before.to_numpy(zero_copy_only=False)
        near = ByKeyAndTime(owners, before).has(
            codes, earlier(times, self.within), later(times, self.within)
        )
        left = np.flatnonzero(~near & (times != NO_TIME))
        left = left[in_order(codes[left], times[left])]
        chosen = np.empty(left.size, np.bool_)
        _first_of_spans(codes[left], times[left].view(np.uint64), np.uint64(self.within), chosen)
        kept = left[chosen]
        new = times[kept]
        stays = times == NO_TIME
        stays[kept] = True
        states = self._states(
            np.concatenate([before, new]), np.concatenate([owners, codes[kept]]), len(keyed)
        )
        return Update(keyed.records.filter(pa.array(stays)), states)

    def on_expiry(self, keyed: KeyedRecords) -> Update:
        """Forget times to which no further record can be near."""
        times, codes = held(keyed, "times")
        times = times.to_numpy(zero_copy_only=False)
        stays = later(times, self.within) > held_rows.watermark_of(keyed)
        return Update(None, self._states(times[stays], codes[stays], len(keyed)))

    def _states(self, times: Ints, codes: Ints, n_keys: int) -> pa.StructArray:
        fields = {"times": (pa.array(times, pa.int64()), codes)}
        return held_rows.states_of(fields, later(times, self.within), codes, n_keys)


@kernel
def _first_of_spans(codes: Ints, times: Words, within: np.uint64, out: Flags) -> None:
    """Choose a record, then the next one of the same key that is more than `within` later, etc.

    Records are in the order of key and time. Differences of unsigned numbers do not overflow.
    """
    last = np.uint64(0)
    for i in range(codes.size):
        out[i] = i == 0 or codes[i] != codes[i - 1] or times[i] - last > within
        if out[i]:
            last = times[i]

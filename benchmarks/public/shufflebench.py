"""ShuffleBench: records go to all consumers whose rules they fulfil; each consumer has a state.

Records have 1 KB, and rules say which consumers get each of them.
The consumer is a black box: its states cannot be merged, so every record of a consumer must go to
the one worker that has the state.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row

from benchmarks.public.both_ways import Query
from benchmarks.streams import write_files
from skewless.arrays import Floats, Ints
from skewless.spark import KeyProcessor, process

#: The columns of the files, as Spark spells a schema.
RECORD = "id bigint, value binary"
#: The columns of each folder.
SCHEMAS = {"records": RECORD}
#: A consumer emits a result after every this many records.
EVERY = 10

_RESULT = "consumer bigint, n bigint, checksum bigint"
_STATE = "n bigint, held binary"
_FIELDS = 4  # numbers of eight bytes at the beginning of a record, which the rules look at
_HEAD = 8 * _FIELDS


@dataclass(frozen=True)
class Rules:
    """One rule per consumer: a number of the record is in the consumer's range.

    The ranges of the rules differ in width by Zipf's law, so a few consumers get most records. A
    record begins with four numbers, and a rule looks at one of them; ranges of the same number do
    not overlap. So a record has up to four consumers.
    """

    n_consumers: int = 1_000_000  # how many consumers there are, from 0; consumer 0 gets the most
    z: float = 1.0  # the exponent
    matches: float = 1.5  # how many consumers a record has on average

    def selectivities(self) -> Floats:
        """Return the share of all records that each consumer gets."""
        weights = np.arange(1, self.n_consumers + 1, dtype=np.float64) ** -self.z
        shares: Floats = weights / weights.sum() * self.matches
        return shares

    def match(self, values: pa.Array) -> tuple[Ints, Ints]:
        """Return all pairs of a record and a consumer whose rule it fulfils."""
        heads = b"".join(pc.binary_slice(values, 0, _HEAD).to_pylist())
        # 53 bits are what a float has: no number is rounded up to 1.
        numbers = (np.frombuffer(heads, "<u8").reshape(-1, _FIELDS) >> np.uint64(11)) * 2.0**-53
        shares = self.selectivities()
        rows, consumers = [], []
        for field in range(_FIELDS):
            ends = np.cumsum(shares[field::_FIELDS])
            places = np.searchsorted(ends, numbers[:, field], "right")
            found = np.flatnonzero(places < ends.size)
            rows.append(found)
            consumers.append(places[found] * _FIELDS + field)
        return np.concatenate(rows), np.concatenate(consumers)


@dataclass(frozen=True)
class ShuffleRecords:
    """Records of random bytes; the same seed makes the same files."""

    n_records: int = 400_000  # records in all
    n_batches: int = 4  # micro-batches into which they are cut
    record_bytes: int = 1024  # the size of a record, and of the largest state
    seed: int = 0  # of all bytes

    def records(self, batch: int) -> pa.Table:
        begin, end = (self.n_records * i // self.n_batches for i in (batch, batch + 1))
        rng = np.random.default_rng([self.seed, batch])
        content = rng.bytes((end - begin) * self.record_bytes)
        values: Any = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(self.record_bytes), end - begin, [None, pa.py_buffer(content)]
        )
        return pa.table({"id": np.arange(begin, end), "value": values.cast(pa.binary())})

    def write(self, folder: Path) -> None:
        """Write the folder `records`, one file per micro-batch."""
        write_files(folder / "records", (self.records(i) for i in range(self.n_batches)))


def consume(
    consumer: int, n: int, held: bytes | None, values: Sequence[bytes]
) -> tuple[list[tuple[int, int]], int, bytes]:
    """Return the pairs that a consumer emits, and its new state: a number and some bytes.

    The state has 32 bytes to 1 KB, by the consumer. Each record changes all of it, and the order
    of records matters.
    """
    size = 32 << consumer % 6
    state = np.zeros(size, np.uint8) if held is None else np.frombuffer(held, np.uint8)
    emitted = []
    for value in values:
        state = state * np.uint8(31) + np.frombuffer(value, np.uint8, size)
        n += 1
        if n % EVERY == 0:
            emitted.append((n, zlib.crc32(state)))
    return emitted, n, state.tobytes()


def matched(records: DataFrame, rules: Rules) -> DataFrame:
    """Return one row per record and consumer that gets it."""

    def match(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows, consumers = rules.match(batch["value"])
            chosen = batch.take(pa.array(rows))
            columns = [pa.array(consumers, pa.int64()), chosen["id"], chosen["value"]]
            yield pa.RecordBatch.from_arrays(columns, ["consumer", "id", "value"])

    return records.mapInArrow(match, f"consumer bigint, {RECORD}")


def plain(streams: Sequence[DataFrame], rules: Rules) -> DataFrame:
    """Group by consumer, and keep the states in Spark's state store."""
    grouped = matched(streams[0], rules).groupBy("consumer")
    return grouped.transformWithState(_spark_processor(), _RESULT, "Append", "None")


def _spark_processor() -> Any:
    """Return the black box for `transformWithState`, by rows."""
    from pyspark import cloudpickle
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    # Spark's driver worker cannot import this module.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

    class Held(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.held = handle.getValueState("held", _STATE)

        def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Iterator[Row]:  # noqa: N802
            n, held = self.held.get() if self.held.exists() else (0, None)
            records = sorted(rows, key=lambda row: row["id"])  # a shuffle keeps no order
            values = [row["value"] for row in records]
            emitted, n, held = consume(int(key[0]), n, held, values)
            self.held.update((n, held))
            for number, checksum in emitted:
                yield Row(consumer=key[0], n=number, checksum=checksum)

        def close(self) -> None: ...

    return Held()


class Consumers(KeyProcessor):
    """The same black box for `process`."""

    state_schema = _STATE
    result_schema = _RESULT

    def update_key(
        self,
        key: Any,
        records: Sequence[Any],
        state: dict[str, Any] | None,
        watermark: datetime | None,
    ) -> tuple[list[dict[str, int]], dict[str, Any]]:
        """Hand the records to the consumer."""
        n, held = (state["n"], state["held"]) if state else (0, None)
        values = [record["value"] for record in records]
        emitted, n, held = consume(key["consumer"], n, held, values)
        rows = [{"n": number, "checksum": checksum} for number, checksum in emitted]
        return rows, {"n": n, "held": held}


def ours(streams: Sequence[DataFrame], ledger: str | None, rules: Rules) -> DataFrame:
    """Process by consumer: states live on workers, and move when loads are uneven."""
    found = matched(streams[0], rules)
    return process(found, "consumer", Consumers(), order_by="id", ledger=ledger)


def shufflebench(rules: Rules | None = None) -> Query:
    """Return the query for these rules."""
    chosen = Rules() if rules is None else rules
    return Query(
        ("records",),
        "ShuffleBench",
        f"every {EVERY}th state of {chosen.n_consumers:,} consumers",
        lambda streams: plain(streams, chosen),
        lambda streams, ledger: ours(streams, ledger, chosen),
        "transformWithState",
        "process",
    )

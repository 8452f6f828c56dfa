"""ShuffleBench: records go to all consumers whose rules they fulfil; each consumer has a state.

The consumer is a black box: its states cannot be merged, so every record of a consumer must go to
the one worker that has the state.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from benchmarks.public.both_ways import APPLY, ROCKSDB, TRANSFORM, Query, missing_for_transform
from benchmarks.public.shuffle_records import RECORD, Rules
from skewless.spark import KeyProcessor, process

#: The columns of each folder.
SCHEMAS = {"records": RECORD}
#: A consumer emits a result after every this many records.
EVERY = 10

_RESULT = "consumer bigint, n bigint, checksum bigint"
_STATE = "n bigint, held binary"


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


def plain(streams: Sequence[DataFrame], rules: Rules, operator: str = TRANSFORM) -> DataFrame:
    """Group by consumer, and keep the states in Spark's state store."""
    grouped = matched(streams[0], rules).groupBy("consumer")
    if operator == TRANSFORM:
        return grouped.transformWithState(_spark_processor(), _RESULT, "Append", "None")
    return grouped.applyInPandasWithState(
        _apply, _RESULT, _STATE, "append", GroupStateTimeout.NoTimeout
    )


def _spark_processor() -> Any:
    """Return the black box for `transformWithState`, by rows."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

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

        def close(self) -> None:
            return None

    return Held()


def _apply(
    key: tuple[int, ...], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    n, held = state.get if state.exists else (0, None)
    records = pd.concat(list(frames)).sort_values("id")  # a shuffle keeps no order
    emitted, n, held = consume(int(key[0]), n, held, records["value"].tolist())
    state.update((n, held))
    rows = [(key[0], number, checksum) for number, checksum in emitted]
    yield pd.DataFrame(rows, columns=["consumer", "n", "checksum"])


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


def shufflebench(rules: Rules | None = None, operator: str | None = None) -> Query:
    """Return the query for these rules, and for an operator of Spark.

    The operator is `transformWithState`, which is faster, or `applyInPandasWithState`. None: the
    former if it can run.
    """
    chosen = Rules() if rules is None else rules
    if operator is None:
        operator = TRANSFORM if missing_for_transform() is None else APPLY
    elif operator not in (TRANSFORM, APPLY):
        raise ValueError(f"operator must be {TRANSFORM!r} or {APPLY!r}, not {operator!r}")
    return Query(
        ("records",),
        "ShuffleBench",
        f"every {EVERY}th state of {chosen.n_consumers:,} consumers",
        lambda streams: plain(streams, chosen, operator),
        lambda streams, ledger: ours(streams, ledger, chosen),
        operator,
        "process",
        plain_settings=ROCKSDB if operator == TRANSFORM else {},
    )

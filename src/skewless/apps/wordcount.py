"""Word count on one's own records: as a batch or as a stream, in windows or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampNTZType, TimestampType

from skewless import aggregations
from skewless.apps.inputs import is_remote
from skewless.apps.streams import finish
from skewless.spark import Window, aggregate
from skewless.spark.aggregation.windows import microseconds
from skewless.spark.routing.route import DEFAULT_STRATEGY
from skewless.strategy import AnyStrategy

_OURS = (".parquet", ".crc", "_SUCCESS")


@dataclass(frozen=True)
class WordCount:
    """How many records each key has, or each window and key.

    Parameters
    ----------
    key
        The columns that are the key.
    strategy
        How the records are routed.
    workers
        The number of workers; None: Spark's number of shuffle partitions.
    time, window
        The column with the time of a record, and the length of a window; None: no windows.
    watermark
        How late a record of a stream may be.
    seed
        Of the routing; None: see `aggregate`.
    """

    key: tuple[str, ...]
    strategy: str | AnyStrategy = DEFAULT_STRATEGY
    workers: int | None = None
    time: str | None = None
    window: str | None = None
    watermark: str | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if not self.key or not all(self.key):
            raise ValueError(f"--key must name at least one column, not {','.join(self.key)!r}")
        if (self.time is None) != (self.window is None):
            raise ValueError("--window and --time go together: a length, and the column of times")
        if self.watermark is not None and self.window is None:
            raise ValueError("--watermark goes with --window and --time")
        for option, text in (("--window", self.window), ("--watermark", self.watermark)):
            if text is not None:
                _require_duration(option, text, least=1 if option == "--window" else 0)

    @property
    def result(self) -> str:
        """The name of the column with the counts."""
        return "count" if "count" not in self.key else "n"

    @property
    def mode(self) -> str:
        """How a stream of counts is written.

        With a watermark, every window once, when it is complete; else all counts, again and again.
        """
        return "complete" if self.watermark is None else "append"

    def of(self, records: DataFrame, ledger: str | None = None) -> DataFrame:
        """Return the counts."""
        if self.time is not None and self.time in records.columns:
            kind = records.schema[self.time].dataType
            if not isinstance(kind, TimestampType | TimestampNTZType):
                records = records.withColumn(self.time, F.col(f"`{self.time}`").cast("timestamp"))
        return aggregate(
            records,
            list(self.key),
            {self.result: aggregations.count()},
            window=None if self.time is None else Window(self.time, str(self.window)),
            watermark=self.watermark if records.isStreaming else None,
            strategy=self.strategy,
            workers=self.workers,
            seed=self.seed,
            ledger=ledger,
        )

    def top(self, counts: DataFrame, n: int) -> DataFrame:
        """Return the largest counts."""
        names = [name for name in counts.columns if name != self.result]
        order = [F.desc(f"`{self.result}`"), *(F.asc(f"`{name}`") for name in names)]
        return counts.orderBy(*order).limit(n)

    def stream(
        self,
        records: DataFrame,
        output: str,
        checkpoint: str,
        progress: Callable[[int], None] = lambda done: None,
    ) -> None:
        """Count a stream until there is nothing left to read; the counts go to `output`, Parquet.

        A later run with the same checkpoint goes on where this one ended. The ledger lies beside
        the checkpoint. `progress` is told the number of micro-batches that are done.
        """
        counts = self.of(records, ledger=ledger_beside(checkpoint))
        complete = self.mode == "complete"

        def write(rows: DataFrame, batch: int) -> None:
            # A batch that is run again replaces what it has written before.
            where = output if complete else f"{output}/batch={batch}"
            rows.write.mode("overwrite").parquet(where)
            progress(batch + 1)

        finish(
            counts.writeStream.outputMode(self.mode)
            .option("checkpointLocation", checkpoint)
            .foreachBatch(write)
            .trigger(availableNow=True)
        )


def ledger_beside(checkpoint: str) -> str:
    """Return the folder of the ledger that goes with a checkpoint.

    >>> ledger_beside("s3a://bucket/words/")
    's3a://bucket/words.ledger'
    """
    return checkpoint.rstrip("/") + ".ledger"


def require_writable(output: str, going_on: bool) -> None:
    """Raise ValueError where results would overwrite what is not ours; as far as can be seen.

    `going_on` says that an earlier run of the same stream has written there already.
    """
    path = Path(output)
    if is_remote(output) or not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not going_on:
        raise ValueError(f"--output: {output!r} exists already; give another path or remove it")
    strange = [
        file
        for file in path.rglob("*")
        if not file.name.endswith(_OURS) and not (file.is_dir() and "batch=" in file.name)
    ]
    if not path.is_dir() or strange:
        raise ValueError(f"--output: {output!r} holds other things than counts of an earlier run")


def _require_duration(option: str, text: str, least: int) -> None:
    try:
        length = microseconds(text)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
    if length < least:
        raise ValueError(f"{option} must be {'above' if least else 'at least'} 0, not {text!r}")

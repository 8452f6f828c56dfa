"""Measure sources that learn together, in the simulator and on Spark; write the table."""

import tempfile
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import typer
from pyspark.sql import SparkSession

from benchmarks.tables import LEARNING_TOGETHER, write_learning_together
from skewless.experiments.learning_together import (
    N_SOURCES,
    N_WORKERS,
    SEED,
    measure,
    measured,
    micro_batches,
    systems,
)
from skewless.experiments.tables import Row, write_records
from skewless.spark import route, session


def write_batches(folder: Path) -> None:
    """Write the stream as files: as many of each micro-batch as there are sources."""
    folder.mkdir()
    for number, keys in enumerate(chain.from_iterable(micro_batches())):
        table = pa.table({"key": keys, "number": np.full(keys.size, number)})
        pyarrow.parquet.write_table(table, folder / f"{number:06}.parquet")


def measure_on_spark(spark: SparkSession, names: Sequence[str]) -> Iterator[Row]:
    """Yield one raw record per strategy: eight files a micro-batch, and a ledger."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_batches(root / "in")
        for name in names:
            out = root / name
            stream = (
                spark.readStream.schema("key long, number long")
                .option("maxFilesPerTrigger", N_SOURCES)
                .parquet(str(root / "in"))
            )
            ledger = str(out / "ledger")
            query = (
                route(stream, "key", workers=N_WORKERS, strategy=name, ledger=ledger, seed=SEED)
                .writeStream.format("parquet")
                .option("checkpointLocation", str(out / "checkpoint"))
                .trigger(availableNow=True)
                .start(str(out / "out"))
            )
            query.awaitTermination()
            found = pyarrow.parquet.read_table(out / "out").to_pandas()
            batches = found.number // N_SOURCES  # files are read in the order of their numbers
            yield measured(name, "on Spark", *map(np.asarray, (found.key, found.worker, batches)))


def main() -> None:
    """Measure sources that learn together, in the simulator and on Spark; write the table."""
    names = systems()
    records = list(measure(names))
    settings = {"spark.sql.files.openCostInBytes": str(1 << 30)}  # a file is a source
    spark = session("learning together", master="local[2]", settings=settings)
    records += measure_on_spark(spark, names)
    spark.stop()
    write_records(LEARNING_TOGETHER, records)
    print(f"raw records: {LEARNING_TOGETHER}")
    write_learning_together()


if __name__ == "__main__":
    typer.run(main)

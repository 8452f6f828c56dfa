"""Sources that learn together: alone, merged, many of them, with delay, and on Spark.

Balance is that of a micro-batch. Over the whole stream, workers that are overloaded in turn would
look balanced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from pyspark.sql import DataFrame, SparkSession

from benchmarks.records import BENCHMARKS, Report, Row, markdown
from benchmarks.streams import write_files
from benchmarks.turns import file_stream, run_to_end, spark_and_folder
from skewless import metrics, registry
from skewless.arrays import Ints, Keys
from skewless.keys import hash_keys
from skewless.simulator import Sync, simulate
from skewless.simulator.syncing import MicroBatches
from skewless.spark import route
from skewless.strategy import Merges
from skewless.workloads import Zipf

N_WORKERS = 32
N_SOURCES = 8
STREAM = Zipf(z=1.4, n_keys=100_000, n_records=1_000_000)
SEED = 3
#: Records of the micro-batches, in turn.
UNEVEN = (1, 40_000, 7, 100_003, 25_000, 60_001)
_DELAY = 500  # rounds: each source routes this many records while a message is under way
_WINDOW = 40_000  # records that are judged together where there are no micro-batches

#: By name: the sources of the micro-batches, in turn.
MERGED = {
    "one source": (1,),
    "merged": (N_SOURCES,),
    "8 and 1 in turn": (N_SOURCES, 1),
    "16 sources": (16,),
    "64 sources": (64,),
}
VARIANTS = ("one source", "alone", *list(MERGED)[1:], "with delay", "on Spark")


def systems() -> list[str]:
    """Return the names of the strategies whose sources can learn together."""
    return [name for name in registry.names() if isinstance(registry.make(name), Merges)]


def measure(names: Sequence[str], stream: Zipf = STREAM) -> Iterator[Row]:
    """Yield one raw record per strategy and way of learning, without Spark."""
    for name in names:
        strategy = registry.make(name)
        yield _by_micro_batch(strategy, "alone", stream, (N_SOURCES,), merging=False)
        for variant, in_turn in MERGED.items():
            yield _by_micro_batch(strategy, variant, stream, in_turn)
        if strategy.traits.decides == "record":
            yield _with_delay(strategy, stream)


def micro_batches(
    stream: Zipf = STREAM, in_turn: Sequence[int] = (N_SOURCES,)
) -> Iterator[list[Ints]]:
    """Yield the keys of each source in each micro-batch: uneven, and some have none.

    They are ranks, not hashes: Spark hashes keys itself. Hashing twice would make another stream,
    whose cold keys share other workers.
    """
    keys = np.concatenate(list(stream.ranks(SEED)))
    begin = number = 0
    while begin < keys.size:
        batch = keys[begin : begin + UNEVEN[number % len(UNEVEN)]]
        n_sources = in_turn[number % len(in_turn)]
        yield [batch[source::n_sources] for source in range(n_sources)]
        begin += batch.size
        number += 1


def _by_micro_batch(
    strategy: Any, variant: str, stream: Zipf, in_turn: Sequence[int], *, merging: bool = True
) -> Row:
    sources = MicroBatches(strategy, N_WORKERS, SEED, merging=merging)
    keys, workers, batches = [], [], []
    for number, batch in enumerate(micro_batches(stream, in_turn)):
        hashed: list[Keys] = [hash_keys(part) for part in batch]
        workers += sources.route(hashed)
        keys += hashed
        batches.append(np.full(sum(part.size for part in batch), number))
    return measured(
        strategy.name, variant, *(np.concatenate(parts) for parts in (keys, workers, batches))
    )


def measured(name: str, variant: str, keys: Any, workers: Any, batches: Any) -> Row:
    """Build a raw record from the key, the worker and the micro-batch of every record.

    The imbalance is the mean over the records, each with that of its micro-batch. A micro-batch of
    one record cannot be balanced, and hardly counts.
    """
    loads = np.zeros((int(batches.max()) + 1, N_WORKERS), np.int64)
    np.add.at(loads, (batches, workers), 1)
    sizes = loads.sum(axis=1)
    found = [metrics.imbalance(row) if row.any() else 0.0 for row in loads]
    _, index = np.unique(keys, return_inverse=True)
    n_pairs = np.unique(index * N_WORKERS + workers).size
    imbalance = float(np.average(found, weights=sizes))
    return record(name, variant, imbalance, n_pairs / (int(index.max()) + 1))


def record(name: str, variant: str, imbalance: float, replication: float | None) -> Row:
    """Return a raw record."""
    return {
        "strategy": name,
        "variant": variant,
        "imbalance": imbalance,
        "replication": replication,
    }


def _with_delay(strategy: Any, stream: Zipf) -> Row:
    """Build the raw record of Dalton's protocol: messages take time, and the interval adapts."""
    run = simulate(
        strategy,
        stream,
        n_workers=N_WORKERS,
        n_sources=N_SOURCES,
        seed=SEED,
        window=_WINDOW,
        sync=Sync(
            interval=2_000 * N_SOURCES,
            delay=_DELAY * N_SOURCES,
            adaptive=True,
            shortest=500 * N_SOURCES,
        ),
    ).summary()
    return record(strategy.name, "with delay", run["window_imbalance_mean"], run["replication"])


def _keep(written: list[pa.Table], df: DataFrame, batch: int) -> None:
    written.append(df.toArrow())


def measure_on_spark(spark: SparkSession, root: Path, names: Sequence[str]) -> Iterator[Row]:
    """Yield one raw record per strategy: a file per source in each micro-batch, and a ledger."""
    parts = enumerate(chain.from_iterable(micro_batches()))
    tables = (pa.table({"key": keys, "number": np.full(keys.size, n)}) for n, keys in parts)
    write_files(root / "in", tables)
    for name in names:
        stream = file_stream(spark, "key long, number long", root / "in", N_SOURCES)
        ledger = str(root / name / "ledger")
        routed = route(stream, "key", workers=N_WORKERS, strategy=name, ledger=ledger, seed=SEED)
        written: list[pa.Table] = []
        run_to_end(routed, root / name, write=partial(_keep, written))
        found = pa.concat_tables(written).to_pandas()
        batches = found.number // N_SOURCES  # files are read in the order of their numbers
        yield measured(name, "on Spark", *map(np.asarray, (found.key, found.worker, batches)))


def table(records: Sequence[Row]) -> str:
    """Return a row per strategy: imbalance of a micro-batch and replicas per key of each way."""
    cells = {(r["strategy"], r["variant"]): r for r in records}
    names = dict.fromkeys(r["strategy"] for r in records)
    rows = []
    for name in names:
        row: list[object] = [f"`{name}`"]
        for variant in VARIANTS:
            cell = cells.get((name, variant))
            if cell is None:
                row.append("")
            elif cell["replication"] is None:
                row.append(f"{cell['imbalance']:.2g}")
            else:
                row.append(f"{cell['imbalance']:.2g} / {cell['replication']:.3f}")
        rows.append(row)
    headings = (
        "strategy",
        "one source",
        f"{N_SOURCES} sources alone",
        f"{N_SOURCES} merged",
        *list(MERGED)[2:],
        "messages with delay",
        f"{N_SOURCES} on Spark",
    )
    return markdown(headings, rows)


REPORT = Report("on_spark/learning_together.jsonl", {(BENCHMARKS, "learning together"): table})


def main() -> None:
    """Measure sources that learn together, in the simulator and on Spark; write the table."""
    names = systems()
    settings = {"spark.sql.files.openCostInBytes": str(1 << 30)}  # a file is a source
    with spark_and_folder("learning together", settings=settings) as (spark, folder):
        REPORT.write([*measure(names), *measure_on_spark(spark, folder, names)])


if __name__ == "__main__":
    typer.run(main)

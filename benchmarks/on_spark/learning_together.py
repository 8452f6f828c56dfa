"""Sources that learn together: alone, merged often, by a protocol with delay, and on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import typer
from pyspark.sql import DataFrame, SparkSession

from benchmarks.on_spark.turns import file_stream, run_to_end, spark_and_folder
from benchmarks.records import BENCHMARKS, Report, Row, markdown
from benchmarks.streams import write_files
from skewless import metrics, registry
from skewless.arrays import Ints
from skewless.simulator import Sync, simulate
from skewless.spark import route
from skewless.strategy import Merges
from skewless.workloads import Zipf

N_WORKERS = 32
N_SOURCES = 8
STREAM = Zipf(z=1.4, n_keys=100_000, n_records=1_000_000)
SEED = 3
#: Records of the micro-batches on Spark, in turn.
UNEVEN = (1, 40_000, 7, 100_003, 25_000, 60_001)
_SYNC = 10_007  # a prime: no window or epoch of a strategy ends where a merge happens
_DELAY = 500  # rounds: each source routes this many records while a message is under way

VARIANTS = ("one source", "alone", "merged", "with delay", "on Spark")


def systems() -> list[str]:
    """Return the names of the strategies whose sources can learn together."""
    return [name for name in registry.names() if isinstance(registry.make(name), Merges)]


def measure(names: Sequence[str], stream: Zipf = STREAM) -> Iterator[Row]:
    """Yield one raw record per strategy and way of learning, without Spark."""
    # Dalton's protocol: messages take time, and the interval adapts.
    protocol = Sync(
        interval=2_000 * N_SOURCES,
        delay=_DELAY * N_SOURCES,
        adaptive=True,
        shortest=500 * N_SOURCES,
    )
    ways: tuple[tuple[str, int, int | Sync], ...] = (
        ("one source", 1, 0),
        ("alone", N_SOURCES, 0),
        ("merged", N_SOURCES, _SYNC),
        ("with delay", N_SOURCES, protocol),
    )
    for name in names:
        strategy = registry.make(name)
        for variant, n_sources, sync in ways:
            if variant == "with delay" and strategy.traits.decides != "record":
                continue
            sources: Row = {"n_sources": n_sources, "sync": sync}
            run = simulate(strategy, stream, n_workers=N_WORKERS, seed=SEED, **sources).summary()
            found = {number: run[number] for number in ("imbalance", "replication")}
            yield {"strategy": name, "variant": variant, **found}


def micro_batches(stream: Zipf = STREAM) -> Iterator[list[Ints]]:
    """Yield the keys of each source in each micro-batch on Spark: uneven, and some have none.

    They are ranks, not hashes: Spark hashes keys itself. Hashing twice would make another stream,
    whose cold keys share other workers.
    """
    keys = np.concatenate(list(stream.ranks(SEED)))
    begin = number = 0
    while begin < keys.size:
        batch = keys[begin : begin + UNEVEN[number % len(UNEVEN)]]
        yield [batch[source::N_SOURCES] for source in range(N_SOURCES)]
        begin += batch.size
        number += 1


def _keep(written: list[pa.Table], df: DataFrame, batch: int) -> None:
    written.append(df.toArrow())


def measure_on_spark(spark: SparkSession, root: Path, names: Sequence[str]) -> Iterator[Row]:
    """Yield one raw record per strategy: a file per source in each micro-batch, and a ledger."""
    tables = (pa.table({"key": keys}) for keys in chain.from_iterable(micro_batches()))
    write_files(root / "in", tables)
    for name in names:
        stream = file_stream(spark, "key long", root / "in", N_SOURCES)
        ledger = str(root / name / "ledger")
        routed = route(stream, "key", workers=N_WORKERS, strategy=name, ledger=ledger, seed=SEED)
        written: list[pa.Table] = []
        run_to_end(routed, root / name, write=partial(_keep, written))
        found = pa.concat_tables(written).to_pandas()
        loads = np.bincount(found.worker, minlength=N_WORKERS)
        pairs = found.drop_duplicates(["key", "worker"])
        numbers = {
            "imbalance": metrics.imbalance(loads),
            "replication": len(pairs) / pairs.key.nunique(),
        }
        yield {"strategy": name, "variant": "on Spark", **numbers}


def table(records: Sequence[Row]) -> str:
    """Return a row per strategy: imbalance and replicas per key of each way."""
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
    alone = f"one source | {N_SOURCES} sources alone | merged every {_SYNC:,} records"
    headings = f"strategy | {alone} | messages with delay | on Spark, uneven batches"
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

"""Sources that learn together: alone, merged, many of them, with delay, and on Spark.

The systems on Spark are compared with the simulator: the same sources, the same micro-batches, the
same changes of the workers.

Balance is that of a micro-batch. Over the whole stream, workers that are overloaded in turn would
look balanced.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from pyspark.sql import DataFrame, SparkSession

from benchmarks.on_spark.sleeping import SETTINGS, Job, on_spark, simulated
from benchmarks.records import BENCHMARKS, Report, Row, markdown
from benchmarks.streams import write_files
from benchmarks.turns import file_stream, run_to_end, spark_and_folder, timed
from skewless import metrics, registry
from skewless.arrays import Floats, Ints, Keys
from skewless.keys import hash_keys
from skewless.simulator import Sync, simulate
from skewless.simulator.syncing import MicroBatches
from skewless.spark import route, scale_to
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
    "256 sources": (256,),
}
VARIANTS = ("one source", "alone", *list(MERGED)[1:], "with delay")
#: In the middle of the stream: the micro-batch from which on there are so many workers.
CHANGES = {9: 12, 18: 20}
RESCALED = "16 → 12 → 20 workers"
#: What runs in the simulator and on Spark: the sources, the first workers and their changes.
Setting = tuple[tuple[int, ...], int, dict[int, int]]
BOTH: dict[str, Setting] = {
    "merged": ((N_SOURCES,), N_WORKERS, {}),
    "8 and 1 in turn": ((N_SOURCES, 1), N_WORKERS, {}),
    RESCALED: ((N_SOURCES,), 16, CHANGES),
}
ON_SPARK = ", on Spark"
#: Mixed's algorithms: their sources share one plan, so it does not matter how many there are. They
#: split no key, so no key of their stream may be too much for a worker. It is shorter, and so are
#: the times between changes of the workers.
MOVING = ("mixed", "min-table", "min-mig")
MILD = 0.8
SHORT = Zipf(z=MILD, n_keys=30_000, n_records=sum(UNEVEN))
SOONER = {2: 12, 4: 20}
#: Half of the workers take twice as long: small, because the work of records is on Spark, too.
SLOW = Job(
    Zipf(z=1.4, n_keys=1_000, n_records=9_600), 1_600, n_workers=8, n_sources=N_SOURCES, slowed=2.0
)
HALF_SLOW = "half of the workers slow"
#: The same, where FISH does not use what the workers report.
NOT_TOLD = f"{HALF_SLOW}, times not used"


def systems() -> list[str]:
    """Return the names of the strategies whose sources can learn together."""
    return [name for name in registry.names() if isinstance(registry.make(name), Merges)]


def settings_of(name: str) -> dict[str, Setting]:
    """List what runs in the simulator and on Spark, by variant."""
    if name not in MOVING:
        return BOTH
    return BOTH | {RESCALED: (*BOTH[RESCALED][:2], SOONER)}


def measure(names: Sequence[str], stream: Zipf | None = None) -> Iterator[Row]:
    """Yield one raw record per strategy and way of learning, without Spark."""
    together: dict[str, Setting] = {
        variant: (in_turn, N_WORKERS, {}) for variant, in_turn in MERGED.items()
    }
    ways = {"alone": together["merged"], **together, RESCALED: BOTH[RESCALED]}
    for name in names:
        strategy = registry.make(name)
        keys = stream or stream_of(name)
        for variant, setting in settings_of(name).items() if name in MOVING else ways.items():
            yield _by_micro_batch(strategy, variant, keys, setting)
        if isinstance(strategy, Merges) and strategy.traits.decides == "record":
            yield _with_delay(strategy, keys)


def stream_of(name: str) -> Zipf:
    """Return the stream of a strategy."""
    return SHORT if name in MOVING else STREAM


def measure_slow(
    names: Sequence[str], spark: SparkSession | None = None, root: Path = Path()
) -> Iterator[Row]:
    """Yield a raw record per strategy with half of the workers slow, on Spark if there is one.

    The imbalance is that of the time that workers take, not that of their records.
    """
    for name in names:
        for variant in (HALF_SLOW, NOT_TOLD) if name == "fish" else (HALF_SLOW,):
            cell = variant if spark is None else variant + ON_SPARK
            stream: Any = SLOW.stream
            stream = replace(stream, z=MILD) if name in MOVING else stream
            asked = replace(SLOW, stream=stream, told=variant == HALF_SLOW)
            if spark is None:
                found = simulated(name, asked)
            else:
                found = on_spark(spark, root / f"{name} {asked.told}", name, asked)
            about: Row = {"n_workers": asked.n_workers, "capacities": 1 / asked.slower}
            row = measured(name, cell, *found[:3], **about)
            yield row | {"seconds": sum(found.walls), "work": found.work_seconds}


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


def _by_micro_batch(strategy: Any, variant: str, stream: Zipf, setting: Setting) -> Row:
    in_turn, n_workers, changes = setting
    sources = MicroBatches(strategy, n_workers, SEED, merging=variant != "alone")
    keys, workers, batches = [], [], []
    for number, batch in enumerate(micro_batches(stream, in_turn)):
        if number in changes:
            sources.rescale(changes[number])
        hashed: list[Keys] = [hash_keys(part) for part in batch]
        workers += sources.route(hashed)
        keys += hashed
        batches.append(np.full(sum(part.size for part in batch), number))
    found = (np.concatenate(parts) for parts in (keys, workers, batches))
    return measured(strategy.name, variant, *found, n_workers=n_workers, changes=changes)


def measured(
    name: str,
    variant: str,
    keys: Any,
    workers: Any,
    batches: Any,
    *,
    n_workers: int = N_WORKERS,
    changes: Mapping[int, int] = MappingProxyType({}),
    capacities: Floats | None = None,
) -> Row:
    """Build a raw record from the key, the worker and the micro-batch of every record.

    The imbalance is the mean over the records, each with that of its micro-batch. A micro-batch of
    one record cannot be balanced, and hardly counts. `merged` is the share of partial results whose
    key has several in its micro-batch: the others need no merge.
    """
    n_batches, n_most = int(batches.max()) + 1, max(n_workers, *changes.values(), 1)
    loads = np.zeros((n_batches, n_most), np.int64)
    np.add.at(loads, (batches, workers), 1)
    found = []
    for number, row in enumerate(loads):
        n_workers = changes.get(number, n_workers)
        found.append(metrics.imbalance(row[:n_workers], capacities) if row.any() else 0.0)
        assert not row[n_workers:].any(), f"{name}, {variant}: a worker that has left got records"
    _, index = np.unique(keys, return_inverse=True)
    n_pairs = np.unique(index * n_most + workers).size
    partial_results = np.unique((batches * (int(index.max()) + 1) + index) * n_most + workers)
    _, each = np.unique(partial_results // n_most, return_counts=True)
    return {
        "strategy": name,
        "variant": variant,
        "imbalance": float(np.average(found, weights=loads.sum(axis=1))),
        "replication": n_pairs / (int(index.max()) + 1),
        "merged": float(each[each > 1].sum() / each.sum()),
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
    return {
        "strategy": strategy.name,
        "variant": "with delay",
        "imbalance": run["window_imbalance_mean"],
        "replication": run["replication"],
    }


def measure_on_spark(spark: SparkSession, root: Path, names: Sequence[str]) -> Iterator[Row]:
    """Yield a raw record per strategy and setting: a file per source, and a ledger."""
    for variant, name in product(BOTH, names):
        setting = settings_of(name)[variant]
        in_turn, n_workers, changes = setting
        folder = root / f"{list(BOTH).index(variant)} of {stream_of(name).n_records}"
        if not folder.exists():
            write_files(folder, _files(stream_of(name), in_turn))
        seconds, found = timed(_on_spark, spark, folder, root / name, name, setting)
        shutil.rmtree(root / name)
        batches = found.number // N_SOURCES  # files are read in the order of their numbers
        columns = map(np.asarray, (found.key, found.worker, batches))
        row = measured(name, variant + ON_SPARK, *columns, n_workers=n_workers, changes=changes)
        yield row | {"seconds": seconds}


def _files(stream: Zipf, in_turn: Sequence[int]) -> Iterator[pa.Table]:
    """Yield as many files for every micro-batch; those of sources without records are empty."""
    number = 0
    for batch in micro_batches(stream, in_turn):
        for source in range(N_SOURCES):
            keys = batch[source] if source < len(batch) else batch[0][:0]
            yield pa.table({"key": keys, "number": np.full(keys.size, number)})
            number += 1


def _on_spark(spark: SparkSession, files: Path, folder: Path, name: str, setting: Setting) -> Any:
    """Route a stream to its end; return all its records."""
    _, n_workers, changes = setting
    stream = file_stream(spark, "key long, number long", files, N_SOURCES)
    ledger = str(folder / "ledger")
    written: list[pa.Table] = []

    def write(df: DataFrame, batch: int) -> None:
        written.append(df.toArrow())
        if batch + 1 in changes:
            scale_to(ledger, changes[batch + 1])

    routed = route(
        stream,
        "key",
        workers=n_workers,
        max_workers=max(n_workers, *changes.values(), 1),
        strategy=name,
        ledger=ledger,
        seed=SEED,
    )
    run_to_end(routed, folder, write=write)
    return pa.concat_tables(written).to_pandas()


def table(records: Sequence[Row]) -> str:
    """Return a row per strategy: imbalance of a micro-batch and replicas per key of each way."""
    cells = {(r["strategy"], r["variant"]): r for r in records}
    names = dict.fromkeys(r["strategy"] for r in records)
    rows = []
    for name in (name for name in names if name not in MOVING):
        found = [cells.get((name, variant)) for variant in VARIANTS]
        rows.append([f"`{name}`", *("" if cell is None else _shown(cell) for cell in found)])
    headings = (
        "strategy",
        "one source",
        f"{N_SOURCES} sources alone",
        f"{N_SOURCES} merged",
        *list(MERGED)[2:],
        "messages with delay",
    )
    return markdown(headings, rows)


def _shown(cell: Row) -> str:
    return f"{cell['imbalance']:.2g} / {cell['replication']:.3f}"


def _seconds(simulated: Any, on_spark: Any) -> str:
    """Return the seconds on Spark; where records sleep, also those of the work, as simulated."""
    if "work" not in on_spark:
        return f"{on_spark['seconds']:.0f}"
    work, expected = on_spark["work"], simulated["work"]
    return f"{on_spark['seconds']:.0f}; work {work:.1f}, simulated {expected:.1f}"


def table_of_both(records: Sequence[Row]) -> str:
    """Return a row per strategy and setting: the simulator and Spark side by side."""
    cells = {(r["strategy"], r["variant"]): r for r in records}
    rows = []
    names = dict.fromkeys(r["strategy"] for r in records)
    for variant, name in product((*BOTH, HALF_SLOW, NOT_TOLD), names):
        both = [cells.get((name, variant + where)) for where in ("", ON_SPARK)]
        if all(both):
            balance = [_shown(cell) for cell in both if cell]
            merged = [f"{cell['merged']:.2%}" for cell in both if cell]
            shown = f"{N_SOURCES} sources" if variant == "merged" else variant
            rows.append([shown, f"`{name}`", *balance, *merged, _seconds(*both)])
    headings = (
        *("setting", "strategy", "simulator", "Spark"),
        *("partial results to merge, simulator", "Spark", "seconds on Spark"),
    )
    return markdown(headings, rows, n_left=2)


REPORT = Report(
    "on_spark/learning_together.jsonl",
    {
        (BENCHMARKS, "learning together"): table,
        (BENCHMARKS, "systems on Spark"): table_of_both,
    },
    command="python -m benchmarks.on_spark.learning_together",
)


def main() -> None:
    """Measure all cells, and write the tables."""
    names = [*systems(), *MOVING]
    records = [*measure(names), *measure_slow(names)]
    with spark_and_folder("learning together", SLOW.n_workers, SETTINGS) as (spark, folder):
        records += measure_slow(names, spark, folder / "slow")
        REPORT.write([*records, *measure_on_spark(spark, folder, names)])


if __name__ == "__main__":
    typer.run(main)

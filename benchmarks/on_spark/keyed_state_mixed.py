"""Measure keyed state on Spark with Mixed's generator; write the raw records, a table and a page.

Each record takes 100 µs, in which the worker sleeps, so that two cores do for sixteen workers. The
frequencies of keys change every few micro-batches; a worker becomes half as fast; eight workers
become sixteen. `--small` is a try of less than three minutes, which leaves the documents alone.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from benchmarks.tables import KEYED_STATE, PROJECT, write_keyed_state_table
from skewless.dashboard.keyed_state import write_keyed_state
from skewless.experiments.on_spark import keyed_state
from skewless.experiments.on_spark.keyed_state import (
    SCENARIOS,
    SEED,
    SLOW_WORKER,
    SLOWED,
    SMALL,
    STATE_BATCHES,
    Scenario,
    Size,
)
from skewless.experiments.tables import Row, write_records
from skewless.keys import hash_keys
from skewless.metrics import imbalance
from skewless.registry import strategy_of
from skewless.spark import Processor, Update, process, scale_to, session
from skewless.spark.ledger import Ledger
from skewless.spark.state.planning.placing import Placing, as_moving
from skewless.spark.state.planning.state_plan import from_entry, read_entry
from skewless.spark.state.tasks import hash_seed
from skewless.spark.state.versions import bases

PAGE = PROJECT / "out" / "keyed_state.html"
_BEGIN = datetime(2024, 1, 1, tzinfo=timezone.utc)
SCHEMA = "key bigint, batch bigint, ts timestamp"


class Recent(Processor):
    """Keeps the records of the last micro-batches, so that a state weighs what the key had.

    Each record takes `work_us`, and twice that on the slow worker.
    """

    state_schema = "batches array<bigint>"
    result_schema = "key bigint, n bigint"
    ttl = f"{STATE_BATCHES} seconds"  # a micro-batch is a second of event time

    def __init__(self, work_us: float, slow_from: int | None) -> None:
        self.work_us, self.slow_from = work_us, slow_from

    def update(self, keyed: Any) -> Update:
        from pyspark import TaskContext

        batches = keyed.records["batch"].to_numpy()
        now = int(batches[0])
        seconds = batches.size * self.work_us / 1e6
        context = TaskContext.get()
        is_slow = self.slow_from is not None and now >= self.slow_from
        if is_slow and context is not None and context.partitionId() == SLOW_WORKER:
            seconds *= SLOWED
        held = keyed.states.flatten()[0]
        lengths = held.value_lengths().fill_null(0).to_numpy()
        old = held.flatten().to_numpy()
        codes = np.repeat(np.arange(len(keyed)), lengths)
        stays = old > now - STATE_BATCHES
        both = np.concatenate([codes[stays], keyed.positions])
        values = np.concatenate([old[stays], batches])
        order = np.argsort(both, kind="stable")
        counts = np.bincount(both, minlength=len(keyed))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[order]))
        results = pa.table([keyed.keys["key"], pa.array(counts)], ["key", "n"])
        time.sleep(seconds)
        return Update(results, pa.StructArray.from_arrays([lists], ["batches"]))


def write_batches(folder: Path, size: Size, f: float) -> None:
    """Write a file for each micro-batch; load shifts between the workers that keys begin on."""
    ranks = pa.array(np.arange(1, size.n_keys + 1))
    seeds = pa.array(np.full(size.n_keys, hash_seed(SEED)), pa.int64())
    strategy = as_moving(strategy_of("mixed"))
    placing = Placing(strategy, strategy.start(size.n_workers, SEED), size.n_workers)
    workload = keyed_state.stream(size, f, placing.owners(hash_keys(ranks, seeds)))
    folder.mkdir(parents=True)
    for batch, keys in enumerate(workload.ranks(SEED, size.n_records)):
        moment = _BEGIN + timedelta(seconds=batch)
        table = pa.table(
            {
                "key": keys,
                "batch": np.full(keys.size, batch),
                "ts": pa.array([moment] * keys.size, pa.timestamp("us", "UTC")),
            }
        )
        path = folder / f"{batch:03}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1000 + batch, 1000 + batch))  # Spark reads the oldest file first


def measure(spark: Any, folder: Path, scenario: Scenario, size: Size) -> Iterator[Row]:
    """Yield a raw record for each micro-batch of a stream."""
    write_batches(folder / "in", size, scenario.f)
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    ledger = str(folder / "ledger")
    n_first = size.n_workers // 2 if scenario.joins else size.n_workers
    results = process(
        reader.parquet(str(folder / "in")),
        "key",
        Recent(size.work_us, size.event if scenario.slows else None),
        strategy=scenario.strategy,
        workers=n_first,
        max_workers=size.n_workers,
        watermark=("ts", "0 seconds"),
        cost=scenario.cost,
        seed=SEED,
        ledger=ledger,
    )
    seconds: list[float] = []
    begin = time.perf_counter()

    def keep(df: Any, number: int) -> None:
        nonlocal begin
        df.write.format("noop").mode("overwrite").save()
        if scenario.joins and number == size.event - 1:
            scale_to(ledger, size.n_workers)
        now = time.perf_counter()
        seconds.append(now - begin)
        begin = now

    writer = results.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.foreachBatch(keep).trigger(availableNow=True).start()
    query.awaitTermination()
    for batch, wall in enumerate(seconds):
        yield _record(scenario, size, Ledger(ledger), batch, wall)


def _record(scenario: Scenario, size: Size, ledger: Ledger, batch: int, wall: float) -> Row:
    """Return what the ledger tells of one micro-batch."""
    base = bases.complete(ledger, batch)
    assert base is not None
    reports = ledger.read_workers(batch)
    entry = read_entry(ledger, batch, base.run)
    assert entry is not None
    plan = from_entry(entry, as_moving(strategy_of(scenario.strategy)), SEED)
    observed = plan.observed
    loads = observed.rest + np.bincount(
        plan.placing.owners(observed.hashes), observed.loads, observed.rest.size
    )
    held = 0
    if plan.base is not None:
        before = ledger.read_workers(plan.base.batch)
        held = sum(report.about["bytes"] for report in before.values())
    moving = np.isin(observed.hashes, plan.moving.hashes)
    moved = float(observed.sizes[moving].sum())
    if plan.moving.whole:  # all files were looked through, and the report tells how many came
        n_held = sum(report.about["held"] for report in reports.values())
        arrived = sum(report.about["moved"] for report in reports.values())
        moved = held * arrived / max(n_held, 1)
    return keyed_state.record(
        scenario,
        batch,
        size.event,
        loads=[report.about["records"] for report in reports.values()],
        seconds=[report.about["seconds"] for report in reports.values()],
        wall=wall,
        moved=moved / held if held else 0.0,
        planned=imbalance(loads) if loads.any() else 0.0,
    )


def main(
    small: Annotated[
        bool, typer.Option("--small", help="A short try; writes no document.")
    ] = False,
    records_per_batch: Annotated[
        int | None, typer.Option("--records", help="Records of a micro-batch.", min=1)
    ] = None,
    batches: Annotated[
        int | None, typer.Option(help="Micro-batches of each stream.", min=1)
    ] = None,
    out: Annotated[Path, typer.Option(help="The file for the page with the plots.")] = PAGE,
) -> None:
    """Measure keyed state on Spark with Mixed's generator; write records, a table and a page."""
    size = SMALL if small else Size()
    size = replace(size, n_records=records_per_batch or size.n_records)
    size = replace(size, n_batches=batches or size.n_batches)
    settings = {
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        # Reports of all micro-batches are read in the end.
        "spark.sql.streaming.minBatchesToRetain": "1000",
    }
    spark = session("keyed state", master=f"local[{size.n_workers}]", settings=settings)
    records = list(keyed_state.measure_simulated(size))
    with tempfile.TemporaryDirectory() as folder:
        for number, scenario in enumerate(SCENARIOS):
            begin = time.perf_counter()
            records += measure(spark, Path(folder) / str(number), scenario, size)
            print(f"{scenario.label}: {time.perf_counter() - begin:.0f} s", flush=True)
    spark.stop()
    out.parent.mkdir(parents=True, exist_ok=True)
    about = (
        f"{size.n_workers} workers, {size.n_keys:,} keys, {size.n_records:,} records in a "
        f"micro-batch, {size.work_us:g} µs each"
    )
    write_keyed_state(records, about, out)
    print(f"page: {out}")
    if small:
        print(keyed_state.table(records))
        return
    write_records(KEYED_STATE, records)
    print(f"raw records: {KEYED_STATE}")
    write_keyed_state_table()


if __name__ == "__main__":
    typer.run(main)

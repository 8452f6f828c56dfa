"""Measure keyed state on Spark with Mixed's generator; write the raw records and a table.

Each record takes 200 µs, in which the worker sleeps, so that two cores do for sixteen workers. The
frequencies of keys change every few micro-batches; a worker becomes half as fast; eight workers
become sixteen.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import typer

from benchmarks.records import BENCHMARKS, Report, Row, grouped, markdown
from benchmarks.streams import write_files
from benchmarks.turns import (
    batch_times,
    file_stream,
    run_to_end,
    spark_and_folder,
    throw_away,
    timed,
)
from skewless.arrays import Workers
from skewless.keys import hash_keys
from skewless.metrics import imbalance
from skewless.registry import strategy_of
from skewless.simulator import Measuring, simulate
from skewless.spark import Processor, Update, process, scale_to
from skewless.spark.ledger import Ledger
from skewless.spark.ledger.names import WORKERS, state_plan_name
from skewless.spark.routing.seeds import hash_seed
from skewless.spark.state.planning.controller import observed
from skewless.spark.state.planning.placing import Placing, as_moving
from skewless.spark.state.planning.state_plan import from_entry
from skewless.spark.state.planning.worker_reports import read_reports
from skewless.spark.state.versions import bases
from skewless.strategies import Mixed
from skewless.workloads import FluctuatingZipf

SCHEMA = "key bigint, batch bigint, ts timestamp"
_BEGIN = datetime(2024, 1, 1, tzinfo=timezone.utc)
SEED = 0
Z, F = 0.85, 1.0
#: How many micro-batches the state of a key reaches back, as in the paper (w).
STATE_BATCHES = 5
#: Micro-batches between two changes of the keys' frequencies.
CHANGES_EVERY = 3
#: The worker that becomes slow, and how many times its work takes then.
SLOW_WORKER, SLOWED = 3, 2.0
#: Within this many micro-batches after an event, balance must be back.
RECOVERY = 3


@dataclass(frozen=True)
class Size:
    """How large a measurement is."""

    n_workers: int = 16
    n_keys: int = 100_000
    n_records: int = 240_000  # of a micro-batch
    n_batches: int = 12
    work_us: float = 200.0  # of a record

    @property
    def event(self) -> int:
        """The micro-batch from which on a worker is slow, or in which others join."""
        return self.n_batches // 3


@dataclass(frozen=True)
class Scenario:
    """What happens during a stream, and by which strategy keys are placed."""

    name: str
    strategy: str
    f: float = 0.0
    cost: Literal["records", "seconds"] = "records"
    slows: bool = False
    joins: bool = False  # half of the workers are there only after the event


SCENARIOS = (
    Scenario("fluctuation", "hash", f=F),
    Scenario("fluctuation", "mixed", f=F),
    Scenario("slow worker", "hash", cost="seconds", slows=True),
    Scenario("slow worker", "mixed", cost="seconds", slows=True),
    Scenario("new workers", "mixed", joins=True),
)


def stream(size: Size, f: float, first_workers: Workers | None = None) -> FluctuatingZipf:
    """Return the keys of all micro-batches; without `first_workers`, as the simulator has them."""

    class Placed(FluctuatingZipf):
        """Mixed's generator, for keys that begin on the workers that a query has on Spark."""

        def first_owners(self, seed: int) -> Workers:
            return super().first_owners(seed) if first_workers is None else first_workers

    return Placed(
        z=Z,
        n_keys=size.n_keys,
        n_records=size.n_records * size.n_batches,
        interval=size.n_records * CHANGES_EVERY,
        f=f,
        n_workers=size.n_workers,
    )


def measure_simulated(size: Size) -> Iterator[Row]:
    """Yield a raw record for each micro-batch of the simulator, in which Mixed moves keys."""
    settings: Row = {"n_workers": size.n_workers, "window": size.n_records, "seed": SEED}
    measuring = Measuring(state_windows=STATE_BATCHES)
    run = simulate(Mixed(), stream(size, F), **settings, measuring=measuring)
    moved = {one.window + 1: one.moved_share for one in run.rebalances}
    for batch, found in enumerate(run.by_window()["window_imbalance"]):
        about = {"scenario": "simulator", "strategy": "mixed", "batch": batch}
        yield {**about, "imbalance": found, "moved": moved.get(batch, 0.0)}


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


def batches(size: Size, f: float) -> Iterator[pa.Table]:
    """Yield the records of each micro-batch; load shifts between the workers that keys begin on."""
    ranks = pa.array(np.arange(1, size.n_keys + 1))
    seeds = pa.array(np.full(size.n_keys, hash_seed(SEED)), pa.int64())
    strategy = as_moving(strategy_of("mixed"))
    placing = Placing(strategy, strategy.start(size.n_workers, SEED), size.n_workers)
    workload = stream(size, f, placing.owners(hash_keys(ranks, seeds)))
    for batch, keys in enumerate(workload.ranks(SEED, size.n_records)):
        moment = [_BEGIN + timedelta(seconds=batch)] * keys.size
        times = pa.array(moment, pa.timestamp("us", "UTC"))
        yield pa.table({"key": keys, "batch": np.full(keys.size, batch), "ts": times})


def measure(spark: Any, folder: Path, scenario: Scenario, size: Size) -> Iterator[Row]:
    """Yield a raw record for each micro-batch of a stream."""
    write_files(folder / "in", batches(size, scenario.f))
    ledger = str(folder / "ledger")
    results = process(
        file_stream(spark, SCHEMA, folder / "in"),
        "key",
        Recent(size.work_us, size.event if scenario.slows else None),
        strategy=scenario.strategy,
        workers=size.n_workers // 2 if scenario.joins else size.n_workers,
        max_workers=size.n_workers,
        watermark=("ts", "0 seconds"),
        cost=scenario.cost,
        seed=SEED,
        ledger=ledger,
    )

    def write(df: Any, number: int) -> None:
        throw_away(df)
        if scenario.joins and number == size.event - 1:
            scale_to(ledger, size.n_workers)

    written, seconds = batch_times(write)
    run_to_end(results, folder, write=written)
    for batch, wall in enumerate(seconds):
        yield _record(scenario, size, Ledger(ledger), batch, wall)


def _record(scenario: Scenario, size: Size, ledger: Ledger, batch: int, wall: float) -> Row:
    """Build the raw record of one micro-batch from the ledger's plan and reports."""
    base = bases.complete(ledger, batch)
    assert base is not None
    reports = dict(ledger.reports(WORKERS, batch))
    entry = ledger.read(state_plan_name(batch, base.run))
    assert entry is not None
    plan = from_entry(entry, as_moving(strategy_of(scenario.strategy)), SEED)
    held, moved, loads = 0, 0.0, np.zeros(plan.n_workers)
    if plan.base is not None:
        before = dict(ledger.reports(WORKERS, plan.base.batch))
        held = sum(report.about["bytes"] for report in before.values())
    if plan.base is not None and not plan.moving.whole:
        seen = observed(plan.placing, read_reports(ledger, plan.base))
        loads = seen.rest + np.bincount(
            plan.placing.owners(seen.hashes), seen.loads, plan.n_workers
        )
        moved = float(seen.sizes[np.isin(seen.hashes, plan.moving.hashes)].sum())
    if plan.moving.whole:  # all files were looked through, and the report tells how many came
        n_held = sum(report.about["held"] for report in reports.values())
        arrived = sum(report.about["moved"] for report in reports.values())
        moved = held * arrived / max(n_held, 1)
    return record(
        scenario,
        batch,
        size.event,
        loads=[report.about["records"] for report in reports.values()],
        seconds=[report.about["seconds"] for report in reports.values()],
        wall=wall,
        moved=moved / held if held else 0.0,
        planned=imbalance(loads) if loads.any() else 0.0,
    )


def record(scenario: Scenario, batch: int, event: int, **measured: Any) -> Row:
    """Return the raw record of one micro-batch on Spark; something happens in micro-batch `event`.

    What is measured: `loads` and `seconds` of each worker, the seconds of the whole micro-batch
    (`wall`), the share of the state that moved (`moved`), and the imbalance that the plan has for
    the loads that it was made from (`planned`).
    """
    about = {"scenario": scenario.name, "strategy": scenario.strategy, "batch": batch}
    uneven = imbalance(measured["seconds" if scenario.cost == "seconds" else "loads"])
    return {**about, "event": event, **measured, "imbalance": uneven}


def table(records: Sequence[Row]) -> str:
    """Return one line per scenario and strategy, one of the simulator, and how large it was."""
    rows = []
    runs = grouped(records, "scenario", "strategy")
    for (scenario, strategy), mine in runs.items():
        calm: dict[bool, list[Row]] = {True: [], False: []}
        for row in mine[1:]:
            calm[not _is_disturbed(row)].append(row)
        rows.append(
            [
                f"{scenario}, {strategy}",
                *(_mean(calm[False], "imbalance"), _mean(calm[True], "imbalance")),
                _mean(mine[1:], "planned"),
                _throughput(mine, runs.get((scenario, "hash"))) if strategy != "hash" else "",
                _beside_the_work(mine),
                f"{100 * fmean(row['moved'] for row in mine[1:]):.2f} %" if mine[1:] else "",
                _recovered(mine),
            ]
        )
    balance = "imbalance when loads change | imbalance otherwise | imbalance of plans"
    times = "throughput / hash | s beside the work"
    headings = f"stream | {balance} | {times} | state moved by a plan | recovers after"
    sizes = {round(sum(r["loads"])) for r in records if "loads" in r}
    text = " or ".join(f"{size:,}" for size in sorted(sizes))
    return f"{markdown(headings, rows)}\n\nRecords in a micro-batch: {text or 'none'}."


def _is_disturbed(row: Row) -> bool:
    """Return whether loads are new in this micro-batch, so that no plan can know them."""
    if "event" in row and row["scenario"] != "fluctuation":
        return bool(row["event"] <= row["batch"] < row["event"] + RECOVERY)
    return bool(row["batch"] % CHANGES_EVERY == 0)


def _mean(rows: Sequence[Row], name: str) -> str:
    values = [row[name] for row in rows if name in row]
    return f"{fmean(values):.3f}" if values else ""


def _throughput(mine: Sequence[Row], hashed: Sequence[Row] | None) -> str:
    """Return the records per second of micro-batches as a ratio to hash on the same stream.

    From the second micro-batch on: the first one starts Python, and nothing is planned yet.
    """
    if not hashed or "wall" not in mine[0]:
        return ""
    ours, theirs = (sum(r["wall"] for r in some[1:]) for some in (mine, hashed))
    longest = [sum(max(r["seconds"]) for r in some[1:]) for some in (mine, hashed)]
    # Loads that are new are what they are; all others could be spread perfectly.
    least = sum((max if _is_disturbed(r) else fmean)(r["seconds"]) for r in mine[1:])
    alone = f"{longest[1] / longest[0]:.2f} of at most {longest[1] / least:.2f}"
    return f"{theirs / ours:.2f} (work alone {alone})"


def _beside_the_work(mine: Sequence[Row]) -> str:
    """Return what a micro-batch takes beyond the work of its slowest worker, in seconds."""
    if "wall" not in mine[0]:
        return ""
    return f"{median(row['wall'] - max(row['seconds']) for row in mine[1:]):.2f}"


def _recovered(mine: Sequence[Row]) -> str:
    """Return after how many micro-batches balance is what it was before the event, or nearly."""
    if "event" not in mine[0] or mine[0]["scenario"] == "fluctuation":
        return ""
    event = mine[0]["event"]
    before = [r["imbalance"] for r in mine[1:event]]
    limit = 1.25 * max(before, default=0.0) + Mixed().tolerance
    for row in mine[event:]:
        if row["imbalance"] <= limit:
            passed = row["batch"] - event
            return f"{passed} micro-batch" if passed == 1 else f"{passed} micro-batches"
    return "not"


REPORT = Report("on_spark/keyed_state.jsonl", {(BENCHMARKS, "keyed state"): table})


def main() -> None:
    """Measure keyed state on Spark with Mixed's generator; write records and a table."""
    size = Size()
    # Reports of all micro-batches are read in the end.
    settings = {"spark.sql.streaming.minBatchesToRetain": "1000"}
    settings["spark.sql.session.timeZone"] = "UTC"
    records = list(measure_simulated(size))
    with spark_and_folder("keyed state", size.n_workers, settings) as (spark, folder):
        for number, scenario in enumerate(SCENARIOS):
            took, _ = timed(records.extend, measure(spark, folder / str(number), scenario, size))
            print(f"{scenario.name}, {scenario.strategy}: {took:.0f} s", flush=True)
    REPORT.write(records)


if __name__ == "__main__":
    typer.run(main)

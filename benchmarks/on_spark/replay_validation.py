"""Run the same jobs on several numbers of slots; tell from each log how long the others took.

Each job runs on `local[n]`, once for each n, and leaves an event log. Each log is replayed on all
numbers of slots. Python processes start before, in a job that does not count. Sleeping tasks do not
slow each other down, so they can have more slots than there are cores; computing ones cannot.
"""

from __future__ import annotations

import os
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from pyspark import TaskContext
from pyspark.sql import SparkSession

from benchmarks.kinds_of_work import rounds_for
from benchmarks.records import BENCHMARKS, Report, Row, grouped, markdown
from skewless.diagnosis.event_log import Event, read_events
from skewless.diagnosis.replay import Replay
from skewless.diagnosis.stages import summarise

SLEEPING, COMPUTING = "sleeping", "computing"
#: Tasks of each stage, and how many times as long as the others the first one takes.
N_TASKS, SKEW = 48, 8
#: Seconds that the processes of a slot have to start together.
WARM_UP_S = 2.0
_WARM_UP = "warm-up"
_BLOCK = b"x" * 1024

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def slow(spend: Callable[[float], None]) -> Work:
    """Return work that takes one unit of time for each task, and `SKEW` in the first one."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        yield from batches
        spend(SKEW if context.partitionId() == 0 else 1.0)

    return work


def sleeping(seconds: float) -> Work:
    """Return work that waits."""
    return slow(lambda units: time.sleep(units * seconds))


def computing(rounds: int) -> Work:
    """Return work that makes checksums of a kilobyte."""

    def spend(units: float) -> None:
        checksum = 0
        for _ in range(round(units * rounds)):
            checksum = zlib.crc32(_BLOCK, checksum)

    return slow(spend)


def log_of(work: Work, n_slots: int, folder: Path) -> Path:
    """Run the jobs on so many slots; return the folder of their log."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.sql.shuffle.partitions": str(N_TASKS),
        # Else the number of tasks depends on the slots.
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    builder = SparkSession.builder.appName("replay").master(f"local[{n_slots}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        context = spark.sparkContext
        context.setJobDescription(_WARM_UP)
        schema = "id long"
        together = slow(lambda _: time.sleep(WARM_UP_S))
        spark.range(0, n_slots, 1, n_slots).mapInArrow(together, schema).count()
        context.setJobDescription("measured")
        # One stage; then two, the second of which reads what the first one sends.
        records = spark.range(0, 100 * N_TASKS, 1, N_TASKS)
        records.mapInArrow(work, schema).count()
        sent = records.mapInArrow(work, schema).repartition(N_TASKS, "id")
        sent.mapInArrow(work, schema).count()
    finally:
        spark.stop()
    return folder


def without_warm_up(events: Sequence[Event]) -> Iterator[Event]:
    """Yield the events of a log but for those of the job that starts the Python processes."""
    left_out: set[int] = set()
    jobs: set[Any] = set()
    for event in events:
        described = (event.get("Properties") or {}).get("spark.job.description")
        if event["Event"] == "SparkListenerJobStart" and described == _WARM_UP:
            left_out |= set(event["Stage IDs"])
            jobs.add(event["Job ID"])
        stage = event.get("Stage ID", event.get("Stage Info", {}).get("Stage ID"))
        if stage not in left_out and not (jobs and event.get("Job ID") in jobs):
            yield event


def measure(kind: str, work: Work, slots: Sequence[int]) -> Iterator[Row]:
    """Yield a raw record for each pair of a log and a number of slots."""
    replays = {}
    for n_slots in slots:
        with tempfile.TemporaryDirectory() as folder:
            events = list(read_events(log_of(work, n_slots, Path(folder))))
        replays[n_slots] = Replay(summarise(without_warm_up(events)))
        print(f"{kind}, {n_slots} slots: {replays[n_slots].measured:.1f} s")
    cores = len(os.sched_getaffinity(0))
    for logged, replay in replays.items():
        for n_slots, of in replays.items():
            told = replay.run(n_slots).seconds
            row = {"work": kind, "logged": logged, "slots": n_slots, "cores": cores}
            yield row | {"told": told, "measured": of.measured}


def table(records: Sequence[Row]) -> str:
    """Return a row per log: how long it tells for each number of slots, and how wrong that is."""
    slots = sorted(grouped(records, "slots"))
    rows = []
    for kind, of_kind in grouped(records, "work").items():
        measured = {record["slots"]: record["measured"] for record in of_kind}
        rows.append([kind, "measured", *(_cell(measured.get(n)) for n in slots)])
        for logged, mine in grouped(of_kind, "logged").items():
            told = {one["slots"]: one["told"] for one in mine}
            cells = [_cell(told.get(n), measured.get(n)) for n in slots]
            rows.append([kind, f"told from {logged} slots", *cells])
    return markdown(["work", "seconds", *(f"{n} slots" for n in slots)], rows, 2)


def _cell(seconds: float | None, measured: float | None = None) -> str:
    if seconds is None:
        return "–"
    if measured is None:
        return f"{seconds:.1f}"
    return f"{seconds:.1f} ({seconds / measured - 1:+.0%})"


def worst(records: Sequence[Row]) -> str:
    """Return the largest error of each kind of work as a sentence."""
    told = []
    for kind, mine in grouped(records, "work").items():
        errors = [abs(one["told"] / one["measured"] - 1) for one in mine]
        told.append(f"{max(errors):.0%} for {kind} work")
    return f"The largest error is {', and '.join(told)}."


REPORT = Report(
    "on_spark/replay_validation.jsonl",
    {(BENCHMARKS, "replay"): table, ("docs/diagnosis.md", "replay error"): worst},
)


def main(
    slots: Annotated[str, typer.Option(help="Slots of sleeping work.")] = "2,4,8,16,32",
    seconds: Annotated[float, typer.Option(help="Seconds of a task.")] = 1.0,
) -> None:
    """Measure the jobs on all slots, and tell each from the logs of the others."""
    n_cores = len(os.sched_getaffinity(0))
    computed = range(1, n_cores + 1)
    records = [
        *measure(SLEEPING, sleeping(seconds), [int(n) for n in slots.split(",")]),
        *measure(COMPUTING, computing(rounds_for(seconds)), computed),
    ]
    REPORT.write(records)


if __name__ == "__main__":
    typer.run(main)

"""Run the same jobs on several numbers of slots; tell from each log how long the others took.

Each job runs on `local[n]`, once for each n, and leaves an event log. Each log is replayed on all
numbers of slots. Python processes start before, in a job that does not count. Sleeping tasks do not
slow each other down, so they can have more slots than there are cores; computing ones cannot.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import typer
from pyspark import TaskContext

from benchmarks.kinds_of_work import Work, compute, rounds_for
from benchmarks.on_spark.event_logs import logged_session, run, runs_of
from benchmarks.records import BENCHMARKS, Report, Row, grouped, markdown
from skewless.cli.option import option
from skewless.diagnosis.application import Application
from skewless.diagnosis.replay import Replay

SLEEPING, COMPUTING = "sleeping", "computing"
#: Tasks of each stage, and how many times as long as the others the first one takes. On no number
#: of slots is a stage just this one.
N_TASKS, SKEW = 48, 1.5
#: Seconds of a sleeping task. To start 32 tasks at once takes two cores about half a second.
SLEEP_S = 1.5
#: Seconds that the processes of a slot have to start together.
WARM_UP_S = 2.0


def slow(spend: Callable[[float], None]) -> Work:
    """Return work that takes one unit of time for each task, and `SKEW` in the first one."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        yield from batches
        spend(SKEW if context.partitionId() == 0 else 1.0)

    return work


def log_of(work: Work, n_slots: int, folder: Path) -> Application:
    """Run the jobs on so many slots; return what their log tells."""
    schema, settings = "id long", {"spark.sql.autoBroadcastJoinThreshold": "-1"}
    settings["spark.sql.shuffle.partitions"] = str(N_TASKS)
    with logged_session(n_slots, folder, settings) as spark:
        together = slow(lambda _: time.sleep(WARM_UP_S))
        spark.range(0, n_slots, 1, n_slots).mapInArrow(together, schema).count()
        # Two stages, the second of which reads what the first one sends; then two at the same
        # time, which a join reads.
        records = spark.range(0, 100 * N_TASKS, 1, N_TASKS)
        with run(spark, "measured"):
            sent = records.mapInArrow(work, schema).repartition(N_TASKS, "id")
            sent.mapInArrow(work, schema).count()
            # Of equal sides, Spark would compute one.
            others = spark.range(1, 1 + 100 * N_TASKS, 1, N_TASKS)
            one, other = (side.mapInArrow(work, schema) for side in (records, others))
            one.join(other, "id").count()
    return runs_of(folder)["measured"]


def measure(kind: str, work: Work, slots: Sequence[int]) -> Iterator[Row]:
    """Yield a raw record for each pair of a log and a number of slots."""
    replays = {}
    for n_slots in slots:
        with tempfile.TemporaryDirectory() as folder:
            replays[n_slots] = Replay(log_of(work, n_slots, Path(folder)))
        print(f"{kind}, {n_slots} slots: {replays[n_slots].measured:.1f} s")
    cores = len(os.sched_getaffinity(0))
    for logged, replay in replays.items():
        for n_slots, of in replays.items():
            row = {"work": kind, "logged": logged, "slots": n_slots, "cores": cores}
            yield row | {"told": replay.run(n_slots).seconds, "measured": of.measured}


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
            rows.append([kind, f"told from {_slots(logged)}", *cells])
    return markdown(["work", "seconds", *map(_slots, slots)], rows, 2)


def _slots(n: int) -> str:
    return f"{n} slot" if n == 1 else f"{n} slots"


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
    command="make bench-replay",
)


def main(
    slots: str = option("2,4,8,16,32", "Slots of sleeping work."),
    seconds: float = option(SLEEP_S, "Seconds of a sleeping task."),
    computing_seconds: float = option(0.5, "Seconds of a computing task."),
) -> None:
    """Measure the jobs on all slots, and tell each from the logs of the others."""
    cores, rounds = len(os.sched_getaffinity(0)), rounds_for(computing_seconds)
    sleeping = slow(lambda units: time.sleep(units * seconds))
    computing = slow(lambda units: compute(round(units * rounds)))
    REPORT.write(
        [
            *measure(SLEEPING, sleeping, [int(n) for n in slots.split(",")]),
            *measure(COMPUTING, computing, range(1, cores + 1)),
        ]
    )


if __name__ == "__main__":
    typer.run(main)

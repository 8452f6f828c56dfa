"""The job of the soak test: `python -m faults.jobs.soak_job folder batches` lets keyed state churn.

Keys come and go, half of all known keys move in every micro-batch, workers come and go, and the
query is restarted now and then. What the query has used so far is written to `soak.jsonl`, a line
for every tenth micro-batch, and to `end.json` what came out of it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from faults.jobs.bombs import Wanders
from skewless.spark import Append, KeyProcessor

ROWS_PER_BATCH = 400
#: Spark keeps so many micro-batches, and so do we.
KEPT = 10
_NOTED_EVERY = 10
_RESTARTS = 20
_RESCALED_EVERY = 25
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Visits(KeyProcessor):
    """Counts and lists records until none has come for five seconds."""

    state_schema = "n bigint, text string, expires timestamp, values array<bigint>"
    result_schema = "k string, n bigint"
    growing = ("values",)

    def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
        n = (state["n"] if state else 0) + len(records)
        last = max(record["timestamp"] for record in records)
        ends = last + timedelta(seconds=5)
        if state:
            ends = max(ends, state["expires"])
        values = Append(record["value"] for record in records)
        return [], {"n": n, "text": "x" * (n % 50), "expires": ends, "values": values}

    def expire_key(self, key: Any, state: Any, watermark: Any) -> Any:
        assert len({*state["values"]}) == state["n"]  # no record is twice in a list
        return [{"n": state["n"]}], None


def churning(spark: Any) -> Any:
    """Return a stream of a hot key that changes every ten micro-batches, and keys that pass by."""
    from pyspark.sql import functions as F

    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_PER_BATCH)
    stream = reader.option("numPartitions", 2).option("advanceMillisPerBatch", 1000).load()
    value = F.col("value")
    hot = F.concat(F.lit("hot-"), F.floor(value / (10 * ROWS_PER_BATCH)).cast("string"))
    other = F.floor(value / 10) + F.pmod(F.xxhash64(value), F.lit(100))
    return stream.withColumn("k", F.when(value % 3 == 0, hot).otherwise(other.cast("string")))


def main() -> None:
    folder, n_batches = Path(sys.argv[1]), int(sys.argv[2])
    from skewless.spark import process, read_state, scale_to, session

    local = str(folder / "local")
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.minBatchesToRetain": str(KEPT),
        "spark.log.level": "ERROR",
        "spark.local.dir": local,
        "spark.sql.warehouse.dir": f"{local}/warehouse",
    }
    spark = session("soak", master="local[2]", memory="1g", settings=settings)
    ledger = folder / "ledger"
    ended: dict[int, int] = {}  # records of the states that ended in each micro-batch
    noted = time.perf_counter(), cpu_seconds()

    def keep(batch: Any, number: int) -> None:
        nonlocal noted
        ended[number] = sum(row["n"] for row in batch.collect())
        if number % _RESCALED_EVERY == 1:
            scale_to(str(ledger), 2 + number // _RESCALED_EVERY % 3)
        if number % _NOTED_EVERY == _NOTED_EVERY - 1:
            now = time.perf_counter(), cpu_seconds()
            used = [(b - a) / _NOTED_EVERY for a, b in zip(noted, now, strict=True)]
            note(folder, number, *used, live_bytes(spark))
            noted = time.perf_counter(), cpu_seconds()

    step = max(10, n_batches // _RESTARTS)
    while len(ended) < n_batches:
        stop_at = min(n_batches, len(ended) + step)
        results = process(
            churning(spark),
            "k",
            Visits(),
            strategy=Wanders(),
            workers=None if ended else 3,
            max_workers=4,
            watermark=("timestamp", "1 second"),
            ledger=str(ledger),
        )
        writer = results.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.foreachBatch(keep).start()
        while len(ended) < stop_at and query.isActive:
            time.sleep(0.05)
        failed = query.exception()
        query.stop()  # in the midst of a micro-batch, which is then repeated
        if failed:
            raise failed
    last = max(ended)
    held = read_state(spark, str(ledger), batch=last).groupBy().sum("n").collect()[0][0]
    end = {"ended": sum(ended.values()), "held": held, "batches": last + 1}
    (folder / "end.json").write_text(json.dumps(end))
    spark.stop()


def note(folder: Path, batch: int, seconds: float, cpu: float, live: int) -> None:
    """Append what is in use after a micro-batch; the seconds are those of one micro-batch."""
    sizes = [path.stat().st_size for path in (folder / "ledger").rglob("*") if path.is_file()]
    python, java = memory()
    row = {
        "batch": batch,
        "seconds": round(seconds, 4),
        "cpu_seconds": round(cpu, 4),
        "files": len(sizes),
        "bytes": sum(sizes),
        "python_bytes": python,
        "java_bytes": java,
        "java_live_bytes": live,
    }
    with (folder / "soak.jsonl").open("a") as lines:
        lines.write(json.dumps(row) + "\n")


def live_bytes(spark: Any) -> int:
    """Measure the bytes that Java holds after a collection; resident bytes grow up to its limit."""
    spark._jvm.java.lang.System.gc()
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


def memory() -> tuple[int, int]:
    """Return the resident bytes of all Python and all Java processes of this job."""
    python = java = 0
    for process, fields in _processes():
        try:
            name = (process / "comm").read_text().strip()
        except OSError:
            continue
        if name == "java":
            java += int(fields[21]) * _PAGE
        else:
            python += int(fields[21]) * _PAGE
    return python, java


def cpu_seconds() -> float:
    """Return the CPU seconds of all processes of this job so far, those that have ended too."""
    return sum(sum(map(int, fields[11:15])) for _, fields in _processes()) / _TICKS


def _processes() -> list[tuple[Path, list[str]]]:
    """Return the processes of this session, with the fields of `stat` from the state on."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                fields = (process / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == os.getsid(0):
                found.append((process, fields))
    return found


if __name__ == "__main__":
    main()

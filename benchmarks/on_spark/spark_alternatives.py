"""Measure cascade-ahead against what a user could write instead; write raw records and the table.

Each job partitions the same records in its own way, then does the same work with them. The jobs of
a cell take turns, so that all numbers are ratios inside one run. The raw records of a cell replace
those of an earlier run; other cells stay as they are (`--only` measures some cases). The case with
a real server needs `redis-server` in the path, and is left out where there is none.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa
import typer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.kinds_of_work import (
    Work,
    calling,
    computing,
    redis,
    seconds_of_a_call,
    sketching,
    waiting,
)
from benchmarks.records import BENCHMARKS, Report, Row, grouped, markdown, write_records
from benchmarks.streams import cut, real_streams, write_files, zipf_keys
from benchmarks.turns import in_turns, timed
from skewless.cli.option import option
from skewless.diagnosis.costs import ALIKE
from skewless.diagnosis.ways import HOT
from skewless.spark import hot_keys, plan_keys, route, session

#: The strategy of ours that the tables are about.
OURS = "cascade-ahead"
STRATEGIES = (OURS, "cascade", "pd-stream")
SALTS = (2, 4, 8, 16, 32)
HOT_SALTS = (8, 32)
#: What `hot_keys` names the fastest, taken.
APPLIED = "apply"
N_FILES = 8


@dataclass(frozen=True)
class Case:
    """Some work: what a record costs, and what a key costs on each worker that has it.

    A task waits for something outside, computes, calls a server, or makes a partial result for
    each key, which is shuffled and merged afterwards. What calls and partial results cost is
    measured here, for `hot_keys` to predict with.
    """

    name: str
    per_record: float
    per_pair: float
    records: int
    slots: tuple[int, ...]
    kind: Literal["waits", "computes", "calls", "sketches"]
    n_keys: int = 2_000  # of the generated streams


CASES = (
    Case("computing, 5 µs per record", 5e-6, 0.0, 1_000_000, (2,), "computes"),
    Case("computing, 20 µs per record", 20e-6, 0.0, 400_000, (2,), "computes"),
    Case("computing, 100 µs per record", 100e-6, 0.0, 100_000, (2,), "computes"),
    Case("a call to Redis per record", 0.0, 0.0, 300_000, (8,), "calls"),
    Case("an outside call, 100 µs per record", 100e-6, 0.0, 400_000, (8, 32), "waits"),
    Case("a partial result of 32 KB per key", 1e-6, 0.0, 200_000, (8,), "sketches"),
    Case("a model per key: 5 ms, and 50 µs per record", 50e-6, 5e-3, 400_000, (8, 32), "waits"),
    Case(
        "a model per key: 5 ms, and 50 µs per record; 10,000 keys",
        50e-6,
        5e-3,
        800_000,
        (16,),
        "waits",
        n_keys=10_000,
    ),
)


def written_streams(
    folder: Path, n_records: int, n_keys: int, data: Path | None
) -> Iterator[tuple[str, Path]]:
    """Yield streams by name: Zipf, and the real ones in a folder."""
    generated = (
        (f"Zipf {z}", pa.array(zipf_keys(z, n_keys, n_records).astype(str)))
        for z in (0.0, 1.0, 1.4)
    )
    for name, keys in (*generated, *real_streams(data, n_records)):
        yield name, write_files(folder / name, cut(pa.table({"key": keys}), N_FILES))


@dataclass(frozen=True)
class Job:
    """A case on this machine: its work, and what that costs."""

    case: Case
    work: Work
    per_record: float
    per_pair: float

    @classmethod
    def of(cls, case: Case, port: int | None, even: DataFrame, slots: int) -> Job:
        """Return the job; costs that are not given are measured on a stream of even keys."""
        if case.kind == "waits":
            work = waiting(case.per_record, case.per_pair)
            return cls(case, work, case.per_record, case.per_pair)
        if case.kind == "computes":
            return cls(case, computing(case.per_record), case.per_record, 0.0)
        if case.kind == "calls":
            assert port is not None
            return cls(case, calling(port), seconds_of_a_call(port), 0.0)
        job = cls(case, sketching(), case.per_record, 0.0)
        few, many = (
            [job.run(jobs_of(even, slots)[name]) for _ in range(2)][1]
            for name in ("hash", "round-robin")
        )
        extra = (many["seconds"] - few["seconds"]) / (many["pairs"] - few["pairs"])
        return cls(case, job.work, case.per_record, max(0.0, slots * extra))

    def run(self, partition: Callable[[], DataFrame]) -> Row:
        """Run it; return its seconds, and how many records and (key, worker) pairs it saw.

        What a way of partitioning counts beforehand is part of its time.
        """
        counting, df = timed(partition)
        keys = df.select("key")
        if self.case.kind == "sketches":
            made = keys.mapInArrow(self.work, "key string, records bigint, sketch binary")
            found = made.groupBy("key").agg(
                F.sum("records").alias("records"),
                F.count("*").alias("keys"),
                F.max("sketch").alias("sketch"),
            )
            sums = (F.sum(name).alias(name) for name in ("records", "keys"))
            found = found.agg(*sums, F.max(F.length("sketch")))
        else:
            found = keys.mapInArrow(self.work, "records bigint, keys bigint")
        took, rows = timed(found.toArrow)
        n_records, n_pairs = (sum(rows[name].to_pylist()) for name in ("records", "keys"))
        return {"seconds": counting + took, "records": n_records, "pairs": n_pairs}


def measured(job: Job, stream: str, df: DataFrame, slots: int, repeats: int) -> list[Row]:
    """Return the raw records of one cell."""
    costs: Row = {"per_record": job.per_record, "per_pair": job.per_pair}
    report = hot_keys(df, "key", workers=slots, strategies=list(STRATEGIES), **costs)
    predicted = report.fastest.strategy if report.fastest else None
    jobs = jobs_of(df, slots)
    jobs[APPLIED] = partial(report.apply, df)
    job.run(jobs["cascade"])  # starts the Python workers of all slots
    cell = {"case": job.case.name, "stream": stream, "slots": slots}
    return [
        {**cell, "job": name, "turn": turn, **job.run(jobs[name]), "predicted": predicted}
        for turn, name in in_turns(jobs, repeats, f"{job.case.name}, {stream}, {slots} slots")
    ]


def jobs_of(df: DataFrame, slots: int) -> dict[str, Callable[[], DataFrame]]:
    """Return the ways to partition the records, each as a function."""

    def salted(n_salts: int) -> DataFrame:
        salt = (F.rand(seed=1) * n_salts).cast("int")
        return df.withColumn("salt", salt).repartition(slots, "key", "salt").drop("salt")

    def hot_salted(n_salts: int) -> DataFrame:
        """Salt hot keys only, as people write it by hand."""
        counts = df.groupBy("key").count().collect()
        least = HOT * sum(row["count"] for row in counts) / slots
        hot = [row["key"] for row in counts if row["count"] > least]
        salt = F.when(F.col("key").isin(hot), (F.rand(seed=1) * n_salts).cast("int")).otherwise(0)
        return df.withColumn("salt", salt).repartition(slots, "key", "salt").drop("salt")

    def planned(whole: bool) -> DataFrame:
        plan = plan_keys(df, "key", slots, seed=0, whole_keys=whole)
        return route(df, "key", plan=plan)

    jobs: dict[str, Callable[[], DataFrame]] = {
        "hash": lambda: df.repartition(slots, "key"),
        "round-robin": lambda: df.repartition(slots),
    }
    for n_salts in SALTS:
        if n_salts <= slots:
            jobs[f"salt-{n_salts}"] = partial(salted, n_salts)
    for n_salts in HOT_SALTS:
        jobs[f"hot-salt-{n_salts}"] = partial(hot_salted, n_salts)
    jobs["local"] = lambda: df
    jobs["plan"] = partial(planned, False)
    jobs["whole-plan"] = partial(planned, True)
    for name in reversed(STRATEGIES):
        jobs[name] = partial(route, df, "key", strategy=name, workers=slots, seed=0)
    return jobs


class Cell(NamedTuple):
    """One case on one stream: the seconds of each job, the best of its turns.

    Whatever else runs on a machine can only make a turn longer.
    """

    case: str
    stream: str
    slots: int
    seconds: dict[str, float]
    predicted: str | None  # the job that was predicted to be the fastest

    @property
    def best_other(self) -> str:
        """The fastest job that needs no strategy of ours."""
        plain = {job: s for job, s in self.seconds.items() if _is_plain(job)}
        return min(plain, key=lambda job: plain[job])

    @property
    def gain(self) -> float:
        """How many times as fast as the best alternative ours is."""
        return self.seconds[self.best_other] / self.seconds[OURS]

    @property
    def is_predicted_well(self) -> bool:
        """Whether the job that was predicted is the fastest, or nearly so."""
        found = self.seconds.get(self.predicted or "")
        return found is not None and found <= ALIKE * min(self.seconds.values())


def cells(records: Sequence[Row]) -> Iterator[Cell]:
    """Yield the cells of the raw records, in their order."""
    for (case, stream, slots), there in grouped(records, "case", "stream", "slots").items():
        jobs = grouped(there, "job")
        best = {job: min(record["seconds"] for record in mine) for job, mine in jobs.items()}
        yield Cell(case, stream, slots, best, there[0].get("predicted"))


def table(records: Sequence[Row]) -> str:
    """Return one row per cell: the times as ratios to ours, wins and losses."""
    rows = []
    for cell in cells(records):
        times = {job: f"{took / cell.seconds[OURS]:.2f}" for job, took in cell.seconds.items()}
        best = f"{cell.best_other} {times[cell.best_other]}"
        verdict = "win" if cell.gain > ALIKE else "loss" if cell.gain * ALIKE < 1.0 else "tie"
        named = f"{cell.predicted or '–'}{'' if cell.is_predicted_well else ' ✗'}"
        plain = (times.get(job, "–") for job in ("hash", "round-robin"))
        rows.append([cell.case, cell.stream, cell.slots, *plain, best, verdict, named])
    to_ours = "hash / ours | round-robin / ours | best alternative / ours"
    return markdown(f"case | stream | slots | {to_ours} | {OURS} | `hot_keys` names", rows)


def summary(records: Sequence[Row]) -> str:
    """Return in one sentence how often ours wins, and how often the prediction is right."""
    found = list(cells(records))
    wins = sum(cell.gain > ALIKE for cell in found)
    losses = sum(cell.gain * ALIKE < 1.0 for cell in found)
    right = sum(cell.is_predicted_well for cell in found)
    return (
        f"Of {len(found)} cells, {OURS} wins {wins}, ties {len(found) - wins - losses} and loses "
        f"{losses} against the best alternative. `hot_keys` names the fastest, or one within "
        f"{ALIKE - 1:.0%} of it, in {right}."
    )


def _is_plain(job: str) -> bool:
    return job in ("hash", "round-robin", "local") or "salt-" in job


REPORT = Report(
    "on_spark/spark_alternatives.jsonl",
    {
        (BENCHMARKS, "alternatives"): table,
        (BENCHMARKS, "alternatives summary"): summary,
        ("README.md", "alternatives summary"): summary,
    },
)


def keep(cell: list[Row]) -> None:
    """Write the raw records of a cell in place of those that are there, in the order of `CASES`."""
    same = ("case", "stream", "slots")
    others = [one for one in REPORT.read() if any(one[name] != cell[0][name] for name in same)]
    order = {case.name: place for place, case in enumerate(CASES)}
    kept = sorted(
        [*others, *cell],
        key=lambda one: (order.get(one["case"], len(order)), one["slots"], one["stream"]),
    )
    write_records(REPORT.path, kept)


def main(
    repeats: int = option(3, "Turns of each comparison."),
    data: Path | None = option(None, "A folder of Parquet files with `key`."),
    only: str = option("", "Cases whose name has this text."),
    most: int = option(1 << 30, "Records of a stream, at most."),
) -> None:
    """Measure cascade-ahead against what a user could write instead."""
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory())
        port = stack.enter_context(redis())
        for case in CASES:
            if only not in case.name or (case.kind == "calls" and port is None):
                continue
            n_records = min(case.records, most)
            streams = dict(written_streams(Path(name), n_records, case.n_keys, data))
            for slots in case.slots:
                spark = session("alternatives", master=f"local[{slots}]")
                job: Job | None = None
                for stream, path in streams.items():
                    df = spark.read.parquet(str(path)).cache()
                    df.count()
                    job = job or Job.of(case, port, df, slots)  # by the first stream, which is even
                    keep(measured(job, stream, df, slots, repeats))
                    df.unpersist()
                spark.stop()
            shutil.rmtree(name)
            Path(name).mkdir()
    REPORT.write(REPORT.read())


if __name__ == "__main__":
    typer.run(main)

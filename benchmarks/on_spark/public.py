"""Measure NEXMark and ShuffleBench by plain Spark and by skewless; write raw records and the table.

Both ways of a query run in turn on the same files, as streams, and must give the same results. The
first round is short and warms up.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

import typer
from pyspark.sql import SparkSession
from rich.progress import track

from benchmarks.public import nexmark
from benchmarks.public.auctions import Auctions
from benchmarks.public.both_ways import Query, Run, run_stream
from benchmarks.public.shufflebench import SCHEMAS, ShuffleRecords, shufflebench
from benchmarks.records import Report, Row, grouped, markdown, range_of, ratios
from benchmarks.turns import spark_and_folder
from skewless.cli.option import option

PLAIN, OURS = "plain", "skewless"
SLOTS = 2
ABOUT = ("asks", "plain_verb", "our_verb")
SHUFFLEBENCH = shufflebench()
#: Events of each query, as its row was measured.
EVENTS = {"Q8": 60_000_000, "Q11": 24_000_000, "Q18": 24_000_000, "Q19": 24_000_000}
QUERIES: tuple[tuple[Query, Mapping[str, str]], ...] = (
    *((query, nexmark.SCHEMAS) for query in nexmark.QUERIES.values()),
    (SHUFFLEBENCH, SCHEMAS),
)


def write_streams(folder: Path, query: Query, events: int, records: int) -> None:
    """Write what a query reads. The short streams of the warm-up have as many files."""
    for inputs, part in (("measured", 1), ("warming", 20)):
        if query is SHUFFLEBENCH:
            ShuffleRecords(n_records=max(records // part, 100)).write(folder / inputs)
        else:
            auctions = Auctions(n_events=max(events // part, 1000), n_batches=4)
            auctions.write(folder / inputs, query.reads)


def measure(
    spark: SparkSession, folder: Path, n_rounds: int, query: Query, schemas: Mapping[str, str]
) -> Iterator[Row]:
    """Run a query in both ways in each round; the way that begins changes with the round."""
    for number in track(range(n_rounds + 1), query.name):
        inputs = folder / ("measured" if number else "warming")
        runs: dict[str, Run] = {}
        for way in (PLAIN, OURS) if number % 2 else (OURS, PLAIN):
            # Another one each time: Spark may still write into one that was deleted.
            scratch = folder / f"{number}-{way}"
            runs[way] = run_stream(spark, query, schemas, inputs, scratch, ours=way == OURS)
            shutil.rmtree(scratch)
        if not runs[PLAIN].results.equals(runs[OURS].results):
            raise RuntimeError(f"{query.name}: the results of both ways differ")
        for way, run in runs.items() if number else ():
            yield {
                **{name: getattr(query, name) for name in ABOUT},
                **{"query": query.name, "way": way, "round": number},
                **{"n_streams": len(query.reads), "rows": run.results.num_rows},
                **{"batch_records": run.n_records, "batch_seconds": run.seconds},
            }


def table(records: Sequence[Row]) -> str:
    """Return one line per query; the ratio is the median over rounds, each within one round."""
    rows = []
    for query, mine in grouped(records, "query").items():
        ways = grouped(mine, "way")
        both = [ways[PLAIN], ways[OURS]]
        found = ratios(both[1], both[0], _speed, "round")
        first = mine[0]
        rows.append(
            [
                *(query, first["asks"], f"`{first['plain_verb']}`"),
                f"`{first['our_verb']}`",
                f"{sum(first['batch_records']):,}",
                *(f"{median(map(_speed, runs)):,.0f}" for runs in both),
                *(f"{median(found):.2f}", range_of(found)),
                *(f"{_batch_seconds(runs):.2f}" for runs in both),
                *(_fixed_part(runs) for runs in both),
                f"{first['rows']:,}",
            ]
        )
    asked = "query | what it asks | plain Spark | skewless"
    speed = "records | records/s and core: plain | skewless | skewless / plain | lowest to highest"
    seconds = "batch in s: plain | skewless | fixed part: plain | skewless"
    return markdown(f"{asked} | {speed} | {seconds} | rows, equal", rows)


def _speed(run: Row) -> float:
    """Return records per second of all micro-batches, and per task slot, which is a core."""
    return float(sum(run["batch_records"]) / sum(run["batch_seconds"]) / SLOTS)


def _fixed_part(runs: Sequence[Row]) -> str:
    """Return how much of a micro-batch the time of a closing one is, if there are any."""
    if all(min(run["batch_records"]) > run["n_streams"] for run in runs):
        return ""
    return f"{_batch_seconds(runs, closing=True) / _batch_seconds(runs):.0%}"


def _batch_seconds(runs: Sequence[Row], *, closing: bool = False) -> float:
    """Return the median time of micro-batches: of those with one record per stream, or others."""
    return float(
        median(
            seconds
            for r in runs
            for seconds, n in zip(r["batch_seconds"], r["batch_records"], strict=True)
            if (n > r["n_streams"]) != closing
        )
    )


REPORT = Report(
    "on_spark/public.jsonl",
    {("docs/results/public-benchmarks.md", "public workloads"): table},
)


def main(
    events: int = option(0, "Events of NEXMark; 0: as many as the row of each query has."),
    records: int = option(400_000, "Records of ShuffleBench."),
    n_rounds: int = option(3, "How often each way is measured.", "--rounds"),
    query: list[str] | None = option(None, "Only these, as Q8."),
) -> None:
    """Measure all queries."""
    known = [each.name for each, _ in QUERIES]
    for name in query or []:
        if name not in known:
            raise typer.BadParameter(f"--query must be one of {', '.join(known)}, not {name!r}")
    settings = {"spark.sql.shuffle.partitions": "4", "spark.sql.session.timeZone": "UTC"}
    settings["spark.sql.execution.arrow.maxBytesPerBatch"] = str((1 << 31) - 1)  # no limit
    settings |= {"spark.driver.memory": "6g", "spark.driver.maxResultSize": "0"}  # for all results
    with spark_and_folder("public workloads", SLOTS, settings) as (spark, folder):
        found: list[Row] = []
        for each, schemas in QUERIES:
            if not query or each.name in query:
                inputs = folder / each.name
                write_streams(inputs, each, events or EVENTS.get(each.name, 0), records)
                found += measure(spark, inputs, n_rounds, each, schemas)
                shutil.rmtree(inputs)
    kept = [one for one in REPORT.read() if one["query"] not in (query or known)]
    REPORT.write(sorted(kept + found, key=lambda one: known.index(one["query"])))


if __name__ == "__main__":
    typer.run(main)

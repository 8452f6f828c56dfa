"""One figure of each paper on Spark, beside the simulator: `papers.toml` has settings and claims.

Records sleep, so that two cores do. The streams are those of `sleeping`, by `aggregate`; Mixed's
keys move with their state, by `process`. Throughput is that of the work alone: of the worker that
takes longest in each micro-batch, and of the merges. What Spark itself takes stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer
from pyspark.sql import SparkSession

from benchmarks.on_spark import keyed_state_mixed as keyed_state
from benchmarks.on_spark.sleeping import SETTINGS, Job, on_spark, simulated
from benchmarks.records import Report, Row, markdown
from benchmarks.turns import spark_and_folder
from experiments.reproduction.figure import Claim, read_toml
from experiments.reproduction.results import MISSED, expected, judge
from skewless import workloads

Figure = Mapping[str, Any]
FIGURES: list[Figure] = read_toml(Path(__file__).with_name("papers.toml"))["figure"]
PAGE = "docs/results/reproduction.md"
#: Records of a micro-batch, and workers unless a run says otherwise.
N_RECORDS, N_WORKERS = 1_600, 8
SIMULATOR, SPARK = "simulator", "Spark"


def job_of(figure: Figure, run: str) -> tuple[str, Job]:
    """Return the strategy of a run and its job; eight workers have one partition that merges."""
    name, _, workers = run.partition("@")
    n_workers = int(workers or N_WORKERS)
    stream: Any = workloads.make(**figure["stream"])
    mergers = max(n_workers // 8, 1)
    job = Job(stream, N_RECORDS, n_workers, n_mergers=mergers, **figure.get("job", {}))
    return name, job


def measure(figure: Figure, run: str, spark: SparkSession | None, folder: Path = Path()) -> Row:
    """Return the raw record of a run: on Spark, or in the simulator if there is none."""
    where = SIMULATOR if spark is None else SPARK
    about = {"paper": figure["paper"], "figure": figure["number"], "run": run, "where": where}
    if "keyed_state" in figure:
        return about | _with_state(figure, run, spark, folder)
    name, job = job_of(figure, run)
    found = simulated(name, job) if spark is None else on_spark(spark, folder, name, job)
    _, index = np.unique(found.keys, return_inverse=True)
    n_pairs = np.unique(index * job.n_workers + found.workers).size
    return about | {
        "seconds": found.work_seconds(job),
        "wall": sum(found.walls[1:]),
        "replication": n_pairs / (int(index.max()) + 1),
    }


def _with_state(figure: Figure, run: str, spark: Any, folder: Path) -> Row:
    """Return what `process` takes, whose keys move with their state; without the first batch."""
    size = keyed_state.Size(**figure["keyed_state"])
    if spark is None:
        rows = list(keyed_state.measure_simulated(size, run))[1:]
        fair = size.n_records / size.n_workers * size.work_us / 1e6
        return {"seconds": sum(fair * (1 + row["imbalance"]) for row in rows), "wall": 0.0}
    scenario = keyed_state.Scenario("fluctuation", run, f=keyed_state.F)
    rows = list(keyed_state.measure(spark, folder, scenario, size))[1:]
    return {
        "seconds": sum(max(row["seconds"]) for row in rows),
        "wall": sum(row["wall"] for row in rows),
    }


def claims_of(figure: Figure) -> Iterator[tuple[Claim, list[str], str]]:
    """Yield each claim, the two runs whose ratio it is about, and the column."""
    for one in figure["claims"]:
        for each in one.get("each", [""]):
            says, ratio = one["says"].format(each), [run.format(each) for run in one["ratio"]]
            claim = Claim(says, figure["number"], {}, one["expects"], one.get("because", ""))
            yield claim, ratio, one.get("column", "throughput")


def ratio_of(cells: Mapping[tuple[str, str, str], Row], where: str, paper: str, *about: Any) -> Any:
    """Return the ratio of two runs; throughput is the inverse of seconds. None: not measured.

    `about` has the two runs, and the column: "throughput", "wall" for that of all that Spark does,
    or one of the raw record.
    """
    (first, second), column = about
    ours, theirs = cells.get((where, paper, first)), cells.get((where, paper, second))
    if ours is None or theirs is None:
        return None
    if column in ("throughput", "wall"):
        name = "seconds" if column == "throughput" else "wall"
        return theirs[name] / ours[name]
    return ours[column] / theirs[column]


def verdict(claim: Claim, ours: float) -> str:
    """Return whether a number reproduces a claim, or even contradicts it.

    >>> claim = Claim("A has a higher throughput than B", "1", {}, {"above": 1.05})
    >>> [verdict(claim, ours) for ours in (1.2, 1.01, 0.9)]
    ['reproduced', 'not reproduced', 'contradicted']
    """
    found = judge(claim, ours)
    wrong = ("above" in claim.expects and ours < 1) or ("below" in claim.expects and ours > 1)
    return "contradicted" if found == MISSED and wrong else found


def table(records: Sequence[Row]) -> str:
    """Return a line per claim: the paper's number, the simulator's, and that of Spark."""
    cells = {(r["where"], r["paper"], r["run"]): r for r in records}
    rows = []
    for figure in FIGURES:
        for claim, runs, column in claims_of(figure):
            about = (figure["paper"], runs, column)
            ours = {where: ratio_of(cells, where, *about) for where in (SIMULATOR, SPARK)}
            if None in ours.values():
                continue
            whole = column == "throughput" and ratio_of(cells, SPARK, *about[:2], "wall")
            rows.append(
                [
                    f"{figure['paper']}, {figure['number']}",
                    claim.says,
                    expected(claim),
                    *(f"{number:.2f}, {verdict(claim, number)}" for number in ours.values()),
                    f"{whole:.2f}" if whole else "",
                ]
            )
    heads = "figure | claim | paper's | simulator | Spark | with all that Spark does"
    return markdown(heads, rows, n_left=2)


REPORT = Report(
    "on_spark/papers.jsonl",
    {(PAGE, "papers on Spark"): table},
    command="python -m benchmarks.on_spark.papers",
)


def main() -> None:
    """Measure the runs that have no raw record yet, and write the table."""
    records = REPORT.read()
    known = {(row["where"], row["paper"], row["run"]) for row in records}
    missing = [
        (where, figure, run)
        for where in (SIMULATOR, SPARK)
        for figure in FIGURES
        for run in figure["runs"]
        if (where, figure["paper"], run) not in known
    ]
    settings = {**SETTINGS, "spark.sql.session.timeZone": "UTC"}
    settings["spark.sql.streaming.minBatchesToRetain"] = "1000"  # reports are read in the end
    with spark_and_folder("papers on Spark", 16, settings) as (spark, folder):
        for number, (where, figure, run) in enumerate(missing):
            session = spark if where == SPARK else None
            records.append(measure(figure, run, session, folder / str(number)))
            REPORT.write(records)  # a run that was stopped goes on here


if __name__ == "__main__":
    typer.run(main)

"""`skewless demo`: the main job on Spark, by hash, round-robin and cascade-ahead, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from skewless.cli import reading
from skewless.cli.application import (
    app,
    refusing_bad_input,
    require_spark,
    scratch_folder,
    spark_session,
    stopped,
)
from skewless.cli.option import option
from skewless.cli.screen import AsJson, console, number_table, print_json, progress_bar, small_bars
from skewless.plumbing.arguments import seed_number, whole

_MOST_BATCHES = 30  # all are read at the end, and the ledger keeps the last 32
_MOST_SLOTS = 1024  # each is a thread and a Python process
_MOST_RECORDS = 1_000_000_000  # they are made in memory
_LONGEST_US = 60_000_000


@app.command()
def demo(
    strategy: str = option("hash,shuffle,cascade-ahead", "Strategies, separated by commas."),
    workers: int = option(8, "Number of workers and of Spark task slots."),
    records: str = option("4e5", "Number of words, e.g. 1e6."),
    batches: int = option(8, "Number of micro-batches."),
    work_us: int = option(150, "What each record costs: microseconds of sleep."),
    load_us: int = option(
        3000, "What a word costs each worker that has it: microseconds of sleep."
    ),
    seed: int = option(0, "Seed of the words and of the routing."),
    event_log: Path | None = option(
        None, "A folder for Spark's log of the job, which `skewless diagnose log` reads."
    ),
    as_json: AsJson = False,
) -> None:
    """Score drifting words on Spark by hash, round-robin and cascade-ahead.

    The results are compared with plain Spark's. `shuffle` is round-robin.
    """
    require_spark()
    from skewless.apps.drifting_words import N_PERIODS, write_words
    from skewless.apps.main_job import N_FILES, WINDOW_LENGTH, MainJob

    with refusing_bad_input():
        names = [one.name for one in reading.strategies(strategy, {})]
        whole(workers, "--workers", least=1, most=_MOST_SLOTS)
        whole(work_us, "--work-us", most=_LONGEST_US)
        whole(load_us, "--load-us", most=_LONGEST_US)
        whole(batches, "--batches", least=1, most=_MOST_BATCHES)
        n_records = reading.count(records, "--records", N_FILES * batches, _MOST_RECORDS)
        seed_number(seed, "--seed")
        logging = log_settings(event_log)
    about = (
        f"{n_records:,} words in {batches} micro-batches; the hot words change "
        f"{N_PERIODS - 1} times. Words per window of {WINDOW_LENGTH} are scored and counted "
        f"by {workers} workers. A worker loads the model of each word that it gets in a "
        f"micro-batch: {load_us:,} µs. Each record then takes {work_us} µs. Both are sleeps."
    )
    if not as_json:
        console().print(about, soft_wrap=True)
    with scratch_folder() as scratch, progress_bar() as bar:
        steps = bar.add_task("making the words", total=4 + len(names))

        def step(text: str) -> None:
            bar.update(steps, description=text, advance=1)

        shape = {"n_files": N_FILES, "seed": seed}
        write_words(scratch / "words", n_records, n_batches=batches, **shape)
        step("starting Spark")
        # Few partitions are enough to merge: each has its own state to write.
        settings = {"spark.sql.shuffle.partitions": "2"} | logging
        with spark_session(f"local[{workers}]", scratch, names, settings) as spark:
            job = MainJob(scratch / "words", workers, work_us, load_us, seed)
            step("counting with plain Spark")
            truth = job.plain(spark)
            step("warming up")
            write_words(scratch / "few", N_FILES * 100, n_batches=1, **shape)
            # Otherwise the first strategy would pay for the warm-up of Java.
            MainJob(scratch / "few", workers).stream(spark, names[0], scratch / "warm")
            runs = []
            for number, name in enumerate(names):
                step(name)
                task = bar.add_task("micro-batches", total=batches)
                runs.append(
                    job.stream(
                        spark,
                        name,
                        scratch / f"{number}-{name}",
                        lambda done, task=task: bar.update(task, completed=min(done, batches)),  # type: ignore[misc]
                    )
                )
                bar.update(task, visible=False)
    summaries = [run.summary(truth) for run in runs]
    if as_json:
        for summary in summaries:
            print_json(summary)
    else:
        console().print(job_table(summaries))
        if len(summaries) > 1:
            print(f"\n{comparison(summaries)}")
        print(f"\n{equality(summaries)}")
        if event_log is not None:
            print(f"Spark's log of the job: skewless diagnose log {event_log}")
    if any(summary["differences"] for summary in summaries):
        raise stopped("a result differs from plain Spark's: this is a bug", 1)


def log_settings(folder: Path | None) -> dict[str, str]:
    """Return the settings for an event log in `folder`, which is created."""
    if folder is None:
        return {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--event-log: {folder}: {error.strerror}") from None
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.resolve().as_uri(),
        # One file, not rolled, which can be read while the job runs.
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


def comparison(summaries: list[dict[str, Any]]) -> str:
    """Compute the speed-up of the last strategy over each of the others.

    >>> runs = [{"strategy": "hash", "records_per_second": 2}, {"strategy": "cascade"}]
    >>> runs[1]["records_per_second"] = 3
    >>> comparison(runs)
    'cascade processed 1.50 × the records per second of hash.'
    """
    *others, last = summaries
    ratios = [
        f"{last['records_per_second'] / other['records_per_second']:.2f} × the records per second "
        f"of {other['strategy']}"
        for other in others
    ]
    return f"{last['strategy']} processed {' and '.join(ratios)}."


def equality(summaries: list[dict[str, Any]]) -> str:
    """Return the sentence that says whether the results are those of plain Spark.

    >>> equality([{"strategy": "hash", "rows": 7, "differences": 0}])
    "All results equal plain Spark's, record for record: 7 rows."
    """
    wrong = [run for run in summaries if run["differences"]]
    if wrong:
        counts = ", ".join(f"{run['strategy']}: {run['differences']:,} rows" for run in wrong)
        return f"NOT EQUAL to plain Spark's result: {counts} differ."
    return f"All results equal plain Spark's, record for record: {summaries[0]['rows']:,} rows."


def job_table(summaries: list[dict[str, Any]]) -> Table:
    """Return one row per strategy."""
    highest = max(max(summary["loads"]) for summary in summaries)
    headings = ("strategy", "records / s", "s / micro-batch", "load per worker", "imbalance")
    more = ("batch imbalance", "batch replicas / key")
    table = number_table(*headings, *more, left="strategy")
    for row in summaries:
        replicas = row["batch_replication"]
        table.add_row(
            row["strategy"],
            f"{row['records_per_second']:,.0f}",
            f"{row['batch_seconds']:.1f}",
            small_bars(row["loads"], sum(row["loads"]) / len(row["loads"]), highest),
            f"{row['imbalance']:.2g}",
            f"{row['batch_imbalance']:.2g}",
            "" if replicas is None else f"{replicas:.3f}",
        )
    return table

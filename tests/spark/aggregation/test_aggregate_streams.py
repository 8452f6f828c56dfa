"""`aggregate` on streams gives what `groupBy` gives, micro-batch for micro-batch, late data too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from skewless import aggregations as aggs
from skewless.spark.aggregation.aggregate import aggregate
from skewless.spark.ledger.ledger import Ledger
from spark.streams import (
    BEGIN,
    FULL,
    PLAIN,
    SCHEMA,
    STRATEGIES,
    WINDOWS,
    assert_same_batches,
    assert_same_types,
    native,
    own,
    plain,
    read_stream,
    records,
    run,
    write_file,
)

pytestmark = pytest.mark.spark
LATENESS = "20 seconds"
FIRST = records(1200, seed=1, seconds=(-100, 100))
LAST = pa.concat_tables(
    [records(300, seed=3, seconds=(-300, 30)), records(800, seed=2, seconds=(40, 260))]
)
MODES = [
    (window, mode)
    for window in WINDOWS
    for mode in ("update", "append")
    if (window != "none" or mode == "update") and (FULL or (window, mode) != ("tumbling", "update"))
]
#: The first and the last way: without windows, and with windows that overlap.
FEW = MODES if FULL else [MODES[0], MODES[-1]]
#: One strategy in all ways; of the others one way each, unless everything is asked for.
CASES = [
    (strategy, window, mode, merging)
    for place, strategy in enumerate(STRATEGIES)
    for number, (window, mode) in enumerate(MODES)
    for merging in ("spark", "ours")
    if FULL
    or (strategy == "cascade" and (merging == "ours" or (window, mode) in FEW))
    or (number == place % len(MODES) and merging == ("spark", "ours")[place % 2])
]
#: Forms that route nothing.
CASES += [("plain", *way, "spark") for way in FEW]
CASES += [("local", *way, merging) for way in FEW for merging in ("spark", "ours")]
#: One that routes and one that does not; the others take minutes.
QUICK = [
    ("cascade", "none", "update", "ours"),
    ("plain", "none", "update", "spark"),
]
WAYS = [
    pytest.param(*case, marks=[] if FULL or case in QUICK else pytest.mark.slow) for case in CASES
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with three micro-batches; the second is empty, the third has late records."""
    folder = tmp_path_factory.mktemp("files")
    write_file(folder, 0, FIRST)
    write_file(folder, 1, SCHEMA.empty_table())
    write_file(folder, 2, LAST)
    return folder


@pytest.fixture(scope="module")
def expected(
    spark: Any, files: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], tuple[DataFrame, dict[int, list[Row]]]]:
    """Run the plain streams, each once for all strategies."""
    known: dict[tuple[str, str], tuple[DataFrame, dict[int, list[Row]]]] = {}

    def of(window: str, mode: str) -> tuple[DataFrame, dict[int, list[Row]]]:
        if (window, mode) not in known:
            lateness = LATENESS if WINDOWS[window] else None
            query = plain(read_stream(spark, files), ["k"], WINDOWS[window], lateness)
            batches = run(query, mode, tmp_path_factory.mktemp("plain"))
            known[window, mode] = query, batches
        return known[window, mode]

    return of


@pytest.mark.parametrize(("strategy", "window", "mode", "merging"), WAYS)
def test_every_micro_batch_equals_plain_spark(
    spark: Any,
    files: Path,
    expected: Any,
    tmp_path: Path,
    strategy: str,
    window: str,
    mode: Any,
    merging: str,
) -> None:
    span = WINDOWS[window]
    ours = aggregate(
        read_stream(spark, files),
        "k",
        native() if merging == "spark" else own(),
        window=span,
        watermark=LATENESS if span else None,
        strategy=strategy,
        workers=4,
        ledger=str(tmp_path / "ledger"),
        mode=mode if merging == "ours" else None,
    )
    others, rows = expected(window, mode)
    assert_same_types(ours, others)
    batches = run(ours, mode, tmp_path / "checkpoint")
    assert_same_batches(batches, rows, ["window", "k"] if span else ["k"])
    assert any(batches.values())


@pytest.mark.slow
def test_the_streams_above_have_records_that_come_too_late(expected: Any) -> None:
    """Otherwise they would say nothing about late records."""

    def early(table: pa.Table) -> int:
        micros = table.column("ts").drop_null().cast(pa.int64()).to_numpy()
        return int((micros < (BEGIN + 60) * 1_000_000).sum())

    _, batches = expected("tumbling", "append")
    rows = [row for batch in batches.values() for row in batch]
    closed = sum(row["n"] for row in rows if row["window"].end.timestamp() <= BEGIN + 60)
    assert closed == early(FIRST)
    assert early(LAST) > 100


FAR = 410_000_000_000_000_000  # in microseconds, some 13,000 years


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
@pytest.mark.parametrize("merging", ["spark", "ours"])
def test_far_times_and_times_without_zone_are_windowed_alike(
    spark: Any, tmp_path: Path, merging: str, kind: str
) -> None:
    write_file(tmp_path / "in", 0, records(300, seed=5, seconds=(0, 100)))
    write_file(tmp_path / "in", 1, records(300, seed=6, seconds=(60, 200)))
    # A watermark is for times with a zone only, in plain Spark as well.
    watermark, mode = ("10 seconds", "append") if kind == "timestamp" else (None, "update")

    def stream() -> DataFrame:
        df = read_stream(spark, tmp_path / "in")
        # Almost in the year 15,000: Python's dates end with 9999, and Spark's do not.
        time = F.timestamp_micros(F.unix_micros("ts") + F.lit(FAR))
        return df.withColumn("ts", time.cast(kind))

    window = ("ts", "60 seconds", "20 seconds", "5 seconds")
    ready: dict[str, Any] = {"n": aggs.count(), "sum_v": aggs.sum("v")}
    if merging == "ours":
        ready["var"] = aggs.variance("v")
    ledger = str(tmp_path / "ledger")
    ours = aggregate(
        stream(),
        "k",
        ready,
        window=window,
        watermark=watermark,
        strategy="cascade",
        workers=3,
        ledger=ledger,
    )
    others = plain(stream(), ["k"], window, watermark, names=list(ready))
    assert_same_types(ours, others)

    def shown(df: DataFrame) -> DataFrame:
        return df.withColumn("window", F.col("window").cast("string"))

    assert_same_batches(
        run(shown(ours), mode, tmp_path / "ours"),
        run(shown(others), mode, tmp_path / "plain"),
        ["window", "k"],
    )


def test_without_a_ledger_results_are_the_same_and_a_warning_says_what_is_lost(
    spark: Any, tmp_path: Path
) -> None:
    write_file(tmp_path / "in", 0, records(200, seed=7))
    stream, chosen = read_stream(spark, tmp_path / "in"), {"n": aggs.count()}
    with pytest.warns(UserWarning, match="no ledger"):
        ours = aggregate(stream, "k", chosen, workers=3, strategy="cascade")
    rows = run(ours, "update", tmp_path / "checkpoint")[0]
    counts = records(200, seed=7).group_by("k").aggregate([([], "count_all")]).to_pydict()
    assert {row["k"]: row["n"] for row in rows} == dict(
        zip(counts["k"], counts["count_all"], strict=True)
    )


def test_the_ledger_tells_of_every_record(spark: Any, tmp_path: Path) -> None:
    for number in range(2):
        write_file(tmp_path / "in", number, records(500, seed=number))
    folder = str(tmp_path / "ledger")
    ours = aggregate(
        read_stream(spark, tmp_path / "in"),
        "k",
        {"n": aggs.count()},
        strategy="cascade",
        workers=3,
        ledger=folder,
    )
    run(ours, "complete", tmp_path / "checkpoint")
    ledger = Ledger(folder)
    for batch in range(2):
        sources, workers = ledger.read_reports(batch), ledger.read_workers(batch)
        assert sum(int(report.arrays["loads"].sum()) for report in sources.values()) == 500
        assert sum(report.about["records"] for report in workers.values()) == 500
        assert sorted(workers) == [0, 1, 2]


def test_all_aggregations_are_compared() -> None:
    ready = {type(aggregation) for aggregation in (native() | own()).values()}
    known = {getattr(aggs, name) for name in aggs.__all__}
    concrete = {
        one
        for one in known
        if isinstance(one, type)
        and issubclass(one, aggs.Aggregation)
        and one is not aggs.Aggregation
    }
    # What a user writes runs as PerKey; Max, Min and the like are each there by themselves.
    assert concrete - {aggs.PerKey, aggs.PerColumn} <= ready
    assert set(native() | own()) == set(PLAIN)

"""A restarted stream finds its state, whatever the session has become meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import DataFrame, Row

from skewless import aggregations as aggs
from skewless.spark.aggregation.aggregate import aggregate
from spark.streams import (
    FULL,
    WINDOWS,
    assert_same_batches,
    configured,
    plain,
    read_stream,
    records,
    run,
    spread,
    write_file,
)

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:no ledger")]
PARTITIONS = "spark.sql.shuffle.partitions"
LATENESS = "20 seconds"
#: Of one run after the other; each begins where the one before it ended.
SETTINGS: dict[str, list[dict[str, str]]] = {
    "more": [{PARTITIONS: "2"}, {PARTITIONS: "5"}],
    "fewer": [{PARTITIONS: "4"}, {PARTITIONS: "1"}],
    "another zone": [{}, {"spark.sql.session.timeZone": "Pacific/Chatham"}],
    "no ansi": [{}, {"spark.sql.ansi.enabled": "false"}],
}
CASES = [
    (window, mode, merging, ledger, change)
    for window in WINDOWS
    for mode in ("update", "append")
    for merging in ("ours", "spark")
    for ledger in (True, False)
    for change in SETTINGS
    if window != "none" or mode == "update"
]
SHORT = [
    ("none", "update", "ours", True, "more"),
    ("sliding", "append", "ours", False, "fewer"),
    ("tumbling", "update", "ours", False, "another zone"),
]


def own() -> dict[str, Any]:
    return {
        "n": aggs.count(),
        "var": aggs.variance("v"),
        "std_pop": aggs.stddev("x", population=True),
        "spread": spread(),
    }


def native() -> dict[str, Any]:
    return {"n": aggs.count(), "mean_v": aggs.mean("v"), "set": aggs.collect_set("s")}


def run_and_restart(
    spark: Any,
    folder: Path,
    settings: list[dict[str, str]],
    query: Callable[[DataFrame], DataFrame],
    mode: str,
) -> dict[int, list[Row]]:
    """Run a query anew for every file, from one checkpoint; return all micro-batches."""
    batches: dict[int, list[Row]] = {}
    for number, chosen in enumerate(settings):
        begin = 60 * number
        write_file(folder / "in", number, records(400, number, (begin - 60, begin + 80)))
        with configured(spark, chosen):
            results = query(read_stream(spark, folder / "in"))
            found = run(results, mode, folder / "checkpoint")
        assert not batches.keys() & found.keys()
        batches |= found
    return batches


@pytest.mark.parametrize(
    ("window", "mode", "merging", "ledger", "change"),
    CASES
    if FULL
    else [SHORT[0], *(pytest.param(*case, marks=pytest.mark.slow) for case in SHORT[1:])],
)
def test_a_restart_under_other_settings_equals_plain_spark(
    spark: Any, tmp_path: Path, window: str, mode: Any, merging: str, ledger: bool, change: str
) -> None:
    span = WINDOWS[window]
    lateness = LATENESS if span else None
    chosen = own() if merging == "ours" else native()

    def ours(df: DataFrame) -> DataFrame:
        return aggregate(
            df,
            "k",
            chosen,
            window=span,
            watermark=lateness,
            strategy="cascade",
            workers=None if ledger else 3,  # as many as the ledger began with
            ledger=str(tmp_path / "ledger") if ledger else None,
            mode=mode if merging == "ours" else None,
        )

    def others(df: DataFrame) -> DataFrame:
        return plain(df, ["k"], span, lateness, chosen)

    settings = SETTINGS[change]
    batches = run_and_restart(spark, tmp_path / "ours", settings, ours, mode)
    wanted = run_and_restart(spark, tmp_path / "plain", settings[:1] * 2, others, mode)
    names = ["window", "k"] if span else ["k"]
    assert_same_batches(batches, wanted, names)
    assert sum(map(len, batches.values())) > 50
    if mode == "append":
        emitted = [repr([row[name] for name in names]) for b in batches.values() for row in b]
        assert len(set(emitted)) == len(emitted)

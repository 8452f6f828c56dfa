"""Batch DataFrames through `process`, states read as DataFrames, bad input refused in a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from lanes import slow
from skewless.spark import KeyProcessor, Processor, process, read_state
from spark.state.chains import DDL, chain, chained, in_order, records, rows_of
from spark.streams import configured, read_stream, run, write_file

pytestmark = pytest.mark.spark


def sessions(schema: str = "n bigint, expires timestamp") -> Any:
    class Sessions(KeyProcessor):
        state_schema = schema
        result_schema = "k string, n bigint"

        def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
            n = len(records) + (state["n"] if state else 0)
            return [], {"n": n, "expires": records[-1]["ts"]}

        def expire_key(self, key: Any, state: Any, at: Any) -> Any:
            return [{"n": state["n"]}], None

    return Sessions()


@pytest.mark.parametrize("strategy", ["auto", *slow(["hash"])])
def test_a_batch_equals_plain_python(spark: Any, tmp_path: Path, strategy: str) -> None:
    table = records(500, 1)
    write_file(tmp_path / "in", 0, table)
    df = spark.read.schema(DDL).parquet(str(tmp_path / "in")).coalesce(1)
    found = process(df, "k", chain(), strategy=strategy, workers=3, untrusted_keys=True)
    assert in_order(map(tuple, found.collect())) == chained([table])[0]


def test_all_states_of_a_batch_expire_at_its_end(spark: Any) -> None:
    df = spark.createDataFrame(records(50, 2).to_pandas(), DDL)
    found = process(df, F.upper("k").alias("key"), sessions(), workers=2).collect()
    assert sum(row["n"] for row in found) == 50


def test_the_state_of_any_kept_batch_can_be_read(spark: Any, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger")
    tables = [records(80, seed) for seed in range(3)]
    for number, table in enumerate(tables):
        write_file(tmp_path / "in", number, table)
    stream = read_stream(spark, tmp_path / "in", DDL)
    results = process(stream, "k", chain(), workers=2, ledger=ledger)
    assert rows_of(run(results, "append", tmp_path / "checkpoint")) == chained(tables)
    for batch, seen in ((1, tables[:2]), (None, tables)):
        last: dict[Any, Any] = {}
        for rows in chained(seen):
            for key, n, total, _ in sorted(rows, key=lambda row: row[1]):
                last[key] = (n, total)
        wanted = {key: value for key, value in last.items() if value[0] % 17}
        states = read_state(spark, ledger, batch)
        assert states.columns == ["k", "worker", "version", "bytes", "n", "sum", "last"]
        rows = states.collect()
        assert {row["k"]: (row["n"], row["sum"]) for row in rows} == wanted
        assert {row["version"] for row in rows} == {len(seen) - 1}
        assert {row["worker"] for row in rows} <= {0, 1}
        assert all(row["bytes"] >= 24 for row in rows)
    with pytest.raises(ValueError, match=r"batch: .* has no version 7; it has 0 … 2"):
        read_state(spark, ledger, 7)


class Lacks(Processor):
    state_schema = "n bigint"

    def update(self, keyed: Any) -> Any:
        raise NotImplementedError


def schemas(state: str, result: str = "n bigint", *, ttl: str | None = None) -> Any:
    class Wrong(Lacks):
        state_schema = state
        result_schema = result

    Wrong.ttl = ttl
    return Wrong()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"processor": Lacks()}, r"Lacks: the attribute 'result_schema' is missing"),
        ({"processor": Lacks}, r"processor must be an object of a class derived from"),
        ({"processor": schemas("n bigit")}, r"Wrong: state_schema: .*did you mean 'bigint'"),
        ({"processor": schemas("")}, r"Wrong: state_schema must be DDL"),
        ({"processor": schemas("n int, N int")}, r"state_schema names the field 'n' twice"),
        ({"processor": schemas("expires date")}, r"field 'expires' must be a timestamp, not date"),
        ({"processor": schemas("expires timestamp")}, r"watermark: Wrong has a field 'expires'"),
        ({"processor": schemas("n int", ttl="soon")}, r"Wrong: ttl must be numbers with units"),
        ({"processor": schemas("n int", ttl="1 day")}, r"watermark: Wrong has ttl"),
        ({"key": "kk"}, r"key: unknown column 'kk'; did you mean 'k'"),
        ({"strategy": "cascade"}, r"strategy: 'cascade' cannot place keyed state"),
        ({"strategy": "mixd"}, r"unknown strategy 'mixd'; did you mean 'mixed'"),
        ({"workers": 0}, r"workers must be 1"),
        ({"workers": 4, "max_workers": 3}, r"max_workers must be at least workers \(4\), not 3"),
        ({"watermark": "10 minutes"}, r"watermark must be the column of event time and a delay"),
        ({"watermark": ("v", "1 day")}, r"watermark: column 'v' must be a timestamp, not bigint"),
        ({"watermark": ("ts", "1 dy")}, r"watermark must be numbers with units"),
        ({"order_by": "when"}, r"order_by: unknown column 'when'"),
        ({"interval": 0}, r"interval must be at least 1, not 0"),
        ({"cost": "money"}, r"cost must be 'records' or 'seconds', not 'money'"),
        ({"ledger": None}, r"ledger: process keeps the states of a stream there"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_input_is_refused_in_one_line(
    spark: Any, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    (tmp_path / "in").mkdir()
    given = {"key": "k", "processor": chain(), "ledger": str(tmp_path / "ledger"), **settings}
    stream = read_stream(spark, tmp_path / "in", DDL)
    with pytest.raises(ValueError, match=message) as caught:
        process(stream, given.pop("key"), given.pop("processor"), **given)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ledger").exists()


def test_more_partitions_than_there_may_be_workers_are_refused(spark: Any) -> None:
    df = spark.range(3).selectExpr("cast(id as string) as k", "id as v")
    with (
        configured(spark, {"spark.sql.shuffle.partitions": str(2**24)}),
        pytest.raises(ValueError, match=r"^workers must be 1 … 16,777,215, not 16777216"),
    ):
        process(df, "k", chain())

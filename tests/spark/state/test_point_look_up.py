"""`read_state(…, keys=…)`: equal to the filtered scan, and it opens the files of one worker."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from skewless.spark import KeyProcessor, join, process, read_state
from spark.state.chains import DDL, chain, random_moves, records
from spark.streams import read_stream, run, write_file

pytestmark = pytest.mark.spark
WORKERS = 3


def counts() -> Any:
    """Return a processor that counts; its class is local, so Spark's workers get it by value."""

    class Counts(KeyProcessor):
        state_schema = "n bigint"
        result_schema = "n bigint"

        def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
            return [], {"n": len(records) + (state["n"] if state else 0)}

    return Counts()


def in_text(df: Any) -> list[str]:
    return sorted(repr(row) for row in df.collect())


def ran(spark: Any, folder: Path, tables: list[pa.Table], ddl: str, query: Any) -> str:
    """Run a query over these micro-batches; return its ledger."""
    for number, table in enumerate(tables):
        write_file(folder / "in", number, table)
    ledger = str(folder / "ledger")
    run(query(read_stream(spark, folder / "in", ddl), ledger), "append", folder / "checkpoint")
    return ledger


@pytest.mark.parametrize("settings", [{"strategy": "mixed"}, {"untrusted_keys": True}], ids=str)
def test_keys_are_found_as_by_a_filtered_scan(
    spark: Any, tmp_path: Path, settings: dict[str, Any]
) -> None:
    if "strategy" in settings:  # plans with long tables, under the name of a strategy of ours
        settings = {"strategy": random_moves()}
    tables = [records(80, seed) for seed in range(3)]

    def query(stream: Any, ledger: str) -> Any:
        return process(stream, "k", chain(), workers=WORKERS, ledger=ledger, **settings)

    ledger = ran(spark, tmp_path, tables, DDL, query)
    some = ["hot", "hot", "1", None, "no such key"]
    for batch, lists in ((0, [some]), (None, [some, [], ["no such key"], None])):
        scan = read_state(spark, ledger, batch)
        every = {row["k"]: repr(row) for row in scan.collect()}
        assert None in every
        assert len(every) > 20
        for keys in lists:
            asked = list(every) if keys is None else keys
            found = read_state(spark, ledger, batch, keys=asked)
            assert found.schema == scan.schema
            assert in_text(found) == sorted(every[key] for key in set(asked) & every.keys()), asked


def test_a_key_of_several_columns_is_a_tuple(spark: Any, tmp_path: Path) -> None:
    names = ["a", None, "a", "b", None]
    numbers = [0.0, 1.5, math.nan, None, None]
    table = pa.table({"k": names, "x": numbers}, pa.schema({"k": pa.string(), "x": pa.float64()}))

    def query(stream: Any, ledger: str) -> Any:
        return process(stream, ["x", "k"], counts(), workers=WORKERS, ledger=ledger)

    ledger = ran(spark, tmp_path, [table], "k string, x double", query)
    scan = in_text(read_state(spark, ledger))
    assert len(scan) == 5
    keys = [*zip(numbers, names, strict=True), (0.0, "b"), (None, "a")]
    # As `groupBy` has it: the negative zero is zero, and NaN is NaN.
    keys[0], keys[2] = (-0.0, "a"), (-math.nan, "a")
    assert in_text(read_state(spark, ledger, keys=keys)) == scan
    one = read_state(spark, ledger, keys=[[None, None]]).collect()
    assert [(row["x"], row["k"], row["n"]) for row in one] == [(None, None, 1)]
    for wrong, message in (
        ([("a",)], r"keys: each must be a tuple of 2 values, for x, k, not \('a',\)"),
        (["ab"], r"keys: each must be a tuple of 2 values, for x, k, not 'ab'"),
        ([("a", "a")], r"keys: the value of 'x' 'a' is not of the declared type double"),
    ):
        with pytest.raises(ValueError, match=message):
            read_state(spark, ledger, keys=wrong)


def test_only_the_files_of_the_worker_are_opened(spark: Any, tmp_path: Path) -> None:
    table = pa.table({"k": list(range(200))}, pa.schema({"k": pa.int64()}))

    def query(stream: Any, ledger: str) -> Any:
        return process(stream, "k", counts(), workers=WORKERS, ledger=ledger)

    ledger = ran(spark, tmp_path, [table], "k bigint", query)
    homes = {row["k"]: row["worker"] for row in read_state(spark, ledger).collect()}
    # What the newest file of worker 0 changed tells the types of the key.
    for file in Path(ledger).rglob("worker-00002*"):
        file.write_bytes(b"damaged")
    mine = [key for key, worker in homes.items() if worker == 1]
    found = read_state(spark, ledger, keys=mine)
    assert sorted(row["k"] for row in found.collect()) == sorted(mine)
    other = next(key for key, worker in homes.items() if worker == 2)
    with pytest.raises(PySparkException, match="has no seal"):
        read_state(spark, ledger, keys=[other]).collect()
    for wrong, message in (
        ("7", r"keys must be a list of keys, not '7'"),
        (7, r"keys must be a list of keys, not 7"),
        ([7.5], r"keys: the value of 'k' 7.5 is not of the declared type int64: a whole number"),
    ):
        with pytest.raises(ValueError, match=message):
            read_state(spark, ledger, keys=wrong)


def test_keys_of_a_join_are_refused(spark: Any, tmp_path: Path) -> None:
    def query(stream: Any, ledger: str) -> Any:
        settings: dict[str, Any] = {"within": "9 seconds", "watermark": ("ts", "9 seconds")}
        return join(stream, stream, "k", workers=1, ledger=ledger, **settings)

    ledger = ran(spark, tmp_path, [records(20, 1)], DDL, query)
    with pytest.raises(ValueError, match=r"keys: .*is of a join, .*: filter what read_state"):
        read_state(spark, ledger, keys=["hot"])

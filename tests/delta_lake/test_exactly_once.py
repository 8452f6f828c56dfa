"""From Delta to Delta, with a micro-batch that runs twice: the results are those of plain Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from delta_lake.streams import N_APPENDS, PER_APPEND, append, read, run_with_a_replay, stream
from skewless import aggregations as aggs
from skewless.spark import aggregate, process, read_state, route
from spark_sessions import totals


def test_routed_records_reach_a_table_once_each(spark: Any, tmp_path: Path) -> None:
    def writer() -> Any:
        ledger = str(tmp_path / "ledger")
        routed = route(stream(spark, tmp_path / "in"), "key", workers=3, ledger=ledger)
        return routed.writeStream.format("delta").option("path", str(tmp_path / "out"))

    run_with_a_replay(spark, tmp_path, writer)
    ours = read(spark, tmp_path / "out")
    assert ours.count() == N_APPENDS * PER_APPEND
    columns = ["key", "value"]
    assert sorted(ours.select(columns).collect()) == sorted(read(spark, tmp_path / "in").collect())
    assert ours.where("key = 'hot'").select("worker").distinct().count() > 1


def test_states_and_results_of_process_count_each_record_once(spark: Any, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger")

    def writer() -> Any:
        counted = process(stream(spark, tmp_path / "in"), "key", totals(), workers=3, ledger=ledger)
        return counted.writeStream.format("delta").option("path", str(tmp_path / "out"))

    run_with_a_replay(spark, tmp_path, writer)
    plain = sorted(read(spark, tmp_path / "in").groupBy("key").count().collect())
    results = read(spark, tmp_path / "out").groupBy("key")
    assert sorted(results.agg(F.sum("new")).collect()) == plain
    assert sorted(read_state(spark, ledger).select("key", "n").collect()) == plain


def test_results_merged_into_a_table_are_those_of_plain_spark(spark: Any, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path / 'out'}`"
    spark.sql(f"CREATE TABLE {table} (key STRING, n BIGINT, largest BIGINT) USING delta")

    def merge(rows: Any, number: int) -> None:
        rows.createOrReplaceTempView("changed")
        rows.sparkSession.sql(
            f"MERGE INTO {table} t USING changed c ON t.key <=> c.key "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def writer() -> Any:
        results = aggregate(
            stream(spark, tmp_path / "in"),
            "key",
            {"n": aggs.count(), "largest": aggs.max("value")},
            strategy="cascade",
            workers=3,
            ledger=str(tmp_path / "ledger"),
        )
        return results.writeStream.outputMode("update").foreachBatch(merge)

    run_with_a_replay(spark, tmp_path, writer)
    plain = read(spark, tmp_path / "in").groupBy("key").agg(F.count("*"), F.max("value"))
    assert sorted(read(spark, tmp_path / "out").collect()) == sorted(plain.collect())


def test_a_partitioned_table_gets_few_files(spark: Any, tmp_path: Path) -> None:
    for number in range(N_APPENDS):
        append(spark, tmp_path / "in", number)
    n_sources, n_workers = 4, 4
    records = read(spark, tmp_path / "in").repartition(n_sources)
    for name, df in (("ours", route(records, "key", workers=n_workers)), ("plain", records)):
        writer = df.select("key", "value").write.format("delta").partitionBy("key")
        writer.save(str(tmp_path / name))
    tables = {name: read(spark, tmp_path / name) for name in ("ours", "plain")}
    assert sorted(tables["ours"].collect()) == sorted(tables["plain"].collect())
    files = {name: len(table.inputFiles()) for name, table in tables.items()}
    n_keys = records.select("key").distinct().count()
    # One file per key, and n - 1 more at most for each source, which share nothing in a batch job.
    # Every partition of the other has most keys.
    assert files["ours"] <= n_keys + n_sources * (n_workers - 1) < files["plain"]

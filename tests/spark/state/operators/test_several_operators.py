"""Several operators of one query below one root: each gets its own folder, and keeps its states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

from skewless.spark import deduplicate, process, sessions
from skewless.spark.routing.query_ledger import operators_in
from spark.state.chains import DDL, records
from spark.streams import configured, read_stream, run, write_file

pytestmark = pytest.mark.spark
TABLES = [records(60, seed) for seed in range(4)]
_AT = {"watermark": ("ts", "10 seconds")}


def counting() -> tuple[Any, Any]:
    """Return two processors with the same schemas: one counts, the other adds up."""
    from skewless.spark import KeyProcessor

    class Counts(KeyProcessor):
        state_schema = "n bigint"
        result_schema = "k string, n bigint"

        def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
            n = (state["n"] if state else 0) + len(records)
            return [{"n": n}], {"n": n}

    class Sums(Counts):
        def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
            n = (state["n"] if state else 0) + sum(record["n"] for record in records)
            return [{"n": n}], {"n": n}

    return Counts(), Sums()


def counted(tables: list[pa.Table]) -> list[list[tuple[Any, int]]]:
    """Return for each table the counts of its keys so far, added up over the tables."""
    counts: dict[Any, int] = {}
    sums: dict[Any, int] = {}
    found = []
    for table in tables:
        keys = table.column("k").to_pylist()
        for key in keys:
            counts[key] = counts.get(key, 0) + 1
        for key in dict.fromkeys(keys):
            sums[key] = sums.get(key, 0) + counts[key]
        found.append(sorted(((key, sums[key]) for key in set(keys)), key=repr))
    return found


class Root:
    """A query below a root, which takes one file after the other, with a restart for each."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder, self.n_files = spark, folder, 0

    def next(self, build: Any, partitions: int = 2) -> list[tuple[Any, ...]]:
        """Return the rows of the next file; the query is built anew, with so many partitions."""
        write_file(self.folder / "in", self.n_files, TABLES[self.n_files])
        found = self.again(build, partitions)
        self.n_files += 1
        return found

    def again(self, build: Any, partitions: int = 2) -> list[tuple[Any, ...]]:
        settings = {
            "spark.skewless.ledger": str(self.folder / "root"),
            "spark.skewless.checkpoint": str(self.folder / "checkpoint"),
            "spark.sql.shuffle.partitions": str(partitions),
        }
        with configured(self.spark, settings):
            df = build(read_stream(self.spark, self.folder / "in", DDL))
            found = run(df, "append", self.folder / "checkpoint")
        return sorted((tuple(row) for rows in found.values() for row in rows), key=repr)

    @property
    def ledgers(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "root").iterdir())


def test_two_processes_keep_their_states_and_refuse_to_swap_them(
    spark: Any, tmp_path: Path
) -> None:
    counts, sums = counting()
    root, wanted = Root(spark, tmp_path), counted(TABLES)

    def both(df: Any, **placement: Any) -> Any:
        return process(process(df, "k", counts, **placement), "k", sums, **placement)

    assert root.next(both) == wanted[0]
    first, second = root.ledgers
    assert second == f"{first}-operator-2"
    assert root.next(both, partitions=5) == wanted[1]
    write_file(tmp_path / "in", 2, TABLES[2])
    for changed in (
        lambda df: process(process(df, "k", sums), "k", counts),
        lambda df: process(df.selectExpr("k", "v AS n"), "k", sums),
    ):
        # Both operators look when the micro-batch begins, and either may be the first to fail.
        told = "Counts_by_k, then Sums_by_k, (and|not) Sums_by_k"
        with pytest.raises(StreamingQueryException, match=told):
            root.again(changed)
    assert root.again(lambda df: both(df, workers=3)) == wanted[2]
    assert root.ledgers == [first, second]


def test_an_operator_more_is_refused(spark: Any, tmp_path: Path) -> None:
    counts, sums = counting()
    root = Root(spark, tmp_path)
    root.next(lambda df: process(df, "k", counts))
    with pytest.raises(StreamingQueryException, match="operator-2"):
        root.next(lambda df: process(process(df, "k", counts), "k", sums))


def test_deduplicate_and_sessions_give_what_they_give_with_two_ledgers(
    spark: Any, tmp_path: Path
) -> None:
    def both(df: Any, *ledgers: Any) -> Any:
        one, other = [{"ledger": str(path)} for path in ledgers] or [{}, {}]
        once = deduplicate(df, ["k", "v"], within="20 seconds", **_AT, **one)
        assert len(operators_in(once)) == 1
        return sessions(once.where("v > -40"), "k", "5 seconds", **_AT, **other)

    for number, table in enumerate(TABLES):
        write_file(tmp_path / "all", number, table)
    stream = read_stream(spark, tmp_path / "all", DDL)
    found = run(both(stream, tmp_path / "a", tmp_path / "b"), "append", tmp_path / "checkpoint-all")
    wanted = [sorted((tuple(row) for row in rows), key=repr) for _, rows in sorted(found.items())]
    root = Root(spark, tmp_path)
    assert [root.next(both, partitions) for partitions in (2, 3, 2, 5)] == wanted
    assert len(root.ledgers) == 2


def test_two_operators_beside_each_other_need_two_ledgers(spark: Any, tmp_path: Path) -> None:
    counts, _ = counting()

    def beside(df: Any) -> Any:
        one, other = (process(df, "k", counts).repartition(2) for _ in range(2))
        return one.union(other)

    # Each takes the other for a newer run of itself if it looks a moment later.
    told = "give each another ledger=|a newer run of this query"
    with pytest.raises(StreamingQueryException, match=told):
        Root(spark, tmp_path).next(beside)

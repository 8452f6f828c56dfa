"""Keys that fail come as rows of their own, in a column that is asked for; others go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skewless.spark import KeyProcessor, process
from spark.state.chains import DDL, SCHEMA, chain, chained, in_order, random_moves, records
from spark.state.counting import Counts, of_keys
from spark.state.eight_tables import rows
from spark.state.without_spark import Query
from spark.streams import read_stream, run, write_file


def fragile() -> Any:
    """Return the processor of `chain`, which fails if a value of the key is a multiple of 7."""
    inner = chain()

    class Fragile(KeyProcessor):
        state_schema = inner.state_schema
        result_schema = inner.result_schema

        def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
            if any(record["v"] % 7 == 0 for record in records):
                raise LookupError(f"7 in {len(records)} records")
            return inner.update_key(key, records, state, at)

    return Fragile()


def wanted(tables: list[pa.Table]) -> list[list[tuple[Any, ...]]]:
    """Return the rows of each table by plain Python: keys that fail are left out."""
    kept, failed = [], []
    for table in tables:
        groups: dict[Any, list[Any]] = {}
        for record in table.to_pylist():
            groups.setdefault(record["k"], []).append(record)
        bad = {key for key, some in groups.items() if any(one["v"] % 7 == 0 for one in some)}
        stays = [record["k"] not in bad for record in table.to_pylist()]
        kept.append(table.filter(pa.array(stays)))
        told = [
            {"key": {"k": k}, "error": "LookupError", "message": f"7 in {len(groups[k])} records"}
            for k in bad
        ]
        failed.append([(None,) * 4 + (one,) for one in told])
    good = [[(*row, None) for row in some] for some in chained(kept)]
    return [in_order([*a, *b]) for a, b in zip(good, failed, strict=True)]


TABLES = [records(70, batch) for batch in range(8)]


def test_states_of_keys_that_fail_stay_as_they_were(tmp_path: Path) -> None:
    """After restarts, with other workers, and while keys move."""
    found = []
    for batch, table in enumerate(TABLES):
        one = Query(
            tmp_path,
            fragile(),
            SCHEMA,
            run=f"run-{batch // 3}",
            workers=2 + batch // 3,
            strategy=random_moves(),
            errors="failed",
        )
        if batch == 5:
            one.plan(batch, table)  # begun, and repeated by the next step
        found.append(rows(one.step(batch, table)))
    expected = wanted(TABLES)
    assert found == expected
    assert sum(row[-1] is not None for batch in expected for row in batch) > 5


class Fussy(Counts):
    """Gets all keys at once; fails if one of them has two records, and forgets what is old."""

    ttl = "3 seconds"

    def update(self, keyed: Any) -> Any:
        if (np.diff(keyed.starts) == 2).any():
            raise ValueError("two records")
        return super().update(keyed)


def test_of_many_keys_at_once_only_those_fail_that_fail_alone(tmp_path: Path) -> None:
    one = Query(tmp_path, Fussy(), SCHEMA, workers=1, time="ts", delay=0, errors="e", late="old")
    first = one.step(0, of_keys(list("abccddd"), 5))
    assert first.column_names == ["k", "n", "old", "e"]
    told = {(row["k"], row["n"], row["e"] and row["e"]["key"]["k"]) for row in first.to_pylist()}
    assert told == {("a", 1, None), ("b", 1, None), ("d", 3, None), (None, None, "c")}
    error = {"key": {"k": "b"}, "error": "ValueError", "message": "two records"}
    assert rows(one.step(1, of_keys(["b", "b"], 7))) == [(None, None, None, error)]
    late = pa.concat_tables([of_keys(["a"], 6), of_keys(["x", "z", "z"], 9)])
    found = [tuple(cell is None for cell in row) for row in rows(one.step(2, late))]
    result, old, failed = (False, False, True, True), (True, True, False, True), (True,) * 3
    assert sorted(found) == sorted([result, old, (*failed, False)])
    assert sorted(row[:2] for row in rows(one.states())) == [("a", 1), ("b", 1), ("d", 3), ("x", 1)]
    # The watermark is 9 s. Records that failed at 7 s do not count for the ttl.
    one.step(3, of_keys(["y"], 10))
    assert sorted(row[0] for row in rows(one.states())) == ["x", "y"]


class Garbled(Counts):
    """Fails with the text of a record that is no Unicode."""

    def update(self, keyed: Any) -> Any:
        raise ValueError(b"caf\xe9".decode(errors="surrogateescape"))


def test_a_message_that_is_no_unicode_is_escaped(tmp_path: Path) -> None:
    one = Query(tmp_path, Garbled(), SCHEMA, workers=1, errors="e")
    (row,) = one.step(0, of_keys(["a"])).to_pylist()
    assert row["e"]["message"] == r"caf\udce9"


def test_without_the_column_an_error_ends_the_query(tmp_path: Path) -> None:
    one = Query(tmp_path, Fussy(), SCHEMA, workers=1, time="ts", delay=0)
    with pytest.raises(ValueError, match=r"^two records$"):
        one.step(0, of_keys(["b", "b"], 5))


@pytest.mark.spark
def test_errors_of_a_stream_and_of_a_batch(spark: Any, tmp_path: Path) -> None:
    tables = TABLES[:3]
    for number, table in enumerate(tables):
        write_file(tmp_path / "in", number, table)

    def results(**more: Any) -> Any:
        stream = read_stream(spark, tmp_path / "in", DDL)
        given = {"workers": 2, "ledger": str(tmp_path / "ledger"), **more}
        return process(stream, "k", fragile(), **given)

    found = run(results(errors_column="failed"), "append", tmp_path / "checkpoint")
    for batch, expected in enumerate(wanted(tables)):
        told = [row.asDict(recursive=True) for row in found[batch]]
        assert in_order(tuple(row.values()) for row in told) == expected
    whole = process(
        spark.createDataFrame(tables[0]), "k", fragile(), errors_column="failed", workers=2
    )
    assert whole.schema["failed"].dataType.names == ["key", "error", "message"]
    n_failed = sum(row[-1] is not None for row in wanted(tables)[0])
    assert whole.where("failed IS NOT NULL").count() == n_failed
    with pytest.raises(ValueError, match="errors_column: 'LAST' is the name of another column"):
        results(errors_column="LAST")
    with pytest.raises(ValueError, match="errors_column must be the name of a new column"):
        results(errors_column="")

"""Keys that a stranger chose: many with one `xxhash64` are still many keys."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import functions as F

from keys.colliding_strings import colliding_strings
from skewless import aggregations as aggs
from skewless.keys import hash_keys
from skewless.spark.aggregation.aggregate import aggregate
from skewless.spark.ledger.ledger import LedgerMismatch
from skewless.spark.records import Records
from skewless.spark.routing.arguments import routing_arguments
from skewless.spark.routing.key_hashes import hashed_key, keyed_hashes
from skewless.spark.routing.route import make_router, route
from spark.streams import read_stream

pytestmark = pytest.mark.spark
N_WORKERS, N_STRINGS, SEED = 4, 3_000, 5


@pytest.fixture(scope="module")
def colliding(spark: Any) -> Any:
    strings = colliding_strings(N_STRINGS)
    assert len(set(strings)) == N_STRINGS
    assert len(set(hash_keys(strings).tolist())) == 1
    return spark.createDataFrame(pa.table({"k": strings, "cost": [1.0] * N_STRINGS}))


def shares(df: Any, **options: Any) -> list[float]:
    routed = route(df, "k", strategy="hash", workers=N_WORKERS, seed=SEED, **options)
    return [count / N_STRINGS for _, count in routed.groupBy("worker").count().collect()]


def test_colliding_keys_are_spread_if_they_are_said_to_be_untrusted(
    spark: Any, colliding: Any
) -> None:
    assert shares(colliding) == [1.0]
    assert max(shares(colliding, untrusted_keys=True)) < 0.3
    spark.conf.set("spark.skewless.untrustedKeys", "true")
    try:
        assert max(shares(colliding)) < 0.3
        assert shares(colliding, untrusted_keys=False) == [1.0]
    finally:
        spark.conf.unset("spark.skewless.untrustedKeys")


def test_results_are_exact_whether_keys_collide_or_not(colliding: Any) -> None:
    for untrusted in (False, True):
        counted = aggregate(
            colliding,
            "k",
            {"n": aggs.count(), "cost": aggs.sum("cost")},
            workers=N_WORKERS,
            weight="cost",
            untrusted_keys=untrusted,
        ).collect()
        assert len({row["k"] for row in counted}) == N_STRINGS == len(counted)
        assert {(row["n"], row["cost"]) for row in counted} == {(1, 1.0)}


#: Values of one type, no two of them equal to Spark's `groupBy`.
DIFFERENT = {
    "string": ["null", "''", "'-'", "'0:'", "'1:a'", "'a'", "'ab'", "'\\u0000'"],
    "binary": ["null", "x''", "x'2D'", "x'FF'", "x'FE'", "x'00FF'"],
    "bigint": ["null", "0L", "1L", "-1L", "12L", "9223372036854775807L"],
    "double": ["null", "0D", "1D", "double('NaN')", "double('inf')", "5e-324D", "1e-323D"],
    "decimal(38,18)": ["null", "0", "1", "0.000000000000000001", "10"],
    "boolean": ["null", "true", "false"],
    "date": ["null", "date'1970-01-01'", "date'1970-01-02'", "date'-0001-01-01'"],
    "timestamp": [
        "null",
        # In Berlin both are half past two of the same night.
        "timestamp'2024-10-27 00:30:00Z'",
        "timestamp'2024-10-27 01:30:00Z'",
        "timestamp'2024-10-27 01:30:00.000001Z'",
    ],
    "timestamp_ntz": ["null", "timestamp_ntz'2024-10-27 02:30:00'"],
    "interval day to second": ["null", "interval '1' second", "interval '1' day"],
    "array<string>": [
        "null",
        "array()",
        "array(null)",
        "array('')",
        "array('a','b')",
        "array('a,b')",
        "array('ab')",
        "array('a',null)",
    ],
    "array<array<int>>": ["array(array(1),array(2))", "array(array(1,2))", "array(array(12))"],
    "struct<a: string, b: string>": [
        "null",
        "named_struct('a',null,'b',null)",
        "named_struct('a','x','b',null)",
        "named_struct('a',null,'b','x')",
        "named_struct('a','xy','b','')",
        "named_struct('a','x','b','y')",
    ],
}


def digests(spark: Any, values: dict[str, list[str]]) -> dict[str, list[Any]]:
    """Return the digests of all values by type, in one job."""
    found = []
    for kind, texts in values.items():
        array = "array(" + ", ".join(f"cast({text} as {kind})" for text in texts) + ")"
        df = spark.sql(f"select pos, col as k from (select posexplode({array}))")
        hashed = F.array(*hashed_key(Records.of(df).by("k").key, untrusted=True))
        found.append(df.select(F.lit(kind).alias("kind"), "pos", hashed.alias("hashed")))
    whole = found[0]
    for df in found[1:]:
        whole = whole.unionAll(df)
    rows = sorted(whole.collect(), key=lambda row: row["pos"])
    return {kind: [tuple(r["hashed"]) for r in rows if r["kind"] == kind] for kind in values}


def test_different_keys_of_any_type_have_different_digests(spark: Any) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        found = digests(spark, DIFFERENT)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    for kind, hashed in found.items():
        assert len(hashed) == len(DIFFERENT[kind]), kind
        assert max(Counter(hashed).values()) == 1, kind


def test_keys_that_are_one_to_spark_have_one_digest(spark: Any) -> None:
    same = {
        "double": ["0D", "-0D"],
        "array<float>": ["array(float(0))", "array(float('-0'))"],
        "struct<a: double>": ["named_struct('a', 0D)", "named_struct('a', -0D)"],
    }
    for kind, hashed in digests(spark, same).items():
        assert len(set(hashed)) == 1, kind


def test_the_columns_of_a_key_do_not_run_into_each_other(spark: Any) -> None:
    rows = [("a", "bc"), ("ab", "c"), (None, "a"), ("a", None), ("", "a"), (None, None)]
    df = spark.createDataFrame(rows, "a string, b string")
    hashed = F.array(*hashed_key(Records.of(df).by(["a", "b"]).key, untrusted=True))
    assert len({tuple(row[0]) for row in df.select(hashed).collect()}) == len(rows)
    keys = hash_keys(list(range(1_000)))
    assert keyed_hashes(keys, keys, 1).tolist() != keyed_hashes(keys, keys, 2).tolist()


def test_the_seed_is_in_no_plan_of_spark(colliding: Any) -> None:
    secret = 8_070_605_040_302_010
    routed = route(colliding, "k", workers=2, seed=secret, untrusted_keys=True)
    plan = routed._jdf.queryExecution().toString()
    assert "sha2" in plan
    assert str(secret) not in plan


def test_what_cannot_be_untrusted_is_refused(spark: Any, tmp_path: Path) -> None:
    collated = spark.sql("select 'a' collate UTF8_LCASE as k")
    with pytest.raises(ValueError, match=r"untrusted_keys: column 'k' is of type string collate"):
        route(collated, "k", workers=2, untrusted_keys=True)
    route(collated, "k", workers=2)
    for wrong in ("yes", 1, 0):
        message = f"untrusted_keys must be true or false, not {wrong!r}"
        with pytest.raises(ValueError, match=re.escape(message)):
            route(collated, "k", workers=2, untrusted_keys=wrong)  # type: ignore[arg-type]
    stream = read_stream(spark, tmp_path, "k string")
    options: dict[str, Any] = {"workers": 2, "seed": 1, "ledger": str(tmp_path / "ledger")}
    untrusted = routing_arguments(stream, **options, untrusted_keys=True)
    router = make_router(stream, Records.of(stream).by("k").key, "hash", untrusted)
    assert router.query.ledger is not None
    router.query.ledger.claim(router.query.identity)
    with pytest.raises(LedgerMismatch, match="was written for untrusted_keys=True"):
        make_router(
            stream, Records.of(stream).by("k").key, "hash", routing_arguments(stream, **options)
        )

"""Test support: awkward records, files of micro-batches, streams run to their end, comparisons."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from skewless import aggregations as aggs

#: Everything instead of the small default set.
FULL = os.environ.get("SKEWLESS_FULL_MATRIX") == "1"
STRATEGIES = ("cascade", "cascade-ahead", "hash", "pkg", "fish", "dalton", "pstream", "pd-stream")
WINDOWS: dict[str, tuple[str, ...] | None] = {
    "none": None,
    "tumbling": ("ts", "60 seconds"),
    "sliding": ("ts", "60 seconds", "25 seconds"),
}

BEGIN = 1_700_000_040  # in seconds; a window of a minute begins here
_KEYS = ("", " ", "a.b", "ключ", "東京", "🦊", "é", "e\u0301", "\u0000", *map(str, range(50)))
_WORDS = ("", "a", "B", "ä", "日本", "🦊🦊", None)
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("v", pa.int64()),
        ("x", pa.float64()),
        ("w", pa.int32()),
        ("d", pa.decimal128(12, 2)),
        ("s", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
SCHEMA_DDL = "k string, v bigint, x double, w int, d decimal(12,2), s string, ts timestamp"


def records(n_records: int, seed: int, seconds: tuple[int, int] = (0, 300)) -> pa.Table:
    """Return records of one hot key and many others, with nulls in every column but one.

    Floats are multiples of 1/4: their sums are exact, whatever the order of addition.
    """
    rng = np.random.default_rng(seed)

    def some(values: Iterable[Any], null_share: float) -> list[Any]:
        nulls = rng.random(n_records) < null_share
        return [None if null else value for value, null in zip(values, nulls, strict=True)]

    cold = [_KEYS[i] for i in rng.integers(0, len(_KEYS), n_records)]
    keys = [
        "hot" if hot else key for hot, key in zip(rng.random(n_records) < 0.3, cold, strict=True)
    ]
    micros = (BEGIN + rng.integers(*seconds, n_records)) * 1_000_000
    micros += rng.integers(0, 1_000_000, n_records)
    return pa.table(
        {
            "k": some(keys, 0.05),
            "v": some(rng.integers(-20, 20, n_records).tolist(), 0.1),
            "x": some((rng.integers(-4000, 4000, n_records) / 4).tolist(), 0.1),
            "w": rng.integers(0, 5, n_records).tolist(),
            "d": some(
                (Decimal(int(u)).scaleb(-2) for u in rng.integers(-999, 999, n_records)), 0.1
            ),
            "s": [_WORDS[i] for i in rng.integers(0, len(_WORDS), n_records)],
            "ts": some(micros.tolist(), 0.02),
        },
        schema=SCHEMA,
    )


def spread() -> Any:
    """Return an aggregator as a user writes it; Spark gets its class with the query."""

    class Spread(aggs.Aggregator[dict[str, int] | None]):
        inputs = ("v",)
        state = "struct<low: bigint, high: bigint>"
        result = "bigint"

        def zero(self) -> dict[str, int] | None:
            return None

        def update(self, state: dict[str, int] | None, batch: pa.RecordBatch) -> Any:
            values = batch["v"].drop_null().to_pylist()
            return self.merge(state, {"low": min(values), "high": max(values)}) if values else state

        def merge(self, a: dict[str, int] | None, b: dict[str, int] | None) -> Any:
            if a is None or b is None:
                return b if a is None else a
            return {"low": min(a["low"], b["low"]), "high": max(a["high"], b["high"])}

        def finish(self, state: dict[str, int] | None) -> int | None:
            return None if state is None else state["high"] - state["low"]

    return Spread()


def vector_spread() -> Any:
    """Return the same over columns, many keys at once; no records are the limits the wrong way."""
    nothing = np.iinfo(np.int64)

    class VectorSpread(aggs.VectorAggregator):
        inputs = ("v",)
        state = "low bigint, high bigint"
        result = "bigint"

        def update(self, batch: pa.RecordBatch, keys: Any, n_keys: int) -> dict[str, Any]:
            valid = batch["v"].is_valid().to_numpy(zero_copy_only=False)
            values = batch["v"].drop_null().to_numpy()
            return self.extremes(values, values, keys[valid], n_keys)

        def merge(self, states: pa.RecordBatch, keys: Any, n_keys: int) -> dict[str, Any]:
            return self.extremes(states["low"].to_numpy(), states["high"].to_numpy(), keys, n_keys)

        def extremes(self, low: Any, high: Any, keys: Any, n_keys: int) -> dict[str, Any]:
            lowest, highest = np.full(n_keys, nothing.max), np.full(n_keys, nothing.min)
            np.minimum.at(lowest, keys, low)
            np.maximum.at(highest, keys, high)
            return {"low": lowest, "high": highest}

        def finish(self, states: pa.RecordBatch) -> Any:
            low, high = states["low"].to_numpy(), states["high"].to_numpy()
            return pa.array(np.where(low > high, 0, high - low), mask=low > high)

    return VectorSpread()


def native() -> dict[str, Any]:
    """Return every ready aggregation that Spark itself merges."""
    return {
        "n": aggs.count(),
        "n_v": aggs.count("v"),
        "sum_v": aggs.sum("v"),
        "sum_x": aggs.sum("x"),
        "sum_d": aggs.sum("d"),
        "mean_v": aggs.mean("v"),
        "mean_x": aggs.mean("x"),
        "mean_d": aggs.mean("d"),
        "min_s": aggs.min("s"),
        "max_ts": aggs.max("ts"),
        "vwap": aggs.vwap("x", "w"),
        "distinct": aggs.distinct("v"),
        "approx": aggs.distinct("v", exact=False),
        "list": aggs.collect("v"),
        "set": aggs.collect_set("s"),
    }


def own() -> dict[str, Any]:
    """Return every ready aggregation that we can merge, and one that a user wrote."""
    ready = {name: aggregation for name, aggregation in native().items() if name != "approx"}
    return ready | {
        "var": aggs.variance("v"),
        "var_pop": aggs.variance("x", population=True),
        "std": aggs.stddev("v"),
        "std_pop": aggs.stddev("x", population=True),
        "spread": spread(),
        "vector_spread": vector_spread(),
    }


#: The same as a plain query spells it.
PLAIN: dict[str, Callable[[], Column]] = {
    "n": lambda: F.count(F.lit(1)),
    "n_v": lambda: F.count("v"),
    "sum_v": lambda: F.sum("v"),
    "sum_x": lambda: F.sum("x"),
    "sum_d": lambda: F.sum("d"),
    "mean_v": lambda: F.avg("v"),
    "mean_x": lambda: F.avg("x"),
    "mean_d": lambda: F.avg("d"),
    "min_s": lambda: F.min("s"),
    "max_ts": lambda: F.max("ts"),
    "vwap": lambda: F.try_divide(
        F.sum(F.col("x") * F.col("w")), F.sum(F.when(F.col("x").isNotNull(), F.col("w")))
    ),
    "distinct": lambda: F.count_distinct("v"),
    "approx": lambda: F.approx_count_distinct("v", 0.05),
    "list": lambda: F.collect_list("v"),
    "set": lambda: F.collect_set("s"),
    "var": lambda: F.variance("v"),
    "var_pop": lambda: F.var_pop("x"),
    "std": lambda: F.stddev("v"),
    "std_pop": lambda: F.stddev_pop("x"),
    "spread": lambda: F.max("v") - F.min("v"),
    "vector_spread": lambda: F.max("v") - F.min("v"),
}
#: Order of addition and cancellation differ, in plain Spark from one run to the next as well; with
#: values below 1,000 and thousands of them, double precision leaves far more digits than these.
NEAR = dict.fromkeys(["var", "var_pop", "std", "std_pop"], 1e-9)
UNORDERED = ("list", "set")


def plain(
    df: DataFrame,
    key: Sequence[Any],
    window: tuple[str, ...] | None,
    watermark: str | None = None,
    names: Iterable[str] = tuple(PLAIN),
) -> DataFrame:
    """Aggregate the records by plain `groupBy`."""
    columns = {name: PLAIN[name]() for name in names}
    if df.isStreaming and "distinct" in columns:  # which Spark refuses on streams
        columns["distinct"] = F.size(F.collect_set("v")).cast("bigint")
    if window is not None:
        df = df.withWatermark(window[0], watermark) if watermark else df
        key = [F.window(*window), *key]
    return df.groupBy(*key).agg(*[column.alias(name) for name, column in columns.items()])


def by_key(rows: Iterable[Row], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the rows by their key; a key that occurs twice is an error."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        place = repr([row[name] for name in names])
        assert place not in found, f"{place} occurs twice"
        found[place] = row.asDict()
    return found


def assert_same_rows(ours: Iterable[Row], others: Iterable[Row], names: Sequence[str]) -> None:
    """Compare every value of every row; `others` may have columns that ours has not."""
    here, there = by_key(ours, names), by_key(others, names)
    assert here.keys() == there.keys()
    for place, row in here.items():
        for name, value in row.items():
            wanted = there[place][name]
            if name in NEAR and value is not None and wanted is not None:
                assert math.isclose(value, wanted, rel_tol=NEAR[name], abs_tol=1e-12), (place, name)
                continue
            if name in UNORDERED:
                value, wanted = sorted(value), sorted(wanted)
            # By its text, so that NaN equals itself and 0.0 is not −0.0.
            assert repr(value) == repr(wanted), (place, name, value, wanted)


def assert_same_types(ours: DataFrame, others: DataFrame) -> None:
    """Compare names, types and the order of columns; of `others` the ones that ours has."""
    wanted = {field.name: field.dataType.simpleString() for field in others.schema.fields}
    found = {field.name: field.dataType.simpleString() for field in ours.schema.fields}
    assert found == {name: wanted.get(name) for name in found}


def write_file(folder: Path, number: int, table: pa.Table) -> None:
    """Write the file of one micro-batch; files are read in the order of their times."""
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / f"{number:03}.parquet"
    unseen = path.with_name(f".{path.name}")
    pq.write_table(table, unseen)
    os.utime(unseen, (1000 + number, 1000 + number))
    unseen.rename(path)


def read_stream(spark: Any, folder: Path, ddl: str = SCHEMA_DDL, files: int = 1) -> DataFrame:
    """Return the stream of the files in a folder, so many in a micro-batch."""
    reader = spark.readStream.schema(ddl).option("maxFilesPerTrigger", files)
    stream: DataFrame = reader.parquet(str(folder))
    return stream


@contextlib.contextmanager
def configured(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Run what is inside with other settings of the session."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def run(
    df: DataFrame, mode: str, checkpoint: Path, after: Callable[[int], None] = lambda batch: None
) -> dict[int, list[Row]]:
    """Run a stream over all that there is; return the rows of every micro-batch.

    `after` is called with the number of each, before the next one begins.
    """
    batches: dict[int, list[Row]] = {}

    def keep(rows: DataFrame, number: int) -> None:
        batches[number] = rows.collect()
        after(number)

    writer = df.writeStream.outputMode(mode).foreachBatch(keep)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return batches


def assert_same_batches(
    ours: Mapping[int, list[Row]], others: Mapping[int, list[Row]], names: Sequence[str]
) -> None:
    """Compare two streams micro-batch by micro-batch."""
    assert ours.keys() == others.keys()
    for number, rows in ours.items():
        assert_same_rows(rows, others[number], names)

"""What is compared: ways to partition records, to aggregate, to join and to write.

A function of `FAMILIES` returns the ways of a cell by name. A way runs its job and returns facts
about it.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks import kinds_of_work as kinds
from benchmarks.records import Row
from benchmarks.turns import throw_away
from skewless import aggregations as aggs
from skewless.arrays import Floats
from skewless.diagnosis.ways import HOT, KEEP_KEYS
from skewless.metrics import imbalance
from skewless.spark import aggregate, hot_keys, join, plan_keys, route

SALTS = 8
#: `applyInPandas` is left out on a file with more keys.
_MOST_GROUPS = 50_000
REBALANCE = "REBALANCE"
#: The column of the README's table that a way belongs to.
COLUMNS = {
    "as it is": ("local",),
    "hash": ("hash", "Spark's join", "applyInPandas"),
    "salting": ("salt-8", "hot-salt-8", "salted join", "salted applyInPandas"),
    REBALANCE: (REBALANCE,),
    "skewless": ("plan", "whole-plan", "cascade-ahead", "join", "aggregate"),
}


@dataclass(frozen=True)
class Cell:
    """One comparison: some work on one stream, with as many partitions as slots."""

    says: str  # what the work is
    family: str
    stream: str  # "Zipf 1.4", or the name of a file without its ending
    slots: int
    records: int
    kind: str = "computing"
    work: str = ""
    writes: str = ""  # what a user would write, for the README's table; empty: not in it
    n_keys: int = 2_000  # of a Zipf stream
    columns: int = 0  # besides the key and two numbers
    per_record: float = 0.0  # seconds: of work that computes or sleeps, or told to `hot_keys`
    per_pair: float = 0.0
    is_cut: bool = True  # the records are in as many files as slots; else in one
    full: bool = False  # measured only with --full

    @property
    def costs(self) -> dict[str, float]:
        """What the work costs."""
        return {"per_record": self.per_record, "per_pair": self.per_pair}

    @property
    def about(self) -> Row:
        """What the raw records say about the cell."""
        names = ("says", "family", "stream", "slots", "records", "kind", "writes")
        return {name: getattr(self, name) for name in names}


#: The ways of a cell by name, and the one that `hot_keys` named. A way runs its job and returns
#: facts about it; its `result` must be that of all ways.
Ways = tuple[dict[str, Callable[[], Row]], str | None]


def partitioned(df: DataFrame, n: int, per_key: float) -> dict[str, Callable[[], DataFrame]]:
    """Return the ways to partition records by the column `key`, which costs so many records."""

    def salted(salt: Any) -> DataFrame:
        return df.withColumn("salt", salt).repartition(n, "key", "salt").drop("salt")

    def hot_salted() -> DataFrame:
        """Salt hot keys only, as people write it by hand."""
        counts = df.groupBy("key").count()
        least = HOT * df.count() / n
        hot = [row["key"] for row in counts.where(F.col("count") > least).collect()]
        return salted(F.when(F.col("key").isin(hot), drawn).otherwise(0))

    drawn = (F.rand(seed=1) * SALTS).cast("int")

    def planned(**asked: Any) -> DataFrame:
        """Route by a plan; only a plan of one's own knows what a key costs."""
        if per_key or asked:
            return route(df, "key", plan=plan_keys(df, "key", n, per_key=per_key, seed=0, **asked))
        return route(df, "key", workers=n, seed=0)

    return {
        "hash": lambda: df.repartition(n, "key"),
        "round-robin": lambda: df.repartition(n),
        f"salt-{SALTS}": lambda: salted(drawn),
        f"hot-salt-{SALTS}": hot_salted,
        REBALANCE: lambda: df.hint("rebalance", n, "key"),
        "local": lambda: df,
        "plan": planned,
        "whole-plan": lambda: planned(whole_keys=True),
        "cascade-ahead": lambda: route(df, "key", strategy="cascade-ahead", workers=n, seed=0),
    }


def by_partition(
    cell: Cell, df: DataFrame, run: Callable[[DataFrame], Row], told: Row, whole: bool = False
) -> Ways:
    """Return the ways to partition, each before `run`; `told` is what `hot_keys` is told."""
    n, said = cell.slots, None
    per_key = cell.per_pair / cell.per_record if cell.per_record else 0.0
    ways = partitioned(df, n, per_key)
    left_out = ways.keys() - KEEP_KEYS if whole else {"whole-plan"}
    ways = {name: way for name, way in ways.items() if name not in left_out}
    if told:
        report = hot_keys(df, "key", workers=n, slots=n, strategies=["cascade-ahead"], **told)
        said = report.best(whole_keys=whole).strategy
        ways.setdefault(said, partial(report.apply, df, whole_keys=whole))

    def after(way: Callable[[], DataFrame]) -> Row:
        return run(way())

    return {name: partial(after, way) for name, way in ways.items()}, said


def working(cell: Cell, df: DataFrame, folder: Path) -> Ways:
    """Partition the keys, then work in Python; keys may be split, but for a state machine."""
    work = kinds.KINDS[cell.work](**cell.costs)

    def merged(records: DataFrame) -> Row:
        made = records.select("key").mapInArrow(work, kinds.SKETCHES).groupBy("key")
        sums = made.agg(F.sum("records"), F.count("*"), F.max("sketch")).toDF(*"krns")
        rows = sums.agg(F.sum("r"), F.sum("n"), F.max(F.length("s"))).toArrow()
        return {"result": rows[0][0].as_py(), "pairs": rows[1][0].as_py()}

    def counted(records: DataFrame) -> Row:
        rows = records.select("key").mapInArrow(work, kinds.COUNTS).toArrow()
        loads, pairs = (rows[name].to_numpy() for name in ("records", "keys"))
        return evenness(cell, loads) | {"pairs": int(pairs.sum())}

    if cell.work == "sketches":  # the merge is no part of `work`: its cost is told
        return by_partition(cell, df.select("key"), merged, cell.costs)
    return by_partition(cell, df.select("key"), counted, {"work": work}, cell.work == "steps")


def evenness(cell: Cell, loads: Sequence[float] | Floats) -> Row:
    """Return the sum of loads, and their imbalance; a task without records may be missing."""
    padded = np.zeros(max(cell.slots, len(loads)))
    padded[: len(loads)] = loads
    return {"result": int(padded.sum()), "imbalance": imbalance(padded)}


def shuffling(cell: Cell, df: DataFrame, folder: Path) -> Ways:
    """Partition the records with all columns, and throw them away: hashed, and planned first."""

    def run(records: DataFrame) -> Row:
        throw_away(records)
        return {"result": None}

    ways, said = by_partition(cell, df, run, {})
    return {name: ways[name] for name in ("hash", "plan")}, said


def writing(cell: Cell, df: DataFrame, folder: Path) -> Ways:
    """Write a folder of files for each key; REBALANCE aims at several sizes."""

    def run(records: DataFrame) -> Row:
        out = folder / "written"
        records.select(*df.columns).write.partitionBy("key").parquet(str(out))
        return {"end": time.time(), **written(cell, out)}

    def rebalanced(times: float) -> Row:
        settings, size = df.sparkSession.conf, "spark.sql.adaptive.advisoryPartitionSizeInBytes"
        before = int(str(settings.get(size)))
        settings.set(size, str(max(1, round(before * times))))
        try:
            return run(df.hint("rebalance", cell.slots, "key"))
        finally:
            settings.set(size, str(before))

    ways, said = by_partition(cell, df, run, cell.costs)
    for text, times in (("a quarter of", 0.25), ("four times", 4.0)):
        ways[f"{REBALANCE}, {text} the size"] = partial(rebalanced, times)
    return ways, said


def writing_streams(cell: Cell, df: DataFrame, folder: Path) -> Ways:
    """Write the same from a stream, in one micro-batch."""

    spark, n = df.sparkSession, cell.slots
    adaptive = "spark.sql.adaptive.streaming.stateless.enabled"

    def run(way: Callable[[DataFrame, str], DataFrame], is_adaptive: bool) -> Row:
        # Our sessions turn it off for streams, and REBALANCE is nothing without it.
        spark.conf.set(adaptive, str(is_adaptive).lower())
        read = spark.readStream.schema(df.schema).parquet(str(folder / "in"))
        out = folder / "written"
        with tempfile.TemporaryDirectory(dir=folder) as place:
            records = way(read, f"{place}/ledger").select(*df.columns)
            writer = records.writeStream.partitionBy("key").trigger(availableNow=True)
            writer = writer.option("checkpointLocation", f"{place}/checkpoint")
            writer.start(str(out), "parquet").awaitTermination()
            return {"end": time.time(), **written(cell, out)}

    ways: dict[str, Callable[[DataFrame, str], DataFrame]] = {
        "hash": lambda stream, _: stream.repartition(n, "key"),
        REBALANCE: lambda stream, _: stream.hint("rebalance", n, "key"),
        "route": lambda stream, ledger: route(stream, "key", workers=n, seed=0, ledger=ledger),
    }
    return {name: partial(run, way, name == REBALANCE) for name, way in ways.items()}, None


def written(cell: Cell, out: Path) -> Row:
    """Return the facts about a folder that was written, and remove it."""
    by_task: Counter[str] = Counter()
    of_key: Counter[Path] = Counter()
    for file in out.rglob("*.parquet"):
        by_task[file.name.split("-")[1]] += pq.read_metadata(file).num_rows
        of_key[file.parent] += 1
    shutil.rmtree(out)
    files = {"files": of_key.total(), "most_files": max(of_key.values())}
    return evenness(cell, list(by_task.values())) | files


def aggregating(cell: Cell, df: DataFrame, folder: Path) -> Ways:
    """Count and add by key: `aggregate` in its forms, and what else one writes."""
    df = df.select("key", F.col("x").alias("v"))

    def in_pandas(key: tuple[Any, ...], rows: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"key": [key[0]], "n": [len(rows)], "total": [rows["v"].sum()]})

    def merged(*by: Any) -> DataFrame:
        parts = df.groupBy("key", *by).applyInPandas(in_pandas, "key string, n long, total double")
        return parts.groupBy("key").agg(F.sum("n"), F.sum("total").alias("total"))

    def ours(strategy: str) -> DataFrame:
        own = {"r": kinds.OwnTotals()}
        made = aggregate(df, "key", own, workers=cell.slots, strategy=strategy, seed=0)
        return made.select("key", "r.*")

    forms = ("local", "hash", "cascade-ahead")
    ways: dict[str, Callable[[], DataFrame]] = {
        f"aggregate, {name}": partial(ours, name) for name in forms
    }
    ways["aggregate"] = partial(ours, "auto")
    # A call for each of so many keys takes minutes, and longer if they are salted.
    if cell.is_cut or df.agg(F.approx_count_distinct("key")).collect()[0][0] < _MOST_GROUPS:
        ways = {"applyInPandas": merged, **ways}
    if cell.is_cut:
        salt = (F.rand(seed=1) * SALTS).cast("int").alias("salt")
        ways["salted applyInPandas"] = partial(merged, salt)

    def run(way: Callable[[], DataFrame]) -> Row:
        totals = way().toArrow()["total"].to_numpy()  # sums of multiples of 1/4 are exact
        return {"result": [totals.size, round(float(totals.sum()), 3)]}

    return {name: partial(run, way) for name, way in ways.items()}, "aggregate"


def sketch() -> Any:
    """Return an aggregator whose state is a count and 32 KB; Spark gets its class by value."""

    class Sketch(aggs.Aggregator[Any]):
        """Counts records; its state has a fixed size."""

        inputs = ("key",)
        state = "struct<n: bigint, sketch: binary>"
        result = "bigint"

        def zero(self) -> Any:
            return {"n": 0, "sketch": b"0" * 32_768}

        def update(self, state: Any, records: Any) -> Any:
            return {**state, "n": state["n"] + records.num_rows}

        def merge(self, one: Any, other: Any) -> Any:
            return {**one, "n": one["n"] + other["n"]}

        def finish(self, state: Any) -> Any:
            return state["n"]

    return Sketch()


def merging(cell: Cell, df: DataFrame, folder: Path) -> Ways:
    """Aggregate with large partial results, and count the bytes that a second shuffle writes."""

    def run(strategy: str) -> Row:
        keys, n = df.select("key"), cell.slots
        made = aggregate(keys, "key", {"n": sketch()}, strategy=strategy, workers=n, seed=1)
        return {"result": sum(row["n"] for row in made.collect()), "merged": merged_bytes(made)}

    ways: dict[str, Callable[[], Row]] = {"aggregate": partial(run, "auto")}
    for name in ("hash", "plan", "cascade-ahead"):
        ways[f"aggregate, {name}"] = partial(run, name)
    return ways, "aggregate"


def merged_bytes(df: DataFrame) -> int:
    """Sum up what a finished query shuffled again: the bytes of shuffles above another one."""
    found = []

    def walk(plan: Any) -> bool:
        if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
            plan = plan.executedPlan()
        while plan.getClass().getSimpleName().endswith("QueryStageExec"):
            plan = plan.plan()
        kind, children = plan.getClass().getSimpleName(), plan.children()
        is_second = sum(walk(children.apply(place)) for place in range(children.size())) > 0
        if kind == "ShuffleExchangeExec" and is_second:
            found.append(int(plan.metrics().apply("dataSize").value()))
        return is_second or kind in ("ShuffleExchangeExec", "ReusedExchangeExec")

    walk(df._jdf.queryExecution().executedPlan())
    return sum(found)


def joining(cell: Cell, df: DataFrame, folder: Path) -> Ways:
    """Join the stream with another one of the same keys, and count the pairs of each task.

    The other one is half of the stream; as in TPC-H, it has one row for each order that line items
    refer to.
    """
    left, n = df.select("key", F.col("x").alias("v")), cell.slots
    if cell.work:
        path = str(folder / cell.work)
        df.select("key").distinct().withColumn("w", F.lit(1)).write.parquet(path)
        right = df.sparkSession.read.parquet(path)
    else:
        right = df.sample(fraction=0.5, seed=1).select("key", F.col("w"))

    def salted() -> DataFrame:
        all_salts = F.explode(F.sequence(F.lit(0), F.lit(SALTS - 1)))
        drawn = left.withColumn("salt", (F.rand(1) * SALTS).cast("int"))
        return drawn.join(right.withColumn("salt", all_salts), ["key", "salt"]).drop("salt")

    ways: dict[str, Callable[[], DataFrame]] = {
        "Spark's join": lambda: left.join(right, "key"),
        "join": lambda: join(left, right, "key", workers=n, seed=7),
    }
    # Nobody salts what is even. Where rows weigh most, repeating them would take most of the time.
    if cell.stream != "Zipf 0.0" and not cell.work:
        ways["salted join"] = salted

    def run(way: Callable[[], DataFrame]) -> Row:
        task, mixed = F.spark_partition_id().alias("task"), F.sum((F.col("v") * 31) % F.col("w"))
        rows = way().groupBy(task).agg(F.count("*"), mixed).collect()
        facts = evenness(cell, [row[1] for row in rows])
        pairs, mixed_sum = facts["result"], round(sum(row[2] for row in rows), 3)
        return facts | {"pairs": pairs, "result": [pairs, mixed_sum]}

    return {name: partial(run, way) for name, way in ways.items()}, "join"


FAMILIES = {
    "work": working,
    "shuffle": shuffling,
    "write": writing,
    "write of a stream": writing_streams,
    "aggregate": aggregating,
    "merge": merging,
    "join": joining,
}

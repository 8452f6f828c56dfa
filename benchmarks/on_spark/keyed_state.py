"""What keyed state costs: `python -m benchmarks.on_spark.keyed_state routing` or `aggregators`.

Each prints ratios. `routing` shuffles the same rows by the hash of Spark, as `process` routes them,
and through the Python router of `route`. `aggregators` is an own aggregator as a stream of
`aggregate`, whose state is in Spark's store, and as a processor.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import typer

from skewless.aggregations import VectorAggregator
from skewless.spark.state.planning.placing import PLACES, as_moving, worker_column
from skewless.spark.state.processor import Processor, Update
from skewless.spark.state.tasks import hash_seed
from skewless.strategies import Mixed

N_ROWS, N_PARTITIONS, ROUNDS = 1_500_000, 32, 2


def compare_routing() -> None:
    from pyspark.sql import functions as F

    from skewless.spark import route, session
    from skewless.spark.state.planning.placing import Placing

    spark = session("keyed state", master="local[2]", settings={"spark.log.level": "ERROR"})
    df = spark.range(0, N_ROWS, 1, 4).select(
        F.concat(F.lit("key-"), (F.col("id") * 7919 % 1_000_003).cast("string")).alias("k"),
        F.col("id").alias("v"),
    )
    strategy = as_moving(Mixed())
    row = Placing(strategy, strategy.start(N_PARTITIONS, 0), N_PARTITIONS).row(hash_seed(0))

    def publish(batches: Any) -> Any:
        for _ in batches:
            pass
        yield row

    plan = spark.range(0, 1, 1, 1).mapInArrow(publish, PLACES)
    plan = plan.toDF(*["plan_" + name for name in plan.columns])
    joined = df.crossJoin(F.broadcast(plan)).withColumn("h", F.xxhash64("k", "plan_seed"))
    worker = worker_column(F.col("h"), "plan_").cast("int").alias("w")
    ways = {
        "hash": df.repartition(N_PARTITIONS, "k"),
        "process": joined.select("k", "v", worker).repartitionById(N_PARTITIONS, F.col("w")),
        "route": route(df, "k", strategy="hash", workers=N_PARTITIONS),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS + 1):
        for name, way in ways.items():
            begin = time.perf_counter()
            way.write.format("noop").mode("overwrite").save()
            seconds[name].append(time.perf_counter() - begin)
    best = {name: min(times[1:]) for name, times in seconds.items()}
    for name, value in best.items():
        print(f"{name}: {value:.2f} s, {value / best['hash']:.2f} x")
    spark.stop()


class Extent(VectorAggregator):
    """The largest minus the smallest value."""

    inputs = ("v",)
    state = "low double, high double"
    result = "double"

    def update(self, batch: Any, keys: Any, n_keys: int) -> dict[str, Any]:
        return self.extremes(batch["v"].to_numpy(), batch["v"].to_numpy(), keys, n_keys)

    def merge(self, states: Any, keys: Any, n_keys: int) -> dict[str, Any]:
        return self.extremes(states["low"].to_numpy(), states["high"].to_numpy(), keys, n_keys)

    def extremes(self, low: Any, high: Any, keys: Any, n_keys: int) -> dict[str, Any]:
        lowest, highest = np.full(n_keys, np.inf), np.full(n_keys, -np.inf)
        np.minimum.at(lowest, keys, low)
        np.maximum.at(highest, keys, high)
        return {"low": lowest, "high": highest}

    def finish(self, states: Any) -> Any:
        return pc.subtract(states["high"], states["low"])


class ExtentProcessor(Processor):
    """The same as keyed state."""

    state_schema = "low double, high double"
    result_schema = "k string, extent double"

    def update(self, keyed: Any) -> Update:
        values, starts = keyed.records["v"].to_numpy(), keyed.starts[:-1]
        low = np.minimum.reduceat(values, starts)
        high = np.maximum.reduceat(values, starts)
        low = np.minimum(low, keyed.states.field("low").fill_null(np.inf).to_numpy())
        high = np.maximum(high, keyed.states.field("high").fill_null(-np.inf).to_numpy())
        results = pa.table([keyed.keys["k"], pa.array(high - low)], ["k", "extent"])
        states = pa.StructArray.from_arrays([pa.array(low), pa.array(high)], ["low", "high"])
        return Update(results, states)


def compare_aggregators(n_records: int = 60_000, n_keys: int = 15_000, n_batches: int = 6) -> None:
    from skewless.spark import aggregate, process, session

    settings = {"spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "4"}
    spark = session("keyed state", master="local[2]", settings=settings)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "in").mkdir()
        for batch in range(n_batches):
            keys = [f"key-{key}" for key in (rng.zipf(1.3, n_records) % n_keys).tolist()]
            table = pa.table({"k": keys, "v": rng.random(n_records)})
            pq.write_table(table, root / "in" / f"{batch:03}.parquet")

        def seconds(name: str) -> float:
            reader = spark.readStream.schema("k string, v double").option("maxFilesPerTrigger", 1)
            stream, ledger = reader.parquet(str(root / "in")), str(root / name / "ledger")
            if name == "process":
                results = process(stream, "k", ExtentProcessor(), workers=4, ledger=ledger)
            else:
                results = aggregate(stream, "k", {"extent": Extent()}, workers=4, mode="update")
            times: list[float] = []
            begin = time.perf_counter()

            def keep(df: Any, _: int) -> None:
                nonlocal begin
                df.write.format("noop").mode("overwrite").save()
                times.append(time.perf_counter() - begin)
                begin = time.perf_counter()

            writer = results.writeStream.outputMode("append" if name == "process" else "update")
            writer = writer.option("checkpointLocation", str(root / name / "checkpoint"))
            writer.foreachBatch(keep).trigger(availableNow=True).start().awaitTermination()
            return float(np.median(times[1:]))

        found = {name: seconds(name) for name in ("aggregate", "process")}
    for name, value in found.items():
        print(f"{name}: {value:.2f} s a micro-batch, {value / found['aggregate']:.2f} x")
    spark.stop()


WAYS = {"routing": compare_routing, "aggregators": compare_aggregators}


def main(
    what: Annotated[Literal["routing", "aggregators"], typer.Argument(help="What to compare.")],
) -> None:
    """Print what keyed state costs, as ratios."""
    WAYS[what]()


if __name__ == "__main__":
    typer.run(main)

"""What keyed state costs: `python -m benchmarks.on_spark.keyed_state routing` or `aggregators`.

Each prints ratios. `routing` shuffles the same rows by the hash of Spark, as `process` routes them,
and through the Python router of `route`. `aggregators` is an own aggregator as a stream of
`aggregate`, whose state is in Spark's store, and as a processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer
from pyspark.sql import functions as F

from benchmarks.on_spark.turns import (
    QUIET,
    batch_times,
    file_stream,
    in_turns,
    run_to_end,
    spark_and_folder,
    throw_away,
    timed,
)
from benchmarks.streams import write_files
from skewless.aggregations import VectorAggregator
from skewless.spark import Processor, Update, aggregate, process, route
from skewless.spark.state.planning.placing import PLACES, Placing, as_moving, worker_column
from skewless.spark.state.tasks import hash_seed
from skewless.strategies import Mixed

N_ROWS, N_PARTITIONS, ROUNDS = 1_500_000, 32, 2
N_RECORDS, N_KEYS, N_BATCHES = 60_000, 15_000, 6


def compare_routing() -> Iterator[tuple[str, float]]:
    """Yield the best time of each way to shuffle."""
    strategy = as_moving(Mixed())
    row = Placing(strategy, strategy.start(N_PARTITIONS, 0), N_PARTITIONS).row(hash_seed(0))

    def publish(batches: Any) -> Any:
        for _ in batches:
            pass
        yield row

    with spark_and_folder("keyed state", settings=QUIET) as (spark, _):
        df = spark.range(0, N_ROWS, 1, 4).select(
            F.concat(F.lit("key-"), (F.col("id") * 7919 % 1_000_003).cast("string")).alias("k"),
            F.col("id").alias("v"),
        )
        plan = spark.range(0, 1, 1, 1).mapInArrow(publish, PLACES)
        plan = plan.toDF(*["plan_" + name for name in plan.columns])
        joined = df.crossJoin(F.broadcast(plan)).withColumn("h", F.xxhash64("k", "plan_seed"))
        worker = worker_column(F.col("h"), "plan_").cast("int").alias("w")
        ways = {
            "hash": df.repartition(N_PARTITIONS, "k"),
            "process": joined.select("k", "v", worker).repartitionById(N_PARTITIONS, F.col("w")),
            "route": route(df, "k", strategy="hash", workers=N_PARTITIONS),
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for turn, name in in_turns(ways, ROUNDS, "routing", first=-1):
            took, _ = timed(lambda name=name: throw_away(ways[name]))
            if turn >= 0:
                taken[name].append(took)
    yield from ((name, min(times)) for name, times in taken.items())


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


def batches() -> Iterator[pa.Table]:
    rng = np.random.default_rng(0)
    for _ in range(N_BATCHES):
        keys = [f"key-{key}" for key in (rng.zipf(1.3, N_RECORDS) % N_KEYS).tolist()]
        yield pa.table({"k": keys, "v": rng.random(N_RECORDS)})


def compare_aggregators() -> Iterator[tuple[str, float]]:
    """Yield the median time of a micro-batch in each way."""
    settings = {**QUIET, "spark.sql.shuffle.partitions": "4"}
    with spark_and_folder("keyed state", settings=settings) as (spark, root):
        stream = file_stream(spark, "k string, v double", write_files(root / "in", batches()))
        ledger = str(root / "process" / "ledger")
        ways = {
            "aggregate": aggregate(stream, "k", {"extent": Extent()}, workers=4, mode="update"),
            "process": process(stream, "k", ExtentProcessor(), workers=4, ledger=ledger),
        }
        for name, results in ways.items():
            written, times = batch_times(lambda df, _: throw_away(df))
            mode = "append" if name == "process" else "update"
            run_to_end(results, root / name, mode, written)
            yield name, median(times[1:])


WAYS: Mapping[str, Callable[[], Iterator[tuple[str, float]]]] = {
    "routing": compare_routing,
    "aggregators": compare_aggregators,
}


def main(
    what: Annotated[Literal["routing", "aggregators"], typer.Argument(help="What to compare.")],
) -> None:
    """Print what keyed state costs, as ratios to the first way."""
    found = dict(WAYS[what]())
    first = next(iter(found.values()))
    for name, value in found.items():
        print(f"{name}: {value:.2f} s, {value / first:.2f} x")


if __name__ == "__main__":
    typer.run(main)

"""A batch whose whole keys are finished by the workers, in two layouts, and its faults.

Started as a process of its own with the path of a JSON file: see `test_whole_keys`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

WORKERS = 6


def spread(folder: Path, place: str, action: str) -> Any:
    """Return an aggregator that breaks something once: while records are combined, or merged."""
    from pyspark import TaskContext

    from faults.jobs import bombs
    from skewless.aggregations import Aggregator

    class Spread(Aggregator[Any]):
        inputs = ("v",)
        state = "struct<n: bigint, low: bigint, high: bigint>"
        result = "struct<n: bigint, low: bigint, high: bigint>"

        def zero(self) -> Any:
            return None

        def update(self, state: Any, batch: Any) -> Any:
            context = TaskContext.get()
            # At a later worker, with two at a time: some are through, and some have not begun.
            if place == "combine" and context is not None and context.partitionId() == WORKERS - 2:
                bombs.once(folder, action)
            values = batch["v"].to_pylist()
            return self.joined(state, {"n": len(values), "low": min(values), "high": max(values)})

        def merge(self, one: Any, other: Any) -> Any:
            if place == "merge":
                bombs.once(folder, action)
            return self.joined(one, other)

        def joined(self, one: Any, other: Any) -> Any:
            if one is None or other is None:
                return one or other
            low, high = min(one["low"], other["low"]), max(one["high"], other["high"])
            return {"n": one["n"] + other["n"], "low": low, "high": high}

        def finish(self, state: Any) -> Any:
            return state

    return Spread()


def main(config: Path) -> None:
    """Run the cases: a strategy, partitions of the records, where it breaks, and how."""
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    from faults.jobs import bombs
    from skewless.spark import aggregate

    cloudpickle.register_pickle_by_value(bombs)  # Spark's workers cannot import the tests
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    about = json.loads(config.read_text())
    builder = SparkSession.builder.master(about["master"])
    for name, value in about["settings"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for strategy, n_partitions, place, action in about["cases"]:
        folder = Path(about["folder"]) / f"{strategy}-{n_partitions}-{place}-{action}"
        folder.mkdir()
        (folder / "local.path").write_text(spark.conf.get("spark.local.dir") or "")
        df = spark.read.parquet(about["input"]).coalesce(n_partitions)
        chosen = {"r": spread(folder, place, action)}
        found = aggregate(df, "k", chosen, strategy=strategy, workers=WORKERS, seed=1)
        found.select("k", "r.*").write.parquet(str(folder / "out"))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

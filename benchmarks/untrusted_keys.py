"""Measure what a keyed hash for untrusted keys costs: routing with it against routing without."""

from statistics import median

import typer
from pyspark.sql import functions as F

from benchmarks.records import Row, grouped, ratios
from benchmarks.turns import in_turns, spark_and_folder, timed
from skewless.spark import route

N_RECORDS = 2_000_000
REPETITIONS = 5
KEYS = {
    "bigint": "id % 100000",
    "string of 16 characters": "lpad(cast(id % 100000 as string), 16, 'k')",
    "struct of two bigints": "named_struct('a', id % 1000, 'b', id % 77)",
}


def main() -> None:
    """Measure what a keyed hash for untrusted keys costs: routing with and without it."""
    with spark_and_folder("untrusted keys") as (spark, _):
        for kind, key in KEYS.items():
            keys = spark.range(0, N_RECORDS, 1, 2).select(F.expr(key).alias("k"))
            records: list[Row] = []
            for turn, untrusted in in_turns((False, True), REPETITIONS, kind, first=-1):
                routed = route(keys, "k", workers=16, seed=1, untrusted_keys=untrusted)
                took, _ = timed(routed.select(F.sum("worker")).collect)
                records.append({"untrusted": untrusted, "turn": turn, "seconds": took})
            ways = grouped([r for r in records if r["turn"] >= 0], "untrusted")
            ratio = median(ratios(ways[True], ways[False]))
            more = median(r["seconds"] for r in ways[True])
            more -= median(r["seconds"] for r in ways[False])
            print(f"{kind}: {ratio:.2f} times as long, {more / N_RECORDS * 1e9:+.0f} ns per record")


if __name__ == "__main__":
    typer.run(main)

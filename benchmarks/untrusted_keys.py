"""Measure what a keyed hash for untrusted keys costs: routing with it against routing without."""

import statistics
import time

import typer
from pyspark.sql import functions as F

from skewless.spark import route, session

N_RECORDS = 2_000_000
REPETITIONS = 5
KEYS = {
    "bigint": "id % 100000",
    "string of 16 characters": "lpad(cast(id % 100000 as string), 16, 'k')",
    "struct of two bigints": "named_struct('a', id % 1000, 'b', id % 77)",
}


def main() -> None:
    """Measure what a keyed hash for untrusted keys costs: routing with and without it."""
    spark = session(master="local[2]")
    records = spark.range(0, N_RECORDS, 1, 2)
    for kind, key in KEYS.items():
        seconds: dict[bool, list[float]] = {False: [], True: []}
        for repetition in range(REPETITIONS + 1):
            for untrusted in (False, True):
                routed = route(
                    records.select(F.expr(key).alias("k")),
                    "k",
                    workers=16,
                    seed=1,
                    untrusted_keys=untrusted,
                )
                begin = time.perf_counter()
                routed.select(F.sum("worker")).collect()
                if repetition:  # the first one warms up
                    seconds[untrusted].append(time.perf_counter() - begin)
        pairs = zip(seconds[True], seconds[False], strict=True)
        ratio = statistics.median(keyed / plain for keyed, plain in pairs)
        more = statistics.median(seconds[True]) - statistics.median(seconds[False])
        print(f"{kind}: {ratio:.2f} times as long, {more / N_RECORDS * 1e9:+.0f} ns per record")
    spark.stop()


if __name__ == "__main__":
    typer.run(main)

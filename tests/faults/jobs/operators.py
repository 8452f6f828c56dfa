"""The ready operators on the records of the jobs, with bombs before and behind them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from faults.jobs.bombs import Wanders, pass_by

#: Columns to compare; of two records with one key and one time, either may be the first.
COLUMNS = {
    "sessions": ("k", "start", "end", "records", "total"),
    "deduplicate": ("k", "ts"),
    "top_n": ("k", "rank", "v", "ts"),
    "join": ("k", "v", "ts", "v_right", "ts_right"),
}


def operated(df: Any, folder: Path, laid: str, query: dict[str, Any]) -> Any:
    """Run one operator, whose keys move in every micro-batch."""
    from skewless import aggregations as aggs
    from skewless.spark import deduplicate, join, sessions, top_n

    late = {"watermark": ("ts", "20 seconds")}
    places: dict[str, Any] = {
        "strategy": Wanders(),
        "workers": query["workers"],
        "max_workers": 8,
        "ledger": str(folder / "ledger"),
    }
    df = passing(df, laid, "route")
    name = query["merging"]
    if name == "sessions":
        results = sessions(df, "k", "1 second", {"total": aggs.sum("v")}, **late, **places)
    elif name == "deduplicate":
        results = deduplicate(df, "k", within="3 seconds", **late, **places)
    elif name == "top_n":
        results = top_n(df, "k", "v", 3, order_by="ts", **places)
    else:
        # The hot key has more than a thousand records in a micro-batch, so that it is spread.
        left, right = df.where("v % 3 != 0"), df.where("v % 3 = 0")
        results = join(left, right, "k", within="1 second", how="left", **late, **places)
    return passing(results, laid, "work")


def passing(df: Any, laid: str, place: str) -> Any:
    """Return the same records, which come by bombs."""

    def passed(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            pass_by(laid, place)
            yield batch

    return df.mapInArrow(passed, df.schema)

"""The guides to keyed state and its operators run as they are, but for folders and workers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark.streams import read_stream, write_file

pytestmark = pytest.mark.spark
DOCS = Path(__file__).parents[3] / "docs"
PAGES = [DOCS / "keyed-state.md", DOCS / "keyed-operators.md"]  # the second builds on the first
MINUTE = 60_000_000


def clicks() -> pa.Table:
    """Return the clicks of two users: visits of 3, 2 and 4 clicks, then of a third."""
    minutes = {"ann": [0, 5, 9, 100, 101], "bob": [3, 30, 50, 79], "end": [1000, 1001]}
    rows = sorted((minute, user) for user, times in minutes.items() for minute in times)
    times = [1_700_000_000_000_000 + minute * MINUTE for minute, _ in rows]
    kind = pa.timestamp("us", "UTC")
    return pa.table({"user": [user for _, user in rows], "ts": pa.array(times, kind)})


@pytest.mark.slow
def test_the_guides_run_from_beginning_to_end(spark: Any, tmp_path: Path) -> None:
    table = clicks()
    for number, begin in enumerate((0, 5, 10)):  # the watermark follows the batches before
        write_file(tmp_path / "in", number, table.slice(begin, 5))
    stream = read_stream(spark, tmp_path / "in", "user string, ts timestamp", files=1)
    names: dict[str, Any] = {"records": table, "spark": spark}
    names |= {"clicks": stream, "purchases": stream.where("user = 'ann'")}
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        changed = program.replace('"/data/', f'"{tmp_path.as_posix()}/')
        changed = changed.replace("workers=16,", "workers=2, max_workers=24,")
        changed = changed.replace("batch=41", "batch=1")
        exec(changed, names)
        if "writeStream" in program:
            for query in spark.streams.active:
                query.processAllAvailable()
                query.stop()
            found = spark.read.parquet(str(tmp_path / "visits" / "out")).collect()
            # That of "end" goes on.
            assert sorted(map(tuple, found)) == [("ann", 2), ("ann", 3), ("bob", 4)]
    latest = names["Latest"]()
    from skewless.spark import check_processor, read_state

    rng = np.random.default_rng(0)
    values = pa.table({"user": rng.choice(["a", "b", "c"], 40), "value": rng.random(40)})
    check_processor(latest, values, key="user", answers="batch")
    state = read_state(spark, str(tmp_path / "visits" / "ledger")).collect()
    assert [(row["user"], row["clicks"]) for row in state] == [("end", 2)]

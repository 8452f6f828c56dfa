"""What sources and workers report, made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skewless import aggregations as aggs
from skewless.spark.aggregation.combining import RECORDS, _report
from skewless.spark.aggregation.partials import Partials
from skewless.spark.ledger.ledger import Entry

IDENTITY = {"strategy": "pkg", "parameters": "{}", "workers": 3, "seed": 0, "key": "k"}


def source(*loads: int) -> Entry:
    return Entry({"loads": np.array(loads, np.int64)}, {"records": sum(loads), "seconds": 0.1})


def worker(keys: list[str | None], seconds: float = 1.0) -> Entry:
    """Build the report of a worker that got these records."""
    return report_of(pa.array(keys, pa.string()), seconds)


def report_of(keys: Any, seconds: float = 1.0) -> Entry:
    schema = pa.schema([pa.field("k", keys.type)])
    partials = Partials(schema, ("k",), {RECORDS: aggs.count()})
    table = partials.update(pa.table({"k": keys}))
    return _report(partials, table, len(keys), seconds)

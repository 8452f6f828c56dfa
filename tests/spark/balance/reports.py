"""What sources and workers report, made by hand, and Prometheus text read back."""

from __future__ import annotations

import re
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


#: Prometheus' text format 0.0.4: name, labels, value.
SAMPLE = re.compile(
    r'([a-zA-Z_:][\w:]*)\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\} (\S+)', re.ASCII
)


def parsed(text: str) -> dict[str, float]:
    """Return the samples; every one must follow the HELP and TYPE of its name."""
    samples = {}
    told: list[str] = []
    for line in text.splitlines():
        if line.startswith("# "):
            kind, name = line.split()[1:3]
            assert kind in ("HELP", "TYPE")
            told.append(f"{kind} {name}")
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        assert told[-2:] == [f"HELP {match[1]}", f"TYPE {match[1]}"]
        assert f"{match[1]}{{{match[2]}}}" not in samples
        samples[f"{match[1]}{{{match[2]}}}"] = float(match[3])
    assert len(told) == len(set(told))
    return samples

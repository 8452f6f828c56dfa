"""Both ways of `skewless diagnose --key`: in this process, or with Spark aggregations."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skewless.cli.on_spark import scratch_folder, spark_session
from skewless.diagnosis.key_column import KeyReport, diagnose_keys, report_on
from skewless.diagnosis.key_facts import CURVE, PARTS, TOP, KeyFacts, heavy_share
from skewless.workloads import Trace
from skewless.workloads.trace import columns_of, is_remote

#: The values of keys by their hashes.
Names = dict[int, tuple[Any, ...]]
_TEXT = re.compile(r"\.txt(\.gz|\.bz2)?$", re.IGNORECASE)


@dataclass(frozen=True)
class Asked:
    """What to diagnose.

    Parameters
    ----------
    path, format, delimiter
        The file or folder, its format, and the separator of CSV columns.
    key
        The columns, separated by commas; None: the words of a text.
    n_workers, limit, window
        Workers, the most records that are simulated, and records per window.
    """

    path: str
    format: str
    key: str | None
    n_workers: int
    limit: int
    window: int
    delimiter: str = "auto"

    def is_text(self) -> bool:
        """Whether the input is plain text, which has words and no columns."""
        if is_remote(self.path):
            by_name = self.format == "auto" and _TEXT.search(self.path.split("?")[0]) is not None
            return by_name or self.format == "text"
        return not columns_of(self.path, self.format, self.delimiter)

    @property
    def columns(self) -> list[str]:
        """The columns of the key."""
        return [name.strip() for name in (self.key or "word").split(",")]


def diagnose_in_memory(
    asked: Asked, checked: Callable[[], object] = lambda: None
) -> tuple[KeyReport, Names]:
    """Return the report on the first records, and the values of the heaviest keys.

    `checked` is called before the work, when the files and columns are known to exist.
    """
    trace = Trace(
        path=asked.path,
        key=tuple(asked.columns),
        limit=asked.limit,
        format=asked.format,  # type: ignore[arg-type]
        delimiter=asked.delimiter,
    )
    checked()
    report = diagnose_keys(trace, n_workers=asked.n_workers, window=asked.window)
    hashes = np.array([hashed for hashed, _ in report.top_keys], np.uint64)
    return report, trace.values(hashes)


def diagnose_on_spark(
    asked: Asked, master: str, checked: Callable[[], object] = lambda: None
) -> tuple[KeyReport, Names]:
    """Return the report on all records; strategies are simulated on the first ones.

    `checked` is called before Spark starts, after everything that can be checked without Spark.
    """
    from skewless.apps.records.inputs import find_input
    from skewless.spark.session_arguments import require_session

    require_session("skewless", master, "1g", None)
    format = "json" if asked.format == "jsonl" else asked.format
    records = find_input(asked.path, format, asked.delimiter)
    records.require_columns(asked.columns, "--key")
    checked()
    with scratch_folder() as scratch, spark_session(master, scratch, []) as spark:
        return report_by_spark(asked, records.read_in_places(spark))


def report_by_spark(asked: Asked, records: Any) -> tuple[KeyReport, Names]:
    """Return the report from a DataFrame of all records and their places in the files."""
    from skewless.spark.diagnosis.counted_keys import count_on_spark

    counted = count_on_spark(
        records,
        asked.columns,
        n_workers=asked.n_workers,
        heaviest=CURVE,
        top=TOP,
        parts=PARTS,
        heavy=heavy_share(asked.n_workers),
        beginning=asked.limit,
    )
    facts = KeyFacts(
        counted.n_records,
        counted.n_keys,
        counted.n_above_fair_share,
        counted.heaviest,
        counted.tops,
    )
    beginning = counted.beginning
    report = report_on(facts, beginning, n_workers=asked.n_workers, window=asked.window)
    return report, counted.values

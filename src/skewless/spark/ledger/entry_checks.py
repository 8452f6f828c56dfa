"""Checks the content of plans and reports before it is used."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from skewless.spark.key_texts import ListedKey
from skewless.spark.ledger.files import Entry, LedgerCorrupt, one_line
from skewless.state import MOST_COUNTED, Unsound, require_that, require_within, restored

S = TypeVar("S")


def restored_from(entry: Entry, fresh: S, arrays: dict[str, NDArray[Any]]) -> S:
    """Return the state that a file holds, or raise LedgerCorrupt; `fresh` is one without records.

    The state shares no array with another, because each file is read into new arrays.
    """
    try:
        return restored(fresh, arrays)
    except Unsound as error:
        raise corrupt(entry, error) from None


def require_plan(plan: Entry) -> None:
    """Raise LedgerCorrupt unless a plan says for each source when it reported last."""
    try:
        sources, reported = (_ints(plan, name) for name in ("sources", "reported"))
        require_that(
            sources.size == reported.size, "sources and reported must have the same length"
        )
        require_that((np.diff(sources) > 0).all(), "sources must ascend")
        require_within("sources", sources, 0, MOST_COUNTED)
        require_within("reported", reported, 0, MOST_COUNTED)
    except Unsound as error:
        raise corrupt(plan, error) from None


def require_report(report: Entry, n_workers: int, *, with_keys: bool = False) -> None:
    """Raise LedgerCorrupt unless a source's report has its loads, and its keys if it needs them."""
    try:
        loads = _ints(report, "loads")
        require_that(loads.size == n_workers, f"loads must be {n_workers}, not {loads.size}")
        require_within("loads", loads, 0, MOST_COUNTED)
        if "costs" in report.arrays:
            costs = row_of(report, "costs", np.float64)
            require_that(costs.size == n_workers, f"costs must be {n_workers}, not {costs.size}")
            require_within("costs", costs, 0, np.finfo(np.float64).max)
        if with_keys:
            keys, counts = row_of(report, "keys", np.uint64), _ints(report, "counts")
            require_that(keys.size == counts.size, "keys and counts must have the same length")
            require_within("counts", counts, 0, MOST_COUNTED)
            if "spent" in report.arrays:
                spent = _ints(report, "spent")
                require_that(
                    spent.size == n_workers, f"spent must be {n_workers}, not {spent.size}"
                )
                require_within("spent", spent, 0, MOST_COUNTED)
    except Unsound as error:
        raise corrupt(report, error) from None


def require_worker_report(report: Entry) -> None:
    """Raise LedgerCorrupt unless a worker's report can be shown."""
    about = report.about
    try:
        row_of(report, "keys", np.uint64)
        if "counted" in report.arrays:
            counted, counts = row_of(report, "counted", np.uint64), _ints(report, "counted_records")
            require_that(counted.size == counts.size, "counted_records must have counted's length")
            require_within("counted_records", counts, 0, MOST_COUNTED)
        for name in ("records", "pairs", "sampled_by", "seconds"):
            number: Any = about.get(name)
            known = isinstance(number, int | float if name == "seconds" else int)
            least = 1 if name == "sampled_by" else 0
            text = f"{name} must be a number from {least} on, not {str(number)[:40]}"
            require_that(known and least <= number <= MOST_COUNTED, text)
        top = about.get("top")
        require_that(isinstance(top, list), "top must be a list")
        for row in top or []:
            is_row = isinstance(row, list) and [type(v) for v in row] == [str, int, int]
            require_that(is_row, "top must have a text, a count and a hash in each row")
            within = 1 <= ListedKey.from_json(row).records <= about["records"]
            require_that(within, "top must count at least 1 and at most all records of a key")
    except Unsound as error:
        raise corrupt(report, error) from None


def corrupt(entry: Entry, error: Exception) -> LedgerCorrupt:
    """Return the error that names the file of `entry`."""
    return LedgerCorrupt(f"{entry.where or 'an entry'} cannot be used: {one_line(error)}")


def _ints(entry: Entry, name: str) -> NDArray[np.int64]:
    return row_of(entry, name, np.int64)


def row_of(entry: Entry, name: str, dtype: Any) -> NDArray[Any]:
    """Return an array of an entry; raise Unsound unless it is there, a row, and of this type."""
    if name not in entry.arrays:
        raise Unsound(f"it has no array {name!r}")
    array = entry.arrays[name]
    wanted = np.dtype(dtype)
    if array.dtype != wanted or array.ndim != 1:
        raise Unsound(f"{name} must be a row of {wanted}, not {array.dtype.str} {array.shape}")
    return array

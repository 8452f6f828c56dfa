"""Checks the content of plans and reports before it is used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from skewless.spark.key_texts import ListedKey
from skewless.spark.ledger.files import Entry, LedgerCorrupt, one_line
from skewless.state import MOST_COUNTED, Unsound, require_that, require_within, restored

S = TypeVar("S")


@contextlib.contextmanager
def usable(entry: Entry) -> Iterator[None]:
    """Turn Unsound into LedgerCorrupt, which names the file of `entry`."""
    try:
        yield
    except Unsound as error:
        raise corrupt(entry, error) from None


def corrupt(entry: Entry, error: Exception) -> LedgerCorrupt:
    """Return the error that names the file of `entry`."""
    return LedgerCorrupt(f"{entry.where or 'an entry'} cannot be used: {one_line(error)}")


def restored_from(entry: Entry, fresh: S, arrays: dict[str, NDArray[Any]]) -> S:
    """Return the state that a file holds, or raise LedgerCorrupt; `fresh` is one without records.

    The state shares no array with another, because each file is read into new arrays.
    """
    with usable(entry):
        return restored(fresh, arrays)


def row_of(entry: Entry, name: str, dtype: Any, size: int | None = None) -> NDArray[Any]:
    """Return an array of an entry; raise Unsound unless it is there, a row, and of this type."""
    if name not in entry.arrays:
        raise Unsound(f"it has no array {name!r}")
    array, wanted = entry.arrays[name], np.dtype(dtype)
    if array.dtype != wanted or array.ndim != 1:
        raise Unsound(f"{name} must be a row of {wanted}, not {array.dtype.str} {array.shape}")
    require_that(size in (None, array.size), f"{name} must be {size}, not {array.size}")
    return array


def rows_of(entry: Entry, dtypes: Mapping[str, Any], *, ascends: bool = True) -> list[NDArray[Any]]:
    """Return arrays of an entry that belong together: of these types, and of the same length.

    Raises Unsound if they are not, or if the first one does not ascend.
    """
    rows = [row_of(entry, name, dtype) for name, dtype in dtypes.items()]
    *others, last = dtypes
    text = f"{', '.join(others)} and {last} must have the same length"
    require_that(len({row.size for row in rows}) == 1, text)
    if ascends:
        require_that((rows[0][1:] > rows[0][:-1]).all(), f"{others[0]} must ascend")
    return rows


def require_plan(plan: Entry) -> None:
    """Raise LedgerCorrupt unless a plan says for each source when it reported last."""
    with usable(plan):
        for row in rows_of(plan, {"sources": np.int64, "reported": np.int64}):
            require_within("sources and reported", row, 0, MOST_COUNTED)


def require_report(report: Entry, n_workers: int, *, with_keys: bool = False) -> None:
    """Raise LedgerCorrupt unless a source's report has its loads, and its keys if it needs them."""
    with usable(report):
        rows = {"loads": row_of(report, "loads", np.int64, n_workers)}
        if "costs" in report.arrays:
            costs = row_of(report, "costs", np.float64, n_workers)
            require_within("costs", costs, 0, np.finfo(np.float64).max)
        if with_keys:
            dtypes = {"keys": np.uint64, "counts": np.int64}
            _, rows["counts"] = rows_of(report, dtypes, ascends=False)
        if with_keys and "spent" in report.arrays:
            rows["spent"] = row_of(report, "spent", np.int64, n_workers)
        for name, row in rows.items():
            require_within(name, row, 0, MOST_COUNTED)


def require_worker_report(report: Entry) -> None:
    """Raise LedgerCorrupt unless a worker's report can be shown."""
    about = report.about
    with usable(report):
        row_of(report, "keys", np.uint64)
        if "counted" in report.arrays:
            size = row_of(report, "counted", np.uint64).size
            counts = row_of(report, "counted_records", np.int64, size)
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
            within = 1 <= ListedKey(*row).records <= about["records"]
            require_that(within, "top must count at least 1 and at most all records of a key")

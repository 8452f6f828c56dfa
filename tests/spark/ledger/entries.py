"""Small entries for the tests of the ledger, and what they leave behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from skewless.spark.ledger.ledger import Entry, Ledger
from skewless.spark.ledger.names import SOURCES, WORKERS, plan_name, report_name

IDENTITY = {"strategy": "pkg", "parameters": '{"choices": 2}', "workers": 32, "seed": 7, "key": "k"}


def small(value: int = 1) -> Entry:
    return Entry({"loads": np.array([value, 2], np.uint64)}, {"value": value})


def same(one: Entry, other: Entry) -> bool:
    """Compare bit for bit, so that NaN equals itself and 0.0 is not −0.0."""
    return (
        one.about == other.about
        and one.arrays.keys() == other.arrays.keys()
        and all(
            (a.dtype, a.shape, a.tobytes())
            == (other.arrays[n].dtype, other.arrays[n].shape, other.arrays[n].tobytes())
            for n, a in one.arrays.items()
        )
    )


def leftovers(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix == ".tmp")


def write_report(
    ledger: Ledger, batch: int, source: int, report: Entry, run: str | None = None
) -> None:
    """Write what a source learned, as a router does."""
    ledger.write(report_name(SOURCES, batch, run or ledger.run, source), report)


def write_worker(
    ledger: Ledger, batch: int, worker: int, report: Entry, run: str | None = None
) -> None:
    """Write what a worker learned, as a combiner does."""
    ledger.publish(report_name(WORKERS, batch, run or ledger.run, worker), report)


def read_reports(ledger: Ledger, batch: int) -> dict[int, Entry]:
    """Return what sources learned, by source."""
    return dict(ledger.reports(SOURCES, batch))


def read_report(ledger: Ledger, batch: int, source: int) -> Entry | None:
    """Return what one source learned."""
    name = ledger.counted(SOURCES, batch).get(source)
    return None if name is None else ledger.read(name)


def read_workers(ledger: Ledger, batch: int) -> dict[int, Entry]:
    """Return what workers learned, by worker."""
    return dict(ledger.reports(WORKERS, batch))


def fill(ledger: Ledger, batches: range) -> None:
    for batch in batches:
        ledger.publish(plan_name(batch), small(batch))
        write_report(ledger, batch, batch % 3, small(batch))
        write_worker(ledger, batch, 0, small(batch))

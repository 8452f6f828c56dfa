"""Small entries for the tests of the ledger, and what they leave behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from skewless.spark.ledger.ledger import Entry, Ledger

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


def fill(ledger: Ledger, batches: range) -> None:
    for batch in batches:
        ledger.publish_plan(batch, small(batch))
        ledger.write_report(batch, batch % 3, small(batch))
        ledger.write_worker(batch, 0, small(batch))

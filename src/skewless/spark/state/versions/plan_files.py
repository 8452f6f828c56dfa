"""Files of plans: one for each batch and run; the first task that publishes it wins."""

from __future__ import annotations

from skewless.spark.ledger.files import Entry, from_bytes, to_bytes
from skewless.spark.ledger.folder import open_folder, shown
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.ledger.names import run_name
from skewless.spark.state.versions.names import plan_file


def read_entry(ledger: Ledger, batch: int, run: str) -> Entry | None:
    """Read a plan's entry from the ledger; None if there is none."""
    name = plan_file(batch, run)
    data = open_folder(ledger.folder).read(name)
    return None if data is None else from_bytes(data, f"{shown(ledger.folder)}/{name}")


def publish(ledger: Ledger, batch: int, entry: Entry) -> Entry:
    """Make this the plan of this run for `batch` if there is none; return the one that counts."""
    name = plan_file(batch, run_name(ledger.run))
    data = open_folder(ledger.folder).create(name, to_bytes(entry))
    return from_bytes(data, f"{shown(ledger.folder)}/{name}")

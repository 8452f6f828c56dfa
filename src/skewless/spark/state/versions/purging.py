"""Deletes versions when Spark no longer keeps their batches and no version builds on them."""

from __future__ import annotations

from skewless.spark.ledger.ledger import Ledger
from skewless.spark.ledger.names import PLAN, STATE, batch_folder, version_name
from skewless.spark.state.versions.bases import batches
from skewless.spark.state.versions.version_files import read


def purge(ledger: Ledger, batch: int, kept: int) -> None:
    """Delete what no replay of the last `kept` batches before `batch` needs.

    A file stays while a kept version builds on it, even if it is old.
    """
    first = batch - kept - 1  # a replayed batch reads the version before it
    known = batches(ledger)
    if known and known[0] < first:
        needed = _needed(ledger, [one for one in known if one >= first])
        if needed is not None:
            ledger.purge(first, needed)


def _needed(ledger: Ledger, later: list[int]) -> set[str] | None:
    """Return the files that versions of these batches build on; None if no batch is whole.

    Later versions build on files of a whole batch or newer, or on files below those of this batch.
    After a rollback, the first batches may be partly purged: then plans of runs are gone, and only
    files are left that later versions build on.
    """
    files, needed = ledger.files, set[str]()
    for one in later:
        runs = [files.files(folder) for folder in files.folders(batch_folder(STATE, one))]
        for name in filter(version_name, (file for run in runs for file in run)):
            needed.update(read(ledger, name).below)
        if any(runs) and all(any(file.endswith(PLAN) for file in run) for run in runs if run):
            return needed
    return None

"""Deletes versions when Spark no longer keeps their batches and no version builds on them."""

from __future__ import annotations

from skewless.spark.ledger.folder import open_folder
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.state.versions.bases import batches
from skewless.spark.state.versions.names import PLAN, batch_folder, version_name
from skewless.spark.state.versions.version_files import read


def purge(ledger: Ledger, batch: int, kept: int) -> None:
    """Delete what no replay of the last `kept` batches before `batch` needs.

    A file stays while a kept version builds on it, even if it is old.
    """
    known = batches(ledger)
    # A replayed batch reads the version before it. After a rollback, the oldest batch within reach
    # may be partly purged: its plan is gone, and only files that later versions build on are left.
    later = [one for one in known if one >= batch - kept - 1 and _is_whole(ledger, one)]
    if not later or later[0] == known[0]:
        return
    first = later[0]
    # Later versions build on files of this batch or newer, or on files below those of this batch.
    files = open_folder(ledger.folder)
    needed: set[str] = set()
    for folder in files.folders(batch_folder(first)):
        for name in filter(version_name, files.files(folder)):
            needed.update(read(ledger, name).below)
    for one in known[: known.index(first)]:
        for folder in files.folders(batch_folder(one)):
            # The plan first: a batch without a plan does not count as whole.
            for file in sorted(files.files(folder), key=lambda name: not name.endswith(PLAN)):
                if file not in needed:
                    files.delete(file)
            if not files.files(folder):
                files.delete_folder(folder)
        if not files.folders(batch_folder(one)):
            files.delete_folder(batch_folder(one))
    ledger.purge(first)


def _is_whole(ledger: Ledger, batch: int) -> bool:
    """Return whether no file of a batch was purged; each run purges its plan first."""
    files = open_folder(ledger.folder)
    runs = [files.files(folder) for folder in files.folders(batch_folder(batch))]
    return any(runs) and all(any(file.endswith(PLAN) for file in run) for run in runs if run)

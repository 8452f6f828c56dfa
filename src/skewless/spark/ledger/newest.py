"""The newest batch of a ledger, for readers outside of the query."""

from __future__ import annotations

from collections.abc import Mapping

from skewless.spark.ledger.folder import Folder
from skewless.spark.ledger.names import ROLES, batch_folder, batch_of_folder


def newest_batch(files: Folder, runs: Mapping[str, int]) -> int | None:
    """Return the newest batch that the last run has reported on, or None.

    After a rollback of the checkpoint, earlier runs may have newer batches, which were abandoned.
    `runs` are the numbers of the runs by name.
    """
    found = {batch_of_folder(name) for kind in ROLES for name in files.folders(kind)}
    last = max(runs.values(), default=-1)
    newest: tuple[int, int] | None = None  # the number of a run, and its batch
    for batch in sorted((batch for batch in found if batch is not None), reverse=True):
        number = _last_run(files, batch, runs)
        if number is not None and (newest is None or number > newest[0]):
            newest = number, batch
        if number == last:
            break
    return None if newest is None else newest[1]


def is_reported(files: Folder, batch: int) -> bool:
    """Return whether any run has reported on a batch."""
    return _last_run(files, batch, {}) is not None


def _last_run(files: Folder, batch: int, runs: Mapping[str, int]) -> int | None:
    """Return the number of the last run that has reported on a batch, or None."""
    folders = [name for kind in ROLES for name in files.folders(batch_folder(kind, batch))]
    numbers = [runs.get(name.rpartition("/")[2], -1) for name in folders if files.files(name)]
    return max(numbers, default=None)

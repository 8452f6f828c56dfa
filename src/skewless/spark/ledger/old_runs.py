"""Deletes the registrations of old runs of which no files are left."""

from __future__ import annotations

import itertools

from skewless.spark.ledger.folder import Folder
from skewless.spark.ledger.names import RUN

#: The runs that always stay registered: to look for files of older ones, many folders are listed.
KEPT_RUNS = 16
#: Where runs have folders: one below the folder of each batch.
_FOLDERS = ("reports", "workers", "state")


def purge_runs(files: Folder, seconds: float) -> None:
    """Delete registrations of runs that have no files left.

    A task of an abandoned run may still be at work. It would register its run again, as the latest
    one. So a run stays registered until the one after it is older than `seconds`.
    """
    matches = [match for match in map(RUN.fullmatch, files.files("runs")) if match]
    registered = sorted((int(match[1]), match[2], match[0]) for match in matches)
    pairs = list(itertools.pairwise(registered))[: max(0, len(registered) - KEPT_RUNS)]
    old = [
        (name, file)
        for (_, name, file), (_, _, after) in pairs
        if files.seconds_since_written(after) > seconds
    ]
    if not old:
        return
    used = {
        run.rpartition("/")[2]
        for kind in _FOLDERS
        for batch in files.folders(kind)
        for run in files.folders(batch)
    }
    # The first registration of a name counts, so it is deleted last.
    for name, file in reversed(old):
        if name not in used:
            files.delete(file)

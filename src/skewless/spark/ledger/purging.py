"""Deletes what old batches and old runs have left in a ledger."""

from __future__ import annotations

import itertools
from collections.abc import Collection

from skewless.spark.ledger.folder import Folder
from skewless.spark.ledger.names import KINDS, OF_PLANS, PLAN, RUN, UNFINISHED_STATEMENT, batch_of

#: Seconds. No task takes that long to write a few hundred bytes: the task has died.
_SURELY_DEAD_S = 3600.0
#: The runs that always stay registered: to look for files of older ones, many folders are listed.
KEPT_RUNS = 16


def purge(files: Folder, before: int, needed: Collection[str]) -> None:
    """Delete what belongs to batches before `before`, but for the `needed` files."""
    for name in files.files("plans"):
        match = OF_PLANS.fullmatch(name)
        if match and int(match[1]) < before:
            files.delete(name)
    for name in filter(UNFINISHED_STATEMENT.fullmatch, files.files("") + files.files("runs")):
        if files.seconds_since_written(name) > _SURELY_DEAD_S:
            files.delete(name)
    for kind in KINDS:
        for folder in files.folders(kind):
            batch = batch_of(folder)
            if batch is not None and batch < before:
                _purge_batch(files, folder, needed)
    _purge_runs(files)


def _purge_batch(files: Folder, folder: str, needed: Collection[str]) -> None:
    for run in files.folders(folder):
        names = files.files(run)
        if run + PLAN in names:
            files.delete(run + PLAN)  # first: a run without a plan does not count as whole
        stay = [name for name in names if name in needed]
        for name in names if stay else ():
            if name not in stay:
                files.delete(name)
        if not stay:
            files.delete_folder(run)
    if not files.folders(folder):
        files.delete_folder(folder)


def _purge_runs(files: Folder) -> None:
    """Delete registrations of runs that have no files left.

    A task of an abandoned run may still be at work. It would register its run again, as the latest
    one. So a run stays registered until the one after it is old.
    """
    matches = [match for match in map(RUN.fullmatch, files.files("runs")) if match]
    registered = sorted((int(match[1]), match[2], match[0]) for match in matches)
    pairs = list(itertools.pairwise(registered))[: max(0, len(registered) - KEPT_RUNS)]
    old = [
        (name, file)
        for (_, name, file), (_, _, after) in pairs
        if files.seconds_since_written(after) > _SURELY_DEAD_S
    ]
    if not old:
        return
    used = {
        run.rpartition("/")[2]
        for kind in KINDS
        for batch in files.folders(kind)
        for run in files.folders(batch)
    }
    # The first registration of a name counts, so it is deleted last.
    for name, file in reversed(old):
        if name not in used:
            files.delete(file)

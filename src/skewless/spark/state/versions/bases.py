"""Which version a batch builds on: always one that a run has finished, never simply the latest.

Each run writes the versions of a batch into its own folder. When a batch begins, the one before is
finished. If this run finished it, its version counts. Right after a restart, the version of the
last earlier run that finished it counts. So a task of an abandoned run that writes late changes
nothing, and a replayed batch builds on the same version as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from skewless.spark.ledger.folder import open_folder, shown
from skewless.spark.ledger.ledger import Ledger, LedgerMismatch
from skewless.spark.ledger.names import run_name
from skewless.spark.state.versions.names import (
    BATCH,
    BATCHES,
    PLAN,
    VersionName,
    batch_folder,
    version_name,
)


class Base(NamedTuple):
    """The version that a batch builds on: its batch, run and number of workers."""

    batch: int
    run: str
    workers: int

    def version(self, worker: int) -> VersionName:
        """Return the file of one worker."""
        return VersionName(self.batch, self.run, worker, self.workers)


class StateIncomplete(RuntimeError):  # noqa: N818 - it is read as a sentence
    """Some workers have written no version of the batch before; the message says which and why."""


def base_of(ledger: Ledger, batch: int) -> Base | None:
    """Return what `batch` builds on; None for the first one.

    Raises LedgerMismatch if the ledger and the checkpoint do not belong together, and
    StateIncomplete if the batch before was evaluated only in part.
    """
    if batch == 0:
        return None
    found = versions(ledger, batch - 1)
    order = ledger.runs()
    own = "" if ledger.run is None else run_name(ledger.run)
    if own in found:
        return _complete(ledger, batch - 1, own, found[own])
    if batch > 1 and own in versions(ledger, batch - 2):
        raise StateIncomplete(
            f"the ledger in {shown(ledger.folder)} has no version {batch - 1} of this run: "
            f"foreachBatch did not evaluate micro-batch {batch - 1}. Let it evaluate its whole "
            f"DataFrame; to repeat the micro-batch, delete commits/{batch - 1} and all later files "
            "of commits and offsets in the checkpoint"
        )
    limit = order.get(own, 1 << 62)
    earlier = sorted((order.get(run, -1), run) for run in found if order.get(run, -1) < limit)
    if earlier:
        # The last run that worked on the batch, and no older one: after a rollback of the
        # checkpoint, an older run may have had other records in it.
        run = earlier[-1][1]
        return _complete(ledger, batch - 1, run, found[run])
    raise LedgerMismatch(_why_none(ledger, batch))


def versions(ledger: Ledger, batch: int) -> dict[str, list[VersionName]]:
    """Return the versions of one batch by run, without those that may be partly purged.

    Purging begins with the plan, and leaves files that newer versions build on.
    """
    files = open_folder(ledger.folder)
    found: dict[str, list[VersionName]] = {}
    for folder in files.folders(batch_folder(batch)):
        there = files.files(folder)
        names = [name for name in map(version_name, there) if name]
        if names and any(name.endswith(PLAN) for name in there):
            found[folder.rpartition("/")[2]] = names
    return found


def batches(ledger: Ledger) -> list[int]:
    """Return the batches that have a folder, in order."""
    matches = (BATCH.fullmatch(name) for name in open_folder(ledger.folder).folders(BATCHES))
    return sorted(int(match[1]) for match in matches if match)


def newest(ledger: Ledger) -> Base | None:
    """Return the newest complete version of the last run that has one, for readers outside.

    After a rollback of the checkpoint, earlier runs may have newer batches, with other records.
    """
    order = ledger.runs()
    last = max(order.values(), default=-1)
    found: Base | None = None
    for batch in reversed(batches(ledger)):
        there = complete(ledger, batch)
        if there is None:
            continue
        if found is None or order.get(there.run, -1) > order.get(found.run, -1):
            found = there
        if order.get(found.run, -1) == last:
            break
    return found


def complete(ledger: Ledger, batch: int) -> Base | None:
    """Return the version of one batch by the last run that has finished it, or None."""
    order, found = ledger.runs(), versions(ledger, batch)
    for run in sorted(found, key=lambda name: order.get(name, -1), reverse=True):
        if not _missing(found[run]):
            return Base(batch, run, found[run][0].workers)
    return None


def all_complete(ledger: Ledger) -> Iterator[Base]:
    """Yield all complete versions of all runs, the newest batches first."""
    for batch in reversed(batches(ledger)):
        for run, names in versions(ledger, batch).items():
            if not _missing(names):
                yield Base(batch, run, names[0].workers)


def _missing(names: list[VersionName]) -> list[int]:
    return sorted(set(range(names[0].workers)) - {name.worker for name in names})


def _complete(ledger: Ledger, batch: int, run: str, names: list[VersionName]) -> Base:
    missing = _missing(names)
    if missing:
        workers = ", ".join(map(str, missing[:8])) + (" …" if len(missing) > 8 else "")
        raise StateIncomplete(
            f"the ledger in {shown(ledger.folder)} has no version {batch} of worker {workers}: "
            f"micro-batch {batch} was evaluated in part, as show, take, limit or first in "
            f"foreachBatch do. Let foreachBatch evaluate its whole DataFrame; to repeat the "
            f"micro-batch, delete commits/{batch} and all later files of commits and offsets "
            "in the checkpoint"
        )
    return Base(batch, run, names[0].workers)


def _why_none(ledger: Ledger, batch: int) -> str:
    place = shown(ledger.folder)
    known = [one for one in batches(ledger) if versions(ledger, one)]  # a plan alone is no state
    if not known:
        why = "the ledger was deleted, or is not the one of this checkpoint; restore it, or start "
        if batch == 1:
            why = (
                "foreachBatch did not evaluate micro-batch 0, or the ledger was deleted, or is not "
                "the one of this checkpoint; let foreachBatch evaluate its whole DataFrame, and "
                "restore the ledger, or start "
            )
        return (
            f"the ledger in {place} holds no state, and the query is at micro-batch {batch}: {why}"
            "with another checkpoint and an empty ledger"
        )
    held = (
        f"the ledger in {place} holds versions {known[0]} … {known[-1]}, and micro-batch {batch} "
        f"needs version {batch - 1}"
    )
    if batch - 1 < known[0]:
        return (
            f"{held}, which is older and was deleted: as many micro-batches are kept as "
            "spark.sql.streaming.minBatchesToRetain says; restore the ledger and the checkpoint "
            "from copies of one time"
        )
    return (
        f"{held}: the ledger and the checkpoint are copies of different times, or foreachBatch did "
        f"not evaluate micro-batch {batch - 1}; restore both together"
    )

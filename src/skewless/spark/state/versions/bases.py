"""Which version a batch builds on: always one that a run has finished, never simply the latest.

Each run writes the versions of a batch into its own folder. When a batch begins, the one before is
finished. If this run finished it, its version counts. Right after a restart, the version of an
earlier run counts that finished the same micro-batch. After the checkpoint was rolled back or
copied, another micro-batch may have the same number: its stamp differs. If it cannot be told which
of two the checkpoint continues, the query is refused. A newer run stops an older one, and a task of
an abandoned run that writes late changes nothing.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from skewless.plumbing.arguments import MOST_WORKERS
from skewless.spark.ledger import names as file_names
from skewless.spark.ledger.entry_checks import usable
from skewless.spark.ledger.ledger import Ledger, LedgerMismatch, read_statement, statement
from skewless.spark.ledger.names import (
    INITIAL,
    PLAN,
    STATE,
    VersionName,
    batch_folder,
    run_name,
    version_name,
)
from skewless.spark.state.versions.offset_log import OffsetLog
from skewless.spark.state.versions.version_files import held_rows, read
from skewless.state import MOST_COUNTED, require_that

_LOGGER = logging.getLogger("skewless")
#: A small file names the version with the initial states when all its files are there.
_FILE, _WHAT = "initial.json", "initial"
_IN_PART = "was evaluated in part, as show, take, limit or first in foreachBatch do"
_NOT_FOUND = (
    "process: the checkpoint of this query was not found beside the ledger in %s. The query cannot "
    "be started again before you set spark.skewless.checkpoint to the folder of the checkpoint"
)


class Base(NamedTuple):
    """The version that a batch builds on: its batch, run and number of workers."""

    batch: int
    run: str
    workers: int

    @classmethod
    def of(cls, value: Any) -> Base:
        """Return the base that a plan names; raise Unsound if it is none."""
        kinds = [type(part) for part in value] if isinstance(value, list) else []
        text = "base must be a batch, a run and a number of workers"
        require_that(kinds == [int, str, int], text)
        base = cls(*value)
        good = INITIAL <= base.batch <= MOST_COUNTED and 1 <= base.workers <= MOST_WORKERS
        require_that(good and run_name(base.run) == base.run, text)
        return base

    def version(self, worker: int) -> VersionName:
        """Return the file of one worker."""
        return VersionName(self.batch, self.run, worker, self.workers)


class StateIncomplete(RuntimeError):  # noqa: N818 - it is read as a sentence
    """Some workers have written no version of the batch before; the message says which and why."""


def require_newest_run(ledger: Ledger) -> None:
    """Raise LedgerMismatch if a newer run of the query uses the ledger: one of them must stop."""
    order = ledger.runs()
    own = run_name(ledger.run)
    if own in order and (order[own], own) < max((number, run) for run, number in order.items()):
        raise LedgerMismatch(
            f"a newer run of this query uses the ledger in {ledger.place}, so this one "
            "ends: a query must not run twice, and a copy of its checkpoint needs a copy of the "
            "ledger"
        )


def require_plan_in_use(
    ledger: Ledger, base: Base, checksum: str, used: Collection[str | None]
) -> None:
    """Raise StateIncomplete if workers have used another plan than the one that is there now.

    Where a file is not created atomically, an attempt that stood still may replace the plan of
    another one. Initial states used no plan.
    """
    if not {None, checksum}.issuperset(used):
        raise StateIncomplete(
            f"the plan of micro-batch {base.batch} in the ledger in {ledger.place} was replaced "
            "after workers had used it, so their states may not belong together. "
            f"{_to_repeat(base.batch)}"
        )


def base_of(ledger: Ledger, batch: int, offsets: OffsetLog) -> Base | None:
    """Find the version that `batch` builds on; None for a first batch without initial states.

    Raises LedgerMismatch if the ledger and the checkpoint do not belong together, and
    StateIncomplete if the batch before was evaluated only in part.
    """
    if batch == 0:
        return _initial(ledger)
    found = versions(ledger, batch - 1)
    own = run_name(ledger.run)
    if own in found:
        if batch == 1 and offsets.stamp(0) is None:
            _LOGGER.warning(_NOT_FOUND, ledger.place)
        return _complete(ledger, batch - 1, own, found[own])
    if batch > 1 and own in versions(ledger, batch - 2):
        raise StateIncomplete(
            f"the ledger in {ledger.place} has no version {batch - 1} of this run: "
            f"{_not_evaluated(batch - 1)}"
        )
    if not found:
        raise LedgerMismatch(_why_none(ledger, batch))
    continued = _continued(ledger, batch, found, offsets)
    whole = [run for run in continued if not _missing(found[run])]
    _require_alike(ledger, batch - 1, {run: found[run] for run in whole})
    run = (whole or continued)[-1]
    return _complete(ledger, batch - 1, run, found[run])


def _initial(ledger: Ledger) -> Base | None:
    """Return the version of the initial states, or None if the query began without them."""
    run = initial_run(ledger)
    if run is None:
        return None
    found = _whole(ledger, INITIAL)
    if run not in found:
        raise LedgerMismatch(
            f"the query began with the states of initial_state=, and the ledger in {ledger.place} "
            "does not have them all any more: as many micro-batches are kept as "
            "spark.sql.streaming.minBatchesToRetain says. Restore the ledger and the checkpoint "
            "from copies of one time, or start with another checkpoint and an empty ledger"
        )
    return found[run]


def _continued(
    ledger: Ledger, batch: int, found: Mapping[str, list[VersionName]], offsets: OffsetLog
) -> list[str]:
    """Return the runs whose version before `batch` the checkpoint continues, in their order.

    All of them worked on the same micro-batch.
    """
    order = ledger.runs()
    runs = sorted(found, key=lambda run: (order.get(run, -1), run))
    before = offsets.stamp(batch - 1)
    if before is None:
        before = _told_by_the_ledger(ledger, batch, offsets)
    same = [run for run in runs if _stamp(ledger, batch - 1, run) == before]
    if same and before is not None:
        return same
    raise StateIncomplete(
        f"the versions {batch - 1} in the ledger in {ledger.place} are of other "
        f"micro-batches than micro-batch {batch - 1} of the checkpoint, which was rolled back or "
        f"copied since: restore both from copies of one time; or {_not_evaluated(batch - 1)}"
    )


def _told_by_the_ledger(ledger: Ledger, batch: int, offsets: OffsetLog) -> int | None:
    """Return the stamp of the batch before if an earlier run has begun this very micro-batch.

    Nothing else is proof: an abandoned copy of the checkpoint that is started again looks like an
    ordinary restart.
    """
    now = offsets.stamp(batch)
    for folder in ledger.files.folders(batch_folder(STATE, batch)):
        entry = ledger.read(file_names.state_plan_name(batch, folder.rpartition("/")[2]))
        if entry is not None and now is not None and entry.about.get("stamp") == now:
            with usable(entry):
                return _stamp(ledger, batch - 1, Base.of(entry.about.get("base")).run)
    raise LedgerMismatch(
        f"process does not find the checkpoint of this query, so it cannot tell whether the states "
        f"in the ledger in {ledger.place} are those that micro-batch {batch} continues. "
        f"{offsets.searched()}. Set spark.skewless.checkpoint to the folder of the checkpoint, or "
        "put the ledger beside it, and start the query again; nothing is lost"
    )


def _require_alike(ledger: Ledger, batch: int, versions: Mapping[str, list[VersionName]]) -> None:
    """Raise LedgerMismatch if runs did the same micro-batch at once and hold other states.

    Two copies of a checkpoint that run at once may plan their micro-batches in one millisecond. A
    run that repeats a micro-batch begins when the one before has ended. Its states count, even if
    the user has corrected the processor in between. A late worker of the run before may still
    write: then both hold the same states, maybe on other workers or in other parts of spread keys.
    `versions` are in the order of the runs.
    """
    files = ledger.files
    for (run, names), (later, others) in itertools.pairwise(versions.items()):
        began_s = files.seconds_since_written(f"runs/{ledger.runs().get(later, 0):08}.{later}.json")
        if all(files.seconds_since_written(name.file) >= began_s for name in names):
            continue
        spread = _spread(ledger, batch, run) | _spread(ledger, batch, later)
        if held_rows(ledger, names, spread) != held_rows(ledger, others, spread):
            raise LedgerMismatch(
                f"the ledger in {ledger.place} has two versions {batch} that contradict "
                "each other: two copies of the checkpoint have used it at once. Restore the "
                "checkpoint and the ledger from copies of one time"
            )


def _spread(ledger: Ledger, batch: int, run: str) -> set[int]:
    """Return the hashes of the keys of a join that the plan of a run spreads."""
    entry = ledger.read(file_names.state_plan_name(batch, run))
    return set() if entry is None else set(entry.arrays.get("spread.hashes", np.empty(0)).tolist())


def _stamp(ledger: Ledger, batch: int, run: str) -> int | None:
    entry = ledger.read(file_names.state_plan_name(batch, run))
    stamp = None if entry is None else entry.about.get("stamp")
    return stamp if type(stamp) is int else None


def versions(ledger: Ledger, batch: int) -> dict[str, list[VersionName]]:
    """Return the versions of one batch by run, without those that may be partly purged."""
    found = ledger.members(STATE, batch)
    named = {run: [*filter(None, map(version_name, names))] for run, names in found.items()}
    if batch == INITIAL:  # one that was not finished, or was replaced, does not count
        named = {run: names for run, names in named.items() if run == initial_run(ledger)}
    return named


def batches(ledger: Ledger) -> list[int]:
    """Return the batches that have a folder, in order; the first may be `INITIAL`."""
    has_initial = bool(ledger.files.folders(batch_folder(STATE, INITIAL)))
    return [*([INITIAL] if has_initial else []), *ledger.listed(STATE)]


def newest(ledger: Ledger) -> Base | None:
    """Return the newest complete version of the last run that has one, for readers outside.

    After a rollback of the checkpoint, earlier runs may have newer batches, with other records.
    """
    seen: dict[int, dict[str, Base]] = {}  # each is listed once: a query may purge it meanwhile
    found = ledger.newest(lambda batch: seen.setdefault(batch, _whole(ledger, batch)))
    if found is None:
        return complete(ledger, INITIAL)
    return seen[found[0]][found[1]]


def complete(ledger: Ledger, batch: int) -> Base | None:
    """Return the version of one batch by the last run that has finished it, or None."""
    found, order = _whole(ledger, batch), ledger.runs()
    return found[max(found, key=lambda run: order.get(run, -1))] if found else None


def _whole(ledger: Ledger, batch: int) -> dict[str, Base]:
    """Return the complete versions of one batch by run."""
    found = versions(ledger, batch).items()
    return {run: Base(batch, run, names[0].workers) for run, names in found if not _missing(names)}


def _missing(names: list[VersionName]) -> list[int]:
    return sorted(set(range(names[0].workers)) - {name.worker for name in names})


def _complete(ledger: Ledger, batch: int, run: str, names: list[VersionName]) -> Base:
    missing = _missing(names)
    if missing:
        workers = ", ".join(map(str, missing[:8])) + (" …" if len(missing) > 8 else "")
        raise StateIncomplete(
            f"the ledger in {ledger.place} has no version {batch} of worker {workers}: "
            f"{_not_evaluated(batch, _IN_PART)}"
        )
    return Base(batch, run, names[0].workers)


def _not_evaluated(batch: int, what: str = "was not evaluated by foreachBatch") -> str:
    advice = "Let foreachBatch evaluate its whole DataFrame"
    return f"micro-batch {batch} {what}. {advice}. {_to_repeat(batch)}"


def _to_repeat(batch: int) -> str:
    return (
        f"To repeat micro-batch {batch}, delete commits/{batch} and all later files of commits and "
        "offsets in the checkpoint"
    )


def _why_none(ledger: Ledger, batch: int) -> str:
    place = ledger.place
    known = [one for one in ledger.listed(STATE) if versions(ledger, one)]  # not a plan alone
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


def initial_run(ledger: Ledger) -> str | None:
    """Return the run that has written the initial states, or None if there are none.

    The file stays when the states themselves are purged. So a query that is set back to its first
    micro-batch does not begin without them.
    """
    data = ledger.files.read(_FILE)
    if data is None:
        return None
    return run_name(read_statement(data, _WHAT, f"{ledger.place}/{_FILE}", str))


def name_initial_run(ledger: Ledger, run: str) -> None:
    """Let the states that `run` has written count, and delete others, which were never read."""
    files = ledger.files
    files.overwrite(_FILE, statement(_WHAT, run))
    for folder in files.folders(batch_folder(STATE, INITIAL)):
        if folder.rpartition("/")[2] != run_name(run):
            files.delete_folder(folder)

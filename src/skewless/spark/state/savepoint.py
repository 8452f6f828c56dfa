"""`savepoint`: a copy of the checkpoint and the ledger of a query that belong together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from skewless.plumbing.arguments import shown
from skewless.spark.ledger.folder import Folder, below, open_folder
from skewless.spark.ledger.folder import shown as address_shown
from skewless.spark.ledger.ledger import Ledger, LedgerMismatch
from skewless.spark.ledger.names import state_plan_name
from skewless.spark.state.versions import version_files
from skewless.spark.state.versions.bases import base_of
from skewless.spark.state.versions.offset_log import Checkpoint, OffsetLog

_CHECKPOINT = "checkpoint"
#: Folders of a checkpoint in which each file belongs to the micro-batch of its name.
_LOGS = ("offsets", "commits")
_METADATA = "metadata"
_TOO_FAST = (
    "The query has done more micro-batches meanwhile than spark.sql.streaming.minBatchesToRetain "
    "keeps. Make a savepoint into another folder, with a larger number or while the query is "
    "stopped"
)


def savepoint(ledger: str | Sequence[str], checkpoint: str, to: str) -> int:
    """Copy the checkpoint and the ledger of a query of `process`; return the last micro-batch.

    The query may run or be stopped, and is not disturbed. The copy is in `to`: the checkpoint in
    the folder `checkpoint`, and beside it the ledger in a folder with its own name. It ends with
    the last micro-batch that is committed, and has the states of that one only. To go on from the
    copy, start the query with both folders of the copy, and with another sink. A sink of files
    keeps its own list of micro-batches, and would leave out those that it has got from the query
    itself.

    Parameters
    ----------
    ledger
        The ledger of the query, or the ledgers of all calls of `process` and its operators in it.
    checkpoint
        The checkpoint of the query.
    to
        A folder that is empty or does not exist, as a path or as a URI.

    Examples
    --------
    >>> folder = ledger.removesuffix("/ledger")
    >>> savepoint(ledger, f"{folder}/checkpoint", f"{folder}/copies/1")
    0
    """
    given = [ledger] if isinstance(ledger, str) or not isinstance(ledger, Sequence) else ledger
    ledgers = [Ledger(one) for one in given]
    names = [re.split(r"[/\\]", one.folder.partition("?")[0])[-1] for one in ledgers]
    if len({*names, _CHECKPOINT}) <= len(names) or not names:
        raise ValueError(
            "ledger must be one folder, or several whose names differ from each other and from "
            f"'checkpoint', not {shown(ledger)}"
        )
    source = _folder(checkpoint, "checkpoint")
    target, files = _folder(to, "to"), open_folder(_folder(to, "to"))
    if files.files("") or files.folders(""):
        raise ValueError(f"to must be an empty folder, and {address_shown(target)} is not empty")
    query = Checkpoint(open_folder(source), address_shown(source))
    last = query.last_commit()
    if last is None:
        raise ValueError(
            f"checkpoint: {query.place} has no committed micro-batch: it is not the checkpoint of "
            "a query, or the first micro-batch has not ended yet"
        )
    for one in ledgers:
        _require_query(one, query)
    needed = [needed_files(one, query, last) for one in ledgers]
    for one, name, wanted in zip(ledgers, names, needed, strict=True):
        _copy(one.files, open_folder(below(target, name)), wanted, one.place)
    _copy_checkpoint(query, open_folder(below(target, _CHECKPOINT)), last)
    return last


def _folder(address: Any, argument: str) -> str:
    try:
        return Ledger(address).folder
    except ValueError as error:  # which speaks of a ledger
        raise ValueError(re.sub("^ledger", argument, str(error))) from None


def _require_query(ledger: Ledger, query: Checkpoint) -> None:
    if "process" not in (ledger.identity() or {}):
        raise LedgerMismatch(f"ledger: {ledger.place} is not the ledger of a query of process")
    if ledger.owner() != query.query():
        raise LedgerMismatch(
            f"the ledger in {ledger.place} belongs to the query {ledger.owner()}, and the "
            f"checkpoint in {query.place} to the query {query.query()}"
        )


def needed_files(ledger: Ledger, offsets: OffsetLog, last: int) -> list[str]:
    """Return the files that a query needs to go on after its micro-batch `last`.

    Raises LedgerMismatch or StateIncomplete where a restart would.
    """
    base = base_of(ledger, last + 1, offsets)
    assert base is not None
    files = ledger.files
    versions = [base.version(worker).file for worker in range(base.workers)]
    deeper = {name for file in versions for name in version_files.read(ledger, file).below}
    own = [state_plan_name(base.batch, base.run), *versions]
    general = [*files.files(""), *files.files("runs"), *files.files("scale")]
    return [*filter(_is_finished, general), *sorted(deeper), *own]


def _copy(files: Folder, to: Folder, names: Sequence[str], place: str) -> None:
    """Copy files of a ledger; raise RuntimeError if the query has deleted one meanwhile."""
    for name in names:
        data = files.read(name)
        if data is not None:
            to.create(name, data)
        elif name.startswith("state/"):
            raise RuntimeError(
                f"{place}/{name} was deleted while the ledger was copied. {_TOO_FAST}"
            )


def _copy_checkpoint(query: Checkpoint, to: Folder, last: int) -> None:
    """Copy the checkpoint without what is later than its micro-batch `last`.

    The file with the id of the query comes last. Without it, the ledger refuses the query.
    """
    for name in _below(query.folder, ""):
        folder, _, number = name.rpartition("/")
        is_later = folder in _LOGS and number.isdigit() and int(number) > last
        data = None if is_later or name == _METADATA else query.folder.read(name)
        if data is not None:  # Spark may have deleted it since: then it is old
            to.create(name, data)
    if any(to.read(f"{log}/{last}") is None for log in _LOGS):
        raise RuntimeError(
            f"micro-batch {last} was deleted from the checkpoint in {query.place} while it was "
            f"copied. {_TOO_FAST}"
        )
    to.create(_METADATA, query.folder.read(_METADATA) or b"")


def _below(folder: Folder, under: str) -> Iterator[str]:
    yield from filter(_is_finished, folder.files(under))
    for inner in folder.folders(under):
        yield from _below(folder, inner)


def _is_finished(name: str) -> bool:
    """Return whether a file is complete; hidden are checksums, too, which Hadoop can do without."""
    return not name.rpartition("/")[2].startswith(".")

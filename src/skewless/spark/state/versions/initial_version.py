"""Which version holds the initial states: a small file names it when all its files are there."""

from __future__ import annotations

from skewless.spark.ledger.ledger import Ledger, read_statement, statement
from skewless.spark.ledger.names import INITIAL, STATE, batch_folder, run_name

_FILE, _WHAT = "initial.json", "initial"


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

"""The ledger: plans and reports as files in one folder, shared by all tasks of a query.

Read `ledger` first: what can be published, written, read and purged. `names` has the names of the
files. `files` turns arrays into bytes and back. `folder` opens a folder on any filesystem;
`local_folder` is one on a disk. `entry_checks` refuses damaged entries, and `state_changes` keeps a
state small.

Two users are built on it: `routing`, with the plans and reports of sources, and keyed state
(`state/versions`), with a plan for each run, and versions that have their worker's report in them.
"""

from skewless.spark.ledger.ledger import Entry, Ledger, LedgerCorrupt, LedgerMismatch, LedgerTooNew

__all__ = ["Entry", "Ledger", "LedgerCorrupt", "LedgerMismatch", "LedgerTooNew"]

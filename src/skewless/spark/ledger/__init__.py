"""The ledger: plans and reports as files in one folder, shared by all tasks of a query.

Read `ledger` first: what can be written and read. `names` has the names of the files. `files` turns
arrays into bytes and back, and `statements` does the same for the few texts. `folder` opens a
folder on any filesystem (`local_folder`, `remote_folder`), and `writing` is what both share.
`entry_checks` refuses damaged entries, and `state_changes` keeps a state small. `claims` is for
queries that route nothing, `newest` is for readers outside, and `old_runs` cleans up.
"""

from skewless.spark.ledger.ledger import (
    Entry,
    Ledger,
    LedgerCorrupt,
    LedgerMismatch,
    LedgerTooNew,
)

__all__ = ["Entry", "Ledger", "LedgerCorrupt", "LedgerMismatch", "LedgerTooNew"]

"""The ledger: plans and reports as files in one folder, shared by all tasks of a query.

Read `ledger` first: what there is to write and to read. `names` says what the files are called,
`files` turns arrays into bytes and back, `statements` does so with the few texts. `folder` opens a
folder on any filesystem (`local_folder`, `remote_folder`). `entry_checks` refuses what no task of
ours can have written, and `state_changes` keeps a state small.
"""

from skewless.spark.ledger.ledger import (
    Entry,
    Ledger,
    LedgerCorrupt,
    LedgerMismatch,
    LedgerTooNew,
)

__all__ = ["Entry", "Ledger", "LedgerCorrupt", "LedgerMismatch", "LedgerTooNew"]

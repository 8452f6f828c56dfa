"""Where the ledger of a stream is: in the given folder, or below the folder of the setting."""

from __future__ import annotations

from typing import Any

from skewless.spark.ledger.ledger import Ledger

#: The setting of the session with a folder in which each query has its own ledger.
LEDGER_SETTING = "spark.skewless.ledger"


def given_ledger(folder: Any) -> Ledger | None:
    """Return the ledger that a user gave, or None; raise ValueError if it cannot be a folder."""
    return None if folder is None else Ledger(folder)


def ledger_of_stream(given: Ledger | None, spark: Any) -> tuple[Ledger | None, bool]:
    """Return the given ledger, else that of the setting, and whether it has one per query."""
    if given is not None:
        return given, False
    root = spark.conf.get(LEDGER_SETTING, None)
    return (None, False) if root is None else (Ledger(str(root)), True)

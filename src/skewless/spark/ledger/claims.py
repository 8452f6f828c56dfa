"""The ledger of a query that routes nothing: it says what the query was begun as, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from skewless.spark.ledger.ledger import Ledger


@dataclass(frozen=True)
class Claim:
    """Keeps a stream from being continued as something else than it was begun as."""

    ledger: Ledger
    per_query: bool  # the ledger has a folder for each query
    identity: dict[str, Any]

    def make(self, query: str | None) -> None:
        """Claim the ledger for this query; raise LedgerMismatch if it is for something else."""
        ledger = self.ledger.below(str(query)) if self.per_query else self.ledger
        ledger.claim(self.identity)
        ledger.bind(str(query))


def require_unclaimed(df: Any, folder: str | None, strategy: str, key: tuple[str, ...]) -> None:
    """Raise LedgerMismatch if the ledger of a stream was begun otherwise.

    This is for a strategy that leaves nothing in a ledger, so none was begun with it.
    """
    claim_of(df, folder, strategy, key, {})


def claim_of(
    df: Any, folder: str | None, strategy: str, key: tuple[str, ...], state: Mapping[str, str]
) -> Claim | None:
    """Return the claim of a stream on its ledger, checked; None for a batch or without a ledger."""
    if not df.isStreaming:
        return None
    told = {"strategy": strategy, "key": ", ".join(key), **state, "skewless": version("skewless")}
    if folder is not None:
        ledger = Ledger(folder)
        ledger.check(told)
        return Claim(ledger, False, told)
    root = df.sparkSession.conf.get("spark.skewless.ledger", None)
    return None if root is None else Claim(Ledger(str(root)), True, told)

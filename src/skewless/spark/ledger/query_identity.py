"""The ledger of a query that routes nothing: it only records how the query began."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from skewless.spark.ledger.ledger import Ledger
from skewless.spark.ledger.locating import ledger_of_stream


@dataclass(frozen=True)
class Claim:
    """Prevents a stream from continuing with another strategy, key or state than it began with."""

    ledger: Ledger
    per_query: bool  # the ledger has a folder for each query
    identity: dict[str, Any]

    def make(self, query: str | None) -> None:
        """Claim the ledger for this query; raise LedgerMismatch if it is for something else."""
        ledger = self.ledger.below(str(query)) if self.per_query else self.ledger
        ledger.claim(self.identity)
        ledger.bind(str(query))


def require_unclaimed(df: Any, given: Ledger | None, strategy: str, key: tuple[str, ...]) -> None:
    """Raise LedgerMismatch if the ledger of a stream was begun by another strategy.

    This is for a strategy that writes no ledger, so no ledger can have begun with it.
    """
    claim_of(df, given, strategy, key, {})


def claim_of(
    df: Any, given: Ledger | None, strategy: str, key: tuple[str, ...], state: Mapping[str, str]
) -> Claim | None:
    """Return the claim of a stream on its ledger, checked; None for a batch or without a ledger."""
    if not df.isStreaming:
        return None
    told = {"strategy": strategy, "key": ", ".join(key), **state, "skewless": version("skewless")}
    if given is not None:
        given.check(told)
    ledger, per_query = ledger_of_stream(given, df.sparkSession)
    return None if ledger is None else Claim(ledger, per_query, told)

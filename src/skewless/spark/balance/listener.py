"""`BalanceListener`: the balance of every micro-batch as it completes, for monitoring."""

from __future__ import annotations

import logging
import math
import os
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from skewless.spark.balance.balance import BatchBalance, read_balance
from skewless.spark.balance.explaining import ledger_of_session
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.routing.worker_steps import first_workers

_LOG = logging.getLogger(__name__)
#: Batches that a listener remembers; a stream has no end.
_REMEMBERED = 1_000


@dataclass(frozen=True)
class BatchProgress:
    """A micro-batch as Spark saw it, and its balance."""

    query: str  # its name, or else its id
    timestamp: str  # when the batch began
    input_rows: int
    rows_per_second: float | None
    batch_seconds: float | None
    balance: BatchBalance

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        own = {name: value for name, value in vars(self).items() if name != "balance"}
        return own | self.balance.as_dict()


class BalanceListener(StreamingQueryListener):
    """Records the balance of every micro-batch when it completes, of one query or of all.

    It never breaks the query: errors are logged, each kind once.

    Parameters
    ----------
    ledger
        The ledger folder of one query: only its batches are recorded. Or the folder of
        `spark.skewless.ledger`: the batches of all queries with a subfolder in it. None: the folder
        of `spark.skewless.ledger` in the active session.

    Examples
    --------
    >>> listener = BalanceListener("ledger")
    >>> spark.streams.addListener(listener)
    >>> listener.history
    []
    >>> spark.streams.removeListener(listener)
    """

    def __init__(self, ledger: str | os.PathLike[str] | None = None) -> None:
        """Check the ledger; batches come from Spark later."""
        self.ledger = _ledger(ledger)
        self._history: deque[BatchProgress] = deque(maxlen=_REMEMBERED)
        self._logged: set[type[BaseException]] = set()
        self._lock = threading.Lock()

    @property
    def history(self) -> list[BatchProgress]:
        """The last 1,000 batches, in the order in which they completed."""
        with self._lock:
            return list(self._history)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Record a completed batch."""
        try:
            batch = self._read(event.progress)
        except Exception as error:
            if type(error) not in self._logged:
                self._logged.add(type(error))
                _LOG.error("cannot read the balance (logged once): %s", error, exc_info=error)
            return
        if batch is not None:
            with self._lock:
                self._history.append(batch)

    def _read(self, progress: Any) -> BatchProgress | None:
        """Return the batch, or None if it belongs to a query that is not recorded."""
        ledger = self.ledger
        if ledger.identity() is None:  # the root: each query has a subfolder
            ledger = ledger.below(str(progress.id))
        n_workers = first_workers(ledger)
        if n_workers is None or ledger.owner() != str(progress.id):
            return None
        seconds = progress.durationMs.get("triggerExecution")
        rate = float(progress.processedRowsPerSecond or 0.0)
        balance = read_balance(ledger, int(progress.batchId), n_workers)
        if balance is None:
            return None
        return BatchProgress(
            query=progress.name or str(progress.id),
            timestamp=str(progress.timestamp),
            input_rows=int(progress.numInputRows or 0),
            rows_per_second=rate if math.isfinite(rate) else None,  # of no rows, or in no time
            batch_seconds=None if seconds is None else seconds / 1000,
            balance=balance,
        )


def _ledger(ledger: str | os.PathLike[str] | Ledger | None) -> Ledger:
    if ledger is not None:
        return ledger if isinstance(ledger, Ledger) else Ledger(ledger)  # type: ignore[arg-type]
    root = ledger_of_session()
    if root is None:
        raise ValueError("ledger: give a folder, or set spark.skewless.ledger in an active session")
    return root

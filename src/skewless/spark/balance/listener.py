"""`BalanceListener`: the balance of every micro-batch as it completes, for monitoring."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from skewless.plumbing.arguments import path_text
from skewless.plumbing.private_files import append_private, replace_file
from skewless.spark.balance.balance import BatchBalance, read_balance
from skewless.spark.balance.explaining import (
    FILE_MODE,
    Metric,
    balance_metrics,
    exposition,
    json_line,
    ledger_of_session,
)
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

    def metrics(self) -> list[Metric]:
        """Return all of it for Prometheus."""
        told = [
            ("skewless_input_rows", "Rows that the batch read.", self.input_rows),
            ("skewless_rows_per_second", "Rows per second of the batch.", self.rows_per_second),
            ("skewless_batch_seconds", "Time that the batch took.", self.batch_seconds),
        ]
        own = [Metric(name, what, (({"query": self.query}, value),)) for name, what, value in told]
        return balance_metrics(self.balance, self.query) + own


@dataclass
class _Totals:
    """Totals of one query since the listener began."""

    query: str
    batches: int = 0
    empty_batches: int = 0
    records: int = 0
    last: tuple[Metric, ...] = ()  # of the last batch that had records

    def add(self, batch: BatchProgress) -> None:
        """Add a batch to the totals; one without records does not become the last one."""
        self.batches += 1
        self.records += batch.balance.records
        self.empty_batches += not batch.balance.records
        self.last = tuple(batch.metrics()) if batch.balance.records else self.last

    def metrics(self) -> list[Metric]:
        """Return the last batch with records, and the totals."""
        told = {
            "batches": "Micro-batches since the listener began.",
            "empty_batches": "Those of them that had no records.",
            "records": "Records since the listener began.",
        }
        samples = {name: (({"query": self.query}, getattr(self, name)),) for name in told}
        totals = [
            Metric(f"skewless_{name}_total", meaning, samples[name], "counter")
            for name, meaning in told.items()
        ]
        return [*self.last, *totals]


class BalanceListener(StreamingQueryListener):
    """Records the balance of every micro-batch when it completes, of one query or of all.

    It never breaks the query: errors are logged, each kind once.

    Parameters
    ----------
    ledger
        The ledger folder of one query: only its batches are recorded. Or the folder of
        `spark.skewless.ledger`: the batches of all queries with a subfolder in it. None: the folder
        of `spark.skewless.ledger` in the active session.
    json_lines
        A file to which one line of JSON per batch is appended. A batch that Spark runs again after
        a crash may appear twice. The file holds the texts of hot keys, so a new file has mode 0600.
    prometheus
        A file that holds the last batch with records of each query in Prometheus' text format, and
        totals since the listener began. Each batch replaces the whole file at once. The textfile
        collector of node_exporter reads it if its name ends with `.prom`. It holds no keys and has
        mode 0644, because the collector runs as another user.

    Examples
    --------
    >>> listener = BalanceListener("ledger", json_lines="balance.jsonl")
    >>> spark.streams.addListener(listener)
    >>> listener.history
    []
    >>> spark.streams.removeListener(listener)
    """

    def __init__(
        self,
        ledger: str | os.PathLike[str] | None = None,
        *,
        json_lines: str | os.PathLike[str] | None = None,
        prometheus: str | os.PathLike[str] | None = None,
    ) -> None:
        """Check the arguments; batches come from Spark later."""
        self.ledger = _ledger(ledger)
        self._json_lines = _file(json_lines, "json_lines")
        self._prometheus = _file(prometheus, "prometheus")
        self._history: deque[BatchProgress] = deque(maxlen=_REMEMBERED)
        self._totals: dict[str, _Totals] = {}
        self._logged: set[tuple[str, type[BaseException]]] = set()
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
        batch = None
        with self._logged_if("read the balance"):
            batch = self._read(event.progress)
        if batch is None:
            return
        with self._lock:
            self._history.append(batch)
            query = str(event.progress.id)
            self._totals.setdefault(query, _Totals(batch.query)).add(batch)
            told = [metric for one in self._totals.values() for metric in one.metrics()]
        with self._logged_if("write JSON lines"):
            if self._json_lines is not None:
                append_private(self._json_lines, json_line(batch.as_dict()))
        with self._logged_if("write for Prometheus"):
            if self._prometheus is not None:
                replace_file(self._prometheus, exposition(told), FILE_MODE)

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

    @contextlib.contextmanager
    def _logged_if(self, what: str) -> Iterator[None]:
        """Log an error once instead of raising it."""
        try:
            yield
        except Exception as error:
            kind = (what, type(error))
            if kind not in self._logged:
                self._logged.add(kind)
                _LOG.error("cannot %s (logged once): %s", what, error, exc_info=error)


def _ledger(ledger: str | os.PathLike[str] | Ledger | None) -> Ledger:
    if ledger is not None:
        return ledger if isinstance(ledger, Ledger) else Ledger(ledger)  # type: ignore[arg-type]
    root = ledger_of_session()
    if root is None:
        raise ValueError("ledger: give a folder, or set spark.skewless.ledger in an active session")
    return root


def _file(path: str | os.PathLike[str] | None, argument: str) -> Path | None:
    if path is None:
        return None
    file = Path(path_text(path, argument, "the path of a file")).absolute()
    if file.is_dir():
        raise ValueError(f"{argument} must be the path of a file, and {str(file)!r} is a folder")
    return file

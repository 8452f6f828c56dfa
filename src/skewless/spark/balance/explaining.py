"""`explain_balance`: how well a query balanced its last micro-batches."""

from __future__ import annotations

import html
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession

from skewless.plumbing.arguments import shown
from skewless.plumbing.private_files import write_private
from skewless.plumbing.text_tables import number, percent, printable, text_table
from skewless.spark.balance.balance import BatchBalance, read_balance
from skewless.spark.balance.prometheus import balance_metrics, exposition
from skewless.spark.ledger.folder import open_folder
from skewless.spark.ledger.folder import shown as address_text
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.ledger.locating import LEDGER_SETTING
from skewless.spark.ledger.newest import newest_batch

_HOT_KEY = {
    "key": pa.string(),
    "records": pa.int64(),
    "share": pa.float64(),
    "workers": pa.int32(),
}
_SCHEMA = pa.schema(
    {
        "batch": pa.int64(),
        "worker": pa.int32(),
        "records": pa.int64(),
        "seconds": pa.float64(),
        "pairs": pa.int64(),
        "imbalance": pa.float64(),
        "replication": pa.float64(),
        "replication_exact": pa.bool_(),
        "keys_split": pa.int64(),
        "hot_keys": pa.list_(pa.struct(_HOT_KEY)),
    }
)
_HEADINGS = (
    "batch",
    "records",
    "busiest worker",
    "imbalance",
    "time imbalance",
    "keys",
    "replicas per key",
    "keys split",
    "heaviest key",
    "its share",
)


def explain_balance(
    query: Any, *, ledger: str | os.PathLike[str] | None = None, spark: SparkSession | None = None
) -> Balance:
    """Read the balance of a query's last micro-batches: records per worker.

    Parameters
    ----------
    query
        A StreamingQuery, or the ledger folder of one, which need not run any more. If it runs, the
        last batch of the folder may be incomplete.
    ledger
        The ledger folder of the query, if `query` is a StreamingQuery. None: its subfolder of
        `spark.skewless.ledger`.
    spark
        The session whose `spark.skewless.ledger` is read. None: the active one.

    Examples
    --------
    >>> print(explain_balance("checkpoints/orders/ledger"))  # doctest: +SKIP
    """
    if spark is not None and not isinstance(spark, SparkSession):
        raise ValueError(f"spark must be a SparkSession, not {shown(spark)}")
    if isinstance(query, str | os.PathLike | Ledger):
        if ledger is not None:
            raise ValueError("ledger: leave it out, because query is a ledger folder already")
        place = query if isinstance(query, Ledger) else Ledger(query)  # type: ignore[arg-type]
        return read_balances(place)
    place = _ledger_of(query, ledger, spark)
    progress = query.lastProgress
    last = None if progress is None else int(progress["batchId"])
    return read_balances(place, query.name or str(query.id), last)


def read_balances(ledger: Ledger, query: str | None = None, last: int | None = None) -> Balance:
    """Return the balance of all batches in the ledger, up to batch `last` if that is given."""
    identity, n_workers = ledger.identity(), ledger.workers()
    if identity is None:
        raise ValueError(
            f"there is no ledger in {address_text(ledger.folder)}: the first batch creates it. "
            "In the folder of spark.skewless.ledger, each query has a subfolder named by its id. "
            "An aggregation that runs as plain Spark (strategy 'plain') writes none"
        )
    if n_workers is None:  # nothing is routed
        return Balance([], query or ledger.owner() or "", identity)
    if last is None:  # newer batches may be those of an abandoned run
        last = newest_batch(open_folder(ledger.folder), ledger.runs())
    batches = [batch for batch in ledger.batches() if last is None or batch <= last]
    found = (read_balance(ledger, batch, n_workers) for batch in batches)
    balances = [balance for balance in found if balance is not None]
    if balances:  # the ledger's identity has the number that the query began with
        identity["workers"] = len(balances[-1].workers)
    return Balance(balances, query or ledger.owner() or "", identity)


@dataclass(frozen=True)
class Balance:
    """The balance of a query, batch by batch; print it or export it."""

    batches: list[BatchBalance]
    query: str = ""  # its name, or else its id
    identity: dict[str, Any] = field(default_factory=dict)  # strategy, workers, key, seed …

    def to_dataframe(self, spark: SparkSession | None = None) -> DataFrame:
        """Return one row per batch and worker; the numbers of the batch are repeated in each."""
        session = spark or SparkSession.getActiveSession()
        if session is None:
            raise ValueError("spark: there is no active session, so give one")
        rows = []
        for batch in self.batches:
            hot = batch.hot_keys
            keys = hot and [{name: getattr(key, name) for name in _HOT_KEY} for key in hot]
            told = (batch.imbalance, batch.replication, batch.replication_exact, batch.keys_split)
            rows += [
                (batch.batch, row.worker, row.records, row.seconds, row.pairs, *told, keys)
                for row in batch.workers
            ]
        named = [dict(zip(_SCHEMA.names, row, strict=True)) for row in rows]
        # As an Arrow table: to convert rows, Spark would start another Python process.
        return session.createDataFrame(pa.Table.from_pylist(named, schema=_SCHEMA))

    def to_json_lines(self) -> str:
        """Return one line of JSON per batch."""
        lines = ({"query": self.query, **batch.as_dict()} for batch in self.batches)
        return "".join(json_line(line) for line in lines)

    def write_json_lines(self, path: str | os.PathLike[str]) -> None:
        """Write one line of JSON per batch to a file of this machine, with mode 0600."""
        write_private(Path(path), self.to_json_lines())

    def to_prometheus(self) -> str:
        """Return the last batch with records in Prometheus' text format, version 0.0.4."""
        told = [batch for batch in self.batches if batch.records] or self.batches
        return exposition(balance_metrics(told[-1], self.query) if told else [])

    def table(self) -> str:
        """Return one line per batch, for people."""
        return text_table(_HEADINGS, [_cells(batch) for batch in self.batches])

    def __str__(self) -> str:
        """Return the table, with what it is about."""
        about = ", ".join(
            f"{name} {self.identity[name]}"
            for name in ("strategy", "workers", "key")
            if name in self.identity
        )
        lines = [f"Balance of {printable(self.query)}: {about}".rstrip(": ")]
        if "strategy" in self.identity and "workers" not in self.identity:
            lines.append("Each source combines its own records: nothing is routed to workers.")
            return "\n".join(lines)
        lines.append(self.table())
        if not all(batch.replication_exact is not False for batch in self.batches):
            lines.append("~ estimated from a sample of the keys")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def json_line(values: dict[str, Any]) -> str:
    """Return one line of JSON."""
    return json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n"


def _ledger_of(
    query: Any, folder: str | os.PathLike[str] | None, spark: SparkSession | None
) -> Ledger:
    if not hasattr(query, "lastProgress") or isinstance(query, Column):
        raise ValueError(f"query must be a StreamingQuery or a ledger folder, not {shown(query)}")
    if folder is None:
        session = spark or SparkSession.getActiveSession()
        root = session and session.conf.get(LEDGER_SETTING, None)
        if not root:
            raise ValueError(
                "ledger: the folder cannot be found from the query: give ledger=, as in route, "
                "aggregate or process, or set spark.skewless.ledger"
            )
        return Ledger(str(root)).below(str(query.id))
    ledger = Ledger(folder)  # type: ignore[arg-type]
    owner = ledger.owner()
    if owner not in (None, str(query.id)):
        raise ValueError(
            f"ledger: {address_text(ledger.folder)} belongs to the query {owner}, not to {query.id}"
        )
    return ledger


def _cells(batch: BatchBalance) -> list[str]:
    busiest = max(batch.workers, key=lambda row: row.records)
    about = "~" if batch.replication_exact is False else ""
    hot = batch.hot_keys[0] if batch.hot_keys else None
    return [
        str(batch.batch),
        number(batch.records),
        str(busiest.worker) if batch.records else "–",
        percent(batch.imbalance),
        percent(batch.seconds_imbalance),
        about + number(batch.keys),
        about + number(batch.replication, 3),
        about + number(batch.keys_split),
        hot.key if hot else "–",
        percent(hot.share if hot else None),
    ]

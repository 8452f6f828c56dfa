"""`explain_balance`: how well a query balanced its last micro-batches."""

from __future__ import annotations

import html
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession

from skewless.aggregations.types import parse_type
from skewless.plumbing.arguments import shown
from skewless.plumbing.text_tables import number, percent, printable, text_table
from skewless.spark.balance.balance import BatchBalance, read_balance
from skewless.spark.ledger.ledger import LEDGER_SETTING, Ledger
from skewless.spark.routing.worker_steps import first_workers

_HOT_KEY = parse_type("struct<key string, records bigint, share double, workers int>")
_NUMBERS = (
    "struct<batch bigint, worker int, records bigint, seconds double, pairs bigint, "
    "imbalance double, replication double, replication_exact boolean, keys_split bigint>"
)
_SCHEMA = pa.schema([*parse_type(_NUMBERS), pa.field("hot_keys", pa.list_(_HOT_KEY))])
#: What the table shows of a batch.
_CELLS: dict[str, Callable[[BatchBalance], str]] = {
    "batch": lambda one: str(one.batch),
    "records": lambda one: number(one.records),
    "busiest worker": lambda one: str(_busiest(one)) if one.records else "–",
    "imbalance": lambda one: percent(one.imbalance),
    "time imbalance": lambda one: percent(one.seconds_imbalance),
    "keys": lambda one: _about(one) + number(one.keys),
    "replicas per key": lambda one: _about(one) + number(one.replication, 3),
    "keys split": lambda one: _about(one) + number(one.keys_split),
    "heaviest key": lambda one: one.hot_keys[0].key if one.hot_keys else "–",
    "its share": lambda one: percent(one.hot_keys[0].share if one.hot_keys else None),
}


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
    >>> explain_balance(ledger).batches[-1].records
    3
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
    identity, n_workers = ledger.identity(), first_workers(ledger)
    if identity is None:
        raise ValueError(
            f"there is no ledger in {ledger.place}: the first batch creates it. "
            "In the folder of spark.skewless.ledger, each query has a subfolder named by its id. "
            "An aggregation that runs as plain Spark (strategy 'plain') writes none"
        )
    if n_workers is None:  # nothing is routed
        return Balance([], query or ledger.owner() or "", identity)
    batches = ledger.batches()
    if last is None:  # newer batches may be those of an abandoned run
        last, _ = ledger.newest() or (None, "")
    kept = (batch for batch in batches if last is None or batch <= last)
    balances = [*filter(None, (read_balance(ledger, batch, n_workers) for batch in kept))]
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
        # A table leaves out what its schema does not name.
        rows = [{**batch.as_dict(), **vars(row)} for batch in self.batches for row in batch.workers]
        # As an Arrow table: to convert rows, Spark would start another Python process.
        return session.createDataFrame(pa.Table.from_pylist(rows, schema=_SCHEMA))

    def __str__(self) -> str:
        """Return one line per batch, with what the table is about."""
        about = ", ".join(
            f"{name} {self.identity[name]}"
            for name in ("strategy", "workers", "key")
            if name in self.identity
        )
        lines = [f"Balance of {printable(self.query)}: {about}".rstrip(": ")]
        if "strategy" in self.identity and "workers" not in self.identity:
            lines.append("Each source combines its own records: nothing is routed to workers.")
            return "\n".join(lines)
        rows = [[cell(batch) for cell in _CELLS.values()] for batch in self.batches]
        lines.append(text_table([*_CELLS], rows))
        if not all(batch.replication_exact is not False for batch in self.batches):
            lines.append("~ estimated from a sample of the keys")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _ledger_of(
    query: Any, folder: str | os.PathLike[str] | None, spark: SparkSession | None
) -> Ledger:
    if not hasattr(query, "lastProgress") or isinstance(query, Column):
        raise ValueError(f"query must be a StreamingQuery or a ledger folder, not {shown(query)}")
    if folder is None:
        root = ledger_of_session(spark)
        if root is None:
            raise ValueError(
                "ledger: the folder cannot be found from the query: give ledger=, as in route, "
                "aggregate or process, or set spark.skewless.ledger"
            )
        return root.below(str(query.id))
    ledger = Ledger(folder)  # type: ignore[arg-type]
    owner = ledger.owner()
    if owner not in (None, str(query.id)):
        raise ValueError(f"ledger: {ledger.place} belongs to the query {owner}, not to {query.id}")
    return ledger


def ledger_of_session(spark: SparkSession | None = None) -> Ledger | None:
    """Return the ledger of `spark.skewless.ledger`, by default in the active session, or None."""
    session = spark or SparkSession.getActiveSession()
    root = session and session.conf.get(LEDGER_SETTING, None)
    return Ledger(str(root)) if root else None


def _busiest(batch: BatchBalance) -> int:
    return max(batch.workers, key=lambda row: row.records).worker


def _about(batch: BatchBalance) -> str:
    return "~" if batch.replication_exact is False else ""

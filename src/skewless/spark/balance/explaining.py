"""`explain_balance`: how well a query balanced its last micro-batches."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession

from skewless.aggregations.types import parse_type
from skewless.plumbing.arguments import shown
from skewless.plumbing.private_files import write_private
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
#: Mode of a file in Prometheus' text format. The collector that reads it runs as another user, and
#: the text holds no keys: hot keys are listed by rank.
FILE_MODE = 0o644
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
        rows = [[cell(batch) for cell in _CELLS.values()] for batch in self.batches]
        return text_table([*_CELLS], rows)

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


@dataclass(frozen=True)
class Metric:
    """A metric: its name, its meaning, and its samples, each with labels and a value."""

    name: str
    meaning: str
    samples: tuple[tuple[dict[str, str], float | None], ...]  # None: not known, left out
    kind: Literal["gauge", "counter"] = "gauge"


def exposition(metrics: Iterable[Metric]) -> str:
    """Return the metrics as Prometheus reads them, those of one name together.

    >>> print(exposition([Metric("n", "How many.", (({"query": 'my "own"'}, 2),))]), end="")
    # HELP n How many.
    # TYPE n gauge
    n{query="my \\"own\\""} 2
    """
    text: dict[str, list[str]] = {}  # by name
    for metric in metrics:
        for labels, value in metric.samples:
            if value is None:
                continue
            meaning = metric.meaning.replace("\\", "\\\\").replace("\n", "\\n")
            about = [f"# HELP {metric.name} {meaning}", f"# TYPE {metric.name} {metric.kind}"]
            pairs = ",".join(f'{name}="{_escaped(label)}"' for name, label in labels.items())
            sample = f"{metric.name}{{{pairs}}} {_value(value)}"
            text.setdefault(metric.name, about).append(sample)
    return "".join(line + "\n" for lines in text.values() for line in lines)


def balance_metrics(balance: BatchBalance, query: str) -> list[Metric]:
    """Return the metrics of one batch.

    Hot keys are listed by rank and without their text: keys come and go, and every new value of a
    label would create a time series that stays.
    """

    def per_worker(name: str, meaning: str, field: str) -> Metric:
        rows = ((str(row.worker), getattr(row, field)) for row in balance.workers)
        samples = tuple(({"query": query, "worker": worker}, value) for worker, value in rows)
        return Metric(f"skewless_{name}", meaning, samples)

    def one(name: str, meaning: str) -> Metric:
        return Metric(f"skewless_{name}", meaning, (({"query": query}, getattr(balance, name)),))

    ranked = enumerate(balance.hot_keys or (), start=1)
    hot = tuple(({"query": query, "rank": str(rank)}, key.share) for rank, key in ranked)
    told = "Share of the records that the heaviest keys have, by rank."
    return [
        one("batch", "The micro-batch that all this is about."),
        per_worker("records", "Records of the worker.", "records"),
        per_worker("worker_seconds", "Time that the worker took.", "seconds"),
        per_worker("pairs", "Distinct keys of the worker.", "pairs"),
        one("imbalance", "(max - mean) / mean of the records."),
        one("seconds_imbalance", "(max - mean) / mean of the workers' time."),
        one("keys", "Distinct keys."),
        one("replication", "Replicas per key."),
        one("keys_split", "Keys on two workers or more."),
        Metric("skewless_hot_key_share", told, hot),
    ]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _value(value: float) -> str:
    if math.isfinite(value):
        return str(int(value)) if value == int(value) else repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"

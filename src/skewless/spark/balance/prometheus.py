"""The balance in Prometheus' text format, version 0.0.4."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from skewless.spark.balance.balance import BatchBalance

#: Mode of a file with this text. The collector that reads it runs as another user, and the text
#: holds no keys: hot keys are listed by rank.
FILE_MODE = 0o644


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
    by_name: dict[str, Metric] = {}
    for one in metrics:
        there = by_name.get(one.name, replace(one, samples=()))
        by_name[one.name] = replace(there, samples=there.samples + one.samples)
    lines = []
    for metric in by_name.values():
        known = [(labels, value) for labels, value in metric.samples if value is not None]
        if known:
            meaning = metric.meaning.replace("\\", "\\\\").replace("\n", "\\n")
            lines += [f"# HELP {metric.name} {meaning}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value in known:
            pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            lines.append(f"{metric.name}{{{pairs}}} {_value(value)}")
    return "".join(line + "\n" for line in lines)


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

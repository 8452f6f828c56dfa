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
    rows = balance.workers
    by_worker = [{"query": query, "worker": str(row.worker)} for row in rows]
    hot = balance.hot_keys or ()
    by_rank = [{"query": query, "rank": str(rank)} for rank in range(1, len(hot) + 1)]

    def per_worker(name: str, meaning: str, values: list[float | None]) -> Metric:
        return Metric(name, meaning, tuple(zip(by_worker, values, strict=True)))

    def one(name: str, meaning: str, value: float | None) -> Metric:
        return Metric(name, meaning, (({"query": query}, value),))

    return [
        one("skewless_batch", "The micro-batch that all this is about.", balance.batch),
        per_worker("skewless_records", "Records of the worker.", [row.records for row in rows]),
        per_worker(
            "skewless_worker_seconds", "Time that the worker took.", [row.seconds for row in rows]
        ),
        per_worker("skewless_pairs", "Distinct keys of the worker.", [row.pairs for row in rows]),
        one("skewless_imbalance", "(max - mean) / mean of the records.", balance.imbalance),
        one(
            "skewless_seconds_imbalance",
            "(max - mean) / mean of the workers' time.",
            balance.seconds_imbalance,
        ),
        one("skewless_keys", "Distinct keys.", balance.keys),
        one("skewless_replication", "Replicas per key.", balance.replication),
        one("skewless_keys_split", "Keys on two workers or more.", balance.keys_split),
        Metric(
            "skewless_hot_key_share",
            "Share of the records that the heaviest keys have, by rank.",
            tuple((labels, key.share) for labels, key in zip(by_rank, hot, strict=True)),
        ),
    ]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _value(value: float) -> str:
    if math.isfinite(value):
        return str(int(value)) if value == int(value) else repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"

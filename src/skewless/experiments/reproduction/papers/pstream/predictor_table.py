"""Recall and precision of all predictors of hot keys as one Markdown table, from raw rows."""

from __future__ import annotations

from collections.abc import Sequence

from skewless.experiments.reproduction.figure import Results
from skewless.experiments.tables import markdown

STREAMS = ("z = 1.0", "z = 1.5", "drift")


def predictor_table(results: Results, *, streams: Sequence[str] = STREAMS) -> str:
    """Return the table of the figure `pstream/predictors`: recall / precision by key.

    A row is a predictor, in the memory of PStream's synopsis, or roomy: with 24 times as much.

    >>> row = {"key_recall": 0.5, "key_precision": 0.25}
    >>> print(predictor_table({"coins, drift": row}, streams=["drift"]))
    | predictor | drift |
    | --- | ---: |
    | coins | 0.50 / 0.25 |
    """
    names = dict.fromkeys(label.rsplit(", ", 1)[0] for label in results)
    return markdown(
        ["predictor", *streams],
        [[name, *(_pair(results, f"{name}, {stream}") for stream in streams)] for name in names],
    )


def _pair(results: Results, label: str) -> str:
    row = results[label]
    return f"{row['key_recall']:.2f} / {row['key_precision']:.2f}"

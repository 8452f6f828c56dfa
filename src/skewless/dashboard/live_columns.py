"""From the history of a query, as plain data, to the columns of the live page. Pure.

The history is a dict: `known`, `query`, `place`, `strategy`, `key`, `workers`, `tolerance`,
`keeps_state`, `routes`, `running`, `ended`, `problem`, and `batches`. A batch has its number as
`batch`, `records`, `loads`, `relative_loads` (1 = fair share), `imbalance`, `seconds_imbalance`,
`cost_imbalance`, `keys`, `replication`, `keys_split`, `seconds`, `moves`, `rescaled`,
`state_bytes`, `state_keys`, and `hot_keys`. None means that it is not known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Record = Mapping[str, Any]

#: Micro-batches of the picture of loads; the lines show all that are remembered.
MOST_COLUMNS = 200
_SERIES = (
    *("records", "imbalance", "seconds_imbalance", "cost_imbalance", "replication", "keys"),
    *("keys_split", "seconds", "moves"),
)


def series(history: Record) -> dict[str, list[float]]:
    """Return one row per micro-batch; NaN where a number is not known.

    A batch without records has no imbalance and no throughput.

    >>> batch = {name: None for name in _SERIES} | {"batch": 7, "records": 8, "seconds": 2.0}
    >>> series({"tolerance": None, "batches": [batch]})["records_per_second"]
    [4.0]
    """
    batches = history["batches"]
    columns: dict[str, list[float]] = {"batch": [float(batch["batch"]) for batch in batches]}
    for name in _SERIES:
        columns[name] = [_number(batch[name]) for batch in batches]
    for name in ("imbalance", "seconds_imbalance", "cost_imbalance", "replication"):
        pairs = zip(columns[name], columns["records"], strict=True)
        columns[name] = [value if records else math.nan for value, records in pairs]
    columns["records_per_second"] = [_rate(batch) for batch in batches]
    columns["tolerance"] = [_number(history["tolerance"])] * len(batches)
    for name in ("state_bytes", "state_keys"):
        each = [batch.get(name) for batch in batches]
        columns[name] = [math.nan if one is None else float(sum(one)) for one in each]
    return columns


def load_map(history: Record) -> dict[str, list[Any]]:
    """Return the picture of loads: a column per micro-batch, a row per worker, 1 = fair share.

    NaN stands where a batch had no records, is not known, or had fewer workers.
    """
    batches = [batch for batch in history["batches"] if batch["relative_loads"]]
    if not batches:
        return {"image": [], "x": [], "y": [], "dw": [], "dh": []}
    last = batches[-1]["batch"]
    first = max(batches[0]["batch"], last - MOST_COLUMNS + 1)
    shown = [batch for batch in batches if batch["batch"] >= first]
    n_workers = max(len(batch["relative_loads"]) for batch in shown)
    image = np.full((n_workers, last - first + 1), np.nan, np.float32)
    for batch in shown:
        loads = batch["relative_loads"]
        if batch["records"]:
            image[: len(loads), batch["batch"] - first] = loads
    height, width = image.shape
    return {"image": [image], "x": [first - 0.5], "y": [-0.5], "dw": [width], "dh": [height]}


def last_loads(history: Record, plain: str, above: str) -> dict[str, list[Any]]:
    """Return a row per worker of the last micro-batch with records.

    `above` is the colour of workers that have more than the tolerance allows, `plain` that of all
    others. Without a tolerance, a worker may have a tenth more than its share.
    """
    batch = last_with_records(history)
    loads = [] if batch is None else batch["relative_loads"]
    tolerance = history["tolerance"]
    most = 1.0 + (0.1 if tolerance is None else tolerance)
    return {
        "worker": list(range(len(loads))),
        "load": list(loads),
        "records": [] if batch is None else list(batch["loads"]),
        "colour": [above if load > most + 1e-9 else plain for load in loads],
    }


def last_state(history: Record) -> dict[str, list[Any]]:
    """Return a row per worker: the bytes and keys that it holds after the last micro-batch."""
    batch = history["batches"][-1] if history["batches"] else {}
    held, keys = batch.get("state_bytes") or [], batch.get("state_keys") or []
    return {"worker": list(range(len(held))), "bytes": list(held), "keys": list(keys)}


def last_with_records(history: Record) -> Record | None:
    """Return the last micro-batch that had records, or None."""
    found: Sequence[Record] = [batch for batch in history["batches"] if batch["records"]]
    return found[-1] if found else None


def _rate(batch: Record) -> float:
    return batch["records"] / batch["seconds"] if batch["seconds"] else math.nan


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)

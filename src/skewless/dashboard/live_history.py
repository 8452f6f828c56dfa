"""From the history of a query, as plain data, to the columns and texts of the live page. Pure.

The history is a dict: `known`, `query`, `place`, `strategy`, `key`, `workers`, `tolerance`,
`keeps_state`, `routes`, `running`, `ended`, `problem`, and `batches`. A batch has its number as
`batch`, `records`, `loads`, `relative_loads` (1 = fair share), `imbalance`, `seconds_imbalance`,
`cost_imbalance`, `keys`, `replication`, `keys_split`, `seconds`, `moves`, `rescaled`,
`state_bytes`, `state_keys`, and `hot_keys`. None means that it is not known. What comes from a
ledger is text, not HTML: all of it is escaped here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

import numpy as np

from skewless.plumbing.text_tables import bytes_text, number, seconds_text

Record = Mapping[str, Any]

#: Micro-batches of the picture of loads; the lines show all that are remembered.
MOST_COLUMNS = 200
_LISTED_WORKERS = 6
_SERIES = (
    *("records", "imbalance", "seconds_imbalance", "cost_imbalance", "replication", "keys"),
    *("seconds", "moves"),
)


def series(history: Record) -> dict[str, list[float]]:
    """Return one row per micro-batch; NaN where a number is not known.

    A batch without records has no imbalance and no throughput.

    >>> batch = {name: None for name in _SERIES} | {"batch": 7, "records": 8, "seconds": 2.0}
    >>> series({"tolerance": None, "batches": [batch]})["records_per_second"]
    [4.0]
    """
    batches = history["batches"]
    columns = {name: [_number(batch[name]) for batch in batches] for name in ("batch", *_SERIES)}
    for name in ("imbalance", "seconds_imbalance", "cost_imbalance", "replication"):
        pairs = zip(columns[name], columns["records"], strict=True)
        columns[name] = [value if records else math.nan for value, records in pairs]
    columns["records_per_second"] = [
        batch["records"] / batch["seconds"] if batch["seconds"] else math.nan for batch in batches
    ]
    columns["tolerance"] = [_number(history["tolerance"])] * len(batches)
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
    return next((batch for batch in reversed(history["batches"]) if batch["records"]), None)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def heading(history: Record) -> str:
    """Return the heading: what runs, and where it is read from."""
    parts = [
        f"strategy {history['strategy']}" if history["strategy"] else "",
        f"{history['workers']} workers" if history["workers"] else "",
        f"key {history['key']}" if history["key"] else "",
        f"query {history['query']}" if history["query"] else "",
    ]
    said = " · ".join(escape(part) for part in parts if part)
    return f"<h1>skewless: live balance</h1><p>{said or escape(history['place'])}</p>"


def status(history: Record) -> str:
    """Return one line about the query."""
    if history["problem"]:
        return _note(f"This cannot be read: {history['problem']}", "bad")
    if not history["known"]:
        return _note("The query has not written anything yet: waiting for its first micro-batch.")
    if not history["routes"]:
        return _note("Each source combines its own records: nothing is routed to workers.")
    if not history["batches"]:
        return _note("The first micro-batch is running.")
    text = f"Last complete micro-batch: {history['batches'][-1]['batch']:,}"
    if history["ended"] is not None:
        ended = datetime.fromtimestamp(history["ended"]).astimezone()
        text += f", at {ended:%Y-%m-%d %H:%M:%S %Z}"
    if history["running"] is not None:
        text += f"; micro-batch {history['running']:,} is not complete"
    return _note(f"{text}.")


def summary(history: Record) -> str:
    """Return the numbers at a glance, those of the last micro-batch with records."""
    batch = last_with_records(history)
    if batch is None:
        return "<div class='tiles'></div>"
    total, seconds = sum(one["records"] for one in history["batches"]), batch["seconds"]
    imbalance, tolerance = batch["imbalance"], history["tolerance"]
    allowed = tolerance is None or imbalance <= tolerance
    tiles = [
        _tile(f"{len(history['batches']):,}", "micro-batches shown"),
        _tile(number(total), "records in them"),
        _tile(number(batch["records"] / seconds if seconds else None), "records per second"),
        _tile(seconds_text(_number(seconds)), "for a micro-batch"),
        _tile(
            f"{imbalance:.3g}",
            "imbalance" if tolerance is None else f"imbalance (≤ {tolerance:.3g})",
            "" if tolerance is None else "good" if allowed else "bad",
        ),
    ]
    if batch["replication"] is not None and not history["keeps_state"]:
        about = "" if batch.get("replication_exact", True) else "≈ "
        tiles.append(_tile(f"{about}{batch['replication']:.3f}", "replicas per key"))
    if history["keeps_state"]:
        n_moves = sum(one["moves"] or 0 for one in history["batches"])
        tiles.append(_tile(number(n_moves), "keys moved"))
        if batch["state_bytes"] is not None:
            n_keys = number(sum(batch["state_keys"] or ()))
            tiles.append(_tile(bytes_text(sum(batch["state_bytes"])), f"state, {n_keys} keys"))
    return f"<div class='tiles'>{''.join(tiles)}</div>"


def hot_keys_text(history: Record) -> str:
    """Return the table of the heaviest keys of the last micro-batch that has them."""
    batch = last_with_records(history)
    keys = [] if batch is None else batch["hot_keys"]
    if not keys:
        return "<p class='note'>No worker has reported its heaviest keys.</p>"
    highest = max(key["share"] for key in keys)
    rows = "".join(_row(key, highest) for key in keys)
    return (
        "<table><thead><tr><th>key</th><th class='number'>records</th><th class='number'>share</th>"
        "<th class='optional'></th><th>workers</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _row(key: Record, highest: float) -> str:
    more = "+" if key["unsure"] else ""
    width = 100 * key["share"] / highest if highest else 0.0
    return (
        f"<tr><td class='key'><bdi>{escape(key['key']) or '(empty)'}</bdi></td>"
        f"<td class='number'>{key['records']:,}{more}</td>"
        f"<td class='number'>{100 * key['share']:.1f} %</td>"
        f"<td class='optional'><span class='bar'><i style='width: {width:.0f}%'></i></span></td>"
        f"<td class='places'>{_places(key['workers'])}</td></tr>"
    )


def _places(workers: Sequence[Sequence[int]]) -> str:
    """Return the workers that have a key, the one with most records first."""
    shown = [f"<b>{int(worker)}</b>" for worker, _ in workers[:_LISTED_WORKERS]]
    more = len(workers) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _tile(value: str, label: str, kind: str = "") -> str:
    return f"<div class='tile {kind}'><b>{escape(value)}</b><span>{escape(label)}</span></div>"


def _note(text: str, kind: str = "") -> str:
    return f"<p class='note {kind}'>{escape(text)}</p>"

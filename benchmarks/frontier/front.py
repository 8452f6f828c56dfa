"""The strategies on the front: records of one cell compared by balance and by replicas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.frontier.cells import SEED, in_order
from benchmarks.records import Row
from skewless import registry

MOST_IMBALANCE = 1e-4  # what cascade has to keep under strong skew
SHORTER_MARK = "†"
BATCH_MARK = "*"


def balance_and_replicas(record: Row) -> tuple[float, float]:
    """Return a cell's imbalance and replicas per key; for real streams, the means of windows."""
    if record["group"] == "real":
        return record["window_imbalance_mean"], record["window_replication_mean"]
    return record["imbalance"], record["replication"]


def dominates(one: Row, other: Row) -> bool:
    """Return whether `one` is nowhere worse than `other`, and better in something."""
    a, b = balance_and_replicas(one), balance_and_replicas(other)
    return a[0] <= b[0] and a[1] <= b[1] and a != b


def front(records: Sequence[Row]) -> list[Row]:
    """Return the records of one cell that no other one dominates, the best balance first."""
    best = [r for r in records if not any(dominates(other, r) for other in records)]
    return sorted(best, key=balance_and_replicas)


def by_cell(
    records: Iterable[Row], groups: Sequence[str] = ("grid", "real")
) -> dict[str, list[Row]]:
    """Return the records by the title of their cell, where all strategies have the same seed."""
    found: dict[str, list[Row]] = {}
    for record in in_order(records):
        if record["group"] in groups and record["seed"] == SEED:
            found.setdefault(title(record), []).append(record)
    return found


def title(record: Row) -> str:
    """Return the name of a record's cell."""
    stream = f"z = {record['z']}" if record["stream"] == "zipf" else record["stream"]
    return f"{stream}, n = {record['workers']}"


def points(records: Iterable[Row], group: str, n_workers: int) -> list[Row]:
    """Build the plot's points, one panel per stream with this many workers, and mark the front."""
    chosen = [r for r in records if r["group"] == group and r["workers"] == n_workers]
    found = []
    for panel, rows in by_cell(chosen, [group]).items():
        best = front(rows)
        for row in rows:
            point = {"panel": panel, "strategy": row["strategy"], "label": marked(row)}
            point |= zip(("imbalance", "replication"), balance_and_replicas(row), strict=True)
            found.append(point | {"on_front": any(row is one for one in best)})
    return found


def budget(record: Row) -> float:
    """Return the most replicas per key that cascade may have under strong skew."""
    return 1.0 + 3.0 * float(record["replication_limit"] - 1.0) + 0.005


def meets_budget(record: Row) -> bool:
    """Return whether both balance and replicas are as good as cascade promises under skew."""
    return bool(record["imbalance"] <= MOST_IMBALANCE and record["replication"] <= budget(record))


def marked(record: Row) -> str:
    """Return the name of a record's strategy, marked where it is not quite comparable."""
    name = str(record["strategy"])
    if registry.make(name).traits.decides == "batch":
        name += BATCH_MARK
    return name + SHORTER_MARK if record["shorter"] else name

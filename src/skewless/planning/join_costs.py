"""What a join takes by Spark's own join, and what by cells: whether cells are worth it.

The seconds are rough. They follow from measured joins: `tests/planning/test_join_costs.py` fits
them to the records of the benchmarks, and holds what is chosen against what was faster there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.planning.packing import buckets_of
from skewless.planning.pairs import WITHOUT_PAIRS, PairCounts, Placed, loads_by_hash

#: Seconds to make a pair; to shuffle a row, sort it and read it; and to find the cell of a row.
PAIR, ROW, CELL = 0.1e-6, 1.1e-6, 0.2e-6
#: What cells take longer than Spark's own join whatever the rows are: the driver plans more, and a
#: job sends the grids to all tasks.
CELLS = 0.4
#: Of the bytes of a row, those that are left of a row of a hot key: in a block of them all, the key
#: and much else is compressed away.
_ALIKE = 0.35
#: In which joins Spark may split the left side, and the right side.
_SPLIT = (("inner", "left", "semi", "anti"), ("inner", "right"))


class Splits(NamedTuple):
    """How Spark's adaptive execution splits skewed partitions of a side, in rows."""

    least: float  # that a partition has, and
    factor: float  # times the median
    piece: float  # of a part


def seconds_by_hash(
    counts: PairCounts,
    rows: tuple[float, float],
    n_tasks: int,
    n_slots: int,
    how: str,
    splits: tuple[Splits, Splits] | None,
) -> float:
    """Return what Spark's own join takes; without `splits`, it does not split partitions."""
    homes = buckets_of(counts.hashes, n_tasks)
    of_tasks, parts = np.zeros((2, n_tasks)), np.ones((2, n_tasks))
    for side, listed in enumerate((counts.left, counts.right)):
        light = max(rows[side] - float(listed.sum()), 0.0) / n_tasks
        hot = np.bincount(homes, listed, n_tasks)
        of_tasks[side] = light + hot
        if splits is not None and how in _SPLIT[side]:
            sizes, (least, factor, piece) = light + _ALIKE * hot, splits[side]
            median = float(np.median(sizes))
            is_skewed = sizes > max(least, factor * median)
            parts[side] = np.where(is_skewed, np.ceil(sizes / max(piece, median, 1.0)), 1.0)
    # Measured: of two sides that are both skewed a little, Spark splits one.
    parts = np.where(parts == parts.max(axis=0), parts, 1.0)
    parts[1] = np.where(parts[0] > 1, 1.0, parts[1])
    tasks = ROW * (of_tasks / parts).sum(axis=0)
    if how not in WITHOUT_PAIRS:
        tasks += PAIR * loads_by_hash(counts, n_tasks) / parts.prod(axis=0)
    return max(float(tasks.max()), float(tasks @ parts.prod(axis=0)) / n_slots)


def seconds_by_cells(
    counts: PairCounts, rows: tuple[float, float], n_slots: int, how: str, placed: Placed
) -> float:
    """Return what the join takes by these cells, after the keys have been counted."""
    moved = sum(rows)
    for place, n_rows, n_columns, _ in placed.grids:
        moved += float(counts.left[place] * (n_columns - 1) + counts.right[place] * (n_rows - 1))
    tasks = PAIR * placed.loads + (ROW + CELL) * moved / placed.loads.size
    if how in WITHOUT_PAIRS:
        tasks = (ROW + CELL) * placed.loads
    return CELLS + max(float(tasks.max()), float(tasks.sum()) / n_slots)

"""What a join takes by Spark's own join, and what by cells: whether cells are worth it.

The seconds are rough. They follow from measured joins: `tests/planning/test_join_costs.py` fits
them to the records of the benchmarks, and holds what is chosen against what was faster there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import Floats
from skewless.planning.packing import buckets_of
from skewless.planning.pairs import WITHOUT_PAIRS, PairCounts, Placed, loads_by_hash

#: Seconds to make a pair; to shuffle a row, sort it and read it; and to find the cell of a row.
PAIR, ROW, CELL = 0.1e-6, 1.1e-6, 0.2e-6
#: What cells take longer than Spark's own join whatever the rows are: the driver plans more, and a
#: job sends the grids to all tasks.
CELLS = 0.4
#: Of the bytes of a row, those that are left of a row of a hot key: in a block of them all, the key
#: and much else is compressed away.
_ALIKE = 0.5
#: Which sides Spark may split.
_SPLIT = {
    **{"inner": (True, True), "right": (False, True), "full": (False, False)},
    **dict.fromkeys(("left", "semi", "anti"), (True, False)),
}


class Splits(NamedTuple):
    """How Spark's adaptive execution splits skewed partitions, by the rows of one side."""

    least: float  # rows of a partition that may be skewed
    factor: float  # and in parts of the median
    piece: float  # rows of a part of it


class Join(NamedTuple):
    """A join whose keys are counted."""

    counts: PairCounts
    rows: tuple[float, float]  # of the left side and the right side
    n_tasks: int
    n_slots: int  # tasks that run at a time
    how: str


def seconds_by_hash(join: Join, splits: tuple[Splits, Splits] | None) -> float:
    """Return what Spark's own join takes; without `splits`, it does not split partitions."""
    n = join.n_tasks
    homes = buckets_of(join.counts.hashes, n)
    rows, parts = [], []
    for side, total in enumerate(join.rows):
        listed = (join.counts.left, join.counts.right)[side]
        light = max(total - float(listed.sum()), 0.0) / n
        hot = np.bincount(homes, listed, n).astype(np.float64)
        rows.append(light + hot)
        can_be_split = splits is not None and _SPLIT[join.how][side]
        sizes = light + _ALIKE * hot
        parts.append(_parts(sizes, splits[side]) if splits and can_be_split else np.ones(n))
    # Measured: of two sides that are both skewed by a little, Spark splits one.
    is_first = parts[0] >= parts[1]
    parts = [np.where(is_first, parts[0], 1.0), np.where(is_first, 1.0, parts[1])]
    tasks = ROW * (rows[0] / parts[0] + rows[1] / parts[1])
    if join.how not in WITHOUT_PAIRS:
        tasks += PAIR * loads_by_hash(join.counts, n) / (parts[0] * parts[1])
    return max(float(tasks.max()), float(tasks @ (parts[0] * parts[1])) / join.n_slots)


def _parts(sizes: Floats, splits: Splits) -> Floats:
    """Return into how many parts Spark splits each partition of a side."""
    least = max(splits.least, splits.factor * float(np.median(sizes)))
    skewed = sizes > least
    piece = max(splits.piece, float(sizes[~skewed].mean()), 1.0)
    found: Floats = np.where(skewed, np.ceil(sizes / piece), 1.0)
    return found


def seconds_by_cells(join: Join, placed: Placed) -> float:
    """Return what the join takes by these cells, after the keys have been counted."""
    moved = float(sum(join.rows))
    for place, rows, columns, _ in placed.grids:
        moved += float(join.counts.left[place]) * (columns - 1)
        moved += float(join.counts.right[place]) * (rows - 1)
    if join.how in WITHOUT_PAIRS:
        tasks = (ROW + CELL) * placed.loads
    else:
        tasks = PAIR * placed.loads + (ROW + CELL) * moved / join.n_tasks
    return CELLS + max(float(tasks.max()), float(tasks.sum()) / join.n_slots)

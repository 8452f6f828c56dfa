"""The seconds of a join follow from the records of the benchmarks, and choose what was faster."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from benchmarks.streams import N_HOT
from planning.test_pairs import counted
from skewless.planning import join_costs
from skewless.planning.join_costs import Splits, seconds_by_cells, seconds_by_hash
from skewless.planning.pairs import KEPT, place_cells

RECORDS = Path(__file__).parents[2] / "benchmarks/results/on_spark/ways.jsonl"
#: Rows of the right side for each left row, as `benchmarks.on_spark.ways.joining` makes them.
RIGHT_ROWS = {"their orders": 0.25, "": 0.5}


def measured() -> list[tuple[float, float, float, float, float]]:
    """Return tasks, rows and pairs of each join, its seconds on one slot, and those of cells."""
    cells = defaultdict(lambda: defaultdict(list))
    for row in map(json.loads, RECORDS.read_text(encoding="utf-8").splitlines()):
        if row["family"] == "join":
            right = next(rows for text, rows in RIGHT_ROWS.items() if text in row["says"])
            place = (row["slots"], row["records"] * (1 + right), row["pairs"], row["says"])
            cells[place][row["way"]].append(row["alone"])
    return [
        (*place[:3], median(ways["Spark's join"]), median(ways["join"]))
        for place, ways in cells.items()
    ]


def test_the_costs_of_pairs_and_rows_follow_from_measured_joins() -> None:
    """By least squares of relative errors; a factor of 2 for what the machine and rows are."""
    table = np.array(measured())
    work, seconds = table[:, :3], table[:, 3]
    fitted = np.linalg.lstsq(work / seconds[:, None], np.ones(seconds.size), rcond=None)[0]
    assert 0.5 <= fitted[1] / join_costs.ROW <= 2
    assert 0.5 <= fitted[2] / join_costs.PAIR <= 2


def joined(
    left: np.ndarray, right: np.ndarray, slots: int, how: str = "inner"
) -> tuple[float, float]:
    """Return the seconds by hash and by cells; Spark's sizes are as in the benchmark."""
    counts = counted(left, right, slots, how, seed=1)
    rows = (float(left.sum()), float(right.sum()))
    mean = sum(rows) / slots
    splits = (Splits(mean, 5.0, mean), Splits(mean, 5.0, mean))
    placed = place_cells(counts, slots, how)
    plain = seconds_by_hash(counts, rows, slots, slots, how, splits)
    return plain, seconds_by_cells(counts, rows, slots, how, placed)


def zipf(n_rows: int, n_keys: int, z: float) -> np.ndarray:
    weights = np.arange(1, n_keys + 1) ** -z
    return n_rows * weights / weights.sum()


#: Of measured cells: Zipf's exponent, slots, rows of the left side, and whether cells were faster.
#: A tie is left out.
MEASURED = [
    (0.6, 16, 60_000, 10_000, False),
    (0.6, 64, 60_000, 10_000, False),
    (0.9, 64, 60_000, 10_000, True),
    (1.2, 16, 60_000, 10_000, True),
    (1.2, 64, 60_000, 10_000, True),
    (1.2, 32, 60_000, 2_000, True),
]


@pytest.mark.parametrize(("z", "slots", "rows", "n_keys", "faster"), MEASURED)
def test_what_was_faster_is_chosen(
    z: float, slots: int, rows: int, n_keys: int, faster: bool
) -> None:
    plain, cells = joined(zipf(rows, n_keys, z), zipf(rows // 2, n_keys, z), slots)
    assert (cells <= 0.8 * plain) == faster


@pytest.mark.parametrize("matches", [1, 4])
def test_keys_that_are_hot_on_one_side_are_left_to_spark(matches: int) -> None:
    """As line items with their orders, or with the suppliers of the part."""
    left = np.full(1_000_000, 3.0)
    left[:N_HOT] = 1e6 / N_HOT
    plain, cells = joined(left, np.full(left.size, float(matches)), 32)
    assert cells > 0.8 * plain


def test_spark_splits_what_it_may_and_no_more() -> None:
    """A full join is never split, and so takes longest; pairs do not count where none are made."""
    left = np.full(10_000, 3.0)
    left[0] = 1e6
    right = np.full(left.size, 4.0)
    plain = {how: joined(left, right, 32, how)[0] for how in KEPT}
    assert plain["left"] == plain["inner"]
    assert plain["full"] == plain["right"] > 2 * plain["left"]
    assert plain["semi"] == plain["anti"] < plain["left"]


def test_few_slots_gain_little_from_even_tasks() -> None:
    """One slot does all the work, whatever task it is in."""
    counts = counted(zipf(60_000, 2_000, 1.2), zipf(30_000, 2_000, 1.2), 32, "inner", seed=1)
    placed = place_cells(counts, 32, "inner")

    def both(slots: int) -> tuple[float, float]:
        rows = (60_000.0, 30_000.0)
        plain = seconds_by_hash(counts, rows, 32, slots, "inner", None)
        return plain, seconds_by_cells(counts, rows, slots, "inner", placed)

    plain, cells = both(1)
    assert cells > plain
    plain, cells = both(32)
    assert cells < 0.2 * plain

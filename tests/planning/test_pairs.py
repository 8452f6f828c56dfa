"""Cells of hot keys: each pair meets once, and workers have even numbers of pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.planning.join_plan import JoinPlan, PlannedCells
from skewless.planning.packing import buckets_of, first_homes
from skewless.planning.pairs import (
    KEPT,
    PairCounts,
    heaviest_share,
    load_of,
    n_listed,
    place_cells,
)


def counted(left: np.ndarray, right: np.ndarray, n: int, how: str, seed: int) -> PairCounts:
    """Return what counting all keys gives, with random hashes."""
    hashes = np.random.default_rng(seed).integers(0, 1 << 64, left.size, np.uint64)
    loads = load_of(left, right, how)
    n_buckets = first_homes(n).size
    buckets = np.bincount(buckets_of(hashes, n_buckets), loads, n_buckets)
    top = np.argsort(-loads, kind="stable")[: n_listed(n)]
    return PairCounts(hashes[top], left[top], right[top], buckets)


def zipf(n_rows: int, n_keys: int, z: float, seed: int) -> np.ndarray:
    weights = np.arange(1, n_keys + 1) ** -z
    rng = np.random.default_rng(seed)
    return rng.multinomial(n_rows, weights / weights.sum()).astype(np.float64)


def pairs_of_workers(left: np.ndarray, right: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Return the pairs of each worker: of light keys at home, and of cells."""
    hashes = np.random.default_rng(seed).integers(0, 1 << 64, left.size, np.uint64)
    counts = counted(left, right, n, "inner", seed)
    places = {int(key): place for place, key in enumerate(hashes)}
    pairs = left * right
    placed = place_cells(counts, n, "inner")
    homes = placed.homes[buckets_of(hashes, placed.homes.size)]
    workers = np.bincount(homes, pairs, n)
    for grid in placed.grids:
        key = int(counts.hashes[grid.place])
        mine = pairs[places[key]]
        workers[homes[places[key]]] -= mine
        rng = np.random.default_rng([seed, grid.place])  # rows choose their part by chance
        rows = rng.multinomial(int(left[places[key]]), [1 / grid.rows] * grid.rows)
        columns = rng.multinomial(int(right[places[key]]), [1 / grid.columns] * grid.columns)
        np.add.at(workers, list(grid.workers), np.outer(rows, columns).ravel())
    assert workers.sum() == pytest.approx(pairs.sum())
    return workers


@pytest.mark.parametrize("n_workers", [16, 64])
@pytest.mark.parametrize("z", [0.6, 0.9, 1.2])
@pytest.mark.parametrize("n_keys", [1_000, 100_000])
def test_no_worker_has_many_more_pairs_than_the_mean(n_workers: int, z: float, n_keys: int) -> None:
    left, right = zipf(500_000, n_keys, z, 1), zipf(1_000_000, n_keys, z, 2)
    found = pairs_of_workers(left, right, n_workers, seed=3)
    assert found.max() <= 1.3 * found.mean()


COUNTS = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)), min_size=1, max_size=30
)


@given(COUNTS, st.integers(1, 40), st.sampled_from(list(KEPT)))
def test_grids_fit_their_keys_and_loads_are_conserved(
    rows: list[tuple[int, int]], n_workers: int, how: str
) -> None:
    left, right = np.array(rows, np.float64).T
    counts = counted(left, right, n_workers, how, seed=0)
    placed = place_cells(counts, n_workers, how)
    assert len({grid.place for grid in placed.grids}) == len(placed.grids)
    added = 0.0
    for place, r, c, workers in placed.grids:
        assert len(workers) == r * c
        assert all(0 <= worker < n_workers for worker in workers)
        of_key = counts.left[place : place + 1], counts.right[place : place + 1]
        added += r * c * load_of(of_key[0] / r, of_key[1] / c, how)[0] - load_of(*of_key, how)[0]
        assert r == 1 or r <= of_key[0][0]
        assert c == 1 or c <= of_key[1][0]
        assert c == 1 or how not in ("semi", "anti")
    assert placed.loads.sum() == pytest.approx(counts.buckets.sum() + added)


def test_even_keys_are_not_hot() -> None:
    even = np.full(100_000, 5.0)
    counts = counted(even, even, 16, "inner", seed=0)
    assert heaviest_share(counts, 16, "inner") < 0.01
    nothing = PairCounts(
        np.zeros(0, np.uint64), np.zeros(0), np.zeros(0), np.zeros(first_homes(4).size)
    )
    assert heaviest_share(nothing, 4, "inner") == 0
    assert place_cells(nothing, 4, "inner").grids == ()


def plan(**other: object) -> JoinPlan:
    keys = (PlannedCells(-5, 100, 200, 2, 1, (0, 1), "a"), PlannedCells(7, 3, 4, 1, 1, (2,)))
    given = {
        **{"on": ("k",), "how": "left", "workers": 3, "seed": 9, "untrusted_keys": False},
        **{"left_rows": 110, "right_rows": 210, "pairs": 20_012, "is_sampled": False},
        **{"keys": keys, "homes": (0, 1, 2), "loads": (10.0, 11.0, 9.0)},
    }
    return JoinPlan(**{**given, **other})  # type: ignore[arg-type]


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = str(tmp_path / "plan.json")
    plan().save(file)
    assert JoinPlan.load(file) == plan()


def test_a_plan_tells_what_it_does() -> None:
    assert str(plan()).splitlines() == [
        "left join on k, 3 workers; counted: 110 × 210 rows, 20,012 pairs",
        "divided keys: 1, with 2 cells; whole keys that move: 1; imbalance 0.10",
        "  a: 100 × 200 rows, 2 × 1 cells",
    ]
    assert str(plan(reason="no key is hot")).endswith("Spark's own join: no key is hot")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"seconds": null', '"seconds": [1.0]', "plan: seconds"),
        ('"seconds": null', '"seconds": [1.0, NaN]', "plan: seconds"),
        ('"workers": 3', '"workers": 1', "is not a plan.*a worker must be 0 … 0"),
        ('"version": 1', '"version": 3', "version 3"),
        ('"how": "left"', '"how": "outer"', "how must be one of inner"),
        ('"rows": 2', '"rows": 3', "has not 2 workers"),
        ('"hash": -5', '"hash": 7', "a key is listed twice"),
        ('"seed": 9', '"seed": -9', "seed must be"),
        ('"pairs": 20012, ', "", "missing"),
        ('"loads": [10.0', '"loads": ["ten"', "a load cannot be"),
        ('"loads": [10.0', '"loads": [NaN', "a load cannot be"),
        ("join plan", "key plan", "no skewless join plan"),
        ("{", "", "is not JSON"),
    ],
)
def test_a_damaged_plan_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "plan.json"
    plan().save(str(file))
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(ValueError, match=message):
        JoinPlan.load(str(file))

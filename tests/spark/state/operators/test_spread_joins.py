"""Hot keys of a join are found and spread while it runs, and each pair is met exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lanes import slow_except
from skewless.keys import hash_keys
from skewless.spark import scale_to
from skewless.spark.ledger import LedgerMismatch
from skewless.spark.routing.seeds import hash_seed
from skewless.spark.state.operators.join_processor import SIDE, TIME
from skewless.spark.state.planning import spread_keys
from skewless.spark.state.planning.controller import Observed, parted
from skewless.spark.state.planning.spread_keys import (
    SpreadKeys,
    SpreadRule,
    all_parts,
    next_spread,
    part_hashes,
)
from spark.ledger.entries import read_workers
from spark.state.chains import random_moves
from spark.state.operators.plain_operators import joined
from spark.state.operators.stepping import SECOND, Record, drifting, rows_of
from spark.state.operators.test_against_plain_python import both_sides, join_processor
from spark.state.without_spark import SEED, Query

PART = "part"
WITHIN, DELAY = 6 * SECOND, 15 * SECOND
MAY = {"inner": (True, True), "left": (True, False), "right": (False, True), "full": (False, False)}


class SpreadQuery(Query):
    """A join whose records go to the parts that the plan says, as the JVM sends them."""

    def __init__(
        self, folder: Path, how: str, *, least: int, within: int = WITHIN, **settings: Any
    ) -> None:
        schema = with_part(both_sides([], [])).schema
        named: dict[str, Any] = {"key": ("k", PART), "time": TIME, "delay": DELAY}
        settings = {"strategy": random_moves(), **named, **settings}
        super().__init__(folder, join_processor(within, how), schema, **settings)
        rule = SpreadRule(MAY[how], within, least=least)
        controller = replace(self.tasks.controller, spread=rule)
        self.tasks = replace(self.tasks, controller=controller)
        self.spread: Any = None

    def plan(self, batch: int, table: pa.Table | None = None) -> Any:
        plan = super().plan(batch, table)
        self.spread = plan.spread
        return plan

    def sent(self, table: pa.Table, n_sources: int = 3) -> pa.Table:
        seeds = pa.array(np.full(table.num_rows, hash_seed(SEED)), pa.int64())
        first = hash_keys(table.column("k"), table.column(PART), seeds)
        signs = dict(zip(self.spread.hashes.tolist(), self.spread.parts.tolist(), strict=True))
        rows, parts = [], []
        for row, (hashed, is_right, key) in enumerate(
            zip(first.tolist(), table[SIDE].to_pylist(), table["k"].to_pylist(), strict=True)
        ):
            n_parts = signs.get(hashed, 1)
            if key is None:
                mine = [row % 5]
            elif is_right == (n_parts > 0):
                mine = list(range(abs(n_parts)))
            else:
                mine = [row * 7 % abs(n_parts)]
            rows += [row] * len(mine)
            parts += mine
        at = pa.array(rows, pa.int64())
        place = table.column_names.index(PART)
        taken = table.take(at).set_column(place, PART, pa.array(parts, pa.int32()))
        self.hashes = lambda _: part_hashes(first[np.array(rows, np.int64)], parts)
        return super().sent(taken, n_sources)


def with_part(table: pa.Table) -> pa.Table:
    return table.append_column(PART, pa.array(np.zeros(table.num_rows), pa.int32()))


def crowded(n_batches: int, seed: int) -> list[tuple[list[Record], list[Record]]]:
    """Return two sides on which one key after the other is hot, the left or the right one."""
    rng = np.random.default_rng(seed)
    found = []
    for batch, others in enumerate(drifting(n_batches, seed, n_records=20)):
        hot, more = f"hot-{batch // 6 % 2}", 40 if batch % 6 < 4 else 0
        sides: list[list[Record]] = [others[::2], others[1::2]]
        for side, n in ((0, more), (1, 3)) if batch % 12 < 6 else ((0, 3), (1, more)):
            times = (batch * 10 + rng.integers(-12, 10, n)) * SECOND
            sides[side] += [(hot, int(rng.integers(100)), int(time)) for time in times]
        found.append((sides[0], sides[1]))
    return found


def run(
    folder: Path, how: str, batches: Sequence[Any], least: int = 8, **settings: Any
) -> tuple[list[Any], list[dict[int, int]]]:
    """Return the rows of each micro-batch, and the keys that were spread in it."""
    found, spread = [], []
    for batch, sides in enumerate(batches):
        if batch % 7 == 4:
            scale_to(str(folder), 3 + batch % 4)
        workers = 4 if batch == 0 else None
        query = SpreadQuery(
            folder, how, least=least, run=f"run-{batch // 5}", workers=workers, **settings
        )
        found.append(rows_of(query.step(batch, with_part(both_sides(*sides)))))
        keys = query.spread
        spread.append(dict(zip(keys.hashes.tolist(), keys.parts.tolist(), strict=True)))
    return found, spread


@pytest.mark.parametrize("how", slow_except(["inner"], MAY))
def test_each_pair_is_met_once_while_keys_become_spread_and_are_let_go(
    tmp_path: Path, how: str
) -> None:
    batches = crowded(26, 3)
    found, spread = run(tmp_path, how, batches)
    assert found == joined(batches, WITHIN, DELAY, how)
    assert sum(map(len, found)) > 500
    signs = {np.sign(parts) for keys in spread for parts in keys.values()}
    assert signs == {"inner": {1, -1}, "left": {1}, "right": {-1}, "full": set()}[how]
    if how == "inner":
        # Keys come and go, and come again.
        assert len({hashed for keys in spread for hashed in keys}) == 2
        assert not spread[-1] or len(spread[-1]) < 2
        assert max(abs(p) for keys in spread for p in keys.values()) > 2


@pytest.mark.slow
def test_a_key_that_becomes_hotter_gets_more_parts(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)

    def side(n_hot: int, batch: int) -> list[Record]:
        names = ["hot"] * n_hot + [f"k{i}" for i in range(30)]
        return [
            (name, int(rng.integers(100)), (batch * 2 + int(rng.integers(4))) * SECOND)
            for name in names
        ]

    batches = [(side(16, b), side(1, b)) for b in range(3)]
    batches += [(side(150, b), side(1, b)) for b in range(3, 8)]
    found = []
    sizes = []
    for batch, sides in enumerate(batches):
        query = SpreadQuery(tmp_path, "left", least=5, workers=6)
        found.append(rows_of(query.step(batch, with_part(both_sides(*sides)))))
        sizes.append(query.spread.parts.tolist())
    assert found == joined(batches, WITHIN, DELAY, "left")
    assert sizes[0] == []
    assert 2 <= sizes[1][0] < sizes[-1][0]
    assert all(len(parts) == 1 for parts in sizes[1:])


def test_a_key_of_few_records_and_very_many_pairs_is_spread(tmp_path: Path) -> None:
    """Each micro-batch has 12 of its records among 80 others, and they meet all that are held."""

    def side(batch: int, n_hot: int) -> list[Record]:
        names = ["sale"] * n_hot + [f"k{i}-{batch}" for i in range(40)]
        return [(name, row, (batch * 500 + row) * SECOND // 1000) for row, name in enumerate(names)]

    batches = [(side(b, 12), side(b, 6)) for b in range(9)]
    found, spread = [], []
    for batch, sides in enumerate(batches):
        query = SpreadQuery(tmp_path, "left", least=100, workers=4)
        found.append(rows_of(query.step(batch, with_part(both_sides(*sides)))))
        spread.append(query.spread.parts.tolist())
    assert found == joined(batches, WITHIN, DELAY, "left")
    # Its 18 records are fewer than a worker's share of 24; its pairs are 72, then 216, and so on.
    assert spread[:3] == [[], [], [3]]
    assert spread[-1] == [3]
    work = [report.about["work"] for report in read_workers(query.ledger, 8).values()]
    assert sum(work) > 12 * 6 * 9
    assert sum(done > 100 for done in work) > 1  # its parts are on several workers


def test_a_replayed_micro_batch_decides_the_same(tmp_path: Path) -> None:
    batches = crowded(8, 5)
    found, _ = run(tmp_path, "inner", batches)
    # Another run repeats the last three, as after a restart from an older checkpoint.
    for batch in range(5, 8):
        again = SpreadQuery(tmp_path, "inner", least=8, run="again", workers=None)
        assert rows_of(again.step(batch, with_part(both_sides(*batches[batch])))) == found[batch]


def test_another_how_is_refused_while_its_records_would_be_in_several_parts(
    tmp_path: Path,
) -> None:
    batches = crowded(4, 3)
    _, spread = run(tmp_path, "inner", batches)
    assert any(parts > 0 for parts in spread[-1].values())
    later = SpreadQuery(tmp_path, "right", least=8, run="later", workers=None)
    with pytest.raises(LedgerMismatch, match=r"how: records of the left side are spread for 1 hot"):
        later.plan(4)


def test_another_how_is_taken_when_nothing_is_held_of_spread_keys() -> None:
    spread = SpreadKeys(
        np.array([7], np.uint64),
        np.array([4], np.int32),
        np.array([4], np.int32),
        np.array([10], np.int64),
    )
    right = SpreadRule(MAY["right"], 5)
    with pytest.raises(LedgerMismatch, match="how: records of the left side"):
        next_spread(right, spread, [], 4, 14, 20)
    assert not next_spread(right, spread, [], 4, 15, 20).hashes.size


def test_no_more_keys_are_spread_than_the_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread_keys, "MOST_KEYS", 1)
    hot = [(f"hot-{i % 3}", i, i * SECOND // 100) for i in range(120)]
    for number in range(4):
        query = SpreadQuery(tmp_path, "left", least=8, run=f"run-{number // 3}", workers=8)
        query.step(number, with_part(both_sides(hot, [])))
        assert query.spread.hashes.size == (number > 0)


def test_hot_keys_are_told_by_the_users_columns(tmp_path: Path) -> None:
    hot = [("big, sale", i, i * SECOND // 100) for i in range(120)]
    texts = []
    for number in range(2):
        query = SpreadQuery(tmp_path, "left", least=8, workers=2)
        query.step(number, with_part(both_sides(hot, [])))
        reports = read_workers(query.ledger, number).values()
        texts.append(sorted(text for report in reports for text, _, _ in report.about["top"]))
    assert texts == [["big, sale"], ["big, sale", "big, sale (part 1)"]]


@pytest.mark.parametrize(
    ("first", "second", "parts"),
    [
        (0, 0, 1),
        (999, 0, 1),  # too few to be worth while
        (4_000, 0, 1),  # not more than a worker's share
        (8_000, 0, 4),
        (80_000, 0, 10),  # as many as there are workers
        (8_000, 4_000, 3),  # those that are repeated are no more than those that are spread
        (0, 8_000, -4),
        (6_000, 6_000, 2),
    ],
)
def test_parts_by_records(first: int, second: int, parts: int) -> None:
    assert SpreadRule((True, True), 1).parts_of(first, second, 4_000.0, 10) == parts
    assert SpreadRule((False, False), 1).parts_of(first, second, 4_000.0, 10) == 1


@pytest.mark.parametrize(
    ("first", "second", "work", "parts"),
    [
        (40, 10, 999, 1),  # too few to be worth while
        (40, 10, 4_000, 1),  # not more than a worker's share
        (40, 10, 8_000, 4),
        (40, 10, 80_000, 10),  # as many as there are workers
        (12, 10, 80_000, 3),  # a part has at least four records
        (10, 12, 80_000, -3),
        (3_000, 3_000, 5_000, 1),  # it has more records than pairs
    ],
)
def test_parts_by_pairs(first: int, second: int, work: int, parts: int) -> None:
    rule = SpreadRule((True, True), 1)
    assert rule.parts_of(first, second, 6_000.0, 10, work, 4_000.0) == parts


def test_loads_are_known_by_part_before_a_part_has_records() -> None:
    hot = all_parts(7, 4)
    spread = SpreadKeys(hot[:1], np.array([4], np.int32), np.array([1], np.int32), np.zeros(1))
    # One of the parts is known from a time when the key was spread before.
    hashes = np.sort(np.array([hot[0], hot[2], 5, 9], np.uint64))
    loads = np.where(hashes == hot[0], 80.0, np.where(hashes == hot[2], 0.0, 10.0))
    found = parted(Observed(hashes, loads, loads + 1, np.ones(2)), spread)
    assert (np.diff(found.hashes.astype(object)) > 0).all()
    assert dict(zip(found.hashes.tolist(), found.loads.tolist(), strict=True)) == {
        5: 10.0,
        9: 10.0,
        **dict.fromkeys(hot.tolist(), 20.0),
    }
    assert found.sizes[np.searchsorted(found.hashes, hot[:1])] == 81.0
    whole = replace(spread, before=spread.parts)
    assert parted(found, whole) is found

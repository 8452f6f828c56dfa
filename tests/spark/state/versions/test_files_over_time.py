"""Files over many batches: what is purged and what is not, other schemas, order, few moves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skewless.spark import KeyProcessor, scale_to
from skewless.spark.ledger import Ledger, LedgerMismatch
from skewless.spark.ledger.ledger import KEPT_RUNS
from skewless.spark.routing.requests import latest_request, purge_requests
from skewless.spark.state.process import _n_kept
from skewless.spark.state.versions import bases
from skewless.spark.state.versions.held_state import HeldState
from skewless.spark.state.versions.version_files import stack
from spark.state.chains import SCHEMA, chain, chained, in_order, random_moves, records
from spark.state.without_spark import Query


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return in_order(tuple(row.values()) for row in table.to_pylist())


def keys_of(query: Query, batch: int) -> dict[int, set[Any]]:
    """Return the keys that each worker holds after a batch."""
    layout, base = query.tasks.work.layout, bases.complete(query.ledger, batch)
    assert base is not None
    found = {}
    for worker in range(base.workers):
        held = HeldState(layout, stack(query.ledger, base.version(worker).file))
        table = held.rows_of()
        found[worker] = set(table.column("key.k").to_pylist())
    return found


def test_old_versions_are_purged_and_what_others_build_on_is_not(tmp_path: Path) -> None:
    kept, n_batches = 3, 40
    tables = [records(60, seed) for seed in range(n_batches)]
    # One key that is never touched again: its row lies in the oldest file until that is merged.
    tables[0] = pa.concat_tables([tables[0], tables[0].slice(0, 1).set_column(0, "k", [["old"]])])
    query = Query(tmp_path, chain(), SCHEMA, strategy=random_moves(), workers=2, kept=kept)
    found = [rows(query.step(batch, table)) for batch, table in enumerate(tables)]
    assert found == chained(tables)
    plans = sorted((tmp_path / "state").rglob("plan.arrow"))
    assert len(plans) == kept + 2
    assert not (tmp_path / "workers").exists()  # reports are in the versions
    files = list((tmp_path / "state").rglob("worker-*"))
    assert len(files) < 2 * (kept + 2) + 20
    # Any of the kept batches can still be repeated, with the same results.
    for batch in range(n_batches - kept, n_batches):
        again = Query(tmp_path, chain(), SCHEMA, strategy=random_moves(), run=f"again-{batch}")
        assert rows(again.step(batch, tables[batch])) == chained(tables)[batch]
    assert "old" in set().union(*keys_of(query, n_batches - 1).values())


@pytest.mark.parametrize("batch", [2, 4, 6, 8])
def test_a_batch_whose_base_was_purged_is_told_so(tmp_path: Path, batch: int) -> None:
    """Files that newer versions build on are left of it, which is no reason to speak of a part."""
    tables = [records(60, seed) for seed in range(14)]
    query = Query(tmp_path, chain(), SCHEMA, strategy=random_moves(), workers=2, kept=2)
    for number, table in enumerate(tables):
        query.step(number, table)
    again = Query(tmp_path, chain(), SCHEMA, strategy=random_moves(), run="again")
    with pytest.raises(LedgerMismatch, match=rf"needs version {batch - 1}, which is older and was"):
        again.step(batch, tables[batch])


def test_few_files_make_up_a_state(tmp_path: Path) -> None:
    query = Query(tmp_path, chain(), SCHEMA, workers=1)
    depths = []
    for batch in range(40):
        query.step(batch, records(20, batch))
        base = bases.complete(query.ledger, batch)
        assert base is not None
        depths.append(len(stack(query.ledger, base.version(0).file)))
    assert max(depths) <= 5


@pytest.mark.parametrize(("before", "after"), [(4, 5), (5, 4), (1, 3), (3, 1)])
def test_only_keys_that_must_move_do(tmp_path: Path, before: int, after: int) -> None:
    query = Query(tmp_path, chain(), SCHEMA, strategy="mixed", workers=before)
    table = pa.table(
        {"k": [str(i) for i in range(2000)], "v": [1] * 2000, "ts": [0] * 2000}, schema=SCHEMA
    )
    query.step(0, table)
    scale_to(str(tmp_path), after)
    query.step(1, table.slice(0, 0))
    then, now = keys_of(query, 0), keys_of(query, 1)
    assert sorted(now) == list(range(after))
    assert sorted(set().union(*now.values())) == sorted(table["k"].to_pylist())
    assert sum(map(len, now.values())) == 2000
    moved = {key: worker for worker, keys in now.items() for key in keys - then.get(worker, set())}
    if after > before:
        assert all(worker >= before for worker in moved.values())
        # 128 points per worker: a share deviates by about 1/√128.
        assert len(moved) == pytest.approx(2000 * (after - before) / after, rel=0.35)
    else:
        left = set().union(*(then[worker] for worker in range(after, before)))
        assert set(moved) == left


def test_a_number_of_workers_above_the_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no plan yet"):
        scale_to(str(tmp_path), 2)
    Query(tmp_path, chain(), SCHEMA, most=4).step(0, records(5, 0))
    with pytest.raises(ValueError, match=r"n must be at most 4, which is max_workers"):
        scale_to(str(tmp_path), 5)
    with pytest.raises(ValueError, match="n must be"):
        scale_to(str(tmp_path), 0)


def test_requests_are_purged_but_for_the_last_one(tmp_path: Path) -> None:
    query = Query(tmp_path, chain(), SCHEMA, most=4)
    query.step(0, records(5, 0))
    for n in (1, 4, 3):
        scale_to(str(tmp_path), n)
    purge_requests(query.ledger)
    assert len(list((tmp_path / "scale").iterdir())) == 1
    assert latest_request(query.ledger) == (2, 3)
    query.step(1, records(5, 1))
    assert sorted(keys_of(query, 1)) == [0, 1, 2]
    scale_to(str(tmp_path), 2)
    assert latest_request(query.ledger) == (3, 2)


def test_runs_that_left_nothing_are_purged(tmp_path: Path) -> None:
    """Not the last ones, not those of which files are needed, and none that may be at work."""
    n_runs = KEPT_RUNS + 10
    tables = [records(60, seed) for seed in range(n_runs)]

    def stepped(batch: int) -> Any:
        query = Query(tmp_path, chain(), SCHEMA, run=f"run-{batch}", workers=2, kept=2)
        return rows(query.step(batch, tables[batch]))

    found = [stepped(batch) for batch in range(n_runs - 1)]
    assert len(list((tmp_path / "runs").iterdir())) == n_runs - 1
    for path in (tmp_path / "runs").iterdir():
        os.utime(path, (0, 0))
    found.append(stepped(n_runs - 1))
    assert found == chained(tables)
    left = {path.name.split(".")[1] for path in (tmp_path / "runs").iterdir()}
    needed = {path.name for path in (tmp_path / "state").glob("*/*")}
    assert needed <= left
    assert left == needed | {f"run-{batch}" for batch in range(n_runs - KEPT_RUNS, n_runs)}
    numbers = Ledger(str(tmp_path)).runs()
    assert numbers[f"run-{n_runs - 1}"] == n_runs - 1


def counting(schema: str) -> Any:
    """Return a processor whose states have these fields, all of them counting."""

    class Counting(KeyProcessor):
        state_schema = schema
        result_schema = "k string, text string"

        def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
            names = [part.split()[0] for part in schema.split(",")]
            new = {name: 1 + ((state or {}).get(name) or 0) for name in names}
            return [{"text": repr(state)}], new

    return Counting()


def test_fields_can_be_added_to_a_state(tmp_path: Path) -> None:
    one = records(30, 0)
    Query(tmp_path, counting("n bigint"), SCHEMA).step(0, one)
    later = Query(tmp_path, counting("n bigint, m bigint"), SCHEMA, run="later")
    texts = {row["text"] for row in later.step(1, one).to_pylist()}
    assert texts == {"{'n': 1, 'm': None}"}
    texts = {row["text"] for row in later.step(2, one).to_pylist()}
    assert texts == {"{'n': 2, 'm': 1}"}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("m bigint", r"holds states with the field n bigint, which state_schema lacks"),
        ("n double", r"holds states in which n is bigint, not double"),
    ],
)
def test_another_state_schema_is_refused(tmp_path: Path, schema: str, message: str) -> None:
    Query(tmp_path, counting("n bigint"), SCHEMA).step(0, records(5, 0))
    with pytest.raises(LedgerMismatch, match=message):
        Query(tmp_path, counting(schema), SCHEMA, run="later").step(1, records(5, 1))


def test_records_are_in_the_order_that_was_asked_for(tmp_path: Path) -> None:
    class Lists(KeyProcessor):
        state_schema = "n bigint"
        result_schema = "values array<bigint>"

        def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
            return [{"values": [record["v"] for record in records]}], None

    values = [3, None, 1, 2, 1]
    table = pa.table({"k": ["a"] * 5, "v": values, "ts": [5, 1, 4, 3, 2]}, schema=SCHEMA)
    for order, wanted in (
        ((), values),
        (("v",), [None, 1, 1, 2, 3]),
        (("ts",), [None, 1, 2, 1, 3]),
    ):
        query = Query(tmp_path / str(order), Lists(), SCHEMA, order=order)
        assert query.step(0, table).to_pylist() == [{"values": wanted}]


def test_a_setting_of_spark_is_refused_by_its_name() -> None:
    """Spark checks it when it is set in a session, and not wherever else it may come from."""
    name = "spark.sql.streaming.minBatchesToRetain"
    assert _n_kept({name: "7"}) == 7
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        _n_kept({name: "0"})

"""The tasks of `process` without Spark: versions, moves, other workers, replays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skewless.spark import scale_to
from skewless.spark.ledger.ledger import Ledger, LedgerCorrupt
from skewless.spark.routing import requests
from skewless.spark.state.versions.version_files import states_of
from skewless.strategies import Mixed
from spark.ledger.entries import read_workers
from spark.state.chains import SCHEMA, chain, chained, in_order, random_moves, records
from spark.state.without_spark import Query, files_of


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return in_order(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("strategy", ["hash", "mixed", "min-table", "min-mig", "readj"])
def test_every_strategy_equals_plain_python(tmp_path: Path, strategy: str) -> None:
    tables = [records(400, seed) for seed in range(8)]
    query = Query(tmp_path, chain(), SCHEMA, strategy=strategy, workers=3)
    found = [rows(query.step(batch, table)) for batch, table in enumerate(tables)]
    assert found == chained(tables)


def test_random_moves_and_other_workers_change_nothing(tmp_path: Path) -> None:
    tables = [records(200 if seed % 4 else 0, seed) for seed in range(24)]
    found = []
    n_moved = 0
    for batch, table in enumerate(tables):
        if batch % 5 == 3:
            scale_to(str(tmp_path), 1 + batch % 7)
        # Every sixth micro-batch is that of a new run.
        query = Query(
            tmp_path,
            chain(),
            SCHEMA,
            strategy=random_moves(),
            workers=None,
            run=f"run-{batch // 6}",
        )
        found.append(rows(query.step(batch, table)))
        n_moved += query.plan(batch).moving.hashes.size
    assert found == chained(tables)
    assert n_moved > 100


def test_moves_change_neither_the_keys_nor_the_bytes_that_all_workers_report(
    tmp_path: Path,
) -> None:
    settings = {"moving": {"strategy": random_moves(), "workers": 3}, "one": {"workers": 1}}
    queries = {
        name: Query(tmp_path / name, chain(), SCHEMA, **chosen) for name, chosen in settings.items()
    }
    sums: dict[str, list[Any]] = {name: [] for name in settings}
    for batch in range(6):
        if batch == 3:
            scale_to(str(tmp_path / "moving"), 4)
        for name, query in queries.items():
            query.step(batch, records(60, batch))
            reports = [report.about for report in read_workers(query.ledger, batch).values()]
            sums[name].append([sum(one[what] for one in reports) for what in ("held", "bytes")])
    assert sums["moving"] == sums["one"]
    assert sums["one"][-1][0] > 30


def states_below(folder: Path) -> dict[str, bytes]:
    """Return plans and states by name, without the reports, which have seconds in them."""
    return {name: states_of(data) for name, data in files_of(folder).items()}


def test_a_repeated_batch_writes_the_same_bytes(tmp_path: Path) -> None:
    tables = [records(300, seed) for seed in range(6)]
    query = Query(tmp_path / "one", chain(), SCHEMA, strategy=random_moves(), workers=3)
    for batch, table in enumerate(tables):
        query.step(batch, table)
    before = states_below(tmp_path / "one" / "state" / "00000005" / "run-0")
    again = Query(
        tmp_path / "one", chain(), SCHEMA, strategy=random_moves(), workers=3, run="run-1"
    )
    found = rows(again.step(5, tables[5]))
    assert found == chained(tables)[5]
    assert states_below(tmp_path / "one" / "state" / "00000005" / "run-1") == before
    assert len(before) == 4


def test_a_restart_may_bring_another_strategy(tmp_path: Path) -> None:
    tables = [records(200, seed) for seed in range(8)]
    strategies = [random_moves(), "hash", "mixed", Mixed(tolerance=0.5), "min-mig", "hash"]
    found, are_whole = [], []
    for batch, table in enumerate(tables):
        strategy = strategies[max(0, batch - 2)]
        query = Query(tmp_path, chain(), SCHEMA, strategy=strategy, workers=3, run=f"run-{batch}")
        found.append(rows(query.step(batch, table)))
        are_whole.append(query.plan(batch).moving.whole)
    assert found == chained(tables)
    # Strategies with a routing table go on with each other's.
    assert are_whole == [False, False, False, True, True, False, False, True]


def test_a_request_that_is_listed_and_gone_ends_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "_PAUSE_S", 0.0)
    ledger = Ledger(str(tmp_path))
    (tmp_path / requests.request_name(3)).parent.mkdir(parents=True)
    (tmp_path / requests.request_name(3)).symlink_to(tmp_path / "nothing")
    with pytest.raises(LedgerCorrupt, match=requests.request_name(3)):
        requests.latest_request(ledger)

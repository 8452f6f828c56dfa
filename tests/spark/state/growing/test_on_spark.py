"""Lists that grow on Spark: restarts, reading, copies and initial states; and ledgers of a root."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from skewless.spark import process, read_state, savepoint
from skewless.spark.ledger import Ledger
from skewless.spark.state.versions import bases
from spark.state.chains import DDL, chain, chained, in_order, random_moves, records, rows_of
from spark.state.growing import gathering
from spark.state.growing.gathering import Gathering, gathered
from spark.streams import configured, read_stream, run, write_file

pytestmark = pytest.mark.spark
TABLES = [records(60, seed) for seed in range(6)]


@pytest.fixture(autouse=True)
def _workers_need_not_import_tests() -> Any:
    cloudpickle.register_pickle_by_value(gathering)
    yield
    cloudpickle.unregister_pickle_by_value(gathering)


def plain(value: Any) -> Any:
    """Return a row of results as plain Python has it."""
    return tuple(list(one) if isinstance(one, list) else one for one in value)


def states_of(df: Any) -> dict[Any, Any]:
    found = {}
    for row in df.collect():
        lists = {"items": [item["v"] for item in row["items"]], "odd": list(row["odd"])}
        found[row["k"]] = {"n": row["n"], **lists}
    return found


def ran(spark: Any, folder: Path, tables: list[pa.Table], first: int = 0, **given: Any) -> Any:
    """Return the results of micro-batches with these tables, a file each."""
    for number, table in enumerate(tables):
        write_file(folder / "in", first + number, table)
    stream = read_stream(spark, folder / "in", DDL)
    ledger = str(folder / "ledger")
    df = process(stream, "k", Gathering(), order_by="ts", ledger=ledger, **given)
    found = run(df, "append", folder / "checkpoint")
    return [in_order(map(plain, found[number])) for number in sorted(found)]


def test_lists_go_on_in_a_copy_and_as_initial_states(spark: Any, tmp_path: Path) -> None:
    wanted, _ = gathered(TABLES)
    _, held = gathered(TABLES[:4])
    moves = {"strategy": random_moves()}
    assert ran(spark, tmp_path / "a", TABLES[:2], workers=3, **moves) == wanted[:2]
    assert ran(spark, tmp_path / "a", TABLES[2:4], first=2, workers=2, **moves) == wanted[2:4]
    ledger, checkpoint = (str(tmp_path / "a" / name) for name in ("ledger", "checkpoint"))
    states = read_state(spark, ledger)
    assert states_of(states) == held
    longest = max(held, key=lambda key: len(held[key]["items"]))
    found = read_state(spark, ledger, keys=[longest, "no such key"])
    assert states_of(found) == {longest: held[longest]}
    sizes = {row["k"]: row["bytes"] for row in states.collect()}
    assert sizes[longest] > 20 * len(held[longest]["items"]) > 20
    assert savepoint(ledger, checkpoint, str(tmp_path / "copy")) == 3
    assert states_of(read_state(spark, str(tmp_path / "copy" / "ledger"))) == held
    known = states.drop("worker", "version", "bytes")
    results = ran(spark, tmp_path / "b", TABLES[4:], workers=2, initial_state=known, **moves)
    assert results == wanted[4:]


def test_a_batch_is_one_micro_batch(spark: Any) -> None:
    df = spark.createDataFrame(pa.concat_tables(TABLES[:2]).combine_chunks())
    found = process(df, "k", Gathering(), order_by="ts", workers=2).collect()
    (wanted,), _ = gathered([pa.concat_tables(TABLES[:2])])
    assert in_order(map(plain, found)) == wanted


def test_a_query_below_a_root_keeps_its_workers(spark: Any, tmp_path: Path) -> None:
    settings = {
        "spark.skewless.ledger": str(tmp_path / "root"),
        "spark.skewless.checkpoint": str(tmp_path / "checkpoint"),
        "spark.sql.shuffle.partitions": "2",
    }
    (tmp_path / "root" / "damaged").mkdir(parents=True)
    (tmp_path / "root" / "damaged" / "identity.json").write_text("{")
    found = {}
    with configured(spark, settings):
        for number, workers in enumerate((5, None, None)):
            write_file(tmp_path / "in", number, TABLES[number])
            stream = read_stream(spark, tmp_path / "in", DDL)
            df = process(stream, "k", chain(), order_by="ts", workers=workers)
            found |= run(df, "append", tmp_path / "checkpoint")
            (folder,) = [path for path in (tmp_path / "root").iterdir() if path.name != "damaged"]
            last = bases.newest(Ledger(str(folder)))
            assert last is not None
            assert last.workers == 5
        assert rows_of(found) == chained(TABLES[:3])
        with pytest.raises(ValueError, match="workers must be"):
            process(stream, "k", chain(), workers=0)

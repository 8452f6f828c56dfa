"""Foreign keys drawn anew: by Zipf's law, of rows that exist, the same for all strategies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="the applications need pyspark")

from command_line import lend_session, refused, run
from skewless.apps.tpch.generating import TpchStream
from skewless.apps.tpch.skewing import Skew, ranked_keys
from skewless.apps.tpch.tables import find_tables

PLACES = (np.arange(100_000) + 0.5) / 100_000


def test_shares_follow_zipfs_law_in_each_group() -> None:
    keys = np.arange(100, 160)
    ranked = ranked_keys(keys, keys % 2, 0.8, np.random.default_rng(0))
    for group in (0, 1):
        drawn = ranked.draw(np.full(PLACES.size, 100 + group), PLACES)
        assert (drawn % 2 == group).all()
        shares = np.sort(np.bincount(drawn - 100, minlength=60))[::-1][:30] / PLACES.size
        weights = np.arange(1, 31) ** -0.8
        np.testing.assert_allclose(shares, weights / weights.sum(), atol=2 / PLACES.size)


def test_unknown_keys_stay_and_groups_may_be_uneven() -> None:
    ranked = ranked_keys(np.array([5, 7, 9]), np.array([1, 1, 2]), 1.0, np.random.default_rng(0))
    assert ranked.draw(np.array([4, 6, 10]), np.array([0.0, 0.5, 0.9])).tolist() == [4, 6, 10]
    assert ranked.draw(np.array([9, 9]), np.array([0.0, 0.999])).tolist() == [9, 9]
    assert set(ranked.draw(np.array([5, 5]), np.array([0.0, 0.999])).tolist()) == {5, 7}
    nothing = ranked_keys(
        np.array([], np.int64), np.array([], np.int64), 1.0, np.random.default_rng(0)
    )
    assert nothing.draw(np.array([3]), np.array([0.5])).tolist() == [3]


def test_what_is_out_of_range_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="z"):
        Skew(-1.0)
    TpchStream(n_items=96).write(tmp_path / "tables")
    command = ["run", "tpch-q5", "--input", str(tmp_path / "tables")]
    assert "--skew must be at least 0 and at most 10, not 11" in refused(*command, "--skew", "11")
    assert "--skew must be" in refused(*command, "--skew", "nan")
    going_on = ["--stream", "--checkpoint", str(tmp_path / "c")]
    assert "cannot be combined with --checkpoint" in refused(*command, "--skew", "0.8", *going_on)


@pytest.mark.slow
@pytest.mark.spark
def test_even_tables_become_skewed_and_all_strategies_agree(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    TpchStream(n_items=4_000, z=0.0).write(tmp_path / "tables")
    before = find_tables(str(tmp_path / "tables")).read(spark)
    after = Skew(0.8, seed=1).of(before, before.orders)
    assert hottest(after.orders, "o_custkey") > 2 * hottest(before.orders, "o_custkey")
    assert hottest(after.lineitem, "l_orderkey") > 2 * hottest(before.lineitem, "l_orderkey")
    known = {row.o_orderkey: row.o_orderdate.minute // 5 for row in before.orders.collect()}
    assert after.orders.count() == 1_000
    assert after.lineitem.schema == before.lineitem.schema
    items = after.lineitem.collect()
    assert {row.l_orderkey for row in items} <= set(known)
    assert all(abs(row.l_shipdate.minute // 5 - known[row.l_orderkey]) <= 1 for row in items)

    lend_session(spark, monkeypatch)
    command = ["run", "tpch-q5", "--input", str(tmp_path / "tables"), "--workers", "2"]
    command += ["--skew", "0.8", "--seed", "1", "--json"]
    found = {}
    for strategy in ("hash", "mixed"):
        told = run(*command, "--strategy", strategy)
        assert told.exit_code == 0, told.output
        found[strategy] = sorted(told.stdout.splitlines())
    assert found["hash"] == found["mixed"] != []


def hottest(rows: Any, column: str) -> int:
    return max(row["count"] for row in rows.groupBy(column).count().collect())

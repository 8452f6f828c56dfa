"""Slots lie where Spark's hash partitioning puts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed")
from skewless.spark.slots import check_slots, even_slots, unhashed

INTS = [0, 1, -1, 42, 2**31 - 1, -(2**31), *range(-50, 1000, 37)]


@pytest.mark.spark
def test_unhashing_undoes_sparks_hash(spark: Any) -> None:
    values = ", ".join(f"({value})" for value in INTS)
    found = spark.sql(f"SELECT i, hash(CAST(i AS INT)) AS h FROM VALUES {values} AS t(i)").collect()
    assert unhashed([row["h"] for row in found]).tolist() == [row["i"] for row in found]


@given(st.lists(st.integers(-(2**31), 2**31 - 1), unique=True))
def test_every_hash_is_that_of_another_int(hashes: list[int]) -> None:
    found = unhashed(hashes)
    assert np.unique(found).size == len(hashes)
    assert (found == found.astype(np.int32)).all()


@given(st.integers(1, 60))
def test_more_even_slots_begin_with_the_same_ones(n_slots: int) -> None:
    found = even_slots(n_slots)
    assert np.unique(found).size == n_slots
    assert found.tolist() == even_slots(n_slots + 1).tolist()[:-1]


@pytest.mark.spark
@pytest.mark.parametrize("n_partitions", [1, 2, 7, 64, 200])
def test_even_slots_lie_evenly_on_any_number_of_partitions(spark: Any, n_partitions: int) -> None:
    values = ", ".join(f"({slot})" for slot in even_slots(60).tolist())
    places = f"SELECT pmod(hash(CAST(i AS INT)), {n_partitions}) AS p FROM VALUES {values} AS t(i)"
    found = [row["p"] for row in spark.sql(places).collect()]
    assert found == [number % n_partitions for number in range(60)]


@pytest.mark.spark
def test_spark_is_asked_where_slots_lie(spark: Any) -> None:
    check_slots(spark, even_slots(64))
    with pytest.raises(RuntimeError, match=r"places slot -?\d+ on partition 63, not on 0"):
        check_slots(spark, np.roll(even_slots(64), 1))


@pytest.mark.spark
def test_slots_of_windows_lie_about_evenly(spark: Any) -> None:
    """A window of a slot goes by Spark's hash of both; its share of the slots is never far off."""
    values = ", ".join(f"({slot})" for slot in even_slots(64).tolist())
    placed = spark.sql(
        "SELECT start, p, pmod(hash(CAST(slot AS INT), start * 60000000), p) AS place, count(*) "
        f"AS n FROM VALUES {values} AS slots(slot), (SELECT id + 28333333 AS start FROM range(20)),"
        " (VALUES (2), (4), (8)) AS partitions(p) GROUP BY ALL"
    ).collect()
    for p, most in ((2, 1.5), (4, 2.0), (8, 2.5)):
        loads = {(row["start"], row["place"]): row["n"] for row in placed if row["p"] == p}
        worst = max(loads.values()) / (64 / p)
        assert len(loads) == 20 * p
        assert worst < most
        together = [sum(n for (_, q), n in loads.items() if q == place) for place in range(p)]
        assert max(together) / (20 * 64 / p) < 1.2

"""Slots lie where Spark's hash partitioning puts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed")
from skewless.spark.slots import check_slots, murmur3, slots

INTS = [0, 1, -1, 42, 2**31 - 1, -(2**31), *range(-50, 1000, 37)]


@pytest.mark.spark
def test_murmur3_is_sparks_hash(spark: Any) -> None:
    values = ", ".join(f"({value})" for value in INTS)
    found = spark.sql(f"SELECT i, hash(CAST(i AS INT)) AS h FROM VALUES {values} AS t(i)").collect()
    assert {row["i"]: row["h"] for row in found} == {value: murmur3(value) for value in INTS}


@given(st.integers(1, 60), st.integers(1, 20))
def test_slot_i_lies_on_partition_i_modulo_their_number(n_slots: int, n_partitions: int) -> None:
    found = slots(n_slots, n_partitions)
    assert np.unique(found).size == n_slots
    places = [murmur3(slot) % n_partitions for slot in found.tolist()]
    assert places == [number % n_partitions for number in range(n_slots)]


@pytest.mark.parametrize(("n_slots", "n_partitions"), [(0, 1), (1, 0), (-1, 2)])
def test_no_slots_or_partitions_are_refused(n_slots: int, n_partitions: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1: {n_slots}, {n_partitions}"):
        slots(n_slots, n_partitions)


@pytest.mark.spark
def test_spark_is_asked_where_slots_lie(spark: Any) -> None:
    found = slots(12, 5)
    check_slots(spark, found, 5)
    with pytest.raises(RuntimeError, match=r"places slot \d+ on partition 1, not on 0"):
        check_slots(spark, np.roll(found, 1), 5)

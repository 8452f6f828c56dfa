"""Ready aggregations of nothing, of nulls and of types that they refuse."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from aggregations.oracle import codes_of
from skewless import aggregations as aggs
from skewless.aggregations import Aggregation

READY = [
    aggs.count(),
    aggs.count("x"),
    aggs.sum("x"),
    aggs.mean("x"),
    aggs.min("x"),
    aggs.max("x"),
    aggs.variance("x"),
    aggs.stddev("x"),
    aggs.vwap("x", "y"),
    aggs.distinct("x"),
    aggs.collect("x"),
    aggs.collect_set("x"),
]
NOTHING = {"Count": 0, "Distinct": 0, "Collect": [], "CollectSet": []}


@pytest.mark.parametrize(
    "kind", [pa.float64(), pa.int32(), pa.decimal128(8, 2), pa.null()], ids=str
)
@pytest.mark.parametrize("aggregation", READY, ids=repr)
def test_a_group_without_values_gives_what_spark_gives(
    aggregation: Aggregation, kind: pa.DataType
) -> None:
    types = [kind] * len(aggregation.inputs)
    nothing = NOTHING.get(type(aggregation).__name__)
    for n_records in (0, 2) if aggregation.inputs else (0,):
        columns = [pa.nulls(n_records, kind) for _ in types]
        states = aggregation.update(columns, np.ones(n_records, np.int64), 3)
        for rows in (states, aggregation.merge(states, codes_of(2, 0, 0), 3)):
            assert [row.type for row in rows] == aggregation.state_types(types)
            result = aggregation.finish(rows)
            assert result.type == aggregation.result_type(types)
            assert result.to_pylist() == [nothing] * 3


@pytest.mark.parametrize("aggregation", READY, ids=repr)
def test_null_states_count_as_nothing(aggregation: Aggregation) -> None:
    types = [pa.float64()] * len(aggregation.inputs)
    nulls = [pa.nulls(2, kind) for kind in aggregation.state_types(types)]
    merged = aggregation.merge(nulls, codes_of(0, 0), 1)
    nothing = NOTHING.get(type(aggregation).__name__)
    assert aggregation.finish(merged).to_pylist() == [nothing]


@pytest.mark.parametrize(
    ("aggregation", "kind"),
    [
        (aggs.sum("price"), pa.string()),
        (aggs.sum("price"), pa.bool_()),
        (aggs.mean("price"), pa.date32()),
        (aggs.variance("price"), pa.decimal256(60, 2)),
        (aggs.vwap("price", "price"), pa.string()),
        (aggs.min("price"), pa.map_(pa.string(), pa.int32())),
        (aggs.max("price"), pa.list_(pa.map_(pa.string(), pa.int32()))),
    ],
    ids=repr,
)
def test_a_type_that_cannot_be_is_refused_with_the_column(
    aggregation: Aggregation, kind: pa.DataType
) -> None:
    types = [kind] * len(aggregation.inputs)
    with pytest.raises(ValueError, match="column 'price' must"):
        aggregation.state_types(types)
    with pytest.raises(ValueError, match="column 'price' must"):
        aggregation.update([pa.nulls(1, kind) for kind in types], codes_of(0), 1)


def test_parameters_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="relative_error must be"):
        aggs.ApproxDistinct("x", 1.5)


def test_an_approximate_count_is_a_request_to_the_engine() -> None:
    request = aggs.distinct("x", exact=False)
    assert request.inputs == ("x",)
    assert request.relative_error == 0.05


def test_times_keep_their_zone() -> None:
    moment = datetime.datetime(2024, 5, 1, tzinfo=datetime.timezone.utc)
    column = pa.array([moment], pa.timestamp("us", tz="Europe/Berlin"))
    for aggregation in (aggs.min("x"), aggs.max("x")):
        (state,) = aggregation.update([column], codes_of(0), 1)
        assert state.type == column.type
        assert state.to_pylist() == [moment]


def test_unsigned_numbers_whose_sums_fit_are_added():
    column = pa.array([2**62, 5], pa.uint64())
    (sums,) = aggs.sum("x").update([column], np.array([0, 1]), 2)
    assert sums.to_pylist() == [2**62, 5]

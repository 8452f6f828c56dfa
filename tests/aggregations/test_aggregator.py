"""User-written aggregators, run group by group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregations.aggregators import Mean, Records, Words
from aggregations.oracle import aggregate, codes_of, values_by_key
from aggregations.values import Values, columns_of, keyed
from skewless.aggregations import PerKey
from skewless.aggregations.python_values import to_arrow

SEEDS = st.integers(0, 2**32)


@given(records=keyed(Values(pa.int64(), st.integers(-99, 99))), seed=SEEDS)
def test_a_mean_by_hand_is_the_mean(records: list[Any], seed: int) -> None:
    columns = columns_of(records, pa.int64())
    keys = [row[0] for row in records]
    got = aggregate(PerKey(Mean()), keys, columns, seed)
    values = values_by_key(keys, columns[0].to_pylist())
    assert got == {k: sum(v) / len(v) if v else None for k, v in values.items()}


@given(records=keyed(Values(pa.string(), st.sampled_from(["a", "b", "ü"]))), seed=SEEDS)
def test_a_map_is_a_dict_to_the_aggregator(records: list[Any], seed: int) -> None:
    columns = columns_of(records, pa.string())
    keys = [row[0] for row in records]
    got = aggregate(PerKey(Words()), keys, columns, seed)
    values = values_by_key(keys, columns[0].to_pylist())
    counts = {k: {word: v.count(word) for word in v} for k, v in values.items()}
    assert {k: dict(pairs) for k, pairs in got.items()} == counts


def test_an_aggregator_may_read_no_column() -> None:
    (state,) = PerKey(Records()).update([], codes_of(2, 0, 2), 3)
    assert state.to_pylist() == [1, 0, 2]
    assert aggregate(PerKey(Records()), [5, 6, 5], [], seed=1) == {5: 2, 6: 1}


def test_update_sees_the_records_of_one_key_in_their_order() -> None:
    seen = []

    class Spy(Mean):
        def update(self, state: Any, records: pa.RecordBatch) -> Any:
            assert records.schema.names == ["x"]
            seen.append(records["x"].to_pylist())
            return state

    column = pa.chunked_array([[1, 2, 3], [4, None]])
    PerKey(Spy()).update([column], codes_of(1, 0, 1, 3, 1), 4)
    assert seen == [[2], [1, 3, None], [4]]


def test_batches_of_a_group_are_slices_not_copies() -> None:
    addresses = []

    class Spy(Mean):
        def update(self, state: Any, records: pa.RecordBatch) -> Any:
            addresses.append(records["x"].buffers()[1].address)
            return state

    PerKey(Spy()).update([pa.array(np.arange(100))], np.arange(100) % 10, 10)
    assert len(set(addresses)) == 1


class Forgetful(Mean):
    def update(self, state: Any, records: pa.RecordBatch) -> Any:
        super().update(state, records)

    def merge(self, a: Any, b: Any) -> Any:
        a["n"] += b["n"]


@pytest.mark.parametrize("values", [[1], [1, 2, 3]])
def test_a_method_that_returns_nothing_is_named(values: list[int]) -> None:
    per_key = PerKey(Forgetful())
    zeros = codes_of(*(0 for _ in values))
    with pytest.raises(ValueError, match="Forgetful: update must return the new state, not None"):
        per_key.update([pa.array(values)], zeros, 1)
    two = pa.array([Mean().zero()] * 2, per_key.state_types([])[0])
    with pytest.raises(ValueError, match="Forgetful: merge must return the new state, not None"):
        per_key.merge([two], codes_of(0, 0), 1)


def test_a_state_of_another_type_is_refused_with_its_value() -> None:
    class Wrong(Mean):
        def update(self, state: Any, records: pa.RecordBatch) -> Any:
            return "many"

    with pytest.raises(ValueError, match=r"Wrong.*the state 'many' is not of the declared type"):
        PerKey(Wrong()).update([pa.array([1])], codes_of(0), 1)


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("bigint", 1.5),
        ("int", np.float32(0.5)),
        ("smallint", float("nan")),
        ("array<bigint>", [1, 1.5]),
        ("map<string, int>", {"a": 1.5}),
        ("map<int, string>", {1.5: "a"}),
        ("array<struct<n: bigint>>", [{"n": 1}, {"n": 1.5}]),
        ("struct<a: double, m: map<int, array<int>>>", {"a": 1.5, "m": {1: [2], 2: [3, 4.5]}}),
    ],
)
def test_arrow_never_cuts_off_a_fraction_silently(kind: str, state: Any) -> None:
    class Wrong(Mean):
        def update(self, _: Any, records: pa.RecordBatch) -> Any:
            return state

        def zero(self) -> Any:
            return None

    Wrong.state = kind
    with pytest.raises(ValueError, match="would lose its fraction"):
        PerKey(Wrong()).update([pa.array([1])], codes_of(0), 1)


def test_a_whole_float_is_a_whole_number() -> None:
    class Whole(Records):
        def update(self, state: int, records: pa.RecordBatch) -> Any:
            return 2.0

    assert PerKey(Whole()).update([], codes_of(0), 1)[0].to_pylist() == [2]


def test_the_value_with_a_fraction_is_named_among_good_ones() -> None:
    kind = pa.struct({"n": pa.int64(), "x": pa.float64(), "l": pa.list_(pa.int32())})
    good = [None, {}, {"n": 2.0, "x": 0.5}, {"l": None}, {"l": [None, 3]}, {"l": ()}]
    assert to_arrow(good, kind, "here", "state").to_pylist()[2]["n"] == 2
    with pytest.raises(ValueError, match=r"here: the state {'l': \[1, 0\.5\]} is not of"):
        to_arrow([*good, {"l": [1, 0.5]}, {"n": 1.5}], kind, "here", "state")


def test_a_field_that_the_type_does_not_have_is_refused() -> None:
    """Arrow would leave it out, and the state would be lost."""
    kind = pa.struct({"low": pa.int64(), "high": pa.int64()})
    states = [None, {}, {"low": 1}]
    assert to_arrow(states, kind, "here", "state").to_pylist()[2] == {"low": 1, "high": None}
    with pytest.raises(
        ValueError, match="here: a state has an unknown field 'lo'; did you mean 'low'"
    ):
        to_arrow([*states, {"lo": 1}], kind, "here", "state")


def test_a_result_of_another_type_is_refused_with_its_value() -> None:
    class Wrong(Mean):
        def finish(self, state: Any) -> Any:
            return "many"

    wrong = PerKey(Wrong())
    with pytest.raises(ValueError, match="the result 'many' is not of the declared type double"):
        wrong.finish(wrong.update([pa.array([1])], codes_of(0), 1))


def test_an_incomplete_aggregator_is_refused() -> None:
    class NoState(Mean):
        state = "struct<n bigint"

    class NoTuple(Mean):
        inputs: Any = "x"

    with pytest.raises(ValueError, match="NoState: state: type 'struct<n bigint'"):
        PerKey(NoState())
    with pytest.raises(ValueError, match="NoTuple: inputs must be a tuple"):
        PerKey(NoTuple())
    with pytest.raises(ValueError, match="derived from Aggregator"):
        PerKey(Mean)  # type: ignore[arg-type]

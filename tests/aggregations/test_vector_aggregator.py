"""Aggregators over columns: right ones, broken ones, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from aggregations.aggregators import Words
from skewless.aggregations import (
    Aggregator,
    LawBroken,
    PerColumn,
    PerKey,
    VectorAggregator,
    check_aggregator,
    count,
    distinct,
    group,
)


class Total(VectorAggregator):
    """The number and the sum of x, as a user writes it."""

    inputs = ("x",)
    state: Any = "n bigint, total double"
    result: Any = "double"

    def update(self, records: pa.RecordBatch, keys: Any, n_keys: int) -> dict[str, Any]:
        valid = records["x"].is_valid().to_numpy(zero_copy_only=False)
        values = records["x"].drop_null().to_numpy(zero_copy_only=False)
        keys = keys[valid]
        return {
            "n": np.bincount(keys, minlength=n_keys),
            "total": np.bincount(keys, values, n_keys),
        }

    def merge(self, states: pa.RecordBatch, keys: Any, n_keys: int) -> dict[str, Any]:
        total = np.zeros(n_keys)
        n = np.zeros(n_keys, np.int64)
        np.add.at(total, keys, states["total"].to_numpy())
        np.add.at(n, keys, states["n"].to_numpy())
        return {"n": n, "total": total}

    def finish(self, states: pa.RecordBatch) -> Any:
        n = states["n"].to_numpy()
        return pa.array(states["total"].to_numpy(), mask=n == 0)


class MixesKeys(Total):
    """A sum over all keys, which one key alone does not show."""

    def update(self, records: pa.RecordBatch, keys: Any, n_keys: int) -> dict[str, Any]:
        columns = super().update(records, keys, n_keys)
        return columns | {"total": np.full(n_keys, columns["total"].sum())}


class MixesStates(Total):
    """A merge that forgets which row belongs to which key."""

    def merge(self, states: pa.RecordBatch, keys: Any, n_keys: int) -> dict[str, Any]:
        return super().merge(states, np.sort(keys) if n_keys > 1 else keys, n_keys)


class Unmergeable(Total):
    """All records of a key at once, and no method to merge."""

    merges = False
    merge = VectorAggregator.merge


def test_a_right_one_keeps_the_laws_and_many_keys_are_as_one() -> None:
    laws = check_aggregator(Total())
    assert laws[-1] == "keys_do_not_mix"
    assert "merge_is_associative" in laws
    keys = pa.array(["a", "b", "a", None])
    groups = group([keys])
    held = PerColumn(Total())
    states = held.update([pa.array([1.0, None, 2.5, 4.0])], groups.codes, groups.n_groups)
    assert held.finish(states).to_pylist() == [3.5, None, 4.0]


@pytest.mark.parametrize("broken", [MixesKeys(), MixesStates()], ids=lambda b: type(b).__name__)
def test_keys_that_mix_are_found(broken: VectorAggregator) -> None:
    with pytest.raises(LawBroken, match=f"{type(broken).__name__} breaks") as found:
        check_aggregator(broken)
    assert found.value.law == "keys_do_not_mix"


def test_laws_of_merging_are_not_asked_where_nothing_merges() -> None:
    class Median(Aggregator[float | None]):
        inputs = ("x",)
        state = "double"
        result = "double"
        merges = False

        def zero(self) -> float | None:
            return None

        def update(self, state: float | None, records: pa.RecordBatch) -> float | None:
            values = records["x"].drop_null().to_numpy(zero_copy_only=False)
            return float(np.median(values)) if values.size else None

        def finish(self, state: float | None) -> float | None:
            return state

    assert "merge_is_associative" not in check_aggregator(Median())
    assert "merge_is_associative" not in check_aggregator(Unmergeable())

    class First(Median):
        def update(self, state: float | None, records: pa.RecordBatch) -> float | None:
            value: float | None = records["x"][0].as_py()
            return value

    with pytest.raises(LawBroken, match="order_of_records_is_invisible"):
        check_aggregator(First())


def test_only_a_class_that_says_so_does_not_merge() -> None:
    for one in (count(), distinct("v", exact=False), Words(), PerColumn(Total())):
        assert one.merges
    assert not Unmergeable().merges
    assert not PerColumn(Unmergeable()).merges


def test_one_that_merges_needs_a_method_for_it() -> None:
    class NoMerge(Unmergeable):
        merges = True

    with pytest.raises(ValueError, match=r"NoMerge: the method 'merge' is missing.*merges = False"):
        PerColumn(NoMerge())

    class NoMergeEither(Aggregator[int]):
        inputs = ()
        state = result = "bigint"

        def zero(self) -> int:
            return 0

        def update(self, state: int, records: pa.RecordBatch) -> int:
            return state + records.num_rows

        def finish(self, state: int) -> int:
            return state

    with pytest.raises(ValueError, match="NoMergeEither: the method 'merge' is missing"):
        PerKey(NoMergeEither())


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ({"n": [1]}, r"Total: update must return a mapping with the columns n, total, not \['n'\]"),
        (5, "update must return a mapping with the columns n, total, not 5"),
        ({"n": [1, 2], "total": [1.0]}, "state 'n' has 2 values for 1 keys"),
        ({"n": 3, "total": [1.0]}, "must return columns, and state 'n' is 3"),
        ({"n": np.array([1.5]), "total": [1.0]}, "state 'n' is not of the declared type int64"),
        ({"n": [1.5], "total": [1.0]}, "the state 'n' 1.5 is not of the declared type int64"),
        ({"n": pa.array(["x"]), "total": [1.0]}, "state 'n' is not of the declared type int64"),
    ],
)
def test_wrong_columns_are_refused_in_one_line(returned: Any, message: str) -> None:
    class Total(globals()["Total"]):  # type: ignore[misc]
        def update(self, records: pa.RecordBatch, keys: Any, n_keys: int) -> Any:
            return returned

    with pytest.raises(ValueError, match=message):
        PerColumn(Total()).update([pa.array([1.0])], np.zeros(1, np.int64), 1)


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("state", "bigint", "Total: state: type 'bigint'"),
        ("state", "", "Total: state must have at least one column"),
        ("result", "strng", "Total: result: type 'strng'"),
        ("inputs", ["x"], "Total: inputs must be a tuple of column names"),
        ("merges", 1, "Total: merges must be True or False, not 1"),
    ],
)
def test_wrong_declarations_are_refused(attribute: str, value: Any, message: str) -> None:
    one = Total()
    setattr(one, attribute, value)
    with pytest.raises(ValueError, match=message):
        PerColumn(one)

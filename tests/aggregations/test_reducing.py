"""Objects in the shape of Spark's Aggregator: zero, reduce, merge and finish."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from skewless import aggregations as aggs
from skewless.aggregations.aggregator import PerKey


class Largest:
    """The largest product of two columns, as a class that knows nothing of skewless."""

    def zero(self) -> float | None:
        return None

    def reduce(self, buffer: float | None, values: tuple[float | None, float | None]) -> Any:
        price, size = values
        return buffer if price is None or size is None else self.merge(buffer, price * size)

    def merge(self, one: float | None, other: float | None) -> float | None:
        if one is None or other is None:
            return other if one is None else one
        return max(one, other)

    def finish(self, buffer: float | None) -> float | None:
        return buffer


class Declared(Largest):
    inputs = ("price", "size")
    state = "double"
    result = "double"


class Counts:
    """Reads no column at all."""

    inputs = ()
    state = result = "bigint"

    def zero(self) -> int:
        return 0

    def reduce(self, buffer: int, value: Any) -> int:
        assert value == ()
        return buffer + 1

    def merge(self, one: int, other: int) -> int:
        return one + other

    def finish(self, buffer: int) -> int:
        return buffer


class Forgets(Declared):
    """Keeps whatever came first, so its results depend on the order."""

    def merge(self, one: float | None, other: float | None) -> float | None:
        return other if one is None else one


def test_several_inputs_come_as_a_tuple_and_one_as_its_value() -> None:
    records = pa.record_batch({"price": [2.0, None, 3.0], "size": [1.0, 9.0, 4.0]})
    largest = aggs.reducing(Largest(), inputs=("price", "size"), state="double", result="double")
    assert largest.update(largest.zero(), records) == 12.0
    assert aggs.reducing(Declared()).update(None, records) == 12.0

    seen: list[Any] = []

    class Sees(Declared):
        def reduce(self, buffer: Any, value: Any) -> Any:
            seen.append(value)
            return buffer

    one = aggs.reducing(Sees(), inputs="price")
    one.update(one.zero(), records.select(["price"]))
    assert seen == [2.0, None, 3.0]


def test_an_object_that_reads_nothing_sees_every_record() -> None:
    counted = aggs.PerKey(aggs.reducing(Counts()))
    groups = aggs.group([pa.array(["a", "b", "a"])])
    states = counted.update([], groups.codes, groups.n_groups)
    assert counted.finish(states).to_pylist() == [2, 1]


def test_the_laws_are_tested_for_these_objects_too() -> None:
    assert "merge_is_commutative" in aggs.check_aggregator(aggs.reducing(Declared()))
    with pytest.raises(aggs.LawBroken, match="Forgets"):
        aggs.check_aggregator(Forgets())


def test_a_bad_type_is_refused_by_the_name_of_the_users_class() -> None:
    with pytest.raises(ValueError, match="Declared: state: "):
        aggs.PerKey(aggs.reducing(Declared(), state="nonsense"))


@pytest.mark.parametrize(
    ("reducer", "message"),
    [
        (Largest, "reducer must be an object with the methods zero, reduce, merge, finish"),
        (object(), "reducer must be an object with the methods"),
        (Largest(), "Largest has zero, reduce, merge and finish, but does not say its inputs"),
    ],
)
def test_what_is_missing_is_said_in_one_line(reducer: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        aggs.reducing(reducer)
    assert "\n" not in str(refused.value)


def test_our_own_aggregators_are_no_reducers() -> None:
    class Ours(aggs.Aggregator[int]):
        def zero(self) -> int:
            return 0

        def update(self, state: int, records: pa.RecordBatch) -> int:
            return state + records.num_rows

        def reduce(self, state: int, value: Any) -> int:
            return state

        def finish(self, state: int) -> int:
            return state

    assert not aggs.is_reducer(Ours())
    assert not aggs.is_reducer(aggs.count())
    assert aggs.is_reducer(Largest())


def test_an_object_may_say_that_it_does_not_merge() -> None:
    class Alone(Declared):
        merges = False

    assert aggs.reducing(Declared()).merges
    assert not aggs.reducing(Alone()).merges
    assert not PerKey(aggs.reducing(Alone())).aggregator.merges
    Alone.merges = 1  # type: ignore[assignment]
    with pytest.raises(ValueError, match="Alone: merges must be True or False, not 1"):
        PerKey(aggs.reducing(Alone()))

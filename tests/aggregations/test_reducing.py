"""Objects in the shape of Spark's Aggregator: zero, reduce, merge and finish."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as T

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


class OfSpark:
    """The mean, in the shape of the class that a coming PySpark has."""

    bufferSchema = T.StructType().add("sum", "double").add("n", "long")  # noqa: N815
    outputType = T.DoubleType()  # noqa: N815

    def zero(self) -> tuple[float, int]:
        return 0.0, 0

    def reduce(self, buffer: tuple[float, int], value: tuple[float | None]) -> tuple[float, int]:
        (number,) = value
        return buffer if number is None else (buffer[0] + number, buffer[1] + 1)

    def merge(self, one: tuple[float, int], other: tuple[float, int]) -> tuple[float, int]:
        return one[0] + other[0], one[1] + other[1]

    def finish(self, buffer: tuple[float, int]) -> float | None:
        return buffer[0] / buffer[1] if buffer[1] else None


def test_an_aggregator_of_spark_is_used_as_it_is() -> None:
    """Its buffer is a tuple, and a single value comes as a tuple, too."""
    mean = aggs.reducing(OfSpark(), inputs="price")
    assert (mean.state, mean.result) == ("struct<sum:double,n:bigint>", "double")
    records = pa.record_batch({"price": [2.0, None, 4.0]})
    state = mean.update(mean.zero(), records)
    assert state == {"sum": 6.0, "n": 2}
    assert mean.finish(mean.merge(state, mean.zero())) == 3.0
    assert "merge_is_commutative" in aggs.check_aggregator(mean)


def test_a_buffer_of_another_shape_is_named() -> None:
    class Short(OfSpark):
        def merge(self, one: Any, other: Any) -> Any:
            return (one[0],)

    short = aggs.reducing(Short(), inputs="price")
    with pytest.raises(
        ValueError, match=r"Short\.merge must return a tuple of sum, n, .* \(0\.0,\)"
    ):
        short.merge(short.zero(), short.zero())


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        (T.StructType(), {}, r"bufferSchema of Other must be a struct .* not struct<>"),
        (T.DoubleType(), {}, r"bufferSchema of Other must be a struct .* not double"),
        (T.StructType().add("a b", "long"), {}, r"names of letters.* not struct<a b:bigint>"),
        (T.StructType().add("a", T.StructType().add("b", "long")), {}, r"without a struct inside"),
        (OfSpark.bufferSchema, {"state": "double"}, r"Other has bufferSchema .* leave out state"),
    ],
)
def test_types_that_contradict_the_buffer_are_refused(
    schema: Any, options: dict[str, Any], message: str
) -> None:
    class Other(OfSpark):
        bufferSchema = schema  # noqa: N815

    with pytest.raises(ValueError, match=message):
        aggs.reducing(Other(), inputs="price", **options)


def test_a_fraction_in_a_tuple_for_whole_numbers_is_found() -> None:
    class Pair(OfSpark):
        outputType = T.StructType().add("m", "double").add("n", "long")  # noqa: N815

        def finish(self, buffer: tuple[float, int]) -> Any:
            return 2.0, 1.5

    pair = PerKey(aggs.reducing(Pair(), inputs="price"))
    states = pair.update([pa.array([1.0])], np.zeros(1, np.int64), 1)
    with pytest.raises(ValueError, match=r"1\.5"):
        pair.finish(states)

"""The laws hold for what is right, and name what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from aggregations.aggregators import Mean, OneKey, Records, Words
from skewless import aggregations as aggs
from skewless.aggregations import LAWS, Aggregation, Aggregator, LawBroken, PerKey, check_aggregator
from skewless.aggregations.checker import Trial, cuts_are_invisible, order_of_records_is_invisible

READY = [
    (aggs.count(), []),
    *[
        (aggregation, [pa.float64()])
        for aggregation in (
            aggs.count("x"),
            aggs.sum("x"),
            aggs.mean("x"),
            aggs.min("x"),
            aggs.max("x"),
            aggs.variance("x"),
            aggs.stddev("x", population=True),
            aggs.distinct("x"),
            aggs.collect("x"),
            aggs.collect_set("x"),
        )
    ],
    *[
        (aggregation, [kind])
        for kind in (pa.int32(), pa.decimal128(9, 2))
        for aggregation in (aggs.sum("x"), aggs.mean("x"), aggs.max("x"), aggs.variance("x"))
    ],
    (aggs.vwap("x", "y"), [pa.float64(), pa.int64()]),
    (aggs.max("x"), [pa.string()]),
    (aggs.min("x"), [pa.struct([("a", pa.date32()), ("b", pa.list_(pa.string()))])]),
    (aggs.distinct("x"), [pa.string()]),
    (aggs.max("x"), [pa.timestamp("us", tz="UTC")]),
]


@pytest.mark.parametrize(("aggregation", "kinds"), READY, ids=repr)
def test_every_ready_aggregation_keeps_the_laws(
    aggregation: Aggregation, kinds: list[pa.DataType]
) -> None:
    types = dict(zip(aggregation.inputs, kinds, strict=True))
    laws = check_aggregator(OneKey(aggregation, kinds), types=types)
    assert laws == [law.__name__ for law in LAWS]


@pytest.mark.parametrize("aggregator", [Mean(), Records()], ids=["mean", "records"])
def test_right_aggregators_keep_the_laws(aggregator: Aggregator[Any]) -> None:
    assert check_aggregator(aggregator)


def test_a_map_of_words_keeps_the_laws() -> None:
    assert check_aggregator(Words(), types={"word": "string"})
    assert check_aggregator(Words(), pa.table({"word": ["a", "b", None], "other": [1, 2, 3]}))
    assert check_aggregator(Words(), pa.record_batch({"word": ["a", "b", None]}))


def test_no_records_are_enough_for_the_laws_of_zero() -> None:
    assert check_aggregator(Words(), pa.table({"word": pa.array([], pa.string())}))


class OneIsZero(Mean):
    """Starts at one record instead of none."""

    def zero(self) -> dict[str, Any]:
        return {"n": 1, "total": 0.0}


class FirstWins(Mean):
    """Merges by throwing the second state away, unless the first is empty."""

    def merge(self, a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
        return a if a["n"] else b


class MeanOfMeans(Mean):
    """Takes the mean of two means, whatever they stand for."""

    def merge(self, a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
        if not a["n"] or not b["n"]:
            return a if a["n"] else b
        return {"n": 1, "total": (a["total"] / a["n"] + b["total"] / b["n"]) / 2}


class KeepsTheCount(Mean):
    """Adds up totals but keeps the larger count: symmetric, neutral, associative, and wrong."""

    def merge(self, a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
        return {"n": max(a["n"], b["n"]), "total": a["total"] + b["total"]}


class Last(Mean):
    """Takes the last value of a batch and the largest of batches."""

    def update(self, state: dict[str, Any], records: pa.RecordBatch) -> dict[str, Any]:
        values = records["x"].drop_null().to_pylist()
        return self.merge(state, {"n": 1, "total": values[-1]} if values else self.zero())

    def merge(self, a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
        return max(a, b, key=lambda state: (state["n"], state["total"]))


class ReadsForward(Mean):
    """Weighs a value by its place: cut anywhere it is the same, backwards it is not."""

    state = "array<double>"

    def zero(self) -> Any:
        return []

    def update(self, state: Any, records: pa.RecordBatch) -> Any:
        return [*state, *records["x"].drop_null().to_pylist()]

    def merge(self, a: Any, b: Any) -> Any:
        return [*a, *b]

    def finish(self, state: Any) -> Any:
        return float(sum(place * value for place, value in enumerate(state)))


class Shared(Words):
    """Gives out the same dict as zero again and again."""

    def __init__(self) -> None:
        self.nothing: dict[str, int] = {}

    def zero(self) -> dict[str, int]:
        return self.nothing


class Truncates(Mean):
    """Declares a total of whole numbers and keeps fractions: Arrow would cut them off silently."""

    state = "struct<n: bigint, total: bigint>"


class KeepsMore(Mean):
    """Keeps a field that the declared type does not have: Arrow would drop it silently."""

    def update(self, state: dict[str, Any], records: pa.RecordBatch) -> dict[str, Any]:
        return {**super().update(state, records), "seen": True}

    def finish(self, state: dict[str, Any]) -> float | None:
        return super().finish(state) if state["seen"] else None


class KeepsASet(Mean):
    """Keeps a Python set, which comes back as a list."""

    state = "array<double>"

    def zero(self) -> Any:
        return set()

    def update(self, state: Any, records: pa.RecordBatch) -> Any:
        return state | set(records["x"].drop_null().to_pylist())

    def merge(self, a: Any, b: Any) -> Any:
        return a | b

    def finish(self, state: Any) -> Any:
        return float(len(state))


class WholeResult(Mean):
    """Declares whole means."""

    result = "bigint"


class FailsOnNull(Mean):
    """Does not expect a null."""

    def update(self, state: dict[str, Any], records: pa.RecordBatch) -> dict[str, Any]:
        state["total"] += sum(records["x"].to_pylist())
        return state


class Uneven(Mean):
    """Halves the second total."""

    def merge(self, a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
        if not a["n"]:
            return b
        return {"n": a["n"] + b["n"], "total": a["total"] + b["total"] / 2}


class CountsFromOne(Records):
    """Starts at one record instead of none, which no record is needed to see."""

    def zero(self) -> int:
        return 1


FAULTS = [
    (OneIsZero(), "zero_is_neutral"),
    (FirstWins(), "merge_is_commutative"),
    (Uneven(), "merge_is_commutative"),
    (MeanOfMeans(), "merge_is_associative"),
    (KeepsTheCount(), "cuts_are_invisible"),
    (Last(), "cuts_are_invisible"),
    (Shared(), "zero_is_neutral"),
    (Truncates(), "states_and_results_fit_their_types"),
    (KeepsMore(), "states_and_results_fit_their_types"),
    (KeepsASet(), "zero_is_neutral"),
    (WholeResult(), "states_and_results_fit_their_types"),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("aggregator", "law"), FAULTS, ids=lambda x: type(x).__name__)
def test_a_planted_fault_is_found_by_its_law(
    aggregator: Aggregator[Any], law: str, seed: int
) -> None:
    types = {"word": "string"} if aggregator.inputs == ("word",) else {"x": "double"}
    with pytest.raises(LawBroken) as found:
        check_aggregator(aggregator, types=types, seed=seed)
    assert found.value.law == law
    assert f"{type(aggregator).__name__} breaks {law}: " in str(found.value)


def test_the_order_of_records_has_a_law_of_its_own() -> None:
    # Where all other laws hold, order cannot matter; so this one is tried alone.
    parts = [pa.record_batch({"x": [1.0, 2.0]}), pa.record_batch({"x": [3.0]})]
    forward = Trial(PerKey(ReadsForward()), parts[0].slice(0, 0), parts, 0.0)
    cuts_are_invisible(forward)
    order_of_records_is_invisible(replace(forward, held=PerKey(Mean())))
    with pytest.raises(AssertionError, match="the records in reverse order gives"):
        order_of_records_is_invisible(forward)
    with pytest.raises(AssertionError, match="the records in reverse order gives"):
        order_of_records_is_invisible(replace(forward, parts=parts[:1]))


def test_the_counter_example_is_small() -> None:
    with pytest.raises(LawBroken, match="on 2 records in 2 parts: ") as found:
        check_aggregator(Uneven())
    assert "merge(b, a) gives" in str(found.value)
    with pytest.raises(LawBroken, match="on 0 records in 0 parts"):
        check_aggregator(CountsFromOne())


def test_what_the_aggregator_raises_is_the_finding() -> None:
    with pytest.raises(
        LawBroken, match=r"TypeError.*\n?on 1 records in 1 parts: \[\[{'x': None}\]\]"
    ):
        check_aggregator(FailsOnNull())


def test_a_tolerance_of_zero_sees_the_rounding_of_floats() -> None:
    records = pa.table({"x": [0.1, 0.2, 0.3, 0.7]})
    assert check_aggregator(Mean(), records)
    with pytest.raises(LawBroken, match="breaks"):
        check_aggregator(Mean(), records, tolerance=0.0)


def test_records_and_types_must_name_the_inputs() -> None:
    with pytest.raises(ValueError, match="no column 'x'"):
        check_aggregator(Mean(), pa.table({"y": [1]}))
    with pytest.raises(ValueError, match="types names 'y', but the inputs are x"):
        check_aggregator(Mean(), types={"y": "double"})


class Misspelt(Aggregator):
    """Its result, or its state, has a field that its type does not have."""

    inputs = ("x",)
    state = "struct<n: bigint>"
    result = "struct<mean: double>"

    def __init__(self, in_state):
        self.in_state = in_state

    def zero(self):
        return {"n": 0}

    def update(self, state, records):
        return {"n": state["n"] + records.num_rows} | ({"more": 1.0} if self.in_state else {})

    def merge(self, one, other):
        return {"n": one["n"] + other["n"]}

    def finish(self, state):
        return {"mean" if self.in_state else "maen": state["n"] + state.get("more", 0.0)}


@pytest.mark.parametrize(("in_state", "what"), [(True, "a state"), (False, "a result")])
def test_a_field_that_arrow_would_drop_is_found(in_state, what):
    with pytest.raises(LawBroken, match=f"{what} has an unknown field"):
        check_aggregator(Misspelt(in_state))

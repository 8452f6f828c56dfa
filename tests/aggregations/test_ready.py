"""Every ready aggregation equals its definition, however records are cut into pieces."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregations.oracle import aggregate, codes_of, same_key, sort_key
from aggregations.running import EPS, NUMBERS, SEEDS, keys_of, run
from aggregations.values import GROUPED, ORDERED, Values, decimals, keyed
from lanes import slow_except
from skewless import aggregations as aggs


@given(records=keyed(GROUPED["string"]), seed=SEEDS)
def test_count_counts_records_or_values(records: list[Any], seed: int) -> None:
    got, values = run(aggs.count("x"), records, seed, pa.string())
    assert got == {key: len(present) for key, present in values.items()}
    keys = keys_of(records)
    assert aggregate(aggs.count(), keys, [], seed) == {key: keys.count(key) for key in keys}


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.int8(), pa.uint16()], ids=str)
@given(data=st.data(), seed=SEEDS)
def test_sum_of_integers_is_exact(kind: pa.DataType, data: st.DataObject, seed: int) -> None:
    bound = {"int64": 2**58, "int32": 2**31 - 1, "int8": 127, "uint16": 2**15}[str(kind)]
    low = 0 if str(kind).startswith("u") else -bound
    records = data.draw(keyed(Values(kind, st.integers(low, bound))))
    got, values = run(aggs.sum("x"), records, seed, kind)
    assert got == {key: sum(present) if present else None for key, present in values.items()}


@given(
    values=st.lists(st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**62, -(2**63)])),
)
def test_a_sum_of_integers_is_right_or_refused(values: list[int]) -> None:
    column = pa.array([*values, 7], pa.int64())
    codes = codes_of(*([1] * len(values)), 0)
    if -(2**63) <= sum(values) < 2**63:
        (total,) = aggs.sum("x").update([column], codes, 2)
        assert total.to_pylist() == [7, sum(values) if values else None]
    else:
        with pytest.raises(ArithmeticError, match="'x' does not fit int64"):
            aggs.sum("x").update([column], codes, 2)
        with pytest.raises(ArithmeticError, match="'x' does not fit int64"):
            aggs.sum("x").merge([column], codes, 2)


def test_an_unsigned_number_beyond_bigint_is_refused() -> None:
    with pytest.raises(ArithmeticError, match="column 'x'"):
        aggs.sum("x").update([pa.array([2**63], pa.uint64())], codes_of(0), 1)


@pytest.mark.parametrize(("digits", "scale"), [(1, 0), (9, 2), (28, 28), (30, 10)])
@given(data=st.data(), seed=SEEDS)
def test_sum_of_decimals_is_exact(digits: int, scale: int, data: st.DataObject, seed: int) -> None:
    records = data.draw(keyed(Values(pa.decimal128(digits, scale), decimals(digits, scale))))
    got, values = run(aggs.sum("x"), records, seed, pa.decimal128(digits, scale))
    with localcontext() as context:
        context.prec = 60
        expected = {key: sum(there, Decimal(0)) if there else None for key, there in values.items()}
    assert got == expected


@given(values=st.lists(decimals(38, 4) | st.just(Decimal(10**34 - 1)), max_size=6))
def test_a_sum_of_decimals_is_right_or_refused(values: list[Decimal]) -> None:
    column = pa.array(values, pa.decimal128(38, 4))
    codes = np.zeros(len(values), np.int64)
    with localcontext() as context:
        context.prec = 60
        total = sum(values, Decimal(0))
        fits = abs(total.scaleb(4)) < 10**38
    if fits:
        got = aggs.sum("x").update([column], codes, 1)[0].to_pylist()
        assert got == [total if values else None]
    else:
        with pytest.raises(ArithmeticError, match=r"'x' does not fit decimal128\(38, 4\)"):
            aggs.sum("x").update([column], codes, 1)


@pytest.mark.parametrize("one", [1, -1])
def test_a_mean_of_decimals_in_the_middle_goes_away_from_zero(one: int) -> None:
    column = pa.array([Decimal(one)] + [Decimal(0)] * 31, pa.decimal128(1, 0))
    states = aggs.mean("x").update([column], np.zeros(32, np.int64), 1)
    assert aggs.mean("x").finish(states).to_pylist() == [one * Decimal("0.0313")]  # of 0.03125


def test_a_mean_that_does_not_fit_is_refused() -> None:
    column = pa.array([Decimal("12.5")], pa.decimal128(38, 36))
    states = aggs.mean("x").update([column], codes_of(0), 1)
    with pytest.raises(ArithmeticError, match=r"does not fit decimal128\(38, 38\)"):
        aggs.mean("x").finish(states)


def test_the_largest_decimal_fits_and_one_more_does_not() -> None:
    largest = 10**38 - 1
    column = pa.array([Decimal(largest - 1), Decimal(1)], pa.decimal128(38, 0))
    total = aggs.sum("x").update([column], codes_of(0, 0), 1)[0]
    assert total.to_pylist() == [Decimal(largest)]
    total.validate(full=True)
    for sign in (1, -1):
        both = pa.array([Decimal(sign * largest), Decimal(sign)], pa.decimal128(38, 0))
        with pytest.raises(ArithmeticError, match="does not fit"):
            aggs.sum("x").update([both], codes_of(0, 0), 1)


@pytest.mark.parametrize("name", ["double", "float"])
@given(data=st.data(), seed=SEEDS)
def test_sum_of_floats_is_the_sum_up_to_rounding(name: str, data: st.DataObject, seed: int) -> None:
    kind = NUMBERS[name]
    got, values = run(aggs.sum("x"), data.draw(keyed(kind)), seed, kind.type)
    for key, present in values.items():
        if not present:
            assert got[key] is None
            continue
        # Each of the n additions rounds a number of at most Σ|x|.
        margin = EPS * len(present) * math.fsum(abs(value) for value in present)
        assert abs(got[key] - math.fsum(present)) <= margin


def test_infinities_and_nan_are_values_of_a_sum() -> None:
    inf, nan = math.inf, math.nan
    column = pa.array([inf, 1.0, inf, -inf, nan, 1.0, None])
    (total,) = aggs.sum("x").update([column], codes_of(0, 0, 1, 1, 2, 2, 3), 5)
    assert [same_key(value) for value in total.to_pylist()] == [
        same_key(value) for value in (inf, nan, nan, None, None)
    ]


@pytest.mark.parametrize("name", ["double", "float", "int", "bigint"])
@given(data=st.data(), seed=SEEDS)
def test_mean_is_the_mean_up_to_rounding(name: str, data: st.DataObject, seed: int) -> None:
    kind = NUMBERS[name]
    got, values = run(aggs.mean("x"), data.draw(keyed(kind)), seed, kind.type)
    for key, present in values.items():
        if not present:
            assert got[key] is None
            continue
        # As for the sum; one more rounding by the division.
        margin = EPS * (len(present) + 1) * math.fsum(abs(value) for value in present)
        mean = float(sum(Fraction(value) for value in present) / len(present))
        assert abs(got[key] - mean) <= margin


@pytest.mark.parametrize(
    ("digits", "scale", "result"),
    [(1, 0, (5, 4)), (9, 2, (13, 6)), (27, 9, (31, 13)), (30, 10, (38, 14)), (36, 34, (38, 38))],
)
@given(data=st.data(), seed=SEEDS)
def test_mean_of_decimals_rounds_half_up(
    digits: int, scale: int, result: tuple[int, int], data: st.DataObject, seed: int
) -> None:
    kind = pa.decimal128(digits, scale)
    assert aggs.mean("x").result_type([kind]) == pa.decimal128(*result)
    # Where all digits of the mean are decimals, larger values do not fit.
    values = decimals(digits, scale) if result != (38, 38) else decimals(scale, scale)
    got, present = run(aggs.mean("x"), data.draw(keyed(Values(kind, values))), seed, kind)
    with localcontext() as context:
        context.prec = 200
        for key, decs in present.items():
            if decs:
                mean = sum(decs, Decimal(0)) / len(decs)
                decs = [mean.quantize(Decimal(1).scaleb(-result[1]), ROUND_HALF_UP)]
            assert got[key] == (decs[0] if decs else None)


@pytest.mark.parametrize("name", slow_except(list(ORDERED)[::3], ORDERED))
@given(data=st.data(), seed=SEEDS)
@settings(max_examples=25)
def test_min_and_max_are_the_ends_of_sparks_order(
    name: str, data: st.DataObject, seed: int
) -> None:
    kind = ORDERED[name]
    records = data.draw(keyed(kind))
    for aggregation, end in ((aggs.min("x"), min), (aggs.max("x"), max)):
        got, values = run(aggregation, records, seed, kind.type)
        for key, present in values.items():
            expected = end(present, key=sort_key) if present else None
            assert same_key(got[key]) == same_key(expected)


def test_nan_is_above_every_number() -> None:
    column = pa.array([1.0, math.nan, math.inf, math.nan, math.nan])
    codes = codes_of(0, 0, 0, 1, 1)
    low, high = aggs.min("x").update([column], codes, 2), aggs.max("x").update([column], codes, 2)
    assert low[0][0].as_py() == 1.0
    assert all(math.isnan(value.as_py()) for value in (low[0][1], *high[0]))


@pytest.mark.parametrize("name", slow_except(list(GROUPED)[::3], GROUPED))
@given(data=st.data(), seed=SEEDS)
@settings(max_examples=25)
def test_collected_and_distinct_values_are_those_of_the_key(
    name: str, data: st.DataObject, seed: int
) -> None:
    kind = GROUPED[name]
    records = data.draw(keyed(kind))

    def bag(values: list[Any]) -> list[str]:
        return sorted(str(same_key(_as_lists(value))) for value in values)

    got, values = run(aggs.collect("x"), records, seed, kind.type)
    assert {key: bag(there) for key, there in got.items()} == {
        key: bag(there) for key, there in values.items()
    }
    got, values = run(aggs.collect_set("x"), records, seed, kind.type)
    sets = {key: sorted(set(bag(there))) for key, there in values.items()}
    assert {key: bag(there) for key, there in got.items()} == sets
    got, _ = run(aggs.distinct("x"), records, seed, kind.type)
    assert got == {key: len(there) for key, there in sets.items()}


def _as_lists(value: Any) -> Any:
    """Return maps, as dicts or as pairs, in one spelling."""
    if isinstance(value, dict):
        value = list(value.items())
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        inner = [_as_lists(v) for v in value]
        return sorted(inner, key=str) if inner and isinstance(inner[0], list) else inner
    return value


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("population", [False, True])
@given(data=st.data(), seed=SEEDS)
@settings(max_examples=40)
def test_variance_and_stddev_are_exact_up_to_rounding(
    name: str, population: bool, data: st.DataObject, seed: int
) -> None:
    kind = NUMBERS[name]
    records = data.draw(keyed(kind))
    got, values = run(aggs.variance("x", population=population), records, seed, kind.type)
    roots, _ = run(aggs.stddev("x", population=population), records, seed, kind.type)
    for key, present in values.items():
        n = len(present)
        if n < (1 if population else 2):
            assert got[key] is None
            assert roots[key] is None
            continue
        exact = [Fraction(value) for value in present]
        mean = sum(exact) / n
        variance = float(sum((x - mean) ** 2 for x in exact) / (n if population else n - 1))
        # The mean is off by at most δ, so each square by 2·|x − mean|·δ + δ², and all is rounded.
        delta = 8 * n * EPS * float(max(abs(x) for x in exact))
        margin = 8 * n * EPS * variance + n * (2 * math.sqrt(variance) * delta + delta * delta)
        assert abs(got[key] - variance) <= margin
        assert roots[key] == pytest.approx(math.sqrt(got[key]), rel=4 * EPS)


def test_variance_far_from_zero_keeps_its_digits() -> None:
    rng = np.random.default_rng(3)
    noise = rng.integers(0, 1024, 30_000) / 1024  # exact beside 10⁹
    exact = [Fraction(float(x)) for x in noise]
    mean = sum(exact) / len(exact)
    expected = float(sum((x - mean) ** 2 for x in exact) / (len(exact) - 1))
    columns = [pa.array(noise + 1e9)]
    got = aggregate(aggs.variance("x"), [0] * noise.size, columns, seed=1)
    # Σx² − n·mean² would have lost everything: 10¹⁸ has a spacing of 128. What remains is the
    # rounding of the parts' means, 10⁻⁷, times their distance, 10⁻² or less.
    assert abs(got[0] - expected) <= 2 * 1e-7 * 1e-2


def test_variance_makes_good_for_the_rounding_of_the_mean() -> None:
    # The sum of these values is rounded to multiples of 4, so the first mean is wrong by far more
    # than its last digit; the differences to it are exact, and so is what they correct.
    noise = np.random.default_rng(4).integers(0, 1024, 30_000) / 1024
    exact = [Fraction(float(x)) for x in noise]
    mean = sum(exact) / len(exact)
    expected = float(sum((x - mean) ** 2 for x in exact) / len(exact))
    aggregation = aggs.variance("x", population=True)
    states = aggregation.update([pa.array(noise + 1e12)], np.zeros(noise.size, np.int64), 1)
    # Each of the n additions of squares rounds.
    assert aggregation.finish(states)[0].as_py() == pytest.approx(expected, rel=noise.size * EPS)


def test_variance_of_infinities_is_nan_without_a_warning() -> None:
    states = aggs.variance("x").update([pa.array([math.inf, 1.0, 2.0])], codes_of(0, 0, 1), 2)
    again = aggs.variance("x").merge(states, codes_of(0, 0), 1)
    assert math.isnan(aggs.variance("x").finish(again)[0].as_py())


@given(
    records=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.none() | st.floats(-1e6, 1e6),
            st.none() | st.integers(0, 10**6),
        ),
        max_size=20,
    ),
    seed=SEEDS,
)
def test_vwap_weighs_by_volume(records: list[Any], seed: int) -> None:
    got, values = run(aggs.vwap("price", "volume"), records, seed, pa.float64(), pa.int64())
    for key, pairs in values.items():
        total = sum(w for _, w in pairs)
        if total == 0:
            assert got[key] is None
            continue
        exact = sum(Fraction(v) * w for v, w in pairs) / total
        # Products, sums and the quotient round: n + 3 roundings of at most Σ|v|·w / Σw.
        size = float(sum(abs(Fraction(v)) * w for v, w in pairs) / total)
        assert abs(got[key] - float(exact)) <= (len(pairs) + 3) * EPS * size

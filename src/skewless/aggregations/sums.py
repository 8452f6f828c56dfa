"""Counts, sums, means and variances; sums of whole numbers are right or refused, never wrapped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from skewless.aggregations.aggregation import Aggregation, OfColumn
from skewless.aggregations.columns import (
    as_floats,
    bitmap_of,
    plain,
    plain_type,
    with_nulls,
    without_nulls,
)
from skewless.arrays import Floats, Ints

_MAX_DIGITS, _INT64_DIGITS = 38, 19
_SUM_DIGITS = 10  # what Spark adds to the digits of a sum of decimals
_MEAN_DIGITS = 4  # and to the digits and the scale of a mean


def number_type(owner: object, column: str, kind: pa.DataType) -> pa.DataType:
    """Return the plain type of a number; a column of nothing but nulls counts as double."""
    kind = plain_type(kind)
    if pt.is_null(kind):
        return pa.float64()
    is_decimal = pt.is_decimal(kind) and kind.precision <= _MAX_DIGITS
    if not (pt.is_integer(kind) or pt.is_floating(kind) or is_decimal):
        raise ValueError(
            f"{owner!r}: column {column!r} must be integers, floats or decimals of at most "
            f"{_MAX_DIGITS} digits, not {kind}"
        )
    return kind


def count_rows(codes: Ints, n_groups: int) -> Ints:
    """Return the number of rows of each group."""
    return np.bincount(codes, minlength=n_groups).astype(np.int64, copy=False)


def sum_floats(values: Floats, codes: Ints, n_groups: int) -> Floats:
    """Return the sum of each group."""
    return np.bincount(codes, values, minlength=n_groups).astype(np.float64, copy=False)


def exact_sums(values: Any, codes: Ints, n_groups: int) -> Any:
    """Return the sums of decimals without nulls, with more digits; null for a group without values.

    >>> exact_sums(pa.array([99, 1]).cast(pa.decimal128(19, 0)), np.array([1, 1]), 2).to_pylist()
    [None, Decimal('100')]
    """
    digits, scale = values.type.precision, values.type.scale
    # A sum of 2³¹ numbers, the most of an array, has at most ten digits more.
    is_narrow = digits + _SUM_DIGITS <= _MAX_DIGITS
    wide = pa.decimal128(_MAX_DIGITS, scale) if is_narrow else pa.decimal256(76, scale)
    rows = pa.table({"code": codes, "value": values.cast(wide)})
    found = rows.group_by("code", use_threads=False).aggregate([("value", "sum")])
    places = pc.index_in(pa.array(np.arange(n_groups)), found.column("code"))
    return found.column("value_sum").combine_chunks().take(places)


def added(owner: Aggregation, column: Any, codes: Ints, n_groups: int, kind: pa.DataType) -> Any:
    """Return the sum of each group as `kind`, null for a group without values."""
    values, codes = without_nulls(column, codes)
    is_null = count_rows(codes, n_groups) == 0
    if pt.is_floating(kind):
        return with_nulls(sum_floats(as_floats(values), codes, n_groups), is_null, kind)
    try:
        if pt.is_integer(kind):
            whole = values.cast(kind).to_numpy(zero_copy_only=False)
            largest = max(abs(int(whole.max())), abs(int(whole.min()))) if whole.size else 0
            if largest * whole.size < 1 << 63:
                sums = np.zeros(n_groups, np.int64)
                np.add.at(sums, codes, whole)
                return with_nulls(sums, is_null, kind)
            values = pa.array(whole).cast(pa.decimal128(_INT64_DIGITS, 0))
        return exact_sums(values, codes, n_groups).cast(kind)
    except pa.ArrowInvalid as error:
        name = owner.inputs[0] if owner.inputs else "count"
        text = f"{owner!r}: the sum of column {name!r} does not fit {kind}: {error}"
        raise OverflowError(text) from error


class _Summed(Aggregation):
    """Its states are sums, so adding partial results merges them."""

    def merge(self, states: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        return [added(self, state, codes, n_groups, state.type) for state in states]


@dataclass(frozen=True)
class Count(_Summed):
    """How many records there are; with a `column`, how many of them are not null in it.

    State: the count.
    """

    column: str | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The column, if there is one."""
        return () if self.column is None else (self.column,)

    def state_types(self, input_types: Sequence[pa.DataType]) -> list[pa.DataType]:
        """Return the type of the count."""
        return [pa.int64()]

    def update(self, columns: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Count records."""
        if self.column is not None:
            column = plain(columns[0])
            if column.null_count:
                codes = codes[bitmap_of(column)]
        return [pa.array(count_rows(codes, n_groups))]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        """Return the counts."""
        return plain(states[0]).fill_null(0)


@dataclass(frozen=True)
class Sum(_Summed, OfColumn):
    """The sum of the values that are not null; null where there are none.

    Integers add up to int64, floats to double, and decimals of p digits to decimals of
    min(38, p + 10) digits, as in Spark. A sum that does not fit is an `ArithmeticError`.
    State: the sum, null without values.
    """

    def state_types(self, input_types: Sequence[pa.DataType]) -> list[pa.DataType]:
        """Return the type of a sum of such numbers."""
        kind = number_type(self, self.column, input_types[0])
        if pt.is_decimal(kind):
            digits = min(_MAX_DIGITS, kind.precision + _SUM_DIGITS)
            return [pa.decimal128(digits, kind.scale)]
        return [pa.int64() if pt.is_integer(kind) else pa.float64()]

    def update(self, columns: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Add values."""
        kind = self.state_types([columns[0].type])[0]
        return [added(self, columns[0], codes, n_groups, kind)]


@dataclass(frozen=True)
class Mean(_Summed, OfColumn):
    """The mean of the values that are not null; null where there are none.

    Double for integers and floats; decimal(min(38, p + 4), min(38, s + 4)) for decimal(p, s),
    rounded half up, as in Spark. With p of 28 and more the mean has 38 digits: the state no longer
    tells how many the values had. State: the sum, null without values, and the count.
    """

    def state_types(self, input_types: Sequence[pa.DataType]) -> list[pa.DataType]:
        """Return the types of the sum and the count."""
        kind = number_type(self, self.column, input_types[0])
        if pt.is_decimal(kind):
            return [*Sum(self.column).state_types([kind]), pa.int64()]
        return [pa.float64(), pa.int64()]

    def update(self, columns: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Add and count values."""
        kind = self.state_types([columns[0].type])[0]
        n = Count(self.column).update(columns, codes, n_groups)[0]
        return [added(self, columns[0], codes, n_groups, kind), n]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        """Divide sums by counts."""
        sums, n = plain(states[0]), plain(states[1]).fill_null(0)
        if pt.is_floating(sums.type):
            return pc.divide(sums, pc.if_else(pc.equal(n, 0), None, n).cast(pa.float64()))
        digits = sums.type.precision
        if digits < _MAX_DIGITS:
            digits += _MEAN_DIGITS - _SUM_DIGITS
        kind = pa.decimal128(digits, min(_MAX_DIGITS, sums.type.scale + _MEAN_DIGITS))
        return _divided(self, sums, n, kind)


def _divided(owner: object, sums: Any, n: Any, kind: pa.DataType) -> Any:
    """Return sums / n, rounded half up (away from zero) to the scale of `kind`."""
    # So many digits that the quotient, if it is rounded, is rounded far from a half.
    context = Context(prec=2 * _MAX_DIGITS, rounding=ROUND_HALF_UP)
    unit, bound = Decimal(1).scaleb(-kind.scale), 10 ** (kind.precision - kind.scale)
    means: list[Decimal | None] = []
    for total, count in zip(sums.to_pylist(), n.to_pylist(), strict=True):
        if total is None or count == 0:
            means.append(None)
            continue
        mean = context.quantize(context.divide(total, Decimal(count)), unit)
        if mean.copy_abs() >= bound:
            raise OverflowError(f"{owner!r}: the mean of {count} values does not fit {kind}")
        means.append(mean)
    return pa.array(means, kind)


@dataclass(frozen=True)
class WeightedMean(_Summed):
    """Σ value·weight / Σ weight over the records with both: the VWAP of prices and volumes.

    Null where there are no such records or their weights add up to 0. Everything is read as
    double. State: Σ value·weight and Σ weight, null without records.
    """

    value: str
    weight: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """The value and the weight."""
        return (self.value, self.weight)

    def state_types(self, input_types: Sequence[pa.DataType]) -> list[pa.DataType]:
        """Return double twice."""
        for name, kind in zip(self.inputs, input_types, strict=True):
            number_type(self, name, kind)
        return [pa.float64(), pa.float64()]

    def update(self, columns: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Add weighted values and weights."""
        self.state_types([column.type for column in columns])
        values, weights = (plain(column) for column in columns)
        if values.null_count or weights.null_count:
            both = bitmap_of(values) & bitmap_of(weights)
            values, weights = (column.filter(pa.array(both)) for column in (values, weights))
            codes = codes[both]
        v, w = as_floats(values), as_floats(weights)
        with np.errstate(all="ignore"):  # infinities and NaN have their meaning
            products = v * w
        is_null = count_rows(codes, n_groups) == 0
        return [
            with_nulls(sum_floats(numbers, codes, n_groups), is_null, pa.float64())
            for numbers in (products, w)
        ]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        """Divide."""
        products, weights = states
        return pc.divide(products, pc.if_else(pc.equal(weights, 0.0), None, weights))


@dataclass(frozen=True)
class Variance(OfColumn):
    """The variance of the values that are not null: of a sample (n − 1), or of the population (n).

    Null without values, and for a sample of one. State: n, the mean, and m2 = Σ (value − mean)²;
    partial results merge by the formula of Chan et al., which never subtracts large squares.

    References
    ----------
    T. F. Chan, G. H. Golub, R. J. LeVeque: Algorithms for computing the sample variance: analysis
    and recommendations. The American Statistician 37(3), 1983, eq. 1.5.
    """

    population: bool = False

    def state_types(self, input_types: Sequence[pa.DataType]) -> list[pa.DataType]:
        """Return the types of n, mean and m2."""
        number_type(self, self.column, input_types[0])
        return [pa.int64(), pa.float64(), pa.float64()]

    def update(self, columns: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Take the mean first, then the squares around it."""
        self.state_types([columns[0].type])
        values, codes = without_nulls(columns[0], codes)
        one_each = np.ones(len(values), np.int64)
        no_squares = np.zeros(len(values), np.float64)
        return _combined(one_each, as_floats(values), no_squares, codes, n_groups)

    def merge(self, states: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Combine any number of partial results per group at once."""
        n, mean, m2 = (plain(state).fill_null(0) for state in states)
        n_values = n.to_numpy(zero_copy_only=False)
        return _combined(n_values, as_floats(mean), as_floats(m2), codes, n_groups)

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        """Divide m2 by n − 1 or n."""
        n = plain(states[0]).fill_null(0).to_numpy(zero_copy_only=False)
        m2 = as_floats(plain(states[2]).fill_null(0))
        divisor = n if self.population else n - 1
        is_null = divisor <= 0
        return with_nulls(self._scaled(m2 / np.where(is_null, 1, divisor)), is_null, pa.float64())

    def _scaled(self, variance: Floats) -> Floats:
        return variance


@dataclass(frozen=True)
class Stddev(Variance):
    """The square root of the variance, with the same state."""

    def _scaled(self, variance: Floats) -> Floats:
        return np.sqrt(variance)


def _combined(n: Ints, mean: Floats, m2: Floats, codes: Ints, n_groups: int) -> list[pa.Array]:
    """Return (n, mean, m2) per group of rows (n, mean, m2); a value is the row (1, value, 0)."""
    weight = n.astype(np.float64)
    total = np.zeros(n_groups, np.int64)
    np.add.at(total, codes, n)
    divisor = np.maximum(total, 1)
    with np.errstate(all="ignore"):  # infinities become NaN, as in Spark
        center = sum_floats(weight * mean, codes, n_groups) / divisor
        # A second step corrects the rounding error of the first mean.
        apart = np.where(n > 0, mean - center[codes], 0.0)
        rest = sum_floats(weight * apart, codes, n_groups)
        squares = sum_floats(m2 + weight * apart * apart, codes, n_groups)
        squares = np.maximum(squares - rest * rest / divisor, 0.0)
        center = center + rest / divisor
    return [pa.array(total), pa.array(center), pa.array(squares)]

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

_HALF = np.int64(32)
_LOW = np.int64(0xFFFFFFFF)
_LIMIT = np.int64(1 << 31)  # of the highest 32 bits, which carry the sign
_MAX_DIGITS = 38
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


def sum_integers(values: Ints, codes: Ints, n_groups: int) -> tuple[Ints, Ints]:
    """Return the sum of each group, and the groups whose sum does not fit 64 bits.

    >>> sums, too_large = sum_integers(np.array([2**62, 2**62, 5]), np.array([0, 0, 1]), 2)
    >>> sums.tolist()[1], too_large.tolist()
    (5, [0])
    """
    sums = np.zeros(n_groups, np.int64)
    if values.size == 0:
        return sums, np.zeros(0, np.int64)
    largest = max(abs(int(values.max())), abs(int(values.min())))
    if largest * values.size < 1 << 63:
        np.add.at(sums, codes, values)
        return sums, np.zeros(0, np.int64)
    high, low = _carried([values & _LOW, values >> _HALF], codes, n_groups)[::-1]
    too_large = np.flatnonzero((high < -_LIMIT) | (high >= _LIMIT))
    high[too_large] = 0
    return (high << _HALF) | low, too_large


def sum_decimals(column: Any, codes: Ints, n_groups: int, kind: pa.DataType) -> tuple[Any, Ints]:
    """Return the sum of each group as decimals of type `kind`, and the groups that do not fit.

    `column` is decimal128 of the same scale, without nulls.
    """
    words = np.frombuffer(column.buffers()[1] or b"", np.uint32).reshape(-1, 4)
    words = words[column.offset : column.offset + len(column)]
    parts = [words[:, 0], words[:, 1], words[:, 2], words[:, 3].view(np.int32)]
    limbs = _carried([part.astype(np.int64) for part in parts], codes, n_groups)
    bound = 10**kind.precision
    # Floats find the few sums near the bound, whole numbers decide.
    size = sum(limb.astype(np.float64) * 2.0 ** (32 * i) for i, limb in enumerate(limbs))
    suspects = np.flatnonzero(np.abs(size) > 0.99 * bound)
    exact = (sum(int(limb[g]) << (32 * i) for i, limb in enumerate(limbs)) for g in suspects)
    fits = np.array([-bound < total < bound for total in exact], np.bool_)
    too_large = suspects[~fits]
    out = np.empty((n_groups, 4), np.uint32)
    for i, limb in enumerate(limbs):
        limb[too_large] = 0
        out[:, i] = (limb & _LOW).astype(np.uint32)
    return pa.Array.from_buffers(kind, n_groups, [None, pa.py_buffer(out)]), too_large


def _carried(limbs: list[Ints], codes: Ints, n_groups: int) -> list[Ints]:
    """Return the sums per group of numbers of 32-bit limbs, lowest first, carries done.

    Limbs below 2³² of fewer than 2³¹ records sum to less than 2⁶³, so nothing is lost on the way;
    the highest limb is signed and may come out with more than 32 bits.
    """
    sums = []
    carry = np.zeros(n_groups, np.int64)
    for limb in limbs:
        total = carry.copy()
        np.add.at(total, codes, limb)
        carry = total >> _HALF
        sums.append(total & _LOW)
    sums[-1] = total
    return sums


def added(owner: Aggregation, column: Any, codes: Ints, n_groups: int, kind: pa.DataType) -> Any:
    """Return the sum of each group as `kind`, null for a group without values."""
    name = owner.inputs[0] if owner.inputs else "count"
    values, codes = without_nulls(column, codes)
    is_null = count_rows(codes, n_groups) == 0
    if pt.is_floating(kind):
        return with_nulls(sum_floats(as_floats(values), codes, n_groups), is_null, kind)
    if pt.is_integer(kind):
        try:
            whole = values.cast(kind).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid as error:  # an unsigned number of 2⁶³ or more
            raise OverflowError(f"{owner!r}: column {name!r}: {error}") from error
        sums, too_large = sum_integers(whole, codes, n_groups)
        result = with_nulls(sums, is_null, kind)
    else:
        wide = values.cast(pa.decimal128(_MAX_DIGITS, kind.scale))
        sums, too_large = sum_decimals(wide, codes, n_groups, kind)
        result = pc.if_else(pa.array(is_null), pa.scalar(None, kind), sums)
    if too_large.size:
        raise OverflowError(
            f"{owner!r}: the sum of column {name!r} does not fit {kind} "
            f"in {too_large.size} of {n_groups} groups, the first of them group {too_large[0]}"
        )
    return result


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

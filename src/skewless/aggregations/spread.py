"""Variance and standard deviation, numerically stable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skewless.aggregations.aggregation import OfColumn
from skewless.aggregations.columns import as_floats, plain, with_nulls, without_nulls
from skewless.aggregations.sums import number_type, sum_floats
from skewless.arrays import Floats, Ints


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

    def result_type(self, input_types: Sequence[pa.DataType]) -> pa.DataType:
        """Return double."""
        return self.state_types(input_types)[1]

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

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.kernels.distinct import estimate as reference_estimate
from reference.kernels.distinct import n_distinct, registers_of
from skewless.kernels.distinct import add, estimate, registers
from skewless.plumbing.compiling import kernel

# Many leading zeros are as likely as none.
hashes = st.builds(lambda bits, shift: bits >> shift, st.integers(0, 2**64 - 1), st.integers(0, 64))


@kernel
def _add_all(some_registers, some_hashes):
    for hashed in some_hashes:
        add(some_registers, hashed)


def counted(some_hashes, precision):
    result = registers(precision)
    _add_all(result, np.asarray(some_hashes, np.uint64))
    return result


@settings(deadline=None)
@given(precision=st.integers(7, 9), some_hashes=st.lists(hashes, max_size=60))
def test_registers_and_estimate_equal_the_oracle(precision, some_hashes):
    result = counted(some_hashes, precision)
    assert result.tolist() == registers_of(some_hashes, precision)
    # The same sums in another order: a few units in the last place.
    assert estimate(result) == pytest.approx(reference_estimate(result.tolist()), rel=1e-12)


def test_the_rarest_hashes_fit_a_register():
    for precision in (7, 18):
        assert counted([0], precision)[0] == 65 - precision
        assert counted([2**64 - 1], precision)[-1] == 1


def test_a_hash_met_before_changes_nothing():
    some_hashes = np.random.default_rng(1).integers(0, 2**64, 500, np.uint64)
    result = counted(some_hashes, 6)
    before = result.copy()
    assert not any(add(result, hashed) for hashed in some_hashes)
    np.testing.assert_array_equal(result, before)


# Linear counting, the change to the raw estimate at 2.5 m, and far beyond.
@pytest.mark.parametrize("precision", [8, 12])
@pytest.mark.parametrize("per_register", [0.05, 0.5, 2, 2.5, 3, 5, 20])
def test_estimates_are_within_three_standard_errors(precision, per_register):
    n = int(per_register * 2**precision)
    distinct = np.random.default_rng(11).integers(0, 2**64, n, np.uint64)
    assert n_distinct(distinct.tolist()) == n
    some_hashes = np.concatenate([distinct, distinct[::3]])  # repetitions must not count
    standard_error = 1.04 / np.sqrt(2**precision)
    assert estimate(counted(some_hashes, precision)) == pytest.approx(n, rel=3 * standard_error)


def test_few_keys_are_counted_nearly_exactly():
    distinct = np.random.default_rng(3).integers(0, 2**64, 30, np.uint64)
    # 30 balls into 4,096 bins: two in one bin with probability 10 %, so 29 at worst, and linear
    # counting adds back what it expects.
    assert estimate(counted(distinct, 12)) == pytest.approx(30, abs=1.5)


def test_nothing_counts_nothing():
    assert estimate(registers(12)) == 0

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.distinct import estimate as reference_estimate
from reference.distinct import n_distinct, registers_of
from skewless._jit import kernel
from skewless.kernels.distinct import (
    add,
    add_to,
    distinct_counts,
    estimate,
    estimate_of,
    merge,
    merged,
    registers,
    reset,
)

# Many leading zeros are as likely as none.
hashes = st.builds(lambda bits, shift: bits >> shift, st.integers(0, 2**64 - 1), st.integers(0, 64))


@kernel
def _add_all(some_registers, some_hashes):
    for hashed in some_hashes:
        add(some_registers, hashed)


@kernel
def _add_all_to(counts, counter, some_hashes):
    for hashed in some_hashes:
        add_to(counts, counter, hashed)


def counted(some_hashes, precision):
    result = registers(precision)
    _add_all(result, np.asarray(some_hashes, np.uint64))
    return result


@settings(deadline=None)
@given(precision=st.integers(4, 9), some_hashes=st.lists(hashes, max_size=60))
def test_registers_and_estimate_equal_the_oracle(precision, some_hashes):
    result = counted(some_hashes, precision)
    assert result.tolist() == registers_of(some_hashes, precision)
    # The same sums in another order: a few units in the last place.
    assert estimate(result) == pytest.approx(reference_estimate(result.tolist()), rel=1e-12)


def test_the_rarest_hashes_fit_a_register():
    for precision in (4, 18):
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
    assert estimate_of(distinct_counts(1, 12), 0) == 0


@settings(deadline=None)
@given(some=st.lists(hashes, max_size=40), others=st.lists(hashes, max_size=40))
def test_merging_counts_the_union(some, others):
    together = counted(some, 5)
    merge(together, counted(others, 5))
    assert together.tolist() == counted(some + others, 5).tolist()


@settings(deadline=None)
@given(streams=st.lists(st.lists(hashes, max_size=40), min_size=1, max_size=4))
def test_running_estimates_equal_those_from_all_registers(streams):
    counts = distinct_counts(len(streams), 4)
    for counter, stream in enumerate(streams):
        for hashed in stream:
            before = counts.registers[counter].tolist()
            grown = add_to(counts, counter, np.uint64(hashed))
            assert grown == (counts.registers[counter].tolist() != before)
        assert counts.registers[counter].tolist() == counted(stream, 4).tolist()
    for counter in range(len(streams)):
        # Registers beyond 49, which these hashes reach and no real stream does, are rounded.
        expected = estimate(counts.registers[counter])
        assert estimate_of(counts, counter) == pytest.approx(expected, rel=1e-12)


def test_running_estimates_of_a_long_stream_are_exactly_those_from_all_registers():
    some_hashes = np.random.default_rng(6).integers(0, 2**64, 20_000, np.uint64)
    counts = distinct_counts(3, 8)
    for cut in range(0, some_hashes.size, 1_000):
        _add_all_to(counts, 1, some_hashes[cut : cut + 1_000])
        assert estimate_of(counts, 1) == estimate(counts.registers[1])
    assert estimate_of(counts, 0) == estimate_of(counts, 2) == 0


def test_merged_counters_equal_one_that_saw_both_streams():
    some_hashes = np.random.default_rng(7).integers(0, 2**64, 3_000, np.uint64)
    one, other, both = (distinct_counts(2, 6) for _ in range(3))
    _add_all_to(one, 0, some_hashes[:2_000])
    _add_all_to(other, 0, some_hashes[1_000:])
    _add_all_to(other, 1, some_hashes[:10])
    _add_all_to(both, 0, some_hashes)
    _add_all_to(both, 1, some_hashes[:10])
    for array, expected in zip(merged(one, other), both, strict=True):
        np.testing.assert_array_equal(array, expected)
        assert array.dtype == expected.dtype


def test_a_reset_forgets_everything():
    counts = distinct_counts(2, 6)
    _add_all_to(counts, 1, np.arange(99, dtype=np.uint64))
    reset(counts)
    for array, expected in zip(counts, distinct_counts(2, 6), strict=True):
        np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("precision", [3, 19])
def test_precision_out_of_range_is_refused_by_name(precision):
    with pytest.raises(ValueError, match="precision"):
        registers(precision)
    with pytest.raises(ValueError, match="precision"):
        distinct_counts(1, precision)


def test_no_counters_are_refused_by_name():
    with pytest.raises(ValueError, match="n_counters"):
        distinct_counts(0, 8)

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.kernels.ring import ReferenceRing
from skewless.kernels.hashing import seed_array
from skewless.kernels.ring import candidates, owner, ring
from skewless.plumbing.compiling import kernel
from skewless.state import copy_state

HASHES = np.random.default_rng(5).integers(0, 2**64, 20_000, np.uint64)
hashes = st.integers(0, 2**64 - 1)


def reference(n_points, seed):
    return ReferenceRing(list(n_points), int(seed_array(seed, 1)[0]))


@kernel
def fill_owners(some_ring, some_hashes, out):
    for i in range(some_hashes.size):
        out[i] = owner(some_ring, some_hashes[i])


def owners_of(some_ring, some_hashes=HASHES):
    out = np.full(some_hashes.size, -1, np.int32)
    fill_owners(some_ring, some_hashes, out)
    return out


def candidates_of(some_ring, hashed, n):
    out = np.full(n, -1, np.int32)
    found = candidates(some_ring, np.uint64(hashed), n, out)
    assert (out[found:] == -1).all()
    return out[:found].tolist()


@settings(deadline=None)
@given(
    n_points=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    seed=st.integers(0, 2**32),
    some_hashes=st.lists(hashes, min_size=1, max_size=20),
    data=st.data(),
)
def test_owner_and_candidates_equal_a_sorted_list_with_bisect(n_points, seed, some_hashes, data):
    tested = ring(len(n_points), seed, virtual_nodes=1, capacities=n_points, unit=1.0)
    oracle = reference(n_points, seed)
    on_a_point = data.draw(st.sampled_from(oracle.points))[0]
    edges = [0, 2**64 - 1, on_a_point, on_a_point - 1, (on_a_point + 1) % 2**64]
    for hashed in some_hashes + edges:
        if hashed < 0:
            continue
        assert owner(tested, np.uint64(hashed)) == oracle.owner(hashed)
        for n in (1, 2, len(n_points), len(n_points) + 3):
            assert candidates_of(tested, hashed, n) == oracle.candidates(hashed, n)


def test_a_large_ring_equals_the_oracle():
    tested = ring(200, 3, virtual_nodes=50)
    oracle = reference([50] * 200, 3)
    some = HASHES[:300]
    assert owners_of(tested, some).tolist() == [oracle.owner(int(h)) for h in some]
    for hashed in some[:40]:
        assert candidates_of(tested, hashed, 8) == oracle.candidates(int(hashed), 8)


def test_candidates_are_distinct_begin_with_the_owner_and_extend_each_other():
    tested = ring(16, 1)
    for hashed in HASHES[:50]:
        before = []
        for n in range(1, 17):
            found = candidates_of(tested, hashed, n)
            assert found[: n - 1] == before
            assert len(set(found)) == n
            before = found
        assert before[0] == owner(tested, hashed)


def test_a_walk_changes_nothing_but_scratch_space():
    tested = ring(16, 1)
    before = copy_state(tested)
    candidates_of(tested, HASHES[0], 16)
    for field in set(tested._fields) - {"seen", "stamp"}:
        np.testing.assert_array_equal(getattr(tested, field), getattr(before, field))


def test_shares_deviate_by_one_over_the_root_of_the_points():
    virtual_nodes, n_workers = 128, 16
    deviations = np.array(
        [
            np.array(reference([virtual_nodes] * n_workers, seed).shares()) * n_workers - 1
            for seed in range(30)
        ]
    )
    # A share is Beta(v, v(n − 1)), of relative standard deviation √((1 − 1/n)/v) (nearly). 480
    # shares estimate it to about 1/√(2·480) = 3 % of itself; the margin is four times that.
    expected = np.sqrt((1 - 1 / n_workers) / virtual_nodes)
    assert np.sqrt((deviations**2).mean()) == pytest.approx(expected, rel=0.13)
    # The largest of 480 nearly normal deviations is around 3 standard deviations.
    assert np.abs(deviations).max() < 4.5 * expected


def test_owners_have_the_shares_of_their_arcs():
    shares = np.array(reference([128] * 16, 9).shares())
    counts = np.bincount(owners_of(ring(16, 9)), minlength=16)
    # Binomial: 4.5 standard deviations for the largest of 16.
    margin = 4.5 * np.sqrt(HASHES.size * shares * (1 - shares))
    assert (np.abs(counts - HASHES.size * shares) < margin).all()


@pytest.mark.parametrize("n_workers", [1, 4, 31])
def test_a_joining_worker_only_takes_and_takes_its_share(n_workers):
    before = owners_of(ring(n_workers, 4, virtual_nodes=256))
    after = owners_of(ring(n_workers + 1, 4, virtual_nodes=256))
    moved = before != after
    assert (after[moved] == n_workers).all()
    # Its share is 1/(n + 1) with relative standard deviation 1/√256, and counting it on 20,000
    # hashes adds less than that: 4 standard deviations of 1/16 · √2.
    assert moved.mean() == pytest.approx(1 / (n_workers + 1), rel=4 / 16 * np.sqrt(2))


def test_capacities_decide_the_shares():
    capacities = np.array([1.0, 2.0, 4.0, 1.0])
    counts = np.bincount(owners_of(ring(4, 2, virtual_nodes=1000, capacities=capacities)))
    shares = capacities / capacities.sum()
    # The fewest points of a worker are 500: relative standard deviation below 4.5 %, times 4.
    np.testing.assert_allclose(counts / HASHES.size, shares, rtol=0.18)


def test_only_relative_capacities_matter():
    one = ring(3, 2, capacities=[1.0, 2.0, 3.0])
    other = ring(3, 2, capacities=[10.0, 20.0, 30.0])
    np.testing.assert_array_equal(one.positions, other.positions)
    np.testing.assert_array_equal(one.workers, other.workers)


def test_a_change_of_capacity_moves_keys_only_to_or_from_that_worker():
    plain = ring(8, 6)
    unit = float(plain.unit[0])
    before = owners_of(plain)
    faster = owners_of(ring(8, 6, capacities=[1, 1, 1, 3, 1, 1, 1, 1], unit=unit))
    slower = owners_of(ring(8, 6, capacities=[1, 1, 1, 0.25, 1, 1, 1, 1], unit=unit))
    assert (faster != before).any()
    assert (faster[faster != before] == 3).all()
    assert (slower != before).any()
    assert (before[slower != before] == 3).all()


def test_the_slowest_worker_keeps_one_point():
    tested = ring(2, 6, virtual_nodes=10, capacities=[1e-9, 1.0])
    assert np.bincount(tested.workers[:-1]).tolist() == [1, 20]


def test_another_seed_is_another_ring():
    # Two independent rings of 16 agree on 1/16 of the hashes, up to their unequal shares.
    assert (owners_of(ring(16, 1)) == owners_of(ring(16, 2))).mean() < 0.1


@pytest.mark.parametrize(
    ("settings_", "name"),
    [
        ({"capacities": [1.0]}, "capacities"),
        ({"capacities": [1.0, -1.0]}, "capacities"),
        ({"capacities": [0.0, 0.0]}, "capacities"),
        ({"capacities": [1.0, np.nan]}, "capacities"),
    ],
)
def test_bad_arguments_are_refused_by_name(settings_, name):
    with pytest.raises(ValueError, match=name):
        ring(**{"n_workers": 2, "seed": 1, **settings_})


def test_a_worker_of_capacity_zero_has_no_point_and_the_others_keep_theirs():
    whole = ring(5, seed=3, virtual_nodes=8)
    left = ring(5, seed=3, virtual_nodes=8, capacities=[1, 1, 0, 1, 1], unit=1.0)
    keep = whole.workers[:-1] != 2
    assert left.positions[:-1].tolist() == whole.positions[:-1][keep].tolist()
    assert left.workers[:-1].tolist() == whole.workers[:-1][keep].tolist()
    out = np.full(5, -1, np.int32)
    assert candidates(left, np.uint64(77), 5, out) == 4  # and the walk ends
    assert sorted(out[:4].tolist()) == [0, 1, 3, 4]

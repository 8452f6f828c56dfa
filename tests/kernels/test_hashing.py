import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.kernels import hashing as reference
from skewless.arrays import read_only
from skewless.kernels.hashing import seed_array, seeded_all, unseeded

_WORDS = st.sampled_from([0, 1, 2**32, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)


@settings(deadline=None)
@given(keys=st.lists(_WORDS, max_size=50), seed=_WORDS)
def test_seeded_hashes_are_those_of_the_reference_and_have_a_way_back(keys, seed):
    seeds = np.array([seed], np.uint64)
    hashes = np.empty(len(keys), np.uint64)
    seeded_all(read_only(np.array(keys, np.uint64)), seeds, hashes)
    assert hashes.tolist() == [reference.seeded(key, seed) for key in keys]
    assert unseeded(hashes, seeds).tolist() == keys


@settings(deadline=None)
@given(hashes=st.lists(_WORDS, max_size=50), seed=st.integers(0, 2**64 - 1))
def test_every_number_is_the_hash_of_one_key(hashes, seed):
    seeds = seed_array(seed, 2)  # only the first counts
    keys = unseeded(np.array(hashes, np.uint64), seeds)
    assert [reference.seeded(key, int(seeds[0])) for key in keys.tolist()] == hashes

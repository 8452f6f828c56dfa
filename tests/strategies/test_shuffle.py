import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import shuffle as reference
from skewless.strategies import Shuffle
from strategies.streams import as_keys, routed, skewed, some_keys, some_seeds, some_workers


@settings(deadline=None)
@given(keys=some_keys, n_workers=some_workers, seed=some_seeds, source=st.integers(0, 200))
def test_it_equals_its_oracle(keys, n_workers, seed, source):
    expected = reference.route(keys, n_workers, seed, source=source)
    assert routed(Shuffle(), as_keys(keys), n_workers, seed, source=source).tolist() == expected


def test_it_equals_its_oracle_on_a_long_stream():
    keys = skewed()
    assert routed(Shuffle(), keys, 17, 5).tolist() == reference.route(keys, 17, 5)


@pytest.mark.parametrize("n_records", [1, 16, 17, 1_000, 1_003])
def test_the_loads_of_one_source_differ_by_at_most_one(n_records):
    loads = np.bincount(routed(Shuffle(), skewed(n_records), 17, 2), minlength=17)
    assert loads.max() - loads.min() <= 1


def test_sources_begin_at_different_workers():
    one_record = as_keys([0])
    firsts = [int(routed(Shuffle(), one_record, 9, 3, source=s)[0]) for s in range(9)]
    assert sorted(firsts) == list(range(9))

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.kernels.space_saving import head, is_hot
from skewless.state import Unsound, check_state


@settings(deadline=None)
@given(
    keys=st.lists(st.integers(0, 8), max_size=120),
    n_workers=st.integers(1, 9),
    hot_factor=st.sampled_from([0.5, 1.0, 2.0]),
)
def test_a_key_is_hot_above_its_share_if_all_keys_have_a_place(keys, n_workers, hot_factor):
    tested, counts = head(n_workers, hot_factor, capacity=9), Counter()
    for n_records, key in enumerate(keys, start=1):
        counts[key] += 1
        # The same arithmetic as the kernel's, so that a share on the border is on the same side.
        expected = counts[key] > hot_factor / n_workers * n_records
        assert is_hot(tested, np.uint64(key)) == expected


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), max_size=200), st.integers(1, 9))
def test_without_a_place_for_every_key_no_hot_key_is_missed(keys, n_workers):
    tested, counts = head(n_workers, 1.0, capacity=None), Counter()
    for n_records, key in enumerate(keys, start=1):
        counts[key] += 1
        if counts[key] > n_records / n_workers:
            assert is_hot(tested, np.uint64(key))
        else:
            is_hot(tested, np.uint64(key))


@pytest.mark.parametrize(("n_workers", "factor", "places"), [(8, 1.0, 8), (8, 2.0, 4), (5, 2.0, 3)])
def test_there_are_as_many_places_as_there_can_be_hot_keys(n_workers, factor, places):
    assert head(n_workers, factor, None).summary.keys.size == places


def test_another_threshold_is_refused():
    with pytest.raises(Unsound, match="threshold"):
        check_state(head(8, 1.0, None), head(9, 1.0, None))

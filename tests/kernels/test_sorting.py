import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.kernels.sorting import sort_descending

numbers = st.floats(allow_nan=False)


@settings(deadline=None)
@given(st.lists(numbers, max_size=70), st.lists(numbers, max_size=5))
def test_the_first_values_are_sorted_and_the_others_stay(first, others):
    values = np.array(first + others)
    sort_descending(values, len(first))
    assert values.tolist() == sorted(first, reverse=True) + others


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=2, max_size=70))
def test_ties_are_kept(values):
    tested = np.array(values)
    sort_descending(tested, len(values))
    assert tested.tolist() == sorted(values, reverse=True)

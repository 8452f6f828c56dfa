"""The merges of sources, and the part of each in them."""

import numpy as np
import pytest

from skewless.kernels.merge_history import (
    N_MERGES,
    OWN,
    RECENT,
    add_merge,
    follow,
    merge_history,
    scale_of,
)
from skewless.state import Unsound, check_state

HORIZON = 100


def merge(histories, n_new):
    merged = merge_history()
    add_merge(merged, histories, n_new, HORIZON)
    return merged


def test_a_message_counts_in_its_own_merge_however_many_follow():
    for n_missed in (0, 1, N_MERGES - 2):
        source = merge_history()
        merged = merge([source] * 4, 400)
        for _ in range(n_missed):
            merged = merge([merged], 7)
        follow(source, merged, 100, HORIZON)
        assert scale_of(source) == 4
        assert source.sums[OWN] / source.sums[RECENT] <= 1 / 4
        np.testing.assert_array_equal(source.times, merged.times)


def test_a_source_that_was_away_too_long_is_as_a_new_one_until_its_next_message():
    source = merge_history()
    follow(source, merge([source] * 4, 400), 100, HORIZON)
    merged = merge([source] * 4, 400)
    for _ in range(N_MERGES):
        merged = merge([merged], 7)
    follow(source, merged, 100, HORIZON)
    assert source.sums[OWN] == 0
    assert scale_of(source) == 4  # by the messages whose merges it knows


def test_a_new_source_expects_the_part_that_the_others_have():
    merged = merge([merge_history()] * 8, 16_000)
    merged = merge([merged], 1)  # a merge of one record says little about the number of sources
    source = merge_history()
    follow(source, merged, 0, HORIZON)
    assert scale_of(source) == pytest.approx(8, rel=0.001)


def test_a_merge_without_records_leaves_no_trace():
    merged = merge([merge_history()] * 2, 50)
    again = merge([merged] * 7, 0)
    for one, other in zip(merged, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_times_out_of_order_are_refused():
    history = merge_history()
    history.times[0] = 1
    with pytest.raises(Unsound, match="times must be in order"):
        check_state(history, merge_history())

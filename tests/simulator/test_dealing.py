"""Records of the stream and those of its sources."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skewless.simulator.records import deal, refill, shares, stretches


@given(
    n_records=st.integers(0, 40),
    n_sources=st.integers(1, 9),
    first=st.integers(0, 8),
    left=st.lists(st.integers(0, 3), min_size=9, max_size=9),
)
def test_each_source_gets_its_records_in_order(n_records, n_sources, first, left):
    first %= n_sources
    values = np.arange(n_records, dtype=np.float64)
    sources = (first + np.arange(n_records)) % n_sources
    lengths = shares(n_records, first, n_sources)
    assert lengths.tolist() == np.bincount(sources, minlength=n_sources).tolist()
    begins, size = stretches(lengths)
    dealt = np.full(size, -1.0)
    deal(values, first, begins, dealt)
    for source in range(n_sources):
        own = dealt[begins[source] : begins[source] + lengths[source]]
        assert own.tolist() == values[sources == source].tolist()
    # The same behind what each source has left.
    old_lengths = np.array(left[:n_sources])
    head, old_size = stretches(old_lengths)
    old = -np.arange(1.0, old_size + 1)
    begins, size = stretches(old_lengths + lengths)
    both = np.zeros(size)
    refill(old, head, head + old_lengths, values, first, begins, both)
    for source in range(n_sources):
        expected = [*old[head[source] :][: left[source]], *values[sources == source]]
        own = both[begins[source] : begins[source] + old_lengths[source] + lengths[source]]
        assert own.tolist() == expected

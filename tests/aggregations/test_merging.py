"""Whether an aggregation merges: asked of a ready one, of a user's, and of one that runs it."""

from __future__ import annotations

from aggregations.aggregators import Words
from aggregations.test_vector_aggregator import Total, Unmergeable
from skewless import aggregations as aggs
from skewless.aggregations.merging import merges


def test_only_a_class_that_says_so_does_not_merge() -> None:
    for one in (aggs.count(), aggs.distinct("v", exact=False), Words(), aggs.PerColumn(Total())):
        assert merges(one)
    assert not merges(Unmergeable())
    assert not merges(aggs.PerColumn(Unmergeable()))

"""Whether the partial results of an aggregation can be merged."""

from __future__ import annotations

from skewless.aggregations.aggregator import PerKey
from skewless.aggregations.vector_aggregator import PerColumn


def merges(aggregation: object) -> bool:
    """Return whether partial results merge; only a class of a user can say `merges = False`.

    >>> from skewless.aggregations import count
    >>> merges(count())
    True
    """
    asked = aggregation.aggregator if isinstance(aggregation, PerKey | PerColumn) else aggregation
    return bool(getattr(asked, "merges", True))

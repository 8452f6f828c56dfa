"""Correlation clustering of similar texts of a key, by VOTE and then GREEDY."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skewless import aggregations
from skewless.apps.vote_and_greedy import Clusters, first_clusters, greedy, vote
from skewless.apps.windowed import Windowed
from skewless.spark.aggregation.choosing import PLAIN


@dataclass(frozen=True)
class Clustering(Windowed):
    """Clusters of similar texts per key, such as names of people per post code.

    A pair of texts agrees if they are similar enough, and disagrees otherwise. The best clusters
    maximise the pairs that agree minus those that disagree; to find them is NP-hard. So each worker
    clusters its texts with VOTE, and GREEDY then improves the clusters of all workers. Equal texts
    count once. All pairs of a key's texts are compared, which takes about 12 bytes per pair.

    If clusters are clear, so that texts of a cluster agree with each other and with no others,
    every strategy finds them. If not, the result depends on which worker had which texts, as in the
    paper.

    Parameters
    ----------
    key, text
        The columns of a record.
    alike
        How similar two texts must be to agree, above 0 and at most 1: the share of their letter
        pairs that both have.

    References
    ----------
    Dalton, section 5 (applications), figure 9c. VOTE: Elsner and Schudy 2009. GREEDY: Gruenheid,
    Dong and Srivastava 2014. Dalton does not say how similar records of its voters must be; that
    is `alike`.
    """

    roles: ClassVar[tuple[str, ...]] = ("key", "text", "time")
    ranks: ClassVar[tuple[str, ...]] = ("texts",)

    key: str = "postcode"
    text: str = "name"
    alike: float = 0.7

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.alike <= 1:
            raise ValueError(f"--alike must be above 0 and at most 1, not {self.alike!r}")
        if self.strategy == PLAIN:
            raise ValueError(
                "--strategy: 'plain' needs aggregations that Spark has, and clustering is not one: "
                "use 'auto', 'local' or a name that `skewless strategies` lists"
            )

    def require_stream(self) -> None:
        """Raise ValueError without a watermark: windows are clustered when they are complete."""
        if self.watermark is None:
            raise ValueError("--stream needs --watermark here, with --window and --time")

    @property
    def aggs(self) -> Mapping[str, Any]:  # type: ignore[override]
        """The clusters."""
        return {"clusters": VoteThenGreedy(self.alike)}

    def choose(self, found: DataFrame) -> DataFrame:
        """Return the clusters with their number, and the number of texts in them."""
        n_texts = F.aggregate("clusters", F.lit(0), lambda n, cluster: n + F.size(cluster))
        columns = [name for name in found.columns if name != "clusters"]
        counts = [n_texts.alias("texts"), F.size("clusters").alias("n_clusters")]
        return found.select(*columns, *counts, "clusters")


class VoteThenGreedy(aggregations.Aggregator[Clusters]):
    """VOTE over the records of a worker, GREEDY over the clusters of all workers.

    **Deviation from the paper**: GREEDY runs once for a key, when the clusters of all workers are
    together, and not at each merge of two of them. So the result does not depend on the order in
    which they arrive, even after a retry.

    A text that occurs again, in another chunk or micro-batch, may get another cluster there. GREEDY
    begins with each text in the first of its clusters. So only first clusters are kept: at most one
    for each different text.
    """

    inputs = ("text",)
    state = "array<array<string>>"
    result = "array<array<string>>"

    def __init__(self, alike: float) -> None:
        self.alike = alike

    def zero(self) -> Clusters:
        """Return no clusters."""
        return []

    def update(self, state: Clusters, records: pa.RecordBatch) -> Clusters:
        """Cluster these records by VOTE."""
        texts = records["text"].drop_null().unique().to_pylist()
        return self.merge(state, vote(texts, self.alike))

    def merge(self, a: Clusters, b: Clusters) -> Clusters:
        """Return the clusters of both that are the first of some text, in a fixed order."""
        return first_clusters([*a, *b])

    def finish(self, state: Clusters) -> Clusters:
        """Improve the clusters by GREEDY."""
        return greedy(state, self.alike)

"""DDoS flows: how many flows each source address sends, and to how many destinations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skewless import aggregations
from skewless.apps.windowed import Windowed
from skewless.plumbing.arguments import whole


@dataclass(frozen=True)
class DdosFlows(Windowed):
    """The flows of each source address, and the distinct destinations among them.

    An address that floods one destination has many flows and few destinations; one that scans a
    network has about as many of both.

    Parameters
    ----------
    source, destination
        The columns of a flow: the address that it comes from, and the one that it goes to.
    least
        Only sources with at least this many flows, in a window if there are windows.
    strategy, workers, seed, time, window, slide, watermark
        See `Windowed`.

    References
    ----------
    Pd-Stream, section VI (data set DS); figures 9 and 11. The paper routes flows by their source
    address and does not say what is computed; these two results are ours.
    """

    roles: ClassVar[tuple[str, ...]] = ("source", "destination", "time")
    ranks: ClassVar[tuple[str, ...]] = ("flows",)

    source: str = "source"
    destination: str = "destination"
    least: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.least, "--least", least=0)

    def compute(self, records: DataFrame, ledger: str | None = None) -> DataFrame:
        """Return a row per source address, or per window and source address."""
        aggs = {"flows": aggregations.count(), "destinations": aggregations.distinct("destination")}
        return self.aggregated(self.read(records), "source", aggs, ledger)

    def choose(self, found: DataFrame) -> DataFrame:
        """Return the sources with many flows."""
        return found.where(F.col("flows") >= self.least)

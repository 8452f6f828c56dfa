"""TPC-H Q5 as a continuous query: the revenue of a region's local suppliers, in windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.apps.computation import Computation, require_duration, require_whole_keys
from skewless.apps.tpch_tables import Tables
from skewless.plumbing.arguments import text
from skewless.spark import join
from skewless.spark.aggregation.windows import WINDOW, microseconds
from skewless.spark.state.arguments import AUTO
from skewless.strategy import AnyStrategy

#: The windows of a pair are made one by one.
_MOST_WINDOWS = 1_000


@dataclass(frozen=True)
class TpchQ5(Computation[Tables]):
    """The revenue of each nation of a region, from customers and suppliers of that nation.

    Orders and line items are streams; the other tables are known. Query 5 asks for orders of a
    year. As a continuous query it asks for each window of event time: an order counts at its
    `o_orderdate`, a line item at its `l_shipdate`, and both must be in the window.

    Spark joins orders with their customers, and line items with their suppliers. `join` joins the
    two by the key of the order. Hot orders are moved and not spread: each order is on one worker,
    with its line items, as in the paper. Money is decimal, so results are exact.

    Parameters
    ----------
    region
        The name of the region.
    window
        The length of a window.
    slide
        The time from the start of a window to the start of the next; None: a fifth of the window.
    watermark
        How late a record of a stream may be; every window is then written once. None: as late as a
        window is long, and each micro-batch writes all results again.
    strategy, workers, seed
        See `Computation`. The strategy must keep each key on one worker.

    References
    ----------
    Mixed, section V (Dynamics on TPC-H for Q5), figure 16: foreign keys with z = 0.8, a window of 5
    minutes. The paper does not say which record is in a window when, nor the slide. It has a
    keyed operator for every join; here the small tables are joined by Spark.
    """

    ranks: ClassVar[tuple[str, ...]] = ("revenue",)

    region: str = "ASIA"
    window: str = "5 minutes"
    slide: str | None = None
    watermark: str | None = None
    strategy: str | AnyStrategy = field(default=AUTO, kw_only=True)

    def __post_init__(self) -> None:
        text(self.region, "--region", "the name of a region")
        require_duration("--window", self.window, least=1)
        require_duration("--slide", self.slide, least=1)
        require_duration("--watermark", self.watermark)
        length, step = self._lengths
        if step > length:
            raise ValueError(f"--slide must be at most --window, {self.window}, not {self.slide!r}")
        if length > _MOST_WINDOWS * step:
            raise ValueError(
                f"--slide must be at least a {_MOST_WINDOWS:,}th of --window, {self.window}, "
                f"not {self.slide!r}"
            )
        require_whole_keys(self.strategy)

    @property
    def about(self) -> tuple[str, ...]:
        """The window and the nation."""
        return (WINDOW, "nation")

    @property
    def mode(self) -> str:
        """How a stream is written: with a watermark, every window once, when it is complete."""
        return "complete" if self.watermark is None else "append"

    def compute(self, records: Tables, ledger: str | None = None) -> DataFrame:
        """Return the revenue per window and nation."""
        length, _ = self._lengths
        late = length if self.watermark is None else microseconds(self.watermark)
        orders, items = self._sides(records)
        pairs = join(
            orders,
            items,
            "order",
            within=f"{length} microseconds",
            watermark=("time", f"{late} microseconds"),
            spread={},  # the paper compares how whole keys are placed
            strategy=self.strategy,
            workers=self.workers,
            seed=self.seed,
            ledger=ledger,
        )
        rows = self._in_windows(pairs.where(F.col("nation") == F.col("nation_right")))
        if pairs.isStreaming and self.watermark is not None:
            # The end of a window is at most its length after the earlier record of a pair. So this
            # watermark is never ahead of that of `join`, and no later pair is too late.
            rows = rows.withWatermark("end", f"{length + late} microseconds")
        revenue = rows.groupBy("start", "end", "nation").agg(F.sum("revenue").alias("revenue"))
        return revenue.select(F.struct("start", "end").alias(WINDOW), "nation", "revenue")

    def _sides(self, tables: Tables) -> tuple[DataFrame, DataFrame]:
        """Return the orders of customers of the region, and the line items of its suppliers."""
        region = tables["region"].where(F.col("r_name") == self.region)
        nations = tables["nation"].join(region, F.col("n_regionkey") == F.col("r_regionkey"))
        customers = tables["customer"].join(nations, F.col("c_nationkey") == F.col("n_nationkey"))
        suppliers = tables["supplier"].join(nations, F.col("s_nationkey") == F.col("n_nationkey"))
        orders = tables["orders"].join(customers, F.col("o_custkey") == F.col("c_custkey"))
        items = tables["lineitem"].join(suppliers, F.col("l_suppkey") == F.col("s_suppkey"))
        revenue = F.col("l_extendedprice") * (1 - F.col("l_discount"))
        nation = F.col("n_name").alias("nation")
        return (
            orders.select(F.col("o_orderkey").alias("order"), nation, _time("o_orderdate")),
            items.select(
                F.col("l_orderkey").alias("order"),
                nation,
                revenue.alias("revenue"),
                _time("l_shipdate"),
            ),
        )

    def _in_windows(self, pairs: DataFrame) -> DataFrame:
        """Return each pair once for every window that both of its records are in."""
        length, step = self._lengths
        earlier = F.unix_micros(F.least("time", "time_right"))
        later = F.unix_micros(F.greatest("time", "time_right"))
        after = later - length  # windows that begin at this time or before end too early
        first = after - F.pmod(after, F.lit(step)) + step
        last = earlier - F.pmod(earlier, F.lit(step))
        # Some pairs are in no window together, and a sequence would count down for them.
        rows = pairs.where(first <= last).withColumn(
            "begin", F.explode(F.sequence(first, last, F.lit(step)))
        )
        return rows.select(
            F.timestamp_micros("begin").alias("start"),
            F.timestamp_micros(F.col("begin") + length).alias("end"),
            "nation",
            "revenue",
        )

    @property
    def _lengths(self) -> tuple[int, int]:
        """The length of a window and the step to the next, in microseconds."""
        length = microseconds(self.window)
        return length, max(1, length // 5) if self.slide is None else microseconds(self.slide)


def _time(name: str) -> Column:
    return F.col(name).alias("time")

"""Applications that aggregate by key, or by window and key.

`docs/applications.md` says which figures of which papers are measured with each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import Window as Rows
from pyspark.sql import functions as F

from skewless import aggregations
from skewless.apps.computation import Application, as_time, require_duration
from skewless.plumbing.arguments import whole
from skewless.spark import Window, aggregate
from skewless.spark.aggregation.windows import WINDOW, microseconds

#: Letters, their accents, digits and underscores after a `#`, in any script.
PATTERN = r"#([\p{L}\p{M}\p{N}_]+)"


@dataclass(frozen=True, kw_only=True)
class Windowed(Application):
    """An application whose results are aggregates, with or without windows of event time.

    Parameters
    ----------
    time, window
        The column with the time of a record, and the length of a window; None: no windows.
    slide
        The time from the start of a window to the start of the next; None: windows do not overlap.
    watermark
        How late a record of a stream may be.
    """

    #: What is computed for each key, by the columns of the results; the key is the first role.
    aggs: ClassVar[Mapping[str, Any]] = {}

    time: str | None = None
    window: str | None = None
    slide: str | None = None
    watermark: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.time is None) != (self.window is None):
            raise ValueError("--window and --time go together: a length, and the column of times")
        for option, value in (("--slide", self.slide), ("--watermark", self.watermark)):
            if value is not None and self.window is None:
                raise ValueError(f"{option} goes with --window and --time")
        require_duration("--window", self.window, least=1)
        require_duration("--slide", self.slide, least=1)
        require_duration("--watermark", self.watermark)
        if self.slide is not None and microseconds(self.slide) > microseconds(str(self.window)):
            raise ValueError(f"--slide must be at most --window, {self.window}, not {self.slide!r}")

    @property
    def mode(self) -> str:
        """How a stream is written.

        With a watermark, every window once, when it is complete; else each micro-batch writes all
        results.
        """
        return "complete" if self.watermark is None else "append"

    @property
    def ranks(self) -> tuple[str, ...]:  # type: ignore[override]
        """The first of the results."""
        return tuple(self.aggs)[:1]

    def compute(self, records: DataFrame, ledger: str | None = None) -> DataFrame:
        """Return a row per key, or per window and key."""
        return self.aggregated(self.read(records), self.roles[0], ledger)

    def aggregated(
        self, records: DataFrame, key: str | list[str], ledger: str | None, time: str = "time"
    ) -> DataFrame:
        """Return aggregates by key, or by window and key if there are windows."""
        return aggregate(
            records,
            key,
            self.aggs,
            window=None if self.time is None else Window(time, str(self.window), self.slide),
            watermark=self.watermark if records.isStreaming else None,
            strategy=self.strategy,
            workers=self.workers,
            seed=self.seed,
            ledger=ledger,
        )


@dataclass(frozen=True, kw_only=True)
class Crowded(Windowed):
    """One whose results are only keys with at least `least` of what ranks them."""

    least: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.least, "--least", least=0)

    def choose(self, found: DataFrame) -> DataFrame:
        """Return the keys that have enough."""
        return found.where(F.col(self.ranks[0]) >= self.least)


@dataclass(frozen=True)
class WordCount(Windowed):
    """How many records each key has, or each window and key; `key` are its columns."""

    key: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.key or not all(self.key):
            raise ValueError(f"--key must name at least one column, not {','.join(self.key)!r}")
        super().__post_init__()

    def columns(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the columns that are read, by option."""
        return {"--key": self.key, "--time": () if self.time is None else (self.time,)}

    @property
    def about(self) -> tuple[str, ...]:
        """The columns of the key, and the windows."""
        return (WINDOW, *self.key)

    @property
    def aggs(self) -> Mapping[str, Any]:  # type: ignore[override]
        """The counts, under a name that is not in the key."""
        return {"count" if "count" not in self.key else "n": aggregations.count()}

    def compute(self, records: DataFrame, ledger: str | None = None) -> DataFrame:
        """Return the counts; the columns of the key keep their names."""
        if self.time is not None and self.time in records.columns:
            records = records.withColumn(self.time, as_time(records, self.time))
        return self.aggregated(records, list(self.key), ledger, str(self.time))


@dataclass(frozen=True)
class Vwap(Windowed):
    """The volume-weighted average price: what was paid for a symbol, divided by its volume.

    A row has the symbol, the VWAP, the traded volume and the number of trades. A trade without a
    price or a size counts as a trade but not in the VWAP. Its size, if it has one, counts in the
    volume. The fields name the columns of a trade.
    """

    roles: ClassVar[tuple[str, ...]] = ("symbol", "price", "size", "time")
    numbers: ClassVar[tuple[str, ...]] = ("price", "size")
    ranks: ClassVar[tuple[str, ...]] = ("volume",)
    aggs: ClassVar[Mapping[str, Any]] = {
        "vwap": aggregations.vwap("price", "size"),
        "volume": aggregations.sum("size"),
        "trades": aggregations.count(),
    }

    symbol: str = "symbol"
    price: str = "price"
    size: str = "size"


@dataclass(frozen=True)
class Hashtags(Windowed):
    """How often each hashtag occurs; upper and lower case are the same.

    Parameters
    ----------
    text
        The column with texts, whose hashtags begin with `#`.
    hashtag
        The column with one hashtag per record instead, without its `#`.
    top
        Only this many of the most used hashtags, in each window if there are windows; None: all.
    """

    roles: ClassVar[tuple[str, ...]] = ("text", "hashtag", "time")
    aggs: ClassVar[Mapping[str, Any]] = {"count": aggregations.count()}

    text: str | None = None
    hashtag: str | None = None
    top: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.text is None) == (self.hashtag is None):
            raise ValueError("give one of --text COLUMN and --hashtag COLUMN")
        if self.top is not None:
            whole(self.top, "--top", least=1, most=(1 << 31) - 1)

    @property
    def about(self) -> tuple[str, ...]:
        """The hashtag, wherever it was read, and the windows."""
        return (WINDOW, "hashtag")

    def compute(self, records: DataFrame, ledger: str | None = None) -> DataFrame:
        """Return a row per hashtag, or per window and hashtag."""
        found = self.read(records)
        if self.text is not None:
            every = F.regexp_extract_all("text", F.lit(PATTERN), F.lit(1))
            found = found.withColumn("hashtag", F.explode(every)).drop("text")
        found = found.withColumn("hashtag", F.lower("hashtag"))
        return self.aggregated(found, "hashtag", ledger)

    def choose(self, found: DataFrame) -> DataFrame:
        """Return the most used hashtags; among equal ones, the first by name."""
        if self.top is None:
            return found
        if self.window is None:
            return found.orderBy(F.desc("count"), "hashtag").limit(self.top)
        by = Rows.partitionBy("window").orderBy(F.desc("count"), "hashtag")
        place = F.row_number().over(by)
        return found.withColumn("_place", place).where(F.col("_place") <= self.top).drop("_place")


@dataclass(frozen=True)
class RoadCondition(Crowded):
    """The distinct vehicles and the mean speed per cell and period, `window`.

    Many vehicles mean a crowded road, and a jam if they are slow. A vehicle that is in a cell twice
    in a period counts once. The mean speed is that of the records. The fields name the columns of
    a position. If the vehicle is None, positions are counted instead.
    """

    roles: ClassVar[tuple[str, ...]] = ("cell", "vehicle", "speed", "time")
    numbers: ClassVar[tuple[str, ...]] = ("speed",)

    cell: str = "cell"
    vehicle: str | None = "vehicle"
    speed: str = "speed"
    time: str | None = field(default="ts", kw_only=True)
    window: str | None = field(default="5 minutes", kw_only=True)

    @property
    def aggs(self) -> Mapping[str, Any]:  # type: ignore[override]
        """The vehicles or positions, and their mean speed."""
        known = self.vehicle is not None
        many = {"vehicles": aggregations.distinct("vehicle")}
        counted = many if known else {"positions": aggregations.count()}
        return {**counted, "speed": aggregations.mean("speed")}


@dataclass(frozen=True)
class DdosFlows(Crowded):
    """The flows of each source address, and the distinct destinations among them.

    An address that floods one destination has many flows and few destinations; one that scans a
    network has about as many of both. The fields name the columns of a flow.
    """

    roles: ClassVar[tuple[str, ...]] = ("source", "destination", "time")
    aggs: ClassVar[Mapping[str, Any]] = {
        "flows": aggregations.count(),
        "destinations": aggregations.distinct("destination"),
    }

    source: str = "source"
    destination: str = "destination"

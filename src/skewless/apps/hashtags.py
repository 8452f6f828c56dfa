"""Hashtags: how often each of them is used in texts, and the most used ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from skewless import aggregations
from skewless.apps.windowed import Windowed
from skewless.plumbing.arguments import whole

#: Letters, their accents, digits and underscores after a `#`, in any script.
PATTERN = r"#([\p{L}\p{M}\p{N}_]+)"


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
    strategy, workers, seed, time, window, slide, watermark
        See `Windowed`.

    References
    ----------
    PStream, section 6.1 (applications); figures 22 to 24. The hashtags of Dalton's figures 7 and 8
    and of Pd-Stream's figures 9 and 11 are counted in the same way.
    """

    roles: ClassVar[tuple[str, ...]] = ("text", "hashtag", "time")
    ranks: ClassVar[tuple[str, ...]] = ("count",)

    text: str | None = None
    hashtag: str | None = None
    top: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.text is None) == (self.hashtag is None):
            raise ValueError("give one of --text COLUMN and --hashtag COLUMN")
        if self.top is not None:
            whole(self.top, "--top", least=1, most=(1 << 31) - 1)

    def compute(self, records: DataFrame, ledger: str | None = None) -> DataFrame:
        """Return a row per hashtag, or per window and hashtag."""
        found = self.read(records)
        if self.text is not None:
            every = F.regexp_extract_all("text", F.lit(PATTERN), F.lit(1))
            found = found.withColumn("hashtag", F.explode(every)).drop("text")
        found = found.withColumn("hashtag", F.lower("hashtag"))
        return self.aggregated(found, "hashtag", {"count": aggregations.count()}, ledger)

    def choose(self, found: DataFrame) -> DataFrame:
        """Return the most used hashtags; among equal ones, the first by name."""
        if self.top is None:
            return found
        if self.window is None:
            return found.orderBy(F.desc("count"), "hashtag").limit(self.top)
        by = Window.partitionBy("window").orderBy(F.desc("count"), "hashtag")
        place = F.row_number().over(by)
        return found.withColumn("_place", place).where(F.col("_place") <= self.top).drop("_place")

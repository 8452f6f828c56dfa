"""Word count on your records: as a batch or as a stream, with or without windows."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from skewless import aggregations
from skewless.apps.application import as_time
from skewless.apps.windowed import Windowed
from skewless.spark.aggregation.windows import WINDOW


@dataclass(frozen=True)
class WordCount(Windowed):
    """How many records each key has, or each window and key.

    Parameters
    ----------
    key
        The columns that are the key.
    strategy, workers, seed, time, window, slide, watermark
        See `Windowed`.

    References
    ----------
    PStream, section 6.1, figures 16 to 18; Dalton, section 5, figures 7 to 9; Mixed, figure 14a.
    """

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
    def ranks(self) -> tuple[str, ...]:  # type: ignore[override]
        """The column with the counts: the largest come first."""
        return ("count" if "count" not in self.key else "n",)

    def compute(self, records: DataFrame, ledger: str | None = None) -> DataFrame:
        """Return the counts; the columns of the key keep their names."""
        if self.time is not None and self.time in records.columns:
            records = records.withColumn(self.time, as_time(records, self.time))
        counts = {self.ranks[0]: aggregations.count()}
        return self.aggregated(records, list(self.key), counts, ledger, self.time)

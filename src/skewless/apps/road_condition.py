"""Road condition: how many vehicles are in a cell of the map in a period, and how fast they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skewless import aggregations
from skewless.apps.windowed import Windowed
from skewless.plumbing.arguments import whole


@dataclass(frozen=True)
class RoadCondition(Windowed):
    """The distinct vehicles and the mean speed per cell and period.

    Many vehicles mean a crowded road, and a jam if they are slow. A vehicle that is in a cell twice
    in a period counts once. The mean speed is that of the records.

    Parameters
    ----------
    cell, vehicle, speed
        The columns of a position: the cell of the map, the vehicle, and its speed. If the vehicle
        is None, positions are counted instead.
    least
        Only cells with at least this many vehicles, or positions.
    time, window
        The column with the time of a position, and the length of a period.
    strategy, workers, seed, slide, watermark
        See `Windowed`.

    References
    ----------
    PStream, section 6.1 (applications); figures 25 to 27. The paper counts vehicles; the mean speed
    is ours.
    """

    roles: ClassVar[tuple[str, ...]] = ("cell", "vehicle", "speed", "time")
    numbers: ClassVar[tuple[str, ...]] = ("speed",)
    cell: str = "cell"
    vehicle: str | None = "vehicle"
    speed: str = "speed"
    least: int = 1
    time: str | None = field(default="ts", kw_only=True)
    window: str | None = field(default="5 minutes", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.least, "--least", least=0)

    @property
    def counted(self) -> str:
        """The name of the column with the vehicles, or with the positions."""
        return "positions" if self.vehicle is None else "vehicles"

    @property
    def ranks(self) -> tuple[str, ...]:  # type: ignore[override]
        """The fullest cells come first."""
        return (self.counted,)

    def compute(self, records: DataFrame, ledger: str | None = None) -> DataFrame:
        """Return a row per period and cell."""
        known = self.vehicle is not None
        many = aggregations.distinct("vehicle") if known else aggregations.count()
        aggs = {self.counted: many, "speed": aggregations.mean("speed")}
        return self.aggregated(self.read(records), "cell", aggs, ledger)

    def choose(self, found: DataFrame) -> DataFrame:
        """Return the crowded cells."""
        return found.where(F.col(self.counted) >= self.least)

"""VWAP: the volume-weighted average price of each symbol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame

from skewless import aggregations
from skewless.apps.windowed import Windowed


@dataclass(frozen=True)
class Vwap(Windowed):
    """The volume-weighted average price: what was paid for a symbol, divided by its volume.

    A row has the symbol, the VWAP, the traded volume and the number of trades. A trade without a
    price or a size counts as a trade but not in the VWAP. Its size, if it has one, counts in the
    volume.

    Parameters
    ----------
    symbol, price, size
        The columns of a trade.
    strategy, workers, seed, time, window, slide, watermark
        See `Windowed`.

    References
    ----------
    PStream, section 6.1 (applications); figures 19 to 21.
    """

    roles: ClassVar[tuple[str, ...]] = ("symbol", "price", "size", "time")
    numbers: ClassVar[tuple[str, ...]] = ("price", "size")
    ranks: ClassVar[tuple[str, ...]] = ("volume",)

    symbol: str = "symbol"
    price: str = "price"
    size: str = "size"

    def compute(self, records: DataFrame, ledger: str | None = None) -> DataFrame:
        """Return a row per symbol, or per window and symbol."""
        aggs = {
            "vwap": aggregations.vwap("price", "size"),
            "volume": aggregations.sum("size"),
            "trades": aggregations.count(),
        }
        return self.aggregated(self.read(records), "symbol", aggs, ledger)

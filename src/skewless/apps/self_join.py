"""Self-join of trades: pairs of a buy and a sell of one symbol within a short time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skewless.apps.computation import Application, require_duration
from skewless.spark import join
from skewless.spark.aggregation.choosing import FORMS
from skewless.spark.state.arguments import AUTO, moving_strategy
from skewless.strategy import AnyStrategy


@dataclass(frozen=True)
class SelfJoin(Application):
    """Pairs of trades of one symbol, on different sides, that are near each other in time.

    Trades are joined by their symbol, so each symbol is on one worker, with its recent trades as
    its state; `join` spreads a symbol that is too hot for one worker. Each pair is returned once:
    its left trade has the side that comes first alphabetically, such as "buy" before "sell". A
    trade without a symbol, a time or a side is in no pair. If `trader` is given, neither is a trade
    without a trader.

    Parameters
    ----------
    symbol, side, trader, time
        The columns of a trade: what is traded, whether it is bought or sold, by whom, and when.
        With a trader, only pairs of the same trader are returned.
    within
        How far apart the trades of a pair may be.
    watermark
        How late a trade of a stream may be.
    strategy, workers, seed
        See `Application`. The strategy must keep each key on one worker.

    References
    ----------
    Mixed, section V (Stock data), figure 14b. The paper joins trades of a day; which pairs count is
    our reading of players with dense buying and selling.
    """

    roles: ClassVar[tuple[str, ...]] = ("symbol", "trader", "side", "time")
    ranks: ClassVar[tuple[str, ...]] = ("pairs",)

    symbol: str = "symbol"
    side: str = "side"
    trader: str | None = None
    time: str = "ts"
    within: str = "1 second"
    watermark: str = "10 seconds"
    strategy: str | AnyStrategy = field(default=AUTO, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_duration("--within", self.within, least=1)
        require_duration("--watermark", self.watermark)
        if isinstance(self.strategy, str) and self.strategy in FORMS:
            raise ValueError(
                f"--strategy: {self.strategy!r} is for applications that aggregate, and this one "
                "joins: use 'mixed', 'min-table', 'min-mig', 'readj' or 'hash'"
            )
        moving_strategy(self.strategy)

    @property
    def about(self) -> tuple[str, ...]:
        """The columns by which pairs are counted."""
        return ("symbol",) if self.trader is None else ("symbol", "trader")

    def compute(self, records: DataFrame, ledger: str | None = None) -> DataFrame:
        """Return the pairs: the symbol, the trader, and the side and time of both trades."""
        trades = self.read(records)
        joined = join(
            trades,
            trades,
            "symbol",
            within=self.within,
            watermark=("time", self.watermark),
            strategy=self.strategy,
            workers=self.workers,
            seed=self.seed,
            ledger=ledger,
        )
        pairs = joined.where(F.col("side") < F.col("side_right"))
        if self.trader is not None:
            pairs = pairs.where(F.col("trader") == F.col("trader_right")).drop("trader_right")
        return pairs

    def ranked(self, results: DataFrame, n: int) -> DataFrame:
        """Return the symbols, or symbols and traders, with the most pairs."""
        counts = results.groupBy(*self.about).agg(F.count("*").alias("pairs"))
        return super().ranked(counts, n)

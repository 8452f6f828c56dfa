"""Queries of NEXMark that group by keys: each in plain Spark, and with skewless.

If a query only needs Spark's aggregates, `aggregate` chooses plain Spark: Spark combines before it
shuffles, so skew hardly hurts, and there is nothing to gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from benchmarks.public.auctions import AUCTION, BID, NOBODY, PERSON
from benchmarks.public.both_ways import PLAIN, Query
from skewless import aggregations as aggs
from skewless.spark import aggregate, join, sessions, top_n

#: The columns of each folder.
SCHEMAS = {"persons": PERSON, "auctions": AUCTION, "bids": BID}
_LATE = "1 second"
_RANKS = {
    "total": "true",
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}
_BID = ["bidder", "auction", "price", "channel", "ts", "extra"]


# Q5: which auctions had the most bids in the last ten seconds, every two seconds?
def q5_plain(streams: Sequence[DataFrame]) -> DataFrame:
    """Count by window and auction, then take the largest of each window."""
    bids = streams[0].withWatermark("ts", _LATE)
    counts = bids.groupBy(F.window("ts", "10 seconds", "2 seconds"), "auction")
    return _hottest(counts.agg(F.count("*").alias("n")))


def q5(streams: Sequence[DataFrame], ledger: str | None) -> DataFrame:
    """Count with `aggregate`, then the same."""
    counts = aggregate(
        streams[0],
        "auction",
        {"n": aggs.count()},
        window=("ts", "10 seconds", "2 seconds"),
        watermark=_LATE,
        ledger=ledger,
    )
    return _hottest(counts)


def _hottest(counts: DataFrame) -> DataFrame:
    """Return the auctions with the most bids of each window, all of them if several tie."""
    items = F.collect_list(F.struct("n", "auction"))
    found = counts.groupBy("window").agg(items.alias("items"))
    most = F.array_max("items")["n"]
    hottest = F.filter("items", lambda item: item["n"] == most)
    return found.select(F.col("window.start").alias("start"), F.inline(hottest))


# Q8: which new persons opened auctions in the ten seconds in which they came?
def q8_plain(streams: Sequence[DataFrame]) -> DataFrame:
    """Join both streams by the person and the window."""
    persons, auctions = (stream.withWatermark("ts", _LATE) for stream in streams)
    window = F.window("ts", "10 seconds").alias("window")
    came = persons.select("id", "name", window)
    opened = auctions.select(F.col("seller").alias("id"), F.col("id").alias("auction"), window)
    joined = came.join(opened, ["id", "window"])
    return joined.select("id", "name", F.col("window.start").alias("start"), "auction")


def q8(streams: Sequence[DataFrame], ledger: str | None) -> DataFrame:
    """Join by the same key; in the same window, no two records are ten seconds apart."""
    persons, auctions = streams
    start = F.window("ts", "10 seconds")["start"].alias("start")
    came = persons.select("id", start, "ts", "name")
    opened = auctions.select(F.col("seller").alias("id"), start, "ts", F.col("id").alias("auction"))
    joined = join(
        came, opened, ["id", "start"], within="10 seconds", watermark=("ts", _LATE), ledger=ledger
    )
    return joined.select("id", "name", "start", "auction")


# Q11: how many bids did a person make in each session, which ends after ten seconds without one?
def q11_plain(streams: Sequence[DataFrame]) -> DataFrame:
    """Count by Spark's session windows."""
    bids = streams[0].withWatermark("ts", _LATE)
    session = F.session_window("ts", "10 seconds").alias("session")
    counts = bids.groupBy(session, "bidder").agg(F.count("*").alias("bids"))
    return counts.select("bidder", "session.start", "session.end", "bids")


def q11(streams: Sequence[DataFrame], ledger: str | None) -> DataFrame:
    """Count by `sessions`."""
    found = sessions(streams[0], "bidder", "10 seconds", watermark=("ts", _LATE), ledger=ledger)
    return found.withColumnRenamed("records", "bids")


# Q15: bids, bidders and auctions per day, in all and by rank of price.
def q15_plain(streams: Sequence[DataFrame]) -> DataFrame:
    """Count, and count what is distinct, by day."""
    bids = _by_day(streams[0])
    return bids.groupBy("day").agg(*_report_plain(bids))


def q15(streams: Sequence[DataFrame], ledger: str | None) -> DataFrame:
    """Count with `aggregate`."""
    return aggregate(_by_day(streams[0]), "day", _report(), ledger=ledger)


# Q16: the same per channel and day, and the last minute with a bid.
def q16_plain(streams: Sequence[DataFrame]) -> DataFrame:
    """Count, and count what is distinct, by channel and day."""
    bids = _by_day(streams[0])
    minute = F.max(F.date_format("ts", "HH:mm")).alias("minute")
    return bids.groupBy("channel", "day").agg(minute, *_report_plain(bids))


def q16(streams: Sequence[DataFrame], ledger: str | None) -> DataFrame:
    """Count with `aggregate`."""
    report = {"minute": aggs.max("date_format(ts, 'HH:mm')"), **_report()}
    return aggregate(_by_day(streams[0]), ["channel", "day"], report, ledger=ledger)


# Q17: bids and prices per auction and day.
def q17_plain(streams: Sequence[DataFrame]) -> DataFrame:
    """Count, and take the least, largest, mean and sum of prices."""
    counts = [F.count_if(F.expr(rule)).alias(f"{rank}_bids") for rank, rule in _RANKS.items()]
    prices = {"min": F.min, "max": F.max, "mean": F.avg, "sum": F.sum}
    columns = [function("price").alias(f"{name}_price") for name, function in prices.items()]
    return _by_day(streams[0]).groupBy("auction", "day").agg(*counts, *columns)


def q17(streams: Sequence[DataFrame], ledger: str | None) -> DataFrame:
    """The same with `aggregate`."""
    report: dict[str, aggs.Aggregation] = {
        f"{rank}_bids": aggs.count(_only(rule, "1")) for rank, rule in _RANKS.items()
    }
    prices: dict[str, type[Any]]
    prices = {"min": aggs.min, "max": aggs.max, "mean": aggs.mean, "sum": aggs.sum}
    report |= {f"{name}_price": constructor("price") for name, constructor in prices.items()}
    return aggregate(_by_day(streams[0]), ["auction", "day"], report, ledger=ledger)


# Q18: the last bid of each person for each auction.
def q18_plain(streams: Sequence[DataFrame]) -> DataFrame:
    """Take the record with the largest time."""
    last = F.max_by(F.struct(*_BID[2:]), "ts").alias("last")
    return streams[0].groupBy("bidder", "auction").agg(last).select(*_BID[:2], "last.*")


def q18(streams: Sequence[DataFrame], ledger: str | None) -> DataFrame:
    """Keep the one record that is largest by time."""
    return top_n(streams[0], ["bidder", "auction"], by="ts", n=1, ledger=ledger).select(*_BID)


# Q19: the ten highest bids of each auction.
def q19_plain(streams: Sequence[DataFrame]) -> DataFrame:
    """Collect the records with the ten largest prices, of equal ones the earlier."""
    record = F.struct("bidder", "price", "channel", "ts", "extra")
    highest = F.max_by(record, F.struct("price", -F.unix_micros("ts")), 10)
    found = streams[0].groupBy("auction").agg(highest.alias("highest"))
    ranked = found.select("auction", F.posexplode("highest").alias("place", "bid"))
    return ranked.select("auction", (F.col("place") + 1).alias("rank"), "bid.*")


def q19(streams: Sequence[DataFrame], ledger: str | None) -> DataFrame:
    """Keep the ten records that are largest by price."""
    found = top_n(streams[0], "auction", by="price", n=10, order_by="ts", ledger=ledger)
    return found.select("auction", "rank", "bidder", "price", "channel", "ts", "extra")


def _by_day(bids: DataFrame) -> DataFrame:
    return bids.withColumn("day", F.date_format("ts", "yyyy-MM-dd"))


def _only(rule: str, value: str) -> str:
    return f"CASE WHEN {rule} THEN {value} END"


def _report_plain(bids: DataFrame) -> list[Column]:
    """Return the columns of Q15; count_distinct is refused on streams."""

    def distinct(value: Column) -> Column:
        if bids.isStreaming:
            return F.size(F.collect_set(value)).cast("bigint")
        return F.count_distinct(value)

    columns = []
    for rank, rule in _RANKS.items():
        bidders, auctions = (distinct(F.expr(_only(rule, name))) for name in ("bidder", "auction"))
        columns += [
            F.count_if(F.expr(rule)).alias(f"{rank}_bids"),
            bidders.alias(f"{rank}_bidders"),
            auctions.alias(f"{rank}_auctions"),
        ]
    return columns


def _report() -> dict[str, aggs.Aggregation]:
    """Return the same as aggregations."""
    report: dict[str, aggs.Aggregation] = {}
    for rank, rule in _RANKS.items():
        report[f"{rank}_bids"] = aggs.count(_only(rule, "1"))
        for value in ("bidder", "auction"):
            report[f"{rank}_{value}s"] = aggs.distinct(_only(rule, value))
    return report


_of_bids = partial(Query, ("bids",))
QUERIES = {
    query.name: query
    for query in (
        _of_bids(
            *("Q5", "auctions with the most bids of 10 s, every 2 s", q5_plain, q5),
            *("groupBy(window)", PLAIN),
            counts=f"auction != {NOBODY}",
        ),
        Query(
            ("persons", "auctions"),
            *("Q8", "auctions of new persons in the same 10 s", q8_plain, q8),
            *("join of streams", "join"),
            counts=f"id != {NOBODY}",
        ),
        _of_bids(
            *("Q11", "bids per person and session", q11_plain, q11, "session_window", "sessions"),
            counts=f"bidder != {NOBODY}",
        ),
        _of_bids(
            *("Q15", "bids, bidders and auctions per day", q15_plain, q15),
            *("size(collect_set)", PLAIN, ("day",)),
        ),
        _of_bids(
            *("Q16", "the same per channel and day", q16_plain, q16),
            *("size(collect_set)", PLAIN, ("channel", "day")),
        ),
        _of_bids(
            *("Q17", "bids and prices per auction and day", q17_plain, q17),
            *("groupBy", PLAIN, ("auction", "day")),
        ),
        _of_bids(
            *("Q18", "last bid per person and auction", q18_plain, q18),
            *("max_by", "top_n", ("bidder", "auction")),
        ),
        _of_bids(
            *("Q19", "ten highest bids per auction", q19_plain, q19),
            *("max_by(…, 10)", "top_n", ("auction", "rank")),
        ),
    )
}

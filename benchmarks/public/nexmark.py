"""Queries of NEXMark that group by keys: each in plain Spark, and with skewless.

Those that only need Spark's aggregates (Q5, Q15 to Q17) are left out: `aggregate` chooses plain
Spark for them, which combines before it shuffles.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.public.auctions import AUCTION, BID, NOBODY, PERSON
from benchmarks.public.both_ways import Query
from skewless.spark import join, sessions, top_n

#: The columns of each folder.
SCHEMAS = {"persons": PERSON, "auctions": AUCTION, "bids": BID}
_LATE = "1 second"
_BID = ["bidder", "auction", "price", "channel", "ts", "extra"]


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


QUERIES = {
    query.name: query
    for query in (
        Query(
            ("persons", "auctions"),
            *("Q8", "auctions of new persons in the same 10 s", q8_plain, q8),
            *("join of streams", "join"),
            counts=f"id != {NOBODY}",
        ),
        Query(
            ("bids",),
            *("Q11", "bids per person and session", q11_plain, q11, "session_window", "sessions"),
            counts=f"bidder != {NOBODY}",
        ),
        Query(
            ("bids",),
            *("Q18", "last bid per person and auction", q18_plain, q18),
            *("max_by", "top_n", ("bidder", "auction")),
        ),
        Query(
            ("bids",),
            *("Q19", "ten highest bids per auction", q19_plain, q19),
            *("max_by(…, 10)", "top_n", ("auction", "rank")),
        ),
    )
}

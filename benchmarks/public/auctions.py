"""NEXMark's stream: persons, auctions and bids of an auction house, from a seed.

Of 50 events, the first is a person, the next three are auctions, and 46 are bids. Ids count up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.streams import write_files
from skewless.arrays import Ints

#: The columns of the files, as Spark spells a schema.
PERSON = "id bigint, name string, city string, state string, ts timestamp, extra string"
AUCTION = (
    "id bigint, item string, initial_bid bigint, reserve bigint, seller bigint, category bigint, "
    "expires timestamp, ts timestamp, extra string"
)
BID = "auction bigint, bidder bigint, price bigint, channel string, ts timestamp, extra string"
#: The id of the records that only move the clock, after the end.
NOBODY = -1

_CYCLE, _AUCTIONS = 50, 3  # events of a cycle, and the auctions among them
_FIRST_ID = 1000
_BATCH = 100  # one hot seller, bidder and auction per this many persons or auctions
#: The ratios: all but one of so many records name a hot one.
_HOT_AUCTIONS, _HOT_BIDDERS, _HOT_SELLERS, _HOT_CHANNEL = 2, 4, 4, 2
_ACTIVE_PERSONS, _OPEN_AUCTIONS = 1000, 100
_AHEAD = 10  # ids that a record may name before they exist
_BEGIN_US = 1_767_225_600_000_000  # 2026-01-01 00:00 UTC
_HOUR_US = 3_600_000_000
_HOT_CHANNELS = np.array(["Apple", "Google", "Facebook", "Baidu"])
_PEOPLE = np.array(["Ada", "Bela", "Chen", "Dora", "Emil", "Fatou", "Gita", "Hugo", "Ines", "Juri"])
_CITIES = np.array(
    ["Boise", "Phoenix", "Portland", "Seattle", "Redmond", "Bend", "Kent", "Cheyenne"]
)
_STATES = np.array(["ID", "AZ", "OR", "WA", "WA", "OR", "WA", "WY"])


@dataclass(frozen=True)
class Auctions:
    """The events of NEXMark with its hot ratios: the same seed makes the same files.

    A ratio r means that all but one of r records go to the hot person or auction, as in the usual
    generators: half of the bids with r = 2, three of four with r = 4. The hot one changes: it is
    the first of the latest 100 persons or auctions. All other records choose evenly among the
    latest 1,000 persons, or the latest 100 auctions, and the next ten.

    Times are in order and differ, so that "the last bid" is one bid.
    """

    n_events: int = 500_000  # persons, auctions and bids together
    # Micro-batches into which they are cut. Two more have one record each, one and two hours later,
    # with the id −1: all windows close then.
    n_batches: int = 5
    events_per_second: int = 10_000  # in event time; at most a million, so that times differ
    seed: int = 0  # of all draws

    def persons(self) -> pa.Table:
        events = self._events(0, 1)
        rng = np.random.default_rng([self.seed, 0])
        names = np.strings.add(rng.choice(_PEOPLE, events.size), " ")
        place = rng.integers(0, _CITIES.size, events.size)
        return pa.table(
            {
                "id": _FIRST_ID + events // _CYCLE,
                "name": np.strings.add(names, rng.choice(_PEOPLE, events.size)),
                "city": _CITIES[place],
                "state": _STATES[place],
                "ts": self._times(events),
                "extra": _padding(rng, events.size, 100),
            }
        )

    def auctions(self) -> pa.Table:
        events = self._events(1, 1 + _AUCTIONS)
        rng = np.random.default_rng([self.seed, 1])
        initial = _prices(rng, events.size)
        lasts = rng.integers(1, 20_000_000, events.size)
        return pa.table(
            {
                "id": _FIRST_ID + _last_auction(events),
                "item": np.strings.add("item ", rng.integers(0, 5000, events.size).astype(str)),
                "initial_bid": initial,
                "reserve": initial + _prices(rng, events.size),
                "seller": _FIRST_ID + _persons_of(events, rng, _HOT_SELLERS, 0),
                "category": rng.integers(10, 15, events.size),
                "expires": self._times(events, lasts),
                "ts": self._times(events),
                "extra": _padding(rng, events.size, 400),
            }
        )

    def bids(self) -> pa.Table:
        events = self._events(1 + _AUCTIONS, _CYCLE)
        rng = np.random.default_rng([self.seed, 2])
        last = _last_auction(events)
        least = np.maximum(last - _OPEN_AUCTIONS, 0)
        any_auction = least + rng.integers(0, last - least + 1 + _AHEAD)
        is_hot = rng.integers(0, _HOT_AUCTIONS, events.size) > 0
        rare = np.strings.add("channel-", rng.integers(0, 10_000, events.size).astype(str))
        is_known = rng.integers(0, _HOT_CHANNEL, events.size) > 0
        return pa.table(
            {
                "auction": _FIRST_ID + np.where(is_hot, last // _BATCH * _BATCH, any_auction),
                # One further than the hot seller: the hot bidder is another person.
                "bidder": _FIRST_ID + _persons_of(events, rng, _HOT_BIDDERS, 1),
                "price": _prices(rng, events.size),
                "channel": np.where(is_known, rng.choice(_HOT_CHANNELS, events.size), rare),
                "ts": self._times(events),
                "extra": _padding(rng, events.size, 50),
            }
        )

    def write(self, folder: Path, names: Iterable[str] = ("persons", "auctions", "bids")) -> None:
        """Write the folder of each of these streams, a file of it per micro-batch."""
        edges = [self.n_events * i // self.n_batches for i in range(self.n_batches + 1)]
        times = [_BEGIN_US + edge * self._step_us for edge in edges]
        for name in names:
            table: pa.Table = getattr(self, name)()
            cuts = np.searchsorted(table["ts"].cast(pa.int64()).to_numpy(), times)
            pieces = [table[a:b] for a, b in pairwise(cuts)]
            closing = [_closing(table, times[-1] + hours * _HOUR_US) for hours in (1, 2)]
            write_files(folder / name, [*pieces, *closing])

    @property
    def _step_us(self) -> int:
        return 1_000_000 // self.events_per_second

    def _events(self, first: int, end: int) -> Ints:
        """Return the numbers of the events at these places of a cycle."""
        events = np.arange(self.n_events, dtype=np.int64)
        places = events % _CYCLE
        return events[(places >= first) & (places < end)]

    def _times(self, events: Ints, after: Ints | int = 0) -> pa.Array:
        return pa.array(_BEGIN_US + events * self._step_us + after, pa.timestamp("us", "UTC"))


def _last_auction(events: Ints) -> Ints:
    """Return the number of the latest auction at each event, which is itself for an auction."""
    places = np.minimum(events % _CYCLE, _AUCTIONS)
    last: Ints = events // _CYCLE * _AUCTIONS + places - 1
    return last


def _persons_of(events: Ints, rng: np.random.Generator, ratio: int, which: int) -> Ints:
    """Return a person for each event: the hot one, or any of the active ones."""
    known = events // _CYCLE + 1
    active = np.minimum(known, _ACTIVE_PERSONS)
    anyone = known - active + rng.integers(0, active + _AHEAD)
    is_hot = rng.integers(0, ratio, events.size) > 0
    return np.where(is_hot, (known - 1) // _BATCH * _BATCH + which, anyone)


def _prices(rng: np.random.Generator, n: int) -> Ints:
    """Return prices in cents, from 1 to a million dollars, evenly on a logarithmic scale."""
    prices: Ints = np.round(10 ** (rng.random(n) * 6) * 100).astype(np.int64)
    return prices


def _padding(rng: np.random.Generator, n: int, length: int) -> pa.Array:
    """Return texts of about this length, which stand for the other content of a record."""
    letters = rng.integers(97, 123, (1000, length), np.uint8)
    pool = pa.array([row.tobytes().decode() for row in letters])
    return pool.take(pa.array(rng.integers(0, len(pool), n)))


def _closing(table: pa.Table, micros: int) -> pa.Table:
    """Return one record at a later time, of a person and an auction that do not exist."""
    (record,) = table[:1].to_pylist()
    record |= {name: NOBODY for name in ("id", "auction", "bidder", "seller") if name in record}
    return pa.Table.from_pylist([record | {"ts": micros}], table.schema)

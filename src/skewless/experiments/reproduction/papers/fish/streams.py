"""The streams of FISH's evaluation: its time-evolving Zipf, and stand-ins for its two data sets.

The stream of a size is a short form of the published one. It has as many periods, and what is
shortened with it is said below.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from skewless.experiments.reproduction.figure import Size
from skewless.workloads.zipf import zipf_probabilities

#: Published records and keys (table 2).
ZF_RECORDS, ZF_KEYS = 50_000_000, 100_000
AM_RECORDS, AM_KEYS = 7_910_000, 250_000
MT_RECORDS, MT_KEYS = 49_210_000, 390_000

# The share of the hottest key is not published. With 128 workers, PKG is 7.31 times (AM) and 8.32
# times (MT) slower than FISH (section 6.2). It gives a key two workers, so these are 64 times the
# share, if FISH is nearly perfect.
AM_TOP, MT_TOP = 7.31 / 64, 8.32 / 64

_ZF_PERIODS = 10
# So many that a count since the start never finds the hot keys of a period: see `shifting`.
_PERIODS = 200
# On Storm, sources that are ahead are in the next period. With few periods that matters less.
_STORM_PERIODS = 10
_SHORTEST_PERIOD = 2_000  # two epochs of FISH

#: What the figures say of their data.
ABOUT_ZF = (
    "FISH's time-evolving Zipf, generated; it is shorter than the published one. The number of "
    "keys shrinks by the power 3/4 of that: with all keys, few would have replicas to count, and "
    "with as many records of each key, an epoch of 1,000 records would see most of them"
)
ABOUT_SHIFTING = (
    "a Zipf stream with other hot keys in each of {} periods. It has the published number of "
    "records and keys, or fewer records and as many of each key. The share of the hottest key is "
    "1/64 of the published factor of PKG with 128 workers, because the authors state none"
)
ABOUT_AM = f"in place of AM, {ABOUT_SHIFTING.format(_PERIODS)}"
ABOUT_BOTH = f"in place of AM and MT, {ABOUT_SHIFTING.format(_PERIODS)}"
ABOUT_STORM = f"in place of AM and MT, {ABOUT_SHIFTING.format(_STORM_PERIODS)}"


class Stream(NamedTuple):
    """A workload by name, for the fields of a cell."""

    label: str
    workload: str
    of: dict[str, Any]

    @property
    def n_records(self) -> int:
        """How many records it has."""
        return int(self.of["n_records"])


def zf(size: Size, z: float) -> Stream:
    """Return the time-evolving Zipf stream of section 6.1, shortened."""
    n_records = min(ZF_RECORDS, size.records)
    of = {
        "z": z,
        "n_keys": round(ZF_KEYS * (n_records / ZF_RECORDS) ** 0.75),
        "n_records": n_records,
        "period": n_records // _ZF_PERIODS,
    }
    return Stream(f"z {z}", "evolving-zipf", of)


def am(size: Size, n_periods: int = _PERIODS) -> Stream:
    """Return a stream in place of Amazon Movie Reviews."""
    n_records = min(AM_RECORDS, size.records)
    return shifting("AM", n_records, round(n_records * AM_KEYS / AM_RECORDS), AM_TOP, n_periods)


def mt(size: Size, n_periods: int = _PERIODS) -> Stream:
    """Return a stream in place of MemeTracker."""
    n_records = min(MT_RECORDS, size.records)
    return shifting("MT", n_records, round(n_records * MT_KEYS / MT_RECORDS), MT_TOP, n_periods)


def on_storm(size: Size) -> list[Stream]:
    """Return both, with hot keys that stay longer."""
    return [mt(size, _STORM_PERIODS), am(size, _STORM_PERIODS)]


def shifting(label: str, n_records: int, n_keys: int, top: float, n_periods: int) -> Stream:
    """Return a stream whose hottest key has the share `top`, and is another one in each period.

    After t records, a count since the start needs θ · t of a key, 1 / 640 of them with 128 workers.
    In the second half of a stream of 200 periods, few keys have as many before their period ends.
    """
    z = fitted_z(top, n_keys)
    of = {
        "z_min": z,
        "z_max": z,
        "n_keys": n_keys,
        "n_records": n_records,
        "period": max(_SHORTEST_PERIOD, n_records // n_periods),
    }
    return Stream(label, "shifting-zipf", of)


@cache
def fitted_z(top: float, n_keys: int) -> float:
    """Return the exponent with which the hottest of `n_keys` keys has the share `top`.

    It is rounded to four digits, so that it is the same on any machine.

    >>> fitted_z(0.5, 1000), fitted_z(0.0005, 1000)  # a share that even equal keys exceed
    (1.7235, 0.0)
    """
    low, high = 0.0, 8.0
    while high - low > 1e-5:
        z = (low + high) / 2
        if zipf_probabilities(z, n_keys)[0] < top:
            low = z
        else:
            high = z
    return round(low, 4)


def skews(size: Size) -> tuple[float, ...]:
    """Return the exponents of the x axes; fewer of them in a smaller size."""
    if size.records >= 5_000_000:
        return (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
    return (1.0, 1.4, 2.0) if size.records >= 100_000 else (1.0, 2.0)


def workers(size: Size) -> tuple[int, ...]:
    """Return the numbers of workers of the paper; the smallest and the largest in a small size."""
    published = [n for n in (16, 32, 64, 128) if n <= size.workers]
    if size.records < 5_000_000 and len(published) > 2:
        published = [published[0], published[-1]]
    return tuple(published)

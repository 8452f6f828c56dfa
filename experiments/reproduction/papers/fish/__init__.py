"""FISH: figures 2 to 4 and 9 to 20 of Huang, "Efficient time-evolving stream processing at scale".

`texts.toml` says what the streams are, and what the models assume.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.reproduction.cells import Simulation
from experiments.reproduction.figure import Paper, Size, named, read_toml
from experiments.reproduction.fitting import fitted_z
from experiments.reproduction.table import Entry

_SERVICE = 1e-4  # seconds
_QUEUE = 1_024  # records; the queue of a Storm executor
_LEAST_QUEUE = 32
_INTERVAL = 10.0  # seconds: T of Alg. 3
_BATCHES, _BATCH = 12, 50_000  # of figure 4

#: "Sources", says section 6.1, and not how many. One source would know all that its rivals have to
#: infer; figure 10 has evidence with one.
_SOURCES = 4
_ZF_RECORDS, _ZF_KEYS = 50_000_000, 100_000
_ZF_PERIODS = 10
#: Published records and keys (table 2), and the share of the hottest key, which is not published.
#: With 128 workers, PKG is 7.31 times (AM) and 8.32 times (MT) slower than FISH (section 6.2). It
#: gives a key two workers, so these are 64 times the share, if FISH is nearly perfect.
_SHIFTING = {"AM": (7_910_000, 250_000, 7.31 / 64), "MT": (49_210_000, 390_000, 8.32 / 64)}
_SHORTEST_PERIOD = 2_000  # two epochs of FISH

#: Strategy and settings of each curve; the settings of FISH come on top of its clock.
CURVES = read_toml(Path(__file__).parent / "systems.toml")


def stream_of(stream: str, n_records: int, z: float = 0.0, periods: int = 200) -> dict[str, Any]:
    """Return the parameters of a stream of at most this many records.

    `ZF` is the time-evolving Zipf of section 6.1. In place of AM and MT, the hottest key is another
    one in each period. After t records, a count since the start needs θ · t of a key, 1 / 640 of
    them with 128 workers. In the second half of a stream of 200 periods, few keys have as many
    before their period ends.
    """
    if stream == "ZF":
        n_records = min(_ZF_RECORDS, n_records)
        n_keys = round(_ZF_KEYS * (n_records / _ZF_RECORDS) ** 0.75)
        period = n_records // _ZF_PERIODS
        return {"z": z, "n_keys": n_keys, "n_records": n_records, "period": period}
    published, keys, top = _SHIFTING[stream]
    n_records = min(published, n_records)
    n_keys = round(n_records * keys / published)
    z = fitted_z(n_keys, top)
    period = max(_SHORTEST_PERIOD, n_records // periods)
    of = {"n_keys": n_keys, "n_records": n_records, "period": period}
    return {"z_min": z, "z_max": z, **of}


def simulated(
    size: Size,
    *,
    curve: str,
    stream: str,
    workers: int,
    seed: int,
    z: float = 0.0,
    event: str = "",
    timing: Mapping[str, Any] | None = None,
    periods: int = 200,
    part: int = 1,
    unequal: bool = False,
    timed: bool = True,
    **fields: Any,
) -> Simulation:
    """Return one system on one stream.

    `event`: after half of the stream, a worker joins or leaves. `part`: the stream is as many times
    shorter. `unequal`: every other worker is twice as fast as the rest. `timed`: with a clock,
    which memory does not need.
    """
    own = dict(CURVES[curve])
    strategy = own.pop("strategy")
    of = stream_of(stream, size.records // part, z, periods)
    n_records = of["n_records"]
    if timing is None:
        queue = max(_LEAST_QUEUE, round(_QUEUE * n_records / _ZF_RECORDS))
        timing = {"service": _SERVICE, "queue": queue}
    if strategy == "fish":  # T shrinks with the stream, so there are as many estimates
        interval = _INTERVAL * min(1.0, n_records / _ZF_RECORDS)
        own |= {"seconds_per_record": timing["service"], "interval": interval}
    n_workers = min(workers, size.workers)
    # Only the last worker of Cascade can leave.
    leaving = n_workers - 1 if curve == "Cascade" else 2
    changes = {"join": n_workers, "leave": leaving}
    return Simulation(
        strategy,
        "evolving-zipf" if stream == "ZF" else "shifting-zipf",
        own,
        of,
        n_workers=n_workers + (event == "join"),
        seed=seed,
        timing=timing if timed else None,
        capacities=(1.0, 2.0) * (n_workers // 2) if unequal else None,
        events=({"at": n_records // 2, "worker": changes[event], "kind": event},) if event else (),
        **{"n_sources": _SOURCES, **fields},
    )


def batches(size: Size, *, curve: str, seed: int) -> Simulation:
    """Return a worker that processes twelve batches, in times that are random for each record."""
    batch = min(_BATCH, size.records // _BATCHES)
    return Simulation(
        CURVES[curve]["strategy"],
        "zipf",
        of={"z": 1.0, "n_keys": _ZF_KEYS, "n_records": _BATCHES * batch},
        n_workers=1,
        seed=seed,
        window=batch,
        timing={"service": _SERVICE, "spread": "exponential"},
    )


def _fluctuation(entry: Entry) -> float:
    """Return (slowest − fastest) / mean time of a batch."""
    seconds = [1.0 / float(rate) for rate in entry.row["window_throughput"]]
    return (max(seconds) - min(seconds)) * len(seconds) / sum(seconds)


PAPER = Paper("fish", "FISH", named(simulated, batches), columns=named(_fluctuation))

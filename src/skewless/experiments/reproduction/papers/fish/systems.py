"""The systems that FISH is compared with, by the names of the paper, and how long things take.

Sections 6.2 to 6.5 simulate. They do not say how long a record takes, or what a source does when a
worker has too much to do. Here a record takes 0.1 ms, all records are there at the start, and a
source waits while the queue of its worker is full. So the time until the last record is done shows
imbalance at any time, not only at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from skewless.experiments.reproduction.cells import Simulation
from skewless.experiments.reproduction.figure import Cell, Points, Results, Size
from skewless.experiments.reproduction.papers.fish.streams import ZF_RECORDS, Stream

SERVICE = 1e-4  # seconds
_QUEUE = 1_024  # records; the queue of a Storm executor
_LEAST_QUEUE = 32
_INTERVAL = 10.0  # seconds: T of Alg. 3
_STATISTICAL_KEYS = 1_000  # "we set the maximum set of keys by 1000" (section 2.3)

#: Strategy and settings of each curve; the settings of FISH come on top of `fish_settings`.
CURVES: dict[str, tuple[str, dict[str, Any]]] = {
    "FG": ("hash", {}),
    "SG": ("shuffle", {}),
    "PKG": ("pkg", {}),
    "D-C": ("d-choices", {"capacity": _STATISTICAL_KEYS}),
    "W-C": ("w-choices", {"capacity": _STATISTICAL_KEYS}),
    "D-C100": ("d-choices", {"capacity": 100}),
    "W-C100": ("w-choices", {"capacity": 100}),
    "FISH": ("fish", {}),
    "FISH α 0": ("fish", {"alpha": 0.0}),
    "FISH α 0.5": ("fish", {"alpha": 0.5}),
    "FISH α 0.8": ("fish", {"alpha": 0.8}),
    "FISH α 1": ("fish", {"alpha": 1.0}),
    "FISH θ 2/n": ("fish", {"hot_factor": 2.0}),
    "FISH θ 1/n": ("fish", {"hot_factor": 1.0}),
    "FISH θ 1/2n": ("fish", {"hot_factor": 0.5}),
    "FISH θ 1/8n": ("fish", {"hot_factor": 0.125}),
    "FISH w/W-C": ("fish", {"classification": "w-choices"}),
    "FISH w/D-C": ("fish", {"classification": "d-choices"}),
    "FISH w/o hwa": ("fish", {"heuristic": False}),
    "FISH w/o CH": ("fish", {"ring": False}),
    "Cascade": ("cascade", {}),
}


def fish_settings(n_records: int, service: float) -> dict[str, Any]:
    """Return the clock of FISH: T shrinks with the stream, so there are as many estimates."""
    interval = _INTERVAL * min(1.0, n_records / ZF_RECORDS)
    return {"seconds_per_record": service, "interval": interval}


def cell(
    curve: str,
    stream: Stream,
    n_workers: int,
    seed: int,
    *,
    timing: Mapping[str, Any] | None = None,
    **others: Any,
) -> Simulation:
    """Return the measurement of one system on one stream, by the clock of the simulations."""
    strategy, own = CURVES[curve]
    if timing is None:
        queue = max(_LEAST_QUEUE, round(_QUEUE * stream.n_records / ZF_RECORDS))
        timing = {"service": SERVICE, "queue": queue}
    settings = dict(own)
    if strategy == "fish":
        settings = fish_settings(stream.n_records, timing["service"]) | own
    return Simulation(
        strategy,
        stream.workload,
        settings,
        stream.of,
        n_workers=n_workers,
        seed=seed,
        timing=timing,
        **others,
    )


def label(curve: str, stream: str, n_workers: int, seed: int) -> str:
    """Return the name of a cell, from which `rows` finds it again.

    >>> label("FISH", "z 1.4", 16, 1)
    'FISH, z 1.4, 16 workers, seed 1'
    """
    return f"{curve}, {stream}, {n_workers} workers, seed {seed}"


def grid(
    size: Size,
    curves: Sequence[str],
    streams: Sequence[Stream],
    workers: Sequence[int],
    **others: Any,
) -> dict[str, Cell]:
    """Return the cells of all curves on all streams with all numbers of workers."""
    return {
        label(curve, stream.label, n, seed): cell(curve, stream, n, seed, **others)
        for curve in curves
        for stream in streams
        for n in workers
        for seed in size.seeds
    }


def mean(results: Results, column: str, curve: str, stream: str, n_workers: int) -> float:
    """Return the mean over the seeds of one column."""
    begin = label(curve, stream, n_workers, 0)[:-1]
    values = [float(row[column]) for name, row in results.items() if name.startswith(begin)]
    if not values:
        raise KeyError(begin)
    return sum(values) / len(values)


def on_streams(results: Results, *labels: str) -> Results:
    """Return what was measured on streams whose label begins with one of these words."""
    return {
        name: row for name, row in results.items() if name.split(", ")[1].split(" ")[0] in labels
    }


def places(results: Results, curve: str) -> Iterator[tuple[str, int]]:
    """Yield where a curve was measured: streams and numbers of workers, in order, once each."""
    seen = set()
    for name in results:
        measured, stream, n_workers, _ = name.split(", ")
        place = stream, int(n_workers.removesuffix(" workers"))
        if measured == curve and place not in seen:
            seen.add(place)
            yield place


def ratios(
    results: Results, column: str, curve: str, base: str, *, stream: str = "", n_workers: int = 0
) -> list[float]:
    """Return a column of one curve over that of another, for all streams and numbers of workers.

    A `stream` or `n_workers` selects; 0 workers means all, and −1 the most that were measured.
    """
    found = list(places(results, curve))
    if n_workers < 0:
        n_workers = max(n for _, n in found)
    return [
        mean(results, column, curve, s, n) / mean(results, column, base, s, n)
        for s, n in found
        if stream in ("", s) and n_workers in (0, n)
    ]


def lines(
    results: Results, column: str, curves: Sequence[str], base: str, by: str
) -> dict[str, Points]:
    """Return the curves of a plot: a column over that of `base`, by `workers` or by `skew`."""
    drawn: dict[str, Points] = {}
    for curve in curves:
        for stream, n in places(results, curve):
            value = mean(results, column, curve, stream, n)
            value /= mean(results, column, base, stream, n)
            name, x = (
                (f"{curve}, {stream}", float(n))
                if by == "workers"
                else (f"{curve}, {n} workers", float(stream.removeprefix("z ")))
            )
            drawn[name] = [*drawn.get(name, ()), (x, value)]
    return drawn

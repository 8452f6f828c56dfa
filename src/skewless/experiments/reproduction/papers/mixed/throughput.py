"""Figures 13 to 15: throughput and latency in virtual time, and a worker that joins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from skewless.experiments.reproduction.figure import (
    Cell,
    Claim,
    Figure,
    Plot,
    Points,
    Results,
    Size,
)
from skewless.experiments.reproduction.papers.mixed import defaults
from skewless.experiments.reproduction.papers.mixed.fitting import fitted_z
from skewless.experiments.reproduction.papers.mixed.grid import (
    at,
    curves,
    first,
    grid,
    last,
    ratios,
    same,
    xs,
)
from skewless.experiments.reproduction.papers.mixed.timed import Timed
from skewless.experiments.tables import Row

#: Seconds of an interval when no worker idles (section IV).
_INTERVAL = 10.0
#: Records of one source that may be under way (section V, for PKG).
_PENDING = 50
#: What moving the state of one record takes, relative to its service; not published.
_TRANSFER = 1 / 10
#: What merging one partial result takes, relative to a record; not published.
_MERGE = 1 / 10
_REDUCERS = 2  # as many cores as merging takes for 15 workers

_TIME = (
    " Virtual time: an interval takes 10 s when no worker idles. A second is worth as many steps of "
    "a plan as order and pass over all keys three times, which is a plan of Mixed, so it takes "
    "less than the second that the authors state; Readj takes as long as its steps."
)


class Stream(NamedTuple):
    """A stream of section V, or what stands in for it."""

    n_keys: int
    z: float
    f: float


def _synthetic(size: Size, f: float) -> Stream:
    return Stream(defaults.n_keys(size), defaults.Z, f)


def _social(size: Size) -> Stream:
    """Return slow changes of 180,000 words."""
    return Stream(defaults.n_keys(size, published=180_000), defaults.Z, 0.2)


def _stock(size: Size) -> Stream:
    """Return abrupt changes of 1,036 stocks."""
    return Stream(1_036, fitted_z(0.04, 1_036), 1.0)


_STRATEGIES = {
    "ideal": "shuffle",
    "storm": "hash",
    "mixed": "mixed",
    "min-table": "min-table",
    "readj": "readj",
    "pkg": "pkg",
    "cascade": "cascade",
}


def _timed(
    curve: str, stream: Stream, n_records: int, seed: int, *, joins: bool = False, **settings: Any
) -> Timed:
    """Return one of the compared systems on 15 cores, over ten intervals; loads change after five.

    `joins`: loads do not change, but a 16th core comes after five intervals.
    """
    strategy = _STRATEGIES[curve]
    window = n_records // 10
    workers = defaults.N_WORKERS
    service = _INTERVAL * workers / window
    timing: dict[str, Any] = {
        "service": service,
        "pending": _PENDING,
        "transfer": _TRANSFER * service,
    }
    if strategy in defaults.FAMILY:
        settings = defaults.LITERAL | settings
    elif strategy == "hash":
        settings = {"ring": True}
    elif strategy != "readj":
        settings = {}
    if strategy == "mixed":
        settings["max_entries"] = defaults.table_bound(stream.n_keys)
    total = workers + 1 if joins else workers
    event = {"at": n_records // 2, "worker": workers, "kind": "join"}
    events: tuple[dict[str, Any], ...] = (event,) if joins else ()
    if curve == "pkg":
        # Some cores merge. This strategy knows no joining: it has all workers from the start.
        timing |= {"merge": service * _MERGE, "reducers": _REDUCERS, "unmerged": 2}
        total, events, window = total - _REDUCERS, (), max(1, window // 10)
    return Timed(
        strategy,
        {
            "z": stream.z,
            "n_keys": stream.n_keys,
            "n_records": n_records,
            "interval": n_records if joins else n_records // 2,
            "f": stream.f,
            "n_workers": workers,
        },
        timing,
        settings,
        steps_per_second=3.0 * stream.n_keys,
        n_workers=total,
        n_sources=defaults.N_SOURCES,
        window=window,
        events=events,
        seed=seed,
    )


def _throughput_from(row: Row, share: float) -> float:
    """Return records per second, without the windows of the first part of the stream."""
    ends = row["window_seconds"]
    begin = round(len(ends) * share)
    return float(row["records"] * (1.0 - share) / (ends[-1] - ends[begin - 1]))


def steady(row: Row) -> float:
    """Return the throughput without the first two intervals, in which plans replace the hash."""
    return _throughput_from(row, 0.2)


def after_join(row: Row) -> float:
    """Return the throughput of the second half."""
    return _throughput_from(row, 0.5)


_COMPARED = ("ideal", "storm", "mixed", "readj", "cascade")


def _by_change(size: Size) -> Mapping[str, Cell]:
    def make(curve: str, x: float, seed: int) -> Cell:
        settings = {"tolerance": defaults.TOLERANCE} if curve in ("mixed", "readj") else {}
        return _timed(curve, _synthetic(size, x), size.records // 2, seed, **settings)

    return grid(size, _COMPARED, (0.2, 1.0, 2.0), make)


FIGURE_13 = Figure(
    "mixed",
    "13",
    "Throughput and latency, by how much the loads change",
    _by_change,
    claims=[
        Claim(
            "Shuffling without regard for keys (Ideal) has the best throughput.",
            "section V, throughput and latency, fig. 13a",
            lambda r: min(ratios(r, "ideal", "mixed", steady)),
            above=1.0,
        ),
        Claim(
            "The throughput of Mixed is very close to that of Ideal, whatever f.",
            "section V, throughput and latency, fig. 13a",
            lambda r: min(ratios(r, "mixed", "ideal", steady)),
            above=0.8,
        ),
        Claim(
            "The throughput of Readj falls much as f grows; that of Mixed falls less.",
            "section V, throughput and latency, fig. 13a",
            lambda r: (
                (last(r, "readj", steady) / first(r, "readj", steady))
                / (last(r, "mixed", steady) / first(r, "mixed", steady))
            ),
            below=0.95,
        ),
        Claim(
            "Readj works well only when loads change little.",
            "section V, throughput and latency, fig. 13a",
            lambda r: (
                ratios(r, "readj", "storm", steady)[0] / ratios(r, "readj", "storm", steady)[-1]
            ),
            above=1.0,
        ),
        Claim(
            "Mixed has a lower latency than Readj.",
            "section V, throughput and latency, fig. 13b",
            lambda r: max(ratios(r, "mixed", "readj", "latency_mean")),
            below=1.0,
        ),
    ],
    plots=[
        Plot("f", "records per second", curves(same(_COMPARED, steady))),
        Plot("f", "mean latency in seconds", curves(same(_COMPARED, "latency_mean"))),
    ],
    data="Fluctuating Zipf of which loads change every five intervals, as a sampled stream. Smaller "
    "sizes have fewer keys." + _TIME,
)

_MOVING = ("mixed", "min-table", "readj")
_FIXED = ("storm", "cascade")


def _by_tolerance(size: Size) -> Mapping[str, Cell]:
    streams = {"social": _social(size), "stock": _stock(size)}

    def make(curve: str, x: float, seed: int) -> Cell:
        name, _, data = curve.partition(" on ")
        settings = {"tolerance": x} if name in _MOVING else {}
        return _timed(name, streams[data], size.records // 2, seed, **settings)

    moving = [f"{name} on {data}" for name in _MOVING for data in streams]
    fixed = [f"{name} on {data}" for name in _FIXED for data in streams]
    return grid(size, moving, (0.02, 0.15, 0.3), make) | grid(
        size, [*fixed, "pkg on social"], (0,), make
    )


def _best_of_others(results: Results, data: str) -> float:
    """Return the best throughput of a system that keeps keys whole, or of PKG, but Mixed."""
    names = [f"{name} on {data}" for name in ("min-table", "readj", "storm", "pkg")]
    return max(at(results, name, x, steady) for name in names for x in xs(results, name))


def _improves(results: Results, data: str) -> float:
    """Return what a larger tolerance does for Readj relative to Mixed."""
    found = ratios(results, f"readj on {data}", f"mixed on {data}", steady)
    return found[-1] / found[0]


FIGURE_14 = Figure(
    "mixed",
    "14",
    "Throughput on Social and Stock, by the tolerance",
    _by_tolerance,
    claims=[
        Claim(
            "The best throughput on Social is that of Mixed with a tolerance of 0.02.",
            "section V, fig. 14a",
            lambda r: first(r, "mixed on social", steady) / _best_of_others(r, "social"),
            above=1.0,
        ),
        Claim(
            "The best throughput on Stock is that of Mixed with a tolerance of 0.02.",
            "section V, fig. 14b",
            lambda r: first(r, "mixed on stock", steady) / _best_of_others(r, "stock"),
            above=1.0,
        ),
        Claim(
            "On Stock, with a small tolerance, Mixed has about twice the throughput of Storm.",
            "section V, fig. 14b (read from the text)",
            lambda r: first(r, "mixed on stock", steady) / first(r, "storm on stock", steady),
            2.0,
            "factor",
            above=1.0,
        ),
        Claim(
            "On Stock, with a small tolerance, Mixed has about twice the throughput of Readj.",
            "section V, fig. 14b (read from the text)",
            lambda r: ratios(r, "mixed on stock", "readj on stock", steady)[0],
            2.0,
            "factor",
            above=1.0,
        ),
        Claim(
            "Readj catches up with Mixed as the tolerance grows, to 0.3 on Social.",
            "section V, fig. 14a (read from the text)",
            lambda r: ratios(r, "readj on social", "mixed on social", steady)[-1],
            1.0,
            "value",
        ),
        Claim(
            "MinTable moves more state, which costs throughput.",
            "section V, fig. 14",
            lambda r: max(
                ratios(r, "min-table on social", "mixed on social", steady)[0],
                ratios(r, "min-table on stock", "mixed on stock", steady)[0],
            ),
            below=1.0,
        ),
        Claim(
            "On Social, Mixed with a tolerance of 0.02 has 10 % more throughput than PKG.",
            "section V, fig. 14a (read from the text)",
            lambda r: first(r, "mixed on social", steady) / first(r, "pkg on social", steady),
            1.1,
            "value",
            above=1.0,
        ),
    ],
    plots=[
        Plot(
            "tolerance",
            f"records per second on {data.capitalize()}",
            curves(
                same(
                    [f"{name} on {data}" for name in (*_MOVING, *_FIXED, "pkg")],
                    steady,
                )
            ),
        )
        for data in ("social", "stock")
    ],
    data="Social: 180,000 keys (fewer at smaller sizes) whose loads change slowly, f = 0.2. Stock: "
    "1,036 keys whose loads change abruptly, f = 1, the hottest with 4 % of the records. Shares of "
    "keys are not published. All records cost the same. PKG has as many cores as the others, two "
    "of which merge, and merging a partial result takes a tenth of a record, which is not "
    "published either; nor is what moving state takes: a tenth of a record per record." + _TIME,
)


def _scale_out(size: Size) -> Mapping[str, Cell]:
    streams = {"social": _social(size), "stock": _stock(size)}

    def make(curve: str, x: float, seed: int) -> Cell:
        name, _, data = curve.partition(" on ")
        settings = {"tolerance": x} if name in _MOVING else {}
        return _timed(name, streams[data], size.records // 2, seed, joins=True, **settings)

    names = ("mixed", "readj", "storm", "cascade")
    moving = [f"{name} on {data}" for name in names for data in streams]
    return grid(size, [*moving, "pkg on social"], (0.1,), make)


def _response(row: Row) -> float:
    """Return seconds from the join to a plan for all workers: one interval, then the plan."""
    return _INTERVAL + float(row["seconds_per_plan"])


def _over_time(results: Results) -> dict[str, Points]:
    found: dict[str, Points] = {}
    for label, row in results.items():
        if label.endswith("seed 1"):
            pairs = zip(row["window_seconds"], row["window_throughput"], strict=True)
            found[label.partition(" | ")[0]] = list(pairs)
    return found


FIGURE_15 = Figure(
    "mixed",
    "15",
    "Throughput over time, while a worker joins",
    _scale_out,
    claims=[
        Claim(
            "Mixed has a plan with the new worker much sooner than Readj, on Social.",
            "section V, scalability, fig. 15a",
            lambda r: ratios(r, "mixed on social", "readj on social", _response)[0],
            below=1.0,
        ),
        Claim(
            "Mixed has a plan with the new worker sooner than Readj, on Stock.",
            "section V, scalability, fig. 15b",
            lambda r: ratios(r, "mixed on stock", "readj on stock", _response)[0],
            below=1.0,
        ),
        Claim(
            "A plan of Readj takes far longer than one of Mixed: at least 5 minutes on Social, where "
            "one of Mixed takes less than a second.",
            "section V, scalability (read from the text)",
            lambda r: ratios(r, "readj on social", "mixed on social", "seconds_per_plan")[0],
            300.0,
            "at least",
            above=1.0,
        ),
        Claim(
            "With the new worker, Mixed has more throughput than PKG.",
            "section V, scalability, fig. 15a",
            lambda r: ratios(r, "mixed on social", "pkg on social", after_join)[0],
            above=1.0,
        ),
    ],
    plots=[Plot("seconds", "records per second", _over_time)],
    data="As fig. 14, but loads do not change; the 16th worker joins at half time." + _TIME,
)

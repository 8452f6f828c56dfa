"""Figures 13 and 14: throughput and latency in virtual time."""

from __future__ import annotations

from collections.abc import Mapping

from skewless.experiments.reproduction.figure import Cell, Claim, Figure, Plot, Results, Size
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
from skewless.experiments.reproduction.papers.mixed.systems import (
    MERGE,
    MOVING,
    TIME,
    TRANSFER,
    at_the_end,
    social,
    steady,
    stock,
    synthetic,
    timed,
)

_COMPARED = ("ideal", "storm", "mixed", "readj", "cascade")


def _by_change(size: Size) -> Mapping[str, Cell]:
    def make(curve: str, x: float, seed: int) -> Cell:
        name = curve.removesuffix(", calm")
        return timed(name, synthetic(size, x), size.records // 2, seed)

    calm = grid(size, ("mixed, calm", "readj, calm"), (0.0,), make)
    return grid(size, _COMPARED, (0.2, 1.0, 2.0), make) | calm


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
            "Readj works well when loads change little: it is close to Mixed.",
            "section V, throughput and latency, fig. 13a",
            lambda r: ratios(r, "readj", "mixed", steady)[0],
            above=0.9,
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
    data="Fluctuating Zipf whose loads change every five intervals, as a sampled stream. Smaller "
    "sizes have fewer keys." + TIME,
    why="A plan of Readj takes longer here than the five intervals from one change to the next, so "
    "the loads have changed again when it is ready, even if they change little. How often they "
    "change is not published. Where they do not change, Readj comes close to Mixed.",
    evidence=[
        Claim(
            "With f = 0.2 a plan of Readj takes more than the 50 seconds of five intervals.",
            "fig. 13a",
            lambda r: first(r, "readj", "seconds_per_plan"),
            above=50.0,
        ),
        Claim(
            "Without changes, Readj comes close to Mixed in the last two of ten intervals.",
            "fig. 13a",
            lambda r: first(r, "readj, calm", at_the_end) / first(r, "mixed, calm", at_the_end),
            above=0.9,
        ),
    ],
)

_FIXED = ("storm", "cascade")
_COSTLY = ", costly moves"
_CHEAP = ", cheap merges"


def _by_tolerance(size: Size) -> Mapping[str, Cell]:
    streams = {"social": social(size), "stock": stock(size)}

    def make(curve: str, x: float, seed: int) -> Cell:
        name, _, data = curve.partition(" on ")
        name, costly, _ = name.partition(_COSTLY)
        name, cheap, _ = name.partition(_CHEAP)
        return timed(
            name,
            streams[data],
            size.records // 2,
            seed,
            tolerance=x,
            transfer=10 * TRANSFER if costly else TRANSFER,
            merge=MERGE / 2 if cheap else MERGE,
        )

    moving = [f"{name} on {data}" for name in MOVING for data in streams]
    fixed = [f"{name} on {data}" for name in _FIXED for data in streams]
    costly = [f"{name}{_COSTLY} on stock" for name in ("mixed", "min-table")]
    return (
        grid(size, moving, (0.02, 0.15, 0.3), make)
        | grid(size, costly, (0.02,), make)
        | grid(size, [*fixed, "pkg on social", f"pkg{_CHEAP} on social"], (0,), make)
    )


def _best_of_others(results: Results, data: str) -> float:
    """Return the best throughput of a system that keeps keys whole, or of PKG, but Mixed."""
    names = [f"{name} on {data}" for name in ("min-table", "readj", "storm", "pkg")]
    return max(at(results, name, x, steady) for name in names for x in xs(results, name))


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
        Claim(
            "On Social, Mixed with a tolerance of 0.02 has a latency 40 % below that of PKG.",
            "section V, fig. 14a (read from the text)",
            lambda r: (
                first(r, "mixed on social", "latency_mean")
                / first(r, "pkg on social", "latency_mean")
            ),
            0.6,
            "value",
            below=1.0,
        ),
    ],
    plots=[
        Plot(
            "tolerance",
            f"records per second on {data.capitalize()}",
            curves(
                same(
                    [f"{name} on {data}" for name in (*MOVING, *_FIXED, "pkg")],
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
    "published either; nor is what moving state takes: a hundredth of a record per record." + TIME,
    why="MinTable moves more state than Mixed, but that costs no throughput where moving the state "
    "of a record takes a hundredth of its service: records of other keys go on. It does where it "
    "takes a tenth; the authors do not state it. The latency of Mixed is then no longer below that "
    "of PKG, as records wait for the state of their keys. That PKG acknowledges a record only "
    "when two operators have seen it is not simulated.",
    evidence=[
        Claim(
            "On Stock, if moving state takes ten times as long, MinTable has less throughput.",
            "fig. 14b",
            lambda r: (
                first(r, "min-table, costly moves on stock", steady)
                / first(r, "mixed, costly moves on stock", steady)
            ),
            below=1.0,
        ),
        Claim(
            "Mixed has more throughput than PKG even if merging takes half as long.",
            "fig. 14a",
            lambda r: (
                first(r, "mixed on social", steady)
                / first(r, "pkg, cheap merges on social", steady)
            ),
            above=1.0,
        ),
        Claim(
            "MinTable moves more state than Mixed.",
            "fig. 14b",
            lambda r: ratios(r, "min-table on stock", "mixed on stock", "planned_moved_share_mean")[
                0
            ],
            above=1.0,
        ),
        Claim(
            "Half of the records of Mixed are no slower than half of those of PKG.",
            "fig. 14a",
            lambda r: (
                first(r, "mixed on social", "latency_p50")
                / first(r, "pkg on social", "latency_p50")
            ),
            below=1.1,
        ),
        Claim(
            "The slowest ones are far slower: those that wait for the state of their key.",
            "fig. 14a",
            lambda r: (
                first(r, "mixed on social", "latency_p99")
                / first(r, "pkg on social", "latency_p99")
            ),
            above=2.0,
        ),
    ],
)

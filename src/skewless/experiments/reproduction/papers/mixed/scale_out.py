"""Figure 15: throughput over time, while a worker joins."""

from __future__ import annotations

from collections.abc import Mapping

from skewless.experiments.reproduction.figure import (
    Cell,
    Claim,
    Figure,
    Plot,
    Points,
    Results,
    Size,
)
from skewless.experiments.reproduction.papers.mixed.grid import grid, ratios
from skewless.experiments.reproduction.papers.mixed.systems import (
    INTERVAL,
    MERGE,
    TIME,
    after_join,
    social,
    stock,
    timed,
)
from skewless.experiments.tables import Row


def _scale_out(size: Size) -> Mapping[str, Cell]:
    streams = {"social": social(size), "stock": stock(size)}

    def make(curve: str, x: float, seed: int) -> Cell:
        name, _, data = curve.partition(" on ")
        name, cheap, _ = name.partition(", cheap merges")
        merge = MERGE / 2 if cheap else MERGE
        return timed(
            name, streams[data], size.records // 2, seed, tolerance=x, merge=merge, joins=True
        )

    names = ("mixed", "readj", "storm", "cascade")
    moving = [f"{name} on {data}" for name in names for data in streams]
    splitting = ["pkg on social", "pkg, cheap merges on social"]
    return grid(size, [*moving, *splitting], (0.1,), make)


def _response(row: Row) -> float:
    """Return seconds from the join to a plan for all workers: one interval, then the plan."""
    return INTERVAL + float(row["seconds_per_plan"])


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
            "On Social a plan of Readj takes at least 5 minutes, and one of Mixed less than a "
            "second: how many times as long Readj takes.",
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
    data="As fig. 14, but loads do not change; the 16th worker joins at half time." + TIME,
    why="The pairs of keys that Readj compares grow with the number of keys, and smaller sizes "
    "have fewer keys. Whether Mixed, with a tolerance of 0.1, has more throughput than PKG depends "
    "on what merging takes, which is not published.",
    evidence=[
        Claim(
            "If merging takes half as long, PKG has about the throughput of Mixed.",
            "fig. 15a",
            lambda r: ratios(r, "mixed on social", "pkg, cheap merges on social", after_join)[0],
            above=0.9,
            below=1.1,
        ),
    ],
)

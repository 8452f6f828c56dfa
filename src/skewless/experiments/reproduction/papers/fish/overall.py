"""FISH, figures 9 to 11: execution time and memory of all schemes (section 6.2)."""

from __future__ import annotations

from skewless.experiments.reproduction.figure import Cell, Claim, Figure, Plot, Results, Size
from skewless.experiments.reproduction.papers.fish import streams, systems
from skewless.experiments.reproduction.papers.fish.systems import lines, on_streams, ratios

_CURVES = ("SG", "PKG", "D-C", "W-C", "FISH", "Cascade")
_TIME = "execution_seconds"
_WHERE = "section 6.2, read from the text"


def _on_real(size: Size) -> dict[str, Cell]:
    both = [streams.am(size), streams.mt(size)]
    return systems.grid(size, _CURVES, both, streams.workers(size))


def on_zf(size: Size, *curves: str) -> dict[str, Cell]:
    """Return the cells of these curves for all skews and numbers of workers."""
    skews = [streams.zf(size, z) for z in streams.skews(size)]
    return systems.grid(size, curves, skews, streams.workers(size))


def _slower(results: Results, curve: str, stream: str = "", n_workers: int = 0) -> float:
    """Return how much longer a scheme takes than FISH, at most."""
    return max(ratios(results, _TIME, curve, "FISH", stream=stream, n_workers=n_workers))


FIGURE_9 = Figure(
    paper="fish",
    number="9",
    title="Execution time on the two data sets, relative to SG",
    cells=_on_real,
    claims=[
        Claim(
            "FISH takes 1.07 times as long as SG in the worst case",
            _WHERE,
            lambda results: max(ratios(results, _TIME, "FISH", "SG")),
            1.07,
            "at most",
        ),
        Claim(
            "PKG takes 1.19 times as long as FISH with 16 workers on MT",
            _WHERE,
            lambda results: _slower(results, "PKG", "MT", 16),
            1.19,
            "value",
            above=1.0,
        ),
        Claim(
            "PKG takes 8.32 times as long as FISH with 128 workers on MT (which chose the stream)",
            _WHERE,
            lambda results: _slower(results, "PKG", "MT", -1),
            8.32,
            "value",
            above=1.5,
        ),
        Claim(
            "PKG takes 1.12 times as long as FISH with 16 workers on AM",
            _WHERE,
            lambda results: _slower(results, "PKG", "AM", 16),
            1.12,
            "value",
            above=1.0,
        ),
        Claim(
            "PKG takes 7.31 times as long as FISH with 128 workers on AM (which chose the stream)",
            _WHERE,
            lambda results: _slower(results, "PKG", "AM", -1),
            7.31,
            "value",
            above=1.5,
        ),
        Claim(
            "D-C takes up to 7.44 times as long as FISH",
            _WHERE,
            lambda results: _slower(results, "D-C"),
            7.44,
            "factor",
            above=1.5,
        ),
        Claim(
            "W-C takes up to 6.95 times as long as FISH",
            _WHERE,
            lambda results: _slower(results, "W-C"),
            6.95,
            "factor",
            above=1.5,
        ),
    ],
    plots=[
        Plot(
            "workers",
            "execution time / that of SG",
            lambda results: lines(results, _TIME, _CURVES, "SG", "workers"),
            {
                "PKG, MT (over FISH)": [(16, 1.19), (128, 8.32)],
                "PKG, AM (over FISH)": [(16, 1.12), (128, 7.31)],
            },
        )
    ],
    data=streams.ABOUT_BOTH,
)


def _zf_and_am(size: Size) -> dict[str, Cell]:
    """Return the cells of figure 10, and what shows when lifetime counts fail."""
    am = systems.grid(size, ("W-C", "FISH"), [streams.am(size)], streams.workers(size)[-1:])
    return on_zf(size, *_CURVES) | am


def _zf(results: Results) -> Results:
    return on_streams(results, "z")


def _if_never_found(results: Results) -> float:
    """Return the time over that of SG if the reversed fifth is as bad as PKG, the rest perfect."""
    return 0.8 + 0.2 * max(ratios(_zf(results), _TIME, "PKG", "SG"))


def _by_skew(results: Results, curve: str) -> float:
    """Return what the largest skew takes over what the smallest takes, with the most workers."""
    found = ratios(_zf(results), _TIME, curve, "SG", n_workers=-1)
    return found[-1] / found[0]


FIGURE_10 = Figure(
    paper="fish",
    number="10",
    title="Execution time on the time-evolving Zipf stream, relative to SG",
    cells=_zf_and_am,
    claims=[
        Claim(
            "FISH takes 1.32 times as long as SG in the worst case",
            _WHERE,
            lambda results: max(ratios(_zf(results), _TIME, "FISH", "SG")),
            1.32,
            "at most",
        ),
        Claim(
            "D-C takes up to 13.57 times as long as FISH",
            _WHERE,
            lambda results: _slower(_zf(results), "D-C"),
            13.57,
            "factor",
            above=1.05,
        ),
        Claim(
            "W-C takes up to 12.05 times as long as FISH",
            _WHERE,
            lambda results: _slower(_zf(results), "W-C"),
            12.05,
            "factor",
            above=1.05,
        ),
        Claim(
            "PKG is the worst of the four schemes",
            _WHERE,
            lambda results: (
                max(ratios(_zf(results), _TIME, "PKG", "SG"))
                / max(
                    max(ratios(_zf(results), _TIME, curve, "SG"))
                    for curve in ("D-C", "W-C", "FISH")
                )
            ),
            above=1.0,
        ),
        Claim(
            "PKG becomes worse as the skew grows",
            _WHERE,
            lambda results: _by_skew(results, "PKG"),
            above=1.0,
        ),
        Claim(
            "D-C becomes worse as the skew grows",
            _WHERE,
            lambda results: _by_skew(results, "D-C"),
            above=1.0,
        ),
        Claim(
            "W-C becomes worse as the skew grows",
            _WHERE,
            lambda results: _by_skew(results, "W-C"),
            above=1.0,
        ),
        Claim(
            "The gap between PKG and FISH grows with the workers",
            _WHERE,
            lambda results: (
                _slower(_zf(results), "PKG", n_workers=-1)
                / _slower(_zf(results), "PKG", n_workers=16)
            ),
            above=1.0,
        ),
    ],
    plots=[
        Plot(
            "skew z",
            "execution time / that of SG",
            lambda results: lines(_zf(results), _TIME, _CURVES, "SG", "skew"),
            log_y=True,
        )
    ],
    data=streams.ABOUT_ZF,
    why=(
        "W-C calls a key hot that has 1 / (5n) of all records so far. With 128 workers, the "
        "hottest key of the reversed order has them after 1 % (z = 2) to 8 % (z = 1) of the first "
        "reversed part, and keeps them in all later periods. The published factor is out of reach "
        "by the stream as described: even if W-C split nothing in the reversed fifth, it would be "
        "lower (first evidence). Counts since the start do fail where hot keys never come back "
        "(second evidence)"
    ),
    evidence=[
        Claim(
            "If the reversed fifth of the stream took as long as with PKG, and the rest as long "
            "as with SG, W-C would take less than the published 12.05 times as long",
            "ours, from the cells of this figure",
            _if_never_found,
            below=12.05,
        ),
        Claim(
            "On the stream in place of AM, W-C takes more than twice as long as FISH",
            "ours, from the cells of this figure",
            lambda results: ratios(results, _TIME, "W-C", "FISH", stream="AM")[0],
            above=2.0,
        ),
    ],
)

FIGURE_11 = Figure(
    paper="fish",
    number="11",
    title="Memory on the time-evolving Zipf stream, relative to FG",
    cells=lambda size: on_zf(size, "FG", *_CURVES),
    claims=[
        Claim(
            "SG needs 15.52 times the memory of FG at the least (16 workers, as we read it)",
            _WHERE,
            lambda results: max(ratios(results, "replication", "SG", "FG", n_workers=16)),
            15.52,
            "value",
            above=2.0,
        ),
        Claim(
            "SG needs 88.32 times the memory of FG at the most",
            _WHERE,
            lambda results: max(ratios(results, "replication", "SG", "FG")),
            88.32,
            "factor",
            above=2.0,
        ),
        Claim(
            "FISH needs 2.61 times the memory of FG at the most, with 128 workers",
            _WHERE,
            lambda results: max(ratios(results, "replication", "FISH", "FG", n_workers=-1)),
            2.61,
            "factor",
            above=1.0,
        ),
        Claim(
            "FISH needs 1.11 times the memory of FG at the least",
            _WHERE,
            lambda results: min(ratios(results, "replication", "FISH", "FG")),
            1.11,
            "value",
            above=1.0,
        ),
        Claim(
            "W-C's memory is closer to FG's than SG's is",
            _WHERE,
            lambda results: max(ratios(results, "replication", "W-C", "SG", n_workers=-1)),
            below=1.0,
        ),
        Claim(
            "FISH needs far less memory than SG",
            _WHERE,
            lambda results: max(ratios(results, "replication", "FISH", "SG", n_workers=-1)),
            below=0.5,
        ),
    ],
    plots=[
        Plot(
            "skew z",
            "replicas per key",
            lambda results: lines(results, "replication", ("FG", *_CURVES), "FG", "skew"),
            log_y=True,
        )
    ],
    data=streams.ABOUT_ZF,
    why=(
        "A shorter stream has fewer records of each key, so SG has fewer replicas, and fewer keys "
        "that occur once, which have one replica under any scheme"
    ),
)

FIGURES = (FIGURE_9, FIGURE_10, FIGURE_11)

"""FISH, figures 2 to 4: what is wrong with the schemes before it, and what its clock relies on."""

from __future__ import annotations

from collections.abc import Mapping

from skewless.experiments.reproduction.cells import Simulation
from skewless.experiments.reproduction.figure import (
    Cell,
    Claim,
    Figure,
    Plot,
    Points,
    Results,
    Size,
)
from skewless.experiments.reproduction.papers.fish import streams, systems
from skewless.experiments.reproduction.papers.fish.systems import lines, mean, places, ratios

_CURVES = ("FG", "PKG", "SG", "D-C100", "D-C", "W-C100", "W-C", "FISH", "Cascade")
_BATCHES, _BATCH, _WORKERS = 12, 50_000, 10  # of figure 4


#: A limit on the records under way: without it, all queues would be full, and latencies alike.
TIMING = {"service": systems.SERVICE, "pending": 512}


def _on_am(size: Size) -> dict[str, Cell]:
    """Return the cells of figures 2 and 3; D-C and W-C stand for D-C1000 and W-C1000."""
    data = [streams.am(size)]
    return systems.grid(size, _CURVES, data, streams.workers(size), timing=TIMING)


def _p99(results: Results, curve: str, base: str) -> float:
    """Return the 99th percentile of one curve over that of another, with the most workers."""
    return ratios(results, "latency_p99", curve, base, n_workers=-1)[0]


def _memory(results: Results, curve: str, base: str = "FG") -> float:
    """Return the replicas of one curve over those of another, with the most workers."""
    return ratios(results, "replication", curve, base, n_workers=-1)[0]


def _towards_sg(results: Results, curve: str) -> float:
    """Return where the memory of a curve is on the way from PKG's to SG's."""
    least, most = _memory(results, "PKG"), _memory(results, "SG")
    return (_memory(results, curve) - least) / (most - least)


def _growth(results: Results, column: str, curve: str) -> float:
    """Return what the most workers have of a column over what the fewest have."""
    found = sorted(places(results, curve), key=lambda place: place[1])
    first, last = (mean(results, column, curve, *place) for place in (found[0], found[-1]))
    return last / first


FIGURE_2 = Figure(
    paper="fish",
    number="2",
    title="Latency of earlier schemes as workers are added",
    cells=_on_am,
    claims=[
        Claim(
            "FG's 99th percentile, 3,945 ms, is 1.40 times that of PKG, 2,808 ms",
            "section 2.3, read from the text",
            lambda results: _p99(results, "FG", "PKG"),
            3945 / 2808,
            "factor",
            above=1.0,
        ),
        Claim(
            "W-C with 1,000 counted keys has almost the latency of PKG",
            "section 2.3, read from the text",
            lambda results: _p99(results, "W-C", "PKG"),
            1.0,
            "value",
            above=0.5,
        ),
        Claim(
            "D-C with 1,000 counted keys has almost the latency of PKG",
            "section 2.3, read from the text",
            lambda results: _p99(results, "D-C", "PKG"),
            1.0,
            "value",
            above=0.5,
        ),
        Claim(
            "With 100 counted keys, the latency of W-C is lower",
            "section 2.3, read from the text",
            lambda results: _p99(results, "W-C100", "W-C"),
            below=1.0,
        ),
        Claim(
            "With 100 counted keys, the latency of D-C is lower",
            "section 2.3, read from the text",
            lambda results: _p99(results, "D-C100", "D-C"),
            below=1.0,
        ),
        Claim(
            "W-C's mean latency grows with the workers, next to that of SG",
            "section 2.3, read from the text",
            lambda results: (
                _growth(results, "latency_mean", "W-C") / _growth(results, "latency_mean", "SG")
            ),
            above=1.0,
        ),
    ],
    plots=[
        Plot(
            "workers",
            "99th percentile of latency / that of SG",
            lambda results: lines(results, "latency_p99", _CURVES, "SG", "workers"),
            log_y=True,
        )
    ],
    data=streams.ABOUT_AM,
)

FIGURE_3 = Figure(
    paper="fish",
    number="3",
    title="Memory of earlier schemes as workers are added, relative to FG",
    cells=_on_am,
    claims=[
        Claim(
            "SG needs 23.16 times the memory of FG with 128 workers",
            "section 2.3, read from the text",
            lambda results: _memory(results, "SG"),
            23.16,
            "value",
            above=2.0,
        ),
        Claim(
            "W-C with 100 counted keys needs about the memory of SG",
            "section 2.3, read from the text",
            lambda results: _memory(results, "W-C100", "SG"),
            1.0,
            "value",
            above=0.5,
        ),
        Claim(
            "D-C with 100 counted keys needs about the memory of SG; PKG is 0 here, and SG is 1",
            "section 2.3, read from the text",
            lambda results: _towards_sg(results, "D-C100"),
            1.0,
            "factor",
            above=0.05,
        ),
        Claim(
            "SG's memory grows with the workers",
            "section 2.3, read from the text",
            lambda results: _growth(results, "replication", "SG"),
            above=1.2,
        ),
    ],
    plots=[
        Plot(
            "workers",
            "replicas per key",
            lambda results: lines(results, "replication", _CURVES, "FG", "workers"),
            {"SG": [(128, 23.16)]},
            log_y=True,
        )
    ],
    data=streams.ABOUT_AM,
    why=(
        "With 100 counted keys, all keys pass for hot, with a share of about 1 % each. The d that "
        "D-C needs for such keys is small, so their replicas are few"
    ),
)


def _batches(size: Size) -> dict[str, Cell]:
    """Return workers that process twelve batches each; each is a simulation of its own."""
    batch = min(_BATCH, size.records // _BATCHES)
    of = {"z": 1.0, "n_keys": streams.ZF_KEYS, "n_records": _BATCHES * batch}
    return {
        f"{name}, worker {worker}": Simulation(
            strategy,
            "zipf",
            {},
            of,
            n_workers=1,
            seed=worker,
            window=batch,
            timing={"service": systems.SERVICE, "spread": "exponential"},
        )
        for name, strategy in (("FISH", "fish"), ("Cascade", "cascade"))
        for worker in range(1, _WORKERS + 1)
    }


def _fluctuation(results: Results, curve: str) -> float:
    """Return the mean over the workers of (slowest − fastest) / mean time of a batch."""
    found: list[float] = []
    for name, row in results.items():
        if name.startswith(curve):
            seconds = [1.0 / float(rate) for rate in row["window_throughput"]]
            found.append((max(seconds) - min(seconds)) * len(seconds) / sum(seconds))
    return sum(found) / len(found)


def _by_batch(results: Results) -> Mapping[str, Points]:
    return {
        name: [(i + 1, 1.0 / rate) for i, rate in enumerate(row["window_throughput"])]
        for name, row in results.items()
        if name.startswith("FISH")
    }


FIGURE_4 = Figure(
    paper="fish",
    number="4",
    title="Time of a worker for batches of as many records",
    cells=_batches,
    claims=[
        Claim(
            "It fluctuates by 4.37 % on average: a worker's past tells how long its queue takes",
            "section 3, observation 2, read from the text",
            lambda results: _fluctuation(results, "FISH"),
            0.0437,
            "at most",
        ),
    ],
    plots=[Plot("batch", "seconds", _by_batch, log_y=False)],
    data=(
        "twelve batches of 50,000 records for each of ten workers, in virtual time. The time of a "
        "record is random with a standard deviation as large as its mean; that of a machine varies "
        "less from record to record, but it has disturbances that last"
    ),
)

FIGURES = (FIGURE_2, FIGURE_3, FIGURE_4)

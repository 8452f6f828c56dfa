"""Dalton's figures: learned partitioning for distributed data streams (PVLDB 16(3), 2022).

`pipeline` is the dataflow that most of them measure: partitioners, combiners of a sliding window,
reducers; the slowest stage decides. It counts slide by slide.

What the paper does not say had to be chosen, and some verdicts depend on it: the costs of a record,
of a partial result and of a decision (`pipeline`), and the number of workers of sections 5.2 and
5.4, for which 64 is taken, the most of section 5.1. Where we saw a verdict change with such a
choice, the figure has evidence that shows it. A hot key is learned when each worker has been tried
some twenty times, which takes 20 · n / ε of its records, and the paper measures after hours: where
that matters, a figure of few cells takes longer streams than its size says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.reproduction.cells import Simulation
from experiments.reproduction.figure import Measurement, Paper, Size, named
from experiments.reproduction.fitting import fitted_z
from experiments.reproduction.papers.dalton import learning
from experiments.reproduction.papers.dalton.pipeline import (
    EMIT,
    MERGE,
    SCORE,
    Pipeline,
    cell,
    service,
)
from experiments.reproduction.table import Entry, Table

#: Lines of Table 2: keys, and the share of the top key.
STREAMS = {"T4SA": (450_000, 0.0269), "Elections": (200_000, 0.072), "Zipf": (100_000, 0.3845)}
#: Records of a second at the rate that the paper's systems reach with 64 workers (section 5.3).
_RECORDS_PER_SECOND = 40_000
_WINDOW_SECONDS = 60
_SLIDES = 200  # of a stream
_MOST_WORKERS = 64

# Section 5.2: distributions that change while the stream runs.
_PERIODS = 4
_RECENT = 10  # seconds that queues even out
_COMPARISON = 1e-7  # seconds of one comparison of two records (correlation clustering)

# Section 5.4: several partitioners, each with a stream of its own.
_SLIDE_SECONDS = 20
_WINDOW_SLIDES = _WINDOW_SECONDS // _SLIDE_SECONDS
_LONG_SLIDES = 40  # of a stream
_MOST_KEYS = 1_000_000  # the most of Table 2, for which reducers matter at these rates
#: Records of a long slide that the combiners can take: they do less for each.
_LONG_SLIDE = _SLIDE_SECONDS * 400_000
#: Seconds of a partitioner to send and to take over a table: 56 hot keys, 56 values each.
_MESSAGE = 2 * 56 * 56 * SCORE
_FINER = 4  # parts of a slide, to see when learning has converged


def _second(size: Size) -> int:
    """Return the records of a second: the paper's, or fewer in a smaller size."""
    return min(_RECORDS_PER_SECOND, size.records // _SLIDES)


def _zipf(stream: str, size: Size) -> dict[str, Any]:
    """Return the stream that stands for a data set, with as many keys per record of a window."""
    published, top_share = STREAMS[stream]
    n_keys = max(1_000, published * _second(size) // _RECORDS_PER_SECOND)
    z = fitted_z(n_keys, top_share, digits=3)
    return {"z": z, "n_keys": n_keys, "n_records": _SLIDES * _second(size)}


def scaled(
    size: Size, *, system: str, workers: int, seed: int, stream: str, model: str, longer: int = 1
) -> Pipeline:
    """Return a system on a stream, by `records` or in `batches` of a second."""
    size, batches = size.longer(longer, "dalton"), model == "batches"
    return cell(
        system,
        "zipf",
        _zipf(stream, size),
        parallelism=workers,
        slide=_second(size),
        seed=seed,
        batches=batches,
        service=service(1 if batches else 60),
    )


def changing(
    size: Size,
    *,
    system: str,
    seed: int,
    workload: str,
    of: Mapping[str, Any],
    batches: bool = False,
    quadratic: bool = False,
) -> Pipeline:
    """Return a system on a stream that changes four times.

    `quadratic`: records are compared with each other, in a shorter window.
    """
    n_slides, per_period = (3, 50) if quadratic else (_WINDOW_SECONDS, 200)
    slide = min(_RECORDS_PER_SECOND, size.longer(6, "dalton").records // (_PERIODS * per_period))
    window = _RECORDS_PER_SECOND * _WINDOW_SECONDS
    period = per_period * slide
    n_keys = max(1_000, 100_000 * slide * n_slides // window)
    return cell(
        system,
        workload,
        {**of, "n_keys": n_keys, "n_records": _PERIODS * period, "period": period},
        parallelism=_MOST_WORKERS,
        slide=slide,
        n_slides=n_slides,
        recent=min(_RECENT, n_slides),
        seed=seed,
        batches=batches,
        quadratic=quadratic,
        service=_COMPARISON if quadratic else service(1 if batches else 60),
    )


def counting(size: Size, *, z: float, seed: int) -> Measurement:
    """Build the cell that measures counting keys in statistics windows of several lengths."""
    n_records = min(size.records, 2_000_000)
    windows = [length for length in (1_000, 10_000, 100_000, 1_000_000) if 2 * length <= n_records]
    return learning.clocked_counts(z, n_records, windows, seed)


def forced(size: Size, *, system: str, hot: int, seed: int) -> Pipeline:
    """Return Dalton with so many hot keys from the start; Cascade as it is."""
    slide = _second(size.longer(4, "dalton"))
    of = {"z": 1.0, "n_keys": 100_000, "n_records": _SLIDES * slide}
    own = cell(system, "zipf", of, parallelism=_MOST_WORKERS, slide=slide, seed=seed)
    if system != "dalton":
        return own
    # Rows for all of them; what is hot does not depend on the statistics here.
    settings = {"slide": slide, "n_slides": 60, "stats_window": 1_000, "hybrid": False}
    return learning.ForcedHotKeys(**{**vars(own), "settings": settings}, n_hot=hot)


def found(size: Size, *, seed: int) -> Measurement:
    """Build the cell that counts the hot keys that Dalton finds."""
    slide = _second(size.longer(4, "dalton"))
    return learning.found_hot_keys(1.0, 100_000, _SLIDES * slide, slide, seed)


def variants(
    size: Size,
    *,
    system: str,
    stream: str,
    seed: int,
    settings: Mapping[str, Any] | None = None,
    forwarding: bool = True,
) -> Pipeline:
    """Return Dalton with or without its parts, or another system as it is."""
    given: dict[str, Any] = {"parallelism": _MOST_WORKERS, "slide": _second(size), "seed": seed}
    of = _zipf(stream, size)
    if settings is None:
        return cell(system, "zipf", of, **given)
    own = cell("dalton", "zipf", of, **given)
    scores = 0.0 if settings.get("hybrid", True) else own.n_workers * SCORE
    return replace(
        own,
        settings={**own.settings, **settings},
        merging="split" if forwarding else "all",
        emit=EMIT + scores,
    )


def arriving(size: Size, *, system: str, workers: int, rate: int, seed: int) -> Simulation:
    """Return a simulation with a clock: records arrive at a rate, the last stage merges."""
    slide, of = _second(size), _zipf("Zipf", size)
    own = cell(system, "zipf", of, parallelism=workers, slide=slide)
    merges = own.merging == "all"  # keys that are forwarded are not merged
    return Simulation(
        system,
        "zipf",
        settings=own.settings,
        of=of,
        n_workers=own.n_workers,
        seed=seed,
        window=60 * slide,
        timing={
            "service": service(60),
            "emit": EMIT,
            "arrivals": "even",
            "rate": float(rate),
            # A window of the simulator ends once in 60 slides, with the results of as many.
            "merge": 60 * MERGE if merges else 0.0,
            "reducers": own.reducers,
            "unmerged": int(merges),
            "queue": 1_000,
        },
    )


def partitioned(
    size: Size,
    *,
    system: str,
    seed: int,
    exponents: list[float],
    sources: int = 2,
    same_hot_keys: bool = False,
    workers: int = _MOST_WORKERS,
    few_keys: bool = False,
    interval: float | None = None,
    finer: bool = False,
    averaging: str = "rewards",
) -> Pipeline:
    """Return a system with several partitioners, each with a stream of its own.

    Dalton's share what they learn every half slide, which is the interval that the adaptive
    protocol finds (section 5.4); or after `interval` seconds, 0 for never. `few_keys`: reducers
    have a tenth of the work, as with the fewest keys of Table 2. `finer`: slides have four parts,
    whatever the partitioners: record i goes to partitioner i mod p. `averaging`: that of
    Dalton.
    """
    slide = min(_LONG_SLIDE, size.longer(4, "dalton").records // _LONG_SLIDES)
    parts = _FINER if finer else 1
    slide = slide // parts * parts
    more: dict[str, Any] = {"merge": MERGE * 100_000 / _MOST_KEYS} if few_keys else {}
    sync = slide // 2 if system == "dalton" and sources > 1 else 0
    if interval is not None and system == "dalton":
        sync = max(2, int(interval * slide / _SLIDE_SECONDS)) if interval else 0
        more["exchange"] = _MESSAGE
    own = cell(
        system,
        "per-source",
        {
            "exponents": tuple(exponents),
            "n_keys": max(1_000, _MOST_KEYS * slide // _LONG_SLIDE),
            "n_records": _LONG_SLIDES * slide,
            "heavy_hitters": "same" if same_hot_keys else "different",
        },
        parallelism=workers,
        slide=slide // parts,
        n_slides=_WINDOW_SLIDES * parts,
        seed=seed,
        n_sources=sources,
        sync=sync,
        service=service(_WINDOW_SLIDES),
        **more,
    )
    merged = {"averaging": averaging} if system == "dalton" and averaging != "rewards" else {}
    return replace(own, settings={**own.settings, **merged})


def adapting(
    size: Size, *, system: str, seed: int, interval: int = 20, adaptive: bool = True
) -> Measurement:
    """Return two partitioners whose reducer becomes slower and faster."""
    phase = max(200, min(5_000, size.records // 800))
    return learning.adapting(system, phase, interval, adaptive, seed)


def _by_period(entry: Entry) -> Any:
    return np.array(entry.row["slide_throughput"]).reshape(_PERIODS, -1)


def _while_uniform(entry: Entry) -> float:
    """Return the mean throughput in the second halves of the uniform periods."""
    throughput = _by_period(entry)
    return float(throughput[0::2, throughput.shape[1] // 2 :].mean())


def _final(values: list[float]) -> float:
    """Return the mean over the last quarter of the run."""
    return float(np.mean(values[-len(values) // 4 :]))


def _late_peaks(entry: Entry) -> float:
    """Return max / mean load after the first quarter: what balance would give, over throughput."""
    peaks = entry.row["window_max_load_ratio"]
    return float(np.mean(peaks[len(peaks) // 4 :]))


def _converged(table: Table, **axes: Any) -> float:
    """Return after how many slides a window is nearly as balanced as it will be.

    The imbalance of the window is first below 1.2 times its final value, after the window was full.
    """
    values = table.series("slide_load_difference", **axes)
    nearly, full = 1.2 * _final(values), _FINER * _WINDOW_SLIDES
    return float(next((i for i in range(full, len(values)) if values[i] <= nearly), len(values)))


PAPER = Paper(
    "dalton",
    "Dalton",
    named(*(scaled, changing, counting, forced, found, variants, arriving, partitioned, adapting)),
    columns={
        "while_skewed": lambda entry: float(_by_period(entry)[1::2].mean()),
        "always": lambda entry: float(np.mean(entry.row["slide_throughput"])),
        "final_difference": lambda entry: _final(entry.row["slide_load_difference"]),
        "final_width": lambda entry: _final(entry.row["slide_watched_width"]),
        **named(_while_uniform, _late_peaks),
    },
    calls={
        "interval": lambda table, phase, **axes: table.series("intervals", **axes)[phase - 1],
        **named(_converged),
    },
)

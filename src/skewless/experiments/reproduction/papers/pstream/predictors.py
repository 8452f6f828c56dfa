"""PStream's Figures 34–36: its predictor of hot keys, and recall and precision of all rivals."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from skewless.experiments.reproduction.figure import (
    Cell,
    Claim,
    Figure,
    Plot,
    Points,
    Results,
    Size,
)
from skewless.experiments.reproduction.papers.pstream.hot_keys import PredictedHotKeys, TimeHot
from skewless.experiments.reproduction.papers.pstream.rivals import KINDS

_STREAMS = ("z = 1.0", "z = 1.5", "drift")
_EXPONENTS = (1.0, 1.25, 1.5, 1.75, 2.0)
_COMPARED = ("coins", "count-min", "ada-count-min", "cascade")
_SIZED = ("count-min", "ada-count-min", "space-saving", "fading")  # of a size that is chosen
_N_KEYS = 10_000_000
_MOST_RECORDS = 4_000_000
_PERIODS = 4
_F = 0.01
_SETTLED = 2_000_000  # records in which a key of a share of f / 4 has some thousand
_ROOMY = 48_000  # bytes: 24 times what the synopsis takes at f = 1 %


def _zipf(kind: str, z: float, size: Size, memory: int = 0) -> PredictedHotKeys:
    n_records = min(size.records, _MOST_RECORDS)
    of = {"z": z, "n_keys": _N_KEYS, "n_records": n_records}
    return PredictedHotKeys(kind, "zipf", of, f=_F, memory=memory)


def _drifting(kind: str, size: Size, memory: int = 0) -> PredictedHotKeys:
    n_records = min(size.records, _MOST_RECORDS)
    of = {
        "z_min": 1.0,
        "z_max": 1.0,
        "n_keys": _N_KEYS,
        "n_records": n_records,
        "period": n_records // _PERIODS,
    }
    return PredictedHotKeys(kind, "shifting-zipf", of, f=_F, memory=memory)


def _by_exponent(size: Size) -> Mapping[str, Cell]:
    return {f"{kind} {z}": _zipf(kind, z, size) for kind in _COMPARED for z in _EXPONENTS}


def _precision(size: Size) -> Mapping[str, Cell]:
    return {
        **_by_exponent(size),
        "roomy count-min 1.0": _zipf("count-min", 1.0, size, _ROOMY),
        **{f"a share of {part} f": TimeHot(part * _F, _SETTLED) for part in (1.0, 0.25)},
    }


def _at_one(size: Size) -> Mapping[str, Cell]:
    return {f"{kind} 1.0": _zipf(kind, 1.0, size) for kind in _COMPARED}


def _table(size: Size) -> Mapping[str, Cell]:
    cells: dict[str, Cell] = {}
    for memory, name, kinds in ((0, "", KINDS), (_ROOMY, "roomy ", _SIZED)):
        for kind in kinds:
            cells[f"{name}{kind}, z = 1.0"] = _zipf(kind, 1.0, size, memory)
            cells[f"{name}{kind}, z = 1.5"] = _zipf(kind, 1.5, size, memory)
            cells[f"{name}{kind}, drift"] = _drifting(kind, size, memory)
    return cells


def _of(label: str, column: str) -> Callable[[Results], float]:
    return lambda results: float(results[label][column])


def _ratio(one: str, other: str, column: str) -> Callable[[Results], float]:
    return lambda results: results[one][column] / max(results[other][column], 1e-9)


def _curves(column: str) -> Callable[[Results], Mapping[str, Points]]:
    return lambda results: {
        kind: [(z, float(results[f"{kind} {z}"][column])) for z in _EXPONENTS] for kind in _COMPARED
    }


def _bars(column: str) -> Callable[[Results], Mapping[str, Points]]:
    return lambda results: {
        kind: [(stream, results[f"{kind}, {stream}"][column]) for stream in _STREAMS]
        for kind in KINDS
    }


_STREAM = (
    "Zipf over 10 million keys, as the paper's ZF, and f = 1 %. All predictors but Cascade have "
    "the 2,000 bytes that the synopsis takes by Theorem 4 (1/p entries of a key and 16 bits); "
    "counters take 4 bytes. Cascade runs with n = 1/(8f) workers."
)
_STEPS = (
    " A step is a coin tossed, a hash taken, or a cell or entry touched: times of the paper are "
    "of its cluster, so steps per record stand in for them."
)

_FIGURE_34 = Figure(
    "pstream",
    "34",
    "Precision of predictors of hot keys with the same memory",
    _precision,
    claims=[
        Claim(
            "96 % of the keys that PStream calls hot are hot",
            "section 6.2, Fig. 34, read from the text",
            _of("coins 1.0", "key_precision"),
            0.96,
            "value",
        ),
        Claim(
            "PStream's precision is 23 % above that of count-min (here with z = 1.0)",
            "section 6.2, Fig. 34, read from the text",
            _ratio("coins 1.0", "count-min 1.0", "key_precision"),
            1.23,
            "factor",
            above=1.0,
        ),
        Claim(
            "PStream's precision is above that of Ada-CMSketch (here with z = 1.0)",
            "section 6.2, Fig. 34, read from the text",
            _ratio("coins 1.0", "ada-count-min 1.0", "key_precision"),
            above=1.0,
        ),
    ],
    plots=[
        Plot(
            "Zipf exponent", "precision by key", _curves("key_precision"), {"PStream": [(1, 0.96)]}
        ),
        Plot("Zipf exponent", "precision by record", _curves("record_precision")),
    ],
    data=_STREAM,
    why="With p = f/2 the coins do not separate keys sharply at a share of f: a key with a quarter "
    "of it is called hot for part of the time too. A Zipf stream has several such keys for each "
    "hot one. By record, the coins do better: most of the records that they call hot are of hot "
    "keys. The paper does not say by which share a key counts as hot, nor how much memory it "
    "gives, nor for which skew. Coins beat count-min where it has too few counters: with z = 1.0 "
    "in the memory of the synopsis it calls nearly every key hot. With 24 times as much memory, "
    "or with z = 1.5, count-min is the more precise one.",
    evidence=[
        Claim(
            "a key with a share of f is called hot for only part of the time",
            "our measurement",
            _of("a share of 1.0 f", "hot"),
            above=0.3,
            below=0.8,
        ),
        Claim(
            "a key with a quarter of that share is called hot for more than a tenth of the time",
            "our measurement",
            _of("a share of 0.25 f", "hot"),
            above=0.1,
        ),
        Claim(
            "z = 1.0: most of the records that coins call hot are of hot keys",
            "our measurement",
            _of("coins 1.0", "record_precision"),
            above=0.6,
        ),
        Claim(
            "z = 2.0: nearly all of the records that coins call hot are of hot keys",
            "our measurement",
            _of("coins 2.0", "record_precision"),
            above=0.9,
        ),
        Claim(
            "z = 1.0: of the keys that coins call hot, more have a share above f/4 than above f",
            "our measurement",
            lambda results: (
                results["coins 1.0"]["key_precision_near"]
                / max(results["coins 1.0"]["key_precision"], 1e-9)
            ),
            above=1.0,
        ),
        Claim(
            "z = 1.0: count-min with 24 times the memory is more precise than coins",
            "our measurement",
            _ratio("roomy count-min 1.0", "coins 1.0", "key_precision"),
            above=1.0,
        ),
        Claim(
            "z = 1.5: count-min with the same memory is more precise than coins",
            "our measurement",
            _ratio("count-min 1.5", "coins 1.5", "key_precision"),
            above=1.0,
        ),
    ],
)

_FIGURE_35 = Figure(
    "pstream",
    "35",
    "What it takes to find out whether a record has a hot key",
    _at_one,
    claims=[
        Claim(
            f"PStream needs {share:.0%} less than {name}",
            "section 6.2, Fig. 35, read from the text (1.4 ms in the mean)",
            lambda results, kind=kind: 1.0 - _ratio("coins 1.0", f"{kind} 1.0", "steps")(results),  # type: ignore[misc]
            share,
            "value",
            above=0.0,
        )
        for kind, name, share in (
            ("count-min", "count-min", 0.80),
            ("ada-count-min", "Ada-CMSketch", 0.84),
        )
    ],
    plots=[
        Plot(
            "predictor",
            "steps per record",
            lambda results: {
                "steps": [(kind, results[f"{kind} 1.0"]["steps"]) for kind in _COMPARED]
            },
        )
    ],
    data=_STREAM + _STEPS,
)

_FIGURE_36 = Figure(
    "pstream",
    "36",
    "Records that a predictor takes in the same time",
    _by_exponent,
    claims=[
        Claim(
            f"with z = 1.0, PStream's predictor takes {gain:.1%} more records than {name}",
            "section 6.2, Fig. 36, read from the text",
            _ratio(f"{kind} 1.0", "coins 1.0", "steps"),
            1 + gain,
            "factor",
            above=1.0,
        )
        for kind, name, gain in (
            ("count-min", "count-min", 0.367),
            ("ada-count-min", "Ada-CMSketch", 0.475),
        )
    ],
    plots=[
        Plot(
            "Zipf exponent",
            "records per 100 steps",
            lambda results: {
                kind: [(z, 100 / results[f"{kind} {z}"]["steps"]) for z in _EXPONENTS]
                for kind in _COMPARED
            },
        )
    ],
    data=_STREAM + _STEPS,
    why="The paper measures bolts of Storm, in which receiving a tuple costs each predictor the "
    "same besides its steps. Steps alone differ more.",
)


_TABLE = Figure(
    "pstream",
    "predictors",
    "Recall and precision of predictors of hot keys, on the same streams",
    _table,
    claims=[
        Claim(
            "SpaceSaving does not follow the recent popularity: its recall falls with drift",
            "section 2, popularity estimation; read from the text",
            _ratio("space-saving, drift", "space-saving, z = 1.0", "key_recall"),
            below=0.9,
        ),
        Claim(
            "a sketch that never forgets does not either: the recall of count-min, with room for "
            "its counters, falls with drift",
            "section 2, popularity estimation; read from the text",
            _ratio("roomy count-min, drift", "roomy count-min, z = 1.0", "key_recall"),
            below=0.9,
        ),
        Claim(
            "Ada-CMSketch has more collisions than count-min, so it is less precise, with the same "
            "room for counters",
            "section 2, popularity estimation; read from the text",
            _ratio("roomy ada-count-min, z = 1.0", "roomy count-min, z = 1.0", "key_precision"),
            below=1.0,
        ),
        Claim(
            "PStream follows drift: its recall there is above that of SpaceSaving",
            "section 4.2; read from the text",
            _ratio("coins, drift", "space-saving, drift", "key_recall"),
            above=1.0,
        ),
        Claim(
            "PStream follows drift: its recall there is above that of count-min with room for its "
            "counters",
            "section 4.2; read from the text",
            _ratio("coins, drift", "roomy count-min, drift", "key_recall"),
            above=1.0,
        ),
    ],
    plots=[
        Plot("stream", "recall by key", _bars("key_recall")),
        Plot("stream", "precision by key", _bars("key_precision")),
    ],
    data=_STREAM
    + " Drift: z = 1.0, and other keys are the hot ones in each quarter of the stream. Roomy: 24 "
    "times the memory for all whose memory can be chosen.",
    evidence=[
        Claim(
            "on a drifting stream, FISH's fading is more precise than coins",
            "our measurement",
            _ratio("fading, drift", "coins, drift", "key_precision"),
            above=1.0,
        ),
        Claim(
            "in the memory of the synopsis, SpaceSaving is more precise than coins",
            "our measurement",
            _ratio("space-saving, z = 1.0", "coins, z = 1.0", "key_precision"),
            above=1.0,
        ),
    ],
)

FIGURES = (_FIGURE_34, _FIGURE_35, _FIGURE_36, _TABLE)

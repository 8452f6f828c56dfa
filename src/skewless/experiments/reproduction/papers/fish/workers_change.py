"""FISH, figure 17: a worker joins or leaves, with and without consistent hashing (section 6.5)."""

from __future__ import annotations

from skewless.experiments.reproduction.figure import Cell, Claim, Figure, Plot, Results, Size
from skewless.experiments.reproduction.papers.fish import streams, systems
from skewless.experiments.reproduction.papers.fish.systems import label, lines, places, ratios

_CURVES = ("FISH", "FISH w/o CH", "Cascade")
_WHERE = "section 6.5, read from the text"
_EVENTS = {"a": "join", "b": "leave"}  # by part of the figure
_LEAVES = 2  # the worker that leaves


def _label(curve: str, part: str) -> str:
    """Return the name of a curve in one part of the figure."""
    return f"{curve} ({part})"


def _event(curve: str, kind: str, n_before: int, at: int) -> dict[str, int | str]:
    """Return what happens: one more worker joins, or worker 2 leaves; of Cascade, the last one."""
    worker = _LEAVES
    if kind == "join":
        worker = n_before
    elif curve == "Cascade":  # only its last worker can leave
        worker = n_before - 1
    return {"at": at, "worker": worker, "kind": kind}


def _cells(size: Size) -> dict[str, Cell]:
    """Return cells in which the workers change after half of the stream."""
    return {
        label(_label(curve, part), stream.label, n, seed): systems.cell(
            curve,
            stream,
            n + (kind == "join"),
            seed,
            events=(_event(curve, kind, n, stream.n_records // 2),),
        )
        for part, kind in _EVENTS.items()
        for curve in _CURVES
        for stream in (streams.zf(size, z) for z in streams.skews(size))
        for n in streams.workers(size)
        for seed in size.seeds
    }


def _memory(results: Results, part: str) -> list[float]:
    """Return replicas without consistent hashing over those with it, by skew, fewest workers."""
    without, with_it = _label("FISH w/o CH", part), _label("FISH", part)
    fewest = min(n for _, n in places(results, with_it))
    return ratios(results, "replication", without, with_it, n_workers=fewest)


def _claims(part: str, event: str) -> list[Claim]:
    return [
        Claim(
            f"When {event}, nearly twice the memory without consistent hashing, at low skew",
            _WHERE,
            lambda results: _memory(results, part)[0],
            2.0,
            "value",
            above=1.1,
        ),
        Claim(
            f"When {event}, memory grows less at high skew",
            _WHERE,
            lambda results: _memory(results, part)[-1] / _memory(results, part)[0],
            below=1.0,
        ),
    ]


def _plot(part: str, event: str) -> Plot:
    curves = [_label(curve, part) for curve in _CURVES]
    return Plot(
        "skew z",
        f"replicas / those with consistent hashing, when {event}",
        lambda results: lines(results, "replication", curves, _label("FISH", part), "skew"),
    )


FIGURE_17 = Figure(
    paper="fish",
    number="17",
    title="Memory when a worker joins or leaves after half of the stream",
    cells=_cells,
    claims=[*_claims("a", "a worker joins"), *_claims("b", "worker 2 leaves")],
    plots=[_plot("a", "a worker joins"), _plot("b", "worker 2 leaves")],
    data=streams.ABOUT_ZF,
)

FIGURES = (FIGURE_17,)

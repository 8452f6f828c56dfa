"""FISH, figure 17: a worker joins or leaves, with and without consistent hashing (section 6.5)."""

from __future__ import annotations

from skewless.experiments.reproduction.figure import Cell, Claim, Figure, Plot, Results, Size
from skewless.experiments.reproduction.papers.fish import streams, systems
from skewless.experiments.reproduction.papers.fish.systems import label, lines, places, ratios

_CURVES = ("FISH", "FISH w/o CH", "Cascade")
_WHERE = "section 6.5, read from the text"
_LEAVES = 2  # the worker that leaves


def _cells(size: Size, n_before: int, joins: bool) -> dict[str, Cell]:
    """Return cells in which a worker joins, or worker 2 leaves, after half of the stream.

    Only the last worker can leave Cascade.
    """
    cells: dict[str, Cell] = {}
    for curve in _CURVES:
        for stream in (streams.zf(size, z) for z in streams.skews(size)):
            worker = n_before if joins else _LEAVES
            if curve == "Cascade" and not joins:
                worker = n_before - 1
            event = {
                "at": stream.n_records // 2,
                "worker": worker,
                "kind": "join" if joins else "leave",
            }
            for seed in size.seeds:
                cells[label(curve, stream.label, n_before, seed)] = systems.cell(
                    curve, stream, n_before + joins, seed, events=(event,)
                )
    return cells


def _cells_of(joins: bool, size: Size) -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for n_workers in streams.workers(size):
        cells |= _cells(size, n_workers, joins)
    return cells


def _memory(results: Results) -> list[float]:
    """Return replicas without consistent hashing over those with it, by skew, fewest workers."""
    fewest = min(n for _, n in places(results, "FISH"))
    return ratios(results, "replication", "FISH w/o CH", "FISH", n_workers=fewest)


def _figure(number: str, title: str, joins: bool) -> Figure:
    return Figure(
        paper="fish",
        number=number,
        title=title,
        cells=lambda size: _cells_of(joins, size),
        claims=[
            Claim(
                "At low skew, nearly twice the memory without consistent hashing",
                _WHERE,
                lambda results: _memory(results)[0],
                2.0,
                "value",
                above=1.1,
            ),
            Claim(
                "At high skew, memory grows less",
                _WHERE,
                lambda results: _memory(results)[-1] / _memory(results)[0],
                below=1.0,
            ),
        ],
        plots=[
            Plot(
                "skew z",
                "replicas / those with consistent hashing",
                lambda results: lines(results, "replication", _CURVES, "FISH", "skew"),
            )
        ],
        data=streams.ABOUT_ZF,
    )


FIGURES = (
    _figure("17a", "Memory when a worker joins after half of the stream", joins=True),
    _figure("17b", "Memory when worker 2 leaves after half of the stream", joins=False),
)

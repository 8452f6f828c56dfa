"""Balance against replicas: every strategy in every cell, and who is on the front with cascade.

A cell is a stream with a number of workers and sources. Four groups of cells: `grid` (Zipf, from
no skew to strong skew), `sources` (many that do not talk), `real` (drift, and traces from a folder)
and `speeds` (workers that differ). One raw record per cell and strategy; tables come from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from skewless import registry
from skewless.arrays import Keys
from skewless.experiments.tables import Row, markdown
from skewless.simulator import simulate
from skewless.strategy import Rescales
from skewless.workloads import CHUNK_SIZE, EvolvingZipf, Trace, Workload, Zipf

GROUPS = ("grid", "sources", "real", "speeds")
HIGH_SKEW = (1.2, 1.4, 1.6, 1.8, 2.0)
LOW_SKEW = (0.0, 0.5, 0.8, 1.0)
GRID_WORKERS = (128, 32, 64, 16)  # in the order of worth, should time be short
REAL_WORKERS = (128, 64, 16)
SEED = 1
#: Cascade has to meet its budget with each of them; all else is measured with the first.
BUDGET_SEEDS = (1, 2, 3)
MANY_SOURCES = 32
FOR_MANY_SOURCES = ("cascade", "w-choices", "pd-stream", "fish")
N_KEYS = 10_000_000
N_RECORDS = 10_000_000
DRIFTING = EvolvingZipf(z=1.4, n_keys=100_000, n_records=2_000_000, period=500_000)
N_RECORDS_SPEEDS = 2_000_000
#: Their controllers plan by key, which takes up to seconds per window where there are many keys.
#: In these groups they get so many records instead, and `shorter` in their records says so.
SHORTER: dict[str, dict[str, int]] = {
    "mixed": {"grid": 200_000, "speeds": 1_000_000},
    "min-table": {"grid": 200_000, "speeds": 1_000_000},
    "min-mig": {"grid": 200_000, "speeds": 1_000_000},
    "simple": {"grid": 200_000, "speeds": 200_000},
    "mixed-bf": {"grid": 100_000, "speeds": 100_000, "real": 500_000},
    "readj": {"grid": 100_000, "speeds": 100_000, "real": 500_000},
}
MOST_IMBALANCE = 1e-4  # what cascade has to keep under strong skew
SHORTER_MARK = "†"
BATCH_MARK = "*"
DOMINATES_MARK = "◀"


@dataclass(frozen=True)
class Cell:
    """One stream through one strategy."""

    group: str
    stream: str  # "zipf", "evolving-zipf", or the name of a trace
    z: float | None
    workers: int
    sources: int
    seed: int
    strategy: str

    @property
    def limit(self) -> int | None:
        """At most so many records, or None where the strategy gets them all."""
        return SHORTER.get(self.strategy, {}).get(self.group)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What a record must agree in to be the record of this cell."""
        return tuple(getattr(self, name) for name in _IDENTITY)

    def workload(self, data: Path | None = None) -> Workload:
        """Return the stream; traces are files in the folder `data`."""
        if self.stream == "zipf":
            most = N_RECORDS_SPEEDS if self.group == "speeds" else N_RECORDS
            n_records = most if self.limit is None else min(most, self.limit)
            return Zipf(z=self.z or 0.0, n_keys=N_KEYS, n_records=n_records)
        if self.stream == DRIFTING.name:
            return DRIFTING if self.limit is None else replace(DRIFTING, n_records=self.limit)
        if data is None:
            raise ValueError(f"data must be the folder of {self.stream}.parquet, not None")
        return Trace(path=str(data / f"{self.stream}.parquet"), key=("key",), limit=self.limit)


_IDENTITY = ("group", "stream", "z", "workers", "sources", "seed", "strategy")


def identity(record: Row) -> tuple[Any, ...]:
    """Return what identifies the cell of a record."""
    return tuple(record[name] for name in _IDENTITY)


def cells(
    names: Sequence[str], groups: Sequence[str] = GROUPS, traces: Sequence[str] = ()
) -> list[Cell]:
    """Return the cells of these strategies, those that matter most and cost least first."""
    for name in names:
        registry.get(name)  # refuses a name that it does not know
    for group in groups:
        if group not in GROUPS:
            raise ValueError(f"cells must be some of {', '.join(GROUPS)}, not {group!r}")
    chosen = [cell for group in groups for cell in _GROUP_CELLS[group](names, traces)]
    return sorted(
        chosen, key=lambda cell: (cell.strategy in SHORTER, cell.workers not in (128, 32))
    )


def traces_in(data: Path) -> list[str]:
    """Return the names of the traces in a folder: Parquet files with a column `key`."""
    return sorted(path.stem for path in data.glob("*.parquet"))


def _grid(names: Sequence[str], traces: Sequence[str]) -> Iterator[Cell]:
    for z in (*HIGH_SKEW, *LOW_SKEW):
        for n in GRID_WORKERS:
            for name in names:
                yield Cell("grid", "zipf", z, n, 1, SEED, name)
            if z in HIGH_SKEW and "cascade" in names:
                for seed in BUDGET_SEEDS[1:]:
                    yield Cell("grid", "zipf", z, n, 1, seed, "cascade")


def _sources(names: Sequence[str], traces: Sequence[str]) -> Iterator[Cell]:
    for z in (1.4, 2.0):
        for name in names:
            if name in FOR_MANY_SOURCES:
                yield Cell("sources", "zipf", z, 128, MANY_SOURCES, SEED, name)


def _real(names: Sequence[str], traces: Sequence[str]) -> Iterator[Cell]:
    for stream in (DRIFTING.name, *traces):
        z = DRIFTING.z if stream == DRIFTING.name else None
        for n in REAL_WORKERS:
            for name in names:
                yield Cell("real", stream, z, n, 4, SEED, name)


def _speeds(names: Sequence[str], traces: Sequence[str]) -> Iterator[Cell]:
    for z in (1.0, 1.4):
        for name in names:
            if isinstance(registry.make(name), Rescales):
                yield Cell("speeds", "zipf", z, 64, 1, SEED, name)


_GROUP_CELLS = {"grid": _grid, "sources": _sources, "real": _real, "speeds": _speeds}


@dataclass(frozen=True, eq=False)
class _Kept:
    """A stream in memory, for many runs over it."""

    keys: Keys
    name: ClassVar[str] = "kept"

    @property
    def n_records(self) -> int | None:
        return self.keys.size

    def chunks(self, seed: int, chunk_size: int = CHUNK_SIZE) -> Iterator[Keys]:
        for first in range(0, self.keys.size, chunk_size):
            yield self.keys[first : first + chunk_size]


def measure(todo: Iterable[Cell], data: Path | None = None) -> Iterator[Row]:
    """Yield one raw record per cell; neighbours with the same stream share it."""
    last: tuple[Workload, int] | None = None
    kept = _Kept(np.empty(0, np.uint64))
    for cell in todo:
        workload = cell.workload(data)
        if last != (workload, cell.seed):
            kept = _Kept(np.concatenate(list(workload.chunks(cell.seed))))
            last = workload, cell.seed
        run = simulate(
            registry.make(cell.strategy),
            kept,
            n_workers=cell.workers,
            n_sources=cell.sources,
            seed=cell.seed,
            capacities=_half_twice_as_fast(cell.workers) if cell.group == "speeds" else None,
        )
        yield {
            "group": cell.group,
            "stream": cell.stream,
            "z": cell.z,
            **run.summary(),
            "workload": workload.name,
            "shorter": run.n_records == cell.limit,
        }


def _half_twice_as_fast(n_workers: int) -> list[float]:
    return [1.0 + worker % 2 for worker in range(n_workers)]


def in_order(records: Iterable[Row]) -> list[Row]:
    """Return the records in an order that does not depend on when each was measured."""
    place = {name: i for i, name in enumerate((*GROUPS, *registry.names()))}

    def key(record: Row) -> tuple[Any, ...]:
        z = -1.0 if record["z"] is None else record["z"]
        cell = (record["stream"], z, record["workers"], record["sources"], record["seed"])
        return (place[record["group"]], *cell, place[record["strategy"]])

    return sorted(records, key=key)


# What follows reads records only.


def balance_and_replicas(record: Row) -> tuple[float, float]:
    """Return what a cell is judged by: over the whole stream, or means of windows under drift."""
    if record["group"] == "real":
        return record["window_imbalance_mean"], record["window_replication_mean"]
    return record["imbalance"], record["replication"]


def dominates(one: Row, other: Row) -> bool:
    """Return whether `one` is nowhere worse than `other`, and better in something."""
    a, b = balance_and_replicas(one), balance_and_replicas(other)
    return a[0] <= b[0] and a[1] <= b[1] and a != b


def front(records: Sequence[Row]) -> list[Row]:
    """Return the records of one cell that no other one dominates, the best balance first."""
    best = [r for r in records if not any(dominates(other, r) for other in records)]
    return sorted(best, key=balance_and_replicas)


def by_cell(
    records: Iterable[Row], groups: Sequence[str] = ("grid", "real")
) -> dict[str, list[Row]]:
    """Return the records by the title of their cell, where all strategies have the same seed."""
    found: dict[str, list[Row]] = {}
    for record in in_order(records):
        if record["group"] in groups and record["seed"] == SEED:
            found.setdefault(title(record), []).append(record)
    return found


def title(record: Row) -> str:
    """Return the name of a record's cell."""
    stream = f"z = {record['z']}" if record["stream"] == "zipf" else record["stream"]
    return f"{stream}, n = {record['workers']}"


def points(records: Iterable[Row], group: str, n_workers: int) -> list[Row]:
    """Return what a picture of the front needs: a panel per stream with this many workers."""
    chosen = [r for r in records if r["group"] == group and r["workers"] == n_workers]
    found = []
    for panel, rows in by_cell(chosen, [group]).items():
        best = front(rows)
        for row in rows:
            imbalance, replication = balance_and_replicas(row)
            found.append(
                {
                    "panel": panel,
                    "strategy": row["strategy"],
                    "label": _marked(row),
                    "imbalance": imbalance,
                    "replication": replication,
                    "on_front": any(row is one for one in best),
                }
            )
    return found


def budget(record: Row) -> float:
    """Return the most replicas per key that cascade may have under strong skew."""
    return 1.0 + 3.0 * float(record["replication_limit"] - 1.0) + 0.005


def meets_budget(record: Row) -> bool:
    """Return whether both balance and replicas are as good as cascade promises under skew."""
    return bool(record["imbalance"] <= MOST_IMBALANCE and record["replication"] <= budget(record))


def budget_table(records: Sequence[Row]) -> str:
    """Return cascade under strong skew: the worst of its seeds, and the best of the others."""
    grid = [r for r in in_order(records) if r["group"] == "grid" and r["z"] in HIGH_SKEW]
    rows = []
    n_met = 0
    for z, n in dict.fromkeys((r["z"], r["workers"]) for r in grid):
        cell = [r for r in grid if (r["z"], r["workers"]) == (z, n)]
        own = [r for r in cell if r["strategy"] == "cascade"]
        if not own:
            continue
        met = [meets_budget(r) for r in own]
        n_met += all(met)
        worst = max(own, key=lambda r: r["replication"] - budget(r))
        rows.append(
            [
                z,
                n,
                _small(max(r["imbalance"] for r in own)),
                f"{worst['replication']:.4f}",
                f"{worst['replication_limit']:.4f}",
                f"{budget(worst):.4f}",
                "yes" if all(met) else f"{sum(met)} of {len(met)} seeds",
                _best_other(cell, MOST_IMBALANCE),
            ]
        )
    headings = ("z", "n", "imbalance", "replicas", "limit", "budget", "met", "best of the others")
    return f"Met in {n_met} of {len(rows)} cells.\n\n" + markdown(headings, rows)


def low_skew_table(records: Sequence[Row]) -> str:
    """Return cascade under low skew, and who reaches its imbalance with how many replicas."""
    rows = []
    n_met = 0
    for cell in by_cell(records, ["grid"]).values():
        own = _of("cascade", cell)
        if own is None or own["z"] not in LOW_SKEW:
            continue
        reach = [r for r in cell if r is not own and r["imbalance"] <= own["imbalance"]]
        reach.sort(key=lambda r: r["replication"])
        met = not reach or own["replication"] <= reach[0]["replication"]
        n_met += met
        others = ", ".join(f"{_marked(r)} {r['replication']:.4f}" for r in reach)
        rows.append(
            [
                own["z"],
                own["workers"],
                _small(own["imbalance"]),
                f"{own['replication']:.4f}",
                "yes" if met else "no",
                others or "nobody",
            ]
        )
    headings = ("z", "n", "imbalance", "replicas", "fewest", "others with that balance")
    return f"Fewest replicas in {n_met} of {len(rows)} cells.\n\n" + markdown(headings, rows)


def sources_table(records: Sequence[Row]) -> str:
    """Return what many sources cost, against one."""
    one = {
        (r["strategy"], r["z"], r["workers"]): r
        for r in records
        if r["group"] == "grid" and r["seed"] == SEED
    }
    rows = []
    for many in in_order(records):
        if many["group"] != "sources":
            continue
        single = one.get((many["strategy"], many["z"], many["workers"]))
        if single is None:
            continue
        rows.append(
            [
                many["strategy"],
                many["z"],
                _small(single["imbalance"]),
                _small(many["imbalance"]),
                f"{single['replication']:.4f}",
                f"{many['replication']:.4f}",
                f"{many['replication'] / single['replication']:.3f}",
            ]
        )
    headings = (
        *("strategy", "z", "imbalance, 1 source", f"imbalance, {MANY_SOURCES}"),
        *("replicas, 1 source", f"replicas, {MANY_SOURCES}", "ratio of replicas"),
    )
    return markdown(headings, rows)


def real_tables(records: Sequence[Row]) -> str:
    """Return a table per stream: window imbalance and replication of all strategies."""
    real = [r for r in in_order(records) if r["group"] == "real"]
    parts = []
    for stream in dict.fromkeys(r["stream"] for r in real):
        rows = [r for r in real if r["stream"] == stream]
        size = f"{_full(rows, 'records'):,} records, {_full(rows, 'keys'):,} keys"
        parts.append(f"### {stream}\n\n{size}.\n\n{_stream_table(rows)}")
    return "\n\n".join(parts)


def _full(rows: Sequence[Row], field: str) -> int:
    return int(max(r[field] for r in rows))


def _stream_table(rows: Sequence[Row]) -> str:
    workers = sorted({r["workers"] for r in rows})
    at = {(r["strategy"], r["workers"]): r for r in rows}
    lines = []
    for name in dict.fromkeys(r["strategy"] for r in rows):
        line = []
        for n in workers:
            record, own = at.get((name, n)), at.get(("cascade", n))
            if record is None:
                line += ["", ""]
                continue
            imbalance, replication = balance_and_replicas(record)
            mark = f" {DOMINATES_MARK}" if own is not None and dominates(record, own) else ""
            line += [_small(imbalance), f"{replication:.4f}{mark}"]
        first = next(r for r in rows if r["strategy"] == name)
        shown = [_marked(first), *line]
        lines.append([f"**{cell}**" for cell in shown] if name == "cascade" else shown)
    headings = [text for n in workers for text in (f"n = {n}: imbalance", "replicas")]
    return markdown(["strategy", *headings], lines)


def speeds_table(records: Sequence[Row]) -> str:
    """Return the makespan over the ideal one where half of the workers are twice as fast."""
    speeds = [r for r in in_order(records) if r["group"] == "speeds"]
    exponents = list(dict.fromkeys(r["z"] for r in speeds))
    at = {(r["strategy"], r["z"]): r for r in speeds}
    names = [name for name in registry.names() if any(r["strategy"] == name for r in speeds)]
    rows = []
    for name in names:
        cells_of_name = [at.get((name, z)) for z in exponents]
        values = ["" if r is None else f"{r['makespan_ratio']:.3f}" for r in cells_of_name]
        rows.append([_marked(next(r for r in cells_of_name if r is not None)), *values])
    return markdown(["strategy", *(f"z = {z}" for z in exponents)], rows)


def rivals_table(records: Sequence[Row]) -> str:
    """Return each strategy against cascade: in how many cells which of them is better in what."""
    counts: dict[str, list[int]] = {}
    for cell in by_cell(records).values():
        own = _of("cascade", cell)
        for record in cell:
            if own is not None and not _same(record, own):
                row = counts.setdefault(record["strategy"], [0, 0, 0, 0])
                row[_relation(record, own)] += 1
    headings = (
        *("strategy", "cascade better in both", "better balance, more replicas"),
        *("fewer replicas, worse balance", "better than cascade in both"),
    )
    return markdown(
        headings, ([name, *counts[name]] for name in registry.names() if name in counts)
    )


def _same(one: Row, other: Row) -> bool:
    return balance_and_replicas(one) == balance_and_replicas(other)


def _relation(record: Row, own: Row) -> int:
    """Return the column of a record that is not as good as cascade in both: see the headings."""
    if dominates(record, own):
        return 3
    if dominates(own, record):
        return 0
    return 1 if balance_and_replicas(record)[0] < balance_and_replicas(own)[0] else 2


def dominated_list(records: Sequence[Row]) -> str:
    """Return the cells in which another strategy has both better balance and fewer replicas."""
    lines = []
    for name, cell in by_cell(records).items():
        own = _of("cascade", cell)
        better = [r for r in cell if own is not None and dominates(r, own)]
        if own is not None and better:
            shown = ", ".join(f"{_marked(r)} ({_pair(r)})" for r in better)
            lines.append(f"- {name}: {shown}; cascade ({_pair(own)})")
    return "\n".join(lines) or "None."


def front_table(records: Sequence[Row]) -> str:
    """Return the cells where cascade is not alone on the front, and who is there besides."""
    rows = []
    for name, cell in by_cell(records).items():
        own = _of("cascade", cell)
        if own is None:
            continue
        others = [r for r in front(cell) if not _same(r, own)]
        sides: list[list[str]] = [[], [], []]  # more replicas, fewer replicas, better in both
        for record in others:
            sides[_relation(record, own) - 1].append(_marked(record))
        if others:
            rows.append([name, *(", ".join(side) for side in sides)])
    headings = (
        *("cell", "better balance, more replicas", "fewer replicas, worse balance"),
        "better in both",
    )
    return markdown(headings, rows)


def shorter_list(records: Sequence[Row]) -> str:
    """Return which strategies were measured on fewer records than the others."""
    lines = []
    for group in GROUPS:
        limits = {
            r["strategy"]: r["records"]
            for r in in_order(records)
            if r["group"] == group and r["shorter"]
        }
        if limits:
            shown = ", ".join(f"{name} {limit:,}" for name, limit in limits.items())
            lines.append(f"- {group}: {shown}")
    return "\n".join(lines) or "None."


def missing_list(records: Sequence[Row]) -> str:
    """Return which strategies have no record in some cells, in which the others have one."""
    lines = []
    for group in ("grid", "real"):
        found = by_cell(records, [group])
        lacks = {
            name: [title for title, cell in found.items() if _of(name, cell) is None]
            for name in registry.names()
        }
        shown = [
            f"{name} in {len(titles)} of {len(found)} cells"
            for name, titles in lacks.items()
            if titles
        ]
        if shown:
            lines.append(f"- {group}: {', '.join(shown)}")
    return "\n".join(lines) or "None."


def _of(name: str, cell: Sequence[Row]) -> Row | None:
    return next((r for r in cell if r["strategy"] == name), None)


def _best_other(cell: Sequence[Row], most: float) -> str:
    """Return who, besides cascade, has the fewest replicas of those with so little imbalance."""
    others = [r for r in cell if r["strategy"] != "cascade" and r["imbalance"] <= most]
    if not others:
        return "nobody"
    best = min(others, key=lambda r: r["replication"])
    return f"{_marked(best)} {best['replication']:.4f}"


def _marked(record: Row) -> str:
    """Return the name of a record's strategy, marked where it is not quite comparable."""
    name = str(record["strategy"])
    if registry.make(name).traits.decides == "batch":
        name += BATCH_MARK
    return name + SHORTER_MARK if record["shorter"] else name


def _pair(record: Row) -> str:
    imbalance, replication = balance_and_replicas(record)
    return f"{_small(imbalance)}, {replication:.4f}"


def _small(value: float) -> str:
    return f"{value:.2g}"


#: The generated parts of the page, by the name of their marker.
PARTS = {
    "budget": budget_table,
    "low skew": low_skew_table,
    "sources": sources_table,
    "speeds": speeds_table,
    "rivals": rivals_table,
    "dominated": dominated_list,
    "front": front_table,
    "real streams": real_tables,
    "shorter": shorter_list,
    "missing": missing_list,
}

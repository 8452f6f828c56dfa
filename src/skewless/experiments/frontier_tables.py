"""The generated parts of the frontier's page: records in, Markdown out."""

from __future__ import annotations

from collections.abc import Sequence

from skewless import registry
from skewless.experiments.front import (
    MOST_IMBALANCE,
    balance_and_replicas,
    budget,
    by_cell,
    dominates,
    front,
    marked,
    meets_budget,
)
from skewless.experiments.frontier import (
    GROUPS,
    HIGH_SKEW,
    LOW_SKEW,
    MANY_SOURCES,
    SEED,
    in_order,
)
from skewless.experiments.tables import Row, markdown

DOMINATES_MARK = "◀"


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
    """Return cascade under low skew, and the replicas of others that reach its imbalance."""
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
        others = ", ".join(f"{marked(r)} {r['replication']:.4f}" for r in reach)
        rows.append(
            [
                own["z"],
                own["workers"],
                _small(own["imbalance"]),
                f"{own['replication']:.4f}",
                "yes" if met else "no",
                others or "none",
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
        shown = [marked(first), *line]
        lines.append([f"**{cell}**" for cell in shown] if name == "cascade" else shown)
    headings = [text for n in workers for text in (f"n = {n}: imbalance", "replicas")]
    return markdown(["strategy", *headings], lines)


def speeds_table(records: Sequence[Row]) -> str:
    """Return the makespan over the ideal one where half of the workers are twice as fast.

    Once with windows one after the other, and once with the whole stream as a single job.
    """
    speeds = [r for r in in_order(records) if r["group"] == "speeds"]
    exponents = list(dict.fromkeys(r["z"] for r in speeds))
    at = {(r["strategy"], r["z"]): r for r in speeds}
    names = [name for name in registry.names() if any(r["strategy"] == name for r in speeds)]
    rows = []
    for name in names:
        cells_of_name = [at.get((name, z)) for z in exponents]
        values = []
        for r in cells_of_name:
            windows = "" if r is None else f"{r['makespan_ratio']:.3f}"
            whole = "" if r is None else f"{1.0 + r['imbalance']:.3f}"
            values += [windows, whole]
        rows.append([marked(next(r for r in cells_of_name if r is not None)), *values])
    headings = [text for z in exponents for text in (f"z = {z}: windows", "whole stream")]
    return markdown(["strategy", *headings], rows)


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
            shown = ", ".join(f"{marked(r)} ({_pair(r)})" for r in better)
            lines.append(f"- {name}: {shown}; cascade ({_pair(own)})")
    return "\n".join(lines) or "None."


def front_table(records: Sequence[Row]) -> str:
    """Return the cells where cascade is not alone on the front, and which others are there."""
    rows = []
    for name, cell in by_cell(records).items():
        own = _of("cascade", cell)
        if own is None:
            continue
        others = [r for r in front(cell) if not _same(r, own)]
        sides: list[list[str]] = [[], [], []]  # more replicas, fewer replicas, better in both
        for record in others:
            sides[_relation(record, own) - 1].append(marked(record))
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
    """Return which other strategy with so little imbalance has the fewest replicas."""
    others = [r for r in cell if r["strategy"] != "cascade" and r["imbalance"] <= most]
    if not others:
        return "none"
    best = min(others, key=lambda r: r["replication"])
    return f"{marked(best)} {best['replication']:.4f}"


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

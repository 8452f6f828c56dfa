"""The front of each cell, by balance and replicas, and the generated parts of the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.frontier.cells import GROUPS, HIGH_SKEW, LOW_SKEW, MANY_SOURCES, SEED, in_order
from benchmarks.records import Report, Row, grouped, markdown
from skewless import registry

MOST_IMBALANCE = 1e-4  # what cascade has to keep under strong skew
SHORTER_MARK = "†"
BATCH_MARK = "*"
DOMINATES_MARK = "◀"


def balance_and_replicas(record: Row) -> tuple[float, float]:
    """Return a cell's imbalance and replicas per key; for real streams, the means of windows."""
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


def by_cell(records: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the records by the title of their cell, where all strategies have the same seed."""
    found: dict[str, list[Row]] = {}
    for record in in_order(records):
        if record["group"] in ("grid", "real") and record["seed"] == SEED:
            found.setdefault(title(record), []).append(record)
    return found


def title(record: Row) -> str:
    """Return the name of a record's cell."""
    stream = f"z = {record['z']}" if record["stream"] == "zipf" else record["stream"]
    return f"{stream}, n = {record['workers']}"


def budget(record: Row) -> float:
    """Return the most replicas per key that cascade may have under strong skew."""
    return 1.0 + 3.0 * float(record["replication_limit"] - 1.0) + 0.005


def meets_budget(record: Row) -> bool:
    """Return whether both balance and replicas are as good as cascade promises under skew."""
    return bool(record["imbalance"] <= MOST_IMBALANCE and record["replication"] <= budget(record))


def marked(record: Row) -> str:
    """Return the name of a record's strategy, marked where it is not quite comparable."""
    name = str(record["strategy"])
    if registry.make(name).traits.decides == "batch":
        name += BATCH_MARK
    return name + SHORTER_MARK if record["shorter"] else name


def budget_table(records: Sequence[Row]) -> str:
    """Return cascade under strong skew: the worst of its seeds, and the best of the others."""
    rows = []
    n_met = 0
    for (z, n), cell in grouped(_of_group(records, "grid"), "z", "workers").items():
        own = [r for r in cell if r["strategy"] == "cascade"]
        if z not in HIGH_SKEW or not own:
            continue
        met = [meets_budget(r) for r in own]
        n_met += all(met)
        worst = max(own, key=lambda r: r["replication"] - budget(r))
        replicas = (worst["replication"], worst["replication_limit"], budget(worst))
        balanced = [r for r in cell if r not in own and r["imbalance"] <= MOST_IMBALANCE]
        rows.append(
            [
                *(z, n, f"{max(r['imbalance'] for r in own):.2g}"),
                *(f"{number:.4f}" for number in replicas),
                "yes" if all(met) else f"{sum(met)} of {len(met)} seeds",
                _with_replicas(sorted(balanced, key=_replicas)[:1]),
            ]
        )
    headings = "z | n | imbalance | replicas | limit | budget | met | best of the others"
    return f"Met in {n_met} of {len(rows)} cells.\n\n" + markdown(headings, rows)


def low_skew_table(records: Sequence[Row]) -> str:
    """Return cascade under low skew, and the replicas of others that reach its imbalance."""
    rows = []
    n_met = 0
    for _, own, cell in _beside_cascade(_of_group(records, "grid")):
        if own["z"] not in LOW_SKEW:
            continue
        reach = [r for r in cell if r is not own and r["imbalance"] <= own["imbalance"]]
        reach.sort(key=_replicas)
        met = not reach or own["replication"] <= reach[0]["replication"]
        n_met += met
        numbers = [f"{own['imbalance']:.2g}", f"{own['replication']:.4f}"]
        said = ["yes" if met else "no", _with_replicas(reach)]
        rows.append([own["z"], own["workers"], *numbers, *said])
    headings = "z | n | imbalance | replicas | fewest | others with that balance"
    return f"Fewest replicas in {n_met} of {len(rows)} cells.\n\n" + markdown(headings, rows)


def sources_table(records: Sequence[Row]) -> str:
    """Build the table of imbalance and replicas with many sources, beside those with one."""
    seeded = [r for r in _of_group(records, "grid") if r["seed"] == SEED]
    one = grouped(seeded, "strategy", "z", "workers")
    rows = []
    for many in _of_group(records, "sources"):
        for single in one.get((many["strategy"], many["z"], many["workers"]), []):
            both = (single, many)
            rows.append(
                [
                    *(many["strategy"], many["z"]),
                    *(f"{r['imbalance']:.2g}" for r in both),
                    *(f"{r['replication']:.4f}" for r in both),
                    f"{many['replication'] / single['replication']:.3f}",
                ]
            )
    pairs = (f"{what}, 1 source | {what}, {MANY_SOURCES}" for what in ("imbalance", "replicas"))
    return markdown(f"strategy | z | {' | '.join(pairs)} | ratio of replicas", rows)


def grid_table(records: Sequence[Row]) -> str:
    """Return imbalance and replicas of every strategy on each Zipf stream, with most workers."""
    grid = [r for r in _of_group(records, "grid") if r["seed"] == SEED]
    most = max((r["workers"] for r in grid), default=0)
    found = {(r["strategy"], r["z"]): r for r in grid if r["workers"] == most}
    exponents = sorted({z for _, z in found})
    rows = []
    for name, mine in grouped(found.values(), "strategy").items():
        cells = [found.get((name, z)) for z in exponents]
        rows.append([marked(mine[0]), *(" / ".join(_pair(r)) if r else "" for r in cells)])
    return markdown(["strategy", *(f"z = {z}" for z in exponents)], rows)


def real_tables(records: Sequence[Row]) -> str:
    """Return a table per stream: window imbalance and replication of all strategies."""
    parts = []
    for stream, rows in grouped(_of_group(records, "real"), "stream").items():
        n_records, n_keys = (max(r[column] for r in rows) for column in ("records", "keys"))
        size = f"{n_records:,} records, {n_keys:,} keys"
        parts.append(f"### {stream}\n\n{size}.\n\n{_stream_table(rows)}")
    return "\n\n".join(parts)


def _stream_table(rows: Sequence[Row]) -> str:
    workers = sorted({r["workers"] for r in rows})
    at = {(r["strategy"], r["workers"]): r for r in rows}
    lines = []
    for name, mine in grouped(rows, "strategy").items():
        line = [marked(mine[0])]
        for n in workers:
            record, own = at.get((name, n)), at.get(("cascade", n))
            mark = f" {DOMINATES_MARK}" if record and own and dominates(record, own) else ""
            line += _pair(record) if record else ["", ""]
            line[-1] += mark
        lines.append([f"**{cell}**" for cell in line] if name == "cascade" else line)
    headings = [text for n in workers for text in (f"n = {n}: imbalance", "replicas")]
    return markdown(["strategy", *headings], lines)


def speeds_table(records: Sequence[Row]) -> str:
    """Return the makespan over the ideal one where half of the workers are twice as fast.

    Once with windows one after the other, and once with the whole stream as a single job.
    """
    speeds = _of_group(records, "speeds")
    exponents = list(grouped(speeds, "z"))
    by_name = grouped(speeds, "strategy")
    rows = []
    for name in registry.names():
        mine = {r["z"]: r for r in by_name.get(name, [])}
        row = [marked(r) for r in list(mine.values())[:1]]
        for r in map(mine.get, exponents):
            row += [f"{r['makespan_ratio']:.3f}", f"{1.0 + r['imbalance']:.3f}"] if r else ["", ""]
        rows += [row] if mine else []
    headings = [text for z in exponents for text in (f"z = {z}: windows", "whole stream")]
    return markdown(["strategy", *headings], rows)


def rivals_table(records: Sequence[Row]) -> str:
    """Return each strategy against cascade: in how many cells which of them is better in what."""
    counts: dict[str, list[int]] = {}
    for _, own, cell in _beside_cascade(records):
        for record in _differ(cell, own):
            row = counts.setdefault(record["strategy"], [0, 0, 0, 0])
            row[_relation(record, own)] += 1
    ours = "cascade better in both | better balance, more replicas"
    theirs = "fewer replicas, worse balance | better than cascade in both"
    rows = ([name, *counts[name]] for name in registry.names() if name in counts)
    return markdown(f"strategy | {ours} | {theirs}", rows)


def _beside_cascade(records: Sequence[Row]) -> Iterator[tuple[str, Row, list[Row]]]:
    """Yield the cells that have a record of cascade: their title, that record, and all records."""
    for title, cell in by_cell(records).items():
        for own in [r for r in cell if r["strategy"] == "cascade"][:1]:
            yield title, own, cell


def _differ(cell: Sequence[Row], own: Row) -> list[Row]:
    """Return the records that have not the balance and replicas of cascade."""
    return [r for r in cell if balance_and_replicas(r) != balance_and_replicas(own)]


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
    for name, own, cell in _beside_cascade(records):
        better = [r for r in cell if dominates(r, own)]
        if better:
            shown = ", ".join(f"{marked(r)} ({', '.join(_pair(r))})" for r in better)
            lines.append(f"- {name}: {shown}; cascade ({', '.join(_pair(own))})")
    return "\n".join(lines) or "None."


def front_table(records: Sequence[Row]) -> str:
    """Return the cells where cascade is not alone on the front, and which others are there."""
    rows = []
    for name, own, cell in _beside_cascade(records):
        sides: list[list[str]] = [[], [], []]  # more replicas, fewer replicas, better in both
        for record in _differ(front(cell), own):
            sides[_relation(record, own) - 1].append(marked(record))
        if any(sides):
            rows.append([name, *(", ".join(side) for side in sides)])
    better = "better balance, more replicas | fewer replicas, worse balance | better in both"
    return markdown(f"cell | {better}", rows)


def shorter_list(records: Sequence[Row]) -> str:
    """Return which strategies were measured on fewer records than the others."""
    lines = []
    for group in GROUPS:
        limits = {r["strategy"]: r["records"] for r in _of_group(records, group) if r["shorter"]}
        if limits:
            told = ", ".join(f"{name} {limit:,}" for name, limit in limits.items())
            lines.append(f"- {group}: {told}")
    return "\n".join(lines) or "None."


def _of_group(records: Sequence[Row], group: str) -> list[Row]:
    return [r for r in in_order(records) if r["group"] == group]


def _replicas(record: Row) -> float:
    return float(record["replication"])


def _with_replicas(records: Sequence[Row]) -> str:
    return ", ".join(f"{marked(r)} {r['replication']:.4f}" for r in records) or "none"


def _pair(record: Row) -> list[str]:
    imbalance, replication = balance_and_replicas(record)
    return [f"{imbalance:.2g}", f"{replication:.4f}"]


#: The generated parts of the page, by the name of their marker.
PARTS = {
    "grid": grid_table,
    "budget": budget_table,
    "low skew": low_skew_table,
    "sources": sources_table,
    "speeds": speeds_table,
    "rivals": rivals_table,
    "dominated": dominated_list,
    "front": front_table,
    "real streams": real_tables,
    "shorter": shorter_list,
}
REPORT = Report(
    "frontier.jsonl", {("docs/results/frontier.md", name): part for name, part in PARTS.items()}
)

"""The tables of `by_replay`: seconds on n slots, medians over rounds, with the range of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from benchmarks.on_spark.ways import COLUMNS
from benchmarks.records import BENCHMARKS, Report, Row, grouped, markdown
from skewless.diagnosis.costs import ALIKE
from skewless.metrics import replication_limit

#: What tells a cell from others.
PLACE = ("says", "stream", "slots", "records")
#: Ways by the constant of `skewless.diagnosis.costs` that is fitted to them, and the one without.
#: Each constant is what its ways take beyond those in the next line.
FITTED = {
    "JOB_SECONDS": ("plan", "whole-plan"),
    "STAGE_SECONDS": ("hash", "round-robin", "salt-8", "cascade-ahead"),
}
_WITHOUT = ("local",)
#: Seconds to which constants are rounded.
_ROUNDED = 0.05
#: The ways that are columns of the table; `hot_keys` may name another one.
PARTITIONED = (
    *("hash", "round-robin", "salt-8", "hot-salt-8", "REBALANCE", "local"),
    *("plan", "cascade-ahead"),
)


#: Who chooses the way, by the family of the cell; in all others `hot_keys` does.
_VERBS = {"aggregate": "aggregate", "merge": "aggregate", "join": "join"}


def place(row: Row) -> tuple[object, ...]:
    """Tell the cell of a record from others."""
    return tuple(row[name] for name in PLACE)


@dataclass(frozen=True)
class Measured:
    """A cell with the records of its ways."""

    about: Row
    ways: Mapping[str, Sequence[Row]]

    def seconds(self, way: str) -> float:
        """Return the median over rounds."""
        return float(median(one["seconds"] for one in self.ways[way]))

    def shown(self, *ways: str, ranges: bool = True) -> str:
        """Return the fastest of these ways as a cell of a table, with its range if there is one."""
        there = [way for way in ways if way in self.ways]
        if not there:
            return "–"
        way = min(there, key=self.seconds)
        found = sorted(one["seconds"] for one in self.ways[way])
        text = f"{self.seconds(way):.2f}"
        text = f"**{text}**" if way == self.best else text
        return (
            text if len(found) < 2 or not ranges else f"{text} ({found[0]:.2f} – {found[-1]:.2f})"
        )

    @property
    def best(self) -> str:
        """The fastest way."""
        return min(self.ways, key=self.seconds)

    @property
    def is_said_well(self) -> bool | None:
        """Whether the way that was named is the fastest, or nearly so; None: none was named."""
        said = self.about["said"]
        return None if said is None else self.seconds(said) <= ALIKE * self.seconds(self.best)

    @property
    def said(self) -> str:
        """What was named, and whether that was right."""
        said = self.about["said"]
        if said is None:
            return "–"
        has_column = said in (*PARTITIONED, "whole-plan", "join", "aggregate")
        named = said if has_column else f"{said} {self.shown(said, ranges=False)}"
        return f"{named} {'✓' if self.is_said_well else f'✗ ({self.best} is faster)'}"

    def fact(self, way: str, name: str) -> float:
        """Return the median of a fact of a way."""
        return float(median(one[name] for one in self.ways[way]))


def measured(records: Sequence[Row], *families: str) -> Iterator[Measured]:
    """Yield the cells of these families, or all."""
    for mine in grouped(records, *PLACE).values():
        if not families or mine[0]["family"] in families:
            yield Measured(mine[0], grouped(mine, "way"))


def table(records: Sequence[Row]) -> str:
    """Return a row per cell whose ways partition records."""
    rows = [
        [*_about(one), *(one.shown(way, f"whole-{way}") for way in PARTITIONED), one.said]
        for one in measured(records, "work", "write")
    ]
    return markdown([*_HEADS, *PARTITIONED, "`hot_keys` said"], rows, 3)


def _by_way(*families: str, facts: Mapping[str, Fact]) -> Callable[[Sequence[Row]], str]:
    """Return a table with a row per cell of these families and way, with these facts about it."""

    def built(records: Sequence[Row]) -> str:
        rows = [
            [*_about(one), way, one.shown(way), *(fact(one, way) for fact in facts.values())]
            for one in measured(records, *families)
            for way in one.ways
        ]
        return markdown([*_HEADS, "way", "seconds", *facts], rows, 3)

    return built


def balance(records: Sequence[Row]) -> str:
    """Return how even planned tasks are, and how many replicas the keys have."""
    rows = []
    for one in measured(records, "work"):
        if "plan" in one.ways and "imbalance" in one.ways["plan"][0]:
            # By hash, each key is on one worker.
            keys, slots = one.fact("hash", "pairs"), one.about["slots"]
            pairs = one.fact("plan", "pairs")
            found = [f"{pairs - keys:,.0f}", f"{pairs / keys:.4f}"]
            found += [f"{replication_limit(slots, int(keys)):.4f}"]
            found += [f"{one.fact(way, 'imbalance'):.3f}" for way in ("plan", "hash")]
            rows.append([one.about["says"], one.about["stream"], slots, f"{keys:,.0f}", *found])
    heads = "work | stream | slots | keys | splits | replicas per key | limit | imbalance: plan"
    return markdown(f"{heads} | imbalance: hash", rows, 2)


def planned_shuffles(records: Sequence[Row]) -> str:
    """Compare planning and routing with a plain shuffle: no work follows."""
    rows = []
    for one in measured(records, "shuffle"):
        ratios = [
            f"{one.fact('plan', name) / one.fact('hash', name):.2f}"
            for name in ("alone", "seconds")
        ]
        rows.append([one.about["says"], f"{one.about['records']:,}", *ratios])
    return markdown("table | records | on one slot | on 32 slots", rows, 1)


def ten_rows(records: Sequence[Row]) -> str:
    """Return the rows of the README."""
    rows = []
    for one in measured(records):
        about = one.about
        if about["writes"]:
            work = f"{about['says']}; {about['stream']}"
            shown = [one.shown(*ways, ranges=False) for ways in COLUMNS.values()]
            rows.append([work, about["writes"], *shown, one.said])
    heads = ["what the work is", "what you would write", *COLUMNS, "what `hot_keys` said"]
    return markdown(heads, rows, 2)


def span(records: Sequence[Row]) -> str:
    """Return how the speed of skewless compares with that of hashing, over the README's rows."""
    found = []
    for one in measured(records):
        ways = [[way for way in COLUMNS[name] if way in one.ways] for name in ("hash", "skewless")]
        if one.about["writes"] and all(ways):
            ours = min(map(one.seconds, ways[1]))
            found.append(min(map(one.seconds, ways[0])) / ours)
    return f"[Measured](#proof): {min(found):.1f} to {max(found):.1f} times as fast as hashing."


def summary(records: Sequence[Row]) -> str:
    """Return in one sentence how often the advice is right."""
    by_verb: dict[str, list[bool]] = {}
    for one in measured(records):
        said = one.is_said_well
        if said is not None:
            verb = _VERBS.get(one.about["family"], "hot_keys")
            by_verb.setdefault(verb, []).append(said)
    found = [f"`{verb}` in {sum(right)} of {len(right)}" for verb, right in by_verb.items()]
    return (
        f"Cells in which the way that was chosen is the fastest, or within {ALIKE - 1:.0%} of it: "
        f"{', '.join(found)}."
    )


def fitted(records: Sequence[Row]) -> dict[str, float]:
    """Return the constants: what a median job took beyond the rest, and beyond other ways.

    The driver starts a job of any way. So what ways without a constant took beyond their
    predictions is no part of the constants. A plan has a shuffle, too. More work never takes less
    than no time.
    """
    names = [*FITTED, ""]
    took = {name: median(_beyond(records, FITTED.get(name, _WITHOUT))) for name in names}
    more = {name: max(0.0, took[name] - took[after]) for name, after in pairwise(names)}
    return {name: round(round(value / _ROUNDED) * _ROUNDED, 2) for name, value in more.items()}


def constants(records: Sequence[Row]) -> str:
    """Return what each constant is by these records, and what ways without one took beyond."""
    rows = []
    for name, ways in {**FITTED, "none": _WITHOUT}.items():
        found = _beyond(records, ways)
        constant = f"{fitted(records)[name]:.2f}" if name in FITTED else "–"
        shown = (f"{value:.2f}" for value in (median(found), min(found), max(found)))
        rows.append([name, ", ".join(ways), constant, len(found), *shown])
    return markdown("name | ways | constant | times measured | median | least | most", rows, 2)


def left_out(records: Sequence[Row]) -> str:
    """Return how often predictions are right with constants fitted without the judged cell."""
    found = []
    for at, mine in grouped([one for one in records if "rest" in one], *PLACE).items():
        added = fitted([one for one in records if place(one) != at])
        ways = dict.fromkeys(_WITHOUT, 0.0)
        # Hot keys that are salted were counted first, too, but by hand.
        counted = (*FITTED["JOB_SECONDS"], "hot-salt-8")
        ways |= dict.fromkeys(counted, added["STAGE_SECONDS"] + added["JOB_SECONDS"])
        best = min(
            mine, key=lambda one: one["rest"] + ways.get(one["way"], added["STAGE_SECONDS"])
        )["way"]
        (cell,) = measured([one for one in records if place(one) == at])
        found.append(cell.seconds(best) <= ALIKE * cell.seconds(cell.best))
    return (
        "With constants that are fitted without the cell that is judged, predictions name such a "
        f"way in {sum(found)} of {len(found)} cells."
    )


def _beyond(records: Sequence[Row], ways: Sequence[str]) -> list[float]:
    """Return what each of these ways took in each cell, beyond the rest of the prediction."""
    known = [one for one in records if "rest" in one and one["way"] in ways]
    cells = measured(known)
    return [one.seconds(way) - one.fact(way, "rest") for one in cells for way in one.ways]


def _about(one: Measured) -> list[object]:
    says, kind, stream, slots = (one.about[name] for name in ("says", "kind", "stream", "slots"))
    return [says, kind, stream, slots, f"{one.about['records']:,}"]


_HEADS = ("work", "it is", "stream", "slots", "records")
Fact = Callable[[Measured, str], str]


def _fact(name: str, digits: int = 0, more: float = 0.0) -> Fact:
    return lambda one, way: f"{one.fact(way, name) + more:,.{digits}f}"


_LARGEST = {"largest task / mean": _fact("imbalance", 2, 1.0)}
_MERGED = {"MB shuffled a second time": lambda one, way: f"{one.fact(way, 'merged') / 2**20:.1f}"}
_FILES = {"files": _fact("files"), "files of the key with most": _fact("most_files")}
REPORT = Report(
    "on_spark/ways.jsonl",
    {
        ("README.md", "ways"): ten_rows,
        ("README.md", "ways summary"): lambda records: f"{summary(records)} {left_out(records)}",
        ("README.md", "ways span"): span,
        (BENCHMARKS, "ways"): table,
        (BENCHMARKS, "ways summary"): summary,
        (BENCHMARKS, "constants"): constants,
        (BENCHMARKS, "constants left out"): left_out,
        (BENCHMARKS, "forms of aggregate"): _by_way("aggregate", facts={}),
        (BENCHMARKS, "whole keys"): _by_way("merge", facts=_MERGED),
        (BENCHMARKS, "planned balance"): balance,
        (BENCHMARKS, "planned shuffles"): planned_shuffles,
        ("docs/skewed-writes.md", "skewed writes"): _by_way(
            "write", "write of a stream", facts=_FILES | _LARGEST
        ),
        ("docs/guides/skewed-joins.md", "skewed joins"): _by_way(
            "join", facts={"pairs": _fact("pairs"), **_LARGEST}
        ),
    },
    command="make bench-ways",
)

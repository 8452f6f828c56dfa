"""The table of strategies against what a user could write instead, from raw records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from skewless.experiments.tables import Row, markdown
from skewless.spark.diagnosis.costs import ALIKE

#: The strategy of ours that the table is about.
OURS = "cascade-ahead"


class Cell(NamedTuple):
    """One case on one stream: the seconds of each job, the best of its turns.

    Whatever else runs on a machine can only make a turn longer.
    """

    case: str
    stream: str
    slots: int
    seconds: dict[str, float]
    predicted: str | None  # the job that was predicted to be the fastest

    @property
    def best_other(self) -> str:
        """The fastest job that needs no strategy of ours."""
        plain = {job: s for job, s in self.seconds.items() if _is_plain(job)}
        return min(plain, key=lambda job: plain[job])

    @property
    def gain(self) -> float:
        """How many times as fast as the best alternative ours is."""
        return self.seconds[self.best_other] / self.seconds[OURS]

    @property
    def is_predicted_well(self) -> bool:
        """Whether the job that was predicted is the fastest, or nearly so."""
        found = self.seconds.get(self.predicted or "")
        return found is not None and found <= ALIKE * min(self.seconds.values())


def cells(records: Sequence[Row]) -> Iterator[Cell]:
    """Yield the cells of the raw records, in their order."""
    by_cell: dict[tuple[str, str, int], list[Row]] = {}
    for record in records:
        name = (record["case"], record["stream"], record["slots"])
        by_cell.setdefault(name, []).append(record)
    for name, there in by_cell.items():
        jobs = dict.fromkeys(record["job"] for record in there)
        seconds = {
            job: min(record["seconds"] for record in there if record["job"] == job) for job in jobs
        }
        yield Cell(*name, seconds, there[0].get("predicted"))


def table(records: Sequence[Row]) -> str:
    """Return one row per cell: the times as ratios to ours, wins and losses."""
    rows = []
    for cell in cells(records):
        ours = cell.seconds[OURS]
        best = cell.best_other

        def ratio(job: str, cell: Cell = cell, ours: float = ours) -> str:
            return f"{cell.seconds[job] / ours:.2f}" if job in cell.seconds else "–"

        verdict = "win" if cell.gain > ALIKE else "loss" if cell.gain * ALIKE < 1.0 else "tie"
        rows.append(
            [
                cell.case,
                cell.stream,
                cell.slots,
                ratio("hash"),
                ratio("round-robin"),
                f"{best} {ratio(best)}",
                verdict,
                f"{cell.predicted or '–'}{'' if cell.is_predicted_well else ' ✗'}",
            ]
        )
    headings = [
        "case",
        "stream",
        "slots",
        "hash / ours",
        "round-robin / ours",
        "best alternative / ours",
        OURS,
        "`hot_keys` names",
    ]
    return markdown(headings, rows)


def by_case(records: Sequence[Row]) -> str:
    """Return one row per case: on each stream, how many times as fast as the best other ours is."""
    found = list(cells(records))
    streams = list(dict.fromkeys(cell.stream for cell in found))
    rows: dict[tuple[str, int], dict[str, str]] = {}
    for cell in found:
        row = rows.setdefault((cell.case, cell.slots), {})
        row[cell.stream] = f"{cell.gain:.2f} ({cell.best_other})"
    return markdown(
        ["case", "slots", *streams],
        [
            [case, slots, *(row.get(stream, "–") for stream in streams)]
            for (case, slots), row in rows.items()
        ],
    )


def summary(records: Sequence[Row]) -> str:
    """Return in one sentence how often ours wins, and how often the prediction is right."""
    found = list(cells(records))
    wins = sum(cell.gain > ALIKE for cell in found)
    losses = sum(cell.gain * ALIKE < 1.0 for cell in found)
    right = sum(cell.is_predicted_well for cell in found)
    return (
        f"Of {len(found)} cells, {OURS} wins {wins}, ties {len(found) - wins - losses} and loses "
        f"{losses} against the best alternative. `hot_keys` names the fastest, or one within "
        f"{ALIKE - 1:.0%} of it, in {right}."
    )


def _is_plain(job: str) -> bool:
    return job in ("hash", "round-robin", "local") or job.startswith("salt-")

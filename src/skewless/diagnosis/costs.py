"""What the work of a job costs, and how long it takes on a number of slots."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from skewless.plumbing.arguments import shown
from skewless.plumbing.text_tables import seconds_text

# What it costs to bring records to their tasks, on a slow machine. On a fast one it is less. If the
# work itself takes seconds, these costs do not decide.
#: Seconds per small record for a shuffle.
SHUFFLE_SECONDS = 1.0e-6
#: Seconds per byte of a large record in a shuffle, from Python and back to Python.
BYTE_SECONDS = 1.0e-8
#: Seconds per record that a shuffle without a key takes in addition: Spark sorts before it.
SORT_SECONDS = 1.0e-6
#: Seconds per record for routing in Python: nearly all of it is the transfer to Python and back.
ROUTE_SECONDS = 0.8e-6
#: Seconds per record for counting keys beforehand: a shuffle of counts, in the JVM.
COUNT_SECONDS = 0.3e-6
# What `python -m benchmarks.on_spark.by_replay --full --constants` fits: medians of what jobs took
# beyond the rest of their predictions, and beyond what other ways took so. Both had run before.
#: Seconds for a plan, even with few records: a job that counts, and a query that has the table.
JOB_SECONDS = 0.7
#: Seconds for one more stage, even with few records: for what a shuffle sends and reads.
STAGE_SECONDS = 0.15
#: Times that differ by less than this factor are as good as equal.
ALIKE = 1.15


class Moving(Enum):
    """How records get to the tasks that work on them: seconds per record, and fixed seconds."""

    NONE = (0.0, 0.0)
    SHUFFLED = (SHUFFLE_SECONDS, STAGE_SECONDS)
    DEALT = (SHUFFLE_SECONDS + SORT_SECONDS, STAGE_SECONDS)
    PLANNED = (SHUFFLE_SECONDS + COUNT_SECONDS, STAGE_SECONDS + JOB_SECONDS)
    ROUTED = (SHUFFLE_SECONDS + ROUTE_SECONDS, STAGE_SECONDS)

    def seconds(self, partitions: Iterable[float], n_slots: int) -> float:
        """Return how long that takes, if the records come from partitions with this many each.

        A partition is one task: it sends its records, sorts them or decides where they go.
        """
        per_record, at_all = self.value
        return at_all + makespan([per_record * records for records in partitions], n_slots)


@dataclass(frozen=True)
class Costs:
    """Seconds of work for each record, and for each key on each worker.

    The second is what a key costs each worker that has it, once: to load a model or a
    configuration, to open a connection or a file, to build and later merge a partial result.
    """

    per_record: float
    per_pair: float = 0.0
    measured: bool = False  # on a sample of the job's own function

    def seconds(self, records: float, pairs: float) -> float:
        """Return how long one task takes."""
        return records * self.per_record + pairs * self.per_pair

    @property
    def pair_in_records(self) -> float:
        """What a key costs a worker, in records; 0 if records cost nothing."""
        return self.per_pair / self.per_record if self.per_record > 0 else 0.0

    @property
    def assumptions(self) -> tuple[str, str]:
        """What predictions of times assume."""
        how = "Measured on a sample" if self.measured else "As given"
        return (
            f"{how}: {seconds_text(self.per_record)} for each record, and "
            f"{seconds_text(self.per_pair)} for each key on each worker.",
            f"A shuffle takes {seconds_text(STAGE_SECONDS)}, and {seconds_text(SHUFFLE_SECONDS)} "
            "for each record, in the one task that reads its partition; all but local have one. A "
            f"plan adds {seconds_text(JOB_SECONDS)}, and {seconds_text(COUNT_SECONDS)} to count "
            f"the keys. A strategy adds {seconds_text(ROUTE_SECONDS)}. Large records take longer.",
        )


def given_costs(
    per_record: object, per_pair: object, names: tuple[str, str] = ("per_record", "per_pair")
) -> Costs | None:
    """Return the costs that a user gave, or None; raise ValueError for one that is no time."""
    if per_record is None and per_pair is None:
        return None
    found = []
    for value, name in zip((per_record, per_pair), names, strict=True):
        seconds: Any = 0.0 if value is None else value
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not is_number or not math.isfinite(seconds) or seconds < 0.0:
            raise ValueError(f"{name} must be seconds, finite and at least 0, not {shown(seconds)}")
        found.append(float(seconds))
    return Costs(found[0], found[1])


def makespan(tasks: Iterable[float], n_slots: int) -> float:
    """Return when the last task ends, if each slot takes the next task when it is free.

    >>> makespan([4.0, 1.0, 1.0, 1.0], n_slots=2)
    4.0
    """
    slots = [0.0] * n_slots
    for seconds in tasks:
        heapq.heapreplace(slots, slots[0] + seconds)
    return max(slots)

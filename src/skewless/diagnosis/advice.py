"""The heaviest keys of a job, what each way of partitioning would do, and what to do about them."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from skewless.diagnosis import ways
from skewless.diagnosis.costs import ALIKE, Costs
from skewless.diagnosis.ways import BASELINE, PLAN, PLANNED, Prediction
from skewless.metrics import imbalance_by_chance
from skewless.plumbing.text_tables import number, percent, printable, text_table

if TYPE_CHECKING:
    import pandas as pd

#: Below this predicted imbalance, hashing alone is good enough.
_GOOD_ENOUGH = 0.10
#: If the imbalance of strategies differs by less than this, the one with fewer replicas wins.
_SIMILAR = 0.05
#: From the simplest to what changes most; strategies come last.
_SIMPLEST = (*(BASELINE, ways.LOCAL, ways.ROUND_ROBIN, PLAN, ways.WHOLE_PLAN, ways.SALT),)
#: A way that is this many times faster than a simpler one is worth it.
_WORTH_IT = 1.05
#: Records per worker. With fewer, loads differ by chance.
_FEWEST = 20
#: Advice for every skewed job.
MERGED_ALREADY = (
    "If all you compute is sum, count, min, max or the like, plain Spark combines before the "
    "shuffle, and skew hardly hurts."
)
#: What the heaviest keys alone do not show.
_UNEVEN_TOGETHER = (
    "Light keys can still be uneven together: hot_keys on a batch DataFrame of the same records "
    "predicts what hashing does."
)
_HEADINGS = ("strategy", "family", "imbalance", "replicas per key", "seconds")


@dataclass(frozen=True)
class HotKey:
    """A key with many records."""

    key: str  # as text; the parts of a composite key with commas between them
    records: int
    share: float  # of all records
    workers: int | None = None  # that are known to have it
    unsure: int = 0  # it may have up to this many more records


@dataclass(frozen=True)
class HotKeys:
    """The heaviest keys, heaviest first, and what each strategy would do about them."""

    records: int
    keys: tuple[HotKey, ...]
    workers: int | None = None
    sampled: int = 0  # records that were routed for the predictions
    predictions: tuple[Prediction, ...] = ()
    slots: int | None = None  # tasks that run at the same time
    partitions: int | None = None  # of the DataFrame: each is a source
    costs: Costs | None = None
    n_too_heavy: int = 0  # keys with more than a worker's fair share
    goes_on: bool = False  # whether there may be more records, which were not counted

    @property
    def advice(self) -> str:
        """What to do, in a few sentences."""
        if self.records == 0:
            return "There are no records, so nothing to balance."
        if self.workers == 1 and self.fastest is None:
            return "There is one worker, so nothing to balance."
        return self._by_predictions() if self.predictions else self._by_shares()

    @property
    def skewed(self) -> bool:
        """Whether hashing is predicted to leave one worker with much more than the others."""
        return self._named(BASELINE).imbalance >= _GOOD_ENOUGH + self._chance()

    @property
    def fastest(self) -> Prediction | None:
        """The prediction with the least seconds; None without costs."""
        return self._fastest(self.predictions)

    def best(self, *, whole_keys: bool = False) -> Prediction:
        """Return the way of partitioning to take: the fastest, or without costs by the balance.

        Of ways that are about as fast, it is the simplest. With `whole_keys`, only ways that keep
        each key on one worker count.
        """
        if not self.predictions:
            raise ValueError("there are no predictions: hot_keys on a batch DataFrame makes them")
        able = [p for p in self.predictions if not whole_keys or p.strategy in ways.KEEP_KEYS]
        fastest = self._fastest(able)
        if fastest is not None:
            return _simplest(able, _WORTH_IT * _seconds(fastest))
        planned = ways.WHOLE_PLAN if whole_keys else PLAN
        return self._named(planned if self.records and self.skewed else BASELINE)

    def _fastest(self, predictions: Iterable[Prediction]) -> Prediction | None:
        timed = [one for one in predictions if _seconds(one) < math.inf]
        if not timed or self.records == 0:
            return None
        # Among equals, prefer what needs no strategy, then fewer replicas.
        return min(timed, key=lambda one: (one.seconds, one.family != ways.PLAIN, one.replication))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the predictions assume."""
        if not self.predictions or not self.sampled:
            return ()
        told = [
            f"{number(self.slots)} tasks run at the same time, and the records come from "
            f"{number(self.partitions)} partitions in their present order."
        ]
        if self.sampled < self.records:
            told.append(
                f"The keys are those of {number(self.sampled)} records out of "
                f"{number(self.records)}: all of them make more replicas than a sample does."
            )
        return (*told, *(() if self.costs is None else self.costs.assumptions))

    def to_pandas(self) -> pd.DataFrame:
        """Return the predictions, a row per strategy."""
        import pandas as pd

        names = [field.name for field in fields(Prediction)]
        return pd.DataFrame([asdict(one) for one in self.predictions], columns=names)

    def __str__(self) -> str:
        workers = "" if self.workers is None else f", {number(self.workers)} workers"
        lines = [f"{number(self.records)} records{workers}"]
        if self.keys:
            rows = [
                [k.key, number(k.records), percent(k.share), number(self._fair(k.share), 2)]
                for k in self.keys
            ]
            lines += ["", text_table(["key", "records", "share", "× fair share"], rows)]
        if self.predictions:
            rows = [
                [
                    *(one.strategy, one.family, percent(one.imbalance)),
                    *(number(one.replication, 3), number(one.seconds, 2), number(one.makespan, 2)),
                ]
                for one in self.predictions
            ]
            lines += ["", f"Predicted from {number(self.sampled)} records:"]
            lines.append(text_table([*_HEADINGS, "stream: × ideal time"], rows))
        if self.assumptions:
            lines += ["", *(f"Assumed: {one}" for one in self.assumptions)]
        return "\n".join([*lines, "", self.advice])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def _fair(self, share: float) -> float | None:
        return None if self.workers is None else share * self.workers

    def _by_predictions(self) -> str:
        baseline = self._named(BASELINE)
        within = f"hashing alone is predicted to come within {percent(baseline.imbalance)} of"
        if not self.skewed and self.fastest is None:
            return f"Plain Spark is the better choice: {within} perfect balance."
        if not self.skewed:  # even so, no shuffle, or a round-robin one, may be faster
            return f"The job is not skewed: {within} perfect balance. {self._by_time()}"
        if self.fastest is None and self.records < _FEWEST * (self.workers or 1):
            return (
                f"{number(self.records)} records are too few for {self.workers} workers to tell "
                "skew from chance."
            )
        skewed = (
            "The job is skewed: hashing gives the busiest worker "
            f"{1 + baseline.imbalance:.2f} times its fair share."
        )
        what = self._by_time() if self.fastest else self._by_balance(baseline)
        return " ".join(filter(None, (skewed, what, self._with_whole_keys(baseline))))

    def _by_time(self) -> str:
        best, named = self.best(), (BASELINE, ways.ROUND_ROBIN, PLAN, "cascade-ahead")
        rivals = ", ".join(
            f"{one.seconds:.2f} s by {one.strategy}"
            for one in self.predictions
            if (one.strategy in named or one is self.fastest) and one is not best
            if one.seconds is not None
        )
        how = "is the fastest" if best is self.fastest else "is the simplest of the fastest ways"
        return (
            f"By these costs {best.how(self.workers)} {how}: {best.seconds:.2f} s, "
            f"against {rivals}. {self._as_planned(best)}{self._as_good(best)}{MERGED_ALREADY}"
        )

    def _as_planned(self, best: Prediction) -> str:
        """Return what a plan must know if keys cost something; else nothing."""
        per_key = 0.0 if self.costs is None else self.costs.pair_in_records
        if best.strategy != PLAN or not per_key:
            return ""
        return (
            "Its plan weighs keys too, so it is even in time and not in records: `apply` makes it, "
            f"or plan_keys with per_key={per_key:g}; route alone counts records. "
        )

    def _as_good(self, best: Prediction) -> str:
        """Return a sentence about a simpler way if it is about as fast; else nothing."""
        other = _simplest(self.predictions, ALIKE * _seconds(best))
        if _rank(other) >= _rank(best):
            return ""
        return (
            f"The prediction is not exact to {ALIKE - 1:.0%}, and {other.how(self.workers)} is "
            f"simpler: {other.seconds:.2f} s. Try that first. "
        )

    def _by_balance(self, baseline: Prediction) -> str:
        # Only splitting helps a batch job: keys move between micro-batches. See `Prediction`.
        rivals = [
            one
            for one in self.predictions
            if one.family in ("splitting", PLANNED) and one.strategy not in (BASELINE, ways.LIMIT)
        ]
        better = [one for one in rivals if one.imbalance < baseline.imbalance]
        if not better:
            return "No strategy that was tried does better."
        best = _fewest_replicas(rivals)
        # A stream cannot be counted beforehand.
        unplanned = [one for one in better if one.family != PLANNED]
        in_a_stream = ""
        if best.family == PLANNED and unplanned:
            other = _fewest_replicas(unplanned)
            in_a_stream = (
                f"A stream cannot be planned first: there, use {other.how(self.workers)}, with "
                f"{other.replication:.3f} replicas per key. "
            )
        return (
            "If a key costs something on each worker that has it, use "
            f"{best.how(self.workers).rstrip(',')}: {1 + best.imbalance:.2f} times the fair share, "
            f"with {best.replication:.3f} replicas per key. {in_a_stream}"
            f"If only records cost something, repartition({self.workers}) spreads them "
            "as well. Give per_record and per_pair to have the times predicted. "
            f"{MERGED_ALREADY}"
        )

    def _with_whole_keys(self, baseline: Prediction) -> str:
        """Return what helps a stream whose keys must stay whole; nothing if that was not tried."""
        moved = next((one for one in self.predictions if one.strategy == "mixed"), None)
        if moved is None or moved.makespan is None or baseline.makespan is None:
            return ""
        keys = "one key is" if self.n_too_heavy == 1 else f"{self.n_too_heavy} keys are"
        because = f", because {keys} too heavy for one worker" if self.n_too_heavy else ""
        told = "Where a key of a stream must stay on one worker,"
        if moved.makespan * ALIKE > baseline.makespan:
            return f"{told} moving keys does not help{because}."
        return (
            f"{told} `process` moves keys, with strategy='mixed': {moved.makespan:.2f} times the "
            f"ideal time instead of {baseline.makespan:.2f}{because}."
        )

    def _named(self, strategy: str) -> Prediction:
        return next(one for one in self.predictions if one.strategy == strategy)

    def _by_shares(self) -> str:
        if not self.keys:
            return f"No key stands out from the others. {_UNEVEN_TOGETHER}"
        heaviest = self.keys[0]
        shown = f"{printable(heaviest.key)!r} has {percent(heaviest.share)} of the records"
        if self.workers is None:
            enough = math.floor(1 / heaviest.share) + 1
            return f"{shown}: more than one worker's fair share from {number(enough)} workers on."
        fair = heaviest.share * self.workers
        if fair < _GOOD_ENOUGH:
            return f"The heaviest key, {shown}, weighs little. {_UNEVEN_TOGETHER}"
        return f"{shown}, {fair:.2f} times a worker's fair share. {MERGED_ALREADY}"

    def _chance(self) -> float:
        """Return the imbalance that a sample of perfectly balanced records has by chance.

        It is 0 if the sample is all records.
        """
        left_out = 1.0 if self.goes_on else 1.0 - self.sampled / self.records
        if left_out <= 0.0 or self.sampled == 0:
            return 0.0
        return imbalance_by_chance(self.sampled / left_out, self.workers or 1)


def _fewest_replicas(predictions: Sequence[Prediction]) -> Prediction:
    """Return the one with the fewest replicas, of those that are about as even as the best."""
    least = min(one.imbalance for one in predictions)
    alike = [one for one in predictions if one.imbalance <= least + _SIMILAR]
    return min(alike, key=lambda one: (one.replication, one.imbalance))


def _simplest(predictions: Iterable[Prediction], most_seconds: float) -> Prediction:
    able = [one for one in predictions if _seconds(one) <= most_seconds]
    return min(able, key=lambda one: (_rank(one), one.seconds))


def _seconds(one: Prediction) -> float:
    """Return the predicted time; infinite for what is shown to compare, and never advised.

    Salts for hot keys need their counts, as a plan does, which is as even with fewer replicas.
    """
    is_shown_only = one.strategy == ways.LIMIT or one.way == ways.HOT_SALT
    return math.inf if one.seconds is None or is_shown_only else one.seconds


def _rank(one: Prediction) -> int:
    """Return how simple a way is: the lower, the simpler."""
    return len(_SIMPLEST) if one.way is None else _SIMPLEST.index(one.way)

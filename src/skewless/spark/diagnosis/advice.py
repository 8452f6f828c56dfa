"""The heaviest keys of a job, and what to do about them."""

from __future__ import annotations

import html
import math
from dataclasses import asdict, dataclass, fields

import pandas as pd

from skewless.diagnosis.key_column import MERGED_ALREADY
from skewless.metrics import imbalance_by_chance
from skewless.plumbing.rounding import seconds_text
from skewless.plumbing.text_tables import number, percent, printable, text_table
from skewless.spark.balance.balance import HotKey
from skewless.spark.diagnosis.alternatives import LOCAL, ROUND_ROBIN
from skewless.spark.diagnosis.costs import (
    ALIKE,
    ROUTE_SECONDS,
    SHUFFLE_SECONDS,
    STAGE_SECONDS,
    Costs,
)
from skewless.spark.diagnosis.predicting import BASELINE, LIMIT, PLAIN, Prediction

#: Below this predicted imbalance, hashing alone is good enough.
_GOOD_ENOUGH = 0.10
#: If the imbalance of strategies differs by less than this, the one with fewer replicas wins.
_ALIKE = 0.05
#: What the heaviest keys alone do not show.
_UNEVEN_TOGETHER = (
    "Light keys can still be uneven together: hot_keys on a batch DataFrame of the same records "
    "predicts what hashing does."
)
#: How the advice describes a way that is plain Spark.
_HOW = {
    BASELINE: "plain Spark by key",
    ROUND_ROBIN: "a plain repartition({workers}) without a key",
    LOCAL: "the work on the partitions as they are, without a shuffle,",
}


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

    @property
    def advice(self) -> str:
        """What to do, in a sentence or two."""
        if self.records == 0:
            return "There are no records, so nothing to balance."
        if self.workers == 1 and self.fastest is None:
            return "There is one worker, so nothing to balance."
        return self._by_predictions() if self.predictions else self._by_shares()

    @property
    def fastest(self) -> Prediction | None:
        """The prediction with the least seconds; None without costs."""
        timed = [one for one in self.predictions if one.seconds is not None]
        timed = [one for one in timed if one.strategy != LIMIT]
        if not timed or self.records == 0:
            return None
        # Among equals, prefer what needs no strategy, then fewer replicas.
        return min(timed, key=lambda one: (one.seconds, one.family != PLAIN, one.replication))

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
        if self.costs is not None:
            how = "Measured on a sample" if self.costs.measured else "As given"
            told.append(
                f"{how}: {seconds_text(self.costs.per_record)} for each record, and "
                f"{seconds_text(self.costs.per_pair)} for each key on each worker."
            )
            told.append(
                f"A shuffle takes {seconds_text(SHUFFLE_SECONDS)} for each record, in the one task "
                "that reads its partition; all but local have one. A strategy adds "
                f"{seconds_text(ROUTE_SECONDS)}, and {seconds_text(STAGE_SECONDS)} to start. Large "
                "records take longer."
            )
        return tuple(told)

    def to_pandas(self) -> pd.DataFrame:
        """Return the predictions, a row per strategy."""
        names = [field.name for field in fields(Prediction)]
        return pd.DataFrame([asdict(one) for one in self.predictions], columns=names)

    def __str__(self) -> str:
        """Return two tables and the advice."""
        workers = "" if self.workers is None else f", {number(self.workers)} workers"
        lines = [f"{number(self.records)} records{workers}"]
        if self.keys:
            rows = [[k.key, number(k.records), percent(k.share), self._fair(k)] for k in self.keys]
            lines += ["", text_table(["key", "records", "share", "× fair share"], rows)]
        if self.predictions:
            headings = ["strategy", "family", "imbalance", "replicas per key"]
            headings += ["seconds", "stream: × ideal time"]
            rows = [
                [
                    one.strategy,
                    one.family,
                    percent(one.imbalance),
                    number(one.replication, 3),
                    number(one.seconds, 2),
                    number(one.makespan, 2),
                ]
                for one in self.predictions
            ]
            lines += ["", f"Predicted from {number(self.sampled)} records:"]
            lines.append(text_table(headings, rows))
        if self.assumptions:
            lines += ["", *(f"Assumed: {one}" for one in self.assumptions)]
        return "\n".join([*lines, "", self.advice])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def _fair(self, key: HotKey) -> str:
        return number(None if self.workers is None else key.share * self.workers, 2)

    def _by_predictions(self) -> str:
        baseline = self._named(BASELINE)
        is_even = baseline.imbalance < _GOOD_ENOUGH + self._chance()
        if is_even and self.fastest is not None:
            # Even so, no shuffle, or a round-robin one, may be faster.
            return (
                "The job is not skewed: hashing alone is predicted to come within "
                f"{percent(baseline.imbalance)} of perfect balance. {self._by_time()}"
            )
        if is_even:
            return (
                "Plain Spark is the better choice: hashing alone is predicted to come within "
                f"{percent(baseline.imbalance)} of perfect balance."
            )
        skewed = (
            "The job is skewed: hashing gives the busiest worker "
            f"{1 + baseline.imbalance:.2f} times its fair share."
        )
        return f"{skewed} {self._by_time() if self.fastest else self._by_balance(baseline)}"

    def _by_time(self) -> str:
        fastest = self.fastest
        assert fastest is not None  # the costs are known
        assert fastest.seconds is not None
        rivals = ", ".join(
            f"{one.seconds:.2f} s by {one.strategy}"
            for one in self.predictions
            if one.strategy in (BASELINE, ROUND_ROBIN, "cascade-ahead")
            and one is not fastest
            and one.seconds is not None
        )
        return (
            f"By these costs {self._how(fastest)} is the fastest: {fastest.seconds:.2f} s, against "
            f"{rivals}. {self._as_good(fastest)}{MERGED_ALREADY}"
        )

    def _as_good(self, fastest: Prediction) -> str:
        """Return a sentence about plain Spark if it is about as fast; else nothing."""
        plain = [one for one in self.predictions if one.family == PLAIN and one.seconds is not None]
        if fastest.family == PLAIN or fastest.seconds is None or not plain:
            return ""
        best = min(plain, key=lambda one: one.seconds or 0.0)
        if best.seconds is None or best.seconds > ALIKE * fastest.seconds:
            return ""
        return (
            f"The prediction is not exact to {ALIKE - 1:.0%}, and {self._how(best)} needs no "
            f"strategy: {best.seconds:.2f} s. Try that first. "
        )

    def _how(self, one: Prediction) -> str:
        """Return how the advice describes one way of partitioning."""
        if one.strategy in _HOW:
            return _HOW[one.strategy].format(workers=self.workers)
        if one.family == PLAIN:
            return f"salting by {one.strategy.removeprefix('salt-')}"
        return f"strategy={one.strategy!r}"

    def _by_balance(self, baseline: Prediction) -> str:
        # Only splitting helps a batch job: keys move between micro-batches. See `Prediction`.
        rivals = [
            one
            for one in self.predictions
            if one.family == "splitting" and one.strategy not in (BASELINE, LIMIT)
        ]
        least = min((one.imbalance for one in rivals), default=math.inf)
        if least >= baseline.imbalance:
            return "No strategy that was tried does better."
        alike = [one for one in rivals if one.imbalance <= least + _ALIKE]
        best = min(alike, key=lambda one: (one.replication, one.imbalance))
        return (
            f"If a key costs something on each worker that has it, use strategy={best.strategy!r}: "
            f"{1 + best.imbalance:.2f} times the fair share, with {best.replication:.3f} replicas "
            f"per key. If only records cost something, repartition({self.workers}) spreads them "
            "as well. Give per_record= and per_pair=, or work=, to have the times predicted. "
            f"{MERGED_ALREADY}"
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
        left_out = 1.0 - self.sampled / self.records
        if left_out <= 0.0 or self.sampled == 0:
            return 0.0
        return imbalance_by_chance(self.sampled / left_out, self.workers or 1)

"""The heaviest keys of a job, and what to do about them."""

from __future__ import annotations

import html
import math
from dataclasses import asdict, dataclass, fields

import pandas as pd

from skewless.spark.balance.balance import HotKey
from skewless.spark.balance.text_tables import number, percent, printable, text_table
from skewless.spark.diagnosis.predicting import BASELINE, LIMIT, Prediction

#: Below this predicted imbalance, hashing alone is good enough.
_GOOD_ENOUGH = 0.10
#: Of strategies whose imbalance differs by less than this, the one with fewer replicas is better.
_ALIKE = 0.05
_MERGED_ALREADY = (
    "If all you compute is sum, count, min, max or the like, plain Spark combines before the "
    "shuffle, and skew hardly hurts."
)


@dataclass(frozen=True)
class HotKeys:
    """The heaviest keys, heaviest first, and what each strategy would do about them."""

    records: int
    keys: tuple[HotKey, ...]
    workers: int | None = None
    sampled: int = 0  # records that the predictions are made of
    predictions: tuple[Prediction, ...] = ()

    @property
    def advice(self) -> str:
        """What to do, in a sentence or two."""
        if self.records == 0:
            return "There are no records, so nothing to balance."
        if self.workers == 1:
            return "There is one worker, so nothing to balance."
        return self._by_predictions() if self.predictions else self._by_shares()

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
            headings = ["strategy", "family", "imbalance", "replicas per key", "× ideal time"]
            rows = [
                [
                    one.strategy,
                    one.family,
                    percent(one.imbalance),
                    number(one.replication, 3),
                    number(one.makespan, 2),
                ]
                for one in self.predictions
            ]
            lines += ["", f"Predicted from {number(self.sampled)} records:"]
            lines.append(text_table(headings, rows))
        return "\n".join([*lines, "", self.advice])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def _fair(self, key: HotKey) -> str:
        return number(None if self.workers is None else key.share * self.workers, 2)

    def _by_predictions(self) -> str:
        baseline = next(one for one in self.predictions if one.strategy == BASELINE)
        if baseline.imbalance < _GOOD_ENOUGH + self._chance():
            return (
                "Plain Spark is the better choice: no key weighs much against a worker's fair "
                "share, and hashing alone is predicted to come within "
                f"{percent(baseline.imbalance)} of perfect balance."
            )
        # Only splitting helps a batch job: keys move between micro-batches. See `Prediction`.
        rivals = [
            one
            for one in self.predictions
            if one.family == "splitting" and one.strategy not in (BASELINE, LIMIT)
        ]
        least = min((one.imbalance for one in rivals), default=math.inf)
        if least >= baseline.imbalance:
            return (
                "The job is skewed: hashing gives the busiest worker "
                f"{1 + baseline.imbalance:.2f} times its fair share. No strategy that was tried "
                "does better."
            )
        alike = [one for one in rivals if one.imbalance <= least + _ALIKE]
        best = min(alike, key=lambda one: (one.replication, one.imbalance))
        return (
            f"The job is skewed: use strategy={best.strategy!r}. Hashing gives the busiest worker "
            f"{1 + baseline.imbalance:.2f} times its fair share; this one {1 + best.imbalance:.2f} "
            f"times, with {best.replication:.3f} replicas per key. {_MERGED_ALREADY}"
        )

    def _by_shares(self) -> str:
        if not self.keys:
            return "Plain Spark is the better choice: no key stands out from the others."
        heaviest = self.keys[0]
        shown = f"{printable(heaviest.key)!r} has {percent(heaviest.share)} of the records"
        if self.workers is None:
            enough = math.floor(1 / heaviest.share) + 1
            return f"{shown}: more than one worker's fair share from {number(enough)} workers on."
        fair = heaviest.share * self.workers
        if fair < _GOOD_ENOUGH:
            return f"Plain Spark is the better choice: the heaviest key, {shown}, weighs little."
        return f"{shown}, {fair:.2f} times a worker's fair share. {_MERGED_ALREADY}"

    def _chance(self) -> float:
        """Return how much imbalance sampling alone makes of perfect balance.

        About the largest of n deviations of the normal distribution, in units of the mean. A
        sample that is everything deviates by nothing.
        """
        n_workers = self.workers or 1
        left_out = 1.0 - self.sampled / self.records
        if left_out <= 0.0 or self.sampled == 0:
            return 0.0
        return math.sqrt(2.0 * math.log(n_workers) * n_workers / self.sampled * left_out)

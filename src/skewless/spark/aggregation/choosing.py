"""The forms in which `aggregate` computes, and the rule by which "auto" chooses one.

The rule uses what is known before anything runs: the aggregations, whether the records are a
stream, and what the ledger of the stream began with. For a batch of enough bytes, it also uses the
number of partitions and a sample, on which the aggregators are timed. So a restarted stream takes
the same form again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from pyspark.sql import Column

from skewless import registry
from skewless.diagnosis.costs import (
    BYTE_SECONDS,
    COUNT_SECONDS,
    JOB_SECONDS,
    SHUFFLE_SECONDS,
)
from skewless.parameters import nearest
from skewless.spark.aggregation.arguments import require_one_merger
from skewless.spark.aggregation.asked import Asked
from skewless.spark.aggregation.plain_queries import has_plain_query
from skewless.spark.aggregation.sampling import Sample, Source, known_source
from skewless.spark.ledger.folder import shown
from skewless.spark.ledger.ledger import Ledger, LedgerMismatch
from skewless.spark.records import Records
from skewless.spark.routing.arguments import RoutingArguments
from skewless.spark.routing.planned.inputs import input_of
from skewless.spark.routing.route import DEFAULT_STRATEGY
from skewless.strategy import AnyStrategy

Form: TypeAlias = Literal["plain", "local", "together", "plan", "route"]
#: Forms that a user may name as `strategy`.
AUTO, PLAIN, LOCAL, PLAN = "auto", "plain", "local", "plan"
FORMS = (AUTO, PLAIN, LOCAL, PLAN)
#: Another form must promise at least this many times the speed of "local".
_ALIKE = 1.3
_LOGGER = logging.getLogger("skewless")


@dataclass(frozen=True)
class Choice:
    """The form in which an aggregation is computed, and why."""

    form: Form
    strategy: str | AnyStrategy  # of "route"; else the name of the form
    why: str

    def __str__(self) -> str:
        """Return one line for people."""
        name = self.strategy if isinstance(self.strategy, str) else self.strategy.name
        return f"strategy {name!r}: {self.why}"

    def log(self) -> None:
        """Log the choice in one line."""
        _LOGGER.info("aggregate: %s", self)


def choose(
    asked: Asked,
    strategy: str | AnyStrategy,
    given: RoutingArguments,
    weight: str | Column | None,
) -> Choice:
    """Return the form that was asked for, or the one that should be the fastest.

    Raises ValueError if the partial results cannot be merged, before a sample is taken.

    If strangers choose the keys, our router replaces Spark's shuffle by key hash: they cannot
    compute collisions of its hash.
    """
    if isinstance(strategy, str) and strategy in (PLAIN, LOCAL):
        _require_no_routing(strategy, weight, given.capacities)
    choice = _without_sample(asked.records, asked.aggs, strategy, given, weight)
    if choice is None or choice.form != "plain":
        require_one_merger(asked.aggs)
    if choice is None:
        choice = _of_batch(known_source(asked, given.workers), given.workers)
    if isinstance(strategy, str) and strategy == AUTO and choice.form == "route":
        choice = _planned(asked.records, choice)
    is_exposed = choice.form == "together" and given.untrusted_keys
    return replace(choice, form="route") if is_exposed else choice


def _without_sample(
    records: Records,
    aggs: Mapping[str, Any],
    strategy: str | AnyStrategy,
    given: RoutingArguments,
    weight: str | Column | None,
) -> Choice | None:
    """Return the choice, or None if the source of a batch decides."""
    if not isinstance(strategy, str) or strategy not in FORMS:
        _require_strategy(strategy)
        return Choice("route", strategy, "as given")
    own = [name for name, aggregation in aggs.items() if not has_plain_query(aggregation)]
    alone = [name for name in own if not aggs[name].merges]
    if strategy != AUTO:
        _require_form(strategy, aggs, own, alone)
        forms: dict[str, Form] = {PLAIN: "plain", LOCAL: "local", PLAN: "plan"}
        return Choice(forms[strategy], strategy, "as given")
    if alone:
        # Only the router refuses weights that have no effect.
        form: Form = "together" if weight is None else "route"
        return Choice(form, "hash", f"{alone[0]!r} does not merge")
    begun = _begun(given.ledger) if records.is_stream else None
    if begun is not None:
        form = "local" if begun == LOCAL else "route"
        return Choice(form, begun, "the ledger began with it")
    if weight is not None:
        return Choice("route", DEFAULT_STRATEGY, "records have weights")
    if not own:
        return Choice("plain", PLAIN, "Spark has all these aggregations")
    if records.is_stream:
        return Choice("local", LOCAL, "a stream is combined where its records are read")
    return None


def _of_batch(source: Source | None, workers: int) -> Choice:
    """Return the form for aggregators of a user on a batch: the one that should be the fastest."""
    if source is None:
        return Choice("local", LOCAL, "the states merge, and the source is not known")
    if source.sample is None:
        return Choice("local", LOCAL, "the states merge, and no slot would be idle")
    seconds = form_seconds(source, source.sample, workers)
    fastest = min(seconds, key=lambda name: seconds[name])
    # Estimates are rough, and "local" moves no record.
    chosen = LOCAL if seconds[LOCAL] <= _ALIKE * seconds[fastest] else fastest
    told = ", ".join(f"{name} {each:.1f} s" for name, each in seconds.items())
    why = f"by a sample, {told} on {source.partitions} partitions"
    form: Form = "local" if chosen == LOCAL else "together" if chosen == "hash" else "route"
    return Choice(form, chosen, why)


def form_seconds(source: Source, sample: Sample, workers: int) -> dict[str, float]:
    """Return about how long each form takes."""
    reading = max(1, min(source.partitions, source.slots))
    working = max(1, min(workers, source.slots))
    n = source.records
    moving = n * SHUFFLE_SECONDS / reading
    updating = n * sample.update_s
    # A plan splits few keys, and only these are merged.
    counting = JOB_SECONDS + n * COUNT_SECONDS / reading
    return {
        LOCAL: updating / reading + merging_seconds(source, sample, reading, working),
        "hash": moving + updating * max(1 / working, sample.top_share),
        DEFAULT_STRATEGY: counting + moving + updating / working,
    }


def merging_seconds(source: Source, sample: Sample, reading: int, working: int) -> float:
    """Return about how long the partial results of all partitions take to be moved and merged."""
    each = source.records / max(1, source.partitions)
    sampled = min(each, sample.records)
    # Keys come again, so later records have fewer new ones.
    partial_results = source.partitions * (
        sampled * sample.keys_per_record + (each - sampled) * sample.new_keys
    )
    moved = SHUFFLE_SECONDS + sample.partial_bytes * BYTE_SECONDS
    return partial_results * (moved / reading + sample.merge_s / working)


def _planned(records: Records, choice: Choice) -> Choice:
    """Return a plan instead of a strategy that decides online, if counting the batch is cheap."""
    if records.is_stream or choice.strategy != DEFAULT_STRATEGY or records.key.is_collated:
        return choice
    return replace(choice, form="plan", strategy=PLAN) if input_of(records.df).is_cheap else choice


def _begun(ledger: Ledger | None) -> str | None:
    """Return the strategy that the ledger of a stream was begun with, or None."""
    identity = None if ledger is None else ledger.identity()
    if ledger is None or identity is None:
        return None
    if "strategy" not in identity:
        raise LedgerMismatch(
            f"the ledger in {shown(ledger.folder)} was written by process, or by an operator that "
            "is built on it, not by aggregate: use another ledger folder"
        )
    return str(identity["strategy"])


def _require_strategy(strategy: str | AnyStrategy) -> None:
    """Raise ValueError unless this is a strategy; the message may suggest a form."""
    if isinstance(strategy, str) and ":" not in strategy and strategy not in registry.names():
        known = [*FORMS, *registry.names()]
        raise ValueError(nearest(strategy, known, "strategy"))
    registry.strategy_of(strategy)


def _require_no_routing(form: str, weight: Any, capacities: Any) -> None:
    """Raise ValueError for what only a router could take into account."""
    if weight is not None:
        raise ValueError(
            f"weight: strategy {form!r} routes nothing; name a strategy that weighs, such as "
            "'cascade', or leave out weight"
        )
    if capacities is not None:
        raise ValueError(
            f"capacities: strategy {form!r} routes nothing; name a strategy that uses them, "
            "such as 'cascade', or leave out capacities"
        )


def _require_form(form: str, aggs: Mapping[str, Any], own: list[str], alone: list[str]) -> None:
    if form == PLAIN and own:
        raise ValueError(
            f"strategy 'plain': aggs: {own[0]!r} ({type(aggs[own[0]]).__name__}) is not an "
            "aggregation of Spark: use 'auto', 'local' or a name of the registry"
        )
    if form == LOCAL and alone:
        raise ValueError(
            f"strategy 'local': aggs: {alone[0]!r} does not merge (its class says merges = False): "
            "use 'auto' or 'hash'"
        )

"""The forms in which `aggregate` computes, and the rule by which "auto" chooses one.

The rule uses what is known before anything runs: the aggregations, whether the records are a
stream, and what the ledger of the stream began with. For a batch of enough bytes, it also uses the
number of partitions and a sample, on which the aggregators are timed. So a restarted stream takes
the same form again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column

from skewless import registry
from skewless.aggregations import ApproxDistinct
from skewless.diagnosis.costs import BYTE_SECONDS, ROUTE_SECONDS, SHUFFLE_SECONDS
from skewless.keys import hash_keys
from skewless.parameters import nearest
from skewless.spark.aggregation.arguments import Asked
from skewless.spark.aggregation.native_queries import has_plain_query, is_merged_by_spark
from skewless.spark.aggregation.partials import Partials
from skewless.spark.ledger.folder import shown
from skewless.spark.ledger.ledger import Ledger, LedgerMismatch
from skewless.spark.routing.arguments import RoutingArguments
from skewless.spark.routing.planned.inputs import drops_records, input_of, records_by_footer
from skewless.spark.routing.route import DEFAULT_STRATEGY
from skewless.strategy import AnyStrategy

#: Forms that a user may name as `strategy`.
AUTO, PLAIN, LOCAL, PLAN = "auto", "plain", "local", "plan"
FORMS = (AUTO, PLAIN, LOCAL, PLAN)
#: Another form must promise at least this many times the speed of "local".
_ALIKE = 1.3
#: Records of the sample.
_SAMPLED = 1 << 14
#: Records on which the aggregators are timed: more of them, until it takes long enough.
_STEPS = (1 << 8, 1 << 11, _SAMPLED)
_ENOUGH_S = 0.05
#: Times that records are combined, those of one key and others; the shortest counts.
_TRIES = 5
#: Partial results on which merging is timed.
_MERGED = 1 << 8
#: Bytes of records below which no form saves as much as a sample takes, if no slot is idle.
_SMALL_BYTES = 1 << 26
#: Seconds to bring a record to the Python process that combines it, where it is read or after a
#: shuffle. So much longer, per record, is the task with a hot key.
_TAKE_SECONDS = 0.4e-6
#: Seconds to start a router. The stage of a shuffle does not count: all forms have one.
_ROUTER_SECONDS = 0.05
_LOGGER = logging.getLogger("skewless")


@dataclass(frozen=True)
class Choice:
    """The form in which an aggregation is computed, and why."""

    form: str  # "plain", "local", "together", "plan" or "route"
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
    choice = _without_sample(asked, strategy, given, weight)
    if (choice is None or choice.form != PLAIN) and not is_merged_by_spark(asked.aggs):
        for name, aggregation in asked.aggs.items():
            if isinstance(aggregation, ApproxDistinct):
                raise ValueError(
                    f"aggs: {name!r}: approximate distinct counts are merged by Spark, variances "
                    "and your own aggregators by skewless: compute them in two calls"
                )
    if choice is None:
        choice = _of_batch(known_source(asked, given.workers), given.workers)
    is_exposed = choice.form == "together" and given.untrusted_keys
    return replace(choice, form="route") if is_exposed else choice


def _without_sample(
    asked: Asked,
    strategy: str | AnyStrategy,
    given: RoutingArguments,
    weight: str | Column | None,
) -> Choice | None:
    """Return the choice, or None if the source of a batch decides."""
    is_stream = asked.records.is_stream
    own = [name for name, one in asked.aggs.items() if not has_plain_query(one)]
    alone = [name for name, one in asked.chosen.items() if not one.merges]
    if not isinstance(strategy, str) or strategy != AUTO:
        return _named(
            asked, strategy, own, alone, {"weight": weight, "capacities": given.capacities}
        )
    if alone:
        # Only the router refuses weights that have no effect.
        form = "together" if weight is None else "route"
        return Choice(form, "hash", f"{alone[0]!r} does not merge")
    begun = _begun(given.ledger) if is_stream else None
    if begun is not None:
        return Choice(LOCAL if begun == LOCAL else "route", begun, "the ledger began with it")
    if weight is not None:
        # A plan instead of a strategy that decides online, if counting the batch is cheap.
        can_plan = not is_stream and not asked.records.key.is_collated
        is_planned = can_plan and input_of(asked.records.df).is_cheap
        form, name = (PLAN, PLAN) if is_planned else ("route", DEFAULT_STRATEGY)
        return Choice(form, name, "records have weights")
    if not own:
        return Choice(PLAIN, PLAIN, "Spark has all these aggregations")
    if is_stream:
        return Choice(LOCAL, LOCAL, "a stream is combined where its records are read")
    return None


def _named(
    asked: Asked,
    strategy: str | AnyStrategy,
    own: list[str],
    alone: list[str],
    for_routers: Mapping[str, Any],
) -> Choice:
    """Return the form that the user named; raise ValueError if it cannot compute this."""
    if not isinstance(strategy, str) or strategy not in FORMS:
        if isinstance(strategy, str) and ":" not in strategy and strategy not in registry.names():
            raise ValueError(nearest(strategy, [*FORMS, *registry.names()], "strategy"))
        registry.strategy_of(strategy)
        return Choice("route", strategy, "as given")
    for name, value in for_routers.items():
        if strategy != PLAN and value is not None:
            able = "weighs" if name == "weight" else "uses them"
            raise ValueError(
                f"{name}: strategy {strategy!r} routes nothing; name a strategy that {able}, such "
                f"as 'cascade', or leave out {name}"
            )
    if strategy == PLAIN and own:
        raise ValueError(
            f"strategy 'plain': aggs: {own[0]!r} ({type(asked.aggs[own[0]]).__name__}) is not an "
            "aggregation of Spark: use 'auto', 'local' or a name of the registry"
        )
    if strategy == LOCAL and alone:
        raise ValueError(
            f"strategy 'local': aggs: {alone[0]!r} does not merge (its class says merges = False): "
            "use 'auto' or 'hash'"
        )
    return Choice(strategy, strategy, "as given")


def _of_batch(source: Source | None, workers: int) -> Choice:
    """Return the form for aggregators of a user on a batch: the one that should be the fastest."""
    if source is None:
        return Choice(LOCAL, LOCAL, "the states merge, and the source is not known")
    if source.sample is None:
        return Choice(LOCAL, LOCAL, "the states merge, and no slot would be idle")
    seconds = form_seconds(source, source.sample, workers)
    fastest = min(seconds, key=lambda name: seconds[name])
    # Estimates are rough, and "local" moves no record.
    chosen = LOCAL if seconds[LOCAL] <= _ALIKE * seconds[fastest] else fastest
    told = ", ".join(f"{name} {each:.1f} s" for name, each in seconds.items())
    why = f"by a sample, {told} on {source.partitions} partitions"
    forms = {LOCAL: LOCAL, "hash": "together"}
    return Choice(forms.get(chosen, "route"), chosen, why)


def form_seconds(source: Source, sample: Sample, workers: int) -> dict[str, float]:
    """Return about how long each form takes."""
    reading = max(1, min(source.partitions, source.slots))
    working = max(1, min(workers, source.slots))
    n, parts = source.records, max(1, source.partitions)
    moving = n * SHUFFLE_SECONDS / reading
    updating = n * (_TAKE_SECONDS + sample.update_s)
    # A key has a state in every partition where it is read, or in the one that it is sent to.
    partial_results = min(parts * sample.keys_of(n / parts), max(n, sample.records))
    moved = SHUFFLE_SECONDS + sample.partial_bytes * BYTE_SECONDS
    merging = partial_results * (moved / reading + sample.merge_s / working)
    states = sample.keys_of(n) * sample.key_s / working
    routing = _ROUTER_SECONDS + n * ROUTE_SECONDS / reading  # it splits few keys, and merges these
    of_busiest = sample.top_share + (1.0 - sample.top_share) / working
    return {
        LOCAL: (updating + partial_results * sample.key_s) / reading + merging,
        "hash": moving + updating * of_busiest + states,
        DEFAULT_STRATEGY: routing + moving + updating / working + states,
    }


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


class Sample(NamedTuple):
    """What a sample tells: shares are those of its records, times are seconds."""

    records: int
    keys_per_record: float
    new_keys: float  # share of records with a key that did not come before, at the end
    top_share: float  # of the heaviest key
    update_s: float  # to combine a record
    key_s: float  # to begin a state
    merge_s: float  # to merge a partial result
    partial_bytes: float  # of a partial result

    def keys_of(self, n_records: float) -> float:
        """Return about how many keys so many records have; at least those of the sample."""
        # Keys come again, so later records have fewer new ones: Heaps' law, by the slope there.
        exponent = min(1.0, self.new_keys / self.keys_per_record)
        more: float = max(1.0, n_records / self.records) ** exponent
        return self.records * self.keys_per_record * more


@dataclass(frozen=True)
class Source:
    """What is known about the records before they are read."""

    partitions: int
    slots: int  # tasks that can run at once
    records: float = 0.0  # about
    sample: Sample | None = None


def known_source(asked: Asked, workers: int) -> Source | None:
    """Build the `Source` of a batch, from a sample if needed; None if finding out costs too much.

    The sample is the first 16,384 records. They come to the driver, which needs no Python process
    of Spark's for that. There is none if every slot has a partition, there are few records, and no
    state can grow large: then no form is better than "local".
    """
    df = asked.records.df
    # Spark Connect has no partitions here. What is not cheap would be computed twice.
    if not hasattr(df, "_jdf") or not input_of(df).is_cheap:
        return None
    query = df._jdf.queryExecution()
    plan = query.optimizedPlan()
    partitions = int(query.toRdd().getNumPartitions())
    size = max(1, int(plan.schema().defaultSize()))
    # Files are compressed, so there are more records than their bytes tell.
    told = int(str(plan.stats().sizeInBytes())) / size
    records = max(told, records_by_footer(df) or 0.0)
    source = Source(partitions, df.sparkSession.sparkContext.defaultParallelism, records)
    is_busy = partitions >= min(workers, source.slots)
    partials = asked.partials
    is_small = records * size < _SMALL_BYTES and all(
        _is_fixed(field.type) for fields in partials.states.values() for field in fields
    )
    if partitions == 0 or (is_busy and is_small):
        return source
    sent = df.select(*asked.sent(asked.records.key.grouped))
    # In one task: the limit of several partitions would read from each of them. Behind a filter, it
    # could have to read all of them for these records.
    tasks = source.slots if drops_records(df) else 1
    table = sent.coalesce(tasks).limit(_SAMPLED).toArrow().rename_columns(partials.schema.names)
    if not table.num_rows:
        return source
    try:
        return replace(source, sample=sample_of(table.cast(partials.schema), partials))
    except Exception as error:  # of the user's class: the job will say where, on which records
        _LOGGER.info("aggregate: the aggregators could not be timed on the driver: %s", error)
        return source


def _is_fixed(kind: pa.DataType) -> bool:
    """Return whether all values of a type take the same few bytes."""
    if pa.types.is_struct(kind):
        return all(_is_fixed(field.type) for field in kind)
    tests = (pa.types.is_primitive, pa.types.is_decimal, pa.types.is_null)
    return any(test(kind) for test in tests)


def sample_of(table: pa.Table, partials: Partials) -> Sample:
    """Read the first records: their keys, and what they cost."""
    keys = hash_keys(*[table.column(name) for name in partials.key])
    distinct, first, counts = np.unique(keys, return_index=True, return_counts=True)
    half = keys.size // 2
    partials.update(table.slice(0, 64))  # what a class sets up once is not a cost of each record

    def timed(records: pa.Table) -> tuple[float, pa.Table]:
        begin = time.perf_counter()
        partial = partials.update(records)
        return time.perf_counter() - begin, partial

    for n_records in _STEPS:
        part = table.slice(0, n_records)
        seconds, partial = timed(part)
        if seconds >= _ENOUGH_S or part.num_rows == table.num_rows:
            break
    # Records of one key tell what a record costs; what many keys take beyond that, states cost.
    of_heaviest = np.flatnonzero(keys == distinct[counts.argmax()])
    n_same = min(part.num_rows, _STEPS[1])
    same = table.take(np.resize(of_heaviest, n_same))
    update_s = seconds / part.num_rows
    for _ in range(_TRIES):  # a pause of the driver is no cost of a record or of a state
        if seconds < _ENOUGH_S:
            seconds = min(seconds, timed(part)[0])
        alone, _ = timed(same)
        update_s = min(update_s, seconds / part.num_rows, alone / n_same)
        if alone >= _ENOUGH_S:
            break
    some = partial.slice(0, _MERGED)
    middle = time.perf_counter()
    if partials.merges:
        partials.merge([some, some])
    merged = time.perf_counter()
    return Sample(
        records=keys.size,
        keys_per_record=counts.size / keys.size,
        new_keys=float((first >= half).sum() / max(1, keys.size - half)),
        top_share=float(counts.max() / keys.size),
        update_s=update_s,
        key_s=(seconds - update_s * part.num_rows) / max(1, partial.num_rows - 1),
        merge_s=(merged - middle) / (2 * max(1, some.num_rows)),
        partial_bytes=partial.nbytes / max(1, partial.num_rows),
    )

"""What `aggregate` is asked to compute: its arguments, checked and resolved once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.types import StructField, TimestampNTZType

from skewless.aggregations import (
    Aggregation,
    Aggregator,
    ApproxDistinct,
    CollectSet,
    PerColumn,
    PerKey,
    VectorAggregator,
    is_reducer,
    reducing,
)
from skewless.plumbing.arguments import shown
from skewless.spark.aggregation.partials import TIME, Partials
from skewless.spark.aggregation.windows import (
    WATERMARK,
    WINDOW,
    Lateness,
    Window,
    as_window,
    microseconds,
)
from skewless.spark.columns import internal
from skewless.spark.records import Records
from skewless.strategy import AnyStrategy

AnyAggregation = Aggregation | Aggregator[Any] | VectorAggregator | ApproxDistinct


@dataclass(frozen=True, eq=False)
class Asked:
    """The records with their key, the aggregations, and the columns that these read.

    All columns have internal names until the end. So the user's names are not restricted: they may
    differ only in case, have dots, or be the same for a key and for the column that it is computed
    from.
    """

    records: Records
    aggs: dict[str, Any]  # as the user gave them
    chosen: dict[str, Aggregation]  # in the form that combining needs
    inputs: dict[str, Column]
    window: Window | None
    watermark: str | None

    @property
    def names(self) -> list[str]:
        """The columns of the result."""
        window = [] if self.window is None else [WINDOW]
        return [*window, *self.records.key.names, *self.aggs]

    @property
    def by_result(self) -> dict[str, Any]:
        """The user's aggregations by the internal names of their results."""
        return dict(zip(self.partials.aggregations, self.aggs.values(), strict=True))

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The internal names of the key's columns."""
        return tuple(internal(f"key_{number}") for number in range(len(self.records.key.names)))

    def sent(self, keys: Sequence[Column]) -> list[Column]:
        """Return the columns that are sent: the time, the key, the inputs."""
        found = [] if self.window is None else [self.records.column(self.window.time).alias(TIME)]
        found += [column.alias(name) for column, name in zip(keys, self.key, strict=True)]
        for number, column in enumerate(self.inputs.values()):
            found.append(column.alias(internal(f"input_{number}")))
        return found

    @cached_property
    def partials(self) -> Partials:
        """How records become partial results; aggregations find inputs by the user's names."""
        times = [] if self.window is None else [TIME]
        kinds = self.records.arrow_types(self.sent(self.records.key.grouped), "aggs")
        schema = pa.schema(list(zip([*times, *self.key, *self.inputs], kinds, strict=True)))
        numbered = {
            internal(f"result_{number}"): aggregation
            for number, aggregation in enumerate(self.chosen.values())
        }
        pane, begin = (self.window.pane, self.window.begin) if self.window else (None, 0)
        return Partials(schema, self.key, numbered, pane, begin)


def asked_for(
    records: Records, aggs: Any, window: Any, watermark: str | None, mode: str | None
) -> Asked:
    """Resolve what a user asks `aggregate` to compute; raise ValueError for bad arguments."""
    span = as_window(window)
    chosen, inputs = chosen_aggregations(records, aggs, span)
    check_times(records, span, watermark, mode)
    records.key.require_arrow_types()
    return Asked(records, dict(aggs), chosen, inputs, span, watermark)


def chosen_aggregations(
    records: Records, aggs: Mapping[str, AnyAggregation], window: Window | None
) -> tuple[dict[str, Aggregation], dict[str, Column]]:
    """Return the aggregations in the form that combining needs, and their input columns.

    Raises ValueError for bad ones.
    """
    if not isinstance(aggs, Mapping) or not aggs:
        raise ValueError(
            "aggs must be a mapping of names to aggregations, like {'n': count()}, "
            f"not {shown(aggs)}"
        )
    names = records.key.names
    if window is not None and WINDOW in names:
        raise ValueError(f"key: {WINDOW!r} is the name of the windows' column: rename the key")
    chosen: dict[str, Aggregation] = {}
    read: dict[str, Column] = {}
    for name, aggregation in aggs.items():
        if not isinstance(name, str) or not name:
            raise ValueError(f"aggs: a result's name must be a text, not {shown(name)}")
        if name in names or (window is not None and name == WINDOW):
            raise ValueError(
                f"aggs: {name!r} is the name of a key column or of the window already; "
                "choose another one for the result"
            )
        if is_reducer(aggregation):
            try:
                chosen[name] = PerKey(reducing(aggregation))
            except ValueError as error:
                raise ValueError(f"aggs: {name!r}: {error}") from error
        elif isinstance(aggregation, ApproxDistinct):
            chosen[name] = CollectSet(aggregation.column)
        elif isinstance(aggregation, Aggregator):
            chosen[name] = PerKey(aggregation)
        elif isinstance(aggregation, VectorAggregator):
            chosen[name] = PerColumn(aggregation)
        elif isinstance(aggregation, Aggregation):
            chosen[name] = aggregation
        else:
            raise ValueError(
                f"aggs: {name!r} must be an aggregation of skewless.aggregations, an Aggregator, "
                f"or an object with zero, reduce, merge and finish, not {shown(aggregation)}"
            )
        for column in chosen[name].inputs:
            if column not in read:
                read[column] = records.named(column, f"aggs: {name!r}")
        inputs = [read[column].alias(column) for column in chosen[name].inputs]
        try:  # it may have no state for inputs of these types
            chosen[name].state_types(records.arrow_types(inputs, "inputs"))
        except ValueError as error:
            raise ValueError(f"aggs: {name!r}: {error}") from error
    return chosen, read


def check_one_part(asked: Asked, strategy: AnyStrategy | None) -> None:
    """Raise ValueError if records of a key that must come at once, or of a window, would not."""
    alone = [name for name, aggregation in asked.chosen.items() if not aggregation.merges]
    if not alone:
        return
    window = asked.window
    cannot = f"aggs: {alone[0]!r} does not merge (its class says merges = False), so it cannot be "
    if asked.records.is_stream:
        raise ValueError(cannot + "computed on a stream, one micro-batch after the other")
    if window is not None and window.pane != microseconds(window.size):
        raise ValueError(cannot + "computed for windows that overlap: leave out the slide")
    if strategy is not None and strategy.traits.family == "splitting":
        raise ValueError(cannot + f"split by {strategy.name!r}: use strategy='hash'")


def check_times(
    records: Records, window: Window | None, watermark: str | None, mode: str | None
) -> None:
    """Raise ValueError unless window, watermark and mode fit each other and the DataFrame."""
    if watermark is not None:
        if window is None:
            raise ValueError(
                f"watermark {shown(watermark)} needs window=: "
                "without windows no result is ever final"
            )
        if microseconds(watermark, "watermark") < 0:
            raise ValueError(f"watermark must be at least 0, not {watermark!r}")
    if isinstance(mode, str) and mode == "complete":
        raise ValueError(
            "mode must be 'update' or 'append', not 'complete', which Spark does not have for your "
            "own aggregators: write updates to a table that is replaced by key. Aggregations that "
            "Spark merges work in any output mode: leave out mode"
        )
    if mode is not None and (not isinstance(mode, str) or mode not in ("update", "append")):
        raise ValueError(f"mode must be 'update' or 'append', not {shown(mode)}")
    watched = [field.name for field in _watched(records)]
    if mode == "append" and watermark is None and (window is None or window.time not in watched):
        raise ValueError("mode 'append' needs a window and a watermark: no result is ever final")
    if window is None:
        return
    kind = records.time(window.time, "window")
    if records.is_stream and watermark is not None and isinstance(kind, TimestampNTZType):
        raise ValueError(
            f"watermark: Spark needs a timestamp with time zone, and column {window.time!r} is "
            "timestamp_ntz: cast it to timestamp"
        )


def _watched(records: Records) -> list[StructField]:
    """Return the columns on which the DataFrame has a watermark already."""
    return [field for field in records.schema.fields if WATERMARK in field.metadata]


def lateness(asked: Asked, *, is_plain: bool) -> Lateness:
    """Return how late records may be, by our watermark or by one that the stream has already.

    Raises ValueError where there are two watermarks, or where ours would be lost on the way.
    """
    ours = Lateness(asked.watermark)
    fields = _watched(asked.records)
    if not asked.records.is_stream or not fields:
        return ours
    if asked.watermark is not None:
        raise ValueError(
            "watermark: the DataFrame has a watermark already, and Spark allows one: leave out "
            "withWatermark, or leave out watermark="
        )
    if is_plain:
        return ours
    if asked.window is None:
        # Without windows, a watermark matters only if it is on a column of the key.
        if not any(WATERMARK in field.metadata for field in asked.records.key.fields):
            return ours
    elif [field.name for field in fields] == [asked.window.time]:
        return Lateness(carried_ms=int(fields[0].metadata[WATERMARK]))
    raise ValueError(
        f"the DataFrame has a watermark already, by column {fields[0].name!r}; ours is applied "
        "after the partial aggregation: leave out withWatermark and give window= and watermark= "
        "instead"
    )

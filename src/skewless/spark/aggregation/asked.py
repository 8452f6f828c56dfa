"""What `aggregate` is asked to compute, checked and resolved once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import Column

from skewless.aggregations import Aggregation, Aggregator, ApproxDistinct, VectorAggregator
from skewless.spark.aggregation.partials import TIME, Partials
from skewless.spark.aggregation.windows import WINDOW, Window
from skewless.spark.columns import internal
from skewless.spark.records import Records

AnyAggregation = Aggregation | Aggregator[Any] | VectorAggregator | ApproxDistinct


@dataclass(frozen=True, eq=False)
class Asked:
    """The records with their key, the aggregations, and the columns that these read.

    All columns have internal names until the end. So the user's names are not restricted: they may
    differ only in case, have dots, or be the same for a key and for the column that it is computed
    from.
    """

    records: Records
    aggs: dict[str, AnyAggregation]  # as the user gave them
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
    def by_result(self) -> dict[str, AnyAggregation]:
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

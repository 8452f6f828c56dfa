"""What a user writes: how records and the state of a key become results and a new state."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from skewless.aggregations.aggregator import to_python
from skewless.arrays import Floats, Ints

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

Row = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class KeyedRecords:
    """The records of many keys, and what is held of each.

    Parameters
    ----------
    keys
        One row per key, with the key's columns.
    records
        All records, with the columns of the DataFrame: those of the first key, those of the
        second, and so on. The records of a key are in source order.
    starts
        Where the records of each key begin, and at the end how many there are: those of key i are
        the rows starts[i] … starts[i + 1] − 1.
    states
        One struct per key, with the fields of the state; null where there is no state.
    watermark
        No record at this time or before it comes any more. None: no watermark yet, or none at all.
    """

    keys: pa.Table
    records: pa.Table
    starts: Ints
    states: pa.StructArray
    watermark: datetime | None = None

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self.starts) - 1

    @property
    def positions(self) -> Ints:
        """The number of the key of each record."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.starts))


class Update(NamedTuple):
    """What becomes of some keys.

    Parameters
    ----------
    results
        Rows of the result, as an Arrow table with the columns of `result_schema`; None: no rows.
    states
        One struct per key, in the order of the keys; null: the state is forgotten.
    costs
        What each key cost, if the processor knows it, in any unit; None: what is measured.
    """

    results: pa.Table | None
    states: pa.StructArray
    costs: Floats | None = None


class Processor(ABC):
    """Keyed state with own logic: `update` sees many keys at a time and works on Arrow columns.

    A method must give the same for the same input: no clocks, no random numbers. A task may run
    again, and a key may be processed by another worker in each micro-batch. Keep nothing in
    `self` between two calls.

    A state whose schema has a timestamp called `expires` ends when the watermark passes that time.
    `on_expiry` then sees it, before the records of the same key: those are all later.

    `check_processor` tests these rules.

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> class Latest(Processor):
    ...     state_schema = "value double"
    ...     result_schema = "user string, value double, change double"
    ...
    ...     def update(self, keyed):
    ...         last = pa.array(keyed.starts[1:] - 1)
    ...         value = keyed.records["value"].combine_chunks().take(last)
    ...         change = pc.subtract(value, keyed.states.field("value"))
    ...         results = pa.table([keyed.keys["user"], value, change], ["user", "value", "change"])
    ...         return Update(results, pa.StructArray.from_arrays([value], ["value"]))
    """

    #: The fields of a state: DDL such as "n bigint, expires timestamp", or a StructType. Of the
    #: class, or of the object where it follows from what the object is made with.
    state_schema: str | StructType
    #: The columns of the results, in the same way.
    result_schema: str | StructType
    #: A state without a record for so long, in event time, is forgotten: "2 hours". None: never.
    #: `on_expiry` is no record. If `expires` comes first, that counts first.
    ttl: str | None = None
    #: What states mean beyond their schema, as texts by name, such as {"unit": "seconds"}. They are
    #: kept with the states, and a restart with others is refused. Of the class or of the object.
    meaning: Mapping[str, str] = MappingProxyType({})
    #: A boolean column that is true for the records of a second stream. The watermark then follows
    #: the stream that is behind, and there is none before both have a record. None: one stream.
    second_stream: str | None = None

    @abstractmethod
    def update(self, keyed: KeyedRecords) -> Update:
        """Return the results and the new states of keys that have records, at least one each."""

    def on_expiry(self, keyed: KeyedRecords) -> Update:
        """Return the results and new states of keys whose time has come; there are no records.

        Without another definition their states are forgotten without a result. A state that is
        kept should have a later `expires`; otherwise it comes here again in the next micro-batch.
        If the later time has passed too, it comes here again at once.
        At the end of a batch DataFrame, states come here until none has an `expires` any more, and
        one that renews itself for ever is refused.
        """
        return Update(None, pa.nulls(len(keyed), keyed.states.type))


class KeyProcessor(Processor):
    """Keyed state with own logic for one key at a time, in plain Python.

    It is easier to write than `Processor.update`, and slower by the cost of a call per key. The
    seconds of each key are measured.

    Examples
    --------
    >>> class Visits(KeyProcessor):
    ...     state_schema = "n bigint"
    ...     result_schema = "user string, n bigint"
    ...
    ...     def update_key(self, key, records, state, watermark):
    ...         n = (state["n"] if state else 0) + len(records)
    ...         return [{"n": n}], {"n": n}
    """

    @abstractmethod
    def update_key(
        self,
        key: Row,
        records: Sequence[Row],
        state: dict[str, Any] | None,
        watermark: datetime | None,
    ) -> tuple[Iterable[Row], Row | None]:
        """Return the result rows and the new state of one key; None: the state is forgotten.

        A column of the key need not be repeated in the result rows.
        """

    def expire_key(
        self, key: Row, state: dict[str, Any], watermark: datetime | None
    ) -> tuple[Iterable[Row], Row | None]:
        """Return the same for a key whose time has come; without another definition, nothing."""
        return (), None

    def update(self, keyed: KeyedRecords) -> Update:
        """Call `update_key` for each key."""
        records = to_python(keyed.records)
        starts = keyed.starts.tolist()
        return self._each(
            keyed,
            lambda i, key, state: self.update_key(
                key, records[starts[i] : starts[i + 1]], state, keyed.watermark
            ),
        )

    def on_expiry(self, keyed: KeyedRecords) -> Update:
        """Call `expire_key` for each key."""
        return self._each(keyed, lambda i, key, state: self.expire_key(key, state, keyed.watermark))

    def _each(self, keyed: KeyedRecords, call: Any) -> Update:
        rows = PythonRows()
        states = PythonStates()
        seconds = np.zeros(len(keyed))
        keys = to_python(keyed.keys)
        held = to_python(keyed.states)
        for i, (key, state) in enumerate(zip(keys, held, strict=True)):
            begin = time.perf_counter()
            results, new = call(i, key, state)
            for row in results:
                rows.append({**key, **row})
                rows.names.update(row)
            seconds[i] = time.perf_counter() - begin
            states.append(new)
            states.names.update(new or ())
        rows.names -= set(keyed.keys.column_names)
        return Update(rows, states, seconds)


class PythonRows(list[dict[str, Any]]):
    """Result rows in Python, which become a table where the schema is known."""

    def __init__(self) -> None:
        """Begin with no rows."""
        super().__init__()
        self.names: set[str] = set()  # of all fields, but those of the key


class PythonStates(list[Row | None]):
    """States in Python, which become structs where the schema is known."""

    def __init__(self) -> None:
        """Begin with no states."""
        super().__init__()
        self.names: set[str] = set()  # of all fields


def moment(micros: int | None) -> datetime | None:
    """Return microseconds since 1970 as a time of Python; the nearest one for what is beyond."""
    if micros is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        end = datetime.max if micros > 0 else datetime.min
        return end.replace(tzinfo=timezone.utc)

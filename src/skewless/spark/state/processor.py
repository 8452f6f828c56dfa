"""What a user writes: how records and the state of a key become results and a new state."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from skewless.aggregations.python_values import to_python
from skewless.arrays import Floats, Ints
from skewless.plumbing.arguments import shown, whole
from skewless.spark.state.versions.growing_lists import HeldList, HeldLists
from skewless.state import MOST_COUNTED

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

Row = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class KeyedRecords:
    """The records of many keys, and the state of each.

    Parameters
    ----------
    keys
        One row per key, with the key's columns.
    records
        All records, with the columns of the DataFrame: those of the first key, those of the
        second, and so on. The records of a key are in source order.
    starts
        Where the records of each key begin, and as the last number how many records there are.
        Those of key i are the rows starts[i] … starts[i + 1] − 1.
    states
        One struct per key, with the fields of the state; null where there is no state. Fields that
        grow are null: `lists` has them.
    watermark
        No record with this time or an earlier one follows. None: there is no watermark, or none
        yet. If the processor's `clock` is "processing": the time of the micro-batch.
    times
        In `on_timer`, the time of each key's timer; otherwise None.
    lists
        The fields that grow, by name. `lists["items"].lengths` has the length of each key's list.
        `lists["items"].read()` returns the lists of all keys as an Arrow array, and `read([0, 2])`
        those of some keys, by their numbers. Only what is read costs time and memory.
    """

    keys: pa.Table
    records: pa.Table
    starts: Ints
    states: pa.StructArray
    watermark: datetime | None = None
    times: pa.Array | None = None
    lists: Mapping[str, HeldLists] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def positions(self) -> Ints:
        """The number of the key of each record."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.starts))


class Update(NamedTuple):
    """The results and new states of some keys.

    Parameters
    ----------
    results
        Rows of the result, as an Arrow table with the columns of `result_schema`; None: no rows.
    states
        One struct per key, in the order of the keys. Null: the state is forgotten. A field that
        grows has the elements that are appended; null: none.
    costs
        What each key cost, in any unit, if the processor measures that. None: `process` measures
        it.
    work
        What was done for each key, in units of a record, if that is more than its records: a join
        makes pairs. It counts as so many records. None: as its records.
    keeps
        Of fields that grow, by name: how many of the held elements of each key stay, the newest
        ones. The others are forgotten before elements are appended: 0 clears the list. A field
        that is not named keeps all.
    """

    results: pa.Table | None
    states: pa.StructArray
    costs: Floats | None = None
    work: Ints | None = None
    keeps: Mapping[str, Ints] = MappingProxyType({})


class Append(list[Any]):
    """Elements that a `KeyProcessor` appends to a field that grows.

    With `keeps`, only so many of the held elements stay, the newest ones: `Append([x], keeps=9)`
    holds the last ten, and `Append(keeps=0)` clears the list.

    >>> Append("ab", keeps=9), Append("ab", keeps=9).keeps
    (['a', 'b'], 9)
    """

    def __init__(self, elements: Iterable[Any] = (), *, keeps: int | None = None) -> None:
        super().__init__(elements)
        self.keeps = MOST_COUNTED if keeps is None else whole(keeps, "keeps", least=0)


class Processor(ABC):
    """Base class for your logic on keyed state: `update` gets many keys at once, as Arrow columns.

    A method must return the same for the same input: no clocks, no random numbers. A task may run
    again, and a key may be on another worker in each micro-batch. Keep nothing in `self` between
    two calls.

    A state with a timestamp field `expires` ends when the watermark passes that time. `on_expiry`
    then gets it, before `update` gets records of the same key: those are all later.

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

    #: The fields of a state: DDL such as "n bigint, expires timestamp", or a StructType. Set it on
    #: the class, or on the object if it depends on the arguments of the constructor.
    state_schema: str | StructType
    #: The columns of the results, in the same way.
    result_schema: str | StructType
    #: A state is forgotten after this long without a record, in event time: "2 hours". None: never.
    #: A call of `on_expiry` does not count as a record. If `expires` is earlier, it comes first.
    ttl: str | None = None
    #: The name of a field of the state, of type array<timestamp>: the timers of the key. When the
    #: watermark passes the earliest one, `on_timer` is called. None: there are no timers.
    timers: str | None = None
    #: Names of fields of the state, of type array<…>, that grow. A micro-batch writes what is
    #: appended, and reads what a method asks for, however much a key holds. A KeyProcessor
    #: returns `Append([…])` for the field, and gets a sequence that is read when it is used. See
    #: `KeyedRecords.lists` and `Update.keeps` for a Processor.
    growing: Sequence[str] = ()
    #: Which time `ttl`, `expires` and timers follow. "event": the watermark. "processing": the time
    #: at which Spark began the micro-batch, which `watermark` then is; a repeated micro-batch has
    #: the same time. Then there is no `watermark=`, and no record is late.
    clock: Literal["event", "processing"] = "event"
    #: Set by the join of streams, in microseconds: its states are lists of rows, of which each is
    #: stored by itself and held for so long.
    holds_rows_for: int | None = None
    #: What states mean beyond their schema, as texts by name, such as {"unit": "seconds"}. They are
    #: kept with the states, and a restart with other texts is refused. Set it on the class or the
    #: object.
    meaning: Mapping[str, str] = MappingProxyType({})
    #: Fields of `state_schema` that had another name when states were written, as new names by old
    #: ones: {"n": "clicks"}. It can stay when all states have the new names.
    renamed: Mapping[str, str] = MappingProxyType({})
    #: Set by the join of streams: a boolean column that is true for the records of a second stream.
    #: The watermark then follows the slower stream, and begins when both have a record.
    second_stream: str | None = None

    @abstractmethod
    def update(self, keyed: KeyedRecords) -> Update:
        """Return the results and the new states of keys that have records, at least one each."""

    def on_expiry(self, keyed: KeyedRecords) -> Update:
        """Return the results and new states of keys whose `expires` has passed; without records.

        By default, their states are forgotten without a result. A state that is kept should get a
        later `expires`; otherwise this is called for it again in the next micro-batch. If the later
        time has passed too, it is called again at once. At the end of a batch DataFrame, it is
        called until no state has an `expires`; a state that is renewed without end is refused.
        """
        return Update(None, pa.nulls(len(keyed), keyed.states.type))

    def on_timer(self, keyed: KeyedRecords) -> Update:
        """Return the results and new states of keys that have a timer which fires; without records.

        `keyed.times` has the time of each key's timer. It is no longer among the timers of
        `keyed.states`. Timers of a key fire one after the other in the order of their times, before
        records of the same key are processed, and with `expires` in the same order. By default,
        states are kept without a result. A timer that is added at a time that has passed fires at
        once if it is later than the one that fires, and otherwise in the next micro-batch, unless
        the ttl has passed. Of more than 1,000 timers of a key that are due at once, the others fire
        in the next micro-batch.
        """
        return Update(None, keyed.states)


class KeyProcessor(Processor):
    """Base class for your logic on keyed state, one key at a time, in plain Python.

    It is easier to write than a `Processor`, but slower: it costs a call per key. The seconds of
    each key are measured.

    Examples
    --------
    >>> class Visits(KeyProcessor):
    ...     state_schema = "n bigint"
    ...     result_schema = "user string, n bigint"
    ...
    ...     def update_key(self, key, records, state, watermark):
    ...         n = (state["n"] if state else 0) + len(records)
    ...         return [{"n": n}], {"n": n}

    A list that grows is appended to, and read when it is needed:

    >>> class Orders(KeyProcessor):
    ...     state_schema = "items array<string>"
    ...     result_schema = "user string, items array<string>"
    ...     growing = ["items"]
    ...
    ...     def update_key(self, key, records, state, watermark):
    ...         new = [record["item"] for record in records]
    ...         if "pay" not in new:
    ...             return [], {"items": Append(new)}
    ...         return [{"items": [*(state["items"] if state else []), *new]}], None
    """

    @abstractmethod
    def update_key(
        self,
        key: Row,
        records: Sequence[Row],
        state: dict[str, Any] | None,
        watermark: datetime | None,
    ) -> tuple[Iterable[Row], Row | None]:
        """Return the result rows and the new state of one key; a state of None is forgotten.

        A column of the key need not be repeated in the result rows.
        """

    def expire_key(
        self, key: Row, state: dict[str, Any], watermark: datetime | None
    ) -> tuple[Iterable[Row], Row | None]:
        """Return the same for a key whose `expires` has passed; by default, no rows and None."""
        return (), None

    def timer_key(
        self, key: Row, state: dict[str, Any], time: datetime, watermark: datetime | None
    ) -> tuple[Iterable[Row], Row | None]:
        """Return the same for a key whose timer of `time` fires; by default, no rows and `state`.

        That timer is no longer in the field that `timers` names.
        """
        return (), state

    def update(self, keyed: KeyedRecords) -> Update:
        """Call `update_key` for each key."""
        records, starts = to_python(keyed.records), keyed.starts.tolist()

        def call(i: int, key: Row, state: dict[str, Any]) -> Any:
            return self.update_key(key, records[starts[i] : starts[i + 1]], state, keyed.watermark)

        return self._each(keyed, call, "update_key")

    def on_expiry(self, keyed: KeyedRecords) -> Update:
        """Call `expire_key` for each key."""

        def call(i: int, key: Row, state: dict[str, Any]) -> Any:
            return self.expire_key(key, state, keyed.watermark)

        return self._each(keyed, call, "expire_key")

    def on_timer(self, keyed: KeyedRecords) -> Update:
        """Call `timer_key` for each key."""
        times = to_python(keyed.times)

        def call(i: int, key: Row, state: dict[str, Any]) -> Any:
            return self.timer_key(key, state, times[i], keyed.watermark)

        return self._each(keyed, call, "timer_key")

    def _each(self, keyed: KeyedRecords, call: Any, method: str) -> Update:
        rows, states = PythonValues(), PythonValues()
        seconds = np.zeros(len(keyed))
        keys = to_python(keyed.keys)
        held = to_python(keyed.states)
        keeps = {name: np.full(len(keyed), MOST_COUNTED) for name in keyed.lists}
        for i, (key, state) in enumerate(zip(keys, held, strict=True)):
            begin = time.perf_counter()
            for name, lists in keyed.lists.items() if state else ():
                state[name] = HeldList(lists, i)
            returned = call(i, key, state)
            if not _is_pair(returned):
                self._refuse(method, returned)
            results, new = returned
            for row in results:
                if not isinstance(row, Mapping):
                    self._refuse(method, returned, f", whose row {shown(row)} is no dict")
                rows.append({**key, **row})
                rows.names.update(row)
            seconds[i] = time.perf_counter() - begin
            for name in keeps if new else ():
                added = self._appended(name, new, keyed.lists[name])
                new = {**new, name: added}
                keeps[name][i] = added.keeps
            states.append(new)
        rows.names -= set(keyed.keys.column_names)
        return Update(rows, states, seconds, keeps=keeps)

    def _appended(self, name: str, state: Row, lists: HeldLists) -> Append:
        """Take from a new state what it appends to a field that grows."""
        added = state.get(name)
        if added is None or (isinstance(added, HeldList) and added.every is lists):
            return Append()
        if isinstance(added, Append):
            return added
        raise ValueError(
            f"{type(self).__name__}: the field {name!r} grows, so a state must have Append([…]) "
            "for it, with the new elements only, or what the method got, or None; not "
            f"{shown(added)}"
        )

    def _refuse(self, method: str, returned: Any, why: str = "") -> NoReturn:
        raise ValueError(
            f"{type(self).__name__}: {method} must return two things, a list of result rows and "
            "the new state: return [{…}, {…}], {…}; without rows return [], {…}; to forget the "
            f"state return [], None. It returned {shown(returned)}{why}"
        )


def _is_pair(returned: Any) -> bool:
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        return False
    rows, state = returned
    is_rows = isinstance(rows, Iterable) and not isinstance(rows, Mapping | str)
    return is_rows and (state is None or isinstance(state, Mapping))


class PythonValues(list[Any]):
    """Result rows, or states, in Python; the schema turns them into Arrow later."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()  # of the fields of rows, but those of the key


def moment(micros: int | None) -> datetime | None:
    """Return microseconds since 1970 as a Python datetime, the nearest one if out of range."""
    if micros is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        end = datetime.max if micros > 0 else datetime.min
        return end.replace(tzinfo=timezone.utc)

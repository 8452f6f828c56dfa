"""What `join` does on a worker: finds the pairs of two sides, for all keys at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as T

from skewless.aggregations.columns import bitmap_of, plain
from skewless.arrays import Ints
from skewless.spark.columns import internal
from skewless.spark.state.operators import held_rows
from skewless.spark.state.operators.held_rows import ByKeyAndTime, held
from skewless.spark.state.processor import KeyedRecords, Processor, Update
from skewless.spark.state.versions import state_tables

#: Columns of the rows that `join` processes: side, time, and the record in its side's column.
SIDE, TIME, LEFT, RIGHT = internal("side"), internal("time"), internal("left"), internal("right")
_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True)
class Side:
    """One side of a join: the column of its records, and their fields without the key."""

    name: str
    fields: T.StructType

    @property
    def held(self) -> T.StructField:
        """The field of a state that holds its rows, with their times and whether they matched."""
        row = T.StructType().add("time", T.LongType()).add("met", T.BooleanType())
        row.add("row", self.fields)
        return T.StructField(self.name, T.ArrayType(row))


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of one side: those that are held, and then new ones."""

    codes: Ints  # the number of the key
    times: Ints
    met: state_tables.Flags
    rows: Any  # structs
    n_held: int

    def where(self, flags: state_tables.Flags) -> _Rows:
        """Return some of the rows."""
        rows = self.rows.filter(pa.array(flags))
        n_held = int(flags[: self.n_held].sum())
        return _Rows(self.codes[flags], self.times[flags], self.met[flags], rows, n_held)


class Join(Processor):
    """Keeps the rows of both sides for as long as a row of the other side may match them."""

    second_stream = SIDE

    def __init__(
        self,
        result_schema: T.StructType,  # the key, the fields of the left side, those of the right
        key: list[str],  # the columns that are compared
        sides: tuple[Side, Side],  # left and right
        kept: tuple[bool, bool],  # whether rows of each side are returned without a match
        within: int,  # the most time between the rows of a pair, in microseconds
    ) -> None:
        self.result_schema = result_schema
        self.names = result_schema.names
        self.state_schema = T.StructType([side.held for side in sides])
        self.state_schema.add("expires", T.TimestampType())
        self.key, self.sides, self.kept, self.within = key, sides, kept, within
        #: Each held row is stored by itself. `update` gets those that a new row may match.
        self.holds_rows_for = within

    def update(self, keyed: KeyedRecords) -> Update:
        """Return the pairs with a new row, and new rows that can have no match."""
        times = state_tables.micros_of(keyed.records[TIME])
        codes = keyed.positions
        meets = (times != state_tables.NO_TIME) & self._comparable(keyed)[codes]
        is_right = plain(keyed.records[SIDE]).to_numpy(zero_copy_only=False)
        results, parts = [], []
        for number, side in enumerate(self.sides):
            mine = is_right == bool(number)
            rows = plain(keyed.records[side.name])
            if self.kept[number]:
                alone = mine & ~meets
                lonely = rows.filter(pa.array(alone))
                results.append(self._alone(keyed, number, codes[alone], lonely))
            new = mine & meets
            old = self._held(keyed, side)
            both = pa.concat_arrays([old.rows, rows.filter(pa.array(new)).cast(old.rows.type)])
            every = np.concatenate([old.codes, codes[new]])
            ends = np.concatenate([old.times, times[new]])
            met = np.concatenate([old.met, np.zeros(int(new.sum()), np.bool_)])
            parts.append(_Rows(every, ends, met, both, old.n_held))
        left, right = parts
        a, b = self._pairs(left, right)
        left.met[a] = True
        right.met[b] = True
        pairs = [part.rows.take(pa.array(at)) for part, at in ((left, a), (right, b))]
        results.append(self._results(keyed, left.codes[a], pairs[0], pairs[1]))
        states = self._states(parts, len(keyed))
        work = np.bincount(left.codes[a], minlength=len(keyed))
        return Update(pa.concat_tables(results), states, work=work)

    def on_expiry(self, keyed: KeyedRecords) -> Update:
        """Forget rows that no further row can match; return those without a match."""
        results, parts = [], []
        for number, side in enumerate(self.sides):
            old = self._held(keyed, side)
            over = state_tables.later(old.times, self.within) <= held_rows.watermark_of(keyed)
            if self.kept[number]:
                alone = old.where(over & ~old.met)
                results.append(self._alone(keyed, number, alone.codes, alone.rows))
            parts.append(old.where(~over))
        rows = pa.concat_tables(results) if results else None
        return Update(rows, self._states(parts, len(keyed)))

    def _pairs(self, left: _Rows, right: _Rows) -> tuple[Ints, Ints]:
        """Return the pairs with a new row: a pair is found in the batch of its later row."""
        old, new = np.arange(left.n_held), np.arange(left.n_held, left.codes.size)
        recent = np.arange(right.n_held, right.codes.size)
        every = np.arange(right.codes.size)
        pairs = [self._near(left, new, right, every), self._near(left, old, right, recent)]
        a, b = (np.concatenate(some) for some in zip(*pairs, strict=True))
        return a, b

    def _near(self, left: _Rows, mine: Ints, right: _Rows, theirs: Ints) -> tuple[Ints, Ints]:
        """Return the pairs of some rows that are near each other."""
        if not mine.size or not theirs.size:
            return _NOTHING, _NOTHING
        index = ByKeyAndTime(right.codes[theirs], right.times[theirs])
        times, within = left.times[mine], self.within
        begin, end = state_tables.earlier(times, within), state_tables.later(times, within)
        first, last = index.between(left.codes[mine], begin, end)
        found = index.order[state_tables.every_row(first, last)]
        return np.repeat(mine, last - first), theirs[found]

    def _comparable(self, keyed: KeyedRecords) -> state_tables.Flags:
        """Return which keys can equal another one: those without a null."""
        flags: state_tables.Flags = np.ones(len(keyed), np.bool_)
        for name in self.key:
            flags &= bitmap_of(plain(keyed.keys[name]))
        return flags

    def _held(self, keyed: KeyedRecords, side: Side) -> _Rows:
        values, codes = held(keyed, side.name)
        times, met, rows = values.flatten()
        flags = met.to_numpy(zero_copy_only=False).astype(np.bool_)
        return _Rows(codes, times.to_numpy(zero_copy_only=False), flags, rows, codes.size)

    def _states(self, parts: list[_Rows], n_keys: int) -> pa.StructArray:
        """Return states of these rows; each ends when its first row can have no further match."""
        fields = {}
        for side, part in zip(self.sides, parts, strict=True):
            arrays = [pa.array(part.times), pa.array(part.met), part.rows]
            names = ["time", "met", "row"]
            fields[side.name] = (pa.StructArray.from_arrays(arrays, names), part.codes)
        ends = state_tables.later(np.concatenate([part.times for part in parts]), self.within)
        codes = np.concatenate([part.codes for part in parts])
        return held_rows.states_of(fields, ends, codes, n_keys)

    def _alone(self, keyed: KeyedRecords, number: int, codes: Ints, rows: Any) -> pa.Table:
        """Return rows of one side without any of the other."""
        other = keyed.states.type.field(self.sides[1 - number].name).type.value_type.field("row")
        pair = [rows, pa.nulls(len(rows), other.type)]
        return self._results(keyed, codes, *(pair if number == 0 else reversed(pair)))

    def _results(self, keyed: KeyedRecords, codes: Ints, left: Any, right: Any) -> pa.Table:
        at = pa.array(codes)
        keys = [keyed.keys[name].take(at) for name in self.key]
        # `flatten` gives null fields for a null row.
        columns = [field for row in (left, right) for field in row.flatten()]
        return pa.table([*keys, *columns], self.names)

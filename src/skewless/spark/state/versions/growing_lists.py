"""Lists that grow: items are appended without reading the others, which are read if asked for.

Items of a list have consecutive places, beginning with a number that no earlier list of the key has
had. So an item that does not count any more is never mistaken for another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.aggregations.columns import exploded, lists
from skewless.aggregations.python_values import to_python
from skewless.arrays import Ints, Keys
from skewless.spark.state.versions.held_state import row_bytes
from skewless.spark.state.versions.row_tables import OWNER, near, table_of_items
from skewless.spark.state.versions.state_tables import (
    FOREVER,
    StateLayout,
    column_of,
    spans_of,
    values_of,
)

#: A micro-batch appends fewer items to a list than this: a column of Arrow holds no more.
_OF_BATCH = 1 << 32


@dataclass(frozen=True, eq=False)
class HeldLists:
    """A growing list of many keys: `lengths`, and `read` for its elements."""

    appending: Appending
    number: int  # of the list
    hashes: Keys
    keys: Sequence[Any]
    first: Ints
    end: Ints
    bytes: Ints

    @property
    def lengths(self) -> Ints:
        """The number of elements of each key's list, which is known without reading them."""
        return self.end - self.first

    def read(self, which: Any = None) -> Any:
        """Return the lists of some keys, by their numbers, as an Arrow array; None: of all keys.

        It takes time and memory for the elements that are read, and for no others.
        """
        asked = np.arange(self.hashes.size) if which is None else np.asarray(which, np.int64)
        # A key that is asked for twice is read once.
        wanted, places = np.unique(asked, return_inverse=True)
        some, layout = self.of(wanted), self.appending.layout
        nothing = np.ones(wanted.size, np.int64), np.zeros(wanted.size, np.int64)
        spans = [nothing] * len(layout.growing)
        spans[self.number] = some.first, some.end - 1
        tables = [*self.appending.tables, *self.appending.new]
        found = near(layout, tables, some.hashes, some.keys, spans)
        items = column_of(found, layout.item_names[self.number])
        whole = lists(items, values_of(found, OWNER), wanted.size)
        return whole.cast(layout.state.field(layout.growing[self.number]).type).take(places)

    def of(self, which: Ints) -> HeldLists:
        """Return the lists of some keys."""
        keys = [key.take(pa.array(which)) for key in self.keys]
        numbers = {name: getattr(self, name)[which] for name in ("first", "end", "bytes")}
        return replace(self, hashes=self.hashes[which], keys=keys, **numbers)


class HeldList(Sequence[Any]):
    """A growing list of one key. Its elements are read when the first one is asked for."""

    def __init__(self, every: HeldLists, number: int) -> None:
        self.every, self._number = every, number

    @cached_property
    def _elements(self) -> list[Any]:
        (found,) = to_python(self.every.read([self._number]))
        return list(found)

    def __len__(self) -> int:
        """Return the number of elements, without reading them."""
        return int(self.every.lengths[self._number])

    def __getitem__(self, at: Any) -> Any:
        return self._elements[at]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._elements)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | HeldList) or len(self) != len(other):
            return False
        return self is other or self._elements == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Describe the list without reading its elements."""
        return f"<a growing list of {len(self)} elements>"


@dataclass(frozen=True, eq=False)
class Appending:
    """The growing lists of a worker in a micro-batch: what it held, and what was appended."""

    layout: StateLayout
    tables: Sequence[pa.Table]
    batch: int
    new: list[pa.Table] = field(default_factory=list)

    def given(
        self, heads: Any, hashes: Keys, keys: Sequence[Any]
    ) -> tuple[Any, dict[str, HeldLists]]:
        """Return states as a processor gets them, in which growing lists are null, and the lists.

        `heads` are the states as they are stored.
        """
        fields, found, is_null = heads.flatten(), {}, heads.is_null()
        is_new = is_null.to_numpy(zero_copy_only=False)
        for number, name in enumerate(self.layout.growing):
            place = heads.type.get_field_index(name)
            first, end, n_bytes = spans_of(heads, name)
            # A state without the field, which was added, has had no list: its items begin at 0. It
            # may be forgotten and begin again in this micro-batch.
            first, end = (np.where(is_new, self.batch * _OF_BATCH, one) for one in (first, end))
            found[name] = HeldLists(self, number, hashes, keys, first, end, n_bytes)
            fields[place] = pa.nulls(len(heads), self.layout.state.field(name).type)
        states = pa.StructArray.from_arrays(fields, fields=list(self.layout.struct), mask=is_null)
        return states, found

    def taken(self, states: Any, held: Mapping[str, HeldLists], keeps: Mapping[str, Ints]) -> Any:
        """Return states as they are stored, after what they append was added to `new`.

        `keeps` says how many of the held items stay, the newest ones.
        """
        fields, n_keys = states.flatten(), len(states)
        for number, name in enumerate(self.layout.growing):
            one, place = held[name], states.type.get_field_index(name)
            items, owners = exploded(fields[place], np.arange(n_keys))
            kept = np.minimum(keeps.get(name, one.lengths), one.lengths)
            share = kept / np.maximum(one.lengths, 1)
            n_new = np.bincount(owners, minlength=n_keys)
            added = np.bincount(owners, row_bytes([items]), n_keys)
            n_bytes = (one.bytes * share + added).astype(np.int64)
            places = np.arange(owners.size) + (one.end - (np.cumsum(n_new) - n_new))[owners]
            if owners.size:
                keys = [key.take(pa.array(owners)) for key in one.keys]
                nothing, ends = np.zeros(owners.size, np.int64), np.full(owners.size, FOREVER)
                own = (one.hashes[owners], keys, number, items, nothing, ends, places)
                self.new.append(table_of_items(self.layout, *own))
            arrays = [pa.array(part) for part in (one.end - kept, one.end + n_new, n_bytes)]
            fields[place] = pa.StructArray.from_arrays(arrays, ["first", "end", "bytes"])
        kind = list(self.layout.heads.struct)
        return pa.StructArray.from_arrays(fields, fields=kind, mask=states.is_null())

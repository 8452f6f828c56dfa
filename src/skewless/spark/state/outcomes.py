"""The outcome of a batch on one worker, and of one call of the processor.

Late records and errors are rows among the results, each kind in a column that asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.arrays import Floats, Ints, Keys
from skewless.spark.state.grouping import SentColumns, grouped
from skewless.spark.state.processor import KeyedRecords
from skewless.spark.state.versions.column_room import ColumnTooLarge
from skewless.spark.state.versions.state_tables import column_of, every_row


@dataclass(frozen=True, eq=False)
class Part:
    """The outcome of one call of the processor; `changed` is in the order of the keys."""

    results: pa.Table
    changed: pa.Table  # rows of states that are written
    counts: Ints  # records
    work: Ints  # records, or what was done for them if that is more
    costs: Floats
    seconds: float = 0.0
    n_rounds: int = 0  # how often in a row states have ended
    failed: Any = None  # errors of keys, as structs


@dataclass(frozen=True, eq=False, kw_only=True)
class Worked(Part):
    """The outcome of one batch on one worker.

    The arrays have one number per key that had records or, unless the rows of a key are stored one
    by one, whose state expired.
    """

    n_held: int  # states that are held, more than before; or rows
    n_bytes: int  # of them, more than before
    hashes: Keys
    keys: list[Any]
    sizes: Ints  # of states, in bytes
    latest: int | None = None  # time of a record, in microseconds
    latest_second: int | None = None  # the same for the second stream, if there is one
    n_second: Ints | None = None  # records of that stream, of a join
    n_late: int = 0


def rows_with_sides(results: pa.Table, sides: dict[str, Any], schema: pa.Schema) -> pa.Table:
    """Return results, and structs as rows of their own, each in the column of its name."""
    tables = []
    for table in (results, *(pa.table({name: structs}) for name, structs in sides.items())):
        found = dict(zip(table.column_names, table.columns, strict=True))
        columns = [found.get(one.name, pa.nulls(table.num_rows, one.type)) for one in schema]
        tables.append(pa.table(columns, schema=schema))
    return pa.concat_tables(tables)


def late_type(sent: SentColumns) -> pa.DataType:
    """Return the type of late records: all columns."""
    kinds = sent.schema.types[-len(sent.names) :]
    return pa.struct([pa.field(*pair) for pair in zip(sent.names, kinds, strict=True)])


def late_structs(late: pa.Table, sent: SentColumns) -> Any:
    """Return late records in source order."""
    kind = late_type(sent)
    if not late.num_rows:
        return pa.nulls(0, kind)
    records = grouped(late, None, sent).records
    fields = [column_of(records, name) for name in sent.names]
    return pa.StructArray.from_arrays(fields, fields=list(kind))


def error_type(key: pa.Schema) -> pa.DataType:
    """Return the type of errors: the key, the class of the error, and its message."""
    texts = [pa.field(name, pa.string()) for name in ("error", "message")]
    return pa.struct([pa.field("key", pa.struct(list(key))), *texts])


def error_structs(keys: pa.Table, failed: dict[int, Exception]) -> Any:
    """Return the errors of some keys, by their numbers."""
    own = keys.take(pa.array(list(failed), pa.int64())).combine_chunks()
    names = pa.array([type(error).__name__ for error in failed.values()])
    # Arrow has no lone surrogates, which Python's texts may have.
    texts = [str(error).encode(errors="backslashreplace") for error in failed.values()]
    messages = pa.array(texts, pa.string())
    kind = error_type(keys.schema)
    columns = [column_of(own, name) for name in own.column_names]
    key = pa.StructArray.from_arrays(columns, fields=list(keys.schema))
    return pa.StructArray.from_arrays([key, names, messages], fields=list(kind))


def failing(
    keyed: KeyedRecords, call: Callable[[KeyedRecords], Any], first: Exception
) -> dict[int, Exception]:
    """Return the keys for which a call fails, by their numbers; for all it fails with `first`.

    Keys may be processed together or apart. So halves are tried, until one key is left.
    """
    failed: dict[int, Exception] = {}

    def seek(which: Ints, error: Exception) -> None:
        if which.size == 1:
            failed[int(which[0])] = error
            return
        for half in np.array_split(which, 2):
            other = _error_of(call, some_keys(keyed, half))
            if other is not None:
                seek(half, other)

    seek(np.arange(len(keyed)), first)
    if not failed:
        raise first  # the keys fail together, and not apart
    return failed


def _error_of(call: Callable[[KeyedRecords], Any], keyed: KeyedRecords) -> Exception | None:
    try:
        call(keyed)
    except (MemoryError, ColumnTooLarge):
        raise
    except Exception as error:
        return error
    return None


def some_keys(keyed: KeyedRecords, which: Ints) -> KeyedRecords:
    """Return some keys with their records and states."""
    first, end, at = keyed.starts[which], keyed.starts[which + 1], pa.array(which)
    starts = np.concatenate([[0], np.cumsum(end - first)])
    records, states = keyed.records.take(pa.array(every_row(first, end))), keyed.states.take(at)
    lists = {name: one.of(which) for name, one in keyed.lists.items()}
    keys = keyed.keys.take(at)
    return KeyedRecords(keys, records, starts, states, keyed.watermark, lists=lists)

"""Late records as rows among the results: one more column has them, and is null for results."""

from __future__ import annotations

import pyarrow as pa

from skewless.spark.state.grouping import SentColumns, grouped
from skewless.spark.state.versions.state_tables import column_of


def late_schema(result: pa.Schema, name: str | None, sent: SentColumns) -> pa.Schema:
    """Return the schema of results with the column of late records, if there is one."""
    if name is None:
        return result
    kinds = sent.schema.types[-len(sent.names) :]
    record = pa.struct([pa.field(*pair) for pair in zip(sent.names, kinds, strict=True)])
    nullable = [pa.field(one.name, one.type) for one in result]
    return pa.schema([*nullable, pa.field(name, record)])


def rows_with_late(
    results: pa.Table, late: pa.Table, schema: pa.Schema, sent: SentColumns
) -> pa.Table:
    """Return results and late records as rows of `schema`; late records are in source order."""
    none = pa.nulls(results.num_rows, schema.types[-1])
    rows = pa.table([*results.columns, none], schema=schema)
    if not late.num_rows:
        return rows
    records = grouped(late, None, sent).records
    fields = [column_of(records, name) for name in sent.names]
    record = pa.StructArray.from_arrays(fields, fields=list(schema.types[-1]))
    nulls = [pa.nulls(late.num_rows, kind) for kind in schema.types[:-1]]
    return pa.concat_tables([rows, pa.table([*nulls, record], schema=schema)])

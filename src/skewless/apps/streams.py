"""Running a stream to its end, and stopping it when somebody interrupts."""

from __future__ import annotations

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

_LOOK_EVERY_S = 0.5


def finish(writer: DataStreamWriter) -> StreamingQuery:
    """Start the query and wait until it has ended; it is stopped if we are interrupted."""
    query = writer.start()
    try:
        # In small steps: Python sees an interrupt between two calls to Java.
        while not query.awaitTermination(_LOOK_EVERY_S):  # type: ignore[arg-type]
            pass
    finally:
        if query.isActive:
            query.stop()
    return query

"""Running a stream to its end, and stopping it on an interrupt."""

from __future__ import annotations

import time

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

_LOOK_EVERY_S = 0.1


def finish(writer: DataStreamWriter) -> StreamingQuery:
    """Start the query and wait until it has ended; it is stopped if we are interrupted."""
    query = writer.start()
    try:
        # Asleep, not inside a call to Java, which takes an interrupt badly.
        while query.isActive:
            time.sleep(_LOOK_EVERY_S)
        query.awaitTermination()  # raises what went wrong
    finally:
        if query.isActive:
            query.stop()
    return query

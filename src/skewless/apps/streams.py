"""Runs a stream to its end, and stops it on an interrupt."""

from __future__ import annotations

import time

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

_LOOK_EVERY_S = 0.1


def finish(writer: DataStreamWriter) -> StreamingQuery:
    """Start the query and wait until it has ended; an interrupt stops it."""
    query = writer.start()
    try:
        # Sleep here, because an interrupt inside a call to Java breaks the connection.
        while query.isActive:
            time.sleep(_LOOK_EVERY_S)
        query.awaitTermination()  # raises what went wrong
    finally:
        if query.isActive:
            query.stop()
    return query

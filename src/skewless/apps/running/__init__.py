"""A Spark session that people watch, and a stream that runs to its end."""

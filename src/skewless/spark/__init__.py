"""On Spark."""

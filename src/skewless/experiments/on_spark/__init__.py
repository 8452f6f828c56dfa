"""What was measured on Spark: the tables, from the records of `benchmarks/`."""

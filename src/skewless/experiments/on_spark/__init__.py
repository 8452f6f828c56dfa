"""What was measured on Spark: the tables, from the records of `benchmarks/`.

Read `stateful_operators` first, the smallest. It is about `process`, as are `keyed_state` and
`held_keys`. `spark_speed` is about `route`; `alternatives` and `break_even` compare it with what a
user could write, `aggregate_speed` does so for `aggregate`, and `skewed_writes` for files. `public`
and `tpch_q5` are published workloads. `spark_versions` says what works on which Spark.
"""

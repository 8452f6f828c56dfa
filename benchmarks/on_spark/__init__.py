"""What is measured on Spark. Read `benchmarks.turns` first, then `stateful_operators`, a small one.

That one is about `process`, as are `keyed_state_mixed` and `held_keys`.
`spark_speed` and `learning_together` are about `route`; `spark_alternatives` and `break_even`
compare it with what a user could write, `aggregate_speed` does so for `aggregate`, and
`skewed_writes` for files. `skewed_joins` is about `join`. `public` and `tpch_q5` are published
workloads. `spark_versions` says what works on which Spark, and `replay_validation` how exact the
replay of an event log is.
"""

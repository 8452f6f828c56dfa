"""What is measured on Spark. Read `benchmarks.turns` first, then `micro_batches`, a small one.

`by_replay` compares all ways to partition, aggregate, join and write; `ways` has them, `cells.toml`
says on what, and `ways_tables` shows the results. `replay_validation` says how exact such a replay
is. `micro_batches` and `keyed_state_mixed` are about keyed state, `learning_together`
about `route` on streams and, with the small streams of `sleeping`, about `aggregate`. `public` has
published workloads.
"""

"""States on disk and in memory: one version per micro-batch, worker and run.

`names` has the names of the files, `version_files` their content. `state_tables` are the tables
that they hold, and `held_state` is a stack of them. `bases` finds the version that a batch builds
on, and `purging` deletes old ones. `same_keys` compares keys, `row_bytes` measures rows,
`column_room` refuses columns that are too large, and `kept_files` is a cache.
"""

"""States on disk and in memory: one version per micro-batch, worker and run.

`version_files` has the content of the files: the states of a worker, and its report. `state_tables`
are the tables that they hold, `row_tables` those with several rows per key, and `held_state` is a
stack of them. `bases` finds the version that a batch builds on, with the stamps of `offset_log`,
and deletes old ones. `column_room` refuses columns that are too large.
"""

"""States on disk and in memory: one version per micro-batch, worker and run.

`names` says what the files are called, `version_files` what is in them. `state_tables` are the
tables that they hold, `held_state` is a stack of them. `bases` says which version a batch builds
on, and `purging` when one is deleted. `same_keys` compares keys, `row_bytes` weighs rows.
"""

"""Finds out whether skew is a problem: of a job, from its event log, or of a key column.

`event_log` reads what Spark wrote about a job, and `stages` sums it up. `stragglers` finds the
stages whose slowest task is far above the others and says what would help. `key_column` diagnoses
records.
"""
